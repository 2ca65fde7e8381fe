"""Relays between a broker and its peers, in memory: peers cannot tell them from the broker itself."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Climb, Close, Effect, Link, Send, State
from ganglion.broker.relay import Relay
from ganglion.limits import BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S, OPEN_CALLS
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Hello, Near, Nothing, Overdue, Watch
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

GOVERNOR, BRAIN = "farm/governor", "farm/brain/ada"
CONTROLLER, MUSCLE, GROUND = "farm/controller/0", "farm/muscle/ada/0", "farm/environment/hut/0"
SECOND, OTHER = "farm/controller/1", "farm/muscle/ada/1"
CAST = {
    GOVERNOR: Role.GOVERNOR,
    BRAIN: Role.BRAIN,
    CONTROLLER: Role.CONTROLLER,
    MUSCLE: Role.MUSCLE,
    GROUND: Role.ENVIRONMENT,
    SECOND: Role.CONTROLLER,
    OTHER: Role.MUSCLE,
}
NODES = {CONTROLLER: 0, MUSCLE: 0, GROUND: 0, SECOND: 1, OTHER: 1, BRAIN: None, GOVERNOR: None}
CALLS = ("muscle.act", "environment.update", "brain.think", "governor.boundary", "brain.policy")
RIGHT = [(CONTROLLER, MUSCLE, 0), (MUSCLE, BRAIN, 2), (CONTROLLER, GROUND, 1)]
Said = tuple[str, str, Verb, int, str, Any]


def digest(token: str) -> bytes:
    """Return what the register keeps of a token."""
    return hashlib.sha256(token.encode()).digest()


class Tree:
    """Hold a broker and its relays; each peer is at the relay of its node, or at the broker itself."""

    def __init__(self, relays: int) -> None:
        self.now_s = 0.0
        self.top = Broker(digest("boss"), "1", 1, 0.0)
        self.relays = [Relay("1", 1, 0.0) for _ in range(relays)]
        for i in range(relays):
            self.top.admit(Admission(f"relay/{i}", Role.RELAY, "", digest(f"r{i}"), curve_key=f"key {i}"))
        self.owner: dict[int, Broker] = {}  # id of a link -> who has it
        self.above: dict[int, Link] = {}  # id of an uplink -> its other end at the top
        self.below: dict[int, tuple[Relay, Link]] = {}  # id of that -> the uplink
        self.links: dict[str, Link] = {}
        self.said: dict[str, list[Said]] = {}
        self.crossed = 0  # messages between relays and the top
        self.doing: deque[tuple[Broker, Effect]] = deque()

    def do(self, who: Broker, effects: Sequence[Effect]) -> None:
        """Carry out effects, and all that comes of them."""
        self.doing += [(who, effect) for effect in effects]
        while self.doing:
            who, effect = self.doing.popleft()
            if isinstance(effect, Climb):
                assert isinstance(who, Relay)
                link, more = self.top.connect(self.now_s)
                link.curve_key = f"key {self.relays.index(who)}"
                self.above[id(effect.link)], self.below[id(link)] = link, (who, effect.link)
                self.doing += [(self.top, one) for one in more]
            elif isinstance(effect, Send):
                self.send(effect)
            elif isinstance(effect, Close) and id(effect.link) in self.above:
                self.above.pop(id(effect.link))  # as of a ROUTER: it hears nothing of it
        for broker in (self.top, *self.relays):
            broker.check()

    def send(self, effect: Send) -> None:
        link, frames = effect.link, effect.frames
        if id(link) in self.above:
            self.crossed += 1
            above = self.above[id(link)]
            self.doing += [(self.top, one) for one in self.top.receive(above, frames, self.now_s)]
        elif id(link) in self.below:
            self.crossed += 1
            relay, up = self.below[id(link)]
            self.doing += [(relay, one) for one in relay.descend(up, frames, self.now_s)]
        else:
            head = decode_head(frames[1])
            row = (frames[0].decode(), head.verb, head.serial, head.call, decode_map(frames[2]))
            name = next((name for name, one in self.links.items() if one is link), "?")
            self.said.setdefault(name, []).append((name, *row))

    def join(self, name: str, incarnation: int = 1, returns: bool = True) -> None:
        """Let a peer join at its node; it has left the one before."""
        parts = name.split("/")
        worker = int(parts[-1]) if parts[-1].isdigit() else None
        uid = parts[2] if len(parts) > 2 and parts[1] != "controller" else None
        place = Admission(name, CAST[name], "farm", digest(name), incarnation, uid, worker, None, False, "own", returns)
        self.top.admit(place)
        node = NODES[name] if self.relays else None
        who: Broker = self.top if node is None else self.relays[node]
        link, effects = who.connect(self.now_s)
        if node is None:
            link.curve_key = "own"
        self.owner[id(link)], self.links[name] = who, link
        self.do(who, effects)
        hello = Hello(1, CAST[name].value, name, name, features=["beats_in_call"])
        frames = [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)]
        self.do(who, who.receive(link, frames, self.now_s))

    def say(self, name: str, to: str, head: Head, message: Any = None) -> None:
        body = b"" if message is None else codec_of(type(message)).encode(message)
        link = self.links[name]
        who = self.owner[id(link)]
        self.do(who, who.receive(link, [to.encode(), encode_head(head), body], self.now_s))

    def lose(self, name: str) -> None:
        link = self.links[name]
        who = self.owner[id(link)]
        self.do(who, who.disconnect(link, "it closed the connection", self.now_s))

    def heard(self, name: str) -> list[Said]:
        """Return what a peer has heard since it was asked last."""
        return self.said.pop(name, [])

    def there(self, name: str) -> bool:
        """Say whether a peer has joined."""
        return name in self.links and self.links[name].state is State.JOINED

    def tick(self, passed_s: float = 0.25) -> None:
        self.now_s += passed_s
        for who in (*self.relays, self.top):
            self.do(who, who.tick(self.now_s))


@pytest.fixture
def tree() -> Tree:
    """Return a broker and two relays, with everybody there."""
    tree = Tree(2)
    for name in CAST:
        tree.join(name)
    for name in CAST:
        assert [Verb.WELCOME] == [row[2] for row in tree.heard(name)]
    tree.crossed = 0
    return tree


def row_of(tree: Tree, name: str) -> dict[str, Any]:
    """Return what `kernel.peers` says of a peer."""
    tree.heard(GOVERNOR)
    answer, _ = tree.top._peers(tree.links[GOVERNOR], Nothing(), tree.now_s)
    return next(row for row in answer.peers if row["name"] == name)


def test_what_two_peers_of_a_node_say_stays_there(tree: Tree) -> None:
    """A call and its answer between two peers of a node are heard by them alone, and told of once a second."""
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))
    assert [(MUSCLE, CONTROLLER, Verb.CALL, 7, "muscle.act", {})] == tree.heard(MUSCLE)
    tree.say(MUSCLE, CONTROLLER, Head(Verb.REPLY, 7))
    assert [(CONTROLLER, MUSCLE, Verb.REPLY, 7, "", {})] == tree.heard(CONTROLLER)
    assert 0 == tree.crossed

    tree.say(CONTROLLER, GROUND, Head(Verb.CALL, 8, "environment.update"))
    for _ in range(4):
        tree.tick()
    row = row_of(tree, CONTROLLER)
    assert ([GROUND], {MUSCLE: 1, GROUND: 1}, 2) == (row["waiting_for"], row["sent"], row["stayed"])
    assert (1, None) == (row_of(tree, MUSCLE)["stayed"], row_of(tree, BRAIN)["stayed"])


@pytest.mark.parametrize("callee", [BRAIN, GOVERNOR, "farm/environment/shed/0"])
def test_all_else_goes_up(tree: Tree, callee: str) -> None:
    """What is for a peer of no node here is decided by the kernel's broker."""
    caller, call = (MUSCLE, "brain.think") if callee == BRAIN else (CONTROLLER, "governor.boundary")
    tree.say(caller, callee, Head(Verb.CALL, 7, call))

    assert 0 < tree.crossed
    if callee in CAST:
        assert [(callee, caller, Verb.CALL, 7, call, {})] == tree.heard(callee)
        tree.say(callee, caller, Head(Verb.REPLY, 7))
        assert [(caller, callee, Verb.REPLY, 7, "", {})] == tree.heard(caller)
    else:
        assert ["unreachable"] == [row[5]["kind"] for row in tree.heard(caller)]


