# ruff: noqa: E501 - rows of tables are easier to compare on one line
"""Outcomes that are known exactly: real runs of the documents in `documents/golden`, every row of every table."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from system.command import SPAN_S, ganglion

from ganglion.sdk.seed import generator_from_words, integer_from_words, words
from ganglion.sdk.spaces import Discrete

GOLDEN = Path(__file__).parents[1] / "documents" / "golden"
TABLES = ("runs", "phases", "episodes", "steps", "actions", "signals")
SEED = 42
FAILS = "crash"
COUNT = 10  # sensors and actuators of the dummy environment
REWARD = "field.Dummy Reward"
PLACES = {"One": 0, "Two": 1, "One_2": 2, "Two_2": 3}  # agent -> its sensor and its actuator

Row = dict[str, Any]


def run_of(document: str) -> str:
    """Return the name of the first run of a document."""
    return f"{document.replace('_', '-')}-1"


class Lane:
    """Run some of the documents in a folder, one after the other into one store, and read each table once.

    Those that end well are run by one command: starting its processes takes longer than any of these runs.

    Attributes:
        done: Document -> how its run ended.
        tables: Name -> rows of all runs.
    """

    def __init__(self, folder: Path, documents: Sequence[str]) -> None:
        self.folder = folder
        for path in GOLDEN.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        good = [name for name in documents if name != FAILS]
        done = self._run(good)
        self.done = dict.fromkeys(good, done) | {name: self._run([name]) for name in documents if name == FAILS}
        self.tables = {table: self._read(table) for table in TABLES}

    def _run(self, documents: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return ganglion(self.folder, "run", *(f"{name}.yml" for name in documents), "--plain", span_s=3 * SPAN_S)

    def _read(self, table: str) -> list[Row]:
        runs = [run_of(name) for name in self.done]
        read = ganglion(self.folder, "results", "--table", table, "--format", "json", *runs)
        assert 0 == read.returncode, read.stderr
        found: list[Row] = json.loads(read.stdout)
        return found

    def notes(self) -> Iterator[Row]:
        """Yield what the parts of the document `streams` have written down."""
        for path in self.folder.glob("streams-*.jsonl"):
            yield from map(json.loads, path.read_text().splitlines())


class Outcomes:
    """What came of all documents: how each run ended, and the rows of all tables."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes

    def lane(self, document: str) -> Lane:
        """Return where a document was run."""
        return next(lane for lane in self.lanes if document in lane.done)

    def done(self, document: str) -> subprocess.CompletedProcess[str]:
        """Return how the run of a document ended."""
        return self.lane(document).done[document]

    def every(self, table: str) -> list[Row]:
        """Return the rows of all runs."""
        return [row for lane in self.lanes for row in lane.tables[table]]

    def rows(self, table: str, run: str) -> list[Row]:
        """Return the rows of one run without the column `run`."""
        found = [dict(row) for row in self.every(table) if row["run"] == run]
        for row in found:
            del row["run"]
        return found

    def states(self, document: str, phase: int) -> dict[str, int]:
        """Return what each brain of a phase has stored."""
        folder = self.lane(document).folder / "results" / run_of(document) / "brains" / str(phase)
        found = {
            path.parent.name: int(np.load(path, allow_pickle=False)["state"])
            for path in sorted(folder.glob("*/model.npz"))
        }
        return {name: found[name] for name in PLACES if name in found}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Run every document once, in two lanes at a time."""
    names = sorted(path.stem for path in GOLDEN.glob("*.yml"))
    parts = [(tmp_path_factory.mktemp("golden"), names[start::2]) for start in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        return Outcomes(list(pool.map(lambda part: Lane(*part), parts)))


# -- what the dummies do ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Episode:
    """One episode of dummies as it is known beforehand."""

    phase: int
    name: str
    mode: str
    worker: int
    number: int
    agents: Sequence[str] = ("One",)
    turns: bool = False
    max_iter: int = 10
    steps: int = 10
    reason: str = "terminated"

    @property
    def terminated(self) -> bool:
        """Say whether its environment ended it."""
        return self.steps == self.max_iter

    def acting(self, step: int) -> Sequence[str]:
        """Return who acts in a step, from 1."""
        return [self.agents[(step - 1) % len(self.agents)]] if self.turns else self.agents


@dataclass
class Play:
    """Play episodes as the dummies are meant to; the rows are those of the results."""

    episodes: list[Episode]
    setpoints: dict[tuple[int, str, int, int, str], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spaces: dict[tuple[int, str, int, str], Any] = {}
        for e in self.episodes:
            for step in range(1, e.steps + 1):
                for agent in e.acting(step):
                    path: list[str | int] = ["phase", e.name, e.mode, "agent", agent, "muscle", "worker", e.worker]
                    mine = (e.phase, e.mode, e.worker, agent)
                    if mine not in spaces:  # one generator for all episodes of a phase
                        spaces[mine] = generator_from_words(words(SEED, path))
                    value = Discrete(100).sample(spaces[mine])
                    place = (e.phase, e.mode, e.worker, e.number, agent)
                    self.setpoints.setdefault(place, []).append(int(value))

    def ordered(self) -> list[Episode]:
        """Return the episodes in the order of the rows of `steps`."""
        return sorted(self.episodes, key=lambda e: (e.phase, e.mode == "evaluate", e.worker, e.number))

    def episode_rows(self) -> list[Row]:
        """Return the rows of `episodes`, in the order in which they ended."""
        return [
            {
                "phase": e.phase, "mode": e.mode, "worker": e.worker, "episode": e.number, "steps": e.steps,
                "terminated": e.terminated, "truncated": not e.terminated, "reason": e.reason,
            }
            for e in self.episodes
        ]  # fmt: skip

    def step_rows(self) -> Iterator[Row]:
        """Yield the rows of `steps`."""
        for e in self.ordered():
            decisions = dict.fromkeys(e.agents, 0)
            for step in range(1, e.steps + 1):
                given = {}
                for agent in e.acting(step):
                    place = (e.phase, e.mode, e.worker, e.number, agent)
                    given[f"field.{PLACES[agent]}"] = self.setpoints[place][decisions[agent]]
                    decisions[agent] += 1
                count = step % e.max_iter
                yield {
                    "phase": e.phase, "mode": e.mode, "worker": e.worker, "environment": "field",
                    "episode": e.number, "step": step, "simtime_ticks": step, "simtime_timestamp": None,
                    "sensors": {f"field.{i}": count for i in range(COUNT)}, "setpoints": given,
                    "rewards": {REWARD: count}, "terminated": step == e.max_iter, "truncated": False,
                }  # fmt: skip

    def action_rows(self) -> Iterator[Row]:
        """Yield the rows of `actions`."""
        groups: dict[tuple[Any, ...], list[Episode]] = {}
        for e in self.ordered():
            groups.setdefault((e.phase, e.mode, e.worker), []).append(e)
        for group in groups.values():
            for agent in group[0].agents:
                for e in group:
                    yield from self._actions(e, agent)

    def _actions(self, e: Episode, agent: str) -> Iterator[Row]:
        turns = [step for step in range(1, e.steps + 1) if agent in e.acting(step)]
        values = self.setpoints[e.phase, e.mode, e.worker, e.number, agent]
        for decision, (step, value) in enumerate(zip(turns, values, strict=True)):
            uid, last = f"field.{PLACES[agent]}", decision == len(turns) - 1
            yield {
                "phase": e.phase, "mode": e.mode, "worker": e.worker, "agent": agent, "body": 0, "episode": e.number,
                "step": decision, "sensors": {uid: step - 1}, "setpoints": {uid: value},
                "rewards": {REWARD: step % e.max_iter}, "objective": float(step % e.max_iter),
                "terminated": last and e.terminated, "truncated": last and not e.terminated,
            }  # fmt: skip


def sums(rows: list[Row], *keys: str) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Return per key how many rows there are and the sum of their objectives."""
    found: dict[tuple[Any, ...], tuple[int, float]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        count, total = found.get(key, (0, 0.0))
        found[key] = (count + 1, total + row["objective"])
    return found


# -- the documents ----------------------------------------------------------------------------------------------------
PAIR, FOUR = ("One", "Two"), ("One", "Two", "One_2", "Two_2")
RESET = ("RESET", "condition:environment", "terminated")
MOST = (None, None, None, "STOP_PHASE", "condition:max_episodes", "max_episodes")


def evaluation(number: int) -> list[tuple[Any, ...]]:
    """Return the signals before and after an evaluation of one phase."""
    return [(None, None, None, signal, "governor", f"evaluation {number}") for signal in ("PAUSE", "CONTINUE")]


@dataclass(frozen=True)
class Golden:
    """A document with its outcome.

    `signals` are (phase, worker, episode, step, signal, issuer, reason); where it is None each episode is ended by its
    environment and each phase by `max_episodes`. `states` are those of the brains after each phase.
    """

    document: str
    phases: list[tuple[str, str, str, str | None]]
    episodes: list[Episode]
    sums: dict[tuple[Any, ...], tuple[int, float]]
    states: list[dict[str, int]] | None = None
    signals: list[tuple[Any, ...]] | None = None


def span(phase: int, name: str, numbers: Sequence[int], mode: str = "train", **more: Any) -> list[Episode]:
    """Return episodes of one worker that follow each other."""
    return [
        Episode(phase, name, mode, more.get("worker", 0), n, **{k: v for k, v in more.items() if k != "worker"})
        for n in numbers
    ]


TEN = (10, 45.0)
PHASES = {"finished": ("finished", "max_episodes")}
GOAL = "agent_objective: One brain_avg5 3 >= 3"
GOLDENS = [
    Golden(
        "two_phases",
        [("learn", "train", *PHASES["finished"]), ("act", "test", *PHASES["finished"])],
        [*span(0, "learn", [0], agents=PAIR), *span(1, "act", [0], "test", agents=PAIR)],
        {(phase, 0, agent): TEN for phase in (0, 1) for agent in PAIR},
        [{"One": 10, "Two": 10}] * 2,
    ),
    Golden(
        "two_workers",
        [("learn", "train", *PHASES["finished"])],
        [Episode(0, "learn", "train", worker, number, PAIR) for number in (0, 1) for worker in (0, 1)],
        {(0, number, agent): (20, 90.0) for number in (0, 1) for agent in PAIR},
        [{"One": 10, "Two": 10}],
    ),
    Golden(
        "turns",
        [("two", "train", *PHASES["finished"]), ("four", "train", *PHASES["finished"])],
        [*span(0, "two", [0, 1], agents=PAIR, turns=True), *span(1, "four", [0, 1], agents=FOUR, turns=True)],
        {(0, n, agent): share for n in (0, 1) for agent, share in zip(PAIR, [(5, 25.0), (5, 20.0)], strict=True)}
        | {(1, n, agent): share for n in (0, 1) for agent, share in zip(FOUR, [(3, 15.0), (3, 8.0), (2, 10.0), (2, 12.0)], strict=True)},
        [{"One": 5, "Two": 5}, {"One": 3, "Two": 3, "One_2": 2, "Two_2": 2}],
    ),
    Golden(
        "turns_replaced",
        [("two", "train", *PHASES["finished"]), ("others", "train", *PHASES["finished"])],
        [*span(0, "two", [0, 1], agents=PAIR, turns=True), *span(1, "others", [0, 1], agents=FOUR[2:], turns=True)],
        {(phase, n, agent): share for phase, agents in ((0, PAIR), (1, FOUR[2:])) for n in (0, 1)
         for agent, share in zip(agents, [(5, 25.0), (5, 20.0)], strict=True)},
        [{"One": 5, "Two": 5}, {"One_2": 5, "Two_2": 5}],
    ),
    Golden(
        "turns_grow",
        [("one", "train", *PHASES["finished"]), ("two", "train", *PHASES["finished"]), ("four", "test", *PHASES["finished"])],
        [*span(0, "one", range(5), turns=True), *span(1, "two", range(2), agents=PAIR, turns=True),
         *span(2, "four", range(3), "test", agents=FOUR, turns=True)],
        {(0, n, "One"): TEN for n in range(5)}
        | {(1, n, agent): share for n in (0, 1) for agent, share in zip(PAIR, [(5, 25.0), (5, 20.0)], strict=True)}
        | {(2, n, agent): share for n in range(3) for agent, share in zip(FOUR, [(3, 15.0), (3, 8.0), (2, 10.0), (2, 12.0)], strict=True)},
    ),
    Golden(
        "evaluated",
        [("learn", "train", *PHASES["finished"]), ("learn", "evaluate", "finished", None), ("act", "test", *PHASES["finished"])],
        [*span(0, "learn", [0, 1]), *span(0, "learn", [0], "evaluate"), *span(0, "learn", [2, 3]),
         *span(0, "learn", [1], "evaluate"), *span(0, "learn", [4]), *span(1, "act", [0], "test")],
        {(0, 0, "One"): (20, 90.0), (0, 1, "One"): (20, 90.0), (0, 2, "One"): TEN, (0, 3, "One"): TEN, (0, 4, "One"): TEN,
         (1, 0, "One"): TEN},
        [{"One": 10}, {"One": 10}],
        [
            *[(0, 0, n, 10, *RESET) for n in (0, 1)], (0, *evaluation(0)[0]), (0, 0, 0, 10, *RESET), (0, *evaluation(0)[1]),
            *[(0, 0, n, 10, *RESET) for n in (2, 3)], (0, *evaluation(1)[0]), (0, 0, 1, 10, *RESET), (0, *evaluation(1)[1]),
            (0, 0, 4, 10, *RESET), (0, *MOST), (1, 0, 0, 10, *RESET), (1, *MOST),
        ],
    ),
    Golden(
        "evaluated_twice",
        [("learn", "train", *PHASES["finished"]), ("learn", "evaluate", "finished", None)],
        [Episode(0, "learn", mode, worker, n) for n in (0, 1) for mode in ("train", "evaluate") for worker in (0, 1)],
        {(0, n, "One"): (40, 180.0) for n in (0, 1)},
        [{"One": 10}],
        [
            *[(0, worker, 0, 10, *RESET) for worker in (0, 1)],
            (0, *evaluation(0)[0]), *[(0, worker, 0, 10, *RESET) for worker in (0, 1)], (0, *evaluation(0)[1]),
            *[(0, worker, 1, 10, *RESET) for worker in (0, 1)], (0, *MOST),
            (0, *evaluation(1)[0]), *[(0, worker, 1, 10, *RESET) for worker in (0, 1)], (0, *evaluation(1)[1]),
        ],
    ),
    Golden(
        "goal",
        [("learn", "train", "finished", "agent_objective")],
        [Episode(0, "learn", "train", worker, n, max_iter=7, steps=5, reason="agent_objective") for n in (0, 1) for worker in (0, 1)],
        {(0, n, "One"): (10, 30.0) for n in (0, 1)},
        [{"One": 5}],
        [
            *[(0, worker, n, 5, "RESET", "condition:agent_objective", "agent_objective") for n in (0, 1) for worker in (0, 1)],
            (0, None, None, None, "STOP_PHASE", "condition:agent_objective", "agent_objective"),
        ],
    ),
    Golden(
        "goal_of_ten",
        [("learn", "train", "finished", "agent_objective")],
        span(0, "learn", range(10), max_iter=5, steps=5),
        {(0, n, "One"): (5, 10.0) for n in range(10)},
        [{"One": 5}],
        [
            *[(0, 0, n, 5, *RESET) for n in range(10)],
            (0, None, None, None, "STOP_PHASE", "condition:agent_objective", "agent_objective"),
        ],
    ),
    Golden(
        "success",
        [("learn", "train", "finished", "success"), ("learn", "evaluate", "finished", None)],
        [*span(0, "learn", [0, 1], max_iter=2, steps=2), *span(0, "learn", [0], "evaluate", max_iter=2, steps=2)],
        {(0, 0, "One"): (4, 2.0), (0, 1, "One"): (2, 1.0)},
        None,
        [
            *[(0, 0, n, 2, *RESET) for n in (0, 1)], (0, *evaluation(0)[0]), (0, 0, 0, 2, *RESET), (0, *evaluation(0)[1]),
            (0, None, None, None, "STOP_PHASE", "condition:evaluation_objective", "success"),
        ],
    ),
]  # fmt: skip


def words_of(rows: list[Row]) -> list[Row]:
    """Return rows whose reasons are cut behind their word: the sentence is for people."""
    return [{**row, "reason": row["reason"] and row["reason"].partition(": ")[0]} for row in rows]


def only(rows: list[Row], expected: Sequence[Row]) -> list[Row]:
    """Return rows with the columns that are expected; a store may have more."""
    keys = expected[0].keys() if expected else ()
    return [{key: row[key] for key in keys} for row in rows]


def ended_by_themselves(golden: Golden) -> list[tuple[Any, ...]]:
    """Return the signals of phases whose episodes end by themselves up to their number."""
    found: list[tuple[Any, ...]] = []
    for index in range(len(golden.phases)):
        mine = [e for e in golden.episodes if e.phase == index]
        found += [(index, e.worker, e.number, e.steps, *RESET) for e in mine]
        found.append((index, *MOST))
    return found


@pytest.mark.parametrize("golden", GOLDENS, ids=[golden.document for golden in GOLDENS])
def test_every_row_of_a_run(outcomes: Outcomes, golden: Golden) -> None:
    """Exit status, phases, episodes, steps, actions and signals are those that are known, in this order."""
    done = outcomes.done(golden.document)
    run = run_of(golden.document)
    play = Play(golden.episodes)
    steps, actions = list(play.step_rows()), list(play.action_rows())

    assert 0 == done.returncode, done.stdout + done.stderr
    (row,) = outcomes.rows("runs", run)
    uid = run.removesuffix("-1")
    assert (uid, uid, str(SEED), "finished", "completed") == (
        row["uid"], row["experiment"], str(row["seed"]), row["status"], row["reason"]
    )  # fmt: skip
    phases = words_of(outcomes.rows("phases", run))
    assert golden.phases == [(p["name"], p["mode"], p["status"], p["reason"]) for p in phases]
    names = [name for name, _, _, _ in golden.phases]
    assert [sorted(set(names), key=names.index).index(name) for name in names] == [p["phase"] for p in phases]
    episodes = play.episode_rows()
    assert episodes == only(words_of(outcomes.rows("episodes", run)), episodes)
    assert steps == only(outcomes.rows("steps", run), steps)
    assert actions == only(outcomes.rows("actions", run), actions)
    expected = ended_by_themselves(golden) if golden.signals is None else golden.signals
    columns = ("phase", "worker", "episode", "step", "signal", "issuer", "reason")
    signals = words_of(outcomes.rows("signals", run))
    assert expected == [tuple(row[column] for column in columns) for row in signals]


@pytest.mark.parametrize("golden", GOLDENS, ids=[golden.document for golden in GOLDENS])
def test_sums_and_models_of_a_run(outcomes: Outcomes, golden: Golden) -> None:
    """Decisions and sums of objectives per episode, and the states of the brains, are the numbers that are known."""
    run = run_of(golden.document)

    assert golden.sums == sums(outcomes.rows("actions", run), "phase", "episode", "agent")
    if golden.states is not None:
        assert golden.states == [outcomes.states(golden.document, phase) for phase in range(len(golden.states))]


def test_flags_are_booleans_and_what_is_unknown_is_null(outcomes: Outcomes) -> None:
    """In JSON no number stands for a flag, values are in declared order, a signal to all has no worker, no rows are `[]`."""
    flags = {type(row[key]) for t in ("episodes", "steps", "actions") for row in outcomes.every(t) for key in ("terminated", "truncated")}  # fmt: skip

    assert {bool} == flags
    assert {tuple(f"field.{i}" for i in range(COUNT))} == {
        tuple(row["sensors"]) for row in outcomes.every("steps") if "field.1" in row["sensors"]
    }
    assert {"STOP_PHASE", "PAUSE", "CONTINUE"} == {
        row["signal"] for row in outcomes.every("signals") if row["worker"] is None
    }
    assert "[]" == "".join(
        ganglion(
            outcomes.lane("crash").folder, "results", "--table", "signals", "crash-1", "--format", "json"
        ).stdout.split()
    )


def test_runs_come_in_the_order_of_their_start(outcomes: Outcomes) -> None:
    """All runs are in their store, one after the other."""
    for lane in outcomes.lanes:
        assert [run_of(name) for name in lane.done] == [row["run"] for row in lane.tables["runs"]]


def test_an_environment_that_raises_fails_its_run(outcomes: Outcomes) -> None:
    """Exit status 1; environment, worker, step and exception are named; complete rows before it are stored."""
    done = outcomes.done("crash")
    said = done.stdout + done.stderr
    (run,) = outcomes.rows("runs", "crash-1")
    (phase,) = outcomes.rows("phases", "crash-1")
    steps = [(row["worker"], row["step"]) for row in outcomes.rows("steps", "crash-1")]

    assert 1 == done.returncode
    for text in ("environment field (worker 1)", "step 3", "OSError: the simulator has crashed", "crumbling.py"):
        assert text in said
    assert ("failed", "failed", "failed") == (run["status"], phase["status"], phase["reason"])
    assert "failed: OSError: the simulator has crashed" == run["reason"]
    # Worker 0 was in the same round: a step that has begun is completed.
    assert [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)] == steps
    assert {(0, 0): (3, 6.0), (1, 0): (2, 3.0)} == sums(outcomes.rows("actions", "crash-1"), "worker", "episode")
    assert [(1, 2, True, "failed: OSError: the simulator has crashed"), (0, 3, True, "failed")] == [
        (e["worker"], e["steps"], e["truncated"], e["reason"]) for e in outcomes.rows("episodes", "crash-1")
    ]


