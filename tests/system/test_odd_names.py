"""A real run of several environments with uids of every legal kind, seen through to the tables."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from system.command import ganglion
from system.results import table

DOCUMENTS = Path(__file__).parents[1] / "documents"
NET, LONG = "net - 'Küche' \"2\" .x", "long " * 49 + "name"
UIDS = ["a", "a.b", NET, "-", "..", LONG]
SPANS = "agent - 'é' \"1\" ..y"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the document once."""
    path = tmp_path_factory.mktemp("odd")
    for name in ("odd.py", "odd.yml"):
        shutil.copy(DOCUMENTS / name, path / name)
    done = ganglion(path, "run", "odd.yml", "--plain")
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    return path


def test_every_environment_has_its_steps(folder: Path) -> None:
    """Rows come in document order, whatever a uid looks like: 2 workers, 2 episodes, 3 steps each."""
    rows = table(folder, "steps")

    expected = [
        (worker, uid, episode, step) for worker in (0, 1) for uid in UIDS for episode in (0, 1) for step in (1, 2, 3)
    ]
    assert expected == [(row["worker"], row["environment"], row["episode"], row["step"]) for row in rows]
    assert {uid: f"{uid}." for uid in UIDS} == {
        row["environment"]: next(iter(row["sensors"])).removesuffix("c").removesuffix("0") for row in rows
    }


def test_agents_span_environments(folder: Path) -> None:
    """Readings, setpoints and rewards are those of all of an agent's environments, under full ids, in its order."""
    rows = table(folder, "actions", where="worker = 1 and episode = 1")
    spans, dot = ([row for row in rows if row["agent"] == name] for name in (SPANS, "."))

    assert [0, 1, 2] == [row["step"] for row in spans] == [row["step"] for row in dot]
    ids = ["a.b.0", "a.c", f"{NET}.ü.ß 1", "-.0", "...0"]
    assert [dict(zip(ids, [n, 10 + n, n, n, n], strict=True)) for n in range(3)] == [row["sensors"] for row in spans]
    assert [["...0", "a.b.1", f"{LONG}.0"]] * 3 == [list(row["setpoints"]) for row in spans]
    rewards = ["a.calls", "a.b.calls", f"{NET}.plain", "-.plain", "...plain", f"{LONG}.plain"]
    assert [rewards] * 3 == [list(row["rewards"]) for row in spans]
    assert [["a.calls", f"{LONG}.plain"]] * 3 == [list(row["rewards"]) for row in dot]
    assert [[f"{NET}.0", f"{NET}.ü.ß 1", f"{NET}.*", "-.0"]] * 3 == [list(row["setpoints"]) for row in dot]


def test_setpoints_reach_the_environment_that_is_meant(folder: Path) -> None:
    """`a.b.1` is of `a`, whose local id is `b.1`; what an agent set is what its environment was given."""
    steps = {(r["worker"], r["episode"], r["step"], r["environment"]): r["setpoints"] for r in table(folder, "steps")}
    for row in table(folder, "actions"):
        for full, value in row["setpoints"].items():
            owner = "a" if full == "a.b.1" else next(uid for uid in reversed(UIDS) if full.startswith(f"{uid}."))
            assert value == steps[row["worker"], row["episode"], row["step"] + 1, owner][full]


def test_reward_is_asked_once_per_update(folder: Path) -> None:
    """By the bus or by the environment itself: one call per update through the whole phase."""
    rows = table(folder, "steps", where="environment in ('a', 'a.b')")

    for worker in (0, 1):
        for uid in ("a", "a.b"):
            own = [row["rewards"] for row in rows if (row["worker"], row["environment"]) == (worker, uid)]
            assert [{f"{uid}.calls": n} for n in range(1, 7)] == own


def test_transformer_is_called_once_per_update(folder: Path) -> None:
    """With `baseline` also for the beginning of each episode; it has the last word, and what it leaves is stored."""
    rows = table(folder, "steps", where="worker = 0")
    left = {uid: [row["world_state"] for row in rows if row["environment"] == uid] for uid in UIDS}

    calls = [2, 3, 4, 6, 7, 8]  # 1 and 5: the readings of decision 0
    assert [{"calls": n, "was": {"step": step}} for n, step in zip(calls, [1, 2, 3] * 2, strict=True)] == left["a"]
    assert {None} == {state for uid in UIDS[1:] for state in left[uid]}
    assert [11, 12, 13] * 2 == [row["sensors"]["a.c"] for row in rows if row["environment"] == "a"]


def test_time_is_that_of_the_environment(folder: Path) -> None:
    """Ticks and time stamps are stored as the environment gave them, and begin anew with each episode."""
    for row in table(folder, "steps"):
        assert 900 * row["step"] == row["simtime_ticks"]
        assert (NOON + timedelta(minutes=15 * row["step"])).isoformat() == row["simtime_timestamp"]


def test_files_have_names_of_their_own(folder: Path) -> None:
    """Each agent has its models, each process its log; nothing is written outside the run's folder."""
    [run] = [path for path in (folder / "results").iterdir() if path.is_dir()]

    assert "odd-run-1-1" == run.name
    assert {"odd.py", "odd.yml", "results"} >= {p.name for p in folder.iterdir()} - {"__pycache__"}
    assert 2 == len({path.parent for path in run.glob("brains/*/*/model.npz")})
    roles = [path.name.split(".")[0] for path in (run / "logs").glob("*.jsonl")]
    counts = {"controller": 2, "environment": 12, "muscle": 4, "brain": 2, "governor": 1, "store": 1}
    assert counts == {role: roles.count(role) for role in set(roles)}
