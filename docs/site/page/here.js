// Puts the broker into the page: what the page asks a server for, it asks a worker.

const $ = (id) => document.getElementById(id);

/** Instead of a broker, the picture of one. */
function giveUp(why) {
  $("starting").hidden = true;
  $("refused").hidden = false;
  $("why").textContent = why;
}

function begin() {
  const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  const asked = new Map();
  let count = 0;

  worker.addEventListener("message", ({ data }) => {
    if (data.failure) return giveUp(data.failure);
    if (data.progress === null) return void ($("starting").hidden = true);
    if (data.progress) return void ($("progress").textContent = data.progress);
    asked.get(data.id)(new Response(data.text, { status: data.status }));
    return asked.delete(data.id);
  });
  worker.addEventListener("error", (event) => giveUp(event.message || "the worker cannot be loaded"));

  globalThis.fetch = (address, { method = "GET", body = "" } = {}) => new Promise((answered) => {
    const url = new URL(address, "http://stage");
    count += 1;
    asked.set(count, answered);
    worker.postMessage({ id: count, method, path: url.pathname, query: url.search.slice(1), body });
  });
  return import("./static/app.js");
}

// In a chapter, the book around it has the links and the colours.
document.documentElement.classList.toggle("framed", globalThis !== globalThis.top);

const needed = { WebAssembly: globalThis.WebAssembly, Worker: globalThis.Worker, DecompressionStream: globalThis.DecompressionStream };
const [missing] = Object.entries(needed).find(([, it]) => !it) ?? [];
if (missing) giveUp(`it has no ${missing}`);
else begin();
