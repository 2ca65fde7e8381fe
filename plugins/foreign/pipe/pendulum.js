// Play the reference pendulum behind the pipe: one line of JSON for each call, one for each answer.
import { createInterface } from "node:readline";

// -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ---------------
let x, c, s, w, steps, balance;
const draw = () => (2.0 * (x = (16807 * x) % 2147483647)) / 2147483647 - 1.0;

function begin(seed) {
  [x, steps] = [1 + (seed % 2147483646), 0];
  const t = (draw(), draw()), q = 1.0 + t * t;
  [c, s, w] = [(t * t - 1.0) / q, (2.0 * t) / q, draw()];
}

function advance({ torque }) {
  const u = Math.min(Math.max(torque, -2.0), 2.0);
  w = Math.min(Math.max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0);
  const k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k;
  [c, s, steps] = [(p * c - 2.0 * k * s) / q, (p * s + 2.0 * k * c) / q, steps + 1];
  balance = -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
}

const sensors = ["cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)"];
const declared = { sensors, actuators: ["torque: Box(-2, 2)"], rewards: ["balance: Box(-11, 1)"] };
for await (const line of createInterface({ input: process.stdin })) {
  const { call, seed, setpoints } = JSON.parse(line);
  call === "update" ? advance(setpoints) : begin(seed);
  const state = { readings: { cos: c, sin: s, speed: w }, rewards: { balance }, ticks: steps, truncated: steps === 200 };
  console.log(JSON.stringify(call === "start" ? { ...state, ...declared } : state));
}
