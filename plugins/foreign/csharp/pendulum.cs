// Play the reference pendulum with libzmq by P/Invoke, and a msgpack codec of its own: join, declare, reset, update, leave.
//
//     mcs pendulum.cs && mono pendulum.exe
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;

// -- msgpack: null, bool, long, double, string, byte[], List<object>, Dictionary<string, object> ----------------------
static class Msgpack {
    static void PutBig(Stream to, byte tag, ulong value, int bytes) {
        to.WriteByte(tag);
        for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) to.WriteByte((byte)(value >> shift));
    }

    static void PutSize(Stream to, int size, byte small, int smallest, byte tag) {
        if (size < smallest) to.WriteByte((byte)(small | size));
        else PutBig(to, tag, (ulong)size, 2); // nothing that we say is longer than 65,535
    }

    public static void Put(Stream to, object value) {
        if (value == null) to.WriteByte(0xc0);
        else if (value is bool) to.WriteByte((bool)value ? (byte)0xc3 : (byte)0xc2);
        else if (value is double) PutBig(to, 0xcb, (ulong)BitConverter.DoubleToInt64Bits((double)value), 8);
        else if (value is string) {
            byte[] text = Encoding.UTF8.GetBytes((string)value);
            PutSize(to, text.Length, 0xa0, 32, 0xda);
            to.Write(text, 0, text.Length);
        } else if (value is Dictionary<string, object>) {
            var map = (Dictionary<string, object>)value;
            PutSize(to, map.Count, 0x80, 16, 0xde);
            foreach (var pair in map) { Put(to, pair.Key); Put(to, pair.Value); }
        } else if (value is List<object>) {
            PutSize(to, ((List<object>)value).Count, 0x90, 16, 0xdc);
            foreach (object element in (List<object>)value) Put(to, element);
        } else {
            long number = Convert.ToInt64(value);
            if (number >= 0 && number < 128) to.WriteByte((byte)number);
            else PutBig(to, 0xd3, (ulong)number, 8);
        }
    }

    static ulong Big(byte[] from, ref int at, int bytes) {
        ulong value = 0;
        for (; bytes > 0; bytes--) value = value << 8 | from[at++];
        return value;
    }

    static object Text(byte[] from, ref int at, int size) {
        at += size;
        return Encoding.UTF8.GetString(from, at - size, size);
    }

    static List<object> Array(byte[] from, ref int at, int size) {
        var made = new List<object>();
        for (; size > 0; size--) made.Add(Get(from, ref at));
        return made;
    }

    static Dictionary<string, object> Map(byte[] from, ref int at, int size) {
        var made = new Dictionary<string, object>();
        for (; size > 0; size--) { var key = (string)Get(from, ref at); made[key] = Get(from, ref at); }
        return made;
    }

    public static object Get(byte[] from, ref int at) { // throws IndexOutOfRange where something is cut
        byte tag = from[at++];
        if (tag < 0x80) return (long)tag;
        if (tag < 0x90) return Map(from, ref at, tag & 15);
        if (tag < 0xa0) return Array(from, ref at, tag & 15);
        if (tag < 0xc0) return Text(from, ref at, tag & 31);
        if (tag >= 0xe0) return (long)(sbyte)tag;
        switch (tag) {
            case 0xc0: return null;
            case 0xc2: case 0xc3: return tag == 0xc3;
            case 0xc4: case 0xc5: case 0xc6: {
                int size = (int)Big(from, ref at, 1 << (tag - 0xc4));
                at += size;
                return from.Skip(at - size).Take(size).ToArray();
            }
            case 0xca: return (double)BitConverter.ToSingle(BitConverter.GetBytes((uint)Big(from, ref at, 4)), 0);
            case 0xcb: return BitConverter.Int64BitsToDouble((long)Big(from, ref at, 8));
            case 0xcc: case 0xcd: case 0xce: case 0xcf: return (long)Big(from, ref at, 1 << (tag - 0xcc));
            case 0xd0: return (long)(sbyte)Big(from, ref at, 1);
            case 0xd1: return (long)(short)Big(from, ref at, 2);
            case 0xd2: return (long)(int)Big(from, ref at, 4);
            case 0xd3: return (long)Big(from, ref at, 8);
            case 0xd9: case 0xda: case 0xdb: return Text(from, ref at, (int)Big(from, ref at, 1 << (tag - 0xd9)));
            case 0xdc: case 0xdd: return Array(from, ref at, (int)Big(from, ref at, 2 << (tag - 0xdc)));
            case 0xde: case 0xdf: return Map(from, ref at, (int)Big(from, ref at, 2 << (tag - 0xde)));
            default: throw new FormatException("no msgpack: byte " + tag.ToString("x2"));
        }
    }

    public static byte[] Pack(object value) {
        var made = new MemoryStream();
        Put(made, value);
        return made.ToArray();
    }

    public static object Unpack(byte[] frame) { // an empty frame is as good as an empty map
        int at = 0;
        return frame.Length == 0 ? new Dictionary<string, object>() : Get(frame, ref at);
    }
}

