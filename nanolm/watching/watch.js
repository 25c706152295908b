// An engine at work: a live one, over server-sent events, or a recorded run. One module for the page of
// `nanolm serve`, for a page in a file, and for the widget in a notebook. No library, nothing from the net.

const STATES = ["free", "held by one request", "cached, held by none", "cached and held", "shared by requests"];
const MOST_ITEMS = 20000;
const SHOWN_TOKENS = 160;
const CALM_MS = 1000;

const STYLE = `
:host { color-scheme: light dark; display: block; container-type: inline-size; text-align: left;
  --back: light-dark(#fff, #14171c); --ink: light-dark(#1b1f24, #e6e9ee); --faint: light-dark(#57606a, #a5adb8);
  --line: light-dark(#c9ced6, #3d444d); --s0: light-dark(#e7eaee, #2b3038); --s1: light-dark(#0a63b0, #58a6ff);
  --s2: light-dark(#d6b24a, #8a6d1d); --s3: light-dark(#1a7f4b, #3fb97a); --s4: light-dark(#7a3fb0, #bd8cf5);
  --prefill: light-dark(#bf5a00, #f0a04b); --decode: light-dark(#0a63b0, #58a6ff);
  --kept: light-dark(#116b3d, #56d08f); --rejected: light-dark(#b3261e, #ff8f86);
  --resampled: light-dark(#7a3fb0, #c9a3f7); }
.all { background: var(--back); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; padding: 12px; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 14px; margin: 0 0 6px; }
p { margin: 0 0 6px; color: var(--faint); }
.bar { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 8px 0; }
.panels { display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; }
@container (min-width: 820px) { .panels { grid-template-columns: repeat(2, minmax(0, 1fr)); } .wide { grid-column: 1 / -1; } }
section { border: 1px solid var(--line); border-radius: 6px; padding: 10px; min-width: 0; }
button, select, input, textarea { font: inherit; color: inherit; background: var(--back);
  border: 1px solid var(--faint); border-radius: 4px; padding: 4px 8px; box-sizing: border-box; }
button { cursor: pointer; } button:hover { background: var(--s0); }
:focus-visible { outline: 3px solid var(--s1); outline-offset: 1px; }
input[type=range] { flex: 1 1 120px; min-width: 80px; padding: 0; } textarea { width: 100%; }
label { color: var(--faint); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
ul { list-style: none; margin: 0; padding: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 12px; color: var(--faint); }
.legend i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; border: 1px solid var(--faint); }
.tokens { overflow-wrap: anywhere; white-space: pre-wrap; font: 12px/1.6 ui-monospace, monospace; }
.request { border-top: 1px solid var(--line); padding: 5px 0; }
.request > div:first-child { color: var(--faint); }
.request:focus-visible { outline-offset: -2px; }
.prompt { color: var(--faint); } .kept { color: var(--kept); text-decoration: underline; }
.rejected { color: var(--rejected); text-decoration: line-through; } .resampled { color: var(--resampled); font-weight: 600; }
.row { display: flex; gap: 8px; align-items: center; } .row span { flex: 0 0 170px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 12px; } .row div { flex: 1; height: 12px; }
.part { height: 100%; min-width: 2px; border-radius: 2px; }
.scroll { max-height: 320px; overflow: auto; }
[hidden] { display: none !important; }
@media (prefers-reduced-motion: reduce) { * { animation: none !important; transition: none !important; scroll-behavior: auto !important; } }
`;

