% Play the reference pendulum with octave-zeromq and a msgpack codec of its own: join, declare, reset, update, leave.
1; % a script with functions

pkg load zeromq
sigterm_dumps_octave_core(0); % its end leaves no file behind

% -- msgpack: a struct is a map, a cell an array, an int64 an integer, a double a double; maps come as containers.Map ---
function bytes = size_of(size, small, most, tag)
  if size < most, bytes = uint8(small + size); else bytes = uint8([tag, floor(size / 256), mod(size, 256)]); end
end

function bytes = big_endian(value)
  bytes = typecast(swapbytes(value), "uint8");
end

function bytes = encode(value)
  if isstruct(value)
    keys = fieldnames(value);
    parts = cell(1, 2 * numel(keys));
    for i = 1:numel(keys)
      parts(2 * i - 1 : 2 * i) = {encode(keys{i}), encode(value.(keys{i}))};
    end
    bytes = [size_of(numel(keys), 0x80, 16, 0xde), parts{:}];
  elseif iscell(value)
    parts = cellfun(@encode, value, "UniformOutput", false);
    bytes = [size_of(numel(value), 0x90, 16, 0xdc), parts{:}];
  elseif ischar(value)
    bytes = [size_of(numel(value), 0xa0, 32, 0xda), uint8(value)];
  elseif islogical(value)
    bytes = uint8(0xc2 + value);
  elseif isinteger(value)
    bytes = [uint8(0xd3), big_endian(int64(value))];
  else
    bytes = [uint8(0xcb), big_endian(double(value))];
  end
end

function [value, at] = sized(frame, at, bytes)
  bytes = double(bytes); % 0xcc is a uint8, and what is computed with it, too
  if at + bytes - 1 > numel(frame), error("msgpack: it is cut"); end
  value = sum(double(frame(at : at + bytes - 1)) .* 256 .^ (bytes - 1 : -1 : 0)); % exact up to 2^53
  at += bytes;
end

function [piece, at] = take(frame, at, size)
  size = double(size);
  if at + size - 1 > numel(frame), error("msgpack: it is cut"); end
  piece = frame(at : at + size - 1);
  at += size;
end

function [made, at] = elements(frame, at, size)
  made = cell(1, min(size, numel(frame)));
  for i = 1:size
    [made{i}, at] = value_at(frame, at);
  end
end

function [made, at] = pairs(frame, at, size)
  made = containers.Map("KeyType", "char", "ValueType", "any");
  for i = 1:size
    [key, at] = value_at(frame, at);
    [made(key), at] = value_at(frame, at);
  end
end

function [value, at] = value_at(frame, at)
  [tag, at] = sized(frame, at, 1);
  value = [];
  if tag < 0x80, value = tag;
  elseif tag < 0x90, [value, at] = pairs(frame, at, tag - 0x80);
  elseif tag < 0xa0, [value, at] = elements(frame, at, tag - 0x90);
  elseif tag < 0xc0, [value, at] = take(frame, at, tag - 0xa0); value = char(value);
  elseif tag >= 0xe0, value = tag - 256;
  elseif tag == 0xc0, value = [];
  elseif tag == 0xc2 || tag == 0xc3, value = tag == 0xc3;
  elseif tag >= 0xc4 && tag <= 0xc6, [size, at] = sized(frame, at, 2 ^ (tag - 0xc4)); [value, at] = take(frame, at, size);
  elseif tag == 0xca, [value, at] = take(frame, at, 4); value = double(swapbytes(typecast(value, "single")));
  elseif tag == 0xcb, [value, at] = take(frame, at, 8); value = swapbytes(typecast(value, "double"));
  elseif tag >= 0xcc && tag <= 0xcf, [value, at] = sized(frame, at, 2 ^ (tag - 0xcc));
  elseif tag >= 0xd0 && tag <= 0xd3
    bytes = 2 ^ double(tag - 0xd0);
    [piece, at] = take(frame, at, bytes);
    if piece(1) < 128, value = sized(piece, 1, bytes); else value = -1 - sized(255 - piece, 1, bytes); end
  elseif tag >= 0xd9 && tag <= 0xdb, [size, at] = sized(frame, at, 2 ^ (tag - 0xd9)); [value, at] = take(frame, at, size); value = char(value);
  elseif tag == 0xdc || tag == 0xdd, [size, at] = sized(frame, at, 2 ^ (tag - 0xdb)); [value, at] = elements(frame, at, size);
  elseif tag == 0xde || tag == 0xdf, [size, at] = sized(frame, at, 2 ^ (tag - 0xdd)); [value, at] = pairs(frame, at, size);
  else error("msgpack: no value begins with %02x", tag);
  end
