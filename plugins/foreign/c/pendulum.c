/* Play the reference pendulum with libzmq and msgpack-c: join, declare, reset, update, leave.
 *
 *     gcc -O2 -ffp-contract=off pendulum.c -o pendulum -lzmq -lmsgpackc
 */
#include <errno.h>
#include <msgpack.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { HELLO = 1, WELCOME = 2, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10 };
enum { SOURCE, HEAD, BODY, FRAMES }; /* of a message; what may follow is skipped */

static void check(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "pendulum: %s: %s\n", what, errno == EAGAIN ? "the kernel is silent" : zmq_strerror(errno));
    exit(1);
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

/* -- msgpack ------------------------------------------------------------------------------------------------------- */
typedef struct { msgpack_sbuffer head, body; } message;

/* Append values as the letters of `format` say: { map and [ array of so many, s text, d double, i integer, b boolean. */
static void put(msgpack_sbuffer *to, const char *format, ...) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, msgpack_sbuffer_write);
    va_list values;
    va_start(values, format);
    for (int failed; *format; format++) {
        const char *text = *format == 's' ? va_arg(values, const char *) : "";
        if (*format == 'd') failed = msgpack_pack_double(&packer, va_arg(values, double));
        else if (*format == 's') failed = msgpack_pack_str_with_body(&packer, text, strlen(text));
        else if (*format == '{') failed = msgpack_pack_map(&packer, va_arg(values, int));
        else if (*format == '[') failed = msgpack_pack_array(&packer, va_arg(values, int));
        else if (*format == 'i') failed = msgpack_pack_int64(&packer, va_arg(values, int64_t));
        else failed = va_arg(values, int) ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer);
        check(!failed, "no memory");
    }
    va_end(values);
}

static const msgpack_object *element(const msgpack_object *array, uint32_t i) {
    return array && array->type == MSGPACK_OBJECT_ARRAY && i < array->via.array.size ? &array->via.array.ptr[i] : NULL;
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

static int64_t integer(const msgpack_object *value) { /* -1 for anything but a natural number */
    return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? (int64_t)value->via.u64 : -1;
}

static int decode(msgpack_unpacked *into, zmq_msg_t *frame) { /* an empty frame is as good as an empty map */
    size_t size = zmq_msg_size(frame), offset = 0;
    const char *data = size ? zmq_msg_data(frame) : "\x80";
    return msgpack_unpack_next(into, data, size ? size : 1, &offset) == MSGPACK_UNPACK_SUCCESS;
}

/* -- the calls: each writes the body of its answer, and returns NULL or why it cannot --------------------------------- */
static void box(msgpack_sbuffer *to, const char *id, double low, double high, int is_actuator) {
    put(to, "{ss", is_actuator ? 3 : 2, "id", id);
    if (is_actuator) put(to, "sd", "value", 0.0);
    put(to, "s{sssss[sdsd", "space", 5, "type", "box", "dtype", "<f8", "shape", 0, "low", low, "high", high);
}

static const char *torque_of(const msgpack_object *request, double *u) {
    const msgpack_object *rows = find(request, "setpoints"), *row = element(rows, 0), *value = element(row, 0);
    const msgpack_object *chosen = find(request, "actuators");
    *u = 0.0;
    if (!row || row->type != MSGPACK_OBJECT_ARRAY || rows->via.array.size != 1) return "setpoints: expected one row";
    if (!value && chosen && chosen->type == MSGPACK_OBJECT_ARRAY && !chosen->via.array.size) return NULL; /* gives none */
    if (!value || row->via.array.size != 1) return "setpoints: expected one value";
    if (value->type == MSGPACK_OBJECT_FLOAT64 || value->type == MSGPACK_OBJECT_FLOAT32) *u = value->via.f64;
    else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER) *u = (double)value->via.u64;
    else if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) *u = (double)value->via.i64;
    else return "torque: expected a number";
    return *u == *u ? NULL : "torque: expected a number, found NaN"; /* which equals nothing */
}

static const char UNKNOWN[] = "expected start, reset, update or shutdown of environment";

static const char *answer(const msgpack_object *call, const msgpack_object *request, msgpack_sbuffer *to) {
    int starts = is(call, "environment.start"), updates = is(call, "environment.update");
    double u, reward = 0.0;
    const char *wrong;
    if (is(call, "environment.shutdown")) return running = 0, put(to, "{", 0), NULL;
    if (updates) {
        if (!running) return "environment.update: expected environment.start or .reset before it";
        if ((wrong = torque_of(request, &u)) != NULL) return wrong;
        reward = advance(u);
    } else if (starts || is(call, "environment.reset")) {
        if (integer(find(request, "seed")) < 0) return "seed: expected an integer from 0";
        begin(integer(find(request, "seed")));
    } else return UNKNOWN;
    put(to, "{s[[ddd", 4, "readings", 1, 3, c, s, w);
    if (!starts) {
        put(to, "sisb", "ticks", (int64_t)steps, "truncated", !running);
        put(to, updates ? "s[[d" : "s[", "rewards", updates, 1, reward);
        return NULL;
    }
    put(to, "s[", "sensors", 3);
    box(to, "cos", -1.01, 1.01, 0), box(to, "sin", -1.01, 1.01, 0), box(to, "speed", -8.0, 8.0, 0);
    put(to, "s[", "actuators", 1);
    box(to, "torque", -2.0, 2.0, 1);
    put(to, "s[", "rewards", 1);
    box(to, "balance", -11.0, 1.0, 0);
    return NULL;
}

