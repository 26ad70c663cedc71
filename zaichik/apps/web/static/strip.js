// The strip of a topic's offsets, and a lane for each reader. The server has decided what is where.

import { count, duration, fill, h, s, tell } from "./dom.js";
import { between, slides } from "./axis.js";

const RING = { top: 22, height: 72 };
const FIRST_LANE = 128; // see page.css
const LANE_FOOT = 21; // pixels from a lane's rail to its bottom
const GATE = 12; // pixels of a gate, which what comes after it leaves free
const LEAST = 3; // pixels of a mark
const NAMED = 36; // pixels of a message from which it has a text
const LETTER = 6.5; // pixels, of which a letter takes no more
const SLOWEST = 0.6; // of the strip's height have messages that came slowly
const SLIDE_MS = 100;
const SAY_MS = 5000; // between two sentences for a screen reader
const NO_TIME_S = 0.1; // is not worth a word
const TRENDS = { "↗": "growing ↗", "→": "steady →", "↘": "shrinking ↘" };
const STATES = { "waits for commit": "must commit first", lost: "lost some, not told yet" };
export const RING_KINDS = ["resident", "sparse", "holes", "expiring", "expired", "evicted", "either", "gone"]; // the rest is of lanes
const COUNTED = ["in_flight", "shared", "redelivered", "lost"]; // have their number in the drawing
export const PATTERNS = { holes: "holes", expired: "clock", evicted: "cross", either: "cross", gone: "dots", lost: "cross" };
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Draws one picture after the other into `host`. A lane is a button that calls `pick` with its name, if there is one. */
export class Strip {
  constructor(host, pick = null) {
    this.pick = pick;
    this.paths = new Map();
    this.drawing = s("g");
    this.texts = s("g", { class: "cells", "aria-hidden": "true" });
    this.svg = s("svg", { class: "strip", role: "img" }, patterns(), this.drawing, this.texts);
    this.lanes = h("ol", { class: "lanes", "aria-label": "Readers, those furthest behind first" });
    this.items = new Map();
    host.replaceChildren(this.svg, this.lanes);
    host.classList.add("picture");
  }

  get width() {
    return Math.max(this.svg.clientWidth, 200);
  }

  show(picture, ages = {}, now = performance.now()) {
    const axis = picture.axis.map(([offset, place]) => [Number(offset), place]);
    this.before = slides(this.axis, axis, this.width) ? this.axis : null;
    this.ages = Object.entries(ages);
    [this.picture, this.axis, this.began] = [picture, axis, now];
    this.order = Object.entries(picture.lanes).sort(([, one], [, other]) => one.rank - other.rank).map(([name]) => name);
    this.showLanes();
    this.say(now);
    if (document.hidden) this.draw(now + SLIDE_MS); // right at once when somebody looks again
    else if (!this.frame) this.draw(now);
  }

  /** Texts beside the drawing, for those who cannot see it, too. */
  showLanes() {
    const { lanes } = this.picture;
    this.laneHeight = Number(getComputedStyle(this.lanes).getPropertyValue("--lane"));
    this.svg.style.height = `${FIRST_LANE + this.order.length * this.laneHeight}px`;
    fill(this.lanes, this.order.map((name) => {
      const lane = lanes[name];
      if (!this.items.has(name)) this.items.set(name, this.item(name));
      const { item, inside, label, words } = this.items.get(name);
      tell(label, lane.label);
      tell(words, inWords(lane));
      if (inside.title !== lane.sentence) inside.title = lane.sentence;
      if (item.dataset.state !== lane.state) item.dataset.state = lane.state;
      return item;
    }));
    for (const name of this.items.keys()) if (!Object.hasOwn(lanes, name)) this.items.delete(name);
  }

  item(name) {
    const label = h("bdi", { class: "label" });
    const words = h("span", { class: "words" });
    const inside = this.pick ? h("button", { type: "button", onclick: () => this.pick(name) }, label, " ", words) : h("div", {}, label, " ", words);
    return { item: h("li", {}, inside), inside, label, words };
  }

  mark(name) {
    for (const [other, { inside }] of this.items) inside.setAttribute("aria-pressed", String(other === name));
  }

  say(now) {
    if (now - this.said < SAY_MS) return;
    this.svg.setAttribute("aria-label", this.picture.sentence);
    this.said = now;
  }

  draw(now) {
    const part = calm.matches ? 1 : Math.min((now - this.began) / SLIDE_MS, 1);
    const x = (offset) => between(this.before, this.axis, part, offset);
    const paths = new Map();
    const add = (kind, d) => paths.set(kind, (paths.get(kind) ?? "") + d);
    const texts = [];
    const gates = new Set(Object.entries(this.picture.marks).map(([name, [from]]) => `${partsOf(name)} ${from}`));
    for (const [name, [from, to, text, level]] of Object.entries(this.picture.marks)) {
      const [kind, lane] = partsOf(name);
      const [first, end] = [Number(from), Number(to)];
      const mark = { kind, from: x(first), to: x(end), first, end, text, level };
      if (first < end && gates.has(`gate,${lane} ${from}`)) mark.from = Math.max(Math.min(mark.from + GATE, mark.to - LEAST), mark.from);
      if (RING_KINDS.includes(kind) && !lane) this.bar(mark, add, texts);
      else if (lane) this.inLane(mark, this.order.indexOf(lane), add, texts);
      else this.edge(mark, add, texts);
    }
    for (const [offset, seconds] of this.ages) {
      if (Number(offset) >= this.axis[0][0]) texts.push([x(Number(offset)), RING.top - 12, duration(seconds), "age"]);
    }
    for (const place of this.picture.breaks) texts.push([place, RING.top + RING.height / 2, "≈", "break"]);
    this.put(paths, texts);
    this.frame = part < 1 ? requestAnimationFrame((then) => this.draw(then)) : 0;
  }

