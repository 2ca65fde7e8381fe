from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from ganglion.broker.link import Peer
from ganglion.broker.rights import allowed, bit, calls, may_publish
from ganglion.wire.codec import Content
from ganglion.wire.envelope import packed
from ganglion.wire.messages import CALLS
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

# Who may say what of its own accord, and to whom of that role: `run` all of its run, `worker` those of its worker,
# `any` everybody. Answers are allowed where the reverse CALL is, and nowhere else.
TABLE = """
| from        | governor             | controller           | environment | muscle      | brain      | store    | table    |
| supervisor  | CALL any, BYE any    | BYE any              | BYE any     | BYE any     | BYE any    | BYE any  | BYE any  |
| operator    | -                    | -                    | -           | -           | -          | -        | -        |
| governor    | -                    | CALL run, SIGNAL run | -           | -           | CALL run   | TELL run | CALL run |
| controller  | CALL run, SIGNAL run | -                    | CALL worker | CALL worker | -          | TELL run | -        |
| environment | -                    | -                    | -           | -           | -          | -        | -        |
| muscle      | -                    | -                    | -           | -           | CALL run   | -        | -        |
| brain       | -                    | -                    | -           | -           | -          | -        | CALL run |
| table       | -                    | -                    | -           | -           | -          | -        | -        |
| store       | TELL run             | TELL run             | -           | -           | -          | -        | -        |
| observer    | -                    | -                    | -           | -           | -          | -        | -        |
"""  # fmt: skip  # noqa: E501 - a column for each role that is called

# Which calls those are. A call that is in no row may be asked by nobody.
CALLS_TABLE = """
| from        | to          | calls                                |
| supervisor  | governor    | start signal stop incident           |
| governor    | controller  | setup start evaluate shutdown        |
| governor    | brain       | setup pretrain store evaluate shutdown |
| controller  | governor    | episode boundary stands failed rebuild |
| controller  | environment | start update reset shutdown          |
| controller  | muscle      | setup act swap reset shutdown        |
| muscle      | brain       | join think update policy leave       |
| governor    | table       | setup shutdown                       |
| brain       | table       | ask                                  |
"""

# What may be asked of the kernel itself.
KERNEL_TABLE = """
| from        | calls                                               |
| supervisor  | info peers watch subscribe admit withdraw           |
| operator    | info peers watch subscribe submit runs processes signal stop leave |
| governor    | info watch need ended overdue                       |
| controller  | info watch overdue                                  |
| environment | info                                                |
| muscle      | info overdue model                                  |
| brain       | info overdue model keep                             |
| table       | info watch                                          |
| store       | info watch                                          |
| observer    | info peers watch subscribe                          |
| relay       | info                                                |
"""

WORKERS = (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE)
UIDS = (Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN, Role.TABLE)


def rows(table: str) -> list[list[str]]:
    """Return the cells of a printed table, line by line."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]


def cells() -> dict[tuple[str, str], dict[str, str]]:
    """Return (source role, target role) -> verb -> scope."""
    lines = rows(TABLE)
    found = {}
    for source, *row in lines[1:]:
        for target, cell in zip(lines[0][1:], row, strict=True):
            found[source, target] = dict(word.split() for word in cell.split(", ") if word != "-")
    return found


CELLS = cells()
ASKED = {(source, f"{to}.{word}") for source, to, words in rows(CALLS_TABLE)[1:] for word in words.split()}
KERNEL_ASKED = {(source, f"kernel.{word}") for source, words in rows(KERNEL_TABLE)[1:] for word in words.split()}
NAMES = sorted({name for _, name in ASKED | KERNEL_ASKED} | {call.name for call in CALLS} | {"", "muscle.fly"})


def entitled(source: Peer, target: Peer, verb: str, call: str = "") -> bool:
    """Say what the printed tables say."""
    if verb in ("REPLY", "ERROR"):
        return entitled(target, source, "CALL", call)
    if call and (source.role.value, call) not in ASKED:
        return False
    if call and not call.startswith(f"{target.role.value}."):
        return False
    if call and source.role is Role.MUSCLE and source.uid != target.uid and call != "brain.policy":
        return False  # of another agent it may only ask for an opponent
    scope = CELLS.get((source.role.value, target.role.value), {}).get(verb)
    if scope in (None, "any"):
        return scope == "any"
    worker = (source.worker, source.evaluation) == (target.worker, target.evaluation)
    same = {"run": True, "worker": worker}
    return source.run == target.run and same[scope]


def peer(role: Role, name: str, run: str, worker: int, uid: str, evaluation: bool = False) -> Peer:
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
        evaluation and role in WORKERS,
    )


def everybody() -> list[Peer]:
    """Return each different peer of two runs with two workers, two evaluation workers and two agents."""
    found: dict[tuple[object, ...], Peer] = {}
    for role in Role:
        for run, worker, uid, evaluation in itertools.product(
            ["own", "foreign"], [0, 1], ["ada", "bob"], [False, True]
        ):
            one = peer(role, "", "" if role is Role.SUPERVISOR else run, worker, uid, evaluation)
            place = (role, one.run, one.worker, one.uid, one.evaluation)
            name = "supervisor" if role is Role.SUPERVISOR else f"peer{len(found)}"
            found.setdefault(place, replace(one, name=name))
    return list(found.values())


EVERYBODY = everybody()


@pytest.mark.parametrize("role", Role)
def test_bits_and_calls_are_those_of_the_tables(role: Role) -> None:
    """The verbs and calls that may pass are those of the printed tables, for every pair of peers."""
    for source, target in itertools.product(EVERYBODY, EVERYBODY):
        if source.role is role:
            verbs = sum(bit(verb) for verb in Verb if entitled(source, target, verb.name))
            asked = {packed(name) for name in NAMES if name and entitled(source, target, "CALL", name)}

            assert (verbs, asked) == (allowed(source, target), calls(source, target)), (source, target)


@pytest.mark.parametrize("one", [one for one in EVERYBODY if one.run != "foreign"], ids=lambda p: p.role.value)
def test_kernel_obeys_the_table(bus: Any, one: Peer) -> None:
    """The kernel takes from each role the calls of the printed table and no other."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    link = supervisor if one.role is Role.SUPERVISOR else bus.join("one", one.role, one.run)
    for name in NAMES:
        if name.startswith("kernel."):
            link.refusals_s = []
            said = bus.say(link, "", Verb.CALL, 5, name)
            refused = [row[5]["kind"] for row in said if row[2] is Verb.ERROR and row[5]["kind"] == "forbidden"]

            assert ((one.role.value, name) not in KERNEL_ASKED) is bool(refused), (one.role, name)


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
    (Role.RELAY, "farm", "@farm/log", False),
]


@pytest.mark.parametrize(("role", "run", "topic", "may"), TOPICS)
def test_topics(role: Role, run: str, topic: str, may: bool) -> None:
    """Participants publish under their own run; how the run goes is said by governor and supervisor alone."""
    assert may is may_publish(peer(role, "source", run, 0, "ada"), topic)
