/* The flat C library: the bus of pendulum.c, without the pendulum. See ganglion_peer.h. */
#include "ganglion_peer.h"

#include <errno.h>
#include <msgpack.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10 };
enum { SOURCE, HEAD, BODY, FRAMES, MOST = 64 };

typedef struct { char id[256]; double low, high, value; } number;
typedef struct { msgpack_sbuffer head, body; } message;

struct ganglion_peer {
    void *context, *dealer;
    number sensors[MOST], actuators[MOST], rewards[MOST];
    int sensor_count, actuator_count, reward_count, running, call, silence_ms;
    int64_t serial, seed;
    int given, index[MOST]; /* the setpoints of this update, and whose they are */
    double setpoints[MOST];
    zmq_msg_t frames[FRAMES + 1], asked[FRAMES];
    message kept, said;
    msgpack_unpacked heading, content;
    char why[512];
};

static int fail(ganglion_peer *p, const char *what) {
    const char *how = errno == EAGAIN ? "the kernel has been silent for too long" : zmq_strerror(errno);
    snprintf(p->why, sizeof p->why, "%s%s%s", what, errno ? ": " : "", errno ? how : "");
    return GANGLION_LOST;
}

/* Append values as the letters of `format` say: { map and [ array of so many, s text, d double, i integer, b boolean. */
static void put(msgpack_sbuffer *to, const char *format, ...) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, msgpack_sbuffer_write);
    va_list values;
    va_start(values, format);
    for (; *format; format++) {
        const char *text = *format == 's' ? va_arg(values, const char *) : "";
        int failed;
        if (*format == 'd') failed = msgpack_pack_double(&packer, va_arg(values, double));
        else if (*format == 's') failed = msgpack_pack_str_with_body(&packer, text, strlen(text));
        else if (*format == '{') failed = msgpack_pack_map(&packer, va_arg(values, int));
        else if (*format == '[') failed = msgpack_pack_array(&packer, va_arg(values, int));
        else if (*format == 'i') failed = msgpack_pack_int64(&packer, va_arg(values, int64_t));
        else failed = va_arg(values, int) ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer);
        if (failed) fprintf(stderr, "ganglion_peer: no memory\n"), abort();
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

static int number_of(const msgpack_object *value, double *into) {
    if (!value) return 0;
    if (value->type == MSGPACK_OBJECT_FLOAT64 || value->type == MSGPACK_OBJECT_FLOAT32) *into = value->via.f64;
    else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER) *into = (double)value->via.u64;
    else if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) *into = (double)value->via.i64;
    else return 0;
    return *into == *into; /* NaN equals nothing */
}

static int decode(msgpack_unpacked *into, zmq_msg_t *frame) { /* an empty frame is as good as an empty map */
    size_t size = zmq_msg_size(frame), offset = 0;
    return msgpack_unpack_next(into, size ? zmq_msg_data(frame) : "\x80", size ? size : 1, &offset) == MSGPACK_UNPACK_SUCCESS;
}

/* -- frames: a signal may interrupt a call, which is then made again ------------------------------------------------ */
static int send_frame(ganglion_peer *p, const void *data, size_t size, int flags) {
    int sent;
    do sent = zmq_send(p->dealer, data, size, flags);
    while (sent < 0 && errno == EINTR);
    return sent;
}

static int send_message(ganglion_peer *p, const void *to, size_t size, message *m) {
    if (send_frame(p, to, size, ZMQ_SNDMORE) < 0 || send_frame(p, m->head.data, m->head.size, ZMQ_SNDMORE) < 0 ||
        send_frame(p, m->body.data, m->body.size, 0) < 0)
        return fail(p, "cannot send");
    return 0;
}

static int receive(ganglion_peer *p) {
    for (int i = 0, more = 1; i < FRAMES || more; i++) {
        zmq_msg_t *frame = &p->frames[i < FRAMES ? i : FRAMES];
        zmq_msg_close(frame);
        zmq_msg_init(frame);
        if (!more) continue; /* a message without a body has an empty one */
        int got;
        do got = zmq_msg_recv(frame, p->dealer, 0);
        while (got < 0 && errno == EINTR);
        if (got < 0) return fail(p, "cannot receive");
        more = zmq_msg_more(frame);
    }
    return 0;
}

static int repeated(ganglion_peer *p) {
    for (int i = 0; i < FRAMES; i++) {
        size_t size = zmq_msg_size(&p->frames[i]);
        if (size != zmq_msg_size(&p->asked[i]) || memcmp(zmq_msg_data(&p->frames[i]), zmq_msg_data(&p->asked[i]), size)) return 0;
    }
    return 1;
}

static int answer(ganglion_peer *p) {
    return send_message(p, zmq_msg_data(&p->frames[SOURCE]), zmq_msg_size(&p->frames[SOURCE]), &p->kept);
}

static int refuse(ganglion_peer *p, const char *kind, const char *why) {
    put(&p->kept.head, "[ii", 2, (int64_t)ERROR, p->serial);
    msgpack_sbuffer_clear(&p->kept.body);
    put(&p->kept.body, "{ssss", 2, "kind", kind, "message", why);
    return answer(p);
}

