// The last messages of a topic. They can be looked at as text, as JSON or byte by byte.

import { button, count, fill, h, size } from "./dom.js";

const FORMS = ["text", "JSON", "hex"];
const KEPT = 200; // list items

export class Messages {
  constructor(choose) {
    this.choose = choose;
    this.messages = [];
    this.list = h("ol", { class: "messages", tabindex: "0", "aria-label": "last messages, the newest first" });
    this.choice = h("select", { "aria-label": "show payloads as", onchange: () => this.show(this.messages) }, ...FORMS.map((form) => h("option", {}, form)));
    this.element = h("div", {}, h("p", { class: "bar" }, this.choice), this.list);
    this.items = new Map();
  }

  show(messages) {
    this.messages = messages.sort((one, other) => other.offset - one.offset);
    fill(this.list, messages.map((message) => this.item(message)));
    for (const name of this.items.keys()) if (this.items.size > KEPT) this.items.delete(name); else break;
  }

  item(message) {
    const name = `${message.offset} ${message.accepted_us} ${this.choice.value}`;
    if (!this.items.has(name)) {
      const [payload, note] = as(message, this.choice.value);
      // Not by the tab key, which would stop fifty times: the form beside it takes an offset, too.
      const offset = button(count(message.offset), () => this.choose(message), { class: "offset", tabindex: "-1", title: "What became of it?" });
      this.items.set(name, h("li", {}, offset, " ", message.key === undefined ? null : h("bdi", { class: "key" }, message.key), " ",
        h("bdi", { class: "payload" }, payload), note ? h("span", { class: "hint" }, ` ${note}`) : null));
    }
    return this.items.get(name);
  }
}

/** A payload in a form, as far as it has that form, and a note. */
function as({ payload, format, size: all, is_cut: isCut }, form) {
  const note = isCut ? `… of ${size(all)}` : "";
  if (form === "hex" && format !== "hex") {
    const bytes = [...new TextEncoder().encode(payload)];
    if (!isCut && bytes.length !== all) return [payload, "(not as bytes: some cannot be shown)"];
    return [bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" "), note];
  }
  try {
    return [form === "JSON" ? JSON.stringify(JSON.parse(payload), null, 2) : payload, note];
  } catch { // it is none, or not all of it is here
    return [payload, note];
  }
}
