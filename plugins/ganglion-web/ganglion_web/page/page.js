// The page: what the server tells, drawn. One store of facts, one stream of news, small parts that show them.
import { html, render, useEffect, useMemo, useRef, useState } from "/page/vendor/htm-preact.js";

const OPEN = new Set(["queued", "running", "paused"]);
const LATE_MS = 4000, GONE_MS = 10000, LOST_MS = 5000;  // two heartbeats; after more a process is not heard of
const EVENTS_MAX = 400, CURVES_MS = 1000;
const COLOURS = ["#0b63c5", "#d1492e", "#12803c", "#8a4fbf", "#b07400", "#00838f", "#c2417c", "#5a6b1c"];

// -- asking ------------------------------------------------------------------------------------------------------------
async function ask(path, options) {
  const answer = await fetch(path, { headers: { "x-ganglion": "1" }, ...options });
  const text = await answer.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { value = text; }
  if (!answer.ok) throw new Error((value && value.error) || `${answer.status} ${answer.statusText}`);
  return value;
}
const post = (path, value) => ask(path, { method: "POST", body: JSON.stringify(value || {}) });
const of = (run) => `/api/runs/${encodeURIComponent(run)}`;

// -- facts -------------------------------------------------------------------------------------------------------------
const facts = { runs: [], total: 0, processes: {}, rates: {}, events: {}, lost: {}, waits: {}, steps: {}, dirty: {}, online: true, toast: null, version: 0 };
const listeners = new Set();
let scheduled = false;
function changed() {
  facts.version += 1;
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => { scheduled = false; for (const listen of listeners) listen(facts.version); }, 100);
}
function useFacts() {
  const [, set] = useState(0);
  useEffect(() => { listeners.add(set); return () => listeners.delete(set); }, []);
  return facts;
}
function toast(text, bad) {
  facts.toast = { text, bad };
  changed();
  const mine = facts.toast;
  setTimeout(() => { if (facts.toast === mine) { facts.toast = null; changed(); } }, 6000);
}
async function loadRuns() {
  try {
    const found = await ask("/api/runs?limit=500");
    facts.runs = found.runs; facts.total = found.total; facts.online = true;
  } catch (error) { toast(error.message, true); }
  changed();
}
const statusOf = (run) => (facts.runs.find((row) => row.run === run) || {}).status;

// -- the stream --------------------------------------------------------------------------------------------------------
let epoch = null;
function listen() {
  const stream = new EventSource("/api/events");
  stream.addEventListener("hello", (message) => {
    const told = JSON.parse(message.data);
    facts.online = true;
    if (epoch !== told.epoch || told.missed) { epoch = told.epoch; facts.dirty = {}; loadRuns(); for (const run in facts.events) facts.dirty[run] = true; }
    changed();
  });
  stream.addEventListener("news", (message) => {
    facts.online = true;
    for (const one of JSON.parse(message.data).news) hear(one);
    changed();
  });
  stream.onerror = () => { facts.online = false; changed(); };
}
function hear(one) {
  if (one.kind === "status") {
    const row = facts.runs.find((it) => it.run === one.run);
    if (row && one.status) { row.status = one.status; row.reason = one.reason; }
    if (!row || !one.status || !OPEN.has(one.status)) { delete facts.processes[one.run]; loadRuns(); }
    facts.dirty[one.run] = true;
  } else if (one.kind === "processes") {
    take(one.run, one.processes);
  } else if (one.kind === "event") {
    const kept = (facts.events[one.run] ||= []);
    if (one.event === "steps.taken") { (facts.steps[one.run] ||= {})[one.fields.worker] = { ...one.fields, time_s: one.time_s }; return; }
    if (one.event === "peer.lost") facts.lost[one.fields.name] = performance.now();
    kept.push(one);
    if (kept.length > EVENTS_MAX) kept.splice(0, kept.length - EVENTS_MAX);
    facts.waits[one.run] = one.event === "waiting" ? one : facts.waits[one.run];
    if (one.event === "episode.ended" || one.event === "phase.started") delete facts.waits[one.run];
    if (/episode|phase|evaluation|run\./.test(one.event)) facts.dirty[one.run] = true;
  }
}
function take(run, rows) {
  const now = performance.now(), before = facts.rates[run];
  const counts = {};
  for (const row of rows) for (const to in row.sent || {}) counts[`${row.name}\n${to}`] = row.sent[to];
  const rates = {};
  if (before) for (const edge in counts) rates[edge] = Math.max(0, counts[edge] - (before.counts[edge] ?? counts[edge])) * 1000 / (now - before.at);
  if (!before || now - before.at > 900) facts.rates[run] = { at: now, counts, rates: before ? rates : {} };
  facts.processes[run] = rows;
}