/* -- the bus: receive, answer, repeat; a signal may interrupt a call, which is then made again ------------------------ */
static void send_frame(void *dealer, const void *data, size_t size, int flags) {
    int sent;
    do sent = zmq_send(dealer, data, size, flags);
    while (sent < 0 && errno == EINTR);
    check(sent >= 0, "cannot send");
}

static void send_message(void *dealer, const void *to, size_t size, message *m) {
    send_frame(dealer, to, size, ZMQ_SNDMORE);
    send_frame(dealer, m->head.data, m->head.size, ZMQ_SNDMORE);
    send_frame(dealer, m->body.data, m->body.size, 0);
}

static void receive(void *dealer, zmq_msg_t frames[FRAMES + 1]) {
    for (int i = 0, more = 1; i < FRAMES || more; i++) {
        zmq_msg_t *frame = &frames[i < FRAMES ? i : FRAMES];
        check(zmq_msg_close(frame) == 0 && zmq_msg_init(frame) == 0, "cannot receive");
        if (!more) continue; /* a message without a body has an empty one */
        int got;
        do got = zmq_msg_recv(frame, dealer, 0);
        while (got < 0 && errno == EINTR);
        check(got >= 0, "cannot receive");
        more = zmq_msg_more(frame);
    }
}

static int equal(zmq_msg_t *a, zmq_msg_t *b) {
    return zmq_msg_size(a) == zmq_msg_size(b) && !memcmp(zmq_msg_data(a), zmq_msg_data(b), zmq_msg_size(a));
}

int main(void) {
    const char *keys[] = {"GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"};
    const int options[] = {ZMQ_CURVE_SERVERKEY, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY};
    const char *endpoint = getenv("GANGLION_ENDPOINT"), *name = getenv("GANGLION_NAME");
    const char *token = getenv("GANGLION_TOKEN"), *silence = getenv("GANGLION_SILENCE_MS");
    errno = EINVAL;
    check(endpoint && name && token, "expected GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN");
    int linger = 500, silence_ms = silence ? atoi(silence) : 10000; /* the kernel says something every half second */
    void *context = zmq_ctx_new(), *dealer = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
    check(dealer != NULL, "cannot make a socket");
    check(zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger) == 0, "cannot set the linger");
    check(zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &silence_ms, sizeof silence_ms) == 0, "cannot set the timeout");
    for (int i = 0; i < 3 && getenv(keys[0]); i++) /* of a kernel on another machine */
        check(getenv(keys[i]) && zmq_setsockopt(dealer, options[i], getenv(keys[i]), 41) == 0, keys[i]);
    check(zmq_connect(dealer, endpoint) == 0, endpoint);

    zmq_msg_t frames[FRAMES + 1], asked[FRAMES]; /* `asked` is the CALL that was answered last, by `kept` */
    for (int i = 0; i <= FRAMES; i++) check(zmq_msg_init(&frames[i]) == 0, "no memory");
    for (int i = 0; i < FRAMES; i++) check(zmq_msg_init(&asked[i]) == 0, "no memory");
    msgpack_unpacked heading, content;
    msgpack_unpacked_init(&heading);
    msgpack_unpacked_init(&content);
    message kept = {0}, said = {0};
    put(&said.head, "[ii", 2, (int64_t)HELLO, (int64_t)1);
    put(&said.body, "{siss", 5, "version", (int64_t)1, "role", "environment");
    put(&said.body, "ssssss", "name", name, "token", token, "language", "c");
    send_message(dealer, "", 0, &said);

    for (int64_t verb = 0; verb != BYE;) {
        receive(dealer, frames);
        check(decode(&heading, &frames[HEAD]), "expected a head in msgpack");
        const msgpack_object *call = element(&heading.data, 2);
        int64_t serial = integer(element(&heading.data, 1));
        int readable = decode(&content, &frames[BODY]);
        verb = integer(element(&heading.data, 0));
        msgpack_sbuffer_clear(&said.head);
        msgpack_sbuffer_clear(&said.body);
        if (verb == CALL) {
            if (!equal(&frames[0], &asked[0]) || !equal(&frames[1], &asked[1]) || !equal(&frames[2], &asked[2])) {
                msgpack_sbuffer_clear(&kept.head);
                msgpack_sbuffer_clear(&kept.body);
                const char *wrong = readable ? answer(call, &content.data, &kept.body) : "expected msgpack";
                put(&kept.head, "[ii", 2, (int64_t)(wrong ? ERROR : REPLY), serial);
                if (wrong) put(&kept.body, "{ssss", 2, "kind", wrong == UNKNOWN ? "unknown_call" : "protocol", "message", wrong);
                for (int i = 0; i < FRAMES; i++) check(zmq_msg_copy(&asked[i], &frames[i]) == 0, "no memory");
            } /* else it comes again: it gets the same answer, without another step */
            send_message(dealer, zmq_msg_data(&frames[SOURCE]), zmq_msg_size(&frames[SOURCE]), &kept);
        } else if (verb == BYE || (verb == BEAT && !call)) {
            put(&said.head, verb == BYE ? "[ii" : "[iis", verb == BYE ? 2 : 3, verb, serial, "here");
            send_message(dealer, "", 0, &said);
        } else if (verb == ERROR) {
            const msgpack_object *why = readable ? find(&content.data, "message") : NULL;
            int size = why && why->type == MSGPACK_OBJECT_STR ? (int)why->via.str.size : 0;
            fprintf(stderr, "pendulum: the kernel ends the connection: %.*s\n", size, size ? why->via.str.ptr : "");
            return 1;
        }
    }
    check(zmq_close(dealer) == 0, "cannot end");
    while (zmq_ctx_term(context) != 0) check(errno == EINTR, "cannot end");
    return 0;
}
