//! Play the reference pendulum with zmq and rmp-serde: join, declare, reset, update, leave.
use serde::{Deserialize, Serialize};
use std::env;

const HELLO: u64 = 1;
const CALL: u64 = 3;
const REPLY: u64 = 4;
const ERROR: u64 = 5;
const BEAT: u64 = 8;
const BYE: u64 = 10;

/// The world: + - * / only, each line evaluated as written, so that every language gets the same bits.
#[derive(Default)]
struct Pendulum {
    x: u64,
    c: f64,
    s: f64,
    w: f64,
    steps: u32,
    running: bool,
}

impl Pendulum {
    fn draw(&mut self) -> f64 {
        self.x = 16807 * self.x % 2147483647;
        2.0 * self.x as f64 / 2147483647.0 - 1.0
    }

    fn begin(&mut self, seed: u64) {
        self.x = 1 + seed % 2147483646;
        self.draw();
        let t = self.draw();
        let q = 1.0 + t * t;
        self.c = (t * t - 1.0) / q;
        self.s = 2.0 * t / q;
        self.w = self.draw();
        self.steps = 0;
        self.running = true;
    }

    fn advance(&mut self, torque: f64) -> f64 {
        let u = torque.clamp(-2.0, 2.0);
        self.w = (self.w + (15.0 * self.s + 3.0 * u) * 0.05).clamp(-8.0, 8.0);
        let k = self.w * 0.025;
        let (q, p, c, s) = (1.0 + k * k, 1.0 - k * k, self.c, self.s);
        self.c = (p * c - 2.0 * k * s) / q;
        self.s = (p * s + 2.0 * k * c) / q;
        self.steps += 1;
        self.running = self.steps < 200;
        -(2.0 * (1.0 - self.c) + 0.1 * self.w * self.w + 0.001 * u * u)
    }
}

// -- what travels: serde skips the keys that we do not know ------------------------------------------------------------
#[derive(Deserialize, Default)]
#[serde(default)]
struct Asked {
    seed: Option<u64>,
    setpoints: Option<Vec<Vec<f64>>>, // an integer is as good
    actuators: Option<Vec<u64>>,
    message: String,
}

