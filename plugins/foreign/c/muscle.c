/* Be a linear policy, the muscle of a brain in any language: setpoints = clip(weights * readings + bias).
 *
 * `weights` (actuators, columns) and `bias` (actuators) are arrays of doubles: in `params` of the document, or in what
 * the brain answers to join, think, update and policy. A sum goes over the columns from left to right; the bias is last.
 *
 *     gcc -O2 -ffp-contract=off muscle.c -o muscle -lzmq -lmsgpackc
 */
#include <errno.h>
#include <math.h>
#include <msgpack.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum { HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, LOST = 9, BYE = 10 };
enum { SOURCE, HEAD, BODY, BLOBS, MOST = 12 }; /* frames of a message: what is behind the last is skipped */

static void check(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "muscle: %s: %s\n", what, errno == EAGAIN ? "the kernel is silent" : zmq_strerror(errno));
    exit(1);
}

/* -- msgpack ------------------------------------------------------------------------------------------------------- */
typedef msgpack_sbuffer buffer;
typedef const msgpack_object *object; /* NULL: there is none */
typedef struct { buffer head, body; } message;

/* Append values as the letters of `format` say: { map and [ array of so many, s text, d double, i integer, b boolean,
   o what was heard, r what was packed before, n nil. */
static void put(buffer *to, const char *format, ...) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, to, msgpack_sbuffer_write);
    va_list values;
    va_start(values, format);
    for (int failed = 0; *format; format++) {
        const char *text = *format == 's' ? va_arg(values, const char *) : "";
        object heard = *format == 'o' ? va_arg(values, object) : NULL;
        const buffer *raw = *format == 'r' ? va_arg(values, const buffer *) : NULL;
        if (*format == 'd') failed = msgpack_pack_double(&packer, va_arg(values, double));
        else if (*format == 's') failed = msgpack_pack_str_with_body(&packer, text, strlen(text));
        else if (*format == '{') failed = msgpack_pack_map(&packer, va_arg(values, int));
        else if (*format == '[') failed = msgpack_pack_array(&packer, va_arg(values, int));
        else if (*format == 'i') failed = msgpack_pack_int64(&packer, va_arg(values, int64_t));
        else if (*format == 'b') failed = va_arg(values, int) ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer);
        else if (raw) failed = msgpack_sbuffer_write(to, raw->data, raw->size);
        else failed = heard ? msgpack_pack_object(&packer, *heard) : msgpack_pack_nil(&packer);
        check(!failed, "no memory");
    }
    va_end(values);
}

static int is(object value, const char *word) {
    return value && value->type == MSGPACK_OBJECT_STR && value->via.str.size == strlen(word) &&
           !memcmp(value->via.str.ptr, word, strlen(word));
}

static object find(object map, const char *key) { /* NULL for nil, too */
    for (uint32_t i = 0; map && map->type == MSGPACK_OBJECT_MAP && i < map->via.map.size; i++)
        if (is(&map->via.map.ptr[i].key, key))
            return map->via.map.ptr[i].val.type == MSGPACK_OBJECT_NIL ? NULL : &map->via.map.ptr[i].val;
    return NULL;
}

static object element(object array, size_t i) {
    return array && array->type == MSGPACK_OBJECT_ARRAY && i < array->via.array.size ? &array->via.array.ptr[i] : NULL;
}

static size_t length(object array) { return array && array->type == MSGPACK_OBJECT_ARRAY ? array->via.array.size : 0; }

static int64_t integer(object value) { /* -1 for anything but a natural number */
    return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? (int64_t)value->via.u64 : -1;
}

static int truth(object value, int otherwise) {
    return value && value->type == MSGPACK_OBJECT_BOOLEAN ? value->via.boolean : otherwise;
}

static int number(object value, double *into) { /* infinite bounds are texts */
    if (!value) return 0;
    if (value->type == MSGPACK_OBJECT_FLOAT64 || value->type == MSGPACK_OBJECT_FLOAT32) *into = value->via.f64;
    else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER) *into = (double)value->via.u64;
    else if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) *into = (double)value->via.i64;
    else if (is(value, "inf") || is(value, "-inf")) *into = is(value, "inf") ? INFINITY : -INFINITY;
    else return 0;
    return *into == *into; /* NaN equals nothing */
}

