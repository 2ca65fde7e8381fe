"""Real runs whose models are kept in databases: a copy of one is all that another machine needs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import tempfile
from pathlib import Path

import pytest
from system.command import Command, ganglion, private
from system.world import RUN, Trip, write_world

from ganglion.sdk.models import load_arrays

MODULE = """
import numpy as np
from ganglion.sdk import ActuatorInformation, Box, Brain, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import Muscle, RewardInformation, SensorInformation

class Hall(Environment):
    def start_environment(self):
        self.step = 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0.0, Box(0.0, 1.0, ()), u) for u in "abc"])
    def reset(self, request):
        return self.start_environment()
    def read(self):
        return [SensorInformation(0.5, Box(0.0, 1.0, ()), "s")]
    def update(self, actuators):
        self.step += 1
        return EnvironmentState(self.read(), [RewardInformation(1.0, Box(0.0, 1.0, ()), "r")], self.step >= 3)

class Learner(Brain):
    def __init__(self, ballast=0):
        self.ballast, self.weight = ballast, 0.0
    def thinking(self, muscle_id, data):
        self.weight += float(self.rng.random())
        return self.weight
    def store(self):
        ballast = np.random.default_rng(self.seed % 2**32).random(self.ballast)
        self.models.save({"weight": np.array(self.weight), "ballast": ballast})
        self.models.save({"weight": np.array(-1.0)}, tag="other")

class Actor(Muscle):
    weight = 0.0
    def prepare_model(self):
        if self.load() is not None:
            assert self.load("other")["weight"] == -1.0
            self.weight = float(self.load()["weight"])
    def propose_actions(self, sensors, actuators):
        for actuator in actuators:
            actuator.value = self.weight % 1.0
        return actuators
    def update(self, update):
        self.weight = update
"""
AGENT = """
        - name: {name}
          muscle: hall:Actor
          brain: {{name: hall:Learner, params: {{ballast: {ballast}}}}}
          sensors: [hall.s]
          actuators: [hall.{actuator}]
          {more}"""
DOCUMENT = """
uid: UID
seed: SEED
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - only:
      environments: [{environment: {uid: hall, name: hall:Hall}}]
      agents:AGENTS
      phase_config: {mode: MODE, episodes: 2}
"""
PLACES = {"ada": "store", "bob": "sqlite:///kept.db", "cid": "kept"}
LARGE = 3_000_000  # numbers of 8 bytes: six pieces


def write(folder: Path, uid: str, seed: int, mode: str, more: dict[str, str], ballast: int = 10) -> None:
    """Write the document of a run, named by its uid; `more` is what each agent has beside its parts."""
    (folder / "hall.py").write_text(MODULE)
    parts = zip(more.items(), "abc", strict=False)
    agents = [AGENT.format(name=n, more=m, actuator=a, ballast=ballast) for (n, m), a in parts]
    text = DOCUMENT.replace("UID", uid).replace("SEED", str(seed)).replace("MODE", mode)
    (folder / f"{uid}.yml").write_text(text.replace("AGENTS", "".join(agents)))


def run(folder: Path, uid: str, *options: str) -> tuple[int, str]:
    """Run the document of a uid; return exit status and what was said on stderr."""
    done = ganglion(folder, *options, "run", f"{uid}.yml", "--quiet")
    return done.returncode, done.stderr


def loading(bases: dict[str, str]) -> dict[str, str]:
    """Return what lets each agent load its model of run `first` from a base."""
    return {name: f'load: {{experiment_run: first, base: "{base}"}}' for name, base in bases.items()}


def digest(folder: Path, results: str) -> str:
    """Return the digest of the results of the last run of a folder; it must be whole."""
    done = ganglion(folder, "--results", results, "verify", "last", "--digest")
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which a run has left models in its store, in another one, in a directory, and in files."""
    folder = tmp_path_factory.mktemp("first")
    write(folder, "first", 5, "train", {name: f'models: "{place}"' for name, place in PLACES.items()})
    assert (0, "") == run(folder, "first")
    assert "whole" in ganglion(folder, "verify").stdout
    return folder


def test_a_copied_database_gives_the_models(first: Path, tmp_path: Path) -> None:
    """Without the folder of the run each place gives the same results, bit by bit, as its files do."""
    bases = {"ada": "sqlite:///copy.db", "bob": "sqlite:///kept.db", "cid": "kept"}
    files = loading(dict.fromkeys(PLACES, str(first / "results")))
    for name, more in {"files": files, "places": loading(bases)}.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name, "second", 6, "test", more)
    places, hidden = tmp_path / "places", first.with_name("hidden")
    shutil.copy(first / "results/ganglion.db", places / "copy.db")
    shutil.copy(first / "kept.db", places)
    shutil.copytree(first / "kept", places / "kept")
    assert (0, "") == run(tmp_path / "files", "second")
    first.rename(hidden)  # the rows say that the files are there
    try:
        assert (0, "") == run(places, "second")
    finally:
        hidden.rename(first)

    assert digest(tmp_path / "files", "results") == digest(places, "results")
    acted = json.loads(ganglion(places, "results", "actions", "last", "--format", "json").stdout)
    assert set(PLACES) == {row["agent"] for row in acted}
    for row in acted:
        learnt = load_arrays(first / f"results/first-1/brains/0/{row['agent']}/model.npz")["weight"]
        assert [learnt % 1.0] == list(row["setpoints"].values())
    loaded = sorted((places / "results/second-1/brains/loaded/0").iterdir())
    assert ["ada", "bob"] == [path.name for path in loaded]
    names = ["model-other.npz", "model-policy.npz", "model.npz"]
    assert names == sorted(path.name for path in loaded[0].iterdir())


