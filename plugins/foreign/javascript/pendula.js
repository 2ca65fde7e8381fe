// Play a pendulum for each of several bodies: two rows in, two rows out; one body goes on while another begins anew.
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10, TERMINATED = 1, TRUNCATED = 2;
const { GANGLION_ENDPOINT, GANGLION_NAME: name, GANGLION_TOKEN: token, GANGLION_SILENCE_MS = "10000" } = process.env;
let seed0, each, ticks, bodies = [];

// -- the world: one pendulum per body; an episode of one follows from the seed, its row and its number ----------------
const fraction = (x) => ((16807 * x) % 2147483647) / 2147483647;

class Pendulum {
  constructor(row) {
    [this.over, this.made] = [each?.episodes?.[row] ?? 0, each?.made?.[row] ?? 0]; // episodes and steps in all
    const bound = each?.budget_episodes;
    [this.episodes, this.moves] = [(Array.isArray(bound) ? bound[row] : bound) ?? Infinity, each?.budget_steps ?? Infinity];
  }

  begin(seed, row) {
    const number = each ? this.over : 0; // else the seed of a reset is that of the episode
    this.angle = Math.PI * (2 * fraction(1 + (((seed % 1048576) * 64 + row) * 32 + number) % 2147483646) - 1);
    [this.speed, this.steps] = [0, 0];
    return this.reading;
  }

  advance(torque) {
    this.speed = Math.min(Math.max(this.speed + (15 * Math.sin(this.angle) + 3 * torque) * 0.05, -8), 8);
    this.angle += this.speed * 0.05;
    [this.made, this.steps] = [this.made + 1, this.steps + 1];
    this.flag = Math.abs(this.angle) > 20 ? TERMINATED : 0;
    if (!this.flag && (this.steps === (each?.max_steps ?? 200) || this.made === this.moves)) this.flag = TRUNCATED;
    if (this.flag) this.over += 1;
    return this.reading;
  }

  get reading() { return [Math.cos(this.angle), Math.sin(this.angle), this.speed]; }
  get spent() { return this.over >= this.episodes || this.made >= this.moves; }
}

// -- the calls: rows of bytes are numbers of bodies, two bytes each ---------------------------------------------------
const numbers = (bytes) => Array.from({ length: bytes.length / 2 }, (_, i) => bytes[2 * i] + 256 * bytes[2 * i + 1]);
const packed = (rows) => Uint8Array.from(rows.flatMap((row) => [row % 256, row >> 8]));
const sensors = ["cos: Box(-1, 1)", "sin: Box(-1, 1)", "speed: Box(-8, 8)"];

const calls = {
  "environment.start": (asked) => {
    [seed0, each, ticks] = [asked.seed, asked.each ?? null, 0];
    bodies = Array.from({ length: asked.bodies?.length ?? 1 }, (_, row) => new Pendulum(row));
    const readings = bodies.map((body, row) => body.begin(seed0, row));
    return { sensors, actuators: ["torque: Box(-2, 2)"], rewards: ["balance: Box(-1, 1)"], readings, bodies: bodies.length };
  },
  "environment.reset": (asked) => {
    [each, ticks] = [asked.each ?? null, 0]; // with it all that bodies have behind them
    bodies = bodies.map((_, row) => new Pendulum(row));
    return { readings: bodies.map((body, row) => body.begin(each ? seed0 : asked.seed, row)), rewards: [] };
  },
  "environment.update": ({ setpoints, rows }) => {
    if (!bodies.length) throw new Error("expected environment.start before it");
    const taking = rows ? numbers(rows) : [...bodies.keys()];
    const readings = taking.map((row, i) => bodies[row].advance(setpoints[i][0]));
    const flags = Uint8Array.from(taking, (row) => bodies[row].flag);
    const anew = each ? taking.filter((row) => bodies[row].flag && !bodies[row].spent) : [];
    const first = { first_rows: packed(anew), first_readings: anew.map((row) => bodies[row].begin(seed0, row)) };
    return { readings, rewards: readings.map(([cos]) => [cos]), flags, ticks: ++ticks, ...(anew.length ? first : {}) };
  },
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