// -- parts -------------------------------------------------------------------------------------------------------------
function Select({ label, value, choices, onChange, id }) {
  return html`<select id=${id} aria-label=${label} onChange=${(e) => onChange(e.target.value)}>${choices.map((it) => { const [key, text] = Array.isArray(it) ? it : [it, it]; return html`<option value=${key} selected=${key === value}>${text}</option>`; })}</select>`;
}

function Runs({ chosen, compared, compare }) {
  useFacts();
  const [text, setText] = useState(""), [status, setStatus] = useState("");
  const shown = facts.runs.filter((row) => (!status || row.status === status) && (!text || row.run.includes(text)));
  const statuses = [...new Set(facts.runs.map((row) => row.status))].filter(Boolean).sort();
  return html`<nav class="side" aria-label="Runs">
    <header><h1>Ganglion</h1><small>${facts.total} runs</small></header>
    ${!facts.online && html`<div class="offline" role="status">the server is not there; trying again</div>`}
    <div class="filter"><input id="filter" placeholder="filter ( / )" aria-label="filter runs" value=${text} onInput=${(e) => setText(e.target.value)} />
      <${Select} label="status" value=${status} choices=${[["", "all"], ...statuses]} onChange=${setStatus} /></div>
    ${shown.length === 0 && html`<p class="empty">No run yet: <code>ganglion run</code> begins one.</p>`}
    ${shown.map((row) => html`<div key=${row.run} class=${"run" + (row.run === chosen ? " chosen" : "")}>
      <input type="checkbox" aria-label=${`compare ${row.run}`} checked=${compared.has(row.run)} onChange=${() => compare(row.run)} />
      <a href=${"#" + encodeURIComponent(row.run)} title=${row.reason || ""} aria-current=${row.run === chosen ? "page" : undefined}>${row.run}</a>
      <span class=${"status " + (row.status || "")}>${row.status || "not stored"}</span></div>`)}
  </nav>`;
}

function Head({ run, told }) {
  useFacts();
  const status = statusOf(run) || told.status, live = OPEN.has(status);
  const [name, setName] = useState("RESET");
  const act = async (word, value) => { try { const answer = await post(`${of(run)}/${word}`, value); if (answer) toast(answer.text); } catch (error) { toast(error.message, true); } };
  const steps = Object.values(facts.steps[run] || {}).reduce((sum, one) => sum + (one.taken || 0), 0);
  const wait = live && facts.waits[run];
  const remove = async () => { if (!confirm(`Remove ${run} with all its rows and files?`)) return; try { await ask(of(run), { method: "DELETE" }); location.hash = ""; loadRuns(); } catch (error) { toast(error.message, true); } };
  return html`<section class="card wide head" aria-label="Run">
    <h1>${run}</h1><b id="status" class=${"status " + (status || "")}>${status || "not stored"}</b>
    <span class="faint">${told.reason || ""}</span>
    <span class="faint">seed ${told.seed}</span>
    ${live && steps > 0 && html`<span id="steps" class="faint">${steps.toLocaleString("en")} steps in this phase</span>`}
    ${told.started && html`<span class="faint">began ${told.started.slice(0, 19).replace("T", " ")}</span>`}
    <span class="space"></span>
    ${live && status !== "queued" && html`
      <button id="pause" disabled=${status === "paused"} onClick=${() => act("pause")}>pause</button>
      <button id="continue" disabled=${status !== "paused"} onClick=${() => act("continue")}>continue</button>
      <button id="step" disabled=${status !== "paused"} onClick=${() => act("continue", { steps: 1 })}>one step</button>
      <${Select} label="signal" value=${name} choices=${["RESET", "RESTART", "STOP_PHASE", "STOP_RUN"]} onChange=${setName} />
      <button onClick=${() => act("signal", { signal: name })}>signal</button>`}
    ${live && html`<button id="stop" class="bad" onClick=${() => act("stop")}>stop</button>`}
    ${["failed", "interrupted", "lost"].includes(status) && html`<button id="resume" onClick=${() => act("resume")}>resume</button>`}
    ${!live && html`<button class="bad" onClick=${remove}>remove</button>`}
    ${wait && html`<div class="wide late" role="status">${wait.fields.text}</div>`}
  </section>`;
}