/* -- the functions -------------------------------------------------------------------------------------------------- */
ganglion_peer *ganglion_open(const char *language) {
    const char *keys[] = {"GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"};
    const int options[] = {ZMQ_CURVE_SERVERKEY, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY};
    const char *endpoint = getenv("GANGLION_ENDPOINT"), *name = getenv("GANGLION_NAME");
    const char *token = getenv("GANGLION_TOKEN"), *silence = getenv("GANGLION_SILENCE_MS");
    ganglion_peer *p = calloc(1, sizeof *p);
    int linger = 500, silence_ms = silence ? atoi(silence) : 10000; /* the kernel says something every half second */
    const char *wrong = !p ? "no memory" : !endpoint || !name || !token ? "expected GANGLION_ENDPOINT, _NAME, _TOKEN" : NULL;
    if (!wrong && !(p->context = zmq_ctx_new())) wrong = "no context";
    if (!wrong && !(p->dealer = zmq_socket(p->context, ZMQ_DEALER))) wrong = "no socket";
    if (!wrong && zmq_setsockopt(p->dealer, ZMQ_LINGER, &linger, sizeof linger)) wrong = "cannot set the linger";
    if (!wrong && zmq_setsockopt(p->dealer, ZMQ_RCVTIMEO, &silence_ms, sizeof silence_ms)) wrong = "cannot set the timeout";
    for (int i = 0; !wrong && i < 3 && getenv(keys[0]); i++) /* of a kernel on another machine */
        if (!getenv(keys[i]) || zmq_setsockopt(p->dealer, options[i], getenv(keys[i]), 41)) wrong = keys[i];
    if (!wrong && zmq_connect(p->dealer, endpoint)) wrong = endpoint;
    if (wrong) {
        fprintf(stderr, "ganglion_peer: %s\n", wrong);
        if (p) ganglion_close(p);
        return NULL;
    }
    for (int i = 0; i <= FRAMES; i++) zmq_msg_init(&p->frames[i]);
    for (int i = 0; i < FRAMES; i++) zmq_msg_init(&p->asked[i]);
    msgpack_unpacked_init(&p->heading);
    msgpack_unpacked_init(&p->content);
    put(&p->said.head, "[ii", 2, (int64_t)HELLO, (int64_t)1);
    put(&p->said.body, "{siss", 5, "version", (int64_t)1, "role", "environment");
    put(&p->said.body, "ssssss", "name", name, "token", token, "language", language);
    send_message(p, "", 0, &p->said);
    return p;
}

static int declare(number *into, int *count, const char *id, double low, double high, double value) {
    if (*count == MOST || strlen(id) >= sizeof into->id) return -1;
    number *made = &into[(*count)++];
    strcpy(made->id, id);
    made->low = low, made->high = high, made->value = value;
    return 0;
}

int ganglion_sensor(ganglion_peer *p, const char *id, double low, double high) {
    return declare(p->sensors, &p->sensor_count, id, low, high, 0.0);
}

int ganglion_actuator(ganglion_peer *p, const char *id, double low, double high, double value) {
    return declare(p->actuators, &p->actuator_count, id, low, high, value);
}

int ganglion_reward(ganglion_peer *p, const char *id, double low, double high) {
    return declare(p->rewards, &p->reward_count, id, low, high, 0.0);
}

/* Read the rows of an update; return NULL, or what is wrong with them. */
static const char *read_setpoints(ganglion_peer *p, const msgpack_object *body) {
    const msgpack_object *rows = find(body, "setpoints"), *row = element(rows, 0), *chosen = find(body, "actuators");
    int some = chosen && chosen->type == MSGPACK_OBJECT_ARRAY; /* null or absent: all of them, in declared order */
    int expected = some ? (int)chosen->via.array.size : p->actuator_count;
    if (!row || rows->via.array.size != 1 || row->type != MSGPACK_OBJECT_ARRAY) return "setpoints: expected one row";
    if (expected > MOST || (int)row->via.array.size != expected) return "setpoints: expected one value for each actuator";
    for (p->given = 0; p->given < expected; p->given++) {
        int64_t index = some ? integer(element(chosen, p->given)) : p->given;
        if (index < 0 || index >= p->actuator_count) return "actuators: expected indices of declared actuators";
        if (!number_of(element(row, p->given), &p->setpoints[p->given])) return "setpoints: expected numbers";
        p->index[p->given] = (int)index;
    }
    return NULL;
}

/* Look at a CALL: 0 if it has been refused already. */
static int read_call(ganglion_peer *p, const msgpack_object *call, int readable) {
    const char *names[] = {"environment.start", "environment.reset", "environment.update", "environment.shutdown"};
    const msgpack_object *body = &p->content.data;
    const char *wrong = readable ? NULL : "expected msgpack";
    p->call = 0;
    for (int i = 0; i < 4; i++) if (is(call, names[i])) p->call = GANGLION_START + i;
    if (!p->call) return refuse(p, "unknown_call", "expected start, reset, update or shutdown of environment");
    p->seed = readable ? integer(find(body, "seed")) : -1;
    if (!wrong && p->call <= GANGLION_RESET && p->seed < 0) wrong = "seed: expected an integer from 0";
    if (!wrong && p->call == GANGLION_UPDATE && !p->running) wrong = "expected environment.start or .reset before it";
    if (!wrong && p->call == GANGLION_UPDATE) wrong = read_setpoints(p, body);
    return wrong ? refuse(p, "protocol", wrong) : p->call;
}