end

function value = unpack(frame) % an empty frame is as good as an empty map
  if isempty(frame), value = containers.Map(); else value = value_at(frame, 1); end
end

function value = field(map, key)
  if isobject(map) && map.isKey(key), value = map(key); else value = []; end
end

% -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits -----------------
function [p, number] = draw(p)
  p.x = mod(16807 * p.x, 2147483647); % stays below 2^53: a double holds it
  number = 2.0 * p.x / 2147483647 - 1.0;
end

function p = begin(seed)
  if !isnumeric(seed) || !isscalar(seed) || seed < 0 || seed != floor(seed)
    error("seed: expected an integer from 0");
  end
  p.x = 1 + mod(seed, 2147483646);
  p = draw(p);
  [p, t] = draw(p);
  q = 1.0 + t * t;
  p.c = (t * t - 1.0) / q;
  p.s = 2.0 * t / q;
  [p, p.w] = draw(p);
  p.steps = 0;
  p.running = true;
end

function [p, reward] = advance(p, torque)
  u = min(max(torque, -2.0), 2.0);
  w = min(max(p.w + (15.0 * p.s + 3.0 * u) * 0.05, -8.0), 8.0);
  k = w * 0.025;
  q = 1.0 + k * k;
  r = 1.0 - k * k;
  c = (r * p.c - 2.0 * k * p.s) / q;
  s = (r * p.s + 2.0 * k * p.c) / q;
  p.c = c; p.s = s; p.w = w;
  p.steps += 1;
  p.running = p.steps < 200;
  reward = -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
end

% -- the calls: what is returned is the body of the REPLY, an error becomes an ERROR ------------------------------------
function made = box(id, low, high)
  space = struct("type", "box", "dtype", "<f8", "shape", {{}}, "low", low, "high", high);
  made = struct("id", id, "space", space);
end

function made = state(p, rewards)
  made = struct("readings", {{{p.c, p.s, p.w}}}, "rewards", {rewards}, "ticks", int64(p.steps), "truncated", !p.running);
end

function u = torque_of(body)
  rows = field(body, "setpoints");
  chosen = field(body, "actuators");
  row = [];
  if iscell(rows) && numel(rows) == 1, row = rows{1}; end
  u = 0.0;
  if iscell(row) && isempty(row) && iscell(chosen) && isempty(chosen), return; end % a step may give none
  if !iscell(row) || numel(row) != 1 || !isnumeric(row{1}) || !isscalar(row{1}) || isnan(row{1})
    error("torque: expected one number");
  end
  u = row{1};
end

function [p, made] = answer(p, call, body)
  switch call
    case "environment.start"
      p = begin(field(body, "seed"));
      torque = box("torque", -2.0, 2.0);
      torque.value = 0.0;
      made = struct("sensors", {{box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)}}, ...
                    "actuators", {{torque}}, "rewards", {{box("balance", -11.0, 1.0)}}, "readings", {{{p.c, p.s, p.w}}});
    case "environment.reset"
      p = begin(field(body, "seed"));
      made = state(p, {});
    case "environment.update"
      if !p.running, error("expected environment.start or .reset before it"); end
      [p, reward] = advance(p, torque_of(body));
      made = state(p, {{reward}});
    case "environment.shutdown"
      p.running = false;
      made = struct();
    otherwise
      error("ganglion:unknown_call", "expected start, reset, update or shutdown of environment, found %s", call);
  end