/* Read numbers, lists of them and bytes of doubles; return how many, or -1 if there are others or more than `room`. */
static int64_t numbers(object value, double *into, int64_t room) {
    if (value && value->type == MSGPACK_OBJECT_BIN) {
        int64_t size = value->via.bin.size;
        if (size % 8 || size / 8 > room) return -1;
        memcpy(into, value->via.bin.ptr, size);
        return size / 8;
    }
    if (!value || value->type != MSGPACK_OBJECT_ARRAY) return room > 0 && number(value, into) ? 1 : -1;
    int64_t count = 0;
    for (size_t i = 0; i < length(value); i++) {
        int64_t more = numbers(element(value, i), into + count, room - count);
        if (more < 0) return -1;
        count += more;
    }
    return count;
}

/* -- messages: a signal may interrupt a call, which is then made again ----------------------------------------------- */
typedef struct {
    zmq_msg_t frames[MOST + 1];
    msgpack_unpacked heading, content;
    int readable; /* whether the body is msgpack */
    int64_t verb, serial;
    object call, body;
} incoming;

static void *context, *dealer;
static incoming stores[2], *heard = &stores[0], *asked = &stores[1]; /* `asked` is the CALL that is being answered, or was answered last, by `kept` */
static message kept, said;
static int64_t serial = 1; /* of our own messages that are answered; HELLO has 1 */

static void send_frame(const void *data, size_t size, int flags) {
    int sent;
    do sent = zmq_send(dealer, data, size, flags);
    while (sent < 0 && errno == EINTR);
    check(sent >= 0, "cannot send");
}

static void send_message(const void *to, size_t size, const message *m) {
    send_frame(to, size, ZMQ_SNDMORE);
    send_frame(m->head.data, m->head.size, ZMQ_SNDMORE);
    send_frame(m->body.data, m->body.size, 0);
}

static void clear(message *m) {
    msgpack_sbuffer_clear(&m->head);
    msgpack_sbuffer_clear(&m->body);
}

static int decode(msgpack_unpacked *into, zmq_msg_t *frame) { /* an empty frame is as good as an empty map */
    size_t size = zmq_msg_size(frame), offset = 0;
    return msgpack_unpack_next(into, size ? zmq_msg_data(frame) : "\x80", size ? size : 1, &offset) == MSGPACK_UNPACK_SUCCESS;
}

/* Wait for the next message, into `heard`. What the kernel itself says is answered here, and ends us if it must. */
static void receive(void) {
    for (int i = 0, more = 1; i < MOST || more; i++) {
        zmq_msg_t *frame = &heard->frames[i < MOST ? i : MOST];
        check(zmq_msg_close(frame) == 0 && zmq_msg_init(frame) == 0, "cannot receive");
        if (!more) continue;
        int got;
        do got = zmq_msg_recv(frame, dealer, 0);
        while (got < 0 && errno == EINTR);
        check(got >= 0, "cannot receive");
        more = zmq_msg_more(frame);
    }
    errno = EPROTO;
    check(decode(&heard->heading, &heard->frames[HEAD]), "expected a head in msgpack");
    heard->readable = decode(&heard->content, &heard->frames[BODY]);
    heard->body = heard->readable ? &heard->content.data : NULL;
    heard->verb = integer(element(&heard->heading.data, 0));
    heard->serial = integer(element(&heard->heading.data, 1));
    heard->call = element(&heard->heading.data, 2);
    if (heard->verb == BYE || (heard->verb == BEAT && !heard->call)) {
        message answer = {0};
        put(&answer.head, heard->verb == BYE ? "[ii" : "[iis", heard->verb == BYE ? 2 : 3, heard->verb, heard->serial, "here");
        send_message("", 0, &answer);
        msgpack_sbuffer_destroy(&answer.head);
    } else if (heard->verb == ERROR && (heard->serial != serial || serial == 1)) {
        object why = find(heard->body, "message");
        int size = why && why->type == MSGPACK_OBJECT_STR ? (int)why->via.str.size : 0;
        fprintf(stderr, "muscle: the kernel ends the connection: %.*s\n", size, size ? why->via.str.ptr : "");
        exit(1);
    }
}