// -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits ---------------
class Pendulum {
    long x;
    double c, s, w;
    int steps = -1; // no episode was begun

    double Draw() { return 2.0 * (x = 16807 * x % 2147483647) / 2147483647 - 1.0; }

    void Begin(object seed) {
        x = 1 + (long)seed % 2147483646;
        Draw();
        double t = Draw(), q = 1.0 + t * t;
        c = (t * t - 1.0) / q;
        s = 2.0 * t / q;
        w = Draw();
        steps = 0;
    }

    double Advance(double torque) {
        double u = Math.Min(Math.Max(torque, -2.0), 2.0);
        w = Math.Min(Math.Max(w + (15.0 * s + 3.0 * u) * 0.05, -8.0), 8.0);
        double k = w * 0.025, q = 1.0 + k * k, p = 1.0 - k * k, before = c;
        c = (p * before - 2.0 * k * s) / q;
        s = (p * s + 2.0 * k * before) / q;
        ++steps;
        return -(2.0 * (1.0 - c) + 0.1 * w * w + 0.001 * u * u);
    }

    static List<object> List(params object[] elements) { return elements.ToList(); }

    // Return the body of the answer; what is thrown becomes an ERROR.
    public Dictionary<string, object> Answer(string call, Dictionary<string, object> body) {
        var rewards = List();
        if (call == "environment.shutdown") return new Dictionary<string, object>();
        if (call == "environment.start" || call == "environment.reset") Begin(body["seed"]);
        else if (call != "environment.update" || steps < 0) throw new ArgumentException("unknown, or not to be expected");
        else rewards.Add(List(Advance(Convert.ToDouble(((List<object>)((List<object>)body["setpoints"])[0])[0]))));
        var state = new Dictionary<string, object> {
            {"readings", List(List(c, s, w))}, {"rewards", rewards}, {"ticks", steps}, {"truncated", steps == 200}
        };
        if (call != "environment.start") return state;
        state["sensors"] = List("cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)");
        state["actuators"] = List("torque: Box(-2, 2)");
        state["rewards"] = List("balance: Box(-11, 1)");
        return state;
    }
}

// -- libzmq: every return code is looked at, and what a signal interrupted is called again ----------------------------
class Dealer {
    const string Library = "libzmq.so.5";
    [DllImport(Library)] static extern IntPtr zmq_ctx_new();
    [DllImport(Library)] static extern int zmq_ctx_term(IntPtr context);
    [DllImport(Library)] static extern IntPtr zmq_socket(IntPtr context, int type);
    [DllImport(Library)] static extern int zmq_close(IntPtr socket);
    [DllImport(Library)] static extern int zmq_setsockopt(IntPtr socket, int option, byte[] value, UIntPtr size);
    [DllImport(Library)] static extern int zmq_getsockopt(IntPtr socket, int option, ref int value, ref UIntPtr size);
    [DllImport(Library)] static extern int zmq_connect(IntPtr socket, string endpoint);
    [DllImport(Library)] static extern int zmq_send(IntPtr socket, byte[] data, UIntPtr size, int flags);
    [DllImport(Library)] static extern int zmq_recv(IntPtr socket, byte[] data, UIntPtr size, int flags);
    [DllImport(Library)] static extern int zmq_errno();
    [DllImport(Library)] static extern IntPtr zmq_strerror(int number);
    const int DEALER = 5, SNDMORE = 2, RCVMORE = 13, EINTR = 4, EAGAIN = 11;
    readonly IntPtr context, socket;
    readonly byte[] room = new byte[4 * 1024 * 1024];

    public Dealer() {
        context = zmq_ctx_new();
        socket = zmq_socket(context, DEALER);
    }

    static int Check(string what, Func<int> function) {
        int code;
        do code = function();
        while (code < 0 && zmq_errno() == EINTR);
        if (code >= 0) return code;
        string why = zmq_errno() == EAGAIN ? "the kernel is silent" : Marshal.PtrToStringAnsi(zmq_strerror(zmq_errno()));
        throw new IOException(what + ": " + why);
    }

    public void Set(int option, byte[] value) {
        Check("option " + option, () => zmq_setsockopt(socket, option, value, (UIntPtr)value.Length));
    }

    public void Connect(string endpoint) { Check(endpoint, () => zmq_connect(socket, endpoint)); }

