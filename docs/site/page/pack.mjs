// Runs pack.py in Pyodide, under Node: node pack.mjs PYODIDE SOURCES TARGET, three folders.

import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const [pyodide, sources, target] = process.argv.slice(2).map((folder) => resolve(folder));
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const python = await loadPyodide();
python.mountNodeFS("/sources", sources);
python.mountNodeFS("/target", target);
try {
  await python.runPythonAsync(readFileSync(new URL("pack.py", import.meta.url), "utf8"));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
process.exit(0); // the stages live on
