// Keys whose compaction window is open, and how often each was dropped.

import { card, count, duration, fill, h, row, s, table, tell, wide } from "./dom.js";

const SHOWN = 12;

export class Keys {
  constructor() {
    this.note = h("p", { class: "hint" });
    this.table = table("Keys whose window is open, the newest first", ["Key", "Left", "", "Dropped"], []);
    this.element = card("Keys", this.note, wide(this.table));
    this.rows = new Map();
  }

  show({ topic, windows = {}, drops = {}, now_us: now }) {
    const whole = topic.settings.compaction_window_ms / 1000;
    this.element.hidden = !whole;
    if (!whole) return;
    const open = Object.entries(windows).map(([key, opened]) => [key, whole - (now - opened) / 1e6]);
    const shown = open.filter(([, left]) => left > 0).sort(([, one], [, other]) => other - one).slice(0, SHOWN);
    tell(this.note, `${count(topic.open_windows)} open, ${duration(whole)} each; ${count(topic.forgotten_windows)} forgotten`);
    fill(this.table.tBodies[0], shown.map(([key, left]) => {
      if (!this.rows.has(key)) this.rows.set(key, newRow(key));
      const { line, bar } = this.rows.get(key);
      bar.setAttribute("width", Math.min((left * 100) / whole, 100).toFixed(1));
      tell(line.cells[2], duration(Number(left.toFixed(1))));
      tell(line.cells[3], Object.hasOwn(drops, key) ? count(drops[key]) : "–");
      return line;
    }));
    for (const key of this.rows.keys()) if (!Object.hasOwn(windows, key)) this.rows.delete(key);
  }
}

function newRow(key) {
  const bar = s("rect", { height: 10 });
  const line = row([key, "", "", ""]);
  line.cells[1].append(s("svg", { class: "left", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, bar));
  return { line, bar };
}