    public void Send(byte[] to, byte[] head, byte[] body) {
        Check("cannot send", () => zmq_send(socket, to, (UIntPtr)to.Length, SNDMORE));
        Check("cannot send", () => zmq_send(socket, head, (UIntPtr)head.Length, SNDMORE));
        Check("cannot send", () => zmq_send(socket, body, (UIntPtr)body.Length, 0));
    }

    public List<byte[]> Receive() {
        var frames = new List<byte[]>();
        for (int more = 1; more != 0;) {
            int size = Check("cannot receive", () => zmq_recv(socket, room, (UIntPtr)room.Length, 0));
            if (size > room.Length) throw new IOException("a frame is longer than " + room.Length + " bytes");
            frames.Add(room.Take(size).ToArray());
            var width = (UIntPtr)sizeof(int);
            if (zmq_getsockopt(socket, RCVMORE, ref more, ref width) < 0) throw new IOException("cannot receive");
        }
        return frames;
    }

    public void Close() {
        Check("cannot end", () => zmq_close(socket));
        Check("cannot end", () => zmq_ctx_term(context));
    }
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
static class Program {
    const int HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
    const int LINGER = 17, RCVTIMEO = 27, PUBLICKEY = 48, SECRETKEY = 49, SERVERKEY = 50;
    static readonly byte[] Nothing = new byte[0];

    static byte[] Head(params object[] elements) { return Msgpack.Pack(elements.ToList()); }

    static string Variable(string key) {
        string value = Environment.GetEnvironmentVariable("GANGLION_" + key);
        if (value == null) throw new IOException("expected GANGLION_" + key);
        return value;
    }

    static byte[] Key(string key) { return Encoding.ASCII.GetBytes(Variable(key) + "\0"); }

    static Tuple<byte[], byte[]> Reply(Pendulum pendulum, object serial, string call, byte[] frame) {
        try {
            var body = pendulum.Answer(call, (Dictionary<string, object>)Msgpack.Unpack(frame));
            return Tuple.Create(Head(REPLY, serial), Msgpack.Pack(body));
        } catch (Exception error) { // also what the codec makes of broken bytes
            var failure = new Dictionary<string, object> {{"kind", "protocol"}, {"message", call + ": " + error.Message}};
            return Tuple.Create(Head(ERROR, serial), Msgpack.Pack(failure));
        }
    }

    static void Serve(Dealer dealer) {
        var hello = new Dictionary<string, object> {
            {"version", 1}, {"role", "environment"}, {"name", Variable("NAME")}, {"token", Variable("TOKEN")},
            {"language", "csharp"}
        };
        dealer.Send(Nothing, Head(HELLO, 1), Msgpack.Pack(hello));
        var pendulum = new Pendulum();
        var asked = new List<byte[]>();
        Tuple<byte[], byte[]> kept = null;
        while (true) {
            var frames = dealer.Receive();
            var head = (List<object>)Msgpack.Unpack(frames[1]);
            object serial = head.Count > 1 ? head[1] : 0;
            string call = head.Count > 2 ? head[2] as string : null;
            byte[] body = frames.Count > 2 ? frames[2] : Nothing;
            switch ((long)head[0]) {
                case CALL:
                    bool again = frames.Count == asked.Count && frames.Zip(asked, (a, b) => a.SequenceEqual(b)).All(same => same);
                    if (!again) { // else it comes again: it gets the same answer, without another step
                        asked = frames;
                        kept = Reply(pendulum, serial, call, body);
                    }
                    dealer.Send(frames[0], kept.Item1, kept.Item2);
                    break;
                case BEAT: case BYE: // what it got, sent back
                    dealer.Send(frames[0], frames[1], body);
                    if ((long)head[0] == BYE) return;
                    break;
                case ERROR:
                    var why = (Dictionary<string, object>)Msgpack.Unpack(body);
                    throw new IOException("the kernel ends the connection: " + why["message"]);
            }
        }
    }

    static int Main() {
        try {
            var dealer = new Dealer();
            string silence = Environment.GetEnvironmentVariable("GANGLION_SILENCE_MS") ?? "10000";
            dealer.Set(LINGER, BitConverter.GetBytes(500)); // ms for the last answer to leave
            dealer.Set(RCVTIMEO, BitConverter.GetBytes(int.Parse(silence))); // it says something every half second
            if (Environment.GetEnvironmentVariable("GANGLION_SERVER_KEY") != null) { // of a kernel on another machine
                dealer.Set(SERVERKEY, Key("SERVER_KEY"));
                dealer.Set(PUBLICKEY, Key("PUBLIC_KEY"));
                dealer.Set(SECRETKEY, Key("SECRET_KEY"));
            }
            dealer.Connect(Variable("ENDPOINT"));
            Serve(dealer);
            dealer.Close();
            return 0;
        } catch (Exception error) {
            Console.Error.WriteLine("pendulum: " + error.Message);
            return 1;
        }
    }
}
