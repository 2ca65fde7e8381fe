# Play the reference pendulum with ffi-rzmq and msgpack: join, declare, reset, update, leave.
require "ffi-rzmq"
require "msgpack"

HELLO, CALL, REPLY, ERROR, BEAT, BYE = 1, 3, 4, 5, 8, 10
SENSORS = ["cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)"]
DECLARED = {sensors: SENSORS, actuators: ["torque: Box(-2, 2)"], rewards: ["balance: Box(-11, 1)"]}

# Use + - * / only, each line evaluated as written, so that every language gets the same bits.
class Pendulum
  def draw = 2.0 * (@x = 16807 * @x % 2147483647) / 2147483647 - 1.0

  def begin(seed)
    @x = 1 + seed % 2147483646
    draw
    t = draw
    q = 1.0 + t * t
    @c, @s, @w, @steps = (t * t - 1.0) / q, 2.0 * t / q, draw, 0
    []
  end

  def advance(torque)
    u = torque.to_f.clamp(-2.0, 2.0)
    @w = (@w + (15.0 * @s + 3.0 * u) * 0.05).clamp(-8.0, 8.0)
    k = @w * 0.025
    q, p = 1.0 + k * k, 1.0 - k * k
    @c, @s, @steps = (p * @c - 2.0 * k * @s) / q, (p * @s + 2.0 * k * @c) / q, @steps + 1
    [[-(2.0 * (1.0 - @c) + 0.1 * @w * @w + 0.001 * u * u)]]
  end

  def state(rewards) = {readings: [[@c, @s, @w]], rewards: rewards, ticks: @steps, truncated: @steps == 200}

  # Return the body of the answer; what is raised becomes an ERROR, as where no episode was begun.
  def answer(call, body)
    case call
    when "environment.start" then state(self.begin(body["seed"])).merge(DECLARED)
    when "environment.reset" then state(self.begin(body["seed"]))
    when "environment.update" then state(advance(body["setpoints"][0][0]))
    when "environment.shutdown" then {}
    else raise "unknown call #{call}"
    end
  end
end

def reply(pendulum, serial, call, frame)
  [[REPLY, serial].to_msgpack, pendulum.answer(call, frame.empty? ? {} : MessagePack.unpack(frame)).to_msgpack]
rescue StandardError => error
  [[ERROR, serial].to_msgpack, {kind: "protocol", message: "#{call}: #{error.message}"}.to_msgpack]
end

def check(code) = ZMQ::Util.resultcode_ok?(code) || abort("pendulum: #{ZMQ::Util.error_string}")

context = ZMQ::Context.new # kept: it would end with the garbage
dealer = context.socket(ZMQ::DEALER)
options = {LINGER: 500, RCVTIMEO: ENV.fetch("GANGLION_SILENCE_MS", "10000").to_i} # it says something twice a second
%w[SERVER PUBLIC SECRET].each { |key| options[:"CURVE_#{key}KEY"] = ENV["GANGLION_#{key}_KEY"] if ENV["GANGLION_#{key}_KEY"] }
options.each { |option, value| check(dealer.setsockopt(ZMQ.const_get(option), value)) }
check(dealer.connect(ENV.fetch("GANGLION_ENDPOINT")))
hello = {version: 1, role: "environment", name: ENV.fetch("GANGLION_NAME"), token: ENV.fetch("GANGLION_TOKEN"), language: "ruby"}
check(dealer.send_strings(["", [HELLO, 1].to_msgpack, hello.to_msgpack]))
pendulum, asked, kept, verb = Pendulum.new, [], [], HELLO
until verb == BYE
  code = dealer.recv_strings(frames = [])
  redo if code < 0 && ZMQ::Util.errno == ZMQ::EINTR
  check(code)
  verb, serial, call = MessagePack.unpack(frames[1])
  abort("pendulum: the kernel ends the connection: #{MessagePack.unpack(frames[2])["message"]}") if verb == ERROR
  again = frames == asked # it gets the same answer, without another step
  asked, kept = frames, [frames[0], *reply(pendulum, serial, call, frames[2])] if verb == CALL && !again
  check(dealer.send_strings(verb == CALL ? kept : frames)) if [CALL, BEAT, BYE].include?(verb)
end
check(dealer.close)
