// A page of exercises: answers kept in this browser, run and checked by a worker, handed on as a notebook.
// No module, since a browser loads none from a file: there the page still shows the answers, and says what it needs.
"use strict";
const HERE = new URL(".", document.currentScript.src);
const { lesson, setUp } = JSON.parse(document.getElementById("lesson").textContent);
const boxes = [...document.querySelectorAll(".answer")];
const state = document.getElementById("state");
const tell = (text) => { state.textContent = text; };

// Kept answers. A browser may refuse to keep anything; the page works all the same.
const place = (box) => `nanolm/${lesson}/${box.dataset.cell}`;
function kept(box) {
  try { return localStorage.getItem(place(box)); } catch { return null; }
}
function keep(box) {
  const text = box.querySelector("textarea").value;
  try {
    if (text === box.dataset.stub) localStorage.removeItem(place(box));
    else localStorage.setItem(place(box), text);
  } catch { tell("This browser keeps nothing: download the notebook before you close the page."); }
}

// Python in a worker. It is asked one thing at a time, and ended when the answer takes too long.
class Python {
  constructor() {
    this.isOver = false;
    this.worker = new Worker(new URL("worker.mjs", HERE), { type: "module" });
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.end(`Python did not load: ${event.message || "a file is missing"}`);
    this.ready = this.ask({ kind: "open", setUp });
  }
  ask(message) {
    return new Promise((done) => { this.done = done; this.worker.postMessage(message); });
  }
  hear(data) {
    clearTimeout(this.clock);
    if (data.kind === "limit") this.clock = setTimeout(() => this.end(data.text), 1000 * data.seconds);
    else if (data.kind === "broken") this.end(`Python has ended: ${data.text}`);
    else this.done(data);
  }
  end(text) {
    clearTimeout(this.clock);
    this.worker.terminate();
    this.isOver = true;
    this.done({ text });
  }
}

let python;
async function answerOf(message) {
  if (!python || python.isOver) {
    tell("Python is loading …");
    python = new Python();
  }
  const opened = await python.ready;
  const said = python.isOver ? opened : await python.ask(message);
  tell(python.isOver ? "Python has ended; the next check starts a new one, in which nothing is defined." : "Python is ready.");
  return said;
}

async function ask(kind, box) {
  const shown = box.querySelector("pre"), end = box.querySelector(".stop");
  const busy = (is) => {
    document.querySelectorAll("button[data-ask]").forEach((button) => { button.disabled = is; });
    end.hidden = !is;
  };
  busy(true);
  shown.hidden = false;
  shown.className = "";
  shown.textContent = kind === "check" ? "checking …" : "running …";
  const said = await answerOf({ kind, name: box.dataset.exercise, text: box.querySelector("textarea").value });
  shown.textContent = said.text || "(nothing was printed)";
  if (kind === "check") shown.className = said.points >= Number(box.dataset.points) ? "right" : "wrong";
  busy(false);
}

// What an editor does: Tab indents, Enter keeps the indentation; Escape lets the next Tab leave, for those on a keyboard.
function typed(event) {
  const area = event.target;
  const put = (text) => { event.preventDefault(); area.setRangeText(text, area.selectionStart, area.selectionEnd, "end"); };
  if (event.key === "Escape") area.dataset.leaves = "1";
  else if (event.key === "Tab" && !event.shiftKey && !area.dataset.leaves) put("    ");
  else if (event.key === "Enter" && (event.ctrlKey || event.shiftKey)) { event.preventDefault(); area.closest(".answer").querySelector(".first").click(); }
  else if (event.key === "Enter") {
    const line = area.value.slice(0, area.selectionStart).split("\n").pop();
    put(`\n${line.match(/^ */)[0]}${line.trimEnd().endsWith(":") ? "    " : ""}`);
  } else delete area.dataset.leaves;
  fit(area);
}
function fit(area) { area.rows = Math.min(40, area.value.split("\n").length + 1); }

// The notebook that `course collect` reads: the released one, with the answers in their cells.
async function filled() {
  const notebook = await (await fetch(new URL(`notebooks/${lesson}.ipynb`, HERE))).json();
  for (const cell of notebook.cells) {
    const box = boxes.find((each) => each.dataset.cell === cell.id);
    if (box) cell.source = box.querySelector("textarea").value;
  }
  return JSON.stringify(notebook, null, 1);
}
async function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await filled()], { type: "application/x-ipynb+json" }));
  link.download = `${lesson}.ipynb`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  tell(`${lesson}.ipynb was downloaded with your answers in it.`);
}
async function load(file) {
  let found = 0;
  try {
    const cells = JSON.parse(await file.text()).cells;
    const byName = new Map(cells.map((cell) => [cell.metadata?.nbgrader?.grade_id ?? cell.id, [cell.source].flat().join("")]));
    for (const box of boxes.filter((each) => byName.has(each.dataset.cell))) {
      const area = box.querySelector("textarea");
      area.value = byName.get(box.dataset.cell);
      fit(area);
      keep(box);
      found += 1;
    }
  } catch { found = 0; }
  tell(found ? `${file.name}: ${found} answers were read.` : `${file.name} is no notebook of this lesson; nothing was changed.`);
}

for (const box of boxes) {
  const area = box.querySelector("textarea");
  box.dataset.stub = area.value;
  area.value = kept(box) ?? area.value;
  fit(area);
  area.addEventListener("keydown", typed);
  area.addEventListener("input", () => { fit(area); keep(box); });
  for (const button of box.querySelectorAll("button[data-ask]")) button.onclick = () => ask(button.dataset.ask, box);
  box.querySelector(".stop").onclick = () => python.end("stopped");
  const again = box.querySelector(".again");
  if (again) again.onclick = () => { area.value = box.dataset.stub; fit(area); keep(box); };
}
if (location.protocol === "file:") {
  tell("A browser runs Python only in a page that is served: python -m http.server --directory site, then open http://localhost:8000");
  document.querySelectorAll(".answer button[data-ask], #download").forEach((button) => { button.disabled = true; });
} else {
  document.getElementById("download").onclick = download;
  tell("Python loads with the first check.");
}
document.getElementById("load").onchange = (event) => { if (event.target.files[0]) load(event.target.files[0]); event.target.value = ""; };
