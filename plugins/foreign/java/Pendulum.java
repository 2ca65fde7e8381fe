// Play the reference pendulum with jzmq and msgpack-java: join, declare, reset, update, leave.
//
//     javac -cp /usr/share/java/zmq.jar:/usr/share/java/msgpack-core.jar Pendulum.java
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.value.Value;
import org.msgpack.value.ValueFactory;
import org.zeromq.ZMQ;

public final class Pendulum {
    private static final int HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
    private static final byte[] NOTHING = {};

    // -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits -----------
    private long x;
    private double c, s, w;
    private int steps;
    private boolean running;

    private double draw() {
        x = 16807 * x % 2147483647L;
        return 2.0 * x / 2147483647 - 1.0;
    }

    private void begin(Value seed) {
        if (seed == null || !seed.isIntegerValue() || seed.asIntegerValue().toLong() < 0)
            throw new IllegalArgumentException("seed: expected an integer from 0, found " + seed);
        x = 1 + seed.asIntegerValue().toLong() % 2147483646;
        draw();
        double t = draw(), q = 1.0 + t * t;
        c = (t * t - 1.0) / q;
        s = 2.0 * t / q;
        w = draw();
        steps = 0;
        running = true;
    }

    private double advance(double torque) {
        double u = Math.min(Math.max(torque, -2.0), 2.0);
        w = Math.min(Math.max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0);
        double k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k, before = c;
        c = (p * before - 2.0 * k * s) / q;
        s = (p * s + 2.0 * k * before) / q;
        running = ++steps < 200;
        return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
    }

