// The page: one run, one experiment, or a document to be written, beside the list of runs.
import { html, render, useEffect, useMemo, useRef, useState } from "/page/vendor/htm-preact.js";
import { Curves, Select, SweepCurves } from "/page/charts.js";
import { ask, changed, complain, facts, listen, loadRuns, of, OPEN, pace, post, rowOf, take, toast, atOnce, useFacts } from "/page/facts.js";

const LATE_MS = 4000, GONE_MS = 10000, LOST_MS = 5000;  // two heartbeats; after more a process is not heard of
const SHOWN = 60;  // so many runs are listed until more are asked for
const whole = (n) => n === null ? "–" : Math.round(n).toLocaleString("en");
const text = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
const mb = (bytes) => `${Math.round(bytes / 1048576)} MB`;
function ago(time) {
  if (!time) return "";
  const s = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  return s < 90 ? `${Math.round(s)} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : s < 129600 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86400)} d ago`;
}
function span(s) { return s < 90 ? `${s.toFixed(s < 10 ? 1 : 0)} s` : s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`; }
function Bar({ now, of: most, label }) {
  const part = most ? Math.min(1, Math.max(0, now / most)) : 0;
  return html`<div class=${"bar" + (part >= 1 ? " done" : "")} role="progressbar" aria-label=${label} aria-valuenow=${Math.round(100 * part)} aria-valuemin="0" aria-valuemax="100"><i style=${{ width: `${100 * part}%` }}></i></div>`;
}
// A browser that fills in forms asks its maker about those of three fields, though about none that searches: all is asked here.
const Search = ({ of, children }) => html`<form class=${of} role="search" action="/search" onSubmit=${(e) => e.preventDefault()}>${children}</form>`;
const Mark = () => html`<svg viewBox="0 0 32 32" aria-hidden="true" fill="none" stroke="var(--accent)" stroke-width="2.4" stroke-linecap="round"><path d="M16 16 6 7M16 16 27 9M16 16 8 26M16 16 24 26" /><g fill="var(--accent)" stroke="none"><circle cx="16" cy="16" r="5.4" /><circle cx="6" cy="7" r="3" /><circle cx="27" cy="9" r="3" /><circle cx="8" cy="26" r="3" /><circle cx="24" cy="26" r="3" /></g></svg>`;

// -- the list of runs --------------------------------------------------------------------------------------------------
function theme(next) {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = next || (dark ? "light" : "dark");
  localStorage.setItem("theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
}
function Runs({ place, compared, compare, help }) {
  useFacts("runs");
  const [word, setWord] = useState(""), [status, setStatus] = useState(""), [most, setMost] = useState(SHOWN), [open, setOpen] = useState(false);
  useEffect(() => { const show = () => setOpen(true); addEventListener("filter", show); return () => removeEventListener("filter", show); }, []);
  useEffect(() => setOpen(false), [place.run, place.sweep]);
  const match = (...texts) => !word || texts.some((it) => it && it.toLowerCase().includes(word.toLowerCase()));
  const shown = facts.runs.filter((row) => (!status || row.status === status) && match(row.run, row.uid, row.experiment, row.reason));
  const statuses = [...new Set(facts.runs.map((row) => row.status))].filter(Boolean).sort();
  const sweeps = facts.sweeps.filter((it) => !status && match(it.experiment)).slice(0, 20);
  return html`<nav class=${"side" + (open ? " open" : "")} aria-label="Runs">
    <header class="brand"><${Mark} /><b>Ganglion</b><small>${whole(facts.total)} runs</small><button id="drawer" aria-expanded=${open} onClick=${() => setOpen(!open)}>runs</button></header>
    ${!facts.online && html`<div class="offline" role="status">The server is not there; trying again.</div>`}
    <${Search} of="filter"><input id="filter" type="search" placeholder="Filter   /" aria-label="filter runs" value=${word} onInput=${(e) => setWord(e.target.value)} />
      <${Select} label="status" value=${status} choices=${[["", "all"], ...statuses]} onChange=${setStatus} /><//>
    <div class="list">
      ${sweeps.length > 0 && html`<h3>Experiments</h3>`}
      ${sweeps.map((it) => html`<div key=${"/" + it.experiment} class=${"run" + (it.experiment === place.sweep ? " chosen" : "")}><span class=${"dot " + (it.running ? "running" : it.failed ? "failed" : it.done === it.points ? "finished" : "")}></span>
        <a href=${"#/sweep/" + encodeURIComponent(it.experiment)}>${it.experiment}</a><time>${it.done || 0} of ${it.points}</time></div>`)}
      <h3>Runs</h3>
      ${shown.length === 0 && html`<p class="empty">${facts.total ? "None of the runs is like that." : html`No run yet: <code>ganglion run</code> begins one.`}</p>`}
      ${shown.slice(0, most).map((row) => html`<div key=${row.run} class=${"run" + (row.run === place.run ? " chosen" : "")}>
        <span class=${"dot " + (row.status || "")} title=${row.status || "not stored"}></span>
        <a href=${"#" + encodeURIComponent(row.run)} title=${row.reason || row.run} aria-current=${row.run === place.run ? "page" : undefined} aria-label=${`${row.run}, ${row.status || "not stored"}`}>${row.run}</a>
        <time>${ago(row.ended || row.started)}</time>
        <input type="checkbox" aria-label=${`compare ${row.run}`} title="compare" checked=${compared.has(row.run)} onChange=${() => compare(row.run)} />
        ${row.limit ? html`<${Bar} now=${row.episodes} of=${row.limit} label="episodes" />` : ["failed", "lost", "interrupted", "paused"].includes(row.status) && html`<small>${row.status}${row.experiment && row.experiment !== row.uid ? ` · ${row.experiment}` : ""}</small>`}</div>`)}
      ${shown.length > most && html`<button onClick=${() => setMost(most + 4 * SHOWN)}>${whole(shown.length - most)} more</button>`}
    </div>
    <footer class="foot"><a href="#/new"><button class="bare" tabindex="-1">+ document</button></a><span class="space"></span><button class="bare" onClick=${() => theme()} aria-label="light or dark">◐</button><button class="bare" onClick=${help} aria-label="keys">?</button></footer>
  </nav>`;
}

// -- one run -----------------------------------------------------------------------------------------------------------
function Head({ run, told }) {
  useFacts("runs", "live");
  const row = rowOf(run), status = row.status || told.status, live = OPEN.has(status);
  const [name, setName] = useState("RESET");
  const act = async (word, value) => { try { const answer = await post(`${of(run)}/${word}`, value); if (answer) toast(answer.text); } catch (error) { complain(error); } };
  const remove = async () => { if (!confirm(`Remove ${run} with all its rows and files?`)) return; try { await ask(of(run), { method: "DELETE" }); location.hash = ""; loadRuns(); } catch (error) { complain(error); } };
  const wait = live && facts.waits[run], long = told.started && told.ended ? (Date.parse(told.ended) - Date.parse(told.started)) / 1000 : null;
  return html`<section class="card wide head" aria-label="Run">
    <h1>${run}</h1><b id="status" class=${"pill " + (status || "")}>${status || "not stored"}</b><span class="space"></span>
    <div class="acts">${live && status !== "queued" && html`
      <button id="pause" disabled=${status === "paused"} onClick=${() => act("pause")}>pause</button>
      <button id="continue" disabled=${status !== "paused"} onClick=${() => act("continue")}>continue</button>
      <button id="step" disabled=${status !== "paused"} onClick=${() => act("continue", { steps: 1 })}>one step</button>
      <${Select} label="signal" id="signal-name" value=${name} choices=${["RESET", "RESTART", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"]} onChange=${setName} />
      <button id="signal" onClick=${() => act("signal", { signal: name })}>signal</button>`}
    ${live && html`<button id="stop" class="bad" onClick=${() => act("stop")}>stop</button>`}
    ${["failed", "interrupted", "lost"].includes(status) && html`<button id="resume" class="main-act" onClick=${() => act("resume")}>resume</button>`}
    ${!live && html`<button id="remove" class="bad" onClick=${remove}>remove</button>`}</div>
    <div class="about">${(row.reason || told.reason) && html`<span class=${status}>${row.reason || told.reason}</span>`}
      <span>seed ${told.seed}</span>${told.started && html`<span title=${told.started}>began ${ago(told.started)}</span>`}${long !== null && html`<span>took ${span(long)}</span>`}
      ${told.versions.ganglion && html`<span>ganglion ${told.versions.ganglion}</span>`}<span class="mono" title="folder">${told.folder}</span></div>
    ${wait && html`<div class="wait" role="status">${wait.fields.text}</div>`}
  </section>`;
}

function Tiles({ run, told }) {
  useFacts("live");
  const episodes = told.phases.reduce((sum, it) => sum + it.episodes, 0), sealed = told.phases.reduce((sum, it) => sum + (it.steps || 0), 0);
  const workers = OPEN.has(rowOf(run).status) ? Object.values(facts.steps[run] || {}) : [], rate = workers.reduce((sum, it) => sum === null || it.rate === null ? null : sum + it.rate, 0);
  const rows = facts.processes[run] || [], measured = (facts.rates[run] || {}).rates, messages = measured ? Object.values(measured).reduce((a, b) => a + b, 0) : null;
  const taken = workers.reduce((sum, it) => sum + it.steps, 0);
  const lost = rows.reduce((sum, it) => sum + (it.restarts || 0), 0);
  const tile = (name, value, unit, id) => html`<div class="tile" id=${id}><span>${name}</span><b>${value}</b>${unit && html`<small>${unit}</small>`}</div>`;
  return html`<div class="tiles wide">
    ${tile("episodes", whole(episodes))}${tile("steps sealed", whole(sealed))}
    ${workers.length > 0 && tile("steps open", whole(taken), "", "steps")}${workers.length > 0 && tile("pace", whole(rate), "steps/s")}
    ${rows.length > 0 && tile("messages", whole(messages), "/s")}${rows.length > 0 && tile("processes", rows.length, lost ? `${lost} restarted` : "")}
    ${tile("phases", `${told.phases.filter((it) => it.status === "finished").length} of ${told.phases.length}`)}</div>`;
}

function Conditions({ conditions }) {
  const shown = conditions.filter((it, i) => conditions.findIndex((other) => other.name === it.name && text(other.params) === text(it.params)) === i);
  return html`<div class="conditions">${shown.map((it) => it.distances.length
    ? it.distances.map((one) => html`<div class="distance" title=${text(it.params)}><span>${it.name}: ${one.what}</span><${Bar} now=${one.now} of=${one.wanted} label=${one.what} /><b>${+one.now.toPrecision(4)} of ${+one.wanted.toPrecision(4)}</b></div>`)
    : html`<span class="faint">${it.name} ${Object.entries(it.params).map(([k, v]) => `${k} ${text(v)}`).join(", ")}</span>`)}</div>`;
}
function Phases({ told }) {
  return html`<section class="card" aria-label="Phases"><header><h2>Phases</h2></header><div id="phases">${told.phases.map((phase) => html`<div class="phase" key=${`${phase.phase} ${phase.mode}`}>
    <span><b>${phase.name}</b> <span class="faint">${phase.mode}${phase.workers > 1 ? ` · ${phase.workers} workers` : ""}</span></span><span class=${phase.status || "faint"}>${phase.status || "to come"}</span>
    <${Bar} now=${phase.status === "finished" ? 1 : phase.episodes} of=${phase.status === "finished" ? 1 : phase.limit} label="episodes" />
    <span class="reason faint">${whole(phase.episodes)}${phase.limit ? ` of ${whole(phase.limit)}` : ""} episodes · ${whole(phase.steps || 0)} steps${phase.reason ? ` · ${phase.reason}` : ""}</span>
    ${(phase.conditions || []).length > 0 && html`<${Conditions} conditions=${phase.conditions} />`}</div>`)}</div></section>`;
}

function state(row) {
  if (performance.now() - (facts.lost[row.name] ?? -LOST_MS) < LOST_MS) return "gone";  // another one is in its place soon
  if (["lost", "ended", "gone"].includes(row.state) || (row.pid === null && row.state !== "awaited" && row.state !== "attached")) return "gone";
  if (row.heard_ms > GONE_MS) return "gone";
  return row.heard_ms > LATE_MS || row.state === "awaited" ? "late" : "ok";
}
function Processes({ run }) {
  useFacts("live", "runs");
  const rows = facts.processes[run] || [], rates = (facts.rates[run] || {}).rates || {}, bare = (name) => name.replace(run + "/", "");
  const rate = (name) => Object.entries(rates).filter(([edge]) => edge.startsWith(name + "\n")).reduce((sum, [, one]) => sum + one, 0);
  if (rows.length === 0) return null;
  return html`<section class="card wide" aria-label="Processes"><header><h2>Processes</h2><span class="faint">${rows.length} in all; green: heard within two heartbeats; red: lost, another one takes its place</span></header>
    <div class="scroll"><table id="processes"><thead><tr>${["process", "role", "worker", "pid", "state", "heard", "messages/s", "waits for", "CPU", "memory", "restarts", "place"].map((it) => html`<th class=${["pid", "heard", "messages/s", "CPU", "memory", "restarts"].includes(it) ? "number" : ""}>${it}</th>`)}</tr></thead><tbody>
    ${rows.map((row) => html`<tr key=${row.name} class=${state(row)} data-name=${row.name}><td>${bare(row.name)}</td><td>${row.role}</td><td>${row.worker ?? ""}</td><td class="number">${row.pid ?? ""}</td>
      <td>${row.state}</td><td class="number heard">${row.heard_ms == null ? "" : (row.heard_ms / 1000).toFixed(1) + " s"}</td><td class="number">${Math.round(rate(row.name)) || ""}</td>
      <td>${(row.waiting_for || []).map(bare).join(", ")}</td><td class="number">${row.cpu_s.toFixed(1)} s</td><td class="number">${mb(row.memory_bytes)}</td><td class="number">${row.restarts || ""}</td><td>${[row.host, row.placement].filter(Boolean).join(" ")}</td></tr>`)}
    </tbody></table></div></section>`;
}

const COLUMNS = ["run", "worker", "world and acting", "learning"], WIDE = 170;
function Topology({ run }) {
  useFacts("live", "runs");
  const rows = (facts.processes[run] || []).filter((row) => row.role !== "broker"), rates = (facts.rates[run] || {}).rates || {};
  if (rows.length === 0) return null;
  const column = (row) => ({ governor: 0, store: 0, observer: 0, controller: 1, environment: 2, muscle: 2, brain: 3, table: 3 })[row.role] ?? 0;
  const filled = [0, 0, 0, 0], place = {};
  const count = [0, 0, 0, 0];
  for (const row of rows) count[column(row)] += 1;
  const tall = Math.max(...count), height = 34 + 52 * tall, bare = (name) => name.replace(run + "/", "");
  for (const row of [...rows].sort((a, b) => (a.worker ?? 0) - (b.worker ?? 0))) { const c = column(row); place[row.name] = { x: 6 + c * 274, y: 30 + (tall - count[c]) * 26 + filled[c]++ * 52, row }; }
  const pairs = new Map();
  for (const row of rows) for (const to in row.sent || {}) {
    if (!place[to]) continue;
    const key = [row.name, to].sort().join("\n"), pair = pairs.get(key) || { rate: 0, waits: false, ends: key.split("\n") };
    pair.rate += rates[`${row.name}\n${to}`] || 0; pair.waits ||= (row.waiting_for || []).includes(to); pairs.set(key, pair);
  }
  const drawn = [...pairs.values()].map((pair) => {
    let [a, b] = pair.ends.map((it) => place[it]);
    if (a.x > b.x) [a, b] = [b, a];
    const y1 = a.y + 17, y2 = b.y + 17, same = a.x === b.x, x1 = a.x + WIDE, x2 = same ? b.x + WIDE : b.x, bend = same ? 46 : (x2 - x1) / 2;
    const c1 = x1 + bend, c2 = same ? x2 + bend : x2 - bend;
    const at = (t) => { const u = 1 - t; return { x: u * u * u * x1 + 3 * u * u * t * c1 + 3 * u * t * t * c2 + t * t * t * x2, y: u * u * (u + 3 * t) * y1 + t * t * (t + 3 * u) * y2 }; };
    return { pair, at, path: `M${x1} ${y1}C${c1} ${y1} ${c2} ${y2} ${x2} ${y2}` };
  });
  const labels = [];  // each in the middle of its line, or as near to it as no other one is
  for (const { pair, at } of drawn) if (pair.rate >= 0.5) {
    const free = ({ x, y }) => labels.every((it) => Math.abs(it.x - x) > 44 || Math.abs(it.y - y) > 11);
    labels.push({ pair, ...at([0.5, 0.35, 0.65, 0.2, 0.8].find((t) => free(at(t))) ?? 0.5) });
  }
  return html`<section class="card wide" aria-label="Topology"><header><h2>Who asks whom</h2><span class="faint">messages per second, both ways</span></header><div class="scroll"><svg id="topology" width="1010" height=${height} viewBox=${`0 0 1010 ${height}`} role="img" aria-label="processes and the messages between them">
    ${COLUMNS.map((it, i) => html`<text class="role" x=${6 + i * 274} y="14">${it}</text>`)}
    ${drawn.map(({ pair, path }) => html`<path class=${"edge" + (pair.rate >= 0.5 ? " flows" : "") + (pair.waits ? " waits" : "")} stroke-width=${(1 + Math.log10(1 + pair.rate) * 0.7).toFixed(2)} d=${path} />`)}
    ${labels.map(({ pair, x, y }) => html`<text class="rate" x=${x} y=${y - 4} text-anchor="middle">${whole(pair.rate)}/s</text>`)}
    ${Object.values(place).map(({ x, y, row }) => html`<g><title>${row.name}</title><rect class=${"node " + state(row)} x=${x} y=${y} width=${WIDE} height="34" rx="9" /><text class=${state(row) === "gone" ? "gone" : ""} x=${x + WIDE / 2} y=${y + 21} text-anchor="middle">${bare(row.name).slice(0, 22)}</text></g>`)}
  </svg></div></section>`;
}

// -- log and document --------------------------------------------------------------------------------------------------
function Log({ run }) {
  useFacts("live", "runs");
  const [told, setTold] = useState({ lines: [], processes: [] }), [level, setLevel] = useState("info"), [process, setProcess] = useState(""), [word, setWord] = useState(""), [names, setNames] = useState([]);
  const live = OPEN.has(rowOf(run).status), place = useRef(null), held = useRef(false);
  useEffect(() => {
    let there = true, timer = null;
    const load = async () => { if (live) timer = setTimeout(load, 2 * pace()); if (document.hidden && told.lines.length) return; try { const query = new URLSearchParams({ level, limit: 300, ...(process ? { process } : {}) }); const found = await ask(`${of(run)}/logs?${query}`); atOnce(() => { if (there) { setTold(found); if (!process) setNames(found.processes); } }); } catch (error) { complain(error); } };
    load();
    return () => { there = false; clearTimeout(timer); };
  }, [run, level, process, live]);
  const bare = (name) => name.replace(run + "/", ""), fields = (all) => Object.entries(all || {}).filter(([k]) => k !== "run").map(([k, v]) => html` <i>${k}</i>=${text(v)}`);
  const events = process || level === "error" || level === "warning" ? [] : (facts.events[run] || []).slice(-100).map((one) => ({ time: new Date(one.time_s * 1000).toISOString(), level: "event", process: "", event: one.event, fields: one.fields }));
  const lines = useMemo(() => [...told.lines, ...events].map((it, i) => [it, i]).sort(([a, i], [b, j]) => (a.time && b.time && a.time !== b.time ? (a.time < b.time ? -1 : 1) : i - j)).map(([it]) => it).filter((it) => !word || `${it.process} ${it.event} ${text(it.fields)}`.includes(word)), [told, word, events.length, events.at(-1)?.time]);
  const drawn = useMemo(() => lines.map((it) => html`<div class=${it.level}><time>${it.time.slice(11, 23)}</time> ${bare(it.process)} <b>${it.event}</b>${fields(it.fields)}</div>`), [lines]);
  useEffect(() => { if (place.current && !held.current) place.current.scrollTop = place.current.scrollHeight; });
  return html`<section class="card wide" aria-label="Log"><header><h2>Log</h2><span class="faint">${whole(lines.length)} lines, the newest last</span><span class="space"></span><${Search} of="tools">
    <${Select} label="level" value=${level} choices=${["debug", "info", "warning", "error"]} onChange=${setLevel} />
    <${Select} label="process" value=${process} choices=${[["", "all processes"], ...names.map((it) => [it, bare(it)])]} onChange=${setProcess} /><input type="search" placeholder="find" aria-label="find in the log" value=${word} onInput=${(e) => setWord(e.target.value)} /><//></header>
    <div class="scroll log mono" id="log" tabindex="0" ref=${place} onScroll=${(e) => { held.current = e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight > 30; }}>${drawn}${lines.length === 0 && html`<span class="faint">nothing</span>`}</div></section>`;
}

// Colour one line of YAML; what is not known stays as it is. Every part is text, none is markup.
function Yaml({ line }) {
  const found = /^(\s*(?:- )*)([^\s#'"{[][^:#]*:(?=\s|$))?(.*)$/.exec(line) || ["", "", "", line];
  const parts = found[3].split(/(\s#.*$|^#.*$|"[^"]*"|'[^']*'|(?<![\w.-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.-])|[\w.]+:(?=\s))/i);
  return html`${found[1]}${found[2] && html`<span class="k">${found[2]}</span>`}${parts.map((part, i) => (i % 2 === 0 ? part : html`<span class=${/^\s?#/.test(part) ? "c" : /^["']/.test(part) ? "t" : /:$/.test(part) ? "k" : "n"}>${part}</span>`))}`;
}
function Marked({ text: shown, faults, id }) {
  const marks = new Map();
  for (const fault of faults) marks.set(fault.line, [...(marks.get(fault.line) || []), fault]);
  return html`<div class="scroll"><pre id=${id} tabindex="0">${shown.split("\n").map((line, i) => { const mine = marks.get(i + 1) || [], bad = mine.some((it) => it.bad); return html`<div class=${"line" + (mine.length ? (bad ? " fault bad-line" : " fault") : "")}><b>${i + 1}</b><span><${Yaml} line=${line} />${mine.map((it) => html`<span class="fault-text" role="note">${it.message}</span>`)}</span></div>`; })}</pre></div>`;
}
const marksOf = (found) => [...found.faults.map((it) => ({ ...it, bad: true })), ...found.warnings];
function Document({ run, status }) {
  const [told, setTold] = useState(null), [which, setWhich] = useState("document"), [marks, setMarks] = useState([]);
  useEffect(() => { setTold(null); ask(`${of(run)}/document`).then(setTold, complain); }, [run]);
  useEffect(() => {
    setMarks([]);  // a run that ran has no faults, and may name code of its owner, which a page may not
    if (told && told[which]) post("/api/check", told[which]).then((found) => setMarks(status === "failed" ? marksOf(found) : found.warnings), () => {});
  }, [told, which, status]);
  if (!told) return html`<section class="card" aria-label="Document"></section>`;
  return html`<section class="card" aria-label="Document"><header><h2>Document</h2><span class="space"></span><span class="segments" role="group" aria-label="document">${[["document", "as given"], ["resolved", "with defaults"]].map(([key, name]) => html`<button class=${which === key ? "on" : ""} aria-pressed=${which === key} onClick=${() => setWhich(key)}>${name}</button>`)}</span></header>
    <${Marked} id="document" text=${told[which] ?? "it is not there"} faults=${marks} /></section>`;
}

// Write a document: its faults are marked while it is written; keep it, or hand it to the daemon.
function Write() {
  const [written, setWritten] = useState(""), [found, setFound] = useState(null), [kept, setKept] = useState([]), [name, setName] = useState("");
  const load = () => ask("/api/documents").then(setKept, complain);
  useEffect(() => { load(); }, []);
  const many = /^factors:/m.test(written);
  useEffect(() => {
    if (!written.trim() || many) { setFound(null); return undefined; }
    const timer = setTimeout(() => post("/api/check", written).then(setFound, complain), 400);
    return () => clearTimeout(timer);
  }, [written]);
  const attempt = async (work) => { try { await work(); } catch (error) { if (error.told && error.told.faults) setFound(error.told); complain(error); } };
  const submit = () => attempt(async () => { const told = await post(many ? "/api/sweeps" : "/api/runs", written); toast(`${told.runs.length === 1 ? told.runs[0] : `${told.runs.length} runs`} submitted`); loadRuns(); location.hash = many ? `#/sweep/${encodeURIComponent(told.experiment)}` : `#${encodeURIComponent(told.runs[0])}`; });
  const keep = () => attempt(async () => { await ask(`/api/documents/${encodeURIComponent(name)}`, { method: "PUT", body: written }); toast(`${name} is kept`); load(); });
  const open = (it) => attempt(async () => { setWritten(String(await (await fetch(`/api/documents/${encodeURIComponent(it)}`)).text())); setName(it); });
  const marks = found ? marksOf(found) : [], faults = found ? found.faults.length : 0;
  return html`<main class="main"><section class="card wide" aria-label="New document"><header><h1>A document</h1><span id="verdict" class=${faults ? "failed" : "ok"}>${found ? (faults ? `${faults} fault${faults > 1 ? "s" : ""}` : "no faults") : ""}</span><span class="space"></span>
      <div class="tools"><input aria-label="name of the document" placeholder="name" value=${name} onInput=${(e) => setName(e.target.value)} /><button onClick=${keep} disabled=${!name || !written}>keep</button><button id="submit" class="main-act" disabled=${!written || faults > 0} onClick=${submit}>${many ? "submit the experiment" : "submit"}</button></div></header>
      <textarea id="write" spellcheck="false" aria-label="document" placeholder="uid: mine ..." value=${written} onInput=${(e) => setWritten(e.target.value)}></textarea>
      <p class="faint">Plugins by their names; a page names no code, no command and no file. Documents are taken by <code>ganglion serve --allow-submit</code> and carried out by <code>ganglion kernel</code>.</p>
      ${kept.length > 0 && html`<div class="tools"><span class="faint">kept:</span>${kept.map((it) => html`<button onClick=${() => open(it)}>${it}</button>`)}</div>`}</section>
    ${marks.length > 0 && html`<section class="card wide" aria-label="Faults"><header><h2>Checked</h2></header><${Marked} id="checked" text=${written} faults=${marks} /></section>`}</main>`;
}

