# Play the reference pendulum with ZMQ::FFI and Data::MessagePack: join, declare, reset, update, leave.
use strict;
use warnings;
use Data::MessagePack;
use B ();
use ZMQ::FFI qw(ZMQ_DEALER ZMQ_LINGER ZMQ_RCVTIMEO);
use ZMQ::FFI::Constants qw(ZMQ_CURVE_PUBLICKEY ZMQ_CURVE_SECRETKEY ZMQ_CURVE_SERVERKEY);

my ($HELLO, $CALL, $REPLY, $ERROR, $BEAT, $BYE) = (1, 3, 4, 5, 8, 10);
my $msgpack = Data::MessagePack->new->prefer_integer(0)->utf8(1);    # doubles stay doubles, text is text

# -- the world: + - * / only, each line evaluated as written, so that every language gets the same bits --------------
my ($x, $c, $s, $w, $steps, $running);

sub draw {
    $x = 16807 * $x % 2147483647;
    return 2.0 * $x / 2147483647 - 1.0;
}

sub begin {
    my ($seed) = @_;
    die "seed: expected an integer from 0\n" unless defined $seed && $seed =~ /^\d+$/;
    $x = 1 + $seed % 2147483646;
    draw();
    my $t = draw();
    my $q = 1.0 + $t * $t;
    ($c, $s, $w) = (($t * $t - 1.0) / $q, 2.0 * $t / $q, draw());
    ($steps, $running) = (0, 1);
}

sub clip { my ($value, $bound) = @_; return $value < -$bound ? -$bound : $value > $bound ? $bound : $value }

sub advance {
    my $u = clip($_[0], 2.0);
    $w = clip($w + (15.0 * $s + 3.0 * $u) * 0.05, 8.0);
    my $k = $w * 0.025;
    my ($q, $p) = (1.0 + $k * $k, 1.0 - $k * $k);
    ($c, $s) = (($p * $c - 2.0 * $k * $s) / $q, ($p * $s + 2.0 * $k * $c) / $q);
    $running = ++$steps < 200;
    return -(2.0 * (1.0 - $c) + 0.1 * $w * $w + 0.001 * $u * $u);
}

# -- the calls: what is returned is the body of the REPLY, what is died of becomes an ERROR ---------------------------
sub box {
    my ($id, $low, $high, @more) = @_;
    return {id => $id, space => {type => 'box', shape => [], dtype => '<f8', low => $low, high => $high}, @more};
}

sub state {
    my $over = $running ? Data::MessagePack::false() : Data::MessagePack::true();
    return {readings => [[$c, $s, $w]], rewards => $_[0], ticks => $steps, truncated => $over};
}

sub torque_of {
    my ($body) = @_;
    my ($rows, $chosen) = @$body{qw(setpoints actuators)};
    my $row = ref $rows eq 'ARRAY' && @$rows == 1 ? $rows->[0] : undef;
    return 0.0 if ref $row eq 'ARRAY' && !@$row && ref $chosen eq 'ARRAY' && !@$chosen;    # a step may give none
    my $u = ref $row eq 'ARRAY' && @$row == 1 ? $row->[0] : undef;
    my $is_number = defined $u && !ref $u && !(B::svref_2object(\$u)->FLAGS & B::SVf_POK);    # a text may look like one
    die "torque: expected one number\n" unless $is_number && $u == $u;
    return $u;
}

my %calls = (
    'environment.start' => sub {
        begin($_[0]{seed});
        return {
            sensors => [box('cos', -1.01, 1.01), box('sin', -1.01, 1.01), box('speed', -8.0, 8.0)],
            actuators => [box('torque', -2.0, 2.0, value => 0.0)],
            rewards => [box('balance', -11.0, 1.0)],
            readings => [[$c, $s, $w]],
        };
    },
    'environment.reset' => sub { begin($_[0]{seed}); return state([]) },
    'environment.update' => sub {
        die "expected environment.start or .reset before it\n" unless $running;
        return state([[advance(torque_of($_[0]))]]);
    },
    'environment.shutdown' => sub { $running = 0; return {} },
);

sub answer {
    my ($serial, $call, $frame) = @_;
    my $known = join ', ', sort keys %calls;
    return [$ERROR, $serial], {kind => 'unknown_call', message => "expected one of $known, found $call"}
        unless $calls{$call};
    my $body = eval { $calls{$call}->($frame eq '' ? {} : $msgpack->unpack($frame)) };
    return defined $body ? ([$REPLY, $serial], $body) : ([$ERROR, $serial], {kind => 'protocol', message => "$call: $@"});
}

# -- the bus: receive, answer, repeat ---------------------------------------------------------------------------------
my ($endpoint, $name, $token) =
    map { $ENV{"GANGLION_$_"} // die "pendulum: expected GANGLION_$_\n" } qw(ENDPOINT NAME TOKEN);
utf8::decode($name);
my $silence_ms = $ENV{GANGLION_SILENCE_MS} // 10000;    # the kernel says something every half second
my $context = ZMQ::FFI->new;
my $dealer = $context->socket(ZMQ_DEALER);
$dealer->set(ZMQ_LINGER, 'int', 500);                   # ms for the last answer to leave
$dealer->set(ZMQ_RCVTIMEO, 'int', $silence_ms);
if ($ENV{GANGLION_SERVER_KEY}) {                        # of a kernel on another machine
    $dealer->set(ZMQ_CURVE_SERVERKEY, 'string', $ENV{GANGLION_SERVER_KEY});
    $dealer->set(ZMQ_CURVE_PUBLICKEY, 'string', $ENV{GANGLION_PUBLIC_KEY});
    $dealer->set(ZMQ_CURVE_SECRETKEY, 'string', $ENV{GANGLION_SECRET_KEY});
}
$dealer->connect($endpoint);    # dies with the reason where something fails, as do the others
sub say_to { my ($to, $head, $body) = @_; $dealer->send_multipart([$to, $msgpack->pack($head), $msgpack->pack($body)]) }

say_to('', [$HELLO, 1], {version => 1, role => 'environment', name => $name, token => $token, language => 'perl'});
my ($asked, @kept) = ('');
while (1) {
    my @frames = eval { $dealer->recv_multipart };
    next if $@ && $!{EINTR};
    die $!{EAGAIN} ? "pendulum: the kernel has been silent for $silence_ms ms\n" : "pendulum: $@" if $@;
    my ($verb, $serial, $call) = @{$msgpack->unpack($frames[1])};
    if ($verb == $CALL) {
        my $whole = join "\0", map { length($_) . ":$_" } @frames;
        ($asked, @kept) = ($whole, answer($serial, $call, $frames[2] // '')) if $whole ne $asked; # else it comes again
        say_to($frames[0], @kept);
    } elsif ($verb == $BEAT && !defined $call) {
        say_to('', [$BEAT, $serial, 'here'], {});
    } elsif ($verb == $BYE) {
        say_to('', [$BYE, $serial], {});
        last;
    } elsif ($verb == $ERROR) {
        die "pendulum: the kernel ends the connection: ", $msgpack->unpack($frames[2])->{message}, "\n";
    }
}
$dealer->close;
