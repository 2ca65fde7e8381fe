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
local DEALER, SNDMORE, RCVMORE, RCVTIMEO, LINGER = 5, 2, 13, 27, 17
local SERVERKEY, PUBLICKEY, SECRETKEY, EINTR, EAGAIN = 50, 48, 49, 4, 11
local HELLO, CALL, REPLY, ERROR, BEAT, BYE = 1, 3, 4, 5, 8, 10

-- == the world: + - * / only, each line evaluated as written, so that every language gets the same bits ==============
local x, c, s, w, steps, running

local function draw()
  x = 16807 * x % 2147483647 -- stays below 2^53: a double holds it
  return 2.0 * x / 2147483647 - 1.0
end

local function begin(seed)
  if type(seed) ~= "number" or seed < 0 or seed % 1 ~= 0 then error("seed: expected an integer from 0", 0) end
  x = 1 + seed % 2147483646
  draw()
  local t = draw()
  local q = 1.0 + t * t
  c, s, w = (t * t - 1.0) / q, 2.0 * t / q, draw()
  steps, running = 0, true
end

local function advance(torque)
  local u = math.min(math.max(torque, -2.0), 2.0)
  w = math.min(math.max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0)
  local k = w * 0.025
  local q, p = 1.0 + k * k, 1.0 - k * k
  c, s = (p * c - 2.0 * k * s) / q, (p * s + 2.0 * k * c) / q
  steps = steps + 1
  running = steps < 200
  return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u)
end

-- == the calls: what is returned is the body of the REPLY, an error becomes an ERROR =================================
local function box(id, low, high, value)
  return { id = id, value = value, space = { type = "box", shape = {}, dtype = "<f8", low = low, high = high } }
end

local function state(rewards)
  return { readings = { { c, s, w } }, rewards = rewards, ticks = steps, truncated = not running }
end

local function torque_of(body)
  local rows, chosen = body.setpoints, body.actuators
  local row = type(rows) == "table" and #rows == 1 and rows[1]
  if type(row) == "table" and #row == 0 and type(chosen) == "table" and #chosen == 0 then return 0.0 end -- none given
  local u = type(row) == "table" and #row == 1 and row[1]
  if type(u) ~= "number" or u ~= u then error("torque: expected one number", 0) end
  return u
end

local calls = {
  ["environment.start"] = function(body)
    begin(body.seed)
    return {
      sensors = { box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0) },
      actuators = { box("torque", -2.0, 2.0, 0.0) },
      rewards = { box("balance", -11.0, 1.0) },
      readings = { { c, s, w } },
    }
  end,
  ["environment.reset"] = function(body) begin(body.seed) return state {} end,
  ["environment.update"] = function(body)
    if not running then error("expected environment.start or .reset before it", 0) end
    return state { { advance(torque_of(body)) } }
  end,
  ["environment.shutdown"] = function() running = false return nil end,
}

-- Return head and body of the answer, packed; an empty body is as good as an empty map.
local function answer(serial, call, frame)
  if not calls[call] then
    local message = "expected start, reset, update or shutdown, found " .. call
    return msgpack.pack { ERROR, serial }, msgpack.pack { kind = "unknown_call", message = message }
  end
  local right, body = pcall(function() return calls[call](frame == "" and {} or msgpack.unpack(frame)) end)
  if right then return msgpack.pack { REPLY, serial }, body and msgpack.pack(body) or "" end
  return msgpack.pack { ERROR, serial }, msgpack.pack { kind = "protocol", message = call .. ": " .. tostring(body) }
end

-- == the bus: receive, answer, repeat ================================================================================
local silence_ms = tonumber(os.getenv "GANGLION_SILENCE_MS" or 10000) -- the kernel says something every half second

local function check(code, what) -- and call again what a signal has interrupted
  if code >= 0 then return code end
  if zmq.zmq_errno() == EINTR then return nil end
  local why = ffi.string(zmq.zmq_strerror(zmq.zmq_errno()))
  if zmq.zmq_errno() == EAGAIN then why = "the kernel has been silent for " .. silence_ms .. " ms" end
  error(what .. ": " .. why, 0)
end

local function variable(key) return os.getenv("GANGLION_" .. key) or error("expected GANGLION_" .. key, 0) end

local function send(dealer, to, head, body)
  repeat until check(zmq.zmq_send(dealer, to, #to, SNDMORE), "cannot send")
  repeat until check(zmq.zmq_send(dealer, head, #head, SNDMORE), "cannot send")
  repeat until check(zmq.zmq_send(dealer, body, #body, 0), "cannot send")
end

local room = 4 * 1024 * 1024
local buffer, more, size = ffi.new("char[?]", room), ffi.new "int[1]", ffi.new("size_t[1]", ffi.sizeof "int")

local function receive(dealer) -- one buffer for all: a message object per call does not live with LuaJIT's compiler
  local frames = {}
  repeat
    local got
    repeat got = check(zmq.zmq_recv(dealer, buffer, room, 0), "cannot receive") until got
    if got > room then error("a frame is longer than " .. room .. " bytes", 0) end
    frames[#frames + 1] = ffi.string(buffer, got)
    check(zmq.zmq_getsockopt(dealer, RCVMORE, more, size), "cannot receive")
  until more[0] == 0
  return frames
end

local function serve(dealer)
  local hello = { version = 1, role = "environment", name = variable "NAME", token = variable "TOKEN", language = "lua" }
  send(dealer, "", msgpack.pack { HELLO, 1 }, msgpack.pack(hello))
  local asked, head, body = ""
  while true do
    local frames = receive(dealer)
    local message = msgpack.unpack(frames[2])
    local verb, serial, call = message[1], message[2], message[3]
    if verb == CALL then
      local whole = msgpack.pack(frames)
      if whole ~= asked then -- else it comes again: it gets the same answer, without another step
        asked, head, body = whole, answer(serial, call, frames[3] or "")
      end
      send(dealer, frames[1], head, body)
    elseif verb == BEAT and not call then
      send(dealer, "", msgpack.pack { BEAT, serial, "here" }, "")
    elseif verb == BYE then
      return send(dealer, "", msgpack.pack { BYE, serial }, "")
    elseif verb == ERROR then
      error("the kernel ends the connection: " .. msgpack.unpack(frames[3]).message, 0)
    end
  end
end

local function main()
  local context = zmq.zmq_ctx_new()
  local dealer = zmq.zmq_socket(context, DEALER)
  for option, value in pairs { [LINGER] = 500, [RCVTIMEO] = silence_ms } do
    check(zmq.zmq_setsockopt(dealer, option, ffi.new("int[1]", value), 4), "cannot set an option")
  end
  if os.getenv "GANGLION_SERVER_KEY" then -- of a kernel on another machine
    for option, key in pairs { [SERVERKEY] = "SERVER_KEY", [PUBLICKEY] = "PUBLIC_KEY", [SECRETKEY] = "SECRET_KEY" } do
      check(zmq.zmq_setsockopt(dealer, option, variable(key), 41), key)
    end
  end
  check(zmq.zmq_connect(dealer, variable "ENDPOINT"), variable "ENDPOINT")
  serve(dealer)
  check(zmq.zmq_close(dealer), "cannot end")
  repeat until check(zmq.zmq_ctx_term(context), "cannot end")
end

local right, why = pcall(main)
if not right then
  io.stderr:write("pendulum: ", tostring(why), "\n")
  os.exit(1)
end
