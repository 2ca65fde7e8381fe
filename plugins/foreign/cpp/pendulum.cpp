// Play the reference pendulum with cppzmq and msgpack-cxx: join, declare, reset, update, leave.
//
//     g++ -std=c++17 -O2 -ffp-contract=off -DMSGPACK_NO_BOOST pendulum.cpp -o pendulum -lzmq
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <msgpack.hpp>
#include <stdexcept>
#include <string>
#include <vector>
#include <zmq.hpp>
#include <zmq_addon.hpp>

using Object = msgpack::object;
using Packer = msgpack::packer<msgpack::sbuffer>;
enum Verb { HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10 };

struct UnknownCall : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The world: + - * / only, each line evaluated as written, so that every language gets the same bits.
struct Pendulum {
    uint64_t x = 0;
    double c = 1.0, s = 0.0, w = 0.0;
    int steps = 0;
    bool running = false;

    double draw() {
        x = 16807 * x % 2147483647;
        return 2.0 * static_cast<double>(x) / 2147483647 - 1.0;
    }

    void begin(uint64_t seed) {
        x = 1 + seed % 2147483646;
        draw();
        const double t = draw(), q = 1.0 + t * t;
        c = (t * t - 1.0) / q;
        s = 2.0 * t / q;
        w = draw();
        steps = 0;
        running = true;
    }

    double advance(double torque) {
        const double u = std::clamp(torque, -2.0, 2.0);
        w = std::clamp(w + (15.0 * s + 3.0 * u) * 0.05, -8.0, 8.0);
        const double k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k, before = c;
        c = (p * before - 2.0 * k * s) / q;
        s = (p * s + 2.0 * k * before) / q;
        running = ++steps < 200;
        return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
    }
};

// -- reading what the kernel says: exceptions of msgpack and ours become an ERROR -----------------------------------
const Object *find(const Object &map, const std::string &key) {
    if (map.type != msgpack::type::MAP) return nullptr;
    for (const auto &pair : map.via.map)
        if (pair.key.type == msgpack::type::STR && pair.key.as<std::string>() == key) return &pair.val;
    return nullptr;
}

uint64_t seed_of(const Object &body) {
    const Object *seed = find(body, "seed");
    if (!seed || seed->type != msgpack::type::POSITIVE_INTEGER) throw std::runtime_error("seed: expected an integer from 0");
    return seed->via.u64;
}

double torque_of(const Object &body) {
    const Object *rows = find(body, "setpoints"), *chosen = find(body, "actuators");
    const bool one = rows && rows->type == msgpack::type::ARRAY && rows->via.array.size == 1 &&
                     rows->via.array.ptr[0].type == msgpack::type::ARRAY;
    if (!one) throw std::runtime_error("setpoints: expected one row");
    const auto &row = rows->via.array.ptr[0].via.array;
    if (row.size == 0 && chosen && chosen->type == msgpack::type::ARRAY && chosen->via.array.size == 0) return 0.0; // none
    if (row.size != 1) throw std::runtime_error("setpoints: expected one value");
    const double u = row.ptr[0].as<double>(); // an integer is as good
    if (std::isnan(u)) throw std::runtime_error("torque: expected a number, found NaN");
    return u;
}

// -- the calls: each writes the body of its answer --------------------------------------------------------------------
void pack_box(Packer &to, const char *id, double low, double high, bool is_actuator = false) {
    to.pack_map(is_actuator ? 3 : 2).pack("id").pack(id);
    if (is_actuator) to.pack("value").pack(0.0);
    to.pack("space").pack_map(5).pack("type").pack("box").pack("dtype").pack("<f8");
    to.pack("shape").pack_array(0);
    to.pack("low").pack(low).pack("high").pack(high);
}

