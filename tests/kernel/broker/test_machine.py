"""A broker under random events: peers come, talk, die, return; the broker itself is replaced by another one."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Close, Effect, Link, Send, State
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head, packed
from ganglion.wire.messages import Failure, Hello, Lost, Overdue, Subscribe, Watch, Withdraw
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

BOSS, GOVERNOR, STORE = "supervisor", "farm/governor", "farm/store"
CONTROLLERS = ("farm/controller/0", "farm/controller/1")
MUSCLES = ("farm/muscle/ada/0", "farm/muscle/ada/1")
BRAIN = "farm/brain/ada"
CAST = {
    GOVERNOR: Role.GOVERNOR,
    CONTROLLERS[0]: Role.CONTROLLER,
    CONTROLLERS[1]: Role.CONTROLLER,
    MUSCLES[0]: Role.MUSCLE,
    MUSCLES[1]: Role.MUSCLE,
    BRAIN: Role.BRAIN,
    STORE: Role.STORE,
    "looker": Role.OBSERVER,
}
RETURNING = {GOVERNOR, CONTROLLERS[0], MUSCLES[0], BRAIN, STORE}
CALLS = {
    (GOVERNOR, CONTROLLERS[0]): "controller.start",
    (GOVERNOR, CONTROLLERS[1]): "controller.start",
    (GOVERNOR, BRAIN): "brain.store",
    (CONTROLLERS[0], GOVERNOR): "governor.boundary",
    (CONTROLLERS[0], MUSCLES[0]): "muscle.act",
    (CONTROLLERS[1], MUSCLES[1]): "muscle.act",
    (MUSCLES[0], BRAIN): "brain.think",
    (MUSCLES[1], BRAIN): "brain.think",
}
names = st.sampled_from(sorted(CAST))
callings = st.sampled_from(sorted(CALLS))
pairs = st.one_of(callings, callings, callings, st.tuples(names, names))
Said = tuple[str, bytes, Head, bytes]


def digest(token: str) -> bytes:
    """Return what the register keeps of a token."""
    return hashlib.sha256(token.encode()).digest()


def admission(name: str, incarnation: int, returns: bool) -> Admission:
    """Return what is announced of a name; its token is the name, whatever its incarnation."""
    parts = name.split("/")
    worker = int(parts[-1]) if parts[-1].isdigit() else None
    uid = "ada" if CAST[name] in (Role.MUSCLE, Role.BRAIN) else None
    return Admission(
        name, CAST[name], "farm", digest(name), incarnation, uid, worker, returns=returns and name in RETURNING
    )


class BrokerMachine(RuleBasedStateMachine):
    """Hold independent books of who is there, who is absent, and which calls are open, against the broker's."""

    @initialize()
    def begin(self) -> None:
        self.now_s, self.serial = 0.0, 0
        self.broker = Broker(digest("boss"), "1", 1, 0.0)
        self.incarnations = dict.fromkeys(CAST, 0)
        self.admitted: set[str] = set()
        self.left: set[str] = set()
        self.former: list[tuple[str, Link]] = []  # connections that have ended, or were ended by a successor
        self.outcomes: Counter[tuple[str, int]] = Counter()  # of CALLs as they were said: caller, serial
        self.clear()
        self.join_boss()
        for name in sorted(CAST):
            self.join(name, True, 0)

    def clear(self) -> None:
        self.links: dict[str, Link] = {}
        self.open: dict[tuple[str, str], list[int]] = {}  # (caller, callee) -> serials
        self.watching: dict[str, set[str]] = {}
        self.reading: set[str] = set()

    # -- the books ----------------------------------------------------------------------------------------------------
    def absent(self, name: str) -> bool:
        awaited = name in self.admitted and name in RETURNING and name not in self.left
        return awaited and name not in self.links

    def said(self, effects: list[Effect]) -> list[Said]:
        """Return receiver, source, head and body of what is said, and count what it is the outcome of."""
        said = [
            (e.link.name, e.frames[0], decode_head(e.frames[1]), e.frames[2]) for e in effects if isinstance(e, Send)
        ]
        for to, _, head, _ in said:
            if head.verb in (Verb.REPLY, Verb.ERROR) and head.serial and not to.startswith("stranger"):
                self.outcomes[to, head.serial] += 1
        return said

    def say(self, name: str, to: str, head: Head, message: Any = None) -> list[Said]:
        body = b"" if message is None else codec_of(type(message)).encode(message)
        link = self.links[name]
        effects = self.broker.receive(link, [to.encode(), encode_head(head), body], self.now_s)
        said = self.said(effects)
        if any(isinstance(effect, Close) and effect.link is link for effect in effects):
            self.check_losses(said, name, self.forget(name))
        return said

    def forget(self, name: str) -> set[str]:
        """Take a peer out of the books; returns who has to hear of it."""
        self.former.append((name, self.links.pop(name)))
        told = {watcher for watcher, watched in self.watching.items() if name in watched and watcher != name}
        for (caller, callee), serials in self.open.items():
            if callee == name and serials:
                told.add(caller)
                self.outcomes.update((caller, serial) for serial in serials)
        self.open = {pair: serials for pair, serials in self.open.items() if name not in pair}
        self.watching.pop(name, None)
        self.reading.discard(name)
        return told - {name}

    def check_losses(self, said: list[Said], name: str, told: set[str]) -> None:
        """Hold who is told of a loss, and of a return, against the books."""
        losses = [(to, codec_of(Lost).decode(body)) for to, _, head, body in said if head.verb is Verb.LOST]
        assert told == {to for to, lost in losses if lost.peer == name}
        assert len(told) == sum(lost.peer == name for _, lost in losses)
        awaited = name in self.admitted and name in RETURNING and name not in self.left
        assert all(lost.returns is awaited for _, lost in losses if lost.peer == name)

    # -- coming and going ---------------------------------------------------------------------------------------------
    def join_boss(self) -> None:
        """Let the supervisor join; it never leaves before the broker."""
        link, _ = self.broker.connect(self.now_s)
        hello = Hello(1, "supervisor", BOSS, "boss")
        frames = [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)]
        assert Verb.WELCOME in [head.verb for _, _, head, _ in self.said(self.broker.receive(link, frames, self.now_s))]
        self.boss = link

    @rule(name=names, newer=st.booleans(), behind=st.sampled_from([0, 0, 0, 1]))
    def join(self, name: str, newer: bool, behind: int) -> None:
        """Join under a name: as the next incarnation, as the same one again, or as one that has been succeeded."""
        if newer or not self.incarnations[name]:
            self.announce(name)
        there = name in self.links
        current = self.links[name].peer.incarnation if there else 0  # type: ignore[union-attr]
        incarnation = self.incarnations[name] - behind
        link, _ = self.broker.connect(self.now_s)
        hello = Hello(1, CAST[name].value, name, name, incarnation=incarnation)
        frames = [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)]
        said = self.said(self.broker.receive(link, frames, self.now_s))
        stale = 0 < incarnation < self.incarnations[name]
        if name not in self.admitted or stale or (there and current >= self.incarnations[name]):
            assert all(head.verb is Verb.ERROR for _, _, head, _ in said)
            assert State.GONE is link.state
            self.former.append((name, link))
            return
        self.check_losses(said, name, self.forget(name) if there else set())
        watchers = {w for w, watched in self.watching.items() if name in watched}
        assert watchers == {to for to, _, head, _ in said if head.call == "kernel.joined"}
        self.links[name] = link
        self.left.discard(name)

    @rule(name=names)
    def announce(self, name: str) -> None:
        """Admit the next incarnation of a name, which is awaited from then on."""
        self.incarnations[name] += 1
        self.broker.admit(admission(name, self.incarnations[name], True))
        self.admitted.add(name)
        self.left.discard(name)

    @rule(name=names, polite=st.booleans())
    def die(self, name: str, polite: bool) -> None:
        if name not in self.links:
            return
        link = self.links[name]
        told = self.forget(name)
        if polite:
            self.left.add(name)
            effects = self.broker.receive(link, [b"", encode_head(Head(Verb.BYE, 1))], self.now_s)
        else:
            effects = self.broker.disconnect(link, "killed", self.now_s)
        said = self.said(effects)
        self.check_losses(said, name, told)
        assert polite == ((name, b"", Head(Verb.BYE, 1)) in [one[:3] for one in said])

    @rule(name=names)
    def withdraw(self, name: str) -> None:
        self.serial += 1
        self.admitted.discard(name)
        told = self.forget(name) if name in self.links else set()
        body = codec_of(Withdraw).encode(Withdraw([name]))
        frames = [b"", encode_head(Head(Verb.CALL, self.serial, "kernel.withdraw")), body]
        said = self.said(self.broker.receive(self.boss, frames, self.now_s))
        assert (BOSS, Verb.REPLY) == (said[0][0], said[0][2].verb)
        self.check_losses(said, name, told)
        for watched in self.watching.values():
            watched.discard(name)

    @rule()
    def replace_the_broker(self) -> None:
        """Let the broker be succeeded by one that knows the table of admissions and nothing else."""
        self.former += [*self.links.items(), (BOSS, self.boss)]
        table = [admission(name, self.incarnations[name], name not in self.left) for name in sorted(self.admitted)]
        self.broker = Broker(digest("boss"), "1", 2, self.now_s, admissions=table)
        self.clear()
        self.join_boss()

    # -- talk ---------------------------------------------------------------------------------------------------------
    @rule(pair=pairs)
    def call(self, pair: tuple[str, str]) -> None:
        name, to = pair
        if name not in self.links:
            return
        self.serial += 1
        known = to in self.links or self.absent(to)
        said = self.say(name, to, Head(Verb.CALL, self.serial, CALLS.get(pair, "brain.think")))
        assert 1 <= len(said)
        receiver, source, head, body = said[0]
        if (to, name.encode(), Verb.CALL) == (receiver, source, head.verb):
            assert to in self.links
            assert pair in CALLS
            self.open.setdefault(pair, []).append(self.serial)
            return
        assert (name, b"", Verb.ERROR, self.serial) == (receiver, source, head.verb, head.serial)
        failure = codec_of(Failure).from_map(decode_map(body))
        expected = "unreachable" if name == to or not known else "busy" if pair in CALLS else "forbidden"
        assert expected == failure.kind
        assert (failure.data == {"absent": True}) == (failure.kind == "busy" and self.absent(to))

    @precondition(lambda self: any(self.open.values()))
    @rule(data=st.data(), verb=st.sampled_from([Verb.REPLY, Verb.ERROR]))
    def answer(self, data: st.DataObject, verb: Verb) -> None:
        caller, callee = data.draw(st.sampled_from(sorted(p for p, serials in self.open.items() if serials)))
        head = Head(verb, self.open[caller, callee].pop(0))

        assert [(caller, callee.encode(), head)] == [one[:3] for one in self.say(callee, caller, head)]

    @rule(pair=pairs)
    def answer_late(self, pair: tuple[str, str]) -> None:
        """Answer what is not open: nobody hears it, and no call of the sender's own is hit."""
        to, name = pair
        if name in self.links and not self.open.get((to, name)):
            heard = self.say(name, to, Head(Verb.REPLY, self.serial))
            assert all(head.serial == 0 and head.verb is not Verb.REPLY for _, _, head, _ in heard)

    @precondition(lambda self: self.former)
    @rule(data=st.data(), to=names, verb=st.sampled_from([Verb.CALL, Verb.REPLY, Verb.TELL, Verb.HELLO]))
    def speak_after_the_end(self, data: st.DataObject, to: str, verb: Verb) -> None:
        """Say something on a connection that has ended: it is heard by nobody."""
        name, link = data.draw(st.sampled_from(self.former))
        if self.broker.links.get(link.key) is link or link.state is not State.GONE:
            return  # of a former broker: its process is dead, and its connections with it
        frames = [to.encode(), encode_head(Head(verb, 1, CALLS.get((name, to), ""))), b""]
        assert {} == link.routes
        assert [] == self.broker.receive(link, frames, self.now_s)
        assert [] == self.broker.disconnect(link, "again", self.now_s)

    @rule(name=names, to=names, verb=st.sampled_from([Verb.TELL, Verb.SIGNAL]))
    def tell(self, name: str, to: str, verb: Verb) -> None:
        """Tell somebody something: it comes at most once, and only to whom it was told."""
        if name in self.links:
            heard = [r for r, _, head, _ in self.say(name, to, Head(verb, 0, "x")) if head.verb is verb]
            assert heard in ([], [to])
            assert to in self.links or not heard

    @rule(pair=callings)
    def accuse(self, pair: tuple[str, str]) -> None:
        """Tell the supervisor that an answer is late: it hears of it if one is awaited."""
        name, to = pair
        if name in self.links:
            self.serial += 1
            head = Head(Verb.CALL, self.serial, "kernel.overdue")
            said = self.say(name, "", head, Overdue(to, CALLS[pair], 1.0))
            assert bool(self.open.get(pair)) == (said[0][0] == BOSS)
            if said[0][0] == BOSS:
                reply = [name.encode(), encode_head(Head(Verb.REPLY, self.serial)), b""]
                said = self.said(self.broker.receive(self.boss, reply, self.now_s))
            assert (name, self.serial) == (said[0][0], said[0][2].serial)

    @rule(name=names, watched=names)
    def watch(self, name: str, watched: str) -> None:
        if name in self.links:
            self.serial += 1
            said = self.say(name, "", Head(Verb.CALL, self.serial, "kernel.watch"), Watch([watched]))
            if name in self.links and said[0][2].verb is Verb.REPLY:
                self.watching.setdefault(name, set()).add(watched)
                assert (watched in self.links) == ("kernel.joined" in [head.call for _, _, head, _ in said])

    @rule(name=names)
    def subscribe(self, name: str) -> None:
        if name in self.links:
            self.serial += 1
            head = Head(Verb.CALL, self.serial, "kernel.subscribe")
            said = self.say(name, "", head, Subscribe("@farm/x"))
            if name in self.links and said[0][2].verb is Verb.REPLY:
                self.reading.add(name)

    @rule(name=names)
    def publish(self, name: str) -> None:
        """Publish: all readers hear it, or the publisher is refused."""
        if name in self.links:
            readers = set(self.reading)
            heard = {r for r, source, _, _ in self.say(name, "@farm/x", Head(Verb.TELL, 0, "x")) if source}
            assert heard in (readers, set())

    @rule(span_s=st.sampled_from([0.1, 0.25, 0.5, 10.0]))
    def pass_time(self, span_s: float) -> None:
        """Let time pass; those who are asked answer."""
        self.now_s += span_s
        for name, _, head, _ in self.said(self.broker.tick(self.now_s)):
            assert head.verb is Verb.BEAT
            if name == BOSS:
                frames = [b"", encode_head(Head(Verb.BEAT, head.serial, "here")), b""]
                assert [] == self.broker.receive(self.boss, frames, self.now_s)
            else:
                assert [] == self.say(name, "", Head(Verb.BEAT, head.serial, "here"))

    # -- what always holds --------------------------------------------------------------------------------------------
    @invariant()
    def books_agree(self) -> None:
        """Hold the broker's books against each other and against ours."""
        if not hasattr(self, "boss"):
            return
        self.broker.check()
        assert {**self.links, BOSS: self.boss} == self.broker.joined
        by_name = Counter(link.name for link in self.broker.links.values())
        assert set(by_name.values()) <= {1}, "two connections bear one name"
        for name, link in self.links.items():
            for to, route in link.routes.items():
                assert (
                    to == BOSS.encode() or [packed(one) for one in self.open.get((name, to.decode()), [])] == route.open
                )

    @invariant()
    def no_call_has_two_outcomes(self) -> None:
        """Each CALL that was said is answered, refused or lost once at most."""
        if hasattr(self, "boss"):
            assert set(self.outcomes.values()) <= {1}, self.outcomes.most_common(1)


TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(max_examples=60, stateful_step_count=40)