const BODY = `<style>${STYLE}</style><div class="all">
<h1 part="title"></h1><p role="status" aria-live="off" id="status"></p>
<div class="bar" role="group" aria-label="What is shown">
  <button id="play"></button><button id="back" aria-label="One pass back">◀</button>
  <button id="next" aria-label="One pass on">▶</button>
  <input id="place" type="range" min="0" value="0" aria-label="Pass">
  <label>speed <select id="speed"><option value="1">1 pass a second</option><option value="4" selected>4 a second</option>
  <option value="15">15 a second</option><option value="60">60 a second</option></select></label>
  <button id="live" hidden>Follow</button><button id="save" hidden>Save the run</button>
  <button id="open">Open a run</button><input id="file" type="file" accept=".json" hidden aria-label="A recorded run">
</div>
<div class="bar" id="pace" role="group" aria-label="The engine's pace" hidden><span>Engine:</span>
  <button data-pace='{"seconds":0}'>full speed</button><button data-pace='{"seconds":0.5}'>slow motion</button>
  <button data-pace='{"stop":true}'>stop</button><button data-pace='{"step":true}'>one pass</button></div>
<div class="panels">
  <section aria-labelledby="h-chat" id="chat" class="wide" hidden><h2 id="h-chat">Send prompts</h2>
    <label for="prompts">One prompt a line; all are sent at once.</label>
    <textarea id="prompts" rows="3">ROMEO\nJULIET\nHAMLET</textarea>
    <div class="bar"><label>tokens each <input id="tokens" type="number" min="1" max="500" value="60"></label>
      <label>API key <input id="key" type="password" autocomplete="off" size="8"></label><button id="send">Send all</button></div>
    <div class="bar" id="scenes" role="group" aria-label="Scenes of the course"></div>
    <p id="said" role="status"></p><ul id="answers" class="scroll tokens" tabindex="0" aria-label="Answers"></ul></section>
  <section aria-labelledby="h-pass"><h2 id="h-pass">The pass</h2><div id="pass"></div></section>
  <section aria-labelledby="h-pool"><h2 id="h-pool">The pool of blocks</h2><div id="pool"></div></section>
  <section aria-labelledby="h-queue"><h2 id="h-queue">The queue</h2><div id="queue"></div></section>
  <section aria-labelledby="h-tree"><h2 id="h-tree">The prefix tree</h2>
    <div id="tree" class="scroll" tabindex="0" role="region" aria-labelledby="h-tree"></div></section>
  <section aria-labelledby="h-requests" class="wide"><h2 id="h-requests">Requests</h2>
    <div class="legend"><span><i style="background:var(--prefill)"></i>prefill</span>
    <span><i style="background:var(--decode)"></i>decode</span><span class="kept">guess kept</span>
    <span class="rejected">guess rejected</span><span class="resampled">token drawn in its place</span></div>
    <div id="requests" class="scroll" tabindex="0" role="region" aria-labelledby="h-requests"></div></section>
  <section aria-labelledby="h-plots" class="wide"><h2 id="h-plots">Times and price</h2>
    <p><label>The machine costs <input id="dollars" type="number" min="0" step="any" value="2"> dollars an hour</label></p>
    <div id="plots" class="plots"></div></section>
</div></div>`;

const SHARED = "You answer in the manner of the First Folio. Keep the metre, keep the names of the speakers in capitals, "
  + "and let nobody speak for more than ten lines before another answers. The scene is a street in Verona.\n\n";
const SCENES = [
  ["Shared system prompt", 60, "Six prompts begin alike: their first blocks are computed once and held by all.",
    () => ["ROMEO", "JULIET", "HAMLET", "OTHELLO", "IAGO", "PORTIA"].map(name => SHARED + name)],
  ["One long prompt among short ones", 60, "The long prompt runs in chunks beside the others, which go on decoding.",
    () => ["ROMEO", "JULIET", SHARED.repeat(5), "HAMLET", "IAGO"]],
  ["A pool too small", 100, "To see requests preempted, start with: nanolm serve --cache-bytes 2000000 --reserve 0",
    () => Array.from({length: 12}, (_, i) => `${SHARED.slice(i)}SCENE ${i}`)],
  ["Speculation", 120, "Guesses show with: nanolm serve --draft prompt-lookup. Start without it, and there are none.",
    () => ["to be or not to be, ", "never, never, never, ", "tomorrow and tomorrow and "].map(text => text.repeat(6))],
];