def second_directory(folder: Path, *trips: Trip) -> tuple[str, list[str]]:
    """Carry out a run whose models are copied into `kept`; return its digest and the events that it has told."""
    write_world(folder, 1, 3, trips)
    document = folder / "chaos.yml"
    document.write_text(document.read_text().replace("{name: ada,", "{name: ada, models: kept,"))
    command = Command(folder, "run", "chaos.yml", "--name", RUN, more=private(folder))
    status, said = command.end()
    assert 0 == status, said
    kept = folder / "kept"
    assert [RUN] == [path.name for path in kept.iterdir()]
    names = ("model-policy.npz", "model.npz")
    expected = [f"{phase}/ada/{name}" for phase in range(2) for name in names]
    assert expected == sorted(str(path.relative_to(kept / RUN)) for path in kept.rglob("*.npz"))
    assert "finished" == json.loads((kept / RUN / "models.json").read_text())["status"]
    return digest(folder, "results"), [event["event"] for event in command.events]


@pytest.mark.parametrize(("number", "behind"), [pytest.param(2, False, marks=pytest.mark.long), (7, True)])
def test_a_governor_that_was_lost_keeps_its_folder_of_models(number: int, behind: bool) -> None:
    """Killed before or behind the first model that was stored: one folder of the run, and nothing comes again."""
    with tempfile.TemporaryDirectory(prefix="gk-", dir="/tmp") as text:
        whole, _ = second_directory(Path(text) / "w")
        killed = {"place": "governor.boundary", "number": number, "deed": "SIGKILL"}
        found, told = second_directory(Path(text) / "a", killed)

    assert behind == (told.index("brain.stored") < told.index("peer.lost"))
    assert (1, 0, 2) == tuple(told.count(name) for name in ("peer.restarted", "warning", "phase.started"))
    assert whole == found


def test_a_tampered_database_is_refused(first: Path, tmp_path: Path) -> None:
    """One other byte in a piece ends the run before its first step, with the model's name; nothing of it is left."""
    shutil.copy(first / "results/ganglion.db", tmp_path / "copy.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as connection, connection:
        connection.execute("UPDATE stored_brains SET path = '/gone' || path")
        connection.execute("UPDATE stored_pieces SET data = CAST(substr(data, 2) || x'07' AS BLOB)")
    write(tmp_path, "second", 6, "test", loading({"ada": "sqlite:///copy.db"}))
    status, said = run(tmp_path, "second")

    assert 1 == status
    assert "ada.load: model of agent `ada`" in said.replace("agents.", "")
    assert "copy.db: model" in said
    assert "it is damaged" in said
    assert [] == list((tmp_path / "results").rglob("*.npz*"))
    assert "actions" in ganglion(tmp_path, "results").stdout
    assert "[]" == ganglion(tmp_path, "results", "steps", "last", "--format", "json").stdout.strip()


def test_removed_runs_take_their_models_along(first: Path, tmp_path: Path) -> None:
    """What no run keeps any more is gone from the database, and verification finds nothing wrong."""
    shutil.copytree(first / "results", tmp_path / "results")
    assert 0 == ganglion(tmp_path, "runs", "rm", "first-1", "--yes").returncode
    with contextlib.closing(sqlite3.connect(tmp_path / "results/ganglion.db")) as connection:
        tables = ("models", "pieces", "kept", "brains")
        counts = [connection.execute(f"SELECT count(*) FROM stored_{name}").fetchone()[0] for name in tables]

    assert [0, 0, 0, 0] == counts


def test_without_a_store_nothing_is_started(tmp_path: Path) -> None:
    """`store` means the run's own: where it has none, that is a fault of the document, at its place."""
    write(tmp_path, "first", 5, "train", {"ada": "models: store"})
    status, said = run(tmp_path, "first", "--store", "none")

    assert 2 == status
    assert "models of agent `ada`: `store` is the run's own, and this run has none" in said


@pytest.mark.parametrize(
    ("role", "place"),
    [("store", "store"), pytest.param("governor", "sqlite:///kept.db", marks=pytest.mark.long)],
)
def test_who_writes_models_may_be_killed(tmp_path: Path, role: str, place: str) -> None:
    """Whoever is killed while a large model is written has a successor that writes it; it is there once, and whole."""
    write(tmp_path, "first", 5, "train", {"ada": f'models: "{place}"'}, LARGE)
    command = Command(tmp_path, "run", "first.yml")
    command.until("phase.started")
    rows = json.loads(ganglion(tmp_path, "ps", "--json").stdout)
    victim = next(int(row["pid"]) for row in rows if row["role"] == role)
    command.until("brain.stored")
    os.kill(victim, signal.SIGKILL)
    status, said = command.end()
    assert 0 == status, said

    database = tmp_path / ("results/ganglion.db" if place == "store" else "kept.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        sizes = [row[0] for row in connection.execute("SELECT bytes FROM stored_models ORDER BY bytes")]
        tags = [row[0] for row in connection.execute("SELECT tag FROM stored_brains ORDER BY tag")]
        pieces = connection.execute("SELECT count(*) FROM stored_pieces").fetchone()[0]
    assert (["", "other", "policy"], 3, True) == (tags, len(sizes), sizes[-1] > 8 * LARGE)
    assert 6 + 2 == pieces
    for store in (tmp_path / "results/ganglion.db", database):
        done = ganglion(tmp_path, "--store", f"sqlite:///{store}", "verify")
        assert (0, "first-1: whole\n") == (done.returncode, done.stdout)
