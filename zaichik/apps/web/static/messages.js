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
    this.messages = messages.sort(newestFirst);
    fill(this.list, messages.map((message) => this.item(message)));
    for (const name of this.items.keys()) if (this.items.size > KEPT) this.items.delete(name); else break;
  }

  item(message) {
    const name = `${message.offset} ${message.accepted_us} ${this.choice.value}`;
    if (!this.items.has(name)) {
      const [payload, note] = message.is_tombstone ? ["", "† a tombstone: its key is deleted"] : as(message, this.choice.value);
      // Not by the tab key, which would stop fifty times: the form beside it takes an offset, too.
      const offset = button(count(message.offset), () => this.choose(message), { class: "offset", tabindex: "-1", title: "What became of it?" });
      this.items.set(name, h("li", {}, offset, " ", message.key === undefined ? null : h("bdi", { class: "key" }, message.key), " ",
        h("bdi", { class: "payload" }, payload), note ? h("span", { class: "hint" }, ` ${note}`) : null));
    }
    return this.items.get(name);
  }
}

/** Offsets that are too large for JavaScript are sent as text. */
function newestFirst({ offset: one }, { offset: other }) {
  return Number(BigInt(other) - BigInt(one));
}

/** A payload in a form, as far as it has that form, and a note. What was sent is only laid out, never read and written anew. */
function as({ payload, format, size: all, is_cut: isCut }, form) {
  const note = isCut ? `… of ${size(all)}` : "";
  if (form === "hex" && format !== "hex") return asBytes(payload, all, isCut, note);
  if (form === "JSON" && format === "json") return [laidOut(unescaped(payload)) ?? payload, note];
  return [payload, note];
}

function asBytes(payload, all, isCut, note) {
  const bytes = [...new TextEncoder().encode(isCut ? payload.replace(/…$/, "") : payload)];
  // An escape stands for other bytes than its own.
  if (payload.includes("\\") || (!isCut && bytes.length !== all)) return [payload, "(not as bytes: some cannot be shown)"];
  return [bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" "), note];
}

const ESCAPES = { "\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t" };

/** JSON as it was sent, of a line in which the server has escaped what is no visible letter. */
const unescaped = (text) => text.replace(/\\[\\nrt]/g, (escape) => ESCAPES[escape]);

const DEEPEST = 16; // levels that have lines of their own: a page is not made wider by brackets
const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g;

/** JSON with a line for each member; null if the text is none. Every number, key and string keeps the letters that were sent: parsed, 2^60 would be another number, and of two equal keys one would be gone. */
function laidOut(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  let line = "";
  let before = "";
  /** A new line at a level, if the members at level `inner` have lines of their own. */
  const lineOf = (level, inner) => (inner > DEEPEST ? "" : `\n${"  ".repeat(level)}`);
  for (const [token] of text.matchAll(TOKENS)) {
    const isFirst = before === "[" || before === "{";
    if (token === "]" || token === "}") {
      depth -= 1;
      if (!isFirst) line += lineOf(depth, depth + 1);
    } else if (isFirst || before === ",") {
      line += lineOf(depth, depth);
    }
    line += token === ":" ? ": " : token;
    if (token === "[" || token === "{") depth += 1;
    before = token;
  }
  return line;
}