const escaped = text => String(text).replace(/[&<>"']/g, sign => `&#${sign.charCodeAt(0)};`);
const ms = seconds => seconds == null ? "–" : seconds < 1 ? `${(1000 * seconds).toFixed(1)} ms` : `${seconds.toFixed(2)} s`;
const many = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// What has been shown up to some pass: the last state, and each request's tokens so far.
class Story {
  constructor() { this.state = null; this.pass = null; this.requests = new Map(); this.times = []; this.ended = [];
    this.n_new = 0; this.seconds = 0; }

  request(id) {
    if (!this.requests.has(id)) this.requests.set(id, {id, prompt: null, tokens: [], ended: null, n_preempted: 0});
    return this.requests.get(id);
  }

  add({pass, state}) {
    if (state) this.state = state;
    if (!pass) return;
    this.pass = pass;
    for (const part of pass.parts) this.take(part);
    for (const id of pass.preempted) this.request(id).n_preempted += 1;
    for (const end of pass.ended) { this.request(end.id).ended = end; this.ended.push(end); }
    const n_new = pass.parts.reduce((sum, part) => sum + part.n_new, 0);
    this.n_new += n_new; this.seconds += pass.seconds;
    this.times.push({at: pass.at, seconds: pass.seconds, predicted: pass.predicted, n_new});
    if (this.times.length > 300) this.times.shift();
    const over = [...this.requests.values()].filter(each => each.ended);
    for (const each of over.slice(0, -8)) this.requests.delete(each.id);
  }

  take({n_drafted = 0, n_kept = 0, ...part}) {
    const request = this.request(part.id);
    if (part.prompt) { request.prompt = part.prompt; request.tokens = part.before.map(text => ({text, kind: "own"})); }
    for (let i = 0; i < part.n_new; i++) {
      const wrong = n_kept < n_drafted && i === part.n_new - 1;
      if (wrong) for (let j = n_kept; j < n_drafted; j++)
        request.tokens.push({text: part.rejected?.[j - n_kept], kind: "rejected"});
      request.tokens.push({text: part.new?.[i], kind: i < n_kept ? "kept" : wrong ? "resampled" : "own"});
    }
    request.tokens.splice(0, Math.max(0, request.tokens.length - SHOWN_TOKENS));
  }
}

// --- Panels: what a story looks like ---------------------------------------------------------------------------------

function passPanel({pass}) {
  if (!pass) return "<p>No pass has run yet.</p>";
  const most = Math.max(1, ...pass.parts.map(part => part.n));
  const rows = pass.parts.slice(0, 24).map(part => {
    const colour = part.kind === "prefill" ? "prefill" : "decode";
    const guesses = part.n_drafted ? `, ${part.n_kept} of ${part.n_drafted} kept` : "";
    return `<li class="row"><span>${part.id}: ${part.kind} ${part.n}${guesses}</span><div><div class="part"
      style="width:${100 * part.n / most}%;background:var(--${colour})"></div></div></li>`;
  });
  const longest = Math.max(pass.seconds, pass.predicted ?? 0) || 1;
  const time = (name, seconds, colour) => `<li class="row"><span>${name} ${ms(seconds)}</span><div><div class="part"
    style="width:${100 * (seconds ?? 0) / longest}%;background:var(--${colour})"></div></div></li>`;
  const away = pass.preempted.length ? `; preempted: ${pass.preempted.join(", ")}` : "";
  return `<p>${many(pass.n_tokens, "token")} of ${many(pass.parts.length, "request")}${away}</p><ul>${rows.join("")}</ul>
    <ul>${time("predicted", pass.predicted, "s2")}${time("measured", pass.seconds, "s3")}</ul>`;
}

function poolPanel({state}, marked) {
  if (!state) return "";
  const {n, runs, host, block_size} = state.pool;
  const columns = n <= 128 ? 16 : n <= 1024 ? 32 : 96, size = 10, lines = Math.ceil(n / columns);
  const counts = [0, 0, 0, 0, 0];
  const boxes = (start, length, attributes) => {
    let found = "";
    while (length > 0) {
      const x = start % columns, width = Math.min(length, columns - x);
      found += `<rect x="${x * size}" y="${Math.floor(start / columns) * size}" width="${width * size}" height="${size}" ${attributes}/>`;
      start += width; length -= width;
    }
    return found;
  };
  let at = 0, drawn = "";
  for (const [kind, length] of runs) {
    counts[kind] += length; drawn += boxes(at, length, `fill="var(--s${kind})"`); at += length;
  }
  const own = state.running.find(each => each.id === marked)?.blocks ?? [];
  const marks = own.map(([first, length]) => boxes(first, length, `fill="none" stroke="var(--ink)" stroke-width="2"`)).join("");
  const words = STATES.map((name, i) => `${counts[i]} ${name}`).join(", ");
  const legend = STATES.map((name, i) => `<span><i style="background:var(--s${i})"></i>${name}: ${counts[i]}</span>`).join("");
  return `<svg viewBox="0 0 ${columns * size} ${lines * size}" role="img" aria-label="${many(n, "block")}: ${words}">
    <defs><pattern id="grid" width="${size}" height="${size}" patternUnits="userSpaceOnUse">
    <path d="M${size} 0H0V${size}" fill="none" stroke="var(--back)" stroke-width="1.5"/></pattern></defs>
    ${drawn}<rect width="100%" height="100%" fill="url(#grid)"/>${marks}</svg>
    <div class="legend">${legend}<span>${block_size} positions a block</span>
    ${host ? `<span>in host memory: ${host[0]} of ${host[1]}</span>` : ""}</div>`;
}

function treePanel({state}) {
  if (!state?.tree.length) return "<p>Nothing is cached.</p>";
  const depth = [], wide = Math.max(...state.tree.map(line => line[1]));
  const rows = state.tree.map(([parent, n, where, holders], i) => {
    depth[i] = parent < 0 ? 0 : depth[parent] + 1;
    const colour = where === "host" ? "s0" : holders > 1 ? "s4" : holders ? "s3" : "s2";
    const who = where === "host" ? "in host memory" : holders ? `held by ${holders}` : "held by none";
    return `<li class="row" style="padding-left:${Math.min(depth[i], 8) * 14}px"><span>${many(n, "block")}, ${who}</span>
      <div><div class="part" style="width:${100 * n / wide}%;background:var(--${colour})"></div></div></li>`;
  });
  return `<ul>${rows.join("")}</ul>`;
}

function queuePanel({state}) {
  if (!state) return "";
  const rows = state.waiting.map(each => `<li>${each.id}: ${many(each.n_prompt, "prompt token")}`
    + (each.n_preempted ? `, preempted ${each.n_preempted}×, ${each.n_new} written` : "") + "</li>");
  const rest = state.n_waiting - state.waiting.length;
  return `<p>${many(state.running.length, "request")} run${state.running.length === 1 ? "s" : ""}, ${state.n_waiting} wait</p>
    <ul>${rows.join("")}${rest > 0 ? `<li>and ${rest} more</li>` : ""}</ul>`;
}

function requestsPanel(story) {
  const running = new Map((story.state?.running ?? []).map(each => [each.id, each]));
  const rows = [...story.requests.values()].reverse().map(request => {
    const now = running.get(request.id), end = request.ended;
    const facts = now ? `${now.n_prompt} prompt (${now.n_cached} cached), ${now.n_computed} in the cache, ${now.n_new} new, TTFT ${ms(now.ttft)}`
      : end ? `ended: ${end.reason}, ${end.n_new} new, TTFT ${ms(end.ttft)}, TPOT ${ms(end.tpot)}` : "waits";
    const again = request.n_preempted ? `, preempted ${request.n_preempted}×` : "";
    const prompt = request.prompt ? `<span class="prompt">${escaped(request.prompt.join(""))}</span>` : "";
    const tokens = request.tokens.map(({text, kind}) => `<span class="${kind}">${text == null ? "▪" : escaped(text)}</span>`);
    return `<div class="request" tabindex="0" data-id="${request.id}"><div>request ${request.id}: ${facts}${again}</div>
      <div class="tokens">${prompt}${tokens.join("")}</div></div>`;
  });
  return rows.join("") || "<p>None yet.</p>";
}

function plot(title, series, unit) {
  const width = 320, height = 90, values = series.flatMap(each => each.values).filter(value => value != null);
  const most = Math.max(...values, 1e-9);
  const lines = series.map(({values: own, colour, dash}) => {
    const points = own.map((value, i) => value == null ? "" : `${(width * i / Math.max(1, own.length - 1)).toFixed(1)},${(height - 8 - (height - 24) * value / most).toFixed(1)}`);
    return `<polyline points="${points.join(" ")}" fill="none" stroke="var(--${colour})" stroke-width="1.5" ${dash ? 'stroke-dasharray="4 3"' : ""}/>`;
  });
  const last = series.map(({name, values: own}) => `${name} ${own.length ? unit(own.at(-1)) : "–"}`).join(", ");
  return `<figure style="margin:0"><figcaption>${title}: ${last}</figcaption>
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}, at most ${values.length ? unit(most) : "nothing"}; ${last}">
    <line x1="0" x2="${width}" y1="${height - 8}" y2="${height - 8}" stroke="var(--line)"/><text x="2" y="11">${values.length ? unit(most) : ""}</text>
    ${lines.join("")}</svg></figure>`;
}

// What a million new tokens cost: passes take all of the machine's time, at so many dollars an hour.
const perMillion = (dollars, n_new, seconds) => n_new ? dollars / 3600 * seconds / n_new * 1e6 : null;

function plotsPanel(story, dollars) {
  const {times, ended} = story, of = name => ended.slice(-60).map(each => each[name]);
  const recent = times.map((_, i) => times.slice(Math.max(0, i - 15), i + 1)).map(part =>
    [part.reduce((sum, each) => sum + each.n_new, 0), part.reduce((sum, each) => sum + each.seconds, 0)]);
  const rate = recent.map(([n_new, seconds]) => n_new / (seconds || 1));
  const price = recent.map(([n_new, seconds]) => perMillion(dollars, n_new, seconds));
  const money = value => value == null ? "–" : `$${value.toPrecision(3)}`;
  return plot("Seconds of a pass", [{name: "measured", values: times.map(each => each.seconds), colour: "s3"},
    {name: "predicted", values: times.map(each => each.predicted), colour: "prefill", dash: true}], ms)
    + plot("Tokens a second", [{name: "now", values: rate, colour: "s1"}], value => value.toFixed(0))
    + plot("Dollars per million tokens", [{name: "now", values: price, colour: "s3"},
      {name: "so far", values: [perMillion(dollars, story.n_new, story.seconds)], colour: "s4"}], money)
    + (ended.length ? plot("TTFT", [{name: "of the last to end", values: of("ttft"), colour: "s4"}], ms)
    + plot("TPOT", [{name: "of the last to end", values: of("tpot"), colour: "s1"}], ms) : "");
}

// --- The view: which pass is shown, and what the buttons do ----------------------------------------------------------

export class View {
  constructor(element, title) {
    this.root = element.attachShadow({mode: "open"});
    this.root.innerHTML = BODY;
    this.find = id => this.root.getElementById(id);
    this.element = element; this.items = []; this.frames = []; this.place = -1; this.follows = false; this.timer = null;
    this.story = new Story(); this.marked = null; this.drawing = null;
    this.name(title); this.theme(); this.wire(); this.draw();
  }

  name(title) { this.root.querySelector("h1").textContent = title; }
  say(text) { this.find("status").textContent = text; }

  theme() {
    const body = document.body, told = () => body.dataset.theme ?? {true: "light", false: "dark"}[body.dataset.jpThemeLight];
    const set = () => { const name = told(); this.element.style.colorScheme = name === "light" || name === "dark" ? name : ""; this.root.querySelector(".all").style.colorScheme = this.element.style.colorScheme || "inherit"; };
    set();
    new MutationObserver(set).observe(body, {attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light"]});
  }

  wire() {
    const on = (id, kind, does) => this.find(id).addEventListener(kind, does);
    on("play", "click", () => this.timer || this.follows ? this.pause() : this.play());
    on("back", "click", () => { this.pause(); this.go(this.place - 1); });
    on("next", "click", () => { this.pause(); this.go(this.place + 1); });
    on("place", "input", event => { this.pause(); this.go(Number(event.target.value)); });
    on("speed", "change", () => this.timer && this.play());
    on("live", "click", () => { this.pause(); this.follows = true; this.go(this.items.length - 1); });
    on("save", "click", () => this.save());
    on("open", "click", () => this.find("file").click());
    on("dollars", "input", () => this.draw());
    on("file", "change", async event => this.load(await event.target.files[0].text()));
    const mark = event => { const row = event.target.closest?.(".request"); const id = row ? Number(row.dataset.id) : null;
      if (id !== this.marked) { this.marked = id; this.find("pool").innerHTML = poolPanel(this.story, id); } };
    on("requests", "mouseover", mark); on("requests", "focusin", mark);
  }

  load(text) {
    let run;
    try { run = JSON.parse(text); } catch { return this.say("This file is no recorded run: it holds no JSON."); }
    if (run.format !== "nanolm-run-1") return this.say("This file is no recorded run: its format is not nanolm-run-1.");
    this.pause(); this.stop?.();
    this.items = []; this.frames = []; this.place = -1; this.story = new Story();
    this.name(run.title);
    run.frames.forEach(frame => this.take(frame));
    this.say(`A recorded run of ${many(this.items.length, "pass").replace("passs", "passes")}.`);
    this.go(Math.floor(this.items.length / 3));
  }

  take(frame) {
    this.frames.push(frame);
    frame.passes.slice(0, -1).forEach(pass => this.items.push({pass, state: null}));
    this.items.push({pass: frame.passes.at(-1) ?? null, state: frame});
    if (this.items.length > MOST_ITEMS) { this.items.splice(0, 1000); this.frames.splice(0, 100); this.place = Math.max(0, this.place - 1000); }
    this.find("pace").hidden = !(this.stop && frame.has_words);
    if (this.follows) this.go(this.items.length - 1); else this.draw();
  }

  go(place) {
    place = Math.max(0, Math.min(place, this.items.length - 1));
    if (place < this.place) { this.story = new Story(); this.place = -1; }
    while (this.place < place) this.story.add(this.items[++this.place]);
    this.draw();
  }

  play() {
    clearInterval(this.timer); this.follows = false;
    if (this.place >= this.items.length - 1 && !this.stop) this.go(0);
    this.timer = setInterval(() => { if (this.place >= this.items.length - 1) { if (!this.stop) this.pause(); } else this.go(this.place + 1); },
      1000 / Number(this.find("speed").value));
    this.draw();
  }

  pause() { clearInterval(this.timer); this.timer = null; this.follows = false; this.draw(); }

  draw() {
    // Who wants little to move sees a picture a second while passes go by; a step by hand is shown at once.
    const calm = (this.timer || this.follows) && matchMedia("(prefers-reduced-motion: reduce)").matches;
    const wait = calm ? CALM_MS : 16;
    if (this.drawing && wait >= this.wait) return;
    clearTimeout(this.drawing);
    this.wait = wait;
    this.drawing = setTimeout(() => { this.drawing = null; this.paint(); }, wait);
  }

  paint() {
    const going = this.timer || this.follows, place = this.find("place");
    this.find("play").textContent = going ? "Pause" : "Play";
    place.max = Math.max(0, this.items.length - 1); place.value = Math.max(0, this.place);
    place.setAttribute("aria-valuetext", `pass ${this.place + 1} of ${this.items.length}`);
    const panels = {pass: passPanel, queue: queuePanel, tree: treePanel, requests: requestsPanel};
    this.find("pool").innerHTML = poolPanel(this.story, this.marked);
    this.find("plots").innerHTML = plotsPanel(this.story, Number(this.find("dollars").value) || 0);
    const focused = this.root.activeElement?.dataset?.id;
    for (const [id, panel] of Object.entries(panels)) this.find(id).innerHTML = panel(this.story);
    if (focused) this.find("requests").querySelector(`[data-id="${focused}"]`)?.focus({preventScroll: true});
  }

  save() {
    const link = document.createElement("a"), run = {format: "nanolm-run-1", title: this.root.querySelector("h1").textContent, n_dropped: 0, frames: this.frames};
    link.href = URL.createObjectURL(new Blob([JSON.stringify(run)], {type: "application/json"}));
    link.download = "nanolm-run.json"; link.click(); URL.revokeObjectURL(link.href);
  }
}

// --- A live engine ---------------------------------------------------------------------------------------------------

class Live {
  constructor(view) {
    this.view = view; this.find = view.find; this.leaving = new AbortController();
    view.follows = true; view.stop = () => { this.leaving.abort(); view.stop = null; for (const id of ["chat", "pace", "live", "save"]) this.find(id).hidden = true; };
    for (const id of ["chat", "live", "save"]) this.find(id).hidden = false;
    this.find("send").addEventListener("click", () => this.send(this.find("prompts").value.split("\n").filter(Boolean)));
    this.find("key").addEventListener("change", () => this.wake?.());
    for (const button of this.find("pace").querySelectorAll("button"))
      button.addEventListener("click", () => this.ask("/watch/pace", button.dataset.pace).catch(error => this.said(error.message)));
    for (const [name, tokens, what, prompts] of SCENES) {
      const button = document.createElement("button");
      button.textContent = name;
      button.addEventListener("click", () => { this.said(what); this.find("tokens").value = tokens; this.send(prompts()); });
      this.find("scenes").append(button);
    }
    // A browser keeps the page that one leaves, with its connections: six of them, and no other page gets an answer.
    addEventListener("pagehide", () => this.gone?.abort());
    addEventListener("pageshow", event => event.persisted && this.wake?.());
    this.watch();
  }

  said(text) { this.find("said").textContent = text; }

  async ask(path, body, signal = this.leaving.signal) {
    const key = this.find("key").value, headers = {...(key && {Authorization: `Bearer ${key}`}), ...(body && {"Content-Type": "application/json"})};
    const answer = await fetch(path, {method: body ? "POST" : "GET", headers, body, signal});
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    return answer;
  }

  async stream(path, body, signal) { return (await this.ask(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader(); }

  async watch() {
    while (!this.leaving.signal.aborted) {
      try {
        this.gone = new AbortController();
        this.leaving.signal.addEventListener("abort", () => this.gone.abort(), {once: true});
        const frames = await this.stream("/watch/events", null, this.gone.signal);
        this.view.say("Live.");
        await this.read(frames);
      } catch (error) { if (!this.leaving.signal.aborted) this.view.say(`Not connected: ${error.message}`); }
      await new Promise(done => { this.wake = done; setTimeout(done, 3000); });
    }
  }

  async read(reader) {
    for await (const [name, data] of events(reader)) {
      if (name === "frame") this.view.take(JSON.parse(data));
      if (name === "lost") this.view.say(`Live; ${data} frames were lost: this page reads too slowly.`);
    }
  }

  // One request for all prompts: a browser opens six connections to a server, and the frames take one of them.
  async send(prompts) {
    if (!prompts.length) return;
    try { this.model ??= (await (await this.ask("/v1/models")).json()).data[0].id; } catch (error) { return this.said(error.message); }
    const rows = prompts.map(prompt => ({text: prompt.slice(-40), ended: "", item: document.createElement("li")}));
    const show = row => { row.item.textContent = row.text + (row.ended ? "" : " …"); };
    for (const row of rows) { show(row); this.find("answers").prepend(row.item); }
    const body = {model: this.model, prompt: prompts, max_tokens: Number(this.find("tokens").value) || 60, temperature: 0.8, stream: true};
    try {
      for await (const [, data] of events(await this.stream("/v1/completions", JSON.stringify(body)))) {
        if (data === "[DONE]") continue; // the rest is read, too: a stream left half read keeps its connection
        const said = JSON.parse(data);
        if (said.error) throw new Error(said.error.message);
        for (const choice of said.choices) {
          const row = rows[choice.index];
          row.text += choice.text; row.ended ||= choice.finish_reason; show(row);
        }
      }
    } catch (error) { for (const row of rows) if (!row.ended) { row.text += `: ${error.message}`; row.ended = "error"; show(row); } }
  }
}

// Yields the server-sent events of a stream, as their names and what they say; comments are left out.
async function* events(reader) {
  let held = "";
  for (let piece; !(piece = await reader.read()).done;) {
    const parts = (held + piece.value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const said = /^(?:event: (.*)\n)?data: (.*)$/.exec(part);
      if (said) yield [said[1] ?? "", said[2]];
    }
  }
}

// --- Where it is used ------------------------------------------------------------------------------------------------

for (const element of document.querySelectorAll("[data-nanolm-watch]:not([data-is-shown])")) {
  element.dataset.isShown = "";
  const run = document.querySelector("script[data-nanolm-run]:not([data-is-shown])");
  const view = new View(element, "NanoLM at work");
  if (run) { run.dataset.isShown = ""; view.load(run.textContent); } else new Live(view);
}

// The widget of a notebook (https://anywidget.dev): a recorded run, and frames of a live engine as messages.
export default {
  render({model, el}) {
    const view = new View(el.appendChild(document.createElement("div")), model.get("title") || "NanoLM at work");
    const load = () => model.get("run") && view.load(model.get("run"));
    load();
    model.on("change:run", load);
    model.on("msg:custom", frame => { view.follows = true; view.take(frame); });
    return () => view.pause();
  },
};
