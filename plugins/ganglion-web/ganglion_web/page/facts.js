// Facts: what the server has told, kept once for all parts; a part is drawn anew when its kind of facts has changed.
import { useEffect, useState } from "/page/vendor/htm-preact.js";

export const OPEN = new Set(["queued", "running", "paused"]);
const EVENTS_MAX = 400, RATE_MS = 900;
const DRAW_MS = 100, DRAW_MOST_MS = 1000, PART = 0.05;  // ten pictures a second; fewer, where all pages cost more than that part
const ANSWER_MS = 90_000;  // longer than a kernel may check a document
const ASK_MS = 1000, TOGETHER_MS = 150, SHARING_MAX = 5;  // five times as seldom at most, however many pages are seen

// -- asking ------------------------------------------------------------------------------------------------------------
export async function ask(path, options) {
  const answer = await fetch(path, { ...(options && { headers: { "x-ganglion": "1" }, ...options }), signal: AbortSignal.timeout(ANSWER_MS) });
  const text = await answer.text();
  let value = null;
  try { value = text ? JSON.parse(text.replace(/"seed":\s*(\d{16,})/g, '"seed":"$1"')) : null; } catch { value = text; }
  if (!answer.ok) throw Object.assign(new Error((value && value.error) || `${answer.status} ${answer.statusText}`), { told: value });
  return value;
}
export const post = (path, value) => ask(path, { method: "POST", body: typeof value === "string" ? value : JSON.stringify(value || {}) });
export const of = (run) => `/api/runs/${encodeURIComponent(run)}`;

// -- facts -------------------------------------------------------------------------------------------------------------
export const facts = { runs: [], total: 0, sweeps: [], processes: {}, rates: {}, events: {}, lost: {}, waits: {}, steps: {}, dirty: {}, online: true, unloaded: true, toast: null };
const listeners = { runs: new Set(), live: new Set(), toast: new Set() }, versions = { runs: 0, live: 0, toast: 0 }, changed_kinds = new Set();
let pages = 1, wait_ms = DRAW_MS;  // how many pages of this browser are seen: they share what drawing may cost
export function changed(kind, urgent) {
  versions[kind] += 1;
  if (changed_kinds.size === 0 || urgent) setTimeout(draw, urgent ? 0 : wait_ms);
  changed_kinds.add(kind);
}
function draw() {
  if (document.hidden || changed_kinds.size === 0) return;  // what has changed waits until somebody looks
  const kinds = [...changed_kinds], begun = performance.now();
  changed_kinds.clear();
  for (const it of new Set(kinds.flatMap((one) => [...listeners[one]]))) it();
  requestAnimationFrame(() => setTimeout(() => { wait_ms = Math.min(DRAW_MOST_MS * Math.min(pages, SHARING_MAX), Math.max(DRAW_MS, (performance.now() - begun) * pages / PART)); }));
}
// How long to wait until the server is asked again: as long as drawing takes, of which the pages of a browser have a share each.
export const pace = () => Math.max(ASK_MS, ASK_MS * Math.min(pages, SHARING_MAX), wait_ms);
const works = [];
export function atOnce(work) {  // answers that come at about the same time are one picture
  works.push(work);
  if (works.length === 1) setTimeout(() => { for (const one of works.splice(0)) one(); }, TOGETHER_MS);
}
// Draw the part that asks anew when facts of these kinds have changed; return a number that grows with them.
export function useFacts(...kinds) {
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((n) => n + 1);
    for (const kind of kinds) listeners[kind].add(again);
    return () => { for (const kind of kinds) listeners[kind].delete(again); };
  }, []);
  return kinds.reduce((sum, kind) => sum + versions[kind], 0);
}
export function toast(text, bad) {
  const mine = facts.toast = { text, bad };
  changed("toast");
  setTimeout(() => { if (facts.toast === mine) { facts.toast = null; changed("toast"); } }, 6000);
}
export const complain = (error) => toast(error.message, true);
export const rowOf = (run) => facts.runs.find((row) => row.run === run) || {};
let loading = null, again = false, first = true;
export async function loadRuns() {
  if (loading) { again = true; return; }
  loading = Promise.all([ask("/api/runs?limit=500"), ask("/api/sweeps")]);
  try {
    const [runs, sweeps] = await loading;
    Object.assign(facts, { runs: runs.runs, total: runs.total, sweeps, online: true, unloaded: false });
  } catch (error) { facts.unloaded = true; if (facts.online) complain(error); }
  loading = null;
  changed("runs", first);
  first = false;
  if (again) { again = false; loadRuns(); }
}

