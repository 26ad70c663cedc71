// Who is there, what each waits for, and who was cut off, and why.

import { count, duration, fill, h, row, size, table, tell, wide } from "./dom.js";
import { copying } from "./copying.js";

const TABLES = {
  connections: ["Open connections", ["Connection", "Address", "Client", "User", "Connected for", "Subscriptions", "In flight", "Unsent", "State"]],
  subscriptions: ["Readers and named positions", ["Reader", "Topic", "Behind", "Waits for"]],
  ends: ["Connections that have ended, the last first", ["Connection", "Address", "Client", "When", "Why"]],
};
const MOST = 200; // rows of each
const SETTLE_MS = 200; // after the last letter

export class Connections {
  static title = "Connections";
  static keys = { "/": "search", c: "copy as a command line" };

  constructor(main, page) {
    this.page = page;
    this.copies = copying(page);
    this.search = h("input", { type: "search", placeholder: "search (/)", "aria-label": "search connections", oninput: () => this.ask(SETTLE_MS) });
    this.tables = Object.entries(TABLES).map(([name, [title, heads]]) => [name, title, table(title, heads, [])]);
    main.append(h("section", { class: "connections" }, h("div", { class: "bar" }, h("h1", {}, "Connections"), this.search),
      ...this.tables.map(([, , it]) => wide(it)), this.copies.element));
    this.does = { "/": () => this.search.focus(), c: () => this.copies.first() };
    this.ask(0);
  }

  ask(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.page.watch({ view: "connections", count: MOST, search: this.search.value }), ms);
  }

  meet({ commands }) {
    this.copies.show(commands);
  }

  show(state) {
    const seconds = (then) => (then ? duration(Math.max(Math.round((state.now_us - then) / 1e6), 0)) : "–");
    const texts = {
      connections: (it) => [`#${it.connection}`, it.peer, it.client || "–", it.user || "–", seconds(it.since_us), count(it.subscriptions),
        count(it.in_flight), size(it.unsent), it.state ?? "–"],
      subscriptions: (it) => [it.session || it.client || it.name, it.topic, count(it.ahead), it.waiting_for],
      ends: (it) => [`#${it.number}`, it.peer, it.client || "–", `${seconds(it.at_us)} ago`, it.reason],
    };
    for (const [name, title, it] of this.tables) {
      const { found, rows } = state[name];
      tell(it.caption, `${title}: ${found > rows.length ? `${count(rows.length)} of ` : ""}${count(found)}`);
      fill(it.tBodies[0], rows.map((line) => row(texts[name](line))));
    }
  }

  close() {
    clearTimeout(this.timer);
  }
}
