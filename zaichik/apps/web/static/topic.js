// One topic: three answers, its picture, and what there is to know about it.

import { button, card, count, duration, fill, h, pairs, rate, row, size, table, tell, visible, wide } from "./dom.js";
import { post } from "./feed.js";
import { Strip, calm } from "./strip.js";
import { asking } from "./asking.js";
import { copying } from "./copying.js";
import { Keys } from "./keys.js";
import { legend } from "./legend.js";
import { Messages } from "./messages.js";
import { Rates } from "./rates.js";
import { Sums } from "./sums.js";
import { Work } from "./work.js";

const ZOOMS = ["auto", "ring", "lag", "live"];
const NAMES = { auto: "auto", ring: "all that is stored", lag: "from the slowest reader", live: "the newest" };
const FULL = {
  table: "When it is full, new keys are refused.",
  reject: "When it is full, publishers wait for the slowest reader.",
  evict: "When it is full, the oldest messages go, so publishers never wait.",
};
const RESIZE_MS = 200;
const NEWS_S = 5; // so long behind is worth a word to a screen reader

export class Topic {
  static keys = { z: "zoom: all, from the slowest reader, the newest", "/": "ask what became of a message", t: "the readers as a table", c: "copy as a command line" };

  constructor(main, page, name) {
    this.page = page;
    this.name = name;
    this.zoom = ZOOMS[0];
    this.title = h("bdi", {}, visible(name));
    this.answers = Object.fromEntries(["Stored", "Publishers", "Furthest behind"].map((question) => [question, answer(question)]));
    this.picture = h("div");
    this.strip = new Strip(this.picture, (reader) => this.zoomOn(reader === this.zoom ? ZOOMS[0] : reader));
    this.zoomed = button("Zoom: auto", () => this.zoomOn(), { "aria-keyshortcuts": "z" });
    this.hidden = h("p", { class: "hint" });
    this.rates = new Rates();
    this.sums = new Sums();
    this.keys = new Keys();
    this.work = new Work();
    this.asking = asking(name);
    this.messages = new Messages((message) => this.asking.about(message));
    this.settings = h("dl", { class: "settings" });
    this.readers = table("The readers of this topic", ["Reader", "Behind", "Committed", "In flight", "Credit", "Lost", "Holes passed", "Waits for"], []);
    this.details = h("details", {}, h("summary", { "aria-keyshortcuts": "t" }, "The readers as a table"), wide(this.readers));
    this.missing = h("p", { class: "hint" });
    this.copies = copying(page);
    this.form = publishing((message) => post("/publish", { topic: name, ...message }));
    this.main = h("section", { class: "topic waiting" },
      h("div", { class: "bar" }, h("h1", {}, this.title), this.zoomed),
      h("dl", { class: "answers" }, ...Object.values(this.answers).map((it) => it.element)),
      this.picture, this.hidden, this.work.element, legend(), this.details, this.missing,
      h("div", { class: "cards" },
        h("div", {}, card("What became of a message?", this.asking.element), this.keys.element, this.form),
        h("div", {}, card("Last messages", this.messages.element)),
        h("div", {}, card("Messages per second", this.rates.element), card("Nothing is lost in silence", this.sums.element), card("Settings", this.settings))),
      this.copies.element);
    main.append(this.main);
    this.does = {
      z: () => this.zoomOn(),
      t: () => { this.details.open = !this.details.open; },
      "/": () => this.asking.focus(),
      c: () => this.copies.first(),
    };
    this.resized = new ResizeObserver(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.ask(), this.width === undefined ? 0 : RESIZE_MS);
    });
    this.resized.observe(this.picture);
  }

  ask(again = false) {
    const width = Math.round(this.strip.width);
    if (width === this.width && !again) return;
    this.width = width;
    this.page.watch({ view: "topic", topic: this.name, width, zoom: this.zoom, hz: calm.matches ? 1 : 10 });
  }

  zoomOn(zoom = ZOOMS[(ZOOMS.indexOf(this.zoom) + 1) % ZOOMS.length]) {
    this.zoom = zoom;
    this.ask(true);
  }

  meet({ write, commands }) {
    this.form.hidden = !write;
    this.copies.show(commands);
  }

  show({ picture, reading, rates = {}, history = {} }) {
    if (!reading?.topic) return;
    const { topic } = reading;
    this.main.classList.remove("waiting");
    tell(this.title, topic.label);
    this.strip.show(picture, reading.ages);
    this.strip.mark(this.zoom);
    tell(this.zoomed, `Zoom: ${NAMES[this.zoom] ?? picture.lanes[this.zoom]?.label ?? NAMES.auto}`);
    tell(this.hidden, picture.hidden ? `${count(picture.hidden)} more readers are not shown.` : "");
    this.answer(picture, reading, rates);
    this.rates.show(rates, history);
    this.sums.show(topic);
    this.keys.show(reading);
    this.work.show(reading.shared ?? []);
    this.messages.show(Object.values(reading.messages ?? {}));
    if (this.details.open) this.showReaders(picture, reading.readers ?? {});
    pairs(this.settings, inPlainWords(topic));
    tell(this.missing, (reading.missing?.length ? `Not shown: ${reading.missing.join("; ")}.` : ""));
    this.tellNews(picture);
  }

  /** What most come to ask. */
  answer({ lanes, marks, hidden }, { topic, table: held }, rates) {
    const { resident, settings, bytes, subscriptions } = topic;
    const { Stored, Publishers, "Furthest behind": Furthest } = this.answers;
    if (held) Stored.say(held[0], `A table. ${held.slice(1).join(" · ")}`);
    else Stored.say(`${count(resident)} of ${count(settings.capacity)}`, `messages, ${size(bytes)}`);
    const isWalled = Object.keys(marks).some((name) => name.startsWith("wall::"));
    const awaited = Object.keys(marks).find((name) => name.startsWith("wall:") && !name.startsWith("wall::"));
    const slowest = lanes[awaited?.slice(5, awaited.lastIndexOf(":"))];
    const full = FULL[whenFull(settings)];
    const worst = Object.values(lanes).sort((one, other) => one.rank - other.rank).find((lane) => lane.behind || lane.state !== "caught up");
    const who = slowest?.label ?? "a reader";
    const why = slowest && slowest !== worst ? `: ${slowest.sentence}` : "";
    if (isWalled) Publishers.say(`wait for ${who}`, `The topic is full, and ${who} still needs its oldest message${why}.`, "bad");
    else Publishers.say(`${rate(rates.published)} per second`, full);
    if (worst) Furthest.say(worst.behind ? `${worst.label}: ${count(worst.behind)}` : worst.label, `${worst.sentence}.`, worst.state === "lost" ? "bad" : "late");
    else if (!subscriptions && !Object.keys(lanes).length) Furthest.say("nobody", "Nobody reads this topic.");
    else Furthest.say("nobody", `All ${count(Object.keys(lanes).length + hidden)} readers are caught up.`.replace("All 1 readers are", "Its reader is"), "good");
  }

  showReaders({ lanes }, readers) {
    fill(this.readers.tBodies[0], Object.entries(readers).map(([name, it]) => row([lanes[name]?.label ?? it.client ?? name, count(it.lag ?? it.ahead), count(it.committed),
      count(it.shared?.open ?? it.in_flight), count(it.credit), count(it.skipped), count(it.passed), it.waiting_for])));
  }

  /** For those who cannot see the lanes. */
  tellNews({ lanes }) {
    const bad = Object.values(lanes).filter((lane) => lane.state === "lost" || lane.seconds >= NEWS_S);
    const news = bad.find((lane) => !this.bad?.has(lane.name));
    this.bad = new Set(bad.map((lane) => lane.name));
    if (news) this.page.news(`${news.sentence}.`);
  }

  close() {
    clearTimeout(this.timer);
    this.resized.disconnect();
  }
}

