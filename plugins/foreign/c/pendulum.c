/* Play the reference pendulum with libzmq and msgpack-c: join, declare, reset, update, leave.
 *
 *     gcc -O2 -ffp-contract=off pendulum.c -o pendulum -lzmq -lmsgpackc
 *
 * Start it as a document's `command: [./pendulum]`, or by hand with GANGLION_ENDPOINT, GANGLION_NAME and
 * GANGLION_TOKEN. */
#include <errno.h>
#include <msgpack.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { HELLO = 1, WELCOME = 2, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10 };
enum { SOURCE, HEAD, BODY, FRAMES }; /* of a message; what may follow is skipped */
/* The kernel asks after half a second; whoever hears nothing for so long has lost it. */
static const int SILENCE_MS = 10000;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("pendulum: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static void check(int succeeded, const char *what) {
    if (!succeeded) fail("%s: %s", what, zmq_strerror(errno));
}

/* -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ------------ */
static uint64_t x;
static double c, s, w;
static int steps, running;

static double draw(void) {
    x = 16807 * x % 2147483647;
    return 2.0 * (double)x / 2147483647 - 1.0;
}

static void begin(uint64_t seed) {
    x = 1 + seed % 2147483646;
    draw();
    double t = draw(), q = 1.0 + t * t;
    c = (t * t - 1.0) / q;
    s = 2.0 * t / q;
    w = draw();
    steps = 0;
    running = 1;
}

static double advance(double u) {
    u = u < -2.0 ? -2.0 : u > 2.0 ? 2.0 : u;
    w = w + (15.0 * s + 3.0 * u) * 0.05;
    w = w < -8.0 ? -8.0 : w > 8.0 ? 8.0 : w;
    double k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k, before = c;
    c = (p * before - 2.0 * k * s) / q;
    s = (p * s + 2.0 * k * before) / q;
    running = ++steps < 200;
    return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
}

/* -- msgpack: writing, reading ------------------------------------------------------------------------------------- */
static msgpack_sbuffer head_bytes, body_bytes; /* the message that was written last; an answer is kept for a repeat */
static msgpack_packer head, body;

/* All packing ends here, so that its one possible failure is met here and not at each field. */
static int append(void *buffer, const char *bytes, size_t size) {
    if (msgpack_sbuffer_write(buffer, bytes, size) != 0) fail("no memory");
    return 0;
}

static void text(const char *value) {
    msgpack_pack_str(&body, strlen(value));
    msgpack_pack_str_body(&body, value, strlen(value));
}

static void field(const char *key, const char *value) {
    text(key);
    text(value);
}

static void number(const char *key, double value) {
    text(key);
    msgpack_pack_double(&body, value);
}

static void row(const char *key, int count, const double *values) { /* one body: one row */
    text(key);
    msgpack_pack_array(&body, 1);
    msgpack_pack_array(&body, count);
    for (int i = 0; i < count; i++) msgpack_pack_double(&body, values[i]);
}

static void box(const char *id, double low, double high, int actuator) {
    msgpack_pack_map(&body, actuator ? 3 : 2);
    field("id", id);
    if (actuator) number("value", 0.0);
    text("space");
    msgpack_pack_map(&body, 5);
    field("type", "box");
    field("dtype", "<f8");
    text("shape");
    msgpack_pack_array(&body, 0);
    number("low", low);
    number("high", high);
}

static int is(const msgpack_object *value, const char *word) {
    return value && value->type == MSGPACK_OBJECT_STR && value->via.str.size == strlen(word) &&
           memcmp(value->via.str.ptr, word, strlen(word)) == 0;
}

static const msgpack_object *find(const msgpack_object *map, const char *key) {
    for (uint32_t i = 0; map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++)
        if (is(&map->via.map.ptr[i].key, key)) return &map->via.map.ptr[i].val;
    return NULL;
}

static const msgpack_object *element(const msgpack_object *array, uint32_t i) {
    return array && array->type == MSGPACK_OBJECT_ARRAY && i < array->via.array.size ? &array->via.array.ptr[i] : NULL;
}

/* Return the number, 0 for anything else. */
static uint64_t natural(const msgpack_object *value) {
    return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : 0;
}

/* Set *u to the setpoint, to zero where a step gives none; return 0 if there is anything else. */
static int torque_of(const msgpack_object *request, double *u) {
    const msgpack_object *rows = find(request, "setpoints"), *chosen = find(request, "actuators"), *values;
    if (!(values = element(rows, 0)) || rows->via.array.size != 1 || values->type != MSGPACK_OBJECT_ARRAY) return 0;
    *u = 0.0;
    if (values->via.array.size == 0)
        return chosen && chosen->type == MSGPACK_OBJECT_ARRAY && chosen->via.array.size == 0;
    const msgpack_object *value = element(values, 0);
    if (value->type == MSGPACK_OBJECT_FLOAT64 || value->type == MSGPACK_OBJECT_FLOAT32) *u = value->via.f64;
    else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER) *u = (double)value->via.u64;
    else if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) *u = (double)value->via.i64;
    else return 0;
    return values->via.array.size == 1 && *u == *u; /* NaN equals nothing */
}

