"""Bodies: columns of many come apart into rows, sealed by the episode of their environment or body."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from databases import change
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.bodies import BodyTable, action_rows, step_rows
from ganglion_store.reader import SqlReader
from ganglion_store.values import Declared, unpack
from ganglion_store.writer import SqlWriter

RUN = "demo-1"
# Agent and number of the bodies in the environment `lake`; `ada` has another one in `moor`.
LAKE = [("ada", 0), ("ada", 1), ("bob", 0)]
TABLE = [("ada", "lake", 0), ("ada", "lake", 1), ("ada", "moor", 0), ("bob", "lake", 0)]
Read = Callable[..., list[dict[str, Any]]]


def numbers(*values: float, kind: str = "<i4") -> bytes:
    """Return numbers as a column."""
    return np.array(values, kind).tobytes()


def begin(each: bool = False) -> list[Any]:
    """Return the first records of a run with bodies."""
    run = {"uid": "demo", "experiment": "e", "seed": "42", "document": "", "started": "2030-01-01T00:00:00Z"}
    records: list[Any] = [["run", run]]
    for environment, agent in (("lake", None), ("moor", None), (None, "ada"), (None, "bob")):
        prefix = f"{environment}." if environment else "lake." if agent == "bob" else ""
        for kind, name in (("sensor", "observation"), ("actuator", "action"), ("reward", "reward")):
            records.append(["declare", 0, environment, agent, kind, [[prefix + name, "Box", None, "<f8", []]]])
    rows = [[*body, "hunter", None, None, True, each and body[1] == "lake"] for body in TABLE]
    return [*records, ["phase", 0, "first", "train", "running", None], ["bodies", 0, rows]]


def step(n: int, rows: tuple[int, ...] = (0, 1, 2), episode: Any = 0, **also: Any) -> list[Any]:
    """Return an entry of `body_steps`: readings 10 * step + row."""
    at = also.get("at", n)
    values = [numbers(*(10 * n + row for row in rows), kind="<f8") for _ in range(3)]
    flags = also.get("flags", bytes(len(rows)))
    return [episode, at, n, n, None, numbers(*rows, kind="<u2"), *values, flags, also.get("over", False), False, None]


def action(n: int, rows: tuple[int, ...] = (0, 1), episodes: tuple[int, ...] = (0, 0), **also: Any) -> list[Any]:
    """Return an entry of `body_actions`: readings 10 * step + row."""
    values = [numbers(*(10 * n + row for row in rows), kind="<f8") for _ in range(3)]
    objectives = numbers(*([np.nan, 0.5] * len(rows))[: len(rows)], kind="<f8")
    steps = numbers(*also.get("steps", (n,) * len(rows)))
    of = [numbers(*rows, kind="<u2"), numbers(*episodes), steps, numbers(*(n,) * len(rows))]
    return [*of, values[0], values[1], None, values[2], objectives, also.get("flags", bytes(len(rows))), None]


def seal(environment: str, episode: int, steps: int, **also: Any) -> list[Any]:
    """Return the record that seals an episode of an environment or body."""
    reason = also.get("reason", "terminated")
    return ["episode", 0, "train", 0, environment, episode, steps, True, False, reason, episode, 0]


def whole(episode: int = 0) -> list[Any]:
    """Return an episode of `lake` in which the body `ada/1` ends early, and one of `moor` of one step."""
    ada = [action(0, (0, 1, 2), (episode,) * 3), action(1, (0, 1), (episode,) * 2), action(2, (0,), (episode,))]
    steps = [step(1, episode=episode), step(2, episode=episode, flags=b"\0\1\0"), step(3, (0, 2), episode, over=True)]
    return [
        ["body_steps", 0, "train", 0, "lake", steps[:2]],
        ["body_steps", 0, "train", 0, "lake", steps[2:]],
        ["body_steps", 0, "train", 0, "moor", [step(1, (0,), episode)]],
        ["body_actions", 0, "train", 0, "ada", ada],
        ["body_actions", 0, "train", 0, "bob", [action(n, (0,), (episode,)) for n in range(3)]],
        seal("moor", episode, 1),
        seal("lake", episode, 3),
    ]


def both() -> list[Any]:
    """Return episodes of bodies of their own in `lake`: `ada/0` ends two, `ada/1` none, `bob/0` one."""
    steps = [
        step(1, episode=numbers(0, 0, 0), at=numbers(1, 1, 1), flags=b"\1\0\0"),
        step(2, episode=numbers(1, 0, 0), at=numbers(1, 2, 2), flags=b"\2\0\1"),
    ]
    ada = [action(0), action(1, episodes=(1, 0), steps=(0, 1))]
    ends = [seal("lake[ada/0]", 0, 1), seal("lake[ada/0]", 1, 1), seal("lake[bob/0]", 0, 2)]
    return [["body_steps", 0, "train", 0, "lake", steps], ["body_actions", 0, "train", 0, "ada", ada], *ends]


@pytest.fixture
def opened(uri: str) -> Any:
    """Return a writer of a run with bodies."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", begin())
        writer.commit()
        yield writer


