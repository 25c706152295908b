// Python of a page, in a thread of its own, so that a loop without an end can be ended with it.
import { loadPyodide } from "./pyodide/pyodide.mjs";

async function opened(setUp) {
  const [python, answer] = await Promise.all([loadPyodide(), fetch(new URL("python.zip", import.meta.url))]);
  if (!answer.ok) throw new Error(`python.zip: ${answer.status}`);
  python.unpackArchive(await answer.arrayBuffer(), "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.insert(0, '/course')");
  const { Notebook } = python.pyimport("course.tab.inside");
  return Notebook(setUp, (seconds, text) => postMessage({ kind: "limit", seconds, text }));
}

let notebook;
onmessage = async ({ data }) => {
  try {
    if (data.kind === "open") {
      notebook = await opened(data.setUp);
      postMessage({ kind: "said", text: "" });
    } else if (data.kind === "check") {
      const [text, points] = notebook.check(data.name, data.text).toJs();
      postMessage({ kind: "said", text, points });
    } else {
      postMessage({ kind: "said", text: notebook.run(data.name, data.text) });
    }
  } catch (error) {
    // Python itself has ended, of too deep a recursion or too much memory; the page opens another.
    postMessage({ kind: "broken", text: String(error.message ?? error) });
  }
};