// -- one experiment ----------------------------------------------------------------------------------------------------
function Sweep({ experiment }) {
  useFacts("runs");
  const [told, setTold] = useState(null), [failed, setFailed] = useState(null);
  const live = !told || told.points.some((it) => ["planned", "running"].includes(it.state));
  useEffect(() => {
    let there = true;
    const load = () => document.hidden && told ? null : ask(`/api/sweeps/${encodeURIComponent(experiment)}?points=400`).then((found) => there && setTold(found), (error) => there && setFailed(error.message));
    load();
    const timer = live ? setInterval(load, 2000) : null;
    return () => { there = false; clearInterval(timer); };
  }, [experiment, live]);
  if (failed && !told) return html`<main class="main"><section class="card wide"><p>${failed}</p></section></main>`;
  if (!told) return html`<main class="main"></main>`;
  const names = [...new Set(told.points.flatMap((it) => Object.keys(it.factors)))], done = told.points.filter((it) => it.state === "done").length;
  return html`<main class="main"><section class="card wide head" aria-label="Experiment"><h1>${experiment}</h1><b class=${"pill " + (done === told.points.length ? "finished" : "running")}>${done} of ${told.points.length} runs</b><span class="space"></span>
      <div class="about"><span>${new Set(told.points.map((it) => it.row)).size} rows of the design</span><span>factors ${names.join(", ")}</span></div></section>
    <${SweepCurves} curves=${told.curves} />
    <section class="card wide" aria-label="Points"><header><h2>Points</h2></header><div class="scroll"><table id="points"><thead><tr>${["run", "row", "repetition", "seed", ...names, "state", "reason"].map((it) => html`<th>${it}</th>`)}</tr></thead><tbody>
      ${told.points.map((it) => html`<tr class="plain" key=${it.point}><td>${it.run ? html`<a href=${"#" + encodeURIComponent(it.run)}>${it.run}</a>` : ""}</td><td>${it.row}</td><td>${it.repetition}</td><td>${text(it.seed)}</td>${names.map((name) => html`<td>${text(it.factors[name])}</td>`)}<td class=${it.state === "done" ? "finished" : it.state}>${it.state}</td><td class="faint">${it.reason || ""}</td></tr>`)}</tbody></table></div></section></main>`;
}