function answer(question) {
  const short = h("bdi", { class: "short" });
  const long = h("span", { class: "long" });
  const element = h("div", {}, h("dt", {}, question), h("dd", {}, short, long));
  const say = (few, more, mood = "") => {
    tell(short, few);
    tell(long, more);
    if (element.dataset.mood !== mood) element.dataset.mood = mood;
  };
  return { element, say };
}

const whenFull = ({ table: isTable, overflow }) => (isTable ? "table" : overflow ? "reject" : "evict");

function inPlainWords({ settings, bytes, log_bytes: disk }) {
  const ttl = settings.retention_ttl_ms;
  return [
    ["retention", ttl === "forever" ? "forever" : ttl ? duration(ttl / 1000) : "none"],
    ...(settings.table
      ? [["kept", "the last message of each key"], ["tombstones kept", settings.tombstones_ms === "forever" ? "forever" : duration(settings.tombstones_ms / 1000)]]
      : [["compaction window", settings.compaction_window_ms ? duration(settings.compaction_window_ms / 1000) : "none"]]),
    ["capacity", `${count(settings.capacity)} messages, ${size(settings.max_bytes)}`],
    ["when full", { table: "new keys are refused", reject: "publishers wait (reject)", evict: "the oldest go (evict)" }[whenFull(settings)]],
    ["in memory", size(bytes)],
    ...(disk === undefined ? [] : [["on disk", size(disk)]]),
  ];
}

function publishing(publish) {
  const key = h("input", { name: "key", "aria-label": "key, or nothing", placeholder: "key" });
  const payload = h("input", { name: "payload", "aria-label": "payload", placeholder: "payload", required: true });
  const outcome = h("output");
  const form = h("form", { class: "publish" }, key, payload, h("button", { class: "primary" }, "Publish"), outcome);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [status, answer] = await publish({ ...(key.value ? { key: key.value } : {}), payload: payload.value });
    const published = () => (answer.offset === undefined ? "compacted away: its key's window is open" : `published at offset ${count(answer.offset)}`);
    tell(outcome, status === 200 ? published() : answer.text);
    if (status === 200) payload.value = "";
  });
  const whole = card("Publish", form);
  whole.hidden = true;
  return whole;
}
