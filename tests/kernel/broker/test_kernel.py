from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from ganglion.broker import Link
from ganglion.limits import (
    ADMISSIONS,
    KERNEL_BODY_BYTES,
    KERNEL_BODY_CONTAINERS,
    NAME_BYTES,
    OPEN_CALLS,
    SUBSCRIPTIONS,
    WATCHES,
)
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import (
    CALLS,
    Admit,
    Failure,
    Joined,
    Lost,
    Overdue,
    Peers,
    Submit,
    Subscribe,
    Watch,
    Withdraw,
)
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

# Who may ask the kernel for what, beside `info`, which everybody may.
PERMITTED = {
    "supervisor": "peers watch subscribe admit withdraw",
    "operator": "peers watch subscribe submit runs processes signal stop leave",
    "governor": "watch need ended overdue",
    "controller": "watch overdue",
    "muscle": "overdue",
    "store": "watch",
    "observer": "peers watch subscribe",
}
KERNEL_CALLS = [call.name for call in CALLS if call.callee is None]


def kinds(said: list[tuple[Any, ...]]) -> list[tuple[str, str]]:
    """Return verb, and kind of error or name of call, of what was said."""
    return [(row[2].name, row[5].get("kind", "") if row[2] is Verb.ERROR else row[4]) for row in said]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("call", KERNEL_CALLS)
def test_permission(bus: Any, role: Role, call: str) -> None:
    """A role may ask the kernel for what the printed table names, and is refused everything else."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    link = supervisor if role is Role.SUPERVISOR else bus.join("peer", role)
    said = bus.say(link, "", Verb.CALL, 3, call)
    permitted = call.partition(".")[2] in ["info", *PERMITTED.get(role.value, "").split()]

    refused = [row for row in said if row[2] is Verb.ERROR and row[5]["kind"] == "forbidden"]
    assert permitted is not bool(refused)
    assert all((link.name, "", 3) == (row[0], row[1], row[3]) for row in refused)


def test_unknown_calls(bus: Any) -> None:
    """What is no call of the kernel is refused by its name; a call of somebody else's too."""
    link = bus.join("looker", Role.OBSERVER)

    for call in ("kernel.format", "muscle.act", "", "x" * 200):
        said = bus.say(link, "", Verb.CALL, 3, call)
        assert [("ERROR", "unknown_call")] == kinds(said)
        assert repr(call[:80]) in said[0][5]["message"]


@pytest.mark.parametrize("verb", [Verb.TELL, Verb.SIGNAL, Verb.REPLY, Verb.ERROR])
def test_kernel_takes_calls_only(bus: Any, verb: Verb) -> None:
    """What is said to the kernel beside calls, beats and good-byes is forbidden, and counted."""
    link = bus.join("looker", Role.OBSERVER)
    for _ in range(9):
        bus.say(link, "", verb, 4)
    assert [] == bus.closed

    assert [("ERROR", "forbidden")] == kinds(bus.say(link, "", verb, 4))
    assert [link] == bus.closed


def test_info(bus: Any) -> None:
    """The kernel says its version, protocol, process, age, and how many have joined."""
    link = bus.join("looker", Role.OBSERVER)
    bus.now_s += 12.5
    body = bus.ask(link, "kernel.info")[0][5]

    assert {"version": "1.2.3", "protocol": 1, "pid": 4711, "peers": 1, "uptime_s": 12.5} == body


def test_peers(bus: Any) -> None:
    """The kernel lists who has joined, since when it is silent, and for whom it waits."""
    controller = bus.join("farm/controller/0", Role.CONTROLLER, worker=0)
    bus.join("farm/muscle/ada/0", Role.MUSCLE, uid="ada", worker=0, content="json")
    looker = bus.join("looker", Role.OBSERVER, "")
    bus.say(controller, "farm/muscle/ada/0", Verb.CALL, 1, "muscle.act")
    bus.now_s += 0.125
    rows = {row["name"]: row for row in bus.ask(looker, "kernel.peers")[0][5]["peers"]}

    assert {"farm/controller/0", "farm/muscle/ada/0", "looker"} == set(rows)
    assert ["farm/muscle/ada/0"] == rows["farm/controller/0"]["waiting_for"]
    assert (125, "controller", "farm", 0) == tuple(
        rows["farm/controller/0"][key] for key in ("heard_ms", "role", "run", "worker")
    )
    assert codec_of(Peers).from_map({"peers": list(rows.values())})