int ganglion_next(ganglion_peer *p) {
    for (;;) {
        errno = 0;
        if (receive(p) < 0) return GANGLION_LOST;
        if (!decode(&p->heading, &p->frames[HEAD])) return fail(p, "expected a head in msgpack");
        const msgpack_object *call = element(&p->heading.data, 2);
        int64_t verb = integer(element(&p->heading.data, 0)), serial = integer(element(&p->heading.data, 1));
        int readable = decode(&p->content, &p->frames[BODY]);
        msgpack_sbuffer_clear(&p->said.head);
        msgpack_sbuffer_clear(&p->said.body);
        if (verb == CALL && repeated(p)) { /* it gets the same answer, without another step */
            if (answer(p) < 0) return GANGLION_LOST;
        } else if (verb == CALL) {
            for (int i = 0; i < FRAMES; i++) zmq_msg_copy(&p->asked[i], &p->frames[i]);
            msgpack_sbuffer_clear(&p->kept.head);
            msgpack_sbuffer_clear(&p->kept.body);
            p->serial = serial;
            int found = read_call(p, call, readable);
            if (found) return found;
        } else if (verb == BYE || (verb == BEAT && !call)) {
            put(&p->said.head, verb == BYE ? "[ii" : "[iis", verb == BYE ? 2 : 3, verb, serial, "here");
            if (send_message(p, "", 0, &p->said) < 0) return GANGLION_LOST;
            if (verb == BYE) return GANGLION_LEFT;
        } else if (verb == ERROR) {
            const msgpack_object *why = readable ? find(&p->content.data, "message") : NULL;
            int size = why && why->type == MSGPACK_OBJECT_STR ? (int)why->via.str.size : 0;
            snprintf(p->why, sizeof p->why, "the kernel ends the connection: %.*s", size, size ? why->via.str.ptr : "");
            return GANGLION_LOST;
        }
    }
}

int64_t ganglion_seed(const ganglion_peer *p) { return p->seed; }

int ganglion_setpoints(const ganglion_peer *p, double *into) {
    for (int i = 0; i < p->given; i++) into[p->index[i]] = p->setpoints[i];
    return p->given;
}

static void put_numbers(msgpack_sbuffer *to, const char *key, const number *numbers, int count, int are_actuators) {
    put(to, "s[", key, count);
    for (int i = 0; i < count; i++) {
        put(to, "{ss", are_actuators ? 3 : 2, "id", numbers[i].id);
        if (are_actuators) put(to, "sd", "value", numbers[i].value);
        put(to, "s{sssss[", "space", 5, "type", "box", "dtype", "<f8", "shape", 0);
        put(to, "sdsd", "low", numbers[i].low, "high", numbers[i].high);
    }
}

static void put_row(msgpack_sbuffer *to, const char *key, const double *values, int count) {
    put(to, "s[[", key, 1, count);
    for (int i = 0; i < count; i++) put(to, "d", values[i]);
}

int ganglion_answer(ganglion_peer *p, const double *readings, const double *rewards, int64_t ticks, int terminated,
                    int truncated) {
    put(&p->kept.head, "[ii", 2, (int64_t)REPLY, p->serial);
    msgpack_sbuffer *to = &p->kept.body;
    p->running = p->call != GANGLION_SHUTDOWN && !terminated && !truncated;
    if (p->call == GANGLION_SHUTDOWN) return put(to, "{", 0), answer(p);
    put(to, "{", p->call == GANGLION_START ? 4 : 5);
    put_row(to, "readings", readings, p->sensor_count);
    if (p->call == GANGLION_START) {
        put_numbers(to, "sensors", p->sensors, p->sensor_count, 0);
        put_numbers(to, "actuators", p->actuators, p->actuator_count, 1);
        put_numbers(to, "rewards", p->rewards, p->reward_count, 0);
        return answer(p);
    }
    if (p->call == GANGLION_UPDATE) put_row(to, "rewards", rewards, p->reward_count);
    else put(to, "s[", "rewards", 0);
    put(to, "sisbsb", "ticks", ticks, "terminated", terminated, "truncated", truncated);
    return answer(p);
}

int ganglion_fail(ganglion_peer *p, const char *why) { return refuse(p, "failed", why); }

const char *ganglion_reason(const ganglion_peer *p) { return p->why; }

int ganglion_close(ganglion_peer *p) {
    int code = p->dealer ? zmq_close(p->dealer) : 0;
    while (p->context && zmq_ctx_term(p->context) != 0 && errno == EINTR) {}
    free(p);
    return code;
}