end

function [p, head, body] = reply(p, serial, call, frame)
  try
    [p, made] = answer(p, call, unpack(frame));
    head = encode({int64(4), int64(serial)});
    body = encode(made);
  catch error
    kind = "protocol";
    if strcmp(error.identifier, "ganglion:unknown_call"), kind = "unknown_call"; end
    head = encode({int64(5), int64(serial)});
    body = encode(struct("kind", kind, "message", [call, ": ", error.message]));
  end
end

% -- the bus: receive, answer, repeat -----------------------------------------------------------------------------------
function fail(varargin)
  fprintf(stderr, "pendulum: %s\n", [varargin{:}]);
  exit(1);
end

function value = variable(key)
  value = getenv(["GANGLION_", key]);
  if isempty(value), fail("expected GANGLION_", key); end
end

function say(dealer, to, head, body)
  last = zmq_send(dealer, uint8(to), ZMQ_SNDMORE) >= 0 && zmq_send(dealer, head, ZMQ_SNDMORE) >= 0;
  if !last || zmq_send(dealer, body) < 0, fail("cannot send: ", zmq_strerror(zmq_errno())); end
end

function frames = receive(dealer, silence_ms)
  if !zmq_poll(dealer, silence_ms), fail("the kernel has been silent for ", num2str(silence_ms), " ms"); end
  frames = {};
  do
    room = 256; % a name and a head are never longer; room costs time, and what is longer would be cut
    if numel(frames) >= 2, room = 4 * 1024 * 1024; end
    frames{end + 1} = zmq_recv(dealer, room);
  until !zmq_getsockopt(dealer, ZMQ_RCVMORE)
end

function serve(dealer, silence_ms)
  hello = struct("version", int64(1), "role", "environment", "name", variable("NAME"), "token", variable("TOKEN"), ...
                 "language", "octave");
  say(dealer, "", encode({int64(1), int64(1)}), encode(hello));
  p.running = false;
  asked = {};
  while true
    frames = receive(dealer, silence_ms);
    message = [unpack(frames{2}), {0, []}];
    verb = message{1};
    serial = message{2};
    call = "";
    if numel(message) > 4 && ischar(message{3}), call = message{3}; end
    frames = [frames, {uint8([])}]; % a message without a body has an empty one
    if verb == 3 % CALL
      if !isequal(frames, asked) % else it comes again: it gets the same answer, without another step
        asked = frames;
        [p, head, body] = reply(p, serial, call, frames{3});
      end
      say(dealer, frames{1}, head, body);
    elseif verb == 8 && isempty(call) % BEAT
      say(dealer, "", encode({int64(8), int64(serial), "here"}), uint8([]));
    elseif verb == 10 % BYE
      say(dealer, "", encode({int64(10), int64(serial)}), uint8([]));
      return
    elseif verb == 5 % ERROR
      fail("the kernel ends the connection: ", field(unpack(frames{3}), "message"));
    end
  end
end

silence_ms = str2double(getenv("GANGLION_SILENCE_MS")); % the kernel says something every half second
if isnan(silence_ms), silence_ms = 10000; end
dealer = zmq_socket(ZMQ_DEALER);
if !isempty(getenv("GANGLION_SERVER_KEY")) % of a kernel on another machine
  zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, variable("SERVER_KEY"));
  zmq_setsockopt(dealer, ZMQ_CURVE_PUBLICKEY, variable("PUBLIC_KEY"));
  zmq_setsockopt(dealer, ZMQ_CURVE_SECRETKEY, variable("SECRET_KEY"));
end
if !zmq_connect(dealer, variable("ENDPOINT")), fail(variable("ENDPOINT")); end
serve(dealer, silence_ms);
zmq_close(dealer);