    // -- the calls: what is returned is the body of the REPLY, what is thrown becomes an ERROR ------------------------
    private static Map<String, Object> map(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) made.put((String) pairs[i], pairs[i + 1]);
        return made;
    }

    private static Map<String, Object> box(String id, double low, double high) {
        return map("id", id, "space", map("type", "box", "dtype", "<f8", "shape", List.of(), "low", low, "high", high));
    }

    private static double torqueOf(Map<String, Value> body) {
        Value rows = body.get("setpoints"), chosen = body.get("actuators");
        boolean one = rows != null && rows.isArrayValue() && rows.asArrayValue().size() == 1;
        Value row = one ? rows.asArrayValue().get(0) : null;
        int size = row != null && row.isArrayValue() ? row.asArrayValue().size() : -1;
        if (size == 0 && chosen != null && chosen.isArrayValue() && chosen.asArrayValue().size() == 0) return 0.0; // none
        Value u = size == 1 ? row.asArrayValue().get(0) : null;
        if (u == null || !u.isNumberValue() || Double.isNaN(u.asNumberValue().toDouble()))
            throw new IllegalArgumentException("torque: expected one number, found " + rows);
        return u.asNumberValue().toDouble();
    }

    private Map<String, Object> answer(String call, Map<String, Value> body) {
        List<Object> rewards = List.of();
        switch (call) {
            case "environment.start":
            case "environment.reset":
                begin(body.get("seed"));
                break;
            case "environment.update":
                if (!running) throw new IllegalArgumentException("expected environment.start or .reset before it");
                rewards = List.of(List.of(advance(torqueOf(body))));
                break;
            case "environment.shutdown":
                running = false;
                return map();
            default:
                throw new UnsupportedOperationException("expected start, reset, update or shutdown of environment");
        }
        List<Object> readings = List.of(List.of(c, s, w));
        if (!call.equals("environment.start"))
            return map("readings", readings, "rewards", rewards, "ticks", steps, "truncated", !running);
        Map<String, Object> torque = box("torque", -2.0, 2.0);
        torque.put("value", 0.0);
        return map(
                "sensors", List.of(box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)),
                "actuators", List.of(torque),
                "rewards", List.of(box("balance", -11.0, 1.0)),
                "readings", readings);
    }

    // -- msgpack ------------------------------------------------------------------------------------------------------
    private static void put(MessageBufferPacker to, Object value) throws IOException {
        if (value instanceof Map<?, ?> pairs) {
            to.packMapHeader(pairs.size());
            for (var pair : pairs.entrySet()) {
                put(to, pair.getKey());
                put(to, pair.getValue());
            }
        } else if (value instanceof List<?> elements) {
            to.packArrayHeader(elements.size());
            for (Object element : elements) put(to, element);
        } else if (value instanceof String text) to.packString(text);
        else if (value instanceof Double number) to.packDouble(number);
        else if (value instanceof Boolean flag) to.packBoolean(flag);
        else to.packLong(((Number) value).longValue());
    }

    private static byte[] pack(Object value) throws IOException {
        try (MessageBufferPacker packer = MessagePack.newDefaultBufferPacker()) {
            put(packer, value);
            return packer.toByteArray();
        }
    }

    private static Value unpack(byte[] frame) throws IOException { // an empty frame is as good as an empty map
        if (frame.length == 0) return ValueFactory.emptyMap();
        try (MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(frame)) {
            return unpacker.unpackValue();
        }
    }

    private static Map<String, Value> unpackMap(byte[] frame) throws IOException {
        Map<String, Value> found = new LinkedHashMap<>();
        Value value = unpack(frame);
        if (!value.isMapValue()) throw new IllegalArgumentException("expected a map");
        for (var pair : value.asMapValue().entrySet())
            if (pair.getKey().isStringValue()) found.put(pair.getKey().asStringValue().asString(), pair.getValue());
        return found;
    }

    // -- the bus: receive, answer, repeat -----------------------------------------------------------------------------
    private static void send(ZMQ.Socket dealer, byte[] to, byte[] head, byte[] body) {
        boolean sent = dealer.send(to, ZMQ.SNDMORE) && dealer.send(head, ZMQ.SNDMORE) && dealer.send(body, 0);
        if (!sent) throw new IllegalStateException("cannot send");
    }

    private static List<byte[]> receive(ZMQ.Socket dealer, int silence) {
        List<byte[]> frames = new ArrayList<>();
        do {
            byte[] frame = dealer.recv(0);
            if (frame == null) throw new IllegalStateException("the kernel has been silent for " + silence + " ms");
            frames.add(frame);
        } while (dealer.hasReceiveMore());
        return frames;
    }

    private byte[][] reply(long serial, String call, byte[] frame) throws IOException {
        String kind = "protocol", message;
        try {
            byte[] body = pack(answer(call, unpackMap(frame)));
            return new byte[][] {pack(List.of(REPLY, serial)), body};
        } catch (UnsupportedOperationException error) {
            kind = "unknown_call";
            message = error.getMessage();
        } catch (IOException | RuntimeException error) { // also what msgpack-java makes of broken bytes
            message = String.valueOf(error.getMessage());
        }
        return new byte[][] {pack(List.of(ERROR, serial)), pack(map("kind", kind, "message", call + ": " + message))};
    }

    private static void serve(ZMQ.Socket dealer, int silence) throws IOException {
        Map<String, Object> hello = map("version", 1, "role", "environment", "language", "java",
                "name", variable("NAME"), "token", variable("TOKEN"));
        send(dealer, NOTHING, pack(List.of(HELLO, 1)), pack(hello));
        Pendulum pendulum = new Pendulum();
        byte[][] asked = {}, kept = {};
        while (true) {
            List<byte[]> frames = receive(dealer, silence);
            List<Value> head = unpack(frames.get(1)).asArrayValue().list();
            int verb = head.get(0).asIntegerValue().toInt();
            long serial = head.size() > 1 ? head.get(1).asIntegerValue().toLong() : 0;
            String call = head.size() > 2 && head.get(2).isStringValue() ? head.get(2).asStringValue().asString() : null;
            byte[] body = frames.size() > 2 ? frames.get(2) : NOTHING;
            if (verb == CALL) {
                byte[][] found = frames.toArray(new byte[0][]);
                if (!Arrays.deepEquals(found, asked)) { // else it comes again: it gets the same answer, without a step
                    asked = found;
                    kept = pendulum.reply(serial, call, body);
                }
                send(dealer, frames.get(0), kept[0], kept[1]);
            } else if (verb == BEAT && call == null) {
                send(dealer, NOTHING, pack(List.of(BEAT, serial, "here")), NOTHING);
            } else if (verb == BYE) {
                send(dealer, NOTHING, pack(List.of(BYE, serial)), NOTHING);
                return;
            } else if (verb == ERROR) {
                throw new IllegalStateException("the kernel ends the connection: " + unpackMap(body).get("message"));
            }
        }
    }

    private static String variable(String key) {
        String value = System.getenv("GANGLION_" + key);
        if (value == null) throw new IllegalStateException("expected GANGLION_" + key);
        return value;
    }

    public static void main(String[] arguments) {
        int silence = Integer.parseInt(System.getenv().getOrDefault("GANGLION_SILENCE_MS", "10000"));
        ZMQ.Context context = ZMQ.context(1);
        ZMQ.Socket dealer = context.socket(ZMQ.DEALER);
        int status = 0;
        try {
            if (System.getenv("GANGLION_SERVER_KEY") != null)
                throw new IllegalStateException("this jzmq has no CURVE: it attaches on the kernel's own machine only");
            dealer.setLinger(500); // ms for the last answer to leave
            dealer.setReceiveTimeOut(silence); // the kernel says something every half second
            dealer.connect(variable("ENDPOINT"));
            serve(dealer, silence);
        } catch (IOException | RuntimeException error) {
            System.err.println("pendulum: " + error.getMessage());
            status = 1;
        }
        dealer.close();
        context.term();
        System.exit(status);
    }
}