function Phases({ run, told }) {
  useFacts();
  return html`<section class="card" aria-label="Phases"><h2>Phases</h2><div class="scroll"><table><thead><tr><th>phase</th><th>mode</th><th>status</th><th>episodes</th><th>conditions</th></tr></thead><tbody>
    ${told.phases.map((phase) => html`<tr><td>${phase.name}</td><td>${phase.mode}</td>
      <td class=${phase.status || ""} title=${phase.reason || ""}>${phase.status || "to come"}${phase.reason ? html`<br /><small class="faint">${phase.reason}</small>` : ""}</td>
      <td>${phase.limit ? html`<progress max=${phase.limit} value=${phase.episodes}></progress> ${phase.episodes} of ${phase.limit}` : phase.episodes}</td>
      <td class="faint">${(phase.conditions || []).map((it) => html`<div>${it.name} ${Object.entries(it.params).map(([k, v]) => `${k} ${typeof v === "object" ? JSON.stringify(v) : v}`).join(", ")}</div>`)}</td></tr>`)}
  </tbody></table></div></section>`;
}

const mb = (bytes) => `${Math.round(bytes / 1048576)} MB`;
function state(row) {
  if (performance.now() - (facts.lost[row.name] ?? -LOST_MS) < LOST_MS) return "gone";  // another one is in its place soon
  if (["lost", "ended", "gone"].includes(row.state) || (row.pid === null && row.state !== "awaited" && row.state !== "attached")) return "gone";
  if (row.heard_ms > GONE_MS) return "gone";
  return row.heard_ms > LATE_MS || row.state === "awaited" ? "late" : "ok";
}
function Processes({ run }) {
  useFacts();
  const rows = facts.processes[run] || [], rates = (facts.rates[run] || {}).rates || {};
  const rate = (name) => Object.entries(rates).filter(([edge]) => edge.startsWith(name + "\n")).reduce((sum, [, one]) => sum + one, 0);
  return html`<section class="card wide" aria-label="Processes"><h2>Processes</h2>${rows.length === 0 && html`<p class="empty">No process: the run is not live.</p>`}
    ${rows.length > 0 && html`<div class="scroll"><table id="processes"><thead><tr>${["process", "role", "worker", "pid", "state", "heard", "messages/s", "waits for", "CPU", "memory", "restarts", "placement"].map((it) => html`<th>${it}</th>`)}</tr></thead><tbody>
    ${rows.map((row) => html`<tr key=${row.name} class=${state(row)} data-name=${row.name}><td>${row.name.replace(run + "/", "")}</td><td>${row.role}</td><td>${row.worker ?? ""}</td><td class="number">${row.pid ?? ""}</td>
      <td>${row.state}</td><td class="number">${row.heard_ms == null ? "" : (row.heard_ms / 1000).toFixed(1) + " s"}</td><td class="number">${Math.round(rate(row.name)) || ""}</td>
      <td>${(row.waiting_for || []).map((it) => it.replace(run + "/", "")).join(", ")}</td><td class="number">${row.cpu_s.toFixed(1)} s</td><td class="number">${mb(row.memory_bytes)}</td><td class="number">${row.restarts || ""}</td><td>${row.placement || ""}</td></tr>`)}
    </tbody></table></div>`}</section>`;
}

const COLUMNS = { governor: 0, store: 0, brain: 1, controller: 2, muscle: 3, environment: 3, observer: 0 };
function Topology({ run }) {
  useFacts();
  const rows = (facts.processes[run] || []).filter((row) => row.role !== "broker"), rates = (facts.rates[run] || {}).rates || {};
  if (rows.length === 0) return null;
  const filled = [0, 0, 0, 0], place = {};
  for (const row of rows) { const column = COLUMNS[row.role] ?? 1; place[row.name] = { x: 20 + column * 210, y: 20 + filled[column]++ * 52, row }; }
  const height = 20 + 52 * Math.max(...filled);
  const pairs = new Map();
  for (const row of rows) for (const to in row.sent || {}) {
    if (!place[to]) continue;
    const key = [row.name, to].sort().join("\n"), pair = pairs.get(key) || { rate: 0, waits: false, ends: key.split("\n") };
    pair.rate += rates[`${row.name}\n${to}`] || 0; pair.waits ||= (row.waiting_for || []).includes(to); pairs.set(key, pair);
  }
  return html`<section class="card wide" aria-label="Topology"><h2>Who asks whom: messages per second, both ways</h2><div class="scroll"><svg id="topology" width="820" height=${height} viewBox=${`0 0 820 ${height}`} role="img" aria-label="processes and the messages between them">
    ${[...pairs.values()].map((pair) => { const [a, b] = pair.ends.map((it) => place[it]); const x = (a.x + b.x) / 2 + 80, y = (a.y + b.y) / 2 + 16;
      const bend = a.x === b.x ? 60 : 0; return html`<g><path class=${"edge" + (pair.waits ? " waits" : "")} d=${`M${a.x + 80} ${a.y + 16} Q${x + bend} ${y} ${b.x + 80} ${b.y + 16}`} />${pair.rate >= 0.5 && html`<text class="rate" x=${x + bend / 2} y=${y - 3} text-anchor="middle">${Math.round(pair.rate)}/s</text>`}</g>`; })}
    ${Object.values(place).map(({ x, y, row }) => html`<g><rect class="node" x=${x} y=${y} width="160" height="32" rx="7" /><text class=${state(row)} x=${x + 80} y=${y + 20} text-anchor="middle">${row.name.replace(run + "/", "").slice(0, 26)}</text></g>`)}
  </svg></div></section>`;
}