@pytest.fixture
def each(uri: str) -> Any:
    """Return a writer of a run in which the bodies of `lake` have episodes of their own."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", begin(each=True))
        writer.commit()
        yield writer


def test_actions_and_returns_are_of_bodies(opened: SqlWriter, read: Read) -> None:
    """A decision says of which body it is, and in which environment; each body has a return of its own."""
    opened.apply("c", whole())
    opened.commit()

    keys = [(row["agent"], row["environment"], row["body"], row["step"], row["objective"]) for row in read("actions")]
    assert [
        ("ada", "moor", 0, 0, None),
        ("ada", "lake", 0, 0, None),
        ("ada", "lake", 1, 0, 0.5),
        ("ada", "lake", 0, 1, None),
        ("ada", "lake", 1, 1, 0.5),
        ("ada", "lake", 0, 2, None),
    ] == sorted(keys[:6], key=lambda key: (key[1] != "moor", key[3], key[2]))
    found = {(row["agent"], row["environment"], row["body"]): row["return"] for row in read("returns")}
    assert {
        ("ada", "lake", 0): 30.0,
        ("ada", "lake", 1): 12.0,
        ("ada", "moor", 0): 2.0,
        ("bob", "lake", 0): 30.0,
    } == found
    assert [("lake", 0, 3), ("moor", 0, 1)] == sorted(
        (row["environment"], row["episode"], row["steps"]) for row in read("episodes")
    )


def test_actions_name_the_environment_in_their_ids(opened: SqlWriter, read: Read) -> None:
    """An agent with bodies in two environments has declared once, without their names; its rows have them, wide too."""
    opened.apply("c", whole())
    opened.commit()

    shown = ("sensors", "setpoints", "proposed", "rewards")
    ids = {(row["agent"], row["environment"]): [list(row[name]) for name in shown] for row in read("actions")}
    names = ("observation", "action", "action", "reward")
    assert {
        ("ada", "lake"): [[f"lake.{name}"] for name in names],
        ("ada", "moor"): [[f"moor.{name}"] for name in names],
        ("bob", "lake"): [[f"lake.{name}"] for name in names],
    } == ids
    wide = read("actions", wide=True)
    assert ["sensors.lake.observation", "sensors.moor.observation"] == [key for key in wide[0] if "sensors" in key]
    assert {"lake", "moor"} == {row["environment"] for row in wide}
    for row in wide:
        values = {uid: row[f"sensors.{uid}.observation"] for uid in ("lake", "moor")}
        assert [row["environment"]] == [uid for uid, value in values.items() if value is not None]


def test_ids_of_a_run_without_bodies_stay(opened: SqlWriter, uri: str) -> None:
    """Beside a run with bodies, one whose environment has the same name shows the ids that it declared."""
    with SqlWriter(uri, "plain-1") as writer:
        writer.apply("g", begin()[:-1])

    with SqlReader(uri) as reader:
        columns = reader.columns("steps", wide=True)
        alone = reader.columns("steps", ["plain-1"], wide=True)
    assert {"rewards.lake.reward", "rewards.lake.reward[ada/0]"} <= {*columns}
    assert ["rewards.lake.reward", "rewards.moor.reward"] == [name for name in alone if name.startswith("rewards")]


def test_a_table_tells_the_bodies(opened: SqlWriter, read: Read) -> None:
    """They are told once, in their order; the same again changes nothing, others are another run."""
    opened.apply("g", [begin()[-1]])
    opened.commit()

    assert TABLE == [(row["agent"], row["environment"], row["body"]) for row in read("bodies")]
    assert {("hunter", None, True, "latest", False)} == {
        (row["role"], row["team"], row["learn"], row["policy"], row["dynamic"]) for row in read("bodies")
    }
    with pytest.raises(Nondeterministic, match="phase 0 had other bodies"):
        opened.apply("g", [["bodies", 0, begin()[-1][2][:2]]])


def test_rows_of_bodies_have_an_order_of_their_own(uri: str, read: Read) -> None:
    """Whichever ends first: steps of equal number stand in the order of the environment, by numbers, not as text."""
    table, rows = [["ada", "lake", b, None, None, None, True, True] for b in range(300)], tuple(range(300))
    zeros, ones = numbers(*[0] * 300), numbers(*[1] * 300)
    ends = [seal(f"lake[ada/{b}]", 0, 1) for b in (2, 10, 1, 299, 256, 0, 255)]
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", [*begin()[:-1], ["bodies", 0, table]])
        writer.apply("c", [["body_steps", 0, "train", 0, "lake", [step(1, rows, zeros, at=ones)]], *ends])

    expected = [f"lake.reward[ada/{b}]" for b in (0, 1, 2, 10, 255, 256, 299)]
    assert expected == [name for row in read("steps") for name in row["rewards"]]


def reset(episode: Any, rows: tuple[int, ...] = (0, 1, 2), at: int = 0) -> list[Any]:
    """Return an entry of `resets`: readings 100 + row."""
    values = numbers(*(100 + row for row in rows), kind="<f8")
    return [episode, at, 4, 0, None, numbers(*rows, kind="<u2"), values]


def shown(episode: Any, *later: list[Any]) -> list[Any]:
    """Return a record of first readings in `lake`."""
    return ["resets", 0, "train", 0, "lake", [reset(episode), *later]]


def test_first_readings_are_of_episodes(opened: SqlWriter, read: Read) -> None:
    """They have a table of their own, by the bodies that showed them; who comes later has a row of its own."""
    opened.apply("c", [shown(0, reset(0, (1,), 2)), *whole(), shown(1)])
    opened.commit()

    keys = ("environment", "episode", "step", "tick", "sensors")
    whose = {f"lake.observation[{agent}/{b}]": 100.0 + row for row, (agent, b) in enumerate(LAKE)}
    assert [("lake", 0, 0, 4, whose), ("lake", 0, 2, 4, {"lake.observation[ada/1]": 101.0})] == [
        tuple(row[key] for key in keys) for row in read("resets")
    ]


def test_a_decision_keeps_by_which_model_it_was_made(opened: SqlWriter, read: Read, uri: str) -> None:
    """One policy for all bodies, or one of each, with the number of its update."""
    records = whole()
    records[3][5] = [[*entry, "latest", numbers(*range(len(entry[0]) // 2), kind="<i8")] for entry in records[3][5]]
    records[4][5] = [[*entry, ["pool"], None] for entry in records[4][5]]
    opened.apply("c", records)
    opened.commit()

    found = {(r["agent"], r["environment"], r["body"], r["policy"], r["policy_version"]) for r in read("actions")}
    mine = {("ada", "lake", 0, "latest", 0), ("ada", "lake", 1, "latest", 1), ("ada", "moor", 0, "latest", 2)}
    assert {*mine, ("bob", "lake", 0, "pool", None)} == found
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify(RUN))


@pytest.mark.parametrize("own", [False, True])
def test_what_is_written_can_be_verified(uri: str, own: bool) -> None:
    """Nothing is damaged; a changed value, body or table of bodies is found."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", begin(each=own))
        writer.apply("c", [shown(numbers(0, 0, 0) if own else 0)])
        writer.apply("c", both() if own else whole())
        writer.apply("g", [["end", "finished", None, "now"]])
        writer.commit()
        assert writer.heads()
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify(RUN))
    changes = [
        ("stored_steps", "bodies", "'0100'", "length(bodies) = 2"),
        ("stored_resets", "tick", "5", "true"),
        ("stored_actions", "policy", "'frozen'", "true"),
        ("stored_bodies", "learn", "false", "position = 0"),
        ("stored_bodies", "phase", "7", "true"),
    ]
    for table, column, value, where in changes:
        if column == "bodies":
            value = f"x{value}" if uri.startswith("sqlite") else f"decode({value}, 'hex')"
        change(
            uri, f"CREATE TABLE kept AS SELECT * FROM {table}", f"UPDATE {table} SET {column} = {value} WHERE {where}"
        )
        with SqlReader(uri) as reader:
            assert list(reader.verify(RUN)), (table, column)
        change(uri, f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM kept", "DROP TABLE kept")
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify(RUN))