def test_watch_tells_joins_and_losses(bus: Any) -> None:
    """Who watches is told of those who are there at once, of others when they join, and of every loss."""
    bus.join("farm/brain/ada", Role.BRAIN, uid="ada")
    governor = bus.join("farm/governor", Role.GOVERNOR)
    said = bus.ask(governor, "kernel.watch", Watch(["farm/brain/ada", "farm/store", "farm/brain/ada"]))

    assert [("REPLY", ""), ("TELL", "kernel.joined")] == kinds(said)
    assert Joined("farm/brain/ada", 1, "brain") == codec_of(Joined).from_map(said[1][5])

    bus.admit("farm/store", Role.STORE)
    store = bus.connect()
    said = bus.hello(store, "farm/store", "store", "farm/store", language="java")
    assert [("farm/store", "WELCOME"), ("farm/governor", "TELL")] == [(row[0], row[2].name) for row in said]
    assert Joined("farm/store", 1, "store", language="java") == codec_of(Joined).from_map(said[1][5])

    said = bus.take(bus.broker.disconnect(store, "connection closed", bus.now_s))
    assert [("farm/governor", "LOST")] == [(row[0], row[2].name) for row in said]
    assert Lost("farm/store", 1, "connection closed", idle=True) == codec_of(Lost).from_map(said[0][5])


def test_watch_survives_the_watched(bus: Any) -> None:
    """A name that was lost is watched still: its successor is announced."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    bus.ask(governor, "kernel.watch", Watch(["farm/store"]))
    for incarnation in (1, 2):
        bus.admit("farm/store", Role.STORE, incarnation=incarnation)
        store = bus.connect()
        said = bus.hello(store, "farm/store", "store", "farm/store")
        assert [("farm/governor", incarnation)] == [(r[0], r[5]["incarnation"]) for r in said if r[4]]
        bus.take(bus.broker.disconnect(store, "gone", bus.now_s))


def test_watcher_that_leaves_is_forgotten(bus: Any) -> None:
    """Nobody is told about others after it has gone, and its watches leave no trace."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    bus.ask(governor, "kernel.watch", Watch(["farm/store", "farm/governor"]))
    assert [("BYE", "")] == kinds(bus.say(governor, "", Verb.BYE))

    assert {} == bus.broker.watchers


def test_refused_watch_watches_nobody(bus: Any) -> None:
    """A list with one bad name changes nothing."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    said = bus.ask(governor, "kernel.watch", Watch(["farm/store", "Farm"]))

    assert [("ERROR", "protocol")] == kinds(said)
    assert ({}, set()) == (bus.broker.watchers, governor.watches)


def test_watches_and_subscriptions_are_bounded(bus: Any) -> None:
    """One watch or subscription beyond its limit is refused by the limit's name."""
    link = bus.join("looker", Role.OBSERVER)
    assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.watch", Watch([f"p{i}" for i in range(WATCHES)])))
    said = bus.ask(link, "kernel.watch", Watch(["one-more"]))
    assert "(watches)" in said[0][5]["message"]

    for i in range(SUBSCRIPTIONS):
        assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.subscribe", Subscribe(f"@farm/{i}")))
    said = bus.ask(link, "kernel.subscribe", Subscribe("@farm/more"))
    assert "(subscriptions)" in said[0][5]["message"]


@pytest.mark.parametrize("topic", ["farm/events", "", "@", "@Farm/events", "@" + "a" * 200])
def test_bad_topic_is_refused(bus: Any, topic: str) -> None:
    """A topic is `@<run>/<name>`."""
    link = bus.join("looker", Role.OBSERVER)

    assert [("ERROR", "protocol")] == kinds(bus.ask(link, "kernel.subscribe", Subscribe(topic)))
    assert {} == bus.broker.topics


