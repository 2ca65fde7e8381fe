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

enum { HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10 };
enum { SOURCE, HEAD, BODY, FRAMES }; /* of a message; what may follow is skipped */

static void check(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "pendulum: %s: %s\n", what, errno == EAGAIN ? "the kernel is silent" : zmq_strerror(errno));
    exit(1);
}

/* -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ------------ */
static uint64_t x;
static double c, s, w;
static int steps = -1; /* no episode was begun */

static double draw(void) { return 2.0 * (double)(x = 16807 * x % 2147483647) / 2147483647 - 1.0; }
static double clip(double value, double bound) { return value < -bound ? -bound : value > bound ? bound : value; }

static void begin(uint64_t seed) {
    x = 1 + seed % 2147483646, draw();
    double t = draw(), q = 1.0 + t * t;
    c = (t * t - 1.0) / q, s = 2.0 * t / q, w = draw(), steps = 0;
}

static double advance(double torque) {
    double u = clip(torque, 2.0), before = c;
    w = clip(w + (15.0 * s + 3.0 * u) * 0.05, 8.0);
    double k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k;
    c = (p * before - 2.0 * k * s) / q, s = (p * s + 2.0 * k * before) / q, steps += 1;
    return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
}

/* -- msgpack: values as the letters of `format` say: { map and [ array of so many, s text, d double, i integer, b boolean */
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

static int is(msgpack_object value, const char *word) {
    return value.type == MSGPACK_OBJECT_STR && value.via.str.size == strlen(word) &&
           memcmp(value.via.str.ptr, word, strlen(word)) == 0;
}

static msgpack_object element(msgpack_object array, uint32_t i) { /* nil where there is none */
    int there = array.type == MSGPACK_OBJECT_ARRAY && i < array.via.array.size;
    return there ? array.via.array.ptr[i] : (msgpack_object){.type = MSGPACK_OBJECT_NIL};
}

static msgpack_object find(msgpack_object map, const char *key) {
    for (uint32_t i = 0; map.type == MSGPACK_OBJECT_MAP && i < map.via.map.size; i++)
        if (is(map.via.map.ptr[i].key, key)) return map.via.map.ptr[i].val;
    return (msgpack_object){.type = MSGPACK_OBJECT_NIL};
}

static double number(msgpack_object value) { /* an integer is as good */
    if (value.type == MSGPACK_OBJECT_POSITIVE_INTEGER) return (double)value.via.u64;
    return value.type == MSGPACK_OBJECT_NEGATIVE_INTEGER ? (double)value.via.i64 : value.via.f64;
}

static int decode(msgpack_unpacked *into, zmq_msg_t *frame) { /* an empty frame is as good as an empty map */
    size_t size = zmq_msg_size(frame), offset = 0;
    return msgpack_unpack_next(into, size ? zmq_msg_data(frame) : "\x80", size ? size : 1, &offset) == MSGPACK_UNPACK_SUCCESS;
}

/* -- the calls: write the body of the answer, and return NULL or why it cannot be given ------------------------------- */
static const char *answer(msgpack_object call, msgpack_object request, msgpack_sbuffer *to) {
    int starts = is(call, "environment.start"), updates = is(call, "environment.update");
    msgpack_object seed = find(request, "seed"), row = element(find(request, "setpoints"), 0);
    double reward = 0.0;
    if (is(call, "environment.shutdown")) return put(to, "{", 0), NULL;
    if (starts || is(call, "environment.reset")) begin(seed.via.u64);
    else if (!updates || steps < 0 || row.type != MSGPACK_OBJECT_ARRAY) return "a call that is unknown, or not to be expected";
    else reward = advance(number(element(row, 0)));
    put(to, "{s[[ddd", starts ? 6 : 4, "readings", 1, 3, c, s, w);
    put(to, "sisb", "ticks", (int64_t)steps, "truncated", steps == 200);
    if (!starts) return put(to, updates ? "s[[d" : "s[", "rewards", updates, 1, reward), NULL;
    put(to, "s[sss", "sensors", 3, "cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)");
    put(to, "s[ss[s", "actuators", 1, "torque: Box(-2, 2)", "rewards", 1, "balance: Box(-11, 1)");
    return NULL;
}

/* -- the bus: receive, answer, repeat; a signal may interrupt a call, which is then made again ------------------------ */
static void send_frame(void *dealer, const void *data, size_t size, int flags) {
    while (zmq_send(dealer, data, size, flags) < 0) check(errno == EINTR, "cannot send");
}