// -- curves ------------------------------------------------------------------------------------------------------------
function smoothed(values, weight) {
  let last = null;
  return values.map((value) => (value == null ? null : (last = last == null ? value : weight * last + (1 - weight) * value)));
}
function Curves({ runs }) {
  useFacts();
  const [found, setFound] = useState({}), [axis, setAxis] = useState("episode"), [weight, setWeight] = useState(0), [choice, setChoice] = useState(""), [joined, setJoined] = useState(false);
  const place = useRef(null), chart = useRef(null), asked = useRef({});
  const names = runs.join("\n");
  const dirty = runs.filter((run) => facts.dirty[run] || !(run in found));
  useEffect(() => {
    for (const run of dirty) {
      const now = performance.now(), wait = Math.max(0, CURVES_MS - (now - (asked.current[run] ?? -CURVES_MS)));
      if (asked.current[run] > now) continue;
      asked.current[run] = now + wait;
      facts.dirty[run] = false;
      setTimeout(async () => { try { const told = await ask(`${of(run)}/curves?points=500`); setFound((before) => ({ ...before, [run]: told.curves })); } catch (error) { toast(error.message, true); setFound((before) => ({ ...before, [run]: before[run] || [] })); } }, wait);
    }
  }, [names, dirty.join("\n"), facts.version]);
  const kinds = [...new Set(runs.flatMap((run) => (found[run] || []).map((it) => `${it.phase} ${it.mode}`)))].sort();
  const kind = kinds.includes(choice) ? choice : kinds.find((it) => it.endsWith("train")) || kinds[0];
  const curves = runs.flatMap((run) => (found[run] || []).filter((it) => `${it.phase} ${it.mode}` === kind).map((it) => ({ ...it, label: runs.length > 1 ? `${run} ${it.agent}` : it.agent })));
  const drawn = useMemo(() => (joined ? together(curves) : curves), [curves.map((it) => it.episode.length + it.label).join(), joined, found, kind]);
  useEffect(() => {
    if (!place.current || drawn.length === 0) { chart.current?.destroy(); chart.current = null; return; }
    const tables = drawn.map((it) => [it[axis], smoothed(it.mean, weight), smoothed(it.low, weight), smoothed(it.high, weight)]);
    const data = uPlot.join(tables), series = [{ label: axis }], bands = [];
    drawn.forEach((it, i) => {
      const colour = COLOURS[i % COLOURS.length];
      series.push({ label: it.label, stroke: colour, width: 2, spanGaps: true, points: { show: it.episode.length < 3 } }, { label: "low", class: "band", stroke: colour + "30", spanGaps: true, points: { show: false } }, { label: "high", class: "band", stroke: colour + "30", spanGaps: true, points: { show: false } });
      bands.push({ series: [3 * i + 3, 3 * i + 2], fill: colour + "22" });
    });
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--faint"), line = getComputedStyle(document.documentElement).getPropertyValue("--line");
    const axes = [{ incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7], stroke: ink, grid: { stroke: line }, ticks: { stroke: line }, label: axis === "episode" ? "episode" : "steps of a worker" }, { stroke: ink, grid: { stroke: line }, ticks: { stroke: line }, label: "return" }];
    const shape = series.map((it) => it.label).join("\n") + axis;
    if (chart.current && chart.current.shape === shape) { chart.current.setData(data); return; }
    chart.current?.destroy();
    chart.current = new uPlot({ width: place.current.clientWidth || 600, height: 300, series, bands, axes, scales: { x: { time: false } }, legend: { live: drawn.length < 5 } }, data, place.current);
    chart.current.shape = shape;
  }, [drawn, axis, weight]);
  useEffect(() => {
    const fit = () => chart.current?.setSize({ width: place.current.clientWidth, height: 300 });
    addEventListener("resize", fit);
    return () => { removeEventListener("resize", fit); chart.current?.destroy(); chart.current = null; };
  }, []);
  const count = drawn.reduce((sum, it) => sum + it.count.reduce((a, b) => a + b, 0), 0);
  return html`<section class="card wide" aria-label="Curves"><h2>Return by ${axis}: mean, and from the least to the greatest over workers and bodies</h2>
    <div class="tools"><${Select} label="phase" value=${kind} choices=${kinds.map((it) => [it, `phase ${it}`])} onChange=${setChoice} />
      ${["episode", "step"].map((it) => html`<button class=${axis === it ? "on" : ""} onClick=${() => setAxis(it)}>by ${it}</button>`)}
      <label>smooth <input id="smooth" type="range" min="0" max="0.98" step="0.02" value=${weight} onInput=${(e) => setWeight(+e.target.value)} /></label>
      ${runs.length > 1 && html`<button class=${joined ? "on" : ""} onClick=${() => setJoined(!joined)}>one line for all runs</button>`}
      <span id="episodes" class="faint" data-count=${count}>${count.toLocaleString("en")} episodes</span></div>
    ${drawn.length === 0 && html`<p class="empty">No episode is stored yet.</p>`}<div class="chart" ref=${place}></div></section>`;
}
function together(curves) {
  const groups = new Map();
  for (const it of curves) (groups.get(it.agent) || groups.set(it.agent, []).get(it.agent)).push(it);
  return [...groups].map(([agent, members]) => {
    const rows = new Map();
    for (const it of members) it.episode.forEach((episode, i) => { const key = Math.round(episode); const row = rows.get(key) || { step: 0, n: 0, values: [], count: 0 }; row.step += it.step[i]; row.n += 1; row.values.push(it.mean[i]); row.count += it.count[i]; rows.set(key, row); });
    const keys = [...rows.keys()].sort((a, b) => a - b), all = keys.map((key) => rows.get(key));
    return { agent, label: `${agent}, ${members.length} runs`, episode: keys, step: all.map((row) => row.step / row.n), count: all.map((row) => row.count), mean: all.map((row) => row.values.reduce((a, b) => a + b, 0) / row.n), low: all.map((row) => Math.min(...row.values)), high: all.map((row) => Math.max(...row.values)) };
  });
}

