// The two conservation laws of a topic, as sums that tick.

import { count, h, tell } from "./dom.js";

export class Sums {
  constructor() {
    this.lines = [h("p", { class: "law" }), h("p", { class: "law" })];
    this.element = h("div", {}, ...this.lines, h("p", { class: "hint" }, "If a sum did not add up, zaichik would have a bug."));
  }

  show({ published, stored, compacted, resident, expired, evicted, superseded = 0, damaged = 0 }) {
    const rare = { ...(superseded ? { superseded } : {}), ...(damaged ? { damaged } : {}) };
    law(this.lines[0], { published }, { stored, compacted });
    law(this.lines[1], { stored }, { resident, expired, evicted, ...rare });
  }
}

/** Counters may be larger than JavaScript's numbers are exact. */
function law(line, whole, parts) {
  const words = (terms) => Object.entries(terms).map(([name, number]) => `${name}\u00a0${count(number)}`).join(" + ");
  const [total] = Object.values(whole);
  const rest = Object.values(parts).reduce((left, part) => left - BigInt(part), BigInt(total));
  tell(line, `${words(whole)} = ${words(parts)}\u00a0${rest ? "✗ this does not add up" : "✓"}`);
}
