// "What became of this message?", asked of the broker.

import { count, h, tell } from "./dom.js";
import { ask } from "./feed.js";

export function asking(topic) {
  const which = h("select", { "aria-label": "look up by", name: "by" }, h("option", { value: "key" }, "last of key"), h("option", { value: "offset" }, "offset"));
  const what = h("input", { "aria-label": "key or offset", name: "what", required: true, autocomplete: "off", autocapitalize: "none" });
  const about = h("p", { class: "hint", role: "status" }, "Type a key, or choose one of the last messages.");
  const verdicts = h("ol", { class: "verdicts" });
  const form = h("form", { class: "bar" }, which, what, h("button", {}, "Explain"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [status, told] = await ask("/explain", { topic, [which.value]: what.value });
    const known = `Offset ${count(told.offset)}${told.key ? `, key ${told.key}` : ""}:`;
    about.classList.toggle("problem", status !== 200);
    tell(about, status !== 200 ? told.text : told.offset === undefined ? "" : known);
    verdicts.replaceChildren(...(told.verdicts ?? []).map(verdict));
  });
  return {
    element: h("div", {}, form, about, verdicts),
    focus: () => what.focus(),
    about(message) {
      which.value = "offset";
      what.value = String(message.offset);
      form.requestSubmit();
    },
  };
}

function verdict({ fate, text, rule, next, evidence }) {
  const whose = evidence.name || (evidence.subscription ? `${evidence.client} ${evidence.subscription}` : "");
  return h("li", {}, whose ? h("bdi", { class: "label" }, `${whose}: `) : null, h("strong", {}, fate.replaceAll("_", " ")), ` – ${text}. `,
    h("span", { class: "hint" }, `${next} [${rule}]`));
}
