// Play the reference pendulum with zeromq and @msgpack/msgpack: join, declare, reset, update, leave.
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
const { GANGLION_ENDPOINT, GANGLION_NAME: name, GANGLION_TOKEN: token, GANGLION_SILENCE_MS = "10000" } = process.env;

// -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ---------------
let x, c, s, w, steps, running = false;

function draw() {
  x = (16807 * x) % 2147483647; // stays below 2^53: a double holds it
  return (2.0 * x) / 2147483647 - 1.0;
}

function begin(seed) {
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`seed: expected an integer from 0, found ${seed}`);
  x = 1 + (seed % 2147483646);
  draw();
  const t = draw(), q = 1.0 + t * t;
  [c, s, w] = [(t * t - 1.0) / q, (2.0 * t) / q, draw()];
  [steps, running] = [0, true];
}

function advance(torque) {
  const u = Math.min(Math.max(torque, -2.0), 2.0);
  w = Math.min(Math.max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0);
  const k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k;
  [c, s] = [(p * c - 2.0 * k * s) / q, (p * s + 2.0 * k * c) / q];
  running = ++steps < 200;
  return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
}

// -- the calls: what is returned is the body of the REPLY, what is thrown becomes an ERROR ----------------------------
const box = (id, low, high) => ({ id, space: { type: "box", shape: [], dtype: "<f8", low, high } });
const state = (rewards) => ({ readings: [[c, s, w]], rewards, ticks: steps, truncated: !running });

function torqueOf({ setpoints: rows, actuators }) {
  const row = rows[0];
  if (rows.length === 1 && row.length === 0 && actuators?.length === 0) return 0.0; // a step may give none
  if (rows.length !== 1 || row.length !== 1 || typeof row[0] !== "number" || Number.isNaN(row[0]))
    throw new Error(`torque: expected one number, found ${JSON.stringify(rows)}`);
  return row[0];
}

const calls = {
  "environment.start": ({ seed }) => (begin(seed), {
    sensors: [box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)],
    actuators: [{ ...box("torque", -2.0, 2.0), value: 0.0 }],
    rewards: [box("balance", -11.0, 1.0)],
    readings: [[c, s, w]],
  }),
  "environment.reset": ({ seed }) => (begin(seed), state([])),
  "environment.update": (body) => {
    if (!running) throw new Error("expected environment.start or .reset before it");
    return state([[advance(torqueOf(body))]]);
  },
  "environment.shutdown": () => ((running = false), {}),
};

function answer(serial, call, frame) {
  if (!Object.hasOwn(calls, call))
    return [[ERROR, serial], { kind: "unknown_call", message: `expected one of ${Object.keys(calls)}, found ${call}` }];
  try {
    return [[REPLY, serial], calls[call](frame?.length ? decode(frame) : {})];
  } catch (error) {
    return [[ERROR, serial], { kind: "protocol", message: `${call}: ${error.message}` }];
  }
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
const dealer = new Dealer({ linger: 500, receiveTimeout: Number(GANGLION_SILENCE_MS) });
const send = (to, head, body = {}) => dealer.send([to, encode(head), encode(body)]);

async function serve() {
  if (!GANGLION_ENDPOINT || !name || !token) throw new Error("expected GANGLION_ENDPOINT, GANGLION_NAME, GANGLION_TOKEN");
  if (process.env.GANGLION_SERVER_KEY) { // of a kernel on another machine
    dealer.curveServerKey = process.env.GANGLION_SERVER_KEY;
    dealer.curvePublicKey = process.env.GANGLION_PUBLIC_KEY;
    dealer.curveSecretKey = process.env.GANGLION_SECRET_KEY;
  }
  dealer.connect(GANGLION_ENDPOINT);
  await send("", [HELLO, 1], { version: 1, role: "environment", name, token, language: "javascript" });
  for (let asked = [], kept; ;) {
    const frames = await dealer.receive();
    const [verb, serial = 0, call = ""] = decode(frames[1]);
    if (verb === CALL) {
      const repeated = frames.length === asked.length && frames.every((frame, i) => frame.equals(asked[i]));
      if (!repeated) [asked, kept] = [frames, answer(serial, call, frames[2])]; // a repeat gets the same answer again
      await send(frames[0], ...kept);
    } else if (verb === BEAT && !call) {
      await send("", [BEAT, serial, "here"]);
    } else if (verb === BYE) {
      return send("", [BYE, serial]);
    } else if (verb === ERROR) {
      throw new Error(`the kernel ends the connection: ${decode(frames[2]).message}`);
    }
  }
}

serve()
  .catch(({ code, message }) => {
    console.error(`pendulum: ${code === "EAGAIN" ? `the kernel has been silent for ${GANGLION_SILENCE_MS} ms` : message}`);
    process.exitCode = 1;
  })
  .finally(() => dealer.close());