@pytest.mark.parametrize("own", [False, True])
def test_the_same_again_is_compared(uri: str, own: bool) -> None:
    """A run that goes on tells sealed episodes again: equal ones stay, others are named with step and body."""

    def told() -> list[Any]:
        return [*both(), seal("lake[ada/1]", 0, 2)] if own else whole()

    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", begin(each=own))
        writer.apply("c", told())
        writer.commit()
    with SqlWriter(uri, RUN, resume=True) as writer:
        writer.apply("g", begin(each=own))
        writer.apply("c", told())
        writer.commit()
        broken = told()
        entry = next(record[5][0] for record in broken if record[0] == "body_actions" and record[4] == "ada")
        entry[7] = numbers(*[99.0] * (len(entry[0]) // 2), kind="<f8")
        writer.apply("c", broken)
        body = 0 if own else "[01]"
        with pytest.raises(Nondeterministic, match=f"actions of agent ada, step 0, body {body}: rewards"):
            writer.commit()
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify(RUN))


def test_timelines_are_taken_back_one_by_one(each: SqlWriter, uri: str, read: Read) -> None:
    """Of each body go the episodes behind the last that a run that goes on knows."""
    each.apply("c", both())
    each.commit()

    assert 2 == each.withdraw_behind(0, {(0, "train", 0, "lake[ada/0]"): 0}, {})
    assert [("lake[ada/0]", 0)] == [(row["environment"], row["episode"]) for row in read("episodes")]
    assert TABLE == [(row["agent"], row["environment"], row["body"]) for row in read("bodies")]


def test_rows_are_open_until_their_last_episode_is_sealed(each: SqlWriter) -> None:
    """A store that is started again needs columns as long as one of their rows is of an episode that is open."""
    records = both()
    each.apply("c", records)
    each.commit()
    assert [True, True] == [each.is_open(record) for record in records[:2]]

    each.apply("c", [seal("lake[ada/1]", 0, 2)])
    each.commit()
    assert [False, False] == [each.is_open(record) for record in records[:2]]
    each.apply("c", records[:1])  # heard again for the sake of other rows: nobody seals it any more
    assert not each.is_open(records[0])


def changed(record: list[Any], place: int, value: Any) -> list[Any]:
    """Return a record whose first entry has another value."""
    entry = list(record[5][0])
    entry[place] = value
    return [*record[:5], [entry]]


STEPS, ACTIONS = ["body_steps", 0, "train", 0, "lake", [step(1)]], ["body_actions", 0, "train", 0, "ada", [action(0)]]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (changed(STEPS, 5, b"\0"), "body_steps: expected numbers of bodies of two bytes, found"),
        (changed(STEPS, 5, numbers(0, 1, 3, kind="<u2")), "lake has 3 bodies, found number 3"),
        (changed(STEPS, 5, numbers(0, 2, 1, kind="<u2")), r"ascending order, found \[0, 2, 1\]"),
        (changed(STEPS, 5, numbers(0, 1, 1, kind="<u2")), r"ascending order, found \[0, 1, 1\]"),
        (changed(STEPS, 0, numbers(0, 0, 0)), "expected one episode of lake, found"),
        (changed(STEPS, 0, True), "expected one episode of lake, found True"),
        (changed(STEPS, 1, "1"), "expected an integer as `step`, found '1'"),
        (changed(STEPS, 6, bytes(8)), "sensors: expected 24 bytes of 3 bodies, found 8"),
        (changed(STEPS, 7, [1.0]), "setpoints: expected 24 bytes of 3 bodies, found list"),
        (changed(STEPS, 9, b"\0"), "flags: expected 3 numbers of u1"),
        (changed(STEPS, 10, 1), "expected a boolean as `terminated`, found 1"),
        ([*STEPS[:5], [[0, 1]]], "expected entries of 13 fields, found"),
        ([*STEPS[:5], [7]], "expected entries of 13 fields, found 7"),
        (["body_steps", 1, *STEPS[2:]], "expected a record `bodies` of phase 1 before"),
        (changed(ACTIONS, 0, numbers(0, 3, kind="<u2")), "ada has 3 bodies, found number 3"),
        (changed(ACTIONS, 0, numbers(1, 0, kind="<u2")), "ascending order"),
        (changed(ACTIONS, 1, numbers(0)), "episodes: expected 2 numbers of <i4"),
        (changed(ACTIONS, 2, None), "steps: expected 2 numbers of <i4"),
        (changed(ACTIONS, 3, b""), "ticks: expected 2 numbers of <i4"),
        (changed(ACTIONS, 6, b"123"), "proposed: expected 16 bytes of 2 bodies, found 3"),
        (changed(ACTIONS, 8, numbers(1)), "objectives: expected 2 numbers of <f8"),
        (changed(ACTIONS, 9, None), "flags: expected 2 numbers of u1"),
        (changed(ACTIONS, 10, [None]), "statistics: expected 2 entries, found"),
        ([*ACTIONS[:5], [[*action(0), ["pool"], None]]], "policy: expected text, or 2 texts, found"),
        ([*ACTIONS[:5], [[*action(0), "latest", None, b"1"]]], "late rewards: expected 2 numbers of <f8"),
        ([*ACTIONS[:5], [[*action(0), "latest", b"1"]]], "policy_version: expected 2 numbers of <i8"),
        ([*shown(0)[:5], [[0, 0]]], "resets: expected entries of 7 fields, found"),
        ([*shown(0)[:5], [[*reset(0)[:5], None, b"1"]]], "expected 8 bytes of 1 values as declared, found 1"),
        ([*shown(0)[:5], [[None, *reset(0)[1:5], None, bytes(8)]]], "resets: expected one episode, found None"),
        (["resets", 1, *shown(0)[2:]], "expected a record `bodies` of the phase before"),
        (changed(shown(0), 6, b"1"), "sensors: expected 24 bytes of 3 bodies, found 1"),
        (["bodies", 0, [["ada", "lake", 0]]], "record bodies: expected"),
        (["bodies", 0, [["ada", "lake", "0", None, None, None, True, False]]], "record bodies: expected"),
    ],
)
def test_foreign_input_is_refused_by_name(opened: SqlWriter, record: list[Any], text: str) -> None:
    """What was expected, and what was found."""
    with pytest.raises(StoreError, match=text):
        opened.apply("c", [record])


