// Who is there? Asked only where the broker asks.

import { h, tell } from "./dom.js";
import { post } from "./feed.js";

export function login(main, accepted) {
  const problem = h("p", { class: "problem", role: "alert" });
  const user = h("input", { name: "user", autocomplete: "username", autocapitalize: "none" });
  const secret = h("input", { name: "secret", type: "password", autocomplete: "current-password", required: true });
  const button = h("button", { class: "primary" }, "Log in");
  const form = h("form", { class: "login", onsubmit: submit },
    h("h1", {}, "Log in"), h("p", {}, "This broker has access control. You see what this user may see."),
    h("label", {}, "User (not needed with a token)", user), h("label", {}, "Password or token", secret), problem, button);

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    const [status, answer] = await post("/login", { user: user.value, secret: secret.value });
    secret.value = "";
    button.disabled = false;
    if (status === 200) return accepted();
    tell(problem, answer.text);
    return secret.focus();
  }

  main.replaceChildren(form);
  user.focus();
}
