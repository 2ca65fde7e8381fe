// Charts: the curves of runs and of experiments, drawn by uPlot; thinned on the server, smoothed here.
import { html, useEffect, useMemo, useRef, useState } from "/page/vendor/htm-preact.js";
import { ask, complain, facts, of, OPEN, pace, rowOf, atOnce, useFacts } from "/page/facts.js";

const LIGHT = ["#2f5bd0", "#d9542b", "#10803f", "#8f49c4", "#b07800", "#00818f", "#c43d7a", "#5d6f1f"];
const DARK = ["#7aa8ff", "#ff9166", "#4ccb80", "#c891f2", "#e8b84e", "#4ec6d4", "#f285b5", "#b3c76a"];
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8];

function colours() {
  const probe = document.body.appendChild(document.createElement("i"));
  const found = {};
  for (const name of ["faint", "line", "card", "ground"]) { probe.style.color = `var(--${name})`; found[name] = getComputedStyle(probe).color; }
  probe.remove();
  const [r, g, b] = found.ground.match(/\d+/g).map(Number);
  return { ...found, lines: r + g + b < 380 ? DARK : LIGHT };
}
function smoothed(values, weight) {
  let last = null;
  return values.map((value) => (value == null ? null : (last = last == null ? value : weight * last + (1 - weight) * value)));
}
const short = (value) => (value == null ? "–" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : +value.toPrecision(4));

// Draw curves: each has `label`, and lists `episode`, `step`, `mean`, `low`, `high`, `objective`, `count`.
function Chart({ curves, axis, quantity, weight, band }) {
  const place = useRef(null), chart = useRef(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const fit = () => chart.current?.setSize({ width: place.current.clientWidth, height: height() });
    const dark = matchMedia("(prefers-color-scheme: dark)"), again = () => setTheme((n) => n + 1);
    const seen = new ResizeObserver(fit);
    seen.observe(place.current);
    dark.addEventListener("change", again);
    addEventListener("theme", again);
    return () => { seen.disconnect(); dark.removeEventListener("change", again); removeEventListener("theme", again); chart.current?.destroy(); chart.current = null; };
  }, []);
  const height = () => (innerWidth < 760 ? 230 : 300);
  useEffect(() => {
    if (curves.length === 0) { chart.current?.destroy(); chart.current = null; return; }
    const { lines, faint, line, card } = colours(), wide = band && quantity === "mean";
    const tables = curves.map((it) => [it[axis], smoothed(it[quantity], weight), ...(wide ? [smoothed(it.low, weight), smoothed(it.high, weight)] : [])]);
    const data = uPlot.join(tables), series = [{ label: axis, value: (_, value) => short(value) }], bands = [];
    curves.forEach((it, i) => {
      const colour = lines[i % lines.length], edge = { class: "band", stroke: "transparent", spanGaps: true, points: { show: false } };
      series.push({ label: it.label, stroke: colour, width: 2, spanGaps: true, points: { show: it.episode.length < 3, fill: colour }, value: (_, value) => short(value) });
      if (wide) { series.push({ label: "low", ...edge }, { label: "high", ...edge }); bands.push({ series: [3 * i + 3, 3 * i + 2], fill: colour + "33" }); }
    });
    const shape = [axis, quantity, wide, theme, ...curves.map((it) => it.label)].join("\n");
    if (chart.current?.shape === shape) { chart.current.setData(data); return; }
    chart.current?.destroy();
    const common = { stroke: faint, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const axes = [{ ...common, incrs: STEPS, grid: { show: false }, label: axis === "episode" ? "episode" : "steps of a worker", labelSize: 22, size: 28, values: (_, ticks) => ticks.map((it) => it.toLocaleString("en")) }, { ...common, label: quantity === "mean" ? "return" : "objective", labelSize: 22, size: 52, values: (_, ticks) => ticks.map((it) => it.toLocaleString("en")) }];
    chart.current = new uPlot({ width: place.current.clientWidth || 600, height: height(), series, bands, axes, padding: [10, 12, 0, 0], scales: { x: { time: false } }, cursor: { points: { size: 7, fill: (_, i) => series[i].stroke, stroke: () => card }, focus: { prox: 24 } }, focus: { alpha: 0.35 } }, data, place.current);
    chart.current.shape = shape;
  }, [curves, axis, quantity, weight, band, theme]);
  return html`<div class="chart" ref=${place} hidden=${curves.length === 0}></div>`;
}

