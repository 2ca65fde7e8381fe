// Play the reference pendulum: join, declare, reset, update, leave.
// Needs `npm install zeromq @msgpack/msgpack`. Start it as a document's `command: [node, pendulum.js]`, or by hand with
// GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN.
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const HELLO = 1, WELCOME = 2, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
const SILENCE_MS = 10000; // the kernel asks after half a second; whoever hears nothing for so long has lost it

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
  c = (t * t - 1.0) / q;
  s = (2.0 * t) / q;
  w = draw();
  steps = 0;
  running = true;
}

function advance(torque) {
  const u = Math.min(Math.max(torque, -2.0), 2.0);
  w = w + (15.0 * s + 3.0 * u) * 0.05;
  w = Math.min(Math.max(w, -8.0), 8.0);
  const k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k;
  [c, s] = [(p * c - 2.0 * k * s) / q, (p * s + 2.0 * k * c) / q];
  running = ++steps < 200;
  return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
}

// -- the calls: what is returned is the body of the REPLY, what is thrown becomes an ERROR ----------------------------
const box = (id, low, high) => ({ id, space: { type: "box", shape: [], dtype: "<f8", low, high } });
const state = (rewards) => ({ readings: [[c, s, w]], rewards, ticks: steps, truncated: !running });

function torqueOf({ setpoints, actuators }) {
  const row = setpoints[0];
  if (setpoints.length === 1 && row.length === 0 && actuators?.length === 0) return 0.0; // a step that gives none
  if (setpoints.length !== 1 || row.length !== 1 || typeof row[0] !== "number" || Number.isNaN(row[0]))
    throw new Error(`torque: expected one number, found ${JSON.stringify(setpoints)}`);
  return row[0];
}

const calls = {
  "environment.start": ({ seed }) => {
    begin(seed);
    return {
      sensors: [box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)],
      actuators: [{ ...box("torque", -2.0, 2.0), value: 0.0 }],
      rewards: [box("balance", -11.0, 1.0)],
      readings: [[c, s, w]],
      ticks: 0,
    };
  },
  "environment.reset": ({ seed }) => (begin(seed), state([])),
  "environment.update": (request) => {
    if (!running) throw new Error("expected environment.start or .reset before it");
    return state([[advance(torqueOf(request))]]);
  },
  "environment.shutdown": () => ((running = false), {}),
};

function answer(serial, call, request) {
  if (!Object.hasOwn(calls, call))
    return [[ERROR, serial], { kind: "unknown_call", message: `expected one of ${Object.keys(calls)}, found ${call}` }];
  try {
    return [[REPLY, serial], calls[call](request)];
  } catch (error) {
    return [[ERROR, serial], { kind: "protocol", message: `${call}: ${error.message}` }];
  }
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
const { GANGLION_ENDPOINT: endpoint, GANGLION_NAME: name, GANGLION_TOKEN: token } = process.env;
const dealer = new Dealer({ linger: 500, receiveTimeout: SILENCE_MS });
const send = (to, head, body) => dealer.send([to, encode(head), body === undefined ? "" : encode(body)]);

async function receive() {
  const frames = await dealer.receive();
  const [verb, serial = 0, call = ""] = decode(frames[1]);
  return { frames, verb, serial, call, body: frames[2]?.length ? decode(frames[2]) : {} };
}

async function serve() {
  if (!endpoint || !name || !token)
    throw new Error("expected the variables GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN");
  if (process.env.GANGLION_SERVER_KEY) { // of a kernel on another machine
    dealer.curveServerKey = process.env.GANGLION_SERVER_KEY;
    dealer.curvePublicKey = process.env.GANGLION_PUBLIC_KEY;
    dealer.curveSecretKey = process.env.GANGLION_SECRET_KEY;
  }
  dealer.connect(endpoint);
  await send("", [HELLO, 1], { version: 1, role: "environment", name, token, language: "javascript" });
  const welcome = await receive();
  if (welcome.verb !== WELCOME) throw new Error(`the kernel refuses ${name}: ${welcome.body.message}`);
  let asked = [], kept;
  for (;;) {
    const { frames, verb, serial, call, body } = await receive();
    if (verb === CALL) {
      const repeated = frames.length === asked.length && frames.every((frame, i) => frame.equals(asked[i]));
      if (!repeated) [asked, kept] = [frames, answer(serial, call, body)]; // a repeat gets the same answer again
      await send(frames[0], ...kept);
    } else if (verb === BEAT && !call) {
      await send("", [BEAT, serial, "here"]);
    } else if (verb === BYE) {
      return send("", [BYE, serial]);
    } else if (verb === ERROR && !serial) {
      throw new Error(`the kernel ended the connection: ${body.message}`);
    }
  }
}

serve()
  .catch((error) => {
    const silent = error.code === "EAGAIN";
    console.error(`pendulum: ${silent ? `the kernel has been silent for ${SILENCE_MS / 1000} s` : error.message}`);
    process.exitCode = 1;
  })
  .finally(() => dealer.close());
