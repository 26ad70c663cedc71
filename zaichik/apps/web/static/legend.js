// What the marks of a picture mean. Each has a shape, so that none depends on its colour.

import { h, s } from "./dom.js";
import { PATTERNS, RING_KINDS, shape } from "./strip.js";

const MEANING = {
  resident: "stored; higher: came faster",
  sparse: "of a table; lower: less of it is left",
  holes: "of a table: superseded, or deleted",
  expiring: "stored, and about to expire",
  expired: "expired: their time was up",
  evicted: "evicted: the topic was full",
  gone: "gone, before anybody looked",
  committed: "committed: done",
  in_flight: "in flight: sent, not committed yet",
  shared: "handed out to workers: some are open",
  redelivered: "redelivered: sent again",
  lag: "lag: not sent yet",
  lost: "lost: gone before they were sent",
  told: "lost, and the reader was told",
  gate: "out of credit: must commit",
  wall: "full: publishers wait for this reader",
};

export function legend() {
  const items = Object.entries(MEANING).map(([kind, text]) => h("li", {}, swatch(kind), text));
  return h("details", { class: "legend" }, h("summary", {}, "What the marks mean"), h("ul", {}, ...items));
}

function swatch(kind) {
  const d = kind === "sparse" ? "M2 11h36v7h-36z" : RING_KINDS.includes(kind) ? "M2 2h36v16h-36z" : kind === "wall" ? "M20 1v18" : shape(kind, 6, 34, 10);
  return s("svg", { class: "swatch", width: 40, height: 20, "aria-hidden": "true" }, s("path", { class: `mark ${kind}`, d, fill: PATTERNS[kind] ? `url(#${PATTERNS[kind]})` : null }));
}