def test_a_relay_keeps_the_rights_and_the_bounds(tree: Tree) -> None:
    """What a peer may not say to another of its node is refused, and too many open calls are `busy`, by the relay."""
    tree.say(GROUND, CONTROLLER, Head(Verb.CALL, 7, "controller.start"))
    tree.say(GROUND, MUSCLE, Head(Verb.REPLY, 7))
    kinds = [row[5].get("kind") for row in tree.heard(GROUND)]
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 1, "muscle.act"))
    tree.relays[0].joined[CONTROLLER].routes[MUSCLE.encode()].limit = 1
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 2, "muscle.act"))

    assert ["forbidden"] == kinds
    assert [("busy", 2)] == [(row[5]["kind"], row[3]) for row in tree.heard(CONTROLLER)]
    assert OPEN_CALLS > 1


@pytest.mark.parametrize(("returns", "open_call"), [(True, True), (True, False), (False, True)])
def test_a_lost_peer_is_told_by_the_kernel(tree: Tree, returns: bool, open_call: bool) -> None:
    """Who awaits the answer of a peer of its node hears from the kernel that it is lost, and whether it returns."""
    tree.join(MUSCLE, 2, returns)
    tree.said.clear()
    tree.say(GOVERNOR, "", Head(Verb.CALL, 1, "kernel.watch"), Watch([MUSCLE]))
    tree.heard(GOVERNOR)
    if open_call:
        tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))
    tree.lose(MUSCLE)

    lost = [row for row in tree.heard(CONTROLLER) if row[2] is Verb.LOST]
    told = [row for row in tree.heard(GOVERNOR) if row[2] is Verb.LOST]
    assert [(MUSCLE, returns, "it closed the connection")] * open_call == [
        (row[5]["peer"], row[5].get("returns", False), row[5]["reason"]) for row in lost
    ]
    assert [open_call] == [not row[5].get("idle", False) for row in told]