def admit(name: str, role: str = "brain") -> Admit:
    """Return an announcement with the name as token."""
    return Admit(name, role, "farm", sha256(name.encode()).digest(), 2, "ada", 1)


def test_admitted_name_joins_with_its_place(bus: Any) -> None:
    """What the supervisor announces of a name is what its peer becomes."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    assert [("REPLY", "")] == kinds(bus.ask(supervisor, "kernel.admit", admit("farm/brain/ada")))
    link = bus.connect()
    body = bus.hello(link, "farm/brain/ada", "brain", "farm/brain/ada")[0][5]

    assert ("farm/brain/ada", 2, "farm", 1) == tuple(body[key] for key in ("name", "incarnation", "run", "worker"))
    assert body["next"] == "await brain.setup from the governor"
    assert link.peer is not None
    assert (Role.BRAIN, "ada", 1) == (link.peer.role, link.peer.uid, link.peer.worker)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (admit("farm/x", "king"), "unknown role 'king'"),
        (admit("farm/x", "supervisor"), "unknown role 'supervisor'"),
        (admit("farm/x", "BRAIN"), "unknown role 'BRAIN'"),
        (admit("Farm"), "expected a name"),
        (admit("farm*x"), "expected a name"),
        (admit("@farm/events"), "the name of a topic"),
    ],
)
def test_refused_admission(bus: Any, message: Admit, text: str) -> None:
    """A role or a name that cannot be is refused when it is announced."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    said = bus.ask(supervisor, "kernel.admit", message)

    assert [("ERROR", "protocol")] == kinds(said)
    assert text in said[0][5]["message"]
    assert 1 == len(bus.broker.register)


def test_admissions_are_bounded(bus: Any) -> None:
    """The supervisor is told when the register is full."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    for i in range(ADMISSIONS - 1):
        bus.admit(f"n{i}", Role.BRAIN)

    assert [("ERROR", "limit")] == kinds(bus.ask(supervisor, "kernel.admit", admit("n")))


def test_watches_and_subscriptions_end_with_what_is_withdrawn(bus: Any) -> None:
    """Whoever looks on at one run after the other has room for each: what is withdrawn counts no more."""
    supervisor, link = bus.join("supervisor", Role.SUPERVISOR), bus.join("operator-1", Role.OPERATOR)
    for number in range(2 * max(WATCHES, SUBSCRIPTIONS)):
        run = f"farm-{number}"
        assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.subscribe", Subscribe(f"@{run}/events")))
        assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.watch", Watch([f"{run}/store"])))
        bus.ask(supervisor, "kernel.withdraw", Withdraw([f"{run}/store", f"@{run}/events"]))

    assert ({}, {}) == (bus.broker.watchers, bus.broker.topics)
    assert (set(), set()) == (link.watches, link.topics)


def test_withdrawn_names_are_disconnected(bus: Any) -> None:
    """Who is withdrawn loses its connection and does not join again; an unknown name is no fault."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    store = bus.join("farm/store", Role.STORE)
    said = bus.ask(supervisor, "kernel.withdraw", Withdraw(["farm/store", "nobody"]))

    assert [("REPLY", "")] == kinds(said)
    assert [store] == bus.closed
    assert [("ERROR", "token")] == kinds(bus.hello(bus.connect(), "farm/store", "store", "farm/store"))


def test_broken_request_is_answered(bus: Any) -> None:
    """A request that cannot be read is answered with the field that is wrong; the connection stays."""
    link = bus.join("looker", Role.OBSERVER)

    said = bus.say(link, "", Verb.CALL, 4, "kernel.subscribe", b"\x81\xa5topic\x05")
    assert "subscribe.topic: expected text, found 5" == said[0][5]["message"]
    assert [("ERROR", "protocol")] == kinds(bus.say(link, "", Verb.CALL, 5, "kernel.subscribe", b"\xc1"))
    assert [] == bus.closed


