// Scenes that are predicted, played step by step, and understood. Each is a broker of its own.

import { button, card, count, duration, fill, h, tell } from "./dom.js";
import { ask, post } from "./feed.js";
import { Strip } from "./strip.js";
import { legend } from "./legend.js";
import { Sums } from "./sums.js";

const SPEEDS = [["slowly", 3000], ["a step a second", 1000], ["fast", 250], ["at once", 0]];

export class Stage {
  static title = "Stage";
  static keys = { ".": "one step", b: "one step back", p: "play, or pause", c: "copy as Python" };

  constructor(main, page, link) {
    this.page = page;
    this.main = h("section", { class: "stage" });
    main.append(this.main);
    const [slug] = link.split("?");
    ask("/stage/scenes").then(([status, scenes]) => {
      if (this.closed) return undefined;
      if (status === 401) return page.login();
      if (status !== 200) return page.trouble(scenes.text);
      page.live("ready");
      const scene = scenes.find((it) => it.slug === slug);
      return scene ? this.open(scene, link, scenes) : this.choose(scenes);
    });
  }

  choose(scenes) {
    this.main.replaceChildren(h("h1", {}, "The stage"),
      h("p", {}, "Scenes to watch step by step, each on a real broker of its own, whose clock only you move."),
      h("ol", { class: "scenes" }, ...scenes.map((scene) =>
        h("li", {}, h("a", { href: `#${scene.slug}` }, h("strong", {}, scene.title), scene.sentence)))));
  }

  async open(scene, link, scenes) {
    this.scene = scene;
    this.host = h("div");
    this.strip = new Strip(this.host);
    this.main.replaceChildren(this.host); // to know how wide a picture is
    const [status, shown] = await post(`/stage?width=${this.width}`, { link });
    if (this.closed) return status === 200 ? this.end(shown.id) : undefined;
    if (status !== 200) {
      this.choose(scenes);
      return this.page.trouble(`${shown.text}.`);
    }
    [this.id, this.program] = [shown.id, shown.program];
    return this.set(shown);
  }

  get width() {
    return Math.round(this.strip.width);
  }

  set(shown) {
    const { words } = shown;
    this.time = h("p", { class: "hint" });
    this.story = h("ul", { class: "story", tabindex: "0", "aria-label": "what has happened, the latest first" });
    this.strips = h("div", { class: "twins" }, h("div", {}, this.host));
    this.sums = new Sums();
    this.lesson = h("p", { class: "lesson", role: "status" });
    this.sentence = words.sentence;
    this.speed = h("select", { "aria-label": "speed" }, ...SPEEDS.map(([name, ms]) => h("option", { value: ms, selected: ms === 1000 }, name)));
    this.buttons = {
      back: button("◀ Back", () => this.act("back"), { "aria-keyshortcuts": "b" }),
      step: button("Step ▶", () => this.act("step"), { class: "primary", "aria-keyshortcuts": "." }),
      play: button("Play", () => this.play(!this.playing), { "aria-keyshortcuts": "p" }),
    };
    this.copied = button("Copy as Python", () => this.page.copy(this.program, this.copied));
    this.main.replaceChildren(
      h("p", {}, h("a", { href: "#" }, "All scenes")),
      h("h1", {}, words.title), this.prediction(words) ?? "", this.knobs(shown.link, !words.question),
      h("div", { class: "controls" }, ...Object.values(this.buttons), this.speed, this.time),
      this.lesson, this.strips, legend(),
      h("div", { class: "cards" }, card("What has happened", this.story), this.reading(words), card("Nothing is lost in silence", this.sums.element)));
    document.title = `${words.title} · zaichik`;
    this.does = { ".": () => this.act("step"), b: () => this.act("back"), p: () => this.play(!this.playing), c: () => this.copied.click() };
    this.show(shown);
  }