def test_a_call_to_who_is_absent_is_answered_by_his_successor(tree: Tree) -> None:
    """A call that went up while its callee was absent is answered over the kernel, though both are on one node."""
    tree.lose(MUSCLE)
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))
    assert [("busy", True)] == [(row[5]["kind"], row[5]["data"]["absent"]) for row in tree.heard(CONTROLLER)]
    tree.join(MUSCLE, 2)
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))
    tree.heard(MUSCLE)
    tree.say(MUSCLE, CONTROLLER, Head(Verb.REPLY, 7))

    assert [(CONTROLLER, MUSCLE, Verb.REPLY, 7, "", {})] == tree.heard(CONTROLLER)


@pytest.mark.parametrize("awaited", [True, False])
def test_who_is_late_is_named_by_who_awaits_him(tree: Tree, awaited: bool) -> None:
    """A peer may accuse another of its node while it awaits his answer, and only then."""
    if awaited:
        tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))
    tree.say(CONTROLLER, "", Head(Verb.CALL, 8, "kernel.overdue"), Overdue(MUSCLE, "muscle.act", 3.0))

    # there is no supervisor that could do something about it
    assert ["busy" if awaited else "forbidden"] == [row[5]["kind"] for row in tree.heard(CONTROLLER)]


def test_only_relays_speak_for_others(tree: Tree) -> None:
    """What a relay tells of a peer is refused from anybody else."""
    tree.say(BRAIN, "", Head(Verb.TELL, 0, "kernel.near"), Near({}, [], [], "gone"))

    assert tree.there(BRAIN)
    assert BRAIN in tree.top.joined


def test_who_belongs_to_the_machine_of_the_kernel_joins_no_relay(tree: Tree) -> None:
    """A relay's key stands for those of other machines: a token for a peer without one is refused there."""
    tree.top.admit(Admission("farm/store", Role.STORE, "farm", digest("s")))
    relay = tree.relays[0]
    tree.links["farm/store"], effects = relay.connect(tree.now_s)
    tree.do(relay, effects)
    hello = codec_of(Hello).encode(Hello(1, "store", "farm/store", "s"))
    frames = [b"", encode_head(Head(Verb.HELLO, 1)), hello]
    tree.do(relay, relay.receive(tree.links["farm/store"], frames, tree.now_s))

    assert [(Verb.ERROR, "token")] == [(row[2], row[5]["kind"]) for row in tree.heard("farm/store")]
    assert not tree.there("farm/store")


def test_a_relay_asks_its_own_peers(tree: Tree) -> None:
    """A peer that is silent is lost by its relay; the kernel's broker has the relay's word for the others."""
    for _ in range(int((BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S) / 0.25) + 2):
        tree.tick()
        for name in CAST:
            if name != MUSCLE and [row for row in tree.heard(name) if row[2] is Verb.BEAT]:
                tree.say(name, "", Head(Verb.BEAT, 0, "here"))

    assert set(CAST) - {MUSCLE} == set(tree.top.joined)