def test_rows_come_in_order(opened: SqlWriter) -> None:
    """A step of an environment, and a decision of a body, does not come twice."""
    opened.apply("c", [STEPS, ACTIONS])
    for record in (STEPS, ACTIONS):
        with pytest.raises(StoreError, match="expected rows in ascending order"):
            opened.apply("c", [record])


KINDS = ("<f8", "<f4", "|i1", "<i8", "|b1")
SPACES = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([(), (2,), (2, 3)])), max_size=5)


@given(SPACES, st.lists(st.sets(st.integers(0, 6)).map(sorted), max_size=5), st.booleans(), st.integers(0, 2**32 - 1))
def test_each_row_has_the_values_of_its_body(spaces: list[Any], parts: list[list[int]], own: bool, seed: int) -> None:
    """Whatever dtypes and shapes are declared and whoever takes part: a row has its body's values, bit for bit."""
    rng = np.random.default_rng(seed)
    declared = [Declared(f"v{i}", kind, shape) for i, (kind, shape) in enumerate(spaces)]
    lists = {"sensor": declared, "actuator": declared[:1], "reward": declared[1:]}
    table = BodyTable([("ada", "lake", b) for b in range(7)], {"lake"} if own else set())
    steps, actions, expected = [], [], []
    for tick, rows in enumerate(parts):
        values = {
            kind: [[rng.integers(0, 2, shape).astype(dtype) for _, dtype, shape, _ in some] for _ in rows]
            for kind, some in lists.items()
        }
        blocks = {kind: joined(lists[kind], values[kind]) for kind in lists}
        count, bodies, zero = len(rows), numbers(*rows, kind="<u2"), numbers(*[0] * len(rows))
        ticks = numbers(*[tick] * count)
        three = [blocks["sensor"], blocks["actuator"], blocks["reward"]]
        of = [zero, ticks] if own else [0, tick]
        steps.append([*of, tick, None, None, bodies, *three, bytes(count), False, False, None])
        nil = numbers(*[np.nan] * count, kind="<f8")
        actions.append([bodies, zero, ticks, ticks, *three[:2], three[1], three[2], nil, bytes(count), None])
        expected.append(values)

    made = list(step_rows(steps, table, "lake", lists))
    for place, kind in ((4, "sensor"), (5, "actuator"), (6, "reward")):
        alone = [[plain(row) for row in values[kind]] for values in expected]
        whole_rows = [[value for row in rows for value in row] for rows in alone]
        assert ([row for rows in alone for row in rows] if own else whole_rows) == [unpack(r[2][place]) for r in made]
    decided = list(action_rows(actions, table, "ada", lambda uid: lists))
    assert [b for rows in parts for b in rows] == [body for _, _, body, _ in decided]
    for place, kind in ((3, "sensor"), (4, "actuator"), (5, "actuator"), (6, "reward")):
        rows = [plain(row) for values in expected for row in values[kind]]
        assert rows == [unpack(row[3][place]) for row in decided]


def joined(declared: list[Declared], rows: list[list[Any]]) -> bytes:
    """Return values of many bodies as blocks, one per run of equal dtype, each with a row for each body."""
    found, begin = b"", 0
    for _, run in groupby(declared, lambda one: one.dtype):
        end = begin + len(list(run))
        found += b"".join(value.tobytes() for row in rows for value in row[begin:end])
        begin = end
    return found


def plain(row: list[Any]) -> list[Any]:
    """Return values as they rest: numbers, and the bytes of arrays."""
    return [value.item() if value.shape == () else value.tobytes() for value in row]