# -- what is the supervisor's business --------------------------------------------------------------------------------
def test_supervisor_answers_in_the_kernel_s_place(bus: Any) -> None:
    """A call that the broker does not answer goes to the supervisor, whose answer comes back once."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    operator = bus.join("operator-1", Role.OPERATOR, "")
    said = bus.ask(operator, "kernel.submit", Submit("uid: farm"), 9)
    assert [("supervisor", "operator-1", Verb.CALL, 9, "kernel.submit", {"document": "uid: farm"})] == said

    said = bus.say(supervisor, "operator-1", Verb.REPLY, 9, body=b"\x81\xa3run\xa4farm")
    assert [("operator-1", "supervisor", Verb.REPLY, 9, "", {"run": "farm"})] == said
    assert [] == bus.say(supervisor, "operator-1", Verb.REPLY, 9)


def test_without_supervisor_the_call_is_answered(bus: Any) -> None:
    """A call to a supervisor that is not there yet, or again, is answered: it is to be said again."""
    operator = bus.join("operator-1", Role.OPERATOR, "")
    said = bus.ask(operator, "kernel.runs")

    assert [("ERROR", "busy")] == kinds(said)
    assert {"absent": True} == said[0][5]["data"]


def overdue(peer: str) -> Overdue:
    """Return the accusation of a peer."""
    return Overdue(peer, "muscle.act", 30.5)


def test_who_waits_may_accuse(bus: Any) -> None:
    """Who awaits an answer tells the supervisor that it is late; who awaits none has nobody to accuse."""
    bus.join("supervisor", Role.SUPERVISOR)
    controller = bus.join("farm/controller/0", Role.CONTROLLER, worker=0)
    muscle = bus.join("farm/muscle/ada/0", Role.MUSCLE, uid="ada", worker=0, returns=True)
    assert [("ERROR", "forbidden")] == kinds(bus.ask(controller, "kernel.overdue", overdue("farm/muscle/ada/0")))
    bus.say(controller, "farm/muscle/ada/0", Verb.CALL, 1, "muscle.act")
    for other in ("farm/muscle/bob/0", "supervisor", "", "\udcff"):
        said = bus.say(controller, "", Verb.CALL, 2, "kernel.overdue", _overdue_body(other))
        assert [("ERROR", "forbidden" if other != "\udcff" else "protocol")] == kinds(said)
    said = bus.ask(controller, "kernel.overdue", overdue("farm/muscle/ada/0"), 3)
    assert [("supervisor", "farm/controller/0", Verb.CALL, 3)] == [row[:4] for row in said]
    bus.say(muscle, "farm/controller/0", Verb.REPLY, 1)
    assert [("ERROR", "forbidden")] == kinds(bus.ask(controller, "kernel.overdue", overdue("farm/muscle/ada/0")))

    assert [] == controller.refusals_s  # it cannot know that the answer is on its way


def _overdue_body(peer: str) -> bytes:
    if peer == "\udcff":
        return b'{"peer": "\\udcff", "call": "muscle.act", "waited_s": 1.0}'
    return codec_of(Overdue).encode(overdue(peer))


def test_the_absent_are_not_accused(bus: Any) -> None:
    """Whoever is absent has no open call: its successor is on the way."""
    bus.join("supervisor", Role.SUPERVISOR)
    controller = bus.join("farm/controller/0", Role.CONTROLLER, worker=0)
    muscle = bus.join("farm/muscle/ada/0", Role.MUSCLE, uid="ada", worker=0, returns=True)
    bus.say(controller, "farm/muscle/ada/0", Verb.CALL, 1, "muscle.act")
    bus.take(bus.broker.disconnect(muscle, "killed", bus.now_s))

    assert [("ERROR", "forbidden")] == kinds(bus.ask(controller, "kernel.overdue", overdue("farm/muscle/ada/0")))


def test_the_supervisor_answers_again_after_its_return(bus: Any) -> None:
    """Who asked a supervisor that is lost hears that it returns, and asks it anew."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    operator = bus.join("operator-1", Role.OPERATOR, "")
    bus.ask(operator, "kernel.runs", serial=4)
    said = bus.take(bus.broker.disconnect(supervisor, "killed", bus.now_s))
    assert [("operator-1", True)] == [(row[0], row[5]["returns"]) for row in said if row[2] is Verb.LOST]
    bus.join("supervisor", Role.SUPERVISOR)

    assert ["supervisor"] == [row[0] for row in bus.ask(operator, "kernel.runs", serial=4)]


