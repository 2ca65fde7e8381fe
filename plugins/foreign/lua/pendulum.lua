-- Play the reference pendulum with LuaJIT's FFI on libzmq, and lua-messagepack: join, declare, reset, update, leave.
local ffi = require "ffi"
local msgpack = require "MessagePack"
msgpack.set_array "without_hole" -- an empty table is an array
msgpack.set_string "string" -- and text is text

ffi.cdef [[
void *zmq_ctx_new(void); int zmq_ctx_term(void *context);
void *zmq_socket(void *context, int type); int zmq_close(void *socket);
int zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int zmq_getsockopt(void *socket, int option, void *value, size_t *size);
int zmq_connect(void *socket, const char *endpoint);
int zmq_send(void *socket, const void *data, size_t size, int flags);
int zmq_recv(void *socket, void *data, size_t size, int flags);
int zmq_errno(void); const char *zmq_strerror(int number);
]]
local zmq = ffi.load "zmq.so.5" -- libzmq.so.5
local DEALER, SNDMORE, RCVMORE, RCVTIMEO, LINGER, EINTR = 5, 2, 13, 27, 17, 4
local HELLO, CALL, REPLY, ERROR, BEAT, BYE = 1, 3, 4, 5, 8, 10

-- == the world: + - * / only, each line evaluated as written, so that every language gets the same bits ==============
local x, c, s, w, steps

local function draw()
  x = 16807 * x % 2147483647 -- stays below 2^53: a double holds it
  return 2.0 * x / 2147483647 - 1.0
end

local function begin(seed)
  x = 1 + seed % 2147483646
  draw()
  local t = draw()
  local q = 1.0 + t * t
  c, s, w, steps = (t * t - 1.0) / q, 2.0 * t / q, draw(), 0
  return {}
end

local function advance(torque)
  local u = math.min(math.max(torque, -2.0), 2.0)
  w = math.min(math.max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0)
  local k = w * 0.025
  local q, p = 1.0 + k * k, 1.0 - k * k
  c, s, steps = (p * c - 2.0 * k * s) / q, (p * s + 2.0 * k * c) / q, steps + 1
  return { { -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u) } }
end

-- == the calls: what is returned is the body of the REPLY, an error becomes an ERROR, as where nothing was begun ======
local function state(rewards)
  return { readings = { { c, s, w } }, rewards = rewards, ticks = steps, truncated = steps == 200 }
end

local calls = {
  ["environment.start"] = function(body)
    local all = state(begin(body.seed))
    all.sensors = { "cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)" }
    all.actuators, all.rewards = { "torque: Box(-2, 2)" }, { "balance: Box(-11, 1)" }
    return all
  end,
  ["environment.reset"] = function(body) return state(begin(body.seed)) end,
  ["environment.update"] = function(body) return state(advance(body.setpoints[1][1])) end,
  ["environment.shutdown"] = function() return { done = true } end,
}

local function answer(serial, call, frame)
  local right, body = pcall(function() return calls[call](frame == "" and {} or msgpack.unpack(frame)) end)
  if not right then body = { kind = "protocol", message = call .. ": " .. tostring(body) } end
  return msgpack.pack { right and REPLY or ERROR, serial }, msgpack.pack(body)
end

-- == the bus: receive, answer, repeat ================================================================================
local function check(code) -- nil where a signal has interrupted the call, which is then made again
  if code >= 0 or zmq.zmq_errno() == EINTR then return code >= 0 and code or nil end
  error(ffi.string(zmq.zmq_strerror(zmq.zmq_errno())))
end

local function send(dealer, frames)
  for i, frame in ipairs(frames) do
    repeat until check(zmq.zmq_send(dealer, frame, #frame, i < #frames and SNDMORE or 0))
  end
end

local room = 4 * 1024 * 1024
local buffer, more, size = ffi.new("char[?]", room), ffi.new "int[1]", ffi.new("size_t[1]", ffi.sizeof "int")

local function receive(dealer) -- one buffer for all: a message object per call does not live with LuaJIT's compiler
  local frames = {}
  repeat
    local got
    repeat got = check(zmq.zmq_recv(dealer, buffer, room, 0)) until got
    frames[#frames + 1] = ffi.string(buffer, math.min(got, room))
    check(zmq.zmq_getsockopt(dealer, RCVMORE, more, size))
  until more[0] == 0
  return frames
end

local context = zmq.zmq_ctx_new()
local dealer = zmq.zmq_socket(context, DEALER)
local silence_ms = tonumber(os.getenv "GANGLION_SILENCE_MS" or 10000) -- the kernel says something every half second
for option, value in pairs { [LINGER] = 500, [RCVTIMEO] = silence_ms } do
  check(zmq.zmq_setsockopt(dealer, option, ffi.new("int[1]", value), 4))
end
for option, key in pairs { [50] = "SERVER", [48] = "PUBLIC", [49] = "SECRET" } do -- CURVE, of another machine
  local value = os.getenv("GANGLION_" .. key .. "_KEY")
  if value then check(zmq.zmq_setsockopt(dealer, option, value, 41)) end
end
check(zmq.zmq_connect(dealer, os.getenv "GANGLION_ENDPOINT"))
local hello = { version = 1, role = "environment", language = "lua" }
hello.name, hello.token = os.getenv "GANGLION_NAME", os.getenv "GANGLION_TOKEN"
send(dealer, { "", msgpack.pack { HELLO, 1 }, msgpack.pack(hello) })
local verb, asked, kept
while verb ~= BYE do
  local frames, serial, call = receive(dealer)
  verb, serial, call = unpack(msgpack.unpack(frames[2]))
  if verb == ERROR then error("the kernel ends the connection: " .. msgpack.unpack(frames[3]).message) end
  if verb == CALL and msgpack.pack(frames) ~= asked then -- else it comes again: it gets the same answer
    asked, kept = msgpack.pack(frames), { frames[1], answer(serial, call, frames[3]) }
  end
  if verb == CALL or verb == BEAT or verb == BYE then send(dealer, verb == CALL and kept or frames) end
end
check(zmq.zmq_close(dealer))
repeat until check(zmq.zmq_ctx_term(context))
