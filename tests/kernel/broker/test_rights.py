from __future__ import annotations

import itertools
from typing import Any

import pytest

from ganglion.broker.life import State
from ganglion.broker.link import Peer
from ganglion.broker.rights import allowed, bit, may_publish, open_calls
from ganglion.limits import OPEN_CALLS, OPEN_CALLS_CONTROL
from ganglion.wire.codec import Content
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

# Who may say what of its own accord, and to whom of that role: `run` all of its run, `worker` those of its worker,
# `agent` those of its agent, `any` everybody. Answers are allowed where the reverse CALL is, and nowhere else.
TABLE = """
| from        | governor             | controller           | environment | muscle      | brain      | store    |
| supervisor  | CALL any, BYE any    | BYE any              | BYE any     | BYE any     | BYE any    | BYE any  |
| operator    | -                    | -                    | -           | -           | -          | -        |
| governor    | -                    | CALL run, SIGNAL run | -           | -           | CALL run   | TELL run |
| controller  | CALL run, SIGNAL run | -                    | CALL worker | CALL worker | -          | TELL run |
| environment | -                    | -                    | -           | -           | -          | -        |
| muscle      | -                    | -                    | -           | -           | CALL agent | -        |
| brain       | -                    | -                    | -           | -           | -          | -        |
| store       | TELL run             | TELL run             | -           | -           | -          | -        |
| observer    | -                    | -                    | -           | -           | -          | -        |
"""  # fmt: skip

WORKERS = (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE)
UIDS = (Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN)


def cells() -> dict[tuple[str, str], dict[str, str]]:
    """Return (source role, target role) -> verb -> scope."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.strip().splitlines()]
    found = {}
    for source, *row in lines[1:]:
        for target, cell in zip(lines[0][1:], row, strict=True):
            found[source, target] = dict(word.split() for word in cell.split(", ") if word != "-")
    return found


CELLS = cells()


def entitled(source: Peer, target: Peer, verb: str) -> bool:
    """Say what the printed table says."""
    if verb in ("REPLY", "ERROR"):
        return entitled(target, source, "CALL")
    scope = CELLS.get((source.role.value, target.role.value), {}).get(verb)
    if scope in (None, "any"):
        return scope == "any"
    same = {"run": True, "worker": source.worker == target.worker, "agent": source.uid == target.uid}
    return source.run == target.run and same[scope]


def peer(role: Role, name: str, run: str, worker: int, uid: str) -> Peer:
    """Return a peer with the places that its role has."""
    return Peer(
        name,
        role,
        run,
        1,
        uid if role in UIDS else None,
        worker if role in WORKERS else None,
        Content.MSGPACK,
        "python",
        True,
    )


PAIRS = list(itertools.product(Role, ["own", "foreign"], [0, 1], ["ada", "bob"]))


@pytest.mark.parametrize("role", Role)
def test_bits_are_those_of_the_table(role: Role) -> None:
    """The verbs that may pass are those of the printed table, for every pair of peers."""
    source = peer(role, "source", "own", 0, "ada")
    for other, run, worker, uid in PAIRS:
        target = peer(other, "target", run, worker, uid)
        expected = sum(bit(verb) for verb in Verb if entitled(source, target, verb.name))

        assert expected == allowed(source, target), target


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.SUPERVISOR])
def test_broker_obeys_the_table(bus: Any, role: Role) -> None:
    """What a peer says to another passes exactly if the printed table says so; answers pass once per open CALL."""
    for number, (other, run, worker, uid) in enumerate(PAIRS):
        source = peer(role, f"source{number}", "own", 0, "ada")
        target = peer(other, f"target{number}", run, worker, uid)
        links = {}
        for one in (source, target):
            if one.role is Role.SUPERVISOR:
                links[one.name] = bus.peers.get("supervisor") or bus.join("supervisor", Role.SUPERVISOR)
            else:
                links[one.name] = bus.join(one.name, one.role, one.run, uid=one.uid, worker=one.worker)
        to = links[target.name].name
        for verb in Verb:
            if verb in (Verb.HELLO, Verb.WELCOME, Verb.LOST):
                continue  # these end the connection: see the table of life
            if verb in (Verb.REPLY, Verb.ERROR) and entitled(target, source, "CALL"):
                assert (source.name, "CALL") == _passed(bus, links[target.name], source.name, Verb.CALL)
            expected = (to, verb.name) if entitled(source, target, verb.name) else None

            links[source.name].refusals_s = []
            assert expected == _passed(bus, links[source.name], to, verb), (target, verb)
            if verb in (Verb.REPLY, Verb.ERROR):
                assert _passed(bus, links[source.name], to, verb) is None
        for name in links.keys() & bus.peers.keys():
            bus.take(bus.broker.disconnect(links[name], "done", bus.now_s))


def _passed(bus: Any, link: Any, to: str, verb: Verb) -> tuple[str, str] | None:
    """Let a peer say a verb; returns who heard which verb of it, or None when nobody did."""
    heard = [(row[0], row[2].name) for row in bus.say(link, to, verb, 5) if row[1] == link.name]
    assert link.state is State.JOINED
    return heard[0] if heard else None


# (role, its run, topic) -> whether it may publish there
TOPICS = [
    (Role.SUPERVISOR, "", "@farm/events", True),
    (Role.GOVERNOR, "farm", "@farm/events", True),
    (Role.GOVERNOR, "farm", "@barn/events", False),
    (Role.GOVERNOR, "farm", "@farm2/events", False),
    (Role.CONTROLLER, "farm", "@farm/steps", True),
    (Role.CONTROLLER, "farm", "@farm/events", False),
    (Role.ENVIRONMENT, "farm", "@farm/waves", True),
    (Role.ENVIRONMENT, "farm", "@farm/events", False),
    (Role.MUSCLE, "farm", "@barn/waves", False),
    (Role.BRAIN, "My Farm", "@x_4dy_20_46arm/loss", True),
    (Role.STORE, "farm", "@farm/log", True),
    (Role.OPERATOR, "", "@farm/events", False),
    (Role.OPERATOR, "", "@/events", False),
    (Role.OBSERVER, "farm", "@farm/log", False),
]


@pytest.mark.parametrize(("role", "run", "topic", "may"), TOPICS)
def test_topics(role: Role, run: str, topic: str, may: bool) -> None:
    """Participants publish under their own run; how the run goes is said by governor and supervisor alone."""
    assert may is may_publish(peer(role, "source", run, 0, "ada"), topic)


@pytest.mark.parametrize("role", Role)
def test_open_calls(role: Role) -> None:
    """Those who ask many at once may have more open calls."""
    control = role in (Role.CONTROLLER, Role.GOVERNOR, Role.SUPERVISOR)

    assert (OPEN_CALLS_CONTROL if control else OPEN_CALLS) == open_calls(peer(role, "n", "r", 0, "u"))


def test_bits_are_those_of_the_verbs() -> None:
    """A front tests `allowed >> verb & 1`."""
    assert all(bit(verb) >> verb & 1 for verb in Verb)
    assert len(Verb) == len({bit(verb) for verb in Verb})