static void leave(void) {
    check(zmq_close(dealer) == 0, "cannot end");
    while (zmq_ctx_term(context) != 0) check(errno == EINTR, "cannot end"); /* our BYE has gone, or its linger is over */
    exit(0);
}

/* -- the agent ------------------------------------------------------------------------------------------------------ */
static int64_t columns, actuators, *widths; /* readings of all sensors side by side; of each sensor */
static double *weights, *bias, *low, *high, *row;
static char brain[129], policy[129]; /* whom to ask: who learns from us, or whose newest update we act by */
static int ready, open, settled;     /* `open`: a decision waits for what comes of it; `settled`: its rewards are known */
static int64_t worker, episode, decisions;
static double objective;
static int judged; /* whether there were rewards at all */
static buffer readings, setpoints, rewards, reward_ids; /* of the open decision; declarations, until they are told */
static const char *kind; /* of an error */

static const char *refuse(const char *which, const char *why) {
    kind = which;
    return why;
}

static const char RELAYED[] = "the brain's own words are in the answer";

/* Take an array {dtype, shape, data or blob}, or lists of numbers, of exactly `count` doubles. */
static int take_array(object array, double *into, int64_t count, int64_t first) {
    object data = find(array, "data"), shape = find(array, "shape");
    int64_t blob = integer(find(array, "blob"));
    if (!array || array->type != MSGPACK_OBJECT_MAP) return numbers(array, into, count) == count;
    if (!is(find(array, "dtype"), "<f8") || integer(element(shape, 0)) != first) return 0;
    if (data) return numbers(data, into, count) == count;
    if (blob < 0 || blob >= MOST - BLOBS) return 0;
    zmq_msg_t *frame = &heard->frames[BLOBS + blob];
    if ((int64_t)zmq_msg_size(frame) != 8 * count) return 0;
    memcpy(into, zmq_msg_data(frame), 8 * count);
    return 1;
}

static const char *take(object update) {
    if (!update) return NULL; /* the brain has nothing to say yet */
    if (!take_array(find(update, "weights"), weights, actuators * columns, actuators))
        return refuse("protocol", "weights: expected float64 of the shape (actuators, columns)");
    if (!take_array(find(update, "bias"), bias, actuators, actuators))
        return refuse("protocol", "bias: expected float64 of the shape (actuators)");
    return NULL;
}

/* Say `said.body` to a brain and take its answer, which lies in `heard`; return what is wrong. */
static const char *ask(const char *whom, const char *call) {
    object position = element(&asked->heading.data, 3);
    serial++;
    msgpack_sbuffer_clear(&said.head);
    put(&said.head, "[iiso", 4, (int64_t)CALL, serial, call, position);
    for (int again = 1;;) {
        if (again) send_message(whom, strlen(whom), &said);
        again = 0;
        receive();
        if (heard->verb == BYE) leave();
        int ours = heard->serial == serial, failed = heard->verb == ERROR && ours;
        if (heard->verb == REPLY && ours) break;
        if (failed && is(find(heard->body, "kind"), "busy")) { /* or absent: it will come back */
            int64_t wait_ms = integer(find(heard->body, "retry_after_ms"));
            usleep(1000 * (useconds_t)(wait_ms > 0 && wait_ms < 1000 ? wait_ms : 50));
            again = 1;
        } else if (failed) { /* hand on who it was and what it said */
            put(&kept.body, "{so", 5, "kind", find(heard->body, "kind"));
            put(&kept.body, "soso", "message", find(heard->body, "message"), "where", find(heard->body, "where"));
            put(&kept.body, "sos{ss", "traceback", find(heard->body, "traceback"), "data", 1, "peer", whom);
            return RELAYED;
        } else if (heard->verb == LOST && is(find(heard->body, "peer"), whom)) {
            if (!truth(find(heard->body, "returns"), 0)) {
                put(&kept.body, "{ssss", 3, "kind", "lost", "message", "its brain is gone");
                put(&kept.body, "s{ss", "data", 1, "peer", whom);
                return RELAYED;
            }
            usleep(50000);
            again = 1;
        } /* anything else is a repetition of what we are at */
    }
    if (!heard->readable) return refuse("protocol", "the brain's answer: expected msgpack");
    return truth(find(heard->body, "fresh"), 0) ? take(find(heard->body, "update")) : NULL;
}