function Segments({ label, value, choices, onChange }) {
  return html`<span class="segments" role="group" aria-label=${label}>${choices.map(([key, text]) => html`<button key=${key} class=${value === key ? "on" : ""} aria-pressed=${value === key} onClick=${() => onChange(key)}>${text}</button>`)}</span>`;
}
export function Select({ label, value, choices, onChange, id }) {
  return html`<select id=${id} aria-label=${label} value=${value} onChange=${(e) => onChange(e.target.value)}>${choices.map((it) => { const [key, text] = Array.isArray(it) ? it : [it, it]; return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`; })}</select>`;
}

function Drawn({ title, about, curves, name, empty, extra }) {
  const [axis, setAxis] = useState("episode"), [quantity, setQuantity] = useState("mean"), [weight, setWeight] = useState(0), [band, setBand] = useState(true), [choice, setChoice] = useState("");
  const kinds = [...new Set(curves.map((it) => `${it.phase} ${it.mode}`))].sort((a, b) => parseInt(a) - parseInt(b));
  const kind = kinds.includes(choice) ? choice : kinds.findLast((it) => it.endsWith("train")) || kinds[0];
  const drawn = useMemo(() => curves.filter((it) => `${it.phase} ${it.mode}` === kind), [curves, kind]);
  const counts = {};  // of each run, or row of a design: its agents act in the same episodes
  for (const it of drawn) { const of = it.run ?? it.row ?? ""; counts[of] = Math.max(counts[of] || 0, it.count.reduce((a, b) => a + b, 0)); }
  const count = Object.values(counts).reduce((a, b) => a + b, 0);
  const judged = drawn.some((it) => it.objective.some((value) => value != null));
  return html`<section class="card wide" aria-label=${name}><header><h2>${title}</h2><span class="faint">${about}</span><span class="space"></span>
    <div class="tools">${kinds.length > 1 && html`<${Select} label="phase" value=${kind} choices=${kinds.map((it) => [it, `phase ${it}`])} onChange=${setChoice} />`}
      <${Segments} label="axis" value=${axis} choices=${[["episode", "by episode"], ["step", "by step"]]} onChange=${setAxis} />
      ${judged && html`<${Segments} label="quantity" value=${quantity} choices=${[["mean", "return"], ["objective", "objective"]]} onChange=${setQuantity} />`}
      <label><input type="checkbox" checked=${band} onChange=${(e) => setBand(e.target.checked)} /> band</label>
      <label>smooth <input id="smooth" type="range" min="0" max="0.98" step="0.02" value=${weight} onInput=${(e) => setWeight(+e.target.value)} /></label>${extra}</div></header>
    ${drawn.length === 0 && html`<p class="empty">${empty}</p>`}
    <${Chart} curves=${drawn} axis=${axis} quantity=${judged ? quantity : "mean"} weight=${weight} band=${band} />
    <span id="episodes" class="faint" data-count=${count}>${count.toLocaleString("en")} episodes</span></section>`;
}

// The curves of one run and of those that are compared with it; asked for anew when an episode more is told of.
export function Curves({ runs }) {
  const version = useFacts("live", "runs");
  const [found, setFound] = useState({}), [joined, setJoined] = useState(false), asked = useRef({});
  const dirty = runs.filter((run) => facts.dirty[run] || !(run in found));
  useEffect(() => {
    for (const run of dirty) {
      const now = performance.now(), wait = Math.max(0, (asked.current[run] ?? -Infinity) + pace() - now);
      if (asked.current[run] > now) continue;
      asked.current[run] = now + wait;
      setTimeout(async () => {
        facts.dirty[run] = false;
        try { const told = await ask(`${of(run)}/curves?points=500`); atOnce(() => setFound((before) => ({ ...before, [run]: told.curves }))); } catch (error) { complain(error); setFound((before) => ({ ...before, [run]: before[run] || [] })); }
      }, wait);
    }
  }, [dirty.join("\n"), version]);
  const live = runs.some((run) => OPEN.has(rowOf(run).status));
  useEffect(() => {  // what was sealed since the last look, however few news there are
    if (!live) return undefined;
    const timer = setInterval(() => { for (const run of runs) if (OPEN.has(rowOf(run).status)) facts.dirty[run] = true; }, 2000);
    return () => clearInterval(timer);
  }, [live, runs.join("\n")]);
  const curves = useMemo(() => {
    const each = runs.flatMap((run) => (found[run] || []).map((it) => ({ ...it, run, label: runs.length > 1 ? `${run} · ${it.agent}` : it.agent })));
    return joined && runs.length > 1 ? together(each) : each;
  }, [found, joined, runs.join("\n")]);
  const extra = runs.length > 1 && html`<button aria-pressed=${joined} onClick=${() => setJoined(!joined)}>${joined ? "a line each" : "one line for all runs"}</button>`;
  return html`<${Drawn} name="Curves" title="Learning curves" about=${joined ? "mean and band over runs" : "mean and band over workers and bodies"} curves=${curves} empty=${runs.every((run) => run in found) ? "No episode is stored yet." : "Looking …"} extra=${extra} />`;
}
export function SweepCurves({ curves }) {
  const told = useMemo(() => curves.map((it) => ({ ...it, label: `${Object.entries(it.factors).map(([k, v]) => `${k}=${typeof v === "object" ? JSON.stringify(v) : v}`).join(" ")} · ${it.agent}` })), [curves]);
  return html`<${Drawn} name="Curves" title="Learning curves" about="one line for each row of the design: mean and band over its runs" curves=${told} empty="No episode is stored yet." />`;
}
function together(curves) {
  const groups = new Map();
  for (const it of curves) { const key = `${it.phase} ${it.mode} ${it.agent}`; groups.set(key, [...(groups.get(key) || []), it]); }
  return [...groups.values()].map((members) => {
    const rows = new Map();
    for (const it of members) it.episode.forEach((episode, i) => {
      const key = Math.round(episode), row = rows.get(key) || { step: 0, n: 0, values: [], objectives: [], count: 0 };
      row.step += it.step[i]; row.n += 1; row.count += it.count[i];
      if (it.mean[i] != null) row.values.push(it.mean[i]);
      if (it.objective[i] != null) row.objectives.push(it.objective[i]);
      rows.set(key, row);
    });
    const keys = [...rows.keys()].sort((a, b) => a - b), all = keys.map((key) => rows.get(key)), mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
    return { ...members[0], label: `${members[0].agent}, ${members.length} runs`, episode: keys, step: all.map((row) => row.step / row.n), count: all.map((row) => row.count), mean: all.map((row) => mean(row.values)), objective: all.map((row) => mean(row.objectives)), low: all.map((row) => (row.values.length ? Math.min(...row.values) : null)), high: all.map((row) => (row.values.length ? Math.max(...row.values) : null)) };
  });
}