// -- the stream --------------------------------------------------------------------------------------------------------
export function listen() {
  const port = window.SharedWorker ? new SharedWorker("/page/stream.js", { type: "module", name: "stream" }).port : alone();
  const say = () => port.postMessage(document.hidden ? "hidden" : "seen");
  port.onmessage = ({ data: { kind, data, pages: count } }) => {
    pages = count;
    if (kind === "news") {
      for (const one of data.news) hear(one);
      if (Object.keys(data.missed).length) for (const row of facts.runs) if (OPEN.has(row.status)) facts.dirty[row.run] = true;
      if (data.missed.status) loadRuns();
      changed("live");
      return;
    }
    facts.online = kind === "hello";
    if (facts.online && data.missed) {  // another server, or too long away: look at everything anew
      for (const row of facts.runs) facts.dirty[row.run] = true;
      loadRuns();
    }
    changed("runs");
  };
  addEventListener("visibilitychange", () => { say(); if (!document.hidden && changed_kinds.size) setTimeout(draw); });
  addEventListener("pagehide", () => port.postMessage("bye"));
  addEventListener("pageshow", (event) => event.persisted && say());
  say();
}
function alone() {  // a browser whose pages cannot share: each has a stream of its own
  const { port1, port2 } = new MessageChannel();
  import("/page/stream.js").then(({ serve }) => serve(port2));
  return port1;
}
function hear(one) {
  if (one.kind === "status") {
    const row = facts.runs.find((it) => it.run === one.run);
    if (row && one.status) { row.status = one.status; row.reason = one.reason; }
    if (!row || !one.status || !OPEN.has(one.status)) { delete facts.processes[one.run]; loadRuns(); }
    facts.dirty[one.run] = true;
    changed("runs");
  } else if (one.kind === "processes") {
    take(one.run, one.processes);
  } else if (one.kind === "event") {
    if (one.event === "steps.taken") return step(one);
    const kept = (facts.events[one.run] ||= []);
    if (one.event === "peer.lost") { facts.lost[one.fields.name] = performance.now(); changed("live", true); }
    kept.push(one);
    if (kept.length > EVENTS_MAX) kept.splice(0, kept.length - EVENTS_MAX);
    if (one.event === "waiting") facts.waits[one.run] = one;
    else if (["episode.ended", "episodes.ended", "phase.started"].includes(one.event)) delete facts.waits[one.run];
    if (/episode|phase|evaluation|run\./.test(one.event)) facts.dirty[one.run] = true;
  }
}
function step(one) {
  const workers = (facts.steps[one.run] ||= {}), before = workers[one.fields.worker], { episode, steps } = one.fields;
  const same = before && before.episode === episode && steps >= before.steps && one.time_s > before.time_s;
  const rate = same ? (steps - before.steps) / (one.time_s - before.time_s) : before?.rate ?? null;  // within an episode; null: not measured yet
  workers[one.fields.worker] = { ...one.fields, time_s: one.time_s, rate };
  delete facts.waits[one.run];
}
export function take(run, rows) {
  const now = performance.now(), before = facts.rates[run], counts = {}, rates = before ? {} : null;  // null: not measured yet
  for (const row of rows) for (const to in row.sent || {}) counts[`${row.name}\n${to}`] = row.sent[to];
  if (before) for (const edge in counts) rates[edge] = Math.max(0, counts[edge] - (before.counts[edge] ?? counts[edge])) * 1000 / (now - before.at);
  if (!before || now - before.at > RATE_MS) facts.rates[run] = { at: now, counts, rates };
  facts.processes[run] = rows;
}