// -- log and document --------------------------------------------------------------------------------------------------
function Log({ run }) {
  useFacts();
  const [told, setTold] = useState({ lines: [], processes: [] }), [level, setLevel] = useState("info"), [process, setProcess] = useState("");
  const live = OPEN.has(statusOf(run));
  useEffect(() => {
    let there = true;
    const load = async () => { try { const query = new URLSearchParams({ level, limit: 300, ...(process ? { process } : {}) }); const found = await ask(`${of(run)}/logs?${query}`); if (there) setTold(found); } catch (error) { toast(error.message, true); } };
    load();
    const timer = live ? setInterval(load, 2000) : null;
    return () => { there = false; clearInterval(timer); };
  }, [run, level, process, live]);
  const events = (facts.events[run] || []).slice(-100);
  return html`<section class="card wide" aria-label="Log"><h2>Log</h2><div class="tools">
    <${Select} label="level" value=${level} choices=${["debug", "info", "warning", "error"]} onChange=${setLevel} />
    <${Select} label="process" value=${process} choices=${[["", "all processes"], ...told.processes]} onChange=${setProcess} /></div>
    <div class="scroll log mono" id="log">${told.lines.map((line) => html`<div class=${line.level}>${line.time.slice(11, 23)} ${line.process.replace(run + "/", "")} ${line.event} ${Object.entries(line.fields || {}).map(([k, v]) => `${k}=${typeof v === "object" ? JSON.stringify(v) : v}`).join(" ")}</div>`)}
    ${events.map((one) => html`<div>${new Date(one.time_s * 1000).toISOString().slice(11, 23)} ${one.event} ${Object.entries(one.fields).filter(([k]) => k !== "run").map(([k, v]) => `${k}=${typeof v === "object" ? JSON.stringify(v) : v}`).join(" ")}</div>`)}</div></section>`;
}
function Document({ run }) {
  const [told, setTold] = useState(null), [which, setWhich] = useState("document"), [faults, setFaults] = useState([]);
  useEffect(() => { setTold(null); setFaults([]); ask(`${of(run)}/document`).then(setTold, (error) => toast(error.message, true)); }, [run]);
  useEffect(() => { if (told && told[which]) ask("/api/check", { method: "POST", body: told[which] }).then((found) => setFaults([...found.faults, ...found.warnings]), () => setFaults([])); }, [told, which]);
  if (!told) return null;
  const marked = new Map(faults.map((fault) => [fault.line, fault.message]));
  return html`<section class="card" aria-label="Document"><h2>Document</h2><div class="tools">${["document", "resolved"].map((it) => html`<button class=${which === it ? "on" : ""} onClick=${() => setWhich(it)}>${it === "document" ? "as given" : "with all defaults"}</button>`)}</div>
    <div class="scroll"><pre id="document">${(told[which] || "it is not there").split("\n").map((line, i) => html`<div class=${"line" + (marked.has(i + 1) ? " fault" : "")}><b>${i + 1}</b><span>${line}${marked.has(i + 1) ? html` <span class="fault-text">${marked.get(i + 1)}</span>` : ""}</span></div>`)}</pre></div></section>`;
}

