# Play the reference pendulum with ffi-rzmq and msgpack: join, declare, reset, update, leave.
require "ffi-rzmq"
require "msgpack"

HELLO, CALL, REPLY, ERROR, BEAT, BYE = 1, 3, 4, 5, 8, 10

# Use + - * / only, each line evaluated as written, so that every language gets the same bits.
class Pendulum
  def initialize = @running = false

  def begin(seed)
    raise "seed: expected an integer from 0, found #{seed.inspect}" unless seed.is_a?(Integer) && seed >= 0
    @x = 1 + seed % 2147483646
    draw
    t = draw
    q = 1.0 + t * t
    @c, @s, @w = (t * t - 1.0) / q, 2.0 * t / q, draw
    @steps, @running = 0, true
  end

  def draw
    @x = 16807 * @x % 2147483647
    2.0 * @x / 2147483647 - 1.0
  end

  def advance(torque)
    u = torque.clamp(-2.0, 2.0)
    @w = (@w + (15.0 * @s + 3.0 * u) * 0.05).clamp(-8.0, 8.0)
    k = @w * 0.025
    q, p = 1.0 + k * k, 1.0 - k * k
    @c, @s = (p * @c - 2.0 * k * @s) / q, (p * @s + 2.0 * k * @c) / q
    @steps += 1
    @running = @steps < 200
    -(2.0 * (1.0 - @c) + 0.1 * @w * @w + 0.001 * u * u)
  end

  def box(id, low, high) = {id: id, space: {type: "box", shape: [], dtype: "<f8", low: low, high: high}}
  def state(rewards) = {readings: [[@c, @s, @w]], rewards: rewards, ticks: @steps, truncated: !@running}

  def torque_of(body)
    rows = body["setpoints"]
    return 0.0 if rows == [[]] && body["actuators"] == [] # a step may give none
    (u,), *more = rows if rows.is_a?(Array) && rows.all?(Array)
    right = u.is_a?(Numeric) && more&.empty? && rows[0].size == 1 && !u.to_f.nan?
    right ? u.to_f : raise("torque: expected one number, found #{rows.inspect}")
  end

  # Return the body of the answer, nil for a call that there is not; what is raised becomes an ERROR.
  def answer(call, body)
    case call
    when "environment.start"
      self.begin(body["seed"])
      {sensors: [box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)],
       actuators: [box("torque", -2.0, 2.0).merge(value: 0.0)],
       rewards: [box("balance", -11.0, 1.0)], readings: [[@c, @s, @w]]}
    when "environment.reset"
      self.begin(body["seed"])
      state([])
    when "environment.update"
      raise "expected environment.start or .reset before it" unless @running
      state([[advance(torque_of(body))]])
    when "environment.shutdown"
      @running = false
      {}
    end
  end
end

# -- the bus: receive, answer, repeat ----------------------------------------------------------------------------------
def check(code, what) = ZMQ::Util.resultcode_ok?(code) || abort("pendulum: #{what}: #{ZMQ::Util.error_string}")

def reply(pendulum, serial, call, frame)
  body = frame.to_s.empty? ? {} : MessagePack.unpack(frame)
  answer = pendulum.answer(call, body)
  return [[REPLY, serial], answer] if answer
  [[ERROR, serial], {kind: "unknown_call", message: "expected start, reset, update, shutdown, found #{call}"}]
rescue StandardError => error
  [[ERROR, serial], {kind: "protocol", message: "#{call}: #{error.message}"}]
end

endpoint, name, token = %w[ENDPOINT NAME TOKEN].map { |key| ENV["GANGLION_#{key}"] || abort("expected GANGLION_#{key}") }
silence_ms = Integer(ENV.fetch("GANGLION_SILENCE_MS", "10000")) # the kernel says something every half second
context = ZMQ::Context.new # kept: it would end with the garbage
dealer = context.socket(ZMQ::DEALER)
check(dealer.setsockopt(ZMQ::LINGER, 500), "linger") # ms for the last answer to leave
check(dealer.setsockopt(ZMQ::RCVTIMEO, silence_ms), "timeout")
if ENV["GANGLION_SERVER_KEY"] # of a kernel on another machine
  check(dealer.setsockopt(ZMQ::CURVE_SERVERKEY, ENV["GANGLION_SERVER_KEY"]), "server key")
  check(dealer.setsockopt(ZMQ::CURVE_PUBLICKEY, ENV["GANGLION_PUBLIC_KEY"]), "public key")
  check(dealer.setsockopt(ZMQ::CURVE_SECRETKEY, ENV["GANGLION_SECRET_KEY"]), "secret key")
end
check(dealer.connect(endpoint), endpoint)
send = lambda { |to, head, body = {}| check(dealer.send_strings([to, head.to_msgpack, body.to_msgpack]), "cannot send") }
send.call("", [HELLO, 1], {version: 1, role: "environment", name: name, token: token, language: "ruby"})
pendulum, asked, kept = Pendulum.new, [], []
loop do
  frames = []
  code = dealer.recv_strings(frames)
  redo if code < 0 && ZMQ::Util.errno == ZMQ::EINTR
  abort("pendulum: the kernel has been silent for #{silence_ms} ms") if code < 0 && ZMQ::Util.errno == ZMQ::EAGAIN
  check(code, "cannot receive")
  verb, serial, call = MessagePack.unpack(frames[1])
  if verb == CALL
    asked, kept = frames, reply(pendulum, serial, call, frames[2]) if frames != asked # a repeat gets the same again
    send.call(frames[0], *kept)
  elsif verb == BEAT && !call
    send.call("", [BEAT, serial, "here"])
  elsif verb == BYE
    send.call("", [BYE, serial])
    break
  elsif verb == ERROR
    abort("pendulum: the kernel ends the connection: #{MessagePack.unpack(frames[2])["message"]}")
  end
end
check(dealer.close, "cannot end")
check(context.terminate, "cannot end")
