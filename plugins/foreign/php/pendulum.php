<?php
// Play the reference pendulum with php-zmq and php-msgpack: join, declare, reset, update, leave.
declare(strict_types=1);
ini_set('msgpack.php_only', '0'); // plain msgpack, without PHP's own objects

const HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
const MISFIT = 'expected environment.start or .reset before it';

/** Use + - * / only, each line evaluated as written, so that every language gets the same bits. */
final class Pendulum
{
    private int $x, $steps;
    private float $c, $s, $w;
    private bool $running = false;

    private function begin(mixed $seed): void
    {
        if (!is_int($seed) || $seed < 0) throw new UnexpectedValueException('seed: expected an integer from 0');
        $this->x = 1 + $seed % 2147483646;
        $this->draw();
        $t = $this->draw();
        $q = 1.0 + $t * $t;
        [$this->c, $this->s, $this->w] = [($t * $t - 1.0) / $q, 2.0 * $t / $q, $this->draw()];
        [$this->steps, $this->running] = [0, true];
    }

    private function draw(): float
    {
        $this->x = 16807 * $this->x % 2147483647;
        return 2.0 * $this->x / 2147483647 - 1.0;
    }

    private function advance(float $torque): float
    {
        $u = min(max($torque, -2.0), 2.0);
        $this->w = min(max($this->w + (15.0 * $this->s + 3.0 * $u) * 0.05, -8.0), 8.0);
        $k = $this->w * 0.025;
        [$q, $p] = [1.0 + $k * $k, 1.0 - $k * $k];
        [$c, $s] = [$this->c, $this->s];
        [$this->c, $this->s] = [($p * $c - 2.0 * $k * $s) / $q, ($p * $s + 2.0 * $k * $c) / $q];
        $this->running = ++$this->steps < 200;
        return -(2.0 * (1.0 - $this->c) + 0.1 * $this->w * $this->w + 0.001 * $u * $u);
    }

    private static function box(string $id, float $low, float $high): array
    {
        return ['id' => $id, 'space' => ['type' => 'box', 'shape' => [], 'dtype' => '<f8', 'low' => $low, 'high' => $high]];
    }

    private function state(array $rewards): array
    {
        $readings = [[$this->c, $this->s, $this->w]];
        return ['readings' => $readings, 'rewards' => $rewards, 'ticks' => $this->steps, 'truncated' => !$this->running];
    }

    private static function torque(array $body): float
    {
        $rows = $body['setpoints'] ?? null;
        if ($rows === [[]] && ($body['actuators'] ?? null) === []) return 0.0; // a step may give none
        $u = $rows[0][0] ?? null;
        $one = is_array($rows) && count($rows) === 1 && is_array($rows[0]) && count($rows[0]) === 1;
        if (!$one || !(is_int($u) || is_float($u)) || is_nan((float) $u))
            throw new UnexpectedValueException('torque: expected one number');
        return (float) $u;
    }

    /** Return the body of the answer, null for a call that there is not; what is thrown becomes an ERROR. */
    public function answer(string $call, array $body): ?array
    {
        switch ($call) {
            case 'environment.start':
                $this->begin($body['seed'] ?? null);
                return [
                    'sensors' => [self::box('cos', -1.01, 1.01), self::box('sin', -1.01, 1.01), self::box('speed', -8, 8)],
                    'actuators' => [self::box('torque', -2, 2) + ['value' => 0.0]],
                    'rewards' => [self::box('balance', -11, 1)],
                    'readings' => [[$this->c, $this->s, $this->w]],
                ];
            case 'environment.reset':
                $this->begin($body['seed'] ?? null);
                return $this->state([]);
            case 'environment.update':
                if (!$this->running) throw new UnexpectedValueException(MISFIT);
                return $this->state([[$this->advance(self::torque($body))]]);
            case 'environment.shutdown':
                $this->running = false;
                return [];
        }
        return null;
    }
}

// -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
function unpacked(string $frame): array
{
    $value = $frame === '' ? [] : @msgpack_unpack($frame);
    return is_array($value) ? $value : throw new UnexpectedValueException('expected a map or an array in msgpack');
}

/** Return head and body of the answer, packed; an empty body is as good as an empty map. */
function reply(Pendulum $pendulum, int $serial, string $call, string $frame): array
{
    try {
        $body = $pendulum->answer($call, unpacked($frame));
        if ($body !== null) return [msgpack_pack([REPLY, $serial]), $body === [] ? '' : msgpack_pack($body)];
        $failure = ['kind' => 'unknown_call', 'message' => "expected start, reset, update or shutdown, found $call"];
    } catch (UnexpectedValueException | TypeError $error) {
        $failure = ['kind' => 'protocol', 'message' => "$call: {$error->getMessage()}"];
    }
    return [msgpack_pack([ERROR, $serial]), msgpack_pack($failure)];
}

function variable(string $key): string
{
    return getenv("GANGLION_$key") ?: throw new UnexpectedValueException("expected GANGLION_$key");
}

function serve(): void
{
    $silence = (int) (getenv('GANGLION_SILENCE_MS') ?: '10000'); // the kernel says something every half second
    $dealer = new ZMQSocket(new ZMQContext(), ZMQ::SOCKET_DEALER);
    $dealer->setSockOpt(ZMQ::SOCKOPT_LINGER, 500); // ms for the last answer to leave
    $dealer->setSockOpt(ZMQ::SOCKOPT_RCVTIMEO, $silence);
    if (getenv('GANGLION_SERVER_KEY')) { // of a kernel on another machine
        $dealer->setSockOpt(ZMQ::SOCKOPT_CURVE_SERVERKEY, variable('SERVER_KEY'));
        $dealer->setSockOpt(ZMQ::SOCKOPT_CURVE_PUBLICKEY, variable('PUBLIC_KEY'));
        $dealer->setSockOpt(ZMQ::SOCKOPT_CURVE_SECRETKEY, variable('SECRET_KEY'));
    }
    [$endpoint, $name, $token] = [variable('ENDPOINT'), variable('NAME'), variable('TOKEN')];
    $dealer->connect($endpoint);
    $hello = ['version' => 1, 'role' => 'environment', 'name' => $name, 'token' => $token, 'language' => 'php'];
    $dealer->sendMulti(['', msgpack_pack([HELLO, 1]), msgpack_pack($hello)]);
    $pendulum = new Pendulum();
    [$asked, $kept] = [[], []];
    while (true) {
        $frames = $dealer->recvMulti();
        if ($frames === false) throw new UnexpectedValueException("the kernel has been silent for $silence ms");
        [$verb, $serial, $call] = unpacked($frames[1]) + [0, 0, null];
        if ($verb === CALL) {
            if ($frames !== $asked) // else it comes again: it gets the same answer, without another step
                [$asked, $kept] = [$frames, reply($pendulum, $serial, $call, $frames[2] ?? '')];
            $dealer->sendMulti([$frames[0], ...$kept]);
        } elseif ($verb === BEAT && $call === null) {
            $dealer->sendMulti(['', msgpack_pack([BEAT, $serial, 'here']), '']);
        } elseif ($verb === BYE) {
            $dealer->sendMulti(['', msgpack_pack([BYE, $serial]), '']);
            return;
        } elseif ($verb === ERROR) {
            throw new UnexpectedValueException('the kernel ends the connection: ' . unpacked($frames[2])['message']);
        }
    }
}

try {
    serve();
} catch (UnexpectedValueException | ZMQException $error) {
    fwrite(STDERR, "pendulum: {$error->getMessage()}\n");
    exit(1);
}