def test_who_joins_anew_at_its_relay_has_lost_its_connection(tree: Tree) -> None:
    """A peer that works is excused from answers, until it comes by another connection than that which it works for."""
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))

    def wait(ticks: int) -> None:
        for _ in range(ticks):
            tree.tick()
            for name in set(CAST) - {MUSCLE}:
                tree.say(name, "", Head(Verb.BEAT, 0, "here"))

    wait(int((BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S) / 0.25) + 2)
    tree.join(MUSCLE, 1)
    assert [Verb.ERROR] == [row[2] for row in tree.heard(MUSCLE)][-1:]
    assert MUSCLE in tree.top.joined
    wait(1)
    assert MUSCLE not in tree.top.joined
    tree.join(MUSCLE, 1)
    assert [Verb.WELCOME] == [row[2] for row in tree.heard(MUSCLE)][-1:]


@pytest.mark.parametrize("end", ["bye", "fall", "refused"])
def test_a_peer_goes_with_its_uplink(tree: Tree, end: str) -> None:
    """Who leaves, whose uplink ends, and who is refused has no connection any more, and no place in any book."""
    relay, link = tree.relays[0], tree.links[MUSCLE]
    tree.say(CONTROLLER, MUSCLE, Head(Verb.CALL, 7, "muscle.act"))
    tree.said.clear()
    if end == "bye":
        tree.say(MUSCLE, "", Head(Verb.BYE, 1))
        assert [Verb.BYE] == [row[2] for row in tree.heard(MUSCLE)]
        assert MUSCLE not in tree.top.joined
    elif end == "fall":
        tree.do(relay, relay.fall(relay._ups[link.key], "the network", tree.now_s))
    else:
        tree.join(MUSCLE, 1)  # the one before is still there
        assert [Verb.ERROR] == [row[2] for row in tree.heard(MUSCLE)]
        link = tree.links[MUSCLE]

    assert State.GONE is link.state
    if end == "bye":
        assert [Verb.LOST] == [row[2] for row in tree.heard(CONTROLLER)]
    elif end == "fall":  # he who waits asks again, and the kernel knows what has become of the other
        assert ["busy"] == [row[5]["kind"] for row in tree.heard(CONTROLLER)]


names = st.sampled_from(sorted(CAST))
acts = st.one_of(
    st.tuples(st.just("call"), names, names, st.sampled_from(CALLS)),
    st.tuples(st.just("answer"), names, names, st.integers(0, 3)),
    st.tuples(
        st.just("right"), st.sampled_from([(CONTROLLER, MUSCLE, 0), (MUSCLE, BRAIN, 2), (CONTROLLER, GROUND, 1)])
    ),
    st.tuples(st.just("lose"), names),
    st.tuples(st.just("join"), names, st.booleans()),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("watch"), names, names),
    st.tuples(st.just("accuse"), names, names),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(acts, max_size=40))
def test_peers_cannot_tell_relays_from_the_broker(done: list[tuple[Any, ...]]) -> None:
    """Whatever peers do, each hears the same, in the same order from each source, with relays and without."""
    trees = [Tree(0), Tree(2)]
    incarnations = dict.fromkeys(CAST, 1)
    serial = 1
    open_calls: list[tuple[str, str, int]] = []
    for tree in trees:
        for name in CAST:
            tree.join(name)
    for kind, *more in done:
        name = more[0][0] if kind == "right" else more[0]
        serial += 1
        if kind == "join":
            if trees[0].there(name):
                continue
            incarnations[name] += 1
            for tree in trees:
                tree.join(name, incarnations[name], more[1])
        elif not trees[0].there(name):
            continue
        elif kind in ("call", "right"):
            to, call = (more[1], more[2]) if kind == "call" else (more[0][1], CALLS[more[0][2]])
            if len(trees[0].links[name].refusals_s) > 7:
                continue  # where refusals are counted is not the same
            open_calls.append((name, to, serial))
            for tree in trees:
                tree.say(name, to, Head(Verb.CALL, serial, call))
        elif kind == "answer":
            if found := [one for one in open_calls if one[1] == name]:
                caller, _, asked = found[more[2] % len(found)]
                for tree in trees:
                    tree.say(name, caller, Head(Verb.REPLY, asked))
        elif kind == "watch":
            for tree in trees:
                tree.say(name, "", Head(Verb.CALL, serial, "kernel.watch"), Watch([more[1]]))
        elif kind == "accuse":
            for tree in trees:
                tree.say(name, "", Head(Verb.CALL, serial, "kernel.overdue"), Overdue(more[1], "muscle.act", 3.0))
        elif kind == "lose":
            for tree in trees:
                tree.lose(name)
        elif kind == "leave":
            for tree in trees:
                tree.say(name, "", Head(Verb.BYE, 1))
        without, relayed = ({name: tree.heard(name) for name in CAST} for tree in trees)
        assert without == relayed, (kind, more)
        assert [name for name in CAST if trees[0].there(name)] == [name for name in CAST if trees[1].there(name)]