void answer(Pendulum &p, const std::string &call, const Object &body, Packer &to) {
    const bool starts = call == "environment.start", updates = call == "environment.update";
    std::vector<std::vector<double>> rewards;
    if (call == "environment.shutdown") {
        p.running = false;
        to.pack_map(0);
        return;
    }
    if (updates) {
        if (!p.running) throw std::runtime_error("expected environment.start or .reset before it");
        rewards = {{p.advance(torque_of(body))}};
    } else if (starts || call == "environment.reset") {
        p.begin(seed_of(body));
    } else {
        throw UnknownCall("expected start, reset, update or shutdown of environment");
    }
    const std::vector<std::vector<double>> readings = {{p.c, p.s, p.w}};
    to.pack_map(4).pack("readings").pack(readings);
    if (!starts) {
        to.pack("rewards").pack(rewards).pack("ticks").pack(p.steps).pack("truncated").pack(!p.running);
        return;
    }
    to.pack("sensors").pack_array(3);
    pack_box(to, "cos", -1.01, 1.01);
    pack_box(to, "sin", -1.01, 1.01);
    pack_box(to, "speed", -8.0, 8.0);
    to.pack("actuators").pack_array(1);
    pack_box(to, "torque", -2.0, 2.0, true);
    to.pack("rewards").pack_array(1);
    pack_box(to, "balance", -11.0, 1.0);
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
struct Said {
    msgpack::sbuffer head, body;

    Said(Verb verb, uint64_t serial, const char *word = nullptr) {
        Packer to(head);
        to.pack_array(word ? 3 : 2).pack(static_cast<int>(verb)).pack(serial);
        if (word) to.pack(word);
    }
    void put(const std::map<std::string, std::string> &words) { msgpack::pack(body, words); }
};

void send(zmq::socket_t &dealer, const std::string &to, const Said &said) {
    const std::vector<zmq::const_buffer> frames = {zmq::buffer(to), {said.head.data(), said.head.size()},
                                                  {said.body.data(), said.body.size()}};
    zmq::send_multipart(dealer, frames); // throws with the reason
}

msgpack::object_handle decoded(const std::string &frame) { // an empty frame is as good as an empty map
    return frame.empty() ? msgpack::unpack("\x80", 1) : msgpack::unpack(frame.data(), frame.size());
}

Said reply(Pendulum &pendulum, uint64_t serial, const std::string &call, const std::string &frame) {
    std::string kind = "protocol", message;
    try {
        Said said(REPLY, serial);
        Packer to(said.body);
        const auto body = decoded(frame);
        answer(pendulum, call, body.get(), to);
        return said;
    } catch (const UnknownCall &error) {
        kind = "unknown_call";
        message = error.what();
    } catch (const std::exception &error) {
        message = error.what();
    }
    Said said(ERROR, serial);
    said.put({{"kind", kind}, {"message", call + ": " + message}});
    return said;
}

std::string variable(const std::string &key) {
    const char *value = std::getenv(("GANGLION_" + key).c_str());
    return value ? value : throw std::runtime_error("expected GANGLION_" + key);
}

std::vector<std::string> receive(zmq::socket_t &dealer) {
    std::vector<std::string> frames;
    for (bool more = true; more;) {
        zmq::message_t frame;
        try {
            if (!dealer.recv(frame)) throw std::runtime_error("the kernel is silent");
        } catch (const zmq::error_t &error) {
            if (error.num() == EINTR) continue; // a signal came in between
            throw;
        }
        more = frame.more();
        frames.push_back(frame.to_string());
    }
    return frames;
}

void serve(zmq::socket_t &dealer) {
    Said hello(HELLO, 1);
    Packer to(hello.body);
    to.pack_map(5).pack("version").pack(1).pack("role").pack("environment").pack("language").pack("cpp");
    to.pack("name").pack(variable("NAME")).pack("token").pack(variable("TOKEN"));
    send(dealer, "", hello);
    Pendulum pendulum;
    std::vector<std::string> asked;
    Said kept(REPLY, 0);
    while (true) {
        const auto frames = receive(dealer);
        const auto handle = decoded(frames.at(1));
        const auto head = handle.get().as<std::vector<Object>>();
        const auto verb = head.at(0).as<int>();
        const auto serial = head.size() > 1 ? head[1].as<uint64_t>() : 0;
        const bool named = head.size() > 2 && !head[2].is_nil();
        if (verb == CALL) {
            if (frames != asked) { // else it comes again: it gets the same answer, without another step
                asked = frames;
                kept = reply(pendulum, serial, head.at(2).as<std::string>(), frames.size() > 2 ? frames[2] : "");
            }
            send(dealer, frames[0], kept);
        } else if (verb == BEAT && !named) {
            send(dealer, "", Said(BEAT, serial, "here"));
        } else if (verb == BYE) {
            return send(dealer, "", Said(BYE, serial));
        } else if (verb == ERROR) {
            const auto why = decoded(frames.at(2));
            const Object *message = find(why.get(), "message");
            throw std::runtime_error("the kernel ends the connection: " + (message ? message->as<std::string>() : ""));
        }
    }
}

int main() {
    try {
        zmq::context_t context;
        zmq::socket_t dealer(context, zmq::socket_type::dealer);
        const char *silence = std::getenv("GANGLION_SILENCE_MS");
        dealer.set(zmq::sockopt::linger, 500); // ms for the last answer to leave
        dealer.set(zmq::sockopt::rcvtimeo, silence ? std::atoi(silence) : 10000); // it says something every half second
        if (std::getenv("GANGLION_SERVER_KEY")) { // of a kernel on another machine
            dealer.set(zmq::sockopt::curve_serverkey, variable("SERVER_KEY"));
            dealer.set(zmq::sockopt::curve_publickey, variable("PUBLIC_KEY"));
            dealer.set(zmq::sockopt::curve_secretkey, variable("SECRET_KEY"));
        }
        dealer.connect(variable("ENDPOINT"));
        serve(dealer);
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "pendulum: " << error.what() << "\n";
        return 1;
    }
}
