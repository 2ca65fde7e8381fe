// Play the reference pendulum with zeromq and @msgpack/msgpack: join, declare, reset, update, leave.
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
const { GANGLION_ENDPOINT, GANGLION_NAME: name, GANGLION_TOKEN: token, GANGLION_SILENCE_MS = "10000" } = process.env;

// -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ---------------
let x, c, s, w, steps;

function draw() {
  x = (16807 * x) % 2147483647; // stays below 2^53: a double holds it
  return (2.0 * x) / 2147483647 - 1.0;
}

function begin(seed) {
  x = 1 + (seed % 2147483646);
  draw();
  const t = draw(), q = 1.0 + t * t;
  [c, s, w, steps] = [(t * t - 1.0) / q, (2.0 * t) / q, draw(), 0];
  return [];
}

function advance(torque) {
  if (steps === undefined) throw new Error("expected environment.start before it");
  const u = Math.min(Math.max(torque, -2.0), 2.0);
  w = Math.min(Math.max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0);
  const k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k;
  [c, s, steps] = [(p * c - 2.0 * k * s) / q, (p * s + 2.0 * k * c) / q, steps + 1];
  return [[-(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u)]];
}

// -- the calls: what is returned is the body of the REPLY, what is thrown becomes an ERROR ----------------------------
const sensors = ["cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)"];
const declared = { sensors, actuators: ["torque: Box(-2, 2)"], rewards: ["balance: Box(-11, 1)"] };
const state = (rewards) => ({ readings: [[c, s, w]], rewards, ticks: steps, truncated: steps === 200 });
const calls = {
  "environment.start": ({ seed }) => ({ ...state(begin(seed)), ...declared }),
  "environment.reset": ({ seed }) => state(begin(seed)),
  "environment.update": ({ setpoints: [[torque]] }) => state(advance(torque)),
  "environment.shutdown": () => ({}),
};

function answer(serial, call, frame) {
  try {
    return [encode([REPLY, serial]), encode(calls[call](frame.length ? decode(frame) : {}))];
  } catch ({ message }) {
    return [encode([ERROR, serial]), encode({ kind: calls[call] ? "protocol" : "unknown_call", message })];
  }
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
const dealer = new Dealer({ linger: 500, receiveTimeout: Number(GANGLION_SILENCE_MS) });
if (process.env.GANGLION_SERVER_KEY) { // of a kernel on another machine
  dealer.curveServerKey = process.env.GANGLION_SERVER_KEY;
  dealer.curvePublicKey = process.env.GANGLION_PUBLIC_KEY;
  dealer.curveSecretKey = process.env.GANGLION_SECRET_KEY;
}
dealer.connect(GANGLION_ENDPOINT);
await dealer.send(["", encode([HELLO, 1]), encode({ version: 1, role: "environment", name, token, language: "javascript" })]);
for (let asked, kept, verb; verb !== BYE;) {
  const frames = await dealer.receive(); // throws if the kernel, which says something every half second, is silent
  const [next, serial, call] = decode(frames[1]);
  verb = next;
  if (verb === ERROR) throw new Error(`the kernel ends the connection: ${decode(frames[2]).message}`);
  if (verb === CALL && !asked?.every((frame, i) => frames[i]?.equals(frame))) // else it comes again: the same answer
    [asked, kept] = [frames, [frames[0], ...answer(serial, call, frames[2])]];
  if ([CALL, BEAT, BYE].includes(verb)) await dealer.send(verb === CALL ? kept : frames);
}
dealer.close();