static void receive(void *dealer, zmq_msg_t frames[FRAMES + 1]) {
    for (int i = 0, more = 1; i < FRAMES || more; i++) {
        zmq_msg_t *frame = &frames[i < FRAMES ? i : FRAMES];
        check(zmq_msg_close(frame) == 0 && zmq_msg_init(frame) == 0, "cannot receive");
        while (more && zmq_msg_recv(frame, dealer, 0) < 0) check(errno == EINTR, "cannot receive");
        more = more && zmq_msg_more(frame); /* a message without a body has an empty one */
    }
}

static int equal(zmq_msg_t *a, zmq_msg_t *b) {
    return zmq_msg_size(a) == zmq_msg_size(b) && !memcmp(zmq_msg_data(a), zmq_msg_data(b), zmq_msg_size(a));
}

int main(void) {
    const char *keys[] = {"GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"};
    const int options[] = {ZMQ_CURVE_SERVERKEY, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY};
    const char *endpoint = getenv("GANGLION_ENDPOINT"), *name = getenv("GANGLION_NAME"), *token = getenv("GANGLION_TOKEN");
    const char *silence = getenv("GANGLION_SILENCE_MS");
    check(endpoint && name && token, "expected GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN");
    int linger = 500, silence_ms = silence ? atoi(silence) : 10000; /* the kernel says something every half second */
    void *context = zmq_ctx_new(), *dealer = zmq_socket(context, ZMQ_DEALER);
    check(zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger) == 0, "cannot set the linger");
    check(zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &silence_ms, sizeof silence_ms) == 0, "cannot set the timeout");
    for (int i = 0; i < 3 && getenv(keys[0]); i++) /* of a kernel on another machine */
        check(getenv(keys[i]) && zmq_setsockopt(dealer, options[i], getenv(keys[i]), 41) == 0, keys[i]);
    check(zmq_connect(dealer, endpoint) == 0, endpoint);

    zmq_msg_t frames[FRAMES + 1], asked[FRAMES]; /* `asked` is the CALL that was answered last, by `head` and `body` */
    for (int i = 0; i <= FRAMES; i++) check(!zmq_msg_init(&frames[i]) && (i == FRAMES || !zmq_msg_init(&asked[i])), "no memory");
    msgpack_unpacked heading, content;
    msgpack_unpacked_init(&heading), msgpack_unpacked_init(&content);
    msgpack_sbuffer head = {0}, body = {0};
    put(&head, "[ii", 2, (int64_t)HELLO, (int64_t)1);
    put(&body, "{sissssssss", 5, "version", (int64_t)1, "role", "environment", "name", name, "token", token, "language", "c");
    send_frame(dealer, "", 0, ZMQ_SNDMORE), send_frame(dealer, head.data, head.size, ZMQ_SNDMORE);
    send_frame(dealer, body.data, body.size, 0);
    for (uint64_t verb = 0; verb != BYE;) {
        receive(dealer, frames);
        check(decode(&heading, &frames[HEAD]), "expected a head in msgpack");
        int readable = decode(&content, &frames[BODY]);
        verb = element(heading.data, 0).via.u64;
        if (verb == ERROR) {
            msgpack_object why = find(content.data, "message");
            fprintf(stderr, "pendulum: the kernel ends the connection: %.*s\n", (int)why.via.str.size, why.via.str.ptr);
            return 1;
        }
        if (verb == CALL && !(equal(&frames[0], &asked[0]) && equal(&frames[1], &asked[1]) && equal(&frames[2], &asked[2]))) {
            msgpack_sbuffer_clear(&head), msgpack_sbuffer_clear(&body); /* else it comes again: it gets the same answer */
            const char *wrong = readable ? answer(element(heading.data, 2), content.data, &body) : "expected msgpack";
            put(&head, "[ii", 2, (int64_t)(wrong ? ERROR : REPLY), (int64_t)element(heading.data, 1).via.u64);
            if (wrong) put(&body, "{ssss", 2, "kind", "protocol", "message", wrong);
            for (int i = 0; i < FRAMES; i++) check(zmq_msg_copy(&asked[i], &frames[i]) == 0, "no memory");
        }
        if (verb != CALL && verb != BEAT && verb != BYE) continue;
        send_frame(dealer, zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]), ZMQ_SNDMORE);
        zmq_msg_t *same = verb == CALL ? NULL : frames; /* BEAT and BYE are sent back as they came */
        send_frame(dealer, same ? zmq_msg_data(&same[1]) : head.data, same ? zmq_msg_size(&same[1]) : head.size, ZMQ_SNDMORE);
        send_frame(dealer, same ? zmq_msg_data(&same[2]) : body.data, same ? zmq_msg_size(&same[2]) : body.size, 0);
    }
    check(zmq_close(dealer) == 0, "cannot end");
    while (zmq_ctx_term(context) != 0) check(errno == EINTR, "cannot end");
    return 0;
}