// -- the whole ---------------------------------------------------------------------------------------------------------
function Run({ run, compared }) {
  useFacts();
  const [told, setTold] = useState(null), [failed, setFailed] = useState(null);
  const seen = useRef(0);
  const status = statusOf(run);
  useEffect(() => { setTold(null); setFailed(null); seen.current = 0; }, [run]);
  useEffect(() => {
    const now = performance.now();
    if (told && now - seen.current < 1000) return;
    if (told && told.run === run && !OPEN.has(status) && told.status === status) return;
    seen.current = now;
    ask(of(run)).then((found) => { setTold(found); setFailed(null); }, (error) => { if (!told) setFailed(error.message); });
    if (!facts.processes[run] && OPEN.has(status)) ask(`${of(run)}/processes`).then((rows) => { take(run, rows); changed(); }, () => {});
  }, [run, status, facts.version]);
  if (failed) return html`<main class="main"><section class="card wide"><p>${failed}</p></section></main>`;
  if (!told || told.run !== run) return html`<main class="main"><section class="card wide"><p class="empty">looking…</p></section></main>`;
  return html`<main class="main"><${Head} run=${run} told=${told} /><${Curves} runs=${[...new Set([run, ...compared])]} /><${Phases} run=${run} told=${told} /><${Document} run=${run} />
    <${Processes} run=${run} /><${Topology} run=${run} /><${Log} run=${run} /></main>`;
}
function Page() {
  useFacts();
  const [chosen, setChosen] = useState(decodeURIComponent(location.hash.slice(1))), [compared, setCompared] = useState(new Set());
  useEffect(() => { const follow = () => setChosen(decodeURIComponent(location.hash.slice(1))); addEventListener("hashchange", follow); return () => removeEventListener("hashchange", follow); }, []);
  const run = chosen || (facts.runs[0] || {}).run;
  useEffect(() => {
    const press = (event) => {
      if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
      const at = facts.runs.findIndex((row) => row.run === run), to = { j: at + 1, k: at - 1 }[event.key];
      if (to !== undefined && facts.runs[to]) location.hash = encodeURIComponent(facts.runs[to].run);
      if (event.key === "/") { event.preventDefault(); document.getElementById("filter").focus(); }
      if (event.key === "p") (document.querySelector("#pause:enabled") || document.querySelector("#continue:enabled"))?.click();
      if (event.key === "s") document.querySelector("#step:enabled")?.click();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [run]);
  const compare = (it) => setCompared((before) => { const after = new Set(before); if (!after.delete(it)) after.add(it); return after; });
  return html`<div class="frame"><${Runs} chosen=${run} compared=${compared} compare=${compare} />
    ${run ? html`<${Run} key=${run} run=${run} compared=${[...compared]} />` : html`<main class="main"><section class="card wide"><p class="empty">Nothing to look at yet. Keys: j and k choose a run, p pauses and continues, s makes one step, / filters.</p></section></main>`}
    ${facts.toast && html`<div class=${"toast" + (facts.toast.bad ? " bad" : "")} role="alert">${facts.toast.text}</div>`}</div>`;
}
render(html`<${Page} />`, document.getElementById("page"));
loadRuns();
listen();
setInterval(() => { if (!facts.online) loadRuns(); }, 5000);