#[derive(Serialize)]
struct Space {
    r#type: &'static str,
    dtype: &'static str,
    shape: [u64; 0],
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct Declaration {
    id: &'static str,
    space: Space,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
}

fn declare(id: &'static str, low: f64, high: f64, value: Option<f64>) -> Declaration {
    Declaration { id, space: Space { r#type: "box", dtype: "<f8", shape: [], low, high }, value }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Hello { version: u32, role: &'a str, name: &'a str, token: &'a str, language: &'a str },
    Declared {
        sensors: Vec<Declaration>,
        actuators: Vec<Declaration>,
        rewards: Vec<Declaration>,
        readings: [[f64; 3]; 1],
    },
    State { readings: [[f64; 3]; 1], rewards: Vec<[f64; 1]>, ticks: u32, truncated: bool },
    Failure { kind: &'a str, message: String },
    Nothing {},
}

// -- the calls: what is returned is the body of the REPLY, an Err the kind and message of an ERROR ----------------------
type Failed = (&'static str, String);

fn wrong<T>(message: &str) -> Result<T, Failed> {
    Err(("protocol", message.to_string()))
}

fn torque_of(asked: &Asked) -> Result<f64, Failed> {
    match asked.setpoints.as_deref() {
        Some([row]) if row.is_empty() && asked.actuators.as_deref() == Some(&[]) => Ok(0.0), // a step may give none
        Some([row]) if row.len() == 1 && !row[0].is_nan() => Ok(row[0]),
        found => wrong(&format!("torque: expected one number, found {found:?}")),
    }
}

fn answer(p: &mut Pendulum, call: &str, frame: &[u8]) -> Result<Body<'static>, Failed> {
    let asked: Asked = decode(frame).map_err(|error| ("protocol", error))?;
    let mut rewards = vec![];
    match call {
        "environment.start" | "environment.reset" => match asked.seed {
            Some(seed) => p.begin(seed),
            None => return wrong("seed: expected an integer from 0"),
        },
        "environment.update" if !p.running => return wrong("expected environment.start or .reset before it"),
        "environment.update" => rewards = vec![[p.advance(torque_of(&asked)?)]],
        "environment.shutdown" => {
            p.running = false;
            return Ok(Body::Nothing {});
        }
        _ => return Err(("unknown_call", format!("expected start, reset, update or shutdown, found {call}"))),
    }
    let readings = [[p.c, p.s, p.w]];
    if call != "environment.start" {
        return Ok(Body::State { readings, rewards, ticks: p.steps, truncated: !p.running });
    }
    Ok(Body::Declared {
        sensors: vec![
            declare("cos", -1.01, 1.01, None),
            declare("sin", -1.01, 1.01, None),
            declare("speed", -8.0, 8.0, None),
        ],
        actuators: vec![declare("torque", -2.0, 2.0, Some(0.0))],
        rewards: vec![declare("balance", -11.0, 1.0, None)],
        readings,
    })
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
fn decode<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> Result<T, String> {
    rmp_serde::from_slice(if frame.is_empty() { b"\x80" } else { frame }).map_err(|error| error.to_string())
}

/// A head has two to five elements; those that are not there are None.
fn decode_head(frame: &[u8]) -> Result<(u64, u64, Option<String>), String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Element {
        Number(u64),
        Word(String),
        Other(serde::de::IgnoredAny),
    }
    let mut elements = decode::<Vec<Element>>(frame)?.into_iter();
    let mut number = || if let Some(Element::Number(n)) = elements.next() { n } else { 0 };
    let (verb, serial) = (number(), number());
    Ok((verb, serial, if let Some(Element::Word(call)) = elements.next() { Some(call) } else { None }))
}

fn send(dealer: &zmq::Socket, to: &[u8], head: &[u8], body: &Body) -> Result<(), String> {
    let body = rmp_serde::to_vec_named(body).map_err(|error| error.to_string())?;
    dealer.send_multipart([to, head, &body], 0).map_err(|error| format!("cannot send: {error}"))
}

fn pack(head: (u64, u64)) -> Vec<u8> {
    rmp_serde::to_vec(&head).expect("two numbers can be packed")
}

fn variable(key: &str) -> Result<String, String> {
    env::var(format!("GANGLION_{key}")).map_err(|_| format!("expected GANGLION_{key}"))
}

fn serve(dealer: &zmq::Socket, silence_ms: i32) -> Result<(), String> {
    let (name, token) = (variable("NAME")?, variable("TOKEN")?);
    let hello = Body::Hello { version: 1, role: "environment", name: &name, token: &token, language: "rust" };
    send(dealer, b"", &pack((HELLO, 1)), &hello)?;
    let mut pendulum = Pendulum::default();
    let (mut asked, mut head, mut kept) = (vec![], vec![], Body::Nothing {});
    loop {
        let frames = match dealer.recv_multipart(0) {
            Err(zmq::Error::EINTR) => continue,
            Err(zmq::Error::EAGAIN) => return Err(format!("the kernel has been silent for {silence_ms} ms")),
            found => found.map_err(|error| format!("cannot receive: {error}"))?,
        };
        let (verb, serial, call) = decode_head(frames.get(1).ok_or("expected a head")?)?;
        let body = frames.get(2).map_or(&[][..], |frame| frame);
        match (verb, call) {
            (CALL, Some(call)) => {
                if frames != asked {
                    // else it comes again: it gets the same answer, without another step
                    (head, kept) = match answer(&mut pendulum, &call, body) {
                        Ok(body) => (pack((REPLY, serial)), body),
                        Err((kind, why)) => (pack((ERROR, serial)), Body::Failure { kind, message: format!("{call}: {why}") }),
                    };
                    asked = frames.clone();
                }
                send(dealer, &frames[0], &head, &kept)?;
            }
            (BEAT, None) => {
                let here = rmp_serde::to_vec(&(BEAT, serial, "here")).map_err(|error| error.to_string())?;
                send(dealer, b"", &here, &Body::Nothing {})?;
            }
            (BYE, _) => return send(dealer, b"", &pack((BYE, serial)), &Body::Nothing {}),
            (ERROR, _) => return Err(format!("the kernel ends the connection: {}", decode::<Asked>(body)?.message)),
            _ => (),
        }
    }
}

fn main() {
    let silence_ms = env::var("GANGLION_SILENCE_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(10_000);
    let played = || -> Result<(), String> {
        let dealer = zmq::Context::new().socket(zmq::DEALER).map_err(|error| error.to_string())?;
        let set = |result: Result<(), zmq::Error>| result.map_err(|error| format!("cannot set an option: {error}"));
        set(dealer.set_linger(500))?; // ms for the last answer to leave
        set(dealer.set_rcvtimeo(silence_ms))?; // it says something every half second
        if env::var("GANGLION_SERVER_KEY").is_ok() {
            let key = |name: &str| zmq::z85_decode(&variable(name)?).map_err(|error| error.to_string());
            set(dealer.set_curve_serverkey(&key("SERVER_KEY")?))?; // of a kernel on another machine
            set(dealer.set_curve_publickey(&key("PUBLIC_KEY")?))?;
            set(dealer.set_curve_secretkey(&key("SECRET_KEY")?))?;
        }
        let endpoint = variable("ENDPOINT")?;
        dealer.connect(&endpoint).map_err(|error| format!("{endpoint}: {error}"))?;
        serve(&dealer, silence_ms)
    };
    if let Err(why) = played() {
        eprintln!("pendulum: {why}");
        std::process::exit(1);
    }
}
