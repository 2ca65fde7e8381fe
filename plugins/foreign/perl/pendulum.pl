# Play the reference pendulum with ZMQ::FFI and Data::MessagePack: join, declare, reset, update, leave.
use strict; use warnings;
use Data::MessagePack;
use ZMQ::FFI qw(ZMQ_DEALER ZMQ_LINGER ZMQ_RCVTIMEO);
use ZMQ::FFI::Constants qw(ZMQ_CURVE_PUBLICKEY ZMQ_CURVE_SECRETKEY ZMQ_CURVE_SERVERKEY);

my ($HELLO, $CALL, $REPLY, $ERROR, $BEAT, $BYE) = (1, 3, 4, 5, 8, 10);
my $msgpack = Data::MessagePack->new->prefer_integer(0)->utf8(1);    # doubles stay doubles, text is text

# -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits --------------
my ($x, $c, $s, $w, $steps);

sub draw { $x = 16807 * $x % 2147483647; return 2.0 * $x / 2147483647 - 1.0 }

sub begin {
    $x = 1 + $_[0] % 2147483646;
    draw();
    my $t = draw();
    my $q = 1.0 + $t * $t;
    ($c, $s, $w, $steps) = (($t * $t - 1.0) / $q, 2.0 * $t / $q, draw(), 0);
    return [];
}

sub clip { my ($value, $bound) = @_; return $value < -$bound ? -$bound : $value > $bound ? $bound : $value }

sub advance {
    die "expected environment.start before it\n" unless defined $steps;
    my $u = clip($_[0], 2.0);
    $w = clip($w + (15.0 * $s + 3.0 * $u) * 0.05, 8.0);
    my $k = $w * 0.025;
    my ($q, $p) = (1.0 + $k * $k, 1.0 - $k * $k);
    ($c, $s, $steps) = (($p * $c - 2.0 * $k * $s) / $q, ($p * $s + 2.0 * $k * $c) / $q, $steps + 1);
    return [[-(2.0 * (1.0 - $c) + 0.1 * $w * $w + 0.001 * $u * $u)]];
}

# -- the calls: what is returned is the body of the REPLY, what is died of becomes an ERROR ---------------------------
my @sensors = ('cos: Box(-1.01, 1.01)', 'sin: Box(-1.01, 1.01)', 'speed: Box(-8, 8)');
my %declared = (sensors => \@sensors, actuators => ['torque: Box(-2, 2)'], rewards => ['balance: Box(-11, 1)']);

sub state {
    my $over = $steps == 200 ? Data::MessagePack::true() : Data::MessagePack::false();
    return {readings => [[$c, $s, $w]], rewards => $_[0], ticks => $steps, truncated => $over, @_[1 .. $#_]};
}

my %calls = (
    'environment.start' => sub { state(begin($_[0]{seed}), %declared) },
    'environment.reset' => sub { state(begin($_[0]{seed})) },
    'environment.update' => sub { state(advance($_[0]{setpoints}[0][0])) },
    'environment.shutdown' => sub { {} },
);

# -- the bus: receive, answer, repeat; what fails dies with its reason -------------------------------------------------
my $context = ZMQ::FFI->new;
my $dealer = $context->socket(ZMQ_DEALER);
$dealer->set(ZMQ_LINGER, 'int', 500);                                           # ms for the last answer to leave
$dealer->set(ZMQ_RCVTIMEO, 'int', $ENV{GANGLION_SILENCE_MS} // 10000);          # the kernel speaks twice a second
my %curve = (SERVER => ZMQ_CURVE_SERVERKEY, PUBLIC => ZMQ_CURVE_PUBLICKEY, SECRET => ZMQ_CURVE_SECRETKEY);
$dealer->set($curve{$_}, 'string', $ENV{"GANGLION_${_}_KEY"}) for grep { $ENV{"GANGLION_${_}_KEY"} } keys %curve;
$dealer->connect($ENV{GANGLION_ENDPOINT});
my %hello = (version => 1, role => 'environment', language => 'perl');
@hello{qw(name token)} = map { utf8::decode(my $text = $ENV{$_}); $text } qw(GANGLION_NAME GANGLION_TOKEN);
$dealer->send_multipart(['', map { $msgpack->pack($_) } [$HELLO, 1], \%hello]);
for (my ($verb, $asked, @kept) = (0, ''); $verb != $BYE;) {
    my @frames = $dealer->recv_multipart;
    ($verb, my $serial, my $call) = @{$msgpack->unpack($frames[1])};
    die "the kernel ends the connection: ", $msgpack->unpack($frames[2])->{message}, "\n" if $verb == $ERROR;
    if ($verb == $CALL && $asked ne join "\0", @frames) {    # else it comes again: it gets the same answer
        my $body = eval { $calls{$call}->(length $frames[2] ? $msgpack->unpack($frames[2]) : {}) };
        my @answer = $body ? ([$REPLY, $serial], $body) : ([$ERROR, $serial], {kind => 'protocol', message => "$call: $@"});
        ($asked, @kept) = (join("\0", @frames), $frames[0], map { $msgpack->pack($_) } @answer);
    }
    $dealer->send_multipart($verb == $CALL ? \@kept : \@frames) if grep { $verb == $_ } $CALL, $BEAT, $BYE;
}
$dealer->close;
