// All topics: a table of ten thousand of which only the rows on the screen exist.

import { button, count, duration, fill, h, rate, s, size, tell } from "./dom.js";
import { copying } from "./copying.js";

const MORE = 8; // rows above and below those that can be seen
const SETTLE_MS = 120; // after the last scroll
const KEPT = 400; // rows
const SPARK = 20; // samples of a minute
const COLUMNS = [
  ["name", "Topic"], ["rate", "In per s"], ["spark", "Last minute"], ["held", "Messages"], ["bytes", "Size"],
  ["readers", "Readers"], ["lag", "Furthest behind"], ["state", "State"],
];

const STATES = { full: "publishers wait" };
const OF_TABLES = { full: "new keys refused" };

export class Topics {
  static title = "Topics";
  static keys = { "/": "search", s: "sort by the next column", c: "copy as a command line" };

  constructor(main, page) {
    this.page = page;
    this.copies = copying(page);
    this.query = { view: "topics", sort: "name", search: "", first: 0, count: 60 };
    this.rows = new Map();
    this.search = h("input", { type: "search", placeholder: "search (/)", "aria-label": "search topics", oninput: () => this.ask({ search: this.search.value, first: 0 }, SETTLE_MS) });
    this.found = h("p", { class: "hint", role: "status" });
    this.heads = COLUMNS.map(([key, title]) => h("span", { role: "columnheader", class: key },
      key === "spark" ? title : button(title, () => this.sort(key))));
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.screen = h("div", { class: "scroll", tabindex: "0", role: "presentation", onscroll: () => this.scrolled() }, this.body);
    this.table = h("div", { role: "table", "aria-label": "topics" }, h("div", { class: "row heads", role: "row" }, ...this.heads), this.screen);
    main.append(h("section", { class: "topics" }, h("div", { class: "bar" }, h("h1", {}, "Topics"), this.search, this.found), this.table, this.copies.element));
    this.does = { "/": () => this.search.focus(), s: () => this.sortNext(), c: () => this.copies.first() };
    this.ask({ count: this.most }, 0);
  }

  /** Of a row, which is higher where fingers are. */
  get height() {
    return parseFloat(getComputedStyle(this.body).lineHeight);
  }

  get most() {
    return Math.ceil(this.screen.clientHeight / this.height) + 2 * MORE;
  }

  meet({ commands }) {
    this.copies.show(commands);
  }

  ask(change, ms) {
    Object.assign(this.query, change);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.page.watch({ ...this.query }), ms);
    this.heads.forEach((head, index) => {
      const key = COLUMNS[index][0];
      const order = { [key]: "ascending", [`-${key}`]: "descending" }[this.query.sort];
      if (order) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    });
  }

  /** Numbers first from the top, names from A. */
  sort(key) {
    const first = key === "name" || key === "state" ? key : `-${key}`;
    const other = first.startsWith("-") ? key : `-${key}`;
    this.screen.scrollTop = 0;
    this.ask({ sort: this.query.sort === first ? other : first, first: 0 }, 0);
  }

  scrolled() {
    const top = Math.floor(this.screen.scrollTop / this.height);
    const { first, count: most } = this.query;
    if (top < first || top + this.most - 2 * MORE > first + most) this.ask({ first: Math.max(top - MORE, 0), count: this.most }, SETTLE_MS);
  }

  show(state) {
    const { all, found, first, columns, rows } = state;
    tell(this.found, found === all ? `${count(all)} ${all === 1 ? "topic" : "topics"}` : `${count(found)} of ${count(all)}`);
    this.rowHeight = this.height;
    this.body.style.height = `${Math.max(found, 1) * this.rowHeight}px`;
    this.table.setAttribute("aria-rowcount", String(found));
    const topics = rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index]])));
    fill(this.body, topics.length ? topics.map((topic, index) => this.row(topic, first + index)) : [h("p", { class: "hint" }, this.query.search ? "No topic has that in its name." : "There are no topics yet. Make one: zaichik publish orders hello")]);
  }

  row(topic, index) {
    if (!this.rows.has(topic.name)) this.rows.set(topic.name, newRow(topic));
    const { row, cells, line } = this.rows.get(topic.name);
    row.style.transform = `translateY(${index * this.rowHeight}px)`;
    row.setAttribute("aria-rowindex", String(index + 1));
    tell(cells.rate, rate(topic.rate));
    tell(cells.held, count(topic.held));
    tell(cells.bytes, size(topic.bytes));
    tell(cells.readers, count(topic.readers));
    tell(cells.lag, lag(topic));
    const states = topic.is_table ? OF_TABLES : STATES;
    tell(cells.state, states[topic.state] ?? topic.state);
    cells.state.dataset.state = topic.state;
    line.setAttribute("d", spark(topic.spark));
    if (this.rows.size > KEPT) this.rows.delete(this.rows.keys().next().value);
    return row;
  }

  sortNext() {
    const keys = COLUMNS.map(([key]) => key).filter((key) => key !== "spark");
    this.sort(keys[(keys.indexOf(this.query.sort.replace("-", "")) + 1) % keys.length]);
  }

  close() {
    clearTimeout(this.timer);
  }
}

function newRow({ name, label }) {
  const cells = Object.fromEntries(COLUMNS.slice(1).map(([key]) => [key, h("span", { role: "cell", class: key })]));
  const line = s("path", {});
  cells.spark.append(s("svg", { class: "spark", viewBox: "0 0 19 20", preserveAspectRatio: "none", "aria-hidden": "true" }, line));
  // A name of blanks alone would be a link without a name.
  const link = h("a", { href: `/topic#${encodeURIComponent(name)}` }, h("bdi", {}, label.trim() ? label : `"${label}"`));
  const head = h("span", { role: "rowheader", class: "name" }, link);
  return { cells, line, row: h("div", { class: "row", role: "row" }, head, ...Object.values(cells)) };
}

const lag = (topic) => (topic.lag ? `${count(topic.lag)}${topic.lag_s ? ` · ${duration(topic.lag_s)}` : ""}` : "–");

/** A line of the last minute, whose highest point is its own. */
function spark(samples, height = 20) {
  const most = Math.max(...samples, 1e-9);
  const from = SPARK - samples.length;
  return samples.map((value, index) => `${index ? "L" : "M"}${from + index} ${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`).join("");
}
