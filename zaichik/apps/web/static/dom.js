// Elements, numbers and times. What clients have sent becomes text nodes and never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. A function among its attributes listens; null, undefined and false are left out. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export const button = (text, onclick, attributes) => h("button", { type: "button", onclick, ...attributes }, text);

/** The same in a drawing. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes = {}, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Give an element this text. A node that does not change is not laid out again. */
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Let an element have just these children. None moves that is in its place, and none loses the focus. */
export function fill(parent, children) {
  const focused = document.activeElement;
  children.forEach((child, index) => {
    if (parent.childNodes[index] !== child) parent.insertBefore(child, parent.childNodes[index] ?? null);
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** A name from an address, without letters that are invisible or turn others around. */
export const visible = (name) => name.slice(0, 100).replace(/[\p{C}\u2028\u2029]/gu, "\ufffd");

const whole = new Intl.NumberFormat("en");

/** 1234567 → "1,234,567". What is too large for JavaScript is sent as text, and stays exact. */
export function count(number) {
  if (number === null || number === undefined) return "–";
  if (typeof number === "string") return /^-?\d+$/.test(number) ? whole.format(BigInt(number)) : number;
  return whole.format(Math.round(number));
}

/** Per second: "0", "0.3", "12", "1,234". */
export const rate = (number) => (number > 0 && number < 10 ? number.toFixed(1) : count(number ?? null));

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  const scaled = bytes / 2 ** (10 * step);
  return `${step && scaled < 100 ? scaled.toFixed(1) : count(scaled)} ${units[step]}`;
}

/** Seconds: "0.4 s", "12 s", "3 min", "2.5 h", "4 d". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const steps = [[86400 * 2, 86400, "d"], [5400, 3600, "h"], [90, 60, "min"]];
  const [, unit, word] = steps.find(([least]) => seconds >= least) ?? [0, 1, "s"];
  const scaled = seconds / unit;
  return `${scaled < 10 && scaled % 1 ? scaled.toFixed(1) : count(scaled)} ${word}`;
}

export const row = (texts) => h("tr", {}, ...texts.map((text, index) =>
  index ? h("td", {}, String(text)) : h("th", { scope: "row" }, h("bdi", {}, String(text)))));

export const table = (caption, heads, rows) => h("table", {}, h("caption", {}, caption),
  h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...rows));

export const card = (title, ...content) => h("section", { class: "card" }, h("h2", {}, title), ...content);

export function pairs(list, entries) {
  const wanted = entries.map(([term, text]) => `${term}\t${text}`).join("\n");
  if (list.dataset.shown === wanted) return;
  list.dataset.shown = wanted;
  list.replaceChildren(...entries.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]));
}

/** A table that is scrolled if it is too large, with the keyboard, too. */
export const wide = (inside) => h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": inside.caption.textContent }, inside);
