// On pages that zensical has not made: the colours that the reader has chosen on those that it has.

const book = new URL("../", document.currentScript.src).pathname;
const chosen = JSON.parse(localStorage.getItem(`${book}.__palette`) ?? "null")?.color;
const isSystems = !chosen || chosen.media === "(prefers-color-scheme)"; // then its scheme says nothing
const isDark = isSystems ? matchMedia("(prefers-color-scheme: dark)").matches : chosen.scheme === "slate";
document.documentElement.dataset.theme = isDark ? "dark" : "light";