// -- the whole ---------------------------------------------------------------------------------------------------------
function Run({ run, compared }) {
  const version = useFacts("runs", "live");
  const [told, setTold] = useState(null), [failed, setFailed] = useState(null);
  const seen = useRef(-Infinity), asking = useRef(false), status = rowOf(run).status;
  useEffect(() => {
    const now = performance.now();
    if (asking.current || now - seen.current < pace()) return;  // a busy server is asked once, however many news come
    if (told && !OPEN.has(status) && told.status === status) return;
    seen.current = now;
    asking.current = true;
    ask(of(run)).then((found) => atOnce(() => { setTold(found); setFailed(null); }), (error) => { if (!told) setFailed(error.message); }).finally(() => { asking.current = false; });
    if (!facts.processes[run] && OPEN.has(status)) ask(`${of(run)}/processes`).then((rows) => { take(run, rows); changed("live"); }, () => {});
  }, [run, status, version]);
  const others = compared.filter((it) => it !== run).join("\n");  // what does not hang on what was told is drawn by itself
  const curves = useMemo(() => html`<${Curves} runs=${[run, ...compared.filter((it) => it !== run)]} />`, [run, others]);
  const written = useMemo(() => html`<${Document} run=${run} status=${status} />`, [run, status]);
  const rest = useMemo(() => html`<${Topology} run=${run} /><${Processes} run=${run} /><${Log} run=${run} />`, [run]);
  if (failed) return html`<main class="main"><section class="card wide"><p>${failed}</p></section></main>`;
  if (!told) return html`<main class="main"></main>`;
  return html`<main class="main"><${Head} run=${run} told=${told} /><${Tiles} run=${run} told=${told} />${curves}<${Phases} told=${told} />${written}${rest}</main>`;
}
const KEYS = [["j  k", "next run, run before"], ["/", "filter runs"], ["p", "pause, and go on"], ["s", "one step of a paused run"], ["c", "compare this run"], ["n", "write a document"], ["d", "dark or light"], ["?", "these keys"]];
function where() {
  const hash = location.hash.slice(1);
  let name = "";
  try { name = decodeURIComponent(hash.replace(/^\/sweep\//, "")); } catch { return {}; }
  if (hash === "/new") return { write: true };
  return hash.startsWith("/sweep/") ? { sweep: name } : { run: name || undefined };
}
function Page() {
  useFacts("runs");
  const [place, setPlace] = useState(where()), [compared, setCompared] = useState(new Set()), keys = useRef(null);
  useEffect(() => { const follow = () => { setPlace(where()); scrollTo(0, 0); }; addEventListener("hashchange", follow); return () => removeEventListener("hashchange", follow); }, []);
  const run = place.write || place.sweep ? undefined : place.run || (facts.runs[0] || {}).run;
  const compare = (it) => setCompared((before) => { const after = new Set(before); if (!after.delete(it)) after.add(it); return after; });
  useEffect(() => { document.title = `${run || place.sweep || "Ganglion"}${run || place.sweep ? " · Ganglion" : ""}`; }, [run, place.sweep]);
  useEffect(() => {
    const press = (event) => {
      if (event.key === "Escape" && event.target.blur) event.target.blur();
      if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
      const at = facts.runs.findIndex((row) => row.run === run), to = { j: at + 1, k: at - 1 }[event.key];
      if (to !== undefined && facts.runs[to]) location.hash = encodeURIComponent(facts.runs[to].run);
      if (event.key === "/") { event.preventDefault(); dispatchEvent(new Event("filter")); setTimeout(() => document.getElementById("filter").focus(), 0); }
      if (event.key === "p") (document.querySelector("#pause:enabled") || document.querySelector("#continue:enabled"))?.click();
      if (event.key === "s") document.querySelector("#step:enabled")?.click();
      if (event.key === "c" && run) compare(run);
      if (event.key === "n") location.hash = "#/new";
      if (event.key === "d") theme();
      if (event.key === "?") keys.current.showModal();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [run]);
  return html`<div class="frame"><${Runs} place=${{ ...place, run }} compared=${compared} compare=${compare} help=${() => keys.current.showModal()} />
    ${place.write ? html`<${Write} />` : place.sweep ? html`<${Sweep} key=${place.sweep} experiment=${place.sweep} />`
      : run ? html`<${Run} key=${run} run=${run} compared=${[...compared]} />` : html`<main class="main"><section class="card wide"><h1>Nothing to look at yet</h1><p class="faint">Runs of this folder of results appear here by themselves: <code>ganglion run</code> begins one.</p></section></main>`}
    <dialog ref=${keys} aria-label="keys"><h1>Keys</h1><dl>${KEYS.map(([key, name]) => html`<dt><kbd>${key}</kbd></dt><dd>${name}</dd>`)}</dl><p><button onClick=${() => keys.current.close()}>close</button></p></dialog>
    <${Toast} /></div>`;
}
function Toast() {
  useFacts("toast");
  return facts.toast && html`<div class=${"toast" + (facts.toast.bad ? " bad" : "")} role="alert">${facts.toast.text}</div>`;
}
if (localStorage.getItem("theme")) theme(localStorage.getItem("theme"));
loadRuns();
render(html`<${Page} />`, document.getElementById("page"));
listen();
setInterval(() => { if ((!facts.online || facts.unloaded) && !document.hidden) loadRuns(); else changed("runs"); }, 5000);
