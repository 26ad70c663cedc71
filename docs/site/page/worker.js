// The broker of the stage: Python in a worker, so that the page stays alive while it starts.

import { loadPyodide } from "./python/pyodide.js";

const PACKED = ["pyodide.asm.wasm", "python.zip", "stage.zip"];
const TYPES = { wasm: "application/wasm", zip: "application/zip" };

const here = new URL("./python/", import.meta.url);
const load = self.fetch;

/** What is packed is unpacked by the browser, so that no host needs to compress anything. */
self.fetch = async (address, options) => {
  const url = new URL(address, import.meta.url);
  const name = url.pathname.slice(here.pathname.length);
  if (!PACKED.includes(name)) return load(address, options);
  const packed = await load(`${url}.packed`, options);
  if (!packed.ok) throw new Error(`${url.pathname}.packed: ${packed.status}`);
  const type = TYPES[name.split(".").at(-1)];
  return new Response(packed.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": type } });
};

async function start() {
  const tell = (progress) => postMessage({ progress });
  tell("Loading Python");
  const stage = self.fetch(new URL("stage.zip", here)).then((answer) => answer.arrayBuffer());
  // Pyodide would ask for its other half by the name that this has in its package (stage.py).
  const { default: createPyodideModule } = await import("./python/pyodide.asm.js");
  const python = await loadPyodide({ createPyodideModule, indexURL: here.href, stdLibURL: new URL("python.zip", here).href });
  tell("Loading the broker");
  python.unpackArchive(new Uint8Array(await stage), "zip", { extractDir: "/stage" });
  python.runPython("import sys; sys.path.insert(0, '/stage')");
  tell("Starting the broker");
  const app = python.pyimport("stage_here");
  await new Promise((ready, failed) => { app.serve(ready).catch(failed); });
  return app;
}

const started = start();
started.then(() => postMessage({ progress: null }), (error) => postMessage({ failure: String(error.message ?? error) }));

addEventListener("message", async ({ data: { id, method, path, query, body } }) => {
  const app = await started;
  const [status, text] = (await app.request(method, path, query, body)).toJs();
  postMessage({ id, status, text });
});