  /** Messages that are there, or were. With room, each is a cell with its text. */
  bar({ kind, from, to, first, end, text, level }, add, texts) {
    const height = RING.height * (kind === "sparse" ? level : SLOWEST + (1 - SLOWEST) * (PATTERNS[kind] ? 1 : level));
    const [wide, top] = [to - from, RING.top + RING.height - height];
    const gap = wide > 3 && kind === "resident" ? 1 : 0;
    add(kind, box(from + gap / 2, top, Math.max(wide - gap, 1), height));
    if (kind === "sparse") add("holes", box(from, RING.top, Math.max(wide, 1), RING.height - height));
    if (end !== first + 1 || wide < NAMED || PATTERNS[kind]) return;
    texts.push([(from + to) / 2, RING.top + RING.height + 12, count(first), "offset"]);
    const fits = Math.floor((wide - 4) / LETTER);
    const shown = text.length > fits ? text.split(" ")[0].slice(0, fits) : text;
    if (text !== count(first)) texts.push([(from + to) / 2, RING.top + RING.height / 2, shown, "key"]);
  }

  inLane({ kind, from, to, text }, index, add, texts) {
    if (index < 0) return;
    const middle = FIRST_LANE + (index + 1) * this.laneHeight - LANE_FOOT;
    add(kind, shape(kind, from, to, middle));
    const wide = to - from;
    if (text && COUNTED.includes(kind) && wide > 7 * text.length + 6) texts.push([from + wide / 2, middle, text, `of-${kind}`]);
  }

  /** What stands at one place: the head, the end, a wall. */
  edge({ kind, from, to, text }, add, texts) {
    if (kind === "wall") add(kind, `M${to + 3} ${RING.top - 6}v${RING.height + 12}`);
    else add(kind, `M${from} ${RING.top - 4}v${RING.height + 8}`);
    // The end is at the right, where a text after it would leave the page.
    if (text) texts.push([from, RING.top + RING.height + (kind === "wall" ? 12 : 28), text, kind === "head" ? "edge" : "edge end"]);
  }

  put(paths, texts) {
    for (const [kind, node] of this.paths) if (!paths.has(kind)) node.setAttribute("d", "");
    for (const [kind, d] of paths) {
      if (!this.paths.has(kind)) {
        const pattern = PATTERNS[kind] ? `url(#${PATTERNS[kind]})` : null;
        this.paths.set(kind, this.drawing.appendChild(s("path", { class: `mark ${kind}`, fill: pattern })));
      }
      this.paths.get(kind).setAttribute("d", d);
    }
    while (this.texts.childNodes.length > texts.length) this.texts.lastChild.remove();
    while (this.texts.childNodes.length < texts.length) this.texts.append(s("text"));
    texts.forEach(([left, top, text, kind], index) => {
      const node = this.texts.childNodes[index];
      node.setAttribute("x", left.toFixed(1));
      node.setAttribute("y", top.toFixed(1));
      if (node.getAttribute("class") !== kind) node.setAttribute("class", kind);
      tell(node, text);
    });
  }
}

export function shape(kind, from, to, middle) {
  const wide = Math.max(to - from, LEAST);
  switch (kind) {
    case "cursor": return `M${from} ${middle - 11}v22`;
    case "shared": return box(from, middle - 4, wide, 8);
    case "in_flight": return box(from, middle - 8, wide, 16);
    case "redelivered": return box(from, middle - 8, wide, 16) + box(from + 2, middle - 5, Math.max(wide - 4, 1), 10);
    case "lost": return box(from, middle - 8, wide, 16);
    case "told": return `M${from + 7} ${middle - 7}l-6 7l6 7Z`;
    case "gate": return `M${to + 4} ${middle - 11}v22M${to + 8} ${middle - 11}v22`;
    case "wall": return `M${to + 3} ${middle - 11}v22`;
    default: return `M${from} ${middle}H${to}`;
  }
}

function inWords({ state, behind, seconds, trend, clears_s: clears }) {
  const words = behind ? [`${count(behind)} behind`] : [];
  if (behind && seconds >= NO_TIME_S) words.push(duration(seconds));
  if (behind && clears) words.push(`caught up in ${duration(clears)}`);
  else if (behind && trend) words.push(TRENDS[trend] ?? trend);
  if (state !== "behind") words.push(STATES[state] ?? state);
  return words.join(" · ");
}

/** Of a mark's name: its kind and its lane, which may have colons of its own. */
function partsOf(name) {
  const first = name.indexOf(":");
  return [name.slice(0, first), name.slice(first + 1, name.lastIndexOf(":"))];
}

const box = (left, top, width, height) =>
  `M${left.toFixed(1)} ${top.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z`;

function patterns() {
  const lines = {
    holes: "M-1 7l2 2M0 0l8 8M7 -1l2 2",
    clock: "M-1 1l2 -2M0 8l8 -8M7 9l2 -2",
    cross: "M-1 1l2 -2M0 8l8 -8M7 9l2 -2M1 9l-2 -2M8 8l-8 -8M9 1l-2 -2",
    dots: "M2 2h1v1h-1zM6 6h1v1h-1z",
  };
  return s("defs", {}, ...Object.entries(lines).map(([id, d]) =>
    s("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, s("path", { d, class: `hatch ${id}` }))));
}