static const char *ask_policy(void) {
    msgpack_sbuffer_clear(&said.body);
    put(&said.body, "{", 0);
    return ask(policy, "brain.policy");
}

static const char *read_sensor(object space, int64_t *width) {
    object shape = find(space, "shape");
    *width = 1;
    if (is(find(space, "type"), "discrete")) return NULL;
    if (!is(find(space, "type"), "box")) return refuse("usage", "sensors: this program knows numbers and boxes");
    for (size_t i = 0; i < length(shape); i++) *width *= integer(element(shape, i));
    if (*width < 0 || *width > 4194304) return refuse("protocol", "sensors: expected the shape of a box");
    if (length(shape) && !is(find(space, "dtype"), "<f8")) return refuse("usage", "sensors: this program knows arrays of float64");
    return NULL;
}

static int copy_name(object name, char into[129]) {
    into[0] = 0;
    if (name && (name->type != MSGPACK_OBJECT_STR || name->via.str.size > 128)) return 0;
    if (name) memcpy(into, name->via.str.ptr, name->via.str.size), into[name->via.str.size] = 0;
    return 1;
}

static const char *set_up(object body) {
    object sensors = find(body, "sensors"), given = find(body, "actuators"), judge = find(body, "objective");
    object params = find(find(body, "plugin"), "params"), ours = find(judge, "params"), filters = find(body, "filters");
    ready = 0;
    if (!sensors || !given) return refuse("protocol", "expected sensors and actuators");
    if (!is(find(judge, "name"), "aggregate_rewards") || (ours && (ours->type != MSGPACK_OBJECT_MAP || ours->via.map.size)))
        return refuse("usage", "objective: this program adds up its rewards, as aggregate_rewards does without params");
    if (length(filters)) return refuse("usage", "filters: this program has none");
    if (!copy_name(find(body, "brain"), brain) || !copy_name(find(body, "policy"), policy))
        return refuse("protocol", "brain: expected a name");
    if (!brain[0] && !policy[0] && find(body, "models"))
        return refuse("usage", "models: this program reads no stored model; `load: false`, and weights and bias in `params`");
    widths = realloc(widths, (length(sensors) + 1) * sizeof *widths);
    check(widths != NULL, "no memory");
    columns = 0, actuators = (int64_t)length(given);
    for (size_t i = 0; i < length(sensors); i++) {
        const char *wrong = read_sensor(find(element(sensors, i), "space"), &widths[i]);
        if (wrong) return wrong;
        columns += widths[i];
    }
    free(weights), free(bias), free(low), free(high), free(row);
    weights = calloc(actuators * columns + 1, sizeof *weights), row = calloc(columns + 1, sizeof *row);
    bias = calloc(actuators + 1, sizeof *bias), low = calloc(actuators + 1, sizeof *low), high = calloc(actuators + 1, sizeof *high);
    check(weights && row && bias && low && high, "no memory");
    for (int64_t i = 0; i < actuators; i++) {
        object space = find(element(given, i), "space");
        if (!is(find(space, "type"), "box") || length(find(space, "shape")) || !number(find(space, "low"), &low[i]) ||
            !number(find(space, "high"), &high[i]))
            return refuse("usage", "actuators: this program sets numbers between two bounds");
    }
    msgpack_sbuffer_clear(&reward_ids);
    if (find(body, "rewards")) put(&reward_ids, "o", find(body, "rewards"));
    int64_t place = integer(element(element(&asked->heading.data, 3), 2)); /* [phase, worker, episode, ...] */
    worker = integer(find(body, "worker")), episode = place < 0 ? 0 : place, decisions = 0;
    open = settled = 0;
    const char *wrong = find(params, "weights") || find(params, "bias") ? take(params) : NULL;
    msgpack_sbuffer_clear(&said.body);
    put(&said.body, "{si", 1, "worker", worker);
    if (!wrong && brain[0]) wrong = ask(brain, "brain.join");
    if (!wrong && policy[0]) wrong = ask_policy();
    ready = !wrong;
    if (!wrong) put(&kept.body, "{", 0);
    return wrong;
}

