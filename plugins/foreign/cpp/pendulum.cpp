// Play the reference pendulum with cppzmq and msgpack-cxx: join, declare, reset, update, leave.
//
//     g++ -std=c++17 -O2 -ffp-contract=off -DMSGPACK_NO_BOOST pendulum.cpp -o pendulum -lzmq
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <msgpack.hpp>
#include <zmq_addon.hpp>

enum Verb { HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10 };
using Rows = std::vector<std::vector<double>>;
using Body = std::map<std::string, msgpack::object>;
const std::vector<std::string> SENSORS = {"cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)"};
const std::vector<std::string> ACTUATORS = {"torque: Box(-2, 2)"}, REWARDS = {"balance: Box(-11, 1)"};

// The world: + - * / only, each line evaluated as written, so that every language gets the same bits.
uint64_t x;
double c, s, w;
int steps = -1; // no episode was begun

double draw() { return 2.0 * static_cast<double>(x = 16807 * x % 2147483647) / 2147483647 - 1.0; }

Rows begin(uint64_t seed) {
    x = 1 + seed % 2147483646;
    draw();
    const double t = draw(), q = 1.0 + t * t;
    c = (t * t - 1.0) / q, s = 2.0 * t / q, w = draw(), steps = 0;
    return {};
}

Rows advance(double torque) {
    if (steps++ < 0) throw std::runtime_error("expected environment.start before it");
    const double u = std::clamp(torque, -2.0, 2.0);
    w = std::clamp(w + (15.0 * s + 3.0 * u) * 0.05, -8.0, 8.0);
    const double k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k, before = c;
    c = (p * before - 2.0 * k * s) / q, s = (p * s + 2.0 * k * before) / q;
    return {{-(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u)}};
}

// The calls: what is written is the body of the REPLY, what is thrown becomes an ERROR.
template <class... Values> std::string packed(const Values &...values) { // one behind the other
    msgpack::sbuffer buffer;
    (msgpack::pack(buffer, values), ...);
    return {buffer.data(), buffer.size()};
}

std::string answer(const std::string &call, const std::string &frame) {
    const auto handle = frame.empty() ? msgpack::object_handle() : msgpack::unpack(frame.data(), frame.size());
    const auto body = frame.empty() ? Body() : handle.get().as<Body>();
    const bool starts = call == "environment.start";
    if (call == "environment.shutdown") return packed(Body());
    if (!starts && call != "environment.reset" && call != "environment.update") throw std::runtime_error("unknown");
    const Rows rewards = call == "environment.update" ? advance(body.at("setpoints").as<Rows>().at(0).at(0))
                                                      : begin(body.at("seed").as<uint64_t>());
    const auto state = packed("readings", Rows{{c, s, w}}, "ticks", steps, "truncated", steps == 200);
    if (!starts) return "\x84" + state + packed("rewards", rewards); // a map of 4
    return "\x86" + state + packed("sensors", SENSORS, "actuators", ACTUATORS, "rewards", REWARDS);
}

zmq::multipart_t message(const std::string &to, std::tuple<int, uint64_t> head, const std::string &body) {
    zmq::multipart_t found(to);
    found.addstr(packed(head)), found.addstr(body);
    return found;
}

zmq::multipart_t reply(const std::string &to, uint64_t serial, const std::string &call, const std::string &frame) {
    try {
        return message(to, {REPLY, serial}, answer(call, frame));
    } catch (const std::exception &error) {
        const std::map<std::string, std::string> why = {{"kind", "protocol"}, {"message", call + ": " + error.what()}};
        return message(to, {ERROR, serial}, packed(why));
    }
}

// The bus: receive, answer, repeat; what fails throws, and ends the program with its reason.
std::string variable(const std::string &key) {
    const char *value = std::getenv(("GANGLION_" + key).c_str());
    return value ? value : throw std::runtime_error("expected GANGLION_" + key);
}

int main() try {
    zmq::context_t context;
    zmq::socket_t dealer(context, zmq::socket_type::dealer);
    dealer.set(zmq::sockopt::linger, 500); // ms for the last answer to leave
    dealer.set(zmq::sockopt::rcvtimeo, std::getenv("GANGLION_SILENCE_MS") ? std::stoi(variable("SILENCE_MS")) : 10000);
    if (std::getenv("GANGLION_SERVER_KEY")) { // of a kernel on another machine
        dealer.set(zmq::sockopt::curve_serverkey, variable("SERVER_KEY"));
        dealer.set(zmq::sockopt::curve_publickey, variable("PUBLIC_KEY"));
        dealer.set(zmq::sockopt::curve_secretkey, variable("SECRET_KEY"));
    }
    dealer.connect(variable("ENDPOINT"));
    const auto who = packed("name", variable("NAME"), "token", variable("TOKEN"), "role", "environment", "version", 1);
    message("", {HELLO, 1}, "\x85" + who + packed("language", "cpp")).send(dealer);
    zmq::multipart_t asked, kept;
    for (int verb = 0; verb != BYE;) {
        zmq::multipart_t frames;
        if (!frames.recv(dealer)) throw std::runtime_error("the kernel has been silent for too long");
        const auto data = frames.peekstr(1);
        const auto handle = msgpack::unpack(data.data(), data.size());
        const auto head = handle.get().as<std::vector<msgpack::object>>();
        verb = head.at(0).as<int>();
        if (verb == ERROR) throw std::runtime_error("the kernel ends the connection: " + frames.peekstr(2));
        if (verb == CALL && !frames.equal(&asked)) { // else it comes again: it gets the same answer
            kept = reply(frames.peekstr(0), head.at(1).as<uint64_t>(), head.at(2).as<std::string>(), frames.peekstr(2));
            asked = std::move(frames);
        }
        if (verb == CALL) kept.clone().send(dealer);
        if (verb == BEAT || verb == BYE) frames.send(dealer);
    }
    return 0;
} catch (const std::exception &error) {
    std::cerr << "pendulum: " << error.what() << "\n";
    return 1;
}
