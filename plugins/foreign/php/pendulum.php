<?php declare(strict_types=1);
// Play the reference pendulum with php-zmq and php-msgpack: join, declare, reset, update, leave.
ini_set('msgpack.php_only', '0'); // plain msgpack, without PHP's own objects

const HELLO = 1, CALL = 3, REPLY = 4, ERROR = 5, BEAT = 8, BYE = 10;
const SENSORS = ['cos: Box(-1.01, 1.01)', 'sin: Box(-1.01, 1.01)', 'speed: Box(-8, 8)'];
const DECLARED = ['sensors' => SENSORS, 'actuators' => ['torque: Box(-2, 2)'], 'rewards' => ['balance: Box(-11, 1)']];

/** Use + - * / only, each line evaluated as written, so that every language gets the same bits. */
final class Pendulum {
    private int $x, $steps;
    private float $c, $s, $w;

    private function draw(): float { return 2.0 * ($this->x = 16807 * $this->x % 2147483647) / 2147483647 - 1.0; }

    private function begin(int $seed): array {
        $this->x = 1 + $seed % 2147483646;
        [, $t] = [$this->draw(), $this->draw()];
        $q = 1.0 + $t * $t;
        [$this->c, $this->s, $this->w, $this->steps] = [($t * $t - 1.0) / $q, 2.0 * $t / $q, $this->draw(), 0];
        return [];
    }

    private function advance(float $torque): array {
        [$c, $s, $u] = [$this->c, $this->s, min(max($torque, -2.0), 2.0)];
        $w = $this->w = min(max($this->w + (15.0 * $s + 3.0 * $u) * 0.05, -8.0), 8.0);
        $k = $w * 0.025;
        [$q, $p] = [1.0 + $k * $k, 1.0 - $k * $k];
        [$this->c, $this->s] = [($p * $c - 2.0 * $k * $s) / $q, ($p * $s + 2.0 * $k * $c) / $q];
        ++$this->steps;
        return [[-(2.0 * (1.0 - $this->c) + 0.1 * $w * $w + 0.001 * $u * $u)]];
    }

    /** Return the body of the answer; what is thrown becomes an ERROR, as where no episode was begun. */
    public function answer(string $call, array $body): array {
        $rewards = match ($call) {
            'environment.start', 'environment.reset' => $this->begin($body['seed']),
            'environment.update' => $this->advance($body['setpoints'][0][0]),
            'environment.shutdown' => null,
        };
        if ($rewards === null) return ['done' => true];
        $state = ['readings' => [[$this->c, $this->s, $this->w]], 'rewards' => $rewards];
        $state += ['ticks' => $this->steps, 'truncated' => $this->steps === 200];
        return ($call === 'environment.start' ? DECLARED : []) + $state;
    }
}

function reply(Pendulum $pendulum, int $serial, string $call, string $frame): array {
    try {
        return [[REPLY, $serial], $pendulum->answer($call, $frame === '' ? [] : @msgpack_unpack($frame))];
    } catch (Error $error) {
        return [[ERROR, $serial], ['kind' => 'protocol', 'message' => "$call: {$error->getMessage()}"]];
    }
}

$dealer = new ZMQSocket(new ZMQContext(), ZMQ::SOCKET_DEALER);
$dealer->setSockOpt(ZMQ::SOCKOPT_LINGER, 500); // ms for the last answer to leave
$dealer->setSockOpt(ZMQ::SOCKOPT_RCVTIMEO, (int) (getenv('GANGLION_SILENCE_MS') ?: 10000));
foreach (getenv('GANGLION_SERVER_KEY') ? ['SERVER', 'PUBLIC', 'SECRET'] : [] as $key) // of a kernel on another machine
    $dealer->setSockOpt(constant("ZMQ::SOCKOPT_CURVE_{$key}KEY"), getenv("GANGLION_{$key}_KEY"));
$dealer->connect(getenv('GANGLION_ENDPOINT'));
$who = ['version' => 1, 'role' => 'environment', 'name' => getenv('GANGLION_NAME'), 'token' => getenv('GANGLION_TOKEN')];
$dealer->sendMulti(['', msgpack_pack([HELLO, 1]), msgpack_pack($who + ['language' => 'php'])]);
for ([$pendulum, $asked, $verb] = [new Pendulum(), [], 0]; $verb !== BYE;) {
    $frames = $dealer->recvMulti() ?: throw new Exception('the kernel has been silent for too long');
    [$verb, $serial, $call] = msgpack_unpack($frames[1]) + [0, 0, ''];
    if ($verb === ERROR) throw new Exception('the kernel ends the connection: ' . msgpack_unpack($frames[2])['message']);
    if ($verb === CALL && $frames !== $asked) // else it comes again: it gets the same answer, without another step
        [$asked, $kept] = [$frames, [$frames[0], ...array_map('msgpack_pack', reply($pendulum, $serial, $call, $frames[2]))]];
    if (in_array($verb, [CALL, BEAT, BYE])) $dealer->sendMulti($verb === CALL ? $kept : $frames);
}
