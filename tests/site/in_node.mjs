// The cells of a page checked as its worker checks them, in Node: node in_node.mjs FOLDER ARCHIVE CELLS, all paths.
// CELLS is JSON: a list of pages, {"set_up": text, "cells": {"name": text}}. Prints JSON: {"name": [what is said, points]}.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, archive, cells] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: folder });
python.unpackArchive(new Uint8Array(readFileSync(archive)), "zip", { extractDir: "/course" });
python.runPython("import sys; sys.path.insert(0, '/course')");
const { Notebook } = python.pyimport("course.tab.inside");
const found = {};
for (const page of JSON.parse(readFileSync(cells, "utf-8"))) {
  const notebook = Notebook(page.set_up, () => null);
  for (const [name, text] of Object.entries(page.cells)) found[name] = notebook.check(name, text, 0).toJs();
}
console.log(JSON.stringify(found));
