// What is on screen, as a command line and as Python, as the server has written them.

import { button, h } from "./dom.js";

const NAMES = {
  shell: "Copy as command line", python: "Copy as Python",
  shell_messages: "Copy as command line: read its messages", python_messages: "Copy as Python: read its messages",
};

export function copying(page) {
  const element = h("p", { class: "copies" });
  const copier = ([name, text]) => button(NAMES[name], (event) => page.copy(text, event.target), { title: text });
  const show = (commands = {}) => element.replaceChildren(...Object.entries(commands).filter(([name, text]) => text && NAMES[name]).map(copier));
  return { element, show, first: () => element.querySelector("button")?.click() };
}
