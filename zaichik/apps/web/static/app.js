// Which view is shown, and what all of them have in common.

import { Feed, post } from "./feed.js";
import { h, tell, visible } from "./dom.js";
import { Topics } from "./topics.js";
import { Topic } from "./topic.js";
import { Connections } from "./connections.js";
import { Stage } from "./stage.js";
import { login } from "./login.js";

const $ = (id) => document.getElementById(id);
const main = $("main");
const trouble = document.querySelector(".trouble");
const VIEWS = { "/": Topics, "/topic": Topic, "/connections": Connections, "/stage": Stage };
const NEWS_MS = 3000; // between two things that a screen reader says of itself
const FLASH_MS = 1200;

class Page {
  constructor() {
    this.held = false;
    this.spoken = -NEWS_MS;
  }

  watch(query) {
    this.feed?.close();
    this.isAnswer = true; // what was asked for is shown even while the picture is held
    this.feed = new Feed(query, {
      hello: (hello) => this.meet(hello),
      state: (state) => this.show(state),
      trouble: (sentence) => this.trouble(sentence),
      login: () => this.login(),
    });
  }

  login() {
    this.leave();
    this.trouble("");
    tell($("status"), "logged out");
    login(main, () => go());
  }

  leave() {
    this.feed?.close();
    this.view?.close?.();
    this.feed = this.view = null;
  }

  meet(hello) {
    $("leave").hidden = !hello.user;
    tell($("leave"), `Log out ${hello.user ?? ""}`);
    this.view.meet?.(hello);
  }

  show(state) {
    this.trouble("");
    if (this.held && !this.isAnswer) {
      this.newer += 1;
      this.last = state;
      this.live("held");
      return tell($("newer"), `, ${this.newer} newer`);
    }
    this.isAnswer = false;
    if (!this.held) this.live("live");
    return this.view.show(state);
  }

  live(word) {
    tell($("status"), word);
    document.documentElement.dataset.live = "yes";
  }

  hold(held = !this.held) {
    if (held === this.held || (held && !this.feed)) return;
    this.held = held;
    $("hold").setAttribute("aria-pressed", String(held));
    tell($("hold"), held ? "Go on" : "Hold");
    tell($("status"), held ? "held" : "live");
    this.step();
  }

  /** Show the newest there is. */
  step() {
    tell($("newer"), "");
    this.newer = 0;
    if (this.last) this.view.show(this.last);
    this.last = null;
  }

  trouble(sentence) {
    if (sentence) {
      document.documentElement.dataset.live = "no";
      tell($("status"), "not live");
      tell($("newer"), "");
    }
    tell(trouble, sentence);
    trouble.hidden = !sentence;
  }

  /** Say something, seldom enough to be listened to. */
  news(sentence) {
    if (performance.now() - this.spoken < NEWS_MS) return;
    this.spoken = performance.now();
    tell($("news"), sentence);
  }

  /** Where a page may not copy, a person can. */
  async copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return dialog("Copy this", h("pre", { tabindex: "0" }, text));
    }
    const before = button.textContent;
    tell(button, "Copied");
    return setTimeout(tell, FLASH_MS, button, before);
  }

  visit(address) {
    history.pushState(null, "", address);
    go();
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

const page = new Page();
let shown = ""; // the address

function go() {
  shown = location.href;
  page.hold(false);
  page.leave();
  const argument = decoded(location.hash.slice(1));
  const address = document.documentElement.dataset.view ?? location.pathname; // the stage alone may be a page anywhere
  const path = address === "/topic" && !argument ? "/" : address;
  const View = VIEWS[path] ?? Topics;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === (View === Topic ? "/" : path)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren();
  page.trouble("");
  tell($("status"), "connecting");
  document.documentElement.dataset.live = "no";
  $("hold").hidden = View === Stage; // there, only you move the time
  document.title = `${View === Topic ? visible(argument) : View.title} · zaichik`;
  page.view = new View(main, page, argument);
}

/** In a link typed by hand, `%` may be a letter. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/'], a[href^='#']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (link.classList.contains("skip")) main.focus(); // its hash would be another view
  else page.visit(link.getAttribute("href"));
});
// Going back is told twice if only the hash is another one.
for (const change of ["popstate", "hashchange"]) addEventListener(change, () => { if (shown !== location.href) go(); });
addEventListener("pagehide", () => page.leave());
addEventListener("pageshow", (event) => { if (event.persisted) go(); });

addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || $("keys").open) return;
  if (target.closest("input, select, textarea") || (key === " " && target.closest("button, summary, a"))) return;
  if (key === " ") page.hold();
  else if (key === "?") keys();
  else if (page.view?.does?.[key]) page.view.does[key]();
  else if (key === "." && page.held) page.step();
  else return;
  event.preventDefault();
});

function dialog(title, ...content) {
  $("keys").setAttribute("aria-label", title);
  $("keys").replaceChildren(h("h2", {}, title), ...content, h("form", { method: "dialog" }, h("button", {}, "Close")));
  $("keys").showModal();
}

function keys() {
  const moving = page.view instanceof Stage ? {} : { space: "hold the picture", ".": "while held: the newest state" };
  const rows = Object.entries({ ...page.view?.constructor.keys, ...moving, "?": "this list" });
  dialog("Keys", h("dl", {}, ...rows.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])));
}

$("hold").addEventListener("click", () => page.hold());
$("help").addEventListener("click", keys);
$("leave").addEventListener("click", async () => { await post("/logout"); location.assign("/"); });
$("theme").addEventListener("click", () => {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = isDark ? "light" : "dark";
});
if (new URLSearchParams(location.search).has("big")) document.documentElement.classList.add("big");
go();