/* -- the calls: each writes head and body of its answer ------------------------------------------------------------ */
static void headed(int verb, uint64_t serial) {
    msgpack_sbuffer_clear(&head_bytes);
    msgpack_sbuffer_clear(&body_bytes);
    msgpack_pack_array(&head, 2);
    msgpack_pack_int(&head, verb);
    msgpack_pack_uint64(&head, serial);
}

static void refuse(uint64_t serial, const char *kind, const char *message) {
    headed(ERROR, serial);
    msgpack_pack_map(&body, 2);
    field("kind", kind);
    field("message", message);
}

static void declare(uint64_t serial) {
    headed(REPLY, serial);
    msgpack_pack_map(&body, 5);
    text("sensors");
    msgpack_pack_array(&body, 3);
    box("cos", -1.01, 1.01, 0);
    box("sin", -1.01, 1.01, 0);
    box("speed", -8.0, 8.0, 0);
    text("actuators");
    msgpack_pack_array(&body, 1);
    box("torque", -2.0, 2.0, 1);
    text("rewards");
    msgpack_pack_array(&body, 1);
    box("balance", -11.0, 1.0, 0);
    row("readings", 3, (double[]){c, s, w});
    text("ticks");
    msgpack_pack_int(&body, 0);
}

static void state(uint64_t serial, const double *reward) {
    headed(REPLY, serial);
    msgpack_pack_map(&body, 4);
    row("readings", 3, (double[]){c, s, w});
    if (reward) row("rewards", 1, reward);
    else text("rewards"), msgpack_pack_array(&body, 0);
    text("ticks");
    msgpack_pack_int(&body, steps);
    text("truncated");
    running ? msgpack_pack_false(&body) : msgpack_pack_true(&body);
}

static void answer(uint64_t serial, const msgpack_object *call, const msgpack_object *request) {
    double u, reward;
    if (is(call, "environment.start") || is(call, "environment.reset")) {
        const msgpack_object *seed = find(request, "seed");
        if (!seed || seed->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
            refuse(serial, "protocol", "seed: expected an integer from 0");
            return;
        }
        begin(seed->via.u64);
        if (is(call, "environment.start")) declare(serial);
        else state(serial, NULL);
    } else if (is(call, "environment.update")) {
        if (!running) refuse(serial, "protocol", "environment.update: expected environment.start or .reset before it");
        else if (!torque_of(request, &u)) refuse(serial, "protocol", "environment.update: torque: expected one number");
        else reward = advance(u), state(serial, &reward);
    } else if (is(call, "environment.shutdown")) {
        running = 0;
        headed(REPLY, serial);
    } else {
        refuse(serial, "unknown_call", "expected start, update, reset or shutdown of environment");
    }
}

/* -- the bus: receive, answer, repeat; a signal may interrupt any call, which is then made again ------------------- */
static void *dealer;

static void send_frame(const void *data, size_t size, int flags) {
    int sent;
    do sent = zmq_send(dealer, data, size, flags);
    while (sent < 0 && errno == EINTR);
    check(sent >= 0, "cannot send");
}

static void send_message(const void *to, size_t size) {
    send_frame(to, size, ZMQ_SNDMORE);
    send_frame(head_bytes.data, head_bytes.size, ZMQ_SNDMORE);
    send_frame(body_bytes.data, body_bytes.size, 0);
}

/* Answer "are you there?", beside the kept answer. */
static void say_here(uint64_t serial) {
    msgpack_sbuffer bytes;
    msgpack_packer beat;
    msgpack_sbuffer_init(&bytes);
    msgpack_packer_init(&beat, &bytes, append);
    msgpack_pack_array(&beat, 3);
    msgpack_pack_int(&beat, BEAT);
    msgpack_pack_uint64(&beat, serial);
    msgpack_pack_str(&beat, 4);
    msgpack_pack_str_body(&beat, "here", 4);
    send_frame("", 0, ZMQ_SNDMORE);
    send_frame(bytes.data, bytes.size, ZMQ_SNDMORE);
    send_frame("", 0, 0);
    msgpack_sbuffer_destroy(&bytes);
}

static void receive(zmq_msg_t frames[FRAMES]) {
    zmq_msg_t rest;
    check(zmq_msg_init(&rest) == 0, "cannot receive");
    for (int i = 0, more = 1; i < FRAMES || more; i++) {
        zmq_msg_t *frame = i < FRAMES ? &frames[i] : &rest;
        check(zmq_msg_close(frame) == 0 && zmq_msg_init(frame) == 0, "cannot receive");
        if (!more) continue; /* a message without a body has an empty one */
        int got;
        do got = zmq_msg_recv(frame, dealer, 0);
        while (got < 0 && errno == EINTR);
        if (got < 0 && errno == EAGAIN) fail("the kernel has been silent for %d s", SILENCE_MS / 1000);
        check(got >= 0, "cannot receive");
        more = zmq_msg_more(frame);
    }
    check(zmq_msg_close(&rest) == 0, "cannot receive");
}