def test_calls_to_the_supervisor_are_bounded(bus: Any) -> None:
    """One open call too many is answered busy, with the time after which to ask again."""
    bus.join("supervisor", Role.SUPERVISOR)
    operator = bus.join("operator-1", Role.OPERATOR, "")
    for i in range(OPEN_CALLS):
        assert ["supervisor"] == [row[0] for row in bus.ask(operator, "kernel.runs", serial=i)]

    said = bus.ask(operator, "kernel.runs")
    assert [("ERROR", "busy")] == kinds(said)
    assert 50 == said[0][5]["retry_after_ms"]


def test_lost_supervisor_is_told_to_who_waits(bus: Any) -> None:
    """Who asked the supervisor hears that it is gone."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    operator = bus.join("operator-1", Role.OPERATOR, "")
    bus.ask(operator, "kernel.runs")
    said = bus.take(bus.broker.disconnect(supervisor, "killed", bus.now_s))

    assert [("operator-1", Verb.LOST, "supervisor")] == [(row[0], row[2], row[5]["peer"]) for row in said]


# -- encodings --------------------------------------------------------------------------------------------------------
def test_large_bodies_are_not_decoded(bus: Any) -> None:
    """What the broker itself would decode is bounded: many small things take far more memory than they say."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    for size, limit in ((KERNEL_BODY_CONTAINERS, "containers"), (KERNEL_BODY_BYTES, "bytes")):
        empty_maps = b"\x81\xa1x\xdd" + size.to_bytes(4, "big") + b"\x80" * size
        said = bus.say(governor, "", Verb.CALL, 7, "kernel.watch", empty_maps)

        assert [("ERROR", "protocol")] == kinds(said)
        assert f"(kernel_body_{limit})" in said[0][5]["message"]


def test_longest_watch_passes(bus: Any) -> None:
    """As many names as may be watched, as long as names may be, are no body that is refused."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    names = [f"farm/{i:04d}/".ljust(NAME_BYTES, "x") for i in range(WATCHES)]

    assert [("REPLY", "")] == kinds(bus.ask(governor, "kernel.watch", Watch(names)))


def test_kernel_speaks_json_to_who_asked_for_it(bus: Any) -> None:
    """Everything that the kernel itself says to a peer that chose JSON is JSON."""
    link: Link = bus.join("looker", Role.OBSERVER, "", content="json")
    frames = []

    def said(effects: Any) -> None:
        frames.extend(effect.frames for effect in effects if getattr(effect, "link", None) is link)

    def ask(call: str, message: Any) -> None:
        body = codec_of(type(message)).encode(message, Content.JSON)
        said(bus.broker.receive(link, [b"", encode_head(Head(Verb.CALL, 1, call)), body], bus.now_s))

    ask("kernel.watch", Watch(["farm/store"]))
    ask("kernel.subscribe", Subscribe("@farm/log"))
    ask("kernel.nothing", Failure("", ""))
    bus.admit("farm/store", Role.STORE)
    store = bus.connect()
    hello = b'{"version": 1, "role": "store", "name": "farm/store", "token": "farm/store"}'
    said(bus.broker.receive(store, [b"", encode_head(Head(Verb.HELLO, 1)), hello], bus.now_s))
    link.queued_bytes = 2**30
    tell = [b"@farm/log", encode_head(Head(Verb.TELL, 0, "log")), b""]
    said(bus.broker.receive(store, tell, bus.now_s))
    link.queued_bytes = 0
    said(bus.broker.receive(store, tell, bus.now_s)[:1])
    said(bus.broker.disconnect(store, "gone", bus.now_s))

    assert 6 == len(frames)
    assert all(body[:1] == b"{" for _, _, body in frames)