def test_every_part_draws_from_the_stream_of_its_path(outcomes: Outcomes) -> None:
    """Environments, their episodes, muscles, objectives, brains and controllers, in training and in evaluation."""
    done = outcomes.done("streams")
    assert 0 == done.returncode, done.stdout + done.stderr
    found: dict[tuple[Any, ...], tuple[int, float | None]] = {}
    for row in outcomes.lane("streams").notes():
        place = (row["kind"], row["mode"], row["worker"], row.get("episode"))
        assert place not in found  # each is made once
        found[place] = (int(row["given"] if "given" in row else row["seed"]), row.get("draw"))
    expected: dict[tuple[Any, ...], tuple[int, float | None]] = {}
    for mode in ("train", "evaluate"):
        for worker in (0, 1):
            begin: list[str | int] = ["phase", "phase_0", mode]
            end: list[str | int] = ["worker", worker]
            environment = [*begin, "environment", "myenv", *end]
            for kind, path_ in (
                ("environment", environment),
                ("muscle", [*begin, "agent", "One", "muscle", *end]),
                ("objective", [*begin, "agent", "One", "objective", *end]),
                ("controller", [*begin, "controller", *end]),
            ):
                stream = words(SEED, path_)
                draw = float(generator_from_words(stream).random())
                expected[kind, mode, worker, None] = (integer_from_words(stream), draw)
            stream = words(SEED, [*environment, "episode", 1])
            expected["episode", mode, worker, 1] = (integer_from_words(stream), None)
    stream = words(SEED, ["phase", "phase_0", "agent", "One", "brain"])
    expected["brain", "train", 0, None] = (integer_from_words(stream), float(generator_from_words(stream).random()))

    assert expected == found
    assert 4031383811298489202 == found["environment", "train", 0, None][0]


@pytest.mark.long
@pytest.mark.parametrize("golden", GOLDENS, ids=[golden.document for golden in GOLDENS])
def test_again_gives_the_same_tables(outcomes: Outcomes, golden: Golden) -> None:
    """A second run of the same document differs in nothing but its name."""
    uid, folder = golden.document.replace("_", "-"), outcomes.lane(golden.document).folder
    done = ganglion(folder, "run", f"{golden.document}.yml", "--plain")

    assert 0 == done.returncode, done.stderr
    assert "no difference" == ganglion(folder, "runs", "diff", f"{uid}-1", f"{uid}-2").stdout.strip()