static msgpack_object decode(msgpack_unpacked *into, zmq_msg_t *frame) {
    if (zmq_msg_size(frame) == 0) return (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    size_t offset = 0;
    if (msgpack_unpack_next(into, zmq_msg_data(frame), zmq_msg_size(frame), &offset) != MSGPACK_UNPACK_SUCCESS)
        fail("expected msgpack from the kernel, found %zu other bytes", zmq_msg_size(frame));
    return into->data;
}

static int equal(zmq_msg_t *one, zmq_msg_t *other) {
    return zmq_msg_size(one) == zmq_msg_size(other) &&
           memcmp(zmq_msg_data(one), zmq_msg_data(other), zmq_msg_size(one)) == 0;
}

static void say_why(const char *what, const msgpack_object *failure) {
    const msgpack_object *message = find(failure, "message");
    int size = message && message->type == MSGPACK_OBJECT_STR ? (int)message->via.str.size : 0;
    fail("%s: %.*s", what, size, size ? message->via.str.ptr : "");
}

static void join(const char *name, const char *token) {
    headed(HELLO, 1);
    msgpack_pack_map(&body, 5);
    text("version");
    msgpack_pack_int(&body, 1);
    field("role", "environment");
    field("name", name);
    field("token", token);
    field("language", "c");
    send_message("", 0);
}

static void use_key(int option, const char *variable) {
    const char *key = getenv(variable);
    if (key == NULL || strlen(key) != 40) fail("expected a key of 40 characters in %s", variable);
    check(zmq_setsockopt(dealer, option, key, 41) == 0, variable);
}

int main(void) {
    const char *endpoint = getenv("GANGLION_ENDPOINT"), *name = getenv("GANGLION_NAME");
    const char *token = getenv("GANGLION_TOKEN");
    if (!endpoint || !name || !token)
        fail("expected the variables GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN");
    msgpack_packer_init(&head, &head_bytes, append);
    msgpack_packer_init(&body, &body_bytes, append);
    msgpack_unpacked head_read, body_read;
    msgpack_unpacked_init(&head_read);
    msgpack_unpacked_init(&body_read);
    zmq_msg_t frames[FRAMES], asked[FRAMES]; /* `asked` is the CALL that was answered last */
    for (int i = 0; i < FRAMES; i++) check(zmq_msg_init(&frames[i]) == 0 && zmq_msg_init(&asked[i]) == 0, "no memory");

    int linger = 500; /* ms for the last answer to leave */
    void *context = zmq_ctx_new();
    check(context != NULL, "cannot begin");
    check((dealer = zmq_socket(context, ZMQ_DEALER)) != NULL, "cannot make a socket");
    check(zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger) == 0, "cannot set the linger");
    check(zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &SILENCE_MS, sizeof SILENCE_MS) == 0, "cannot set the timeout");
    if (getenv("GANGLION_SERVER_KEY") != NULL) { /* of a kernel on another machine */
        use_key(ZMQ_CURVE_SERVERKEY, "GANGLION_SERVER_KEY");
        use_key(ZMQ_CURVE_PUBLICKEY, "GANGLION_PUBLIC_KEY");
        use_key(ZMQ_CURVE_SECRETKEY, "GANGLION_SECRET_KEY");
    }
    check(zmq_connect(dealer, endpoint) == 0, endpoint);
    join(name, token);

    for (int joined = 0, left = 0; !left;) {
        receive(frames);
        msgpack_object heading = decode(&head_read, &frames[HEAD]), content = decode(&body_read, &frames[BODY]);
        uint64_t verb = natural(element(&heading, 0)), serial = natural(element(&heading, 1));
        const msgpack_object *call = element(&heading, 2);
        if (!joined) {
            if (verb != WELCOME) say_why("the kernel refuses us", &content);
            joined = 1;
        } else if (verb == CALL) {
            int repeated = equal(&frames[SOURCE], &asked[SOURCE]) && equal(&frames[HEAD], &asked[HEAD]);
            if (!repeated || !equal(&frames[BODY], &asked[BODY])) { /* a repeat gets the same answer again */
                answer(serial, call, &content);
                for (int i = 0; i < FRAMES; i++) check(zmq_msg_copy(&asked[i], &frames[i]) == 0, "cannot keep a call");
            }
            send_message(zmq_msg_data(&frames[SOURCE]), zmq_msg_size(&frames[SOURCE]));
        } else if (verb == BEAT && !call) {
            say_here(serial);
        } else if (verb == BYE) {
            headed(BYE, serial);
            send_message("", 0);
            left = 1;
        } else if (verb == ERROR && !serial) {
            say_why("the kernel ended the connection", &content);
        }
    }

    for (int i = 0; i < FRAMES; i++)
        check(zmq_msg_close(&frames[i]) == 0 && zmq_msg_close(&asked[i]) == 0, "cannot end");
    msgpack_unpacked_destroy(&head_read);
    msgpack_unpacked_destroy(&body_read);
    msgpack_sbuffer_destroy(&head_bytes);
    msgpack_sbuffer_destroy(&body_bytes);
    check(zmq_close(dealer) == 0, "cannot end");
    while (zmq_ctx_term(context) != 0) check(errno == EINTR, "cannot end");
    return 0;
}