static const char *read_row(object rows) {
    object one = element(rows, 0);
    int64_t at = 0;
    if (length(rows) != 1) return refuse("protocol", "readings: expected one row");
    for (size_t i = 0; i < length(one); i++) {
        if (at == columns || numbers(element(one, i), row + at, widths[i]) != widths[i])
            return refuse("protocol", "readings: expected numbers, as many as were declared");
        at += widths[i];
    }
    return at == columns ? NULL : refuse("protocol", "readings: expected one value for each sensor");
}

/* Let the open decision's rewards be known: their sum is its objective. Who has none in this step has no objective. */
static const char *settle(object rows) {
    object one = element(rows, 0);
    double sum = 0.0, more[1];
    int found = 0;
    for (size_t i = 0; i < length(one); i++) {
        object value = element(one, i);
        if (value->type == MSGPACK_OBJECT_NIL) continue;
        if (numbers(value, more, 1) != 1) return refuse("usage", "rewards: this program adds up numbers");
        sum += more[0], found = 1;
    }
    objective = sum, judged = found, settled = 1;
    msgpack_sbuffer_clear(&rewards);
    put(&rewards, "o", one);
    return NULL;
}

static void put_objective(buffer *to) {
    if (judged) put(to, "s[d", "objective", 1, objective);
    else put(to, "s[n", "objective", 1);
}

/* Give the brain the row that the open decision has made, or just ask it, and take what it answers. */
static const char *think(object body, int passing) {
    object round = find(body, "round"), workers = find(body, "workers");
    int complete = open && settled && !passing;
    msgpack_sbuffer_clear(&said.body);
    put(&said.body, "{siso", complete ? 13 : 3, "worker", worker, "workers", workers);
    put(&said.body, "si", "round", round ? integer(round) : (int64_t)0);
    if (!complete) return ask(brain, "brain.update");
    put(&said.body, "sisi", "episode", episode, "decision", decisions - 1);
    put(&said.body, "s[rs[rs[r", "readings", 1, &readings, "applied", 1, &setpoints, "rewards", 1, &rewards);
    put_objective(&said.body);
    put(&said.body, "so", "next_readings", find(body, "readings"));
    put(&said.body, "sbsb", "terminated", truth(find(body, "terminated"), 0), "truncated", truth(find(body, "truncated"), 0));
    put(&said.body, reward_ids.size ? "sr" : "sn", "reward_ids", &reward_ids); /* told once */
    msgpack_sbuffer_clear(&reward_ids);
    return ask(brain, "brain.think");
}

static void propose(void) {
    msgpack_sbuffer_clear(&setpoints);
    put(&setpoints, "[", (int)actuators);
    for (int64_t i = 0; i < actuators; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < columns; j++) sum = sum + weights[i * columns + j] * row[j];
        sum = sum + bias[i];
        put(&setpoints, "d", sum < low[i] ? low[i] : sum > high[i] ? high[i] : sum);
    }
}

static const char *act(object body) {
    int passing = truth(find(body, "passing"), 0), decide = truth(find(body, "decide"), 1);
    int closing = truth(find(body, "closing"), 0), judges = open && !settled && find(body, "rewards");
    object declared = find(body, "reward_ids");
    const char *wrong = passing ? NULL : read_row(find(body, "readings"));
    if (!wrong && declared) msgpack_sbuffer_clear(&reward_ids), put(&reward_ids, "o", declared);
    if (!wrong && judges) wrong = settle(find(body, "rewards"));
    int asks = brain[0] && (passing || decide || closing);
    if (!wrong && asks) wrong = think(body, passing);
    if (wrong) return wrong;
    object wish = asks ? find(heard->body, "signal") : NULL, excused = asks ? find(heard->body, "excused") : NULL;
    put(&kept.body, "{soso", 2 + (judges != 0) + decide, "signal", wish, "excused", excused); /* the brain's */
    if (judges) put_objective(&kept.body);
    if (decide || closing) open = settled = 0;
    if (!decide) return NULL;
    propose();
    put(&kept.body, "s[r", "setpoints", 1, &setpoints);
    msgpack_sbuffer_clear(&readings);
    put(&readings, "o", element(find(body, "readings"), 0));
    open = 1, decisions++;
    return NULL;
}

