// Shared names: what is open at each, and what its busiest workers have.

import { card, count, fill, row, table, wide } from "./dom.js";

export class Work {
  constructor() {
    this.names = table("Each message goes to one worker", ["Name", "With workers", "Waiting", "Dead", "To hand out", "Now it waits for"], []);
    this.workers = table("Workers, those first that have had a message for longest", ["Worker", "Of", "Has", "Waits for"], []);
    this.element = card("Shared names", wide(this.names), wide(this.workers));
  }

  show(names) {
    this.element.hidden = !names.length;
    fill(this.names.tBodies[0], names.map((it) => row([it.label, it.held, it.waiting, count(it.dead), count(it.to_hand_out), it.waiting_for])));
    const workers = names.flatMap((name) => name.workers.map((it) => row([it.label, name.label, it.words, it.waiting_for])));
    fill(this.workers.tBodies[0], workers);
  }
}
