// How fast messages come and go: now, and in the last two minutes, as far as somebody watched.

import { h, rate, s, tell } from "./dom.js";

const SAMPLES = 120; // seconds
const HEIGHT = 60;
const KINDS = ["published", "stored", "expired", "evicted"];
const DRAWN = ["published", "stored"]; // in the order of the history

export class Rates {
  constructor() {
    this.numbers = {};
    this.lines = {};
    const svg = s("svg", { class: "rates", viewBox: `0 0 ${SAMPLES} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const list = h("dl", { class: "numbers" });
    for (const kind of KINDS) {
      this.numbers[kind] = h("dd");
      list.append(h("div", {}, h("dt", { class: kind }, kind), this.numbers[kind]));
    }
    for (const kind of DRAWN) this.lines[kind] = svg.appendChild(s("path", { class: `line ${kind}` }));
    this.most = h("p", { class: "hint" });
    this.element = h("div", {}, list, svg, this.most);
  }

  show(rates, history) {
    for (const kind of KINDS) tell(this.numbers[kind], rate(rates[kind] ?? 0));
    const seconds = Object.entries(history).map(([number, values]) => [Number(number), values]).sort(([one], [other]) => one - other);
    const newest = seconds.at(-1)?.[0] ?? 0;
    const shown = seconds.filter(([number]) => number > newest - SAMPLES);
    const most = Math.max(...shown.flatMap(([, values]) => values), 1);
    tell(this.most, `two minutes, up to ${rate(most)}`);
    DRAWN.forEach((kind, index) => {
      const places = shown.map(([number, values]) => [SAMPLES - 1 - (newest - number), HEIGHT - 2 - (values[index] / most) * (HEIGHT - 4)]);
      this.lines[kind].setAttribute("d", places.map(([x, y], place) => `${place ? "L" : "M"}${x} ${y.toFixed(1)}`).join(""));
    });
  }
}