  /** Other numbers are another link, and so another stage. */
  knobs(link, isOpen) {
    const chosen = new URLSearchParams(link.split("?")[1] ?? "");
    const inputs = this.scene.knobs.map((knob) => [knob, h("input", {
      type: "number", name: knob.name, min: knob.minimum, max: knob.maximum, value: chosen.get(knob.name) ?? knob.default,
    })]);
    const form = h("form", { class: "knobs" }, ...inputs.map(([knob, input]) => h("label", {}, knob.label, input)), h("button", {}, "Begin again with these"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const other = inputs.filter(([knob, input]) => Number(input.value) !== knob.default).map(([knob, input]) => [knob.name, input.value]);
      this.page.visit(`#${this.scene.slug}${other.length ? `?${new URLSearchParams(other)}` : ""}`);
    });
    return h("details", { open: isOpen }, h("summary", {}, "Knobs"), form);
  }

  /** A class says how many are for which; the answer shows when the scene is over. */
  prediction({ question, choices, right }) {
    if (!question) return null;
    this.votes = choices.map((choice, index) => {
      const tally = h("span", { class: "hint" });
      let votes = 0;
      const button = h("button", { type: "button", onclick: () => { votes += 1; tell(tally, ` ${count(votes)}`); } }, choice, tally);
      button.dataset.index = String(index);
      return button;
    });
    this.right = right;
    return h("div", { class: "predict" }, h("h2", {}, "What do you expect? One press is one vote."), h("p", {}, question), h("div", { class: "bar" }, ...this.votes));
  }

  reading({ rules, chapter }) {
    return card("Read on, or run it yourself", h("p", {}, `Rules: ${rules.join(", ")}, in docs/understand/semantics.md.`),
      chapter ? h("p", {}, `Chapter: tutorial/${chapter}`) : null, h("p", {}, this.copied));
  }

  async act(verb) {
    if (this.busy || !this.id) return;
    this.busy = true;
    const [status, shown] = await post(`/stage/${this.id}/${verb}?width=${this.width}`);
    this.busy = false;
    if (this.closed) return;
    if (status === 401) this.page.login();
    else if (status === 200) this.show(shown);
    else this.play(false, status === 404 ? "This stage has ended. Begin again under Knobs." : shown.text);
  }

  async play(playing, trouble = "") {
    this.page.trouble(trouble);
    if (!trouble) this.page.live("ready");
    this.playing = playing;
    tell(this.buttons.play, playing ? "Pause" : "Play");
    while (this.playing && !this.closed && !this.over) {
      await this.act("step");
      await new Promise((then) => setTimeout(then, Number(this.speed.value)));
    }
    if (this.playing) this.play(false);
  }

  show({ here, in_2020: then }) {
    this.over = here.is_over;
    this.buttons.step.disabled = here.is_over;
    this.buttons.back.disabled = here.step === 0;
    tell(this.time, `step ${here.step}, ${duration(here.elapsed_s)} in${here.is_past ? ", seen again" : ""}${here.is_over ? ": the end" : ""}`);
    this.strip.show(here.picture, here.reading.ages);
    this.sums.show(here.reading.topic);
    this.tellStory(here);
    tell(this.lesson, here.is_over ? this.sentence : "");
    for (const vote of this.votes ?? []) vote.dataset.right = here.is_over && Number(vote.dataset.index) === this.right ? "yes" : "no";
    if (then?.picture) this.showThen(then);
  }

  /** The latest is at the top; going back takes it away again. */
  tellStory({ step, events }) {
    this.told = (this.told ?? []).filter((it) => it.step < step);
    for (const event of events) this.told.push({ step, text: `${event.actor || "the broker"}: ${event.text}` });
    fill(this.story, this.told.slice(-200).reverse().map((it) => h("li", { class: it.step === step ? "now" : null }, it.text)));
    if (events.length) this.page.news(events.map((event) => `${event.actor || "the broker"} ${event.text}`).join("; "));
  }

  showThen(then) {
    if (!this.twin) {
      const host = h("div");
      this.twin = new Strip(host);
      this.model = h("p", { class: "hint" });
      this.strips.firstChild.prepend(h("h2", {}, "This broker"));
      this.strips.append(h("div", {}, h("h2", {}, "The zaichik of 2020"), host, this.model));
    }
    this.twin.show(then.picture, then.reading.ages);
    tell(this.model, then.model);
  }

  /** There is room for few. */
  end(id) {
    post(`/stage/${id}/end`, {}, true);
  }

  close() {
    this.closed = true;
    if (this.id) this.end(this.id);
  }
}
