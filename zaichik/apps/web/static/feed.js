// One stream of states from the server: whole at first, then what has changed.

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** What a JSON merge patch (RFC 7396) makes of a value. Strangers name its members: without a prototype, `constructor` and `__proto__` are names like any other. */
function patched(value, patch) {
  if (!isObject(patch)) return patch;
  const result = Object.assign(Object.create(null), isObject(value) ? value : {});
  for (const [name, part] of Object.entries(patch)) {
    if (part === null) delete result[name];
    else result[name] = patched(result[name], part);
  }
  return result;
}

/** Ask the server. Returns its status and answer; what is wrong is its `text`. */
export const ask = (path, query = {}) => answered(`${path}?${new URLSearchParams(query)}`, {
  cache: "no-store",
  signal: AbortSignal.timeout(SILENCE_MS),
});

/** Something for the server to do; see `ask`. What `isLast` is sent even by a page that is being closed. */
export const post = (path, body = {}, isLast = false) => answered(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", "X-Zaichik": "1" },
  body: JSON.stringify(body),
  keepalive: isLast,
});

const SILENT = "zaichik web does not answer.";
const SILENCE_MS = 15000; // without an event or an answer; a server that has no news says so every 5 seconds

async function answered(path, options) {
  try {
    const response = await fetch(path, options);
    return [response.status, await response.json().catch(() => ({ text: `The server answers with ${response.status}.` }))];
  } catch {
    return [0, { text: SILENT }];
  }
}

const POLL_MS = 2000; // without a stream
const AGAIN_MS = 1000; // between attempts to reach a server that has gone
const STREAMS = 4; // of one browser, which has six connections to a server: the others are for questions

/** Take one of the streams that a browser's windows share. Returns what gives it back, or null. Without locks (no TLS), nobody counts. */
async function stream() {
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS; number += 1) {
    const giveBack = await new Promise((taken) => {
      navigator.locks.request(`zaichik-stream-${number}`, { ifAvailable: true },
        (lock) => (lock ? new Promise((release) => { taken(release); }) : taken(null)));
    });
    if (giveBack) return giveBack;
  }
  return null;
}

/** The states of one view, as long as the page can be seen, told to `on`, which has a function for each of them. */
export class Feed {
  constructor(query, on) {
    this.query = query;
    this.on = on;
    this.state = {};
    this.closed = false;
    this.look = () => (document.hidden ? this.rest() : this.open());
    document.addEventListener("visibilitychange", this.look);
    this.look();
  }

  async open() {
    if (this.closed || this.source || this.opening) return;
    this.opening = true;
    const giveBack = await stream();
    this.opening = false;
    if (giveBack && (this.closed || document.hidden)) return void giveBack();
    if (!giveBack) return void this.ask();
    this.giveBack = giveBack;
    this.listen(new EventSource(`/events?${new URLSearchParams(this.query)}`));
  }

  listen(source) {
    this.source = source;
    this.expect();
    const heard = (name, then) => source.addEventListener(name, (event) => {
      this.expect();
      then(JSON.parse(event.data));
    });
    heard("alive", () => {});
    heard("hello", (hello) => this.on.hello(hello));
    heard("state", (state) => this.take(patched(null, state)));
    heard("rows", (rows) => this.take(rows));
    heard("delta", (patch) => this.take(patched(this.state, patch)));
    heard("trouble", ({ text }) => this.on.trouble(text));
    heard("bye", ({ text, login }) => {
      if (login) return this.ask();
      this.on.trouble(`${text}. This page keeps trying.`);
      return this.later(AGAIN_MS);
    });
    source.onerror = () => {
      this.on.trouble(`${SILENT} This page keeps trying.`);
      if (source.readyState === EventSource.CLOSED) this.ask();
    };
  }

  /** A connection that has died, and a server that stands still, close no stream: then nothing comes any more. */
  expect() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => {
      this.on.trouble(`${SILENT} This page keeps trying.`);
      this.later(AGAIN_MS);
    }, SILENCE_MS);
  }

  /** There is no stream to be had: see why, and what there is without one. */
  async ask() {
    this.rest();
    if (this.closed || document.hidden) return;
    const [status, answer] = await ask("/state", this.query);
    if (this.closed) return;
    if (status === 401) return void this.on.login();
    if (status === 200) this.take(patched(null, answer));
    else this.on.trouble(`${answer.text} This page keeps trying.`);
    this.later(status === 200 ? POLL_MS : AGAIN_MS);
  }

  take(state) {
    this.state = state;
    if (!this.closed) this.on.state(state);
  }

  later(ms) {
    this.rest();
    this.timer = setTimeout(this.look, ms);
  }

  rest() {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.source?.close();
    this.source = null;
    this.giveBack?.();
    this.giveBack = null;
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.look);
    this.rest();
  }
}
