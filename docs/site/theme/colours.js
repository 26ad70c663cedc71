// On pages that zensical has not made: the colours that the reader has chosen on those that it has.

const book = new URL("../", document.currentScript.src).pathname;
const chosen = JSON.parse(localStorage.getItem(`${book}.__palette`) ?? "null")?.color?.scheme;
const isDark = chosen ? chosen === "slate" : matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = isDark ? "dark" : "light";