/* Answer the CALL that was asked, into `kept`; return what is wrong with it. */
static const char *answer(void) {
    object body = asked->readable ? &asked->content.data : NULL, call = element(&asked->heading.data, 2);
    int setup = is(call, "muscle.setup"), acts = is(call, "muscle.act"), resets = is(call, "muscle.reset");
    const char *wrong = NULL;
    if (!setup && !acts && !resets && !is(call, "muscle.shutdown"))
        return refuse("unknown_call", "expected setup, act, reset or shutdown of muscle");
    if (!asked->readable || body->type != MSGPACK_OBJECT_MAP) return refuse("protocol", "expected a map in msgpack");
    if (setup) return set_up(body);
    if (!ready && (acts || resets)) return refuse("not_set_up", "expected muscle.setup first");
    if (acts) return act(body);
    if (resets) {
        if (integer(find(body, "episode")) < 0) return refuse("protocol", "episode: expected an integer from 0");
        episode = integer(find(body, "episode")), decisions = 0, open = settled = 0;
        if (policy[0] && truth(find(body, "prepare"), 0)) wrong = ask_policy();
    } else if (ready && brain[0]) {
        msgpack_sbuffer_clear(&said.body);
        put(&said.body, "{si", 1, "worker", worker);
        wrong = ask(brain, "brain.leave");
    }
    ready = resets;
    if (!wrong) put(&kept.body, "{", 0);
    return wrong;
}

static int repeated(void) {
    for (int i = 0; i < BLOBS; i++) {
        size_t size = zmq_msg_size(&heard->frames[i]);
        if (size != zmq_msg_size(&asked->frames[i]) || memcmp(zmq_msg_data(&heard->frames[i]), zmq_msg_data(&asked->frames[i]), size))
            return 0;
    }
    return 1;
}

static void join(void) {
    const char *keys[] = {"GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"};
    const int options[] = {ZMQ_CURVE_SERVERKEY, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY};
    const char *endpoint = getenv("GANGLION_ENDPOINT"), *name = getenv("GANGLION_NAME");
    const char *token = getenv("GANGLION_TOKEN"), *silence = getenv("GANGLION_SILENCE_MS");
    errno = EINVAL;
    check(endpoint && name && token, "expected GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN");
    int linger = 500, silence_ms = silence ? atoi(silence) : 10000; /* the kernel says something every half second */
    context = zmq_ctx_new();
    dealer = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
    check(dealer != NULL, "cannot make a socket");
    check(zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger) == 0, "cannot set the linger");
    check(zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &silence_ms, sizeof silence_ms) == 0, "cannot set the timeout");
    for (int i = 0; i < 3 && getenv(keys[0]); i++) /* of a kernel on another machine */
        check(getenv(keys[i]) && zmq_setsockopt(dealer, options[i], getenv(keys[i]), 41) == 0, keys[i]);
    check(zmq_connect(dealer, endpoint) == 0, endpoint);
    put(&said.head, "[ii", 2, (int64_t)HELLO, (int64_t)1);
    put(&said.body, "{siss", 5, "version", (int64_t)1, "role", "muscle");
    put(&said.body, "ssssss", "name", name, "token", token, "language", "c");
    send_message("", 0, &said);
}

int main(void) {
    for (int i = 0; i <= MOST; i++) check(!zmq_msg_init(&heard->frames[i]) && !zmq_msg_init(&asked->frames[i]), "no memory");
    join();
    for (;;) {
        receive();
        if (heard->verb == BYE) leave();
        if (heard->verb != CALL) continue;
        if (!repeated()) { /* else it comes again: it gets the same answer, and nothing is done again */
            incoming *before = asked;
            asked = heard, heard = before;
            clear(&kept);
            const char *wrong = answer();
            put(&kept.head, "[ii", 2, (int64_t)(wrong ? ERROR : REPLY), asked->serial);
            if (wrong && wrong != RELAYED) {
                msgpack_sbuffer_clear(&kept.body);
                put(&kept.body, "{ssss", 2, "kind", kind, "message", wrong);
            }
        }
        send_message(zmq_msg_data(&asked->frames[SOURCE]), zmq_msg_size(&asked->frames[SOURCE]), &kept);
    }
}
