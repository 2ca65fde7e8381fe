"""Files of recorded sessions: what goes out comes back, others read it, and what is wrong is refused by its place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import DocumentError, StoreError, UsageError
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from ganglion_replay import RecordingInvalid, export_sessions, import_sessions, rlds_view, sessions
from ganglion_replay.files import FORMATS, OPEN_MAX

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ARRAYS = ("observations", "actions", "rewards", "objectives", "terminated", "truncated", "ticks", "policy_version")
SENSORS: dict[str, Space] = {"w.speed": Box(-np.inf, np.inf, (2,), np.float32), "w.lamp": Discrete(5, start=-2)}
ACTUATORS: dict[str, Space] = {"w.push": Box(-1.0, 1.0, (), np.float32)}


def declared(spaces: dict[str, Space]) -> list[Information]:
    """Return declarations without values."""
    return [Information(None, space, uid) for uid, space in spaces.items()]


def sampled(spaces: dict[str, Space], rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Return rows of values of all spaces, side by side."""
    rng = np.random.default_rng(seed)
    dtype = np.result_type(*(space.dtype for space in spaces.values()))
    lines = [np.concatenate([s.to_vector(s.sample(rng)) for s in spaces.values()]) for _ in range(rows)]
    return np.array(lines, dtype)


def session(number: int = 0, steps: int = 3, **changed: Any) -> Session:
    """Return a session whose values tell where it belongs; it terminates."""
    sensors, actuators = changed.pop("sensors", SENSORS), changed.pop("actuators", ACTUATORS)
    given: dict[str, Any] = {
        "run": "old-1",
        "phase": 1,
        "worker": number % 2,
        "agent": "ada",
        "environment": "w",
        "body": 0,
        "episode": number // 2,
        "mode": Mode.TEST,
        "sensors": declared(sensors),
        "actuators": declared(actuators),
        "observations": sampled(sensors, steps + 1, number),
        "actions": sampled(actuators, steps, 100 + number),
        "rewards": np.arange(steps, dtype=np.float64)[:, np.newaxis] / 3 + number,
        "reward_ids": ["w.r"],
        "reward_spaces": [Box(-np.inf, np.inf, ())],
        "objectives": np.where(np.arange(steps) == 0, np.nan, np.arange(steps) / 7),
        "terminated": np.arange(steps) == steps - 1,
        "truncated": np.zeros(steps, bool),
        "ticks": np.arange(steps) + 5,
        "seed": 2**52 + number,
        "policy_version": np.arange(steps) + number,
        "policy": ["latest", *["pool"] * (steps - 1)],
        "phase_name": "play",
    }
    return Session(**(given | changed))


def told(one: Session) -> dict[str, Any]:
    """Return all that a session holds, comparable: arrays with their dtypes and bytes."""
    arrays = {name: getattr(one, name) for name in ARRAYS}
    found = {name: None if a is None else (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}
    whole = {name: [(it.uid, it.space) for it in getattr(one, name)] for name in ("sensors", "actuators")}
    plain = ("run", "phase", "worker", "agent", "environment", "body", "episode", "mode", "seed", "phase_name")
    policy = None if one.policy is None else [str(word) for word in one.policy]
    rewards = [list(one.reward_ids), list(one.reward_spaces), policy]
    return {**found, **whole, "rewards of": rewards, **{name: getattr(one, name) for name in plain}}


def there(folder: Path) -> list[str]:
    """Return all that is below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


CASES: dict[str, Callable[[], list[Session]]] = {
    "several items, seeds, versions": lambda: [session(i, 2 + i) for i in range(4)],
    "one of each": lambda: [session(i, sensors={"w.lamp": Discrete(5)}) for i in range(2)],
    "bodies": lambda: [session(0, body=b, environment=e) for e in ("lake", "moor") for b in (0, 1, 10)],
    "integers with a sign and bits": lambda: [
        session(sensors={"w.m": MultiDiscrete([3, 4], start=[-1, 2])}, actuators={"w.b": MultiBinary(3)})
    ],
    "parts of a space": lambda: [session(sensors={"w.d": Dict(a=Discrete(3), b=Box(0.0, 1.0, (2,)))})],
    "nothing known beside": lambda: [
        session(seed=None, policy_version=None, policy=None, phase_name="", objectives=np.full(3, np.nan))
    ],
    "rewards missing, several, of arrays": lambda: [
        session(
            rewards=np.array([[1.5, 1, 2], [np.nan, 3, 4], [2.5, np.nan, np.nan]]),
            reward_ids=["w.r", "w.pair"],
            reward_spaces=[Box(-9.0, 9.0, ()), Box(-9.0, 9.0, (2,))],
        )
    ],
    "rewards of another dtype": lambda: [
        session(rewards=np.array([[1], [2], [3]], dtype), reward_spaces=[Box(0, 9, (), dtype)], body=body)
        for body, dtype in enumerate((np.int64, np.float32))
    ],
    "closing readings unknown": lambda: [session(observations=sampled(SENSORS, 3, 1))],
    "truncated, both, neither within": lambda: [
        session(0, terminated=np.zeros(3, bool), truncated=np.array([False, False, True])),
        session(1, truncated=np.array([False, True, True])),
    ],
    "an image": lambda: [
        session(sensors={"w.eye": Box(0, 255, (64, 64, 3), np.uint8)}, actuators={"w.a": Discrete(2)})
    ],
    "ids with slashes": lambda: [session(environment="a/b", sensors={"a/b.x/y": Discrete(3), "a/b.%2F": Discrete(4)})],
    "several environments at once": lambda: [session(environment="x,y", sensors={"x.a": Discrete(3)})],
    "more bodies than are open": lambda: [session(e, 1, body=b) for e in (0, 2) for b in range(OPEN_MAX + 2)],
    "spaces that changed": lambda: [session(0), session(2, sensors={"w.other": Discrete(2)}, phase=2)],
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_what_goes_out_comes_back(tmp_path: Path, case: str, form: str) -> None:
    """Arrays, dtypes, keys, seeds, flags and columns are equal, from each format."""
    given = CASES[case]()
    done = export_sessions(given, tmp_path / "out", form)
    back = import_sessions(tmp_path / "out")

    key = lambda one: (one.run, one.agent, one.environment, one.body, one.phase, one.worker, one.episode)  # noqa: E731
    assert sorted(map(str, map(told, given))) == sorted(map(str, map(told, back)))
    assert {key(one): told(one) for one in given} == {key(one): told(one) for one in back}
    assert (len(given), sum(map(len, given))) == (len(back), back.decisions) == (done.sessions, done.steps)
    assert [] == list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("form", FORMATS)
def test_an_open_episode_is_truncated_in_files(tmp_path: Path, form: str) -> None:
    """What has no end is told, and has one in the files."""
    done = export_sessions([session(terminated=np.zeros(3, bool))], tmp_path, form)
    (found,) = import_sessions(tmp_path)

    assert (1, [False, False, True]) == (done.open, found.truncated.tolist())
    assert not found.terminated.any()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("case", ["observations", "rewards"])
def test_what_is_no_number_is_not_written(tmp_path: Path, case: str, value: float, form: str) -> None:
    """A reading of NaN, or infinity behind a bound, and an infinite reward are told by session, tick and id."""
    box: dict[str, Space] = {"w.x": Box(-1.0, 1.0, (2,))}
    one = session(1, sensors=box)
    array = getattr(one, case).copy()
    array[1, -1] = value
    if case == "rewards" and np.isnan(value):
        return  # a reward that is not there
    (tmp_path / "kept").mkdir()
    with pytest.raises(
        RecordingInvalid, match=r"session old-1, phase 1, worker 1, ada/w/0, episode 0, tick 1: .*expected a"
    ):
        export_sessions([session(0, sensors=box), replace(one, **{case: array})], tmp_path, form)

    assert ["kept"] == there(tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_written_unless_all_is(tmp_path: Path, form: str) -> None:
    """A source that fails, a name that is taken, an empty source: the folder is as it was, and none is made."""

    def failing() -> Iterator[Session]:
        yield session()
        raise StoreError("the row is damaged")

    with pytest.raises(StoreError, match="the row is damaged"):
        export_sessions(failing(), tmp_path / "a" / "b", form)
    with pytest.raises(UsageError, match="at least one session"):
        export_sessions([], tmp_path / "a", form)
    assert [] == there(tmp_path)
    export_sessions([session(body=1)], tmp_path, form)
    before = there(tmp_path)
    with pytest.raises(UsageError, match=r"ada-w-1-v0: is there already"):
        export_sessions([session(body=0), session(body=1)], tmp_path, form)
    assert before == there(tmp_path)


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; nothing is made."""
    import sys

    for name, form, extra in (("h5py", "minari", "hdf5"), ("pyarrow", "parquet", "parquet")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(UsageError, match=rf"pip install 'ganglion-replay\[{extra}\]'"):
            export_sessions([session()], tmp_path / "new", form)
    assert [] == there(tmp_path)


@pytest.mark.parametrize("form", ["jpeg", ""])
def test_an_unknown_format_is_refused(tmp_path: Path, form: str) -> None:
    """The formats are named, to write and to read."""
    with pytest.raises(UsageError, match="expected a format of minari, minari-hdf5"):
        export_sessions([session()], tmp_path, form)
    with pytest.raises(UsageError, match="expected a format of minari, minari-hdf5"):
        import_sessions(tmp_path, form)


# -- damaged and foreign ----------------------------------------------------------------------------------------------
Spoil = Callable[[Path], None]


def in_hdf5(change: Callable[[Any], None]) -> Spoil:
    """Return what changes the second episode of the HDF5 file below a folder."""

    def spoil(folder: Path) -> None:
        (path,) = folder.rglob("*.hdf5")
        with h5py.File(path, "a") as file:
            change(file["episode_1"])

    return spoil


def put(name: str, data: Any) -> Spoil:
    """Return what puts another array in the place of one; without data there is none."""

    def change(group: Any) -> None:
        del group[name]
        if data is not None:
            group[name] = data

    return in_hdf5(change)


def said(name: str, value: Any) -> Spoil:
    """Return what says something else of an episode."""
    return in_hdf5(lambda group: group.attrs.__setitem__(name, value))


def executable(group: Any) -> None:
    """Put bytes, from which a program could make objects, in the place of numbers."""
    del group["rewards"]
    array = group.create_dataset("rewards", (3,), h5py.vlen_dtype(np.uint8))
    for row in range(3):
        array[row] = np.frombuffer(b"\x80\x04cbuiltins\nprint\n.", "u1")


def cut(suffix: str) -> Spoil:
    """Return what cuts the last file of a kind in the middle."""

    def spoil(folder: Path) -> None:
        path = max(folder.rglob(f"*{suffix}"))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return spoil


def in_json(**changed: Any) -> Spoil:
    """Return what changes the metadata of a dataset."""

    def spoil(folder: Path) -> None:
        path = next(folder.rglob("data/metadata.json"))
        meta = json.loads(path.read_text()) | changed
        path.write_text(json.dumps({name: value for name, value in meta.items() if value is not None}))

    return spoil


def in_table(change: Callable[[Any], Any]) -> Spoil:
    """Return what changes the last table below a folder."""

    def spoil(folder: Path) -> None:
        path = max(folder.rglob("*.parquet"))
        parquet.write_table(change(parquet.read_table(path, partitioning=None)), path)

    return spoil


def cast(name: str, kind: Any) -> Spoil:
    """Return what gives a column another type."""
    return in_table(lambda t: t.set_column(t.column_names.index(name), name, t[name].cast(kind)))


def cell(name: str, row: int | None, value: Any) -> Spoil:
    """Return what puts another value into a row of a column, or into all of them."""

    def change(table: Any) -> Any:
        values = [value if row in (None, i) else old for i, old in enumerate(table[name].to_pylist())]
        return table.set_column(table.column_names.index(name), name, pa.array(values).cast(table[name].type))

    return in_table(change)


IMAGE = json.dumps({"type": "Box", "dtype": "uint8", "shape": [40, 40], "low": 0, "high": 255})
SEEN, ELSEWHERE = "observations/w.speed", h5py.ExternalLink("/etc/other.hdf5", "/rewards")
FOREIGN = {"ganglion": None}  # a dataset that Minari wrote
SPOILT: dict[str, list[tuple[Spoil, str]]] = {
    "minari": [
        (cut(".hdf5"), r"main_data.hdf5.*cannot be read as HDF5"),
        (cut("metadata.json"), r"metadata.json: cannot be read as JSON"),
        (put("rewards", None), r"episode_1: expected `rewards`, found none"),
        (put(SEEN, np.zeros((4, 3), "f4")), r"episode_1: w.speed: expected the shape \[2\].*found \[3\]"),
        (put(SEEN, np.zeros((4, 2))), r"episode_1: w.speed: expected the dtype float32, found float64"),
        (put(SEEN, np.zeros((3, 2), "f4")), r"episode_1: w.speed: expected 4 rows, found 3"),
        (put(SEEN, np.full((4, 2), np.nan, "f4")), r"episode_1, tick 0: w.speed\[0\]: expected a number"),
        (put("rewards", [1.0, np.nan, 2.0]), r"episode_1, tick 1: expected a number as reward, found nan"),
        (put("rewards", [1.0, np.inf, 2.0]), r"episode_1, tick 1: expected a finite reward"),
        (put("terminations", [0, 0, 1]), r"episode_1: terminated: expected the dtype bool, found int64"),
        (put("rewards", [b"x", b"y", b"z"]), r"episode_1/rewards: expected an array of numbers"),
        (in_hdf5(executable), r"episode_1/rewards: expected an array of numbers, found object.*executed"),
        (put("rewards", ELSEWHERE), r"episode_1: expected `rewards` in the file itself, found a link"),
        (said("body", 3), r"episode_1: expected an episode of .*found"),
        (said("mode", "x"), r"episode_1: expected train, test or evaluate"),
        (said("seed", -4), r"episode_1: expected a number >= 0 as seed"),
        (said("total_steps", 9), r"episode_1: expected 9 steps, found 3"),
        (in_json(total_episodes=3), r"episode_2: expected `episode_2`, found none"),
        (in_json(total_steps=7), r"metadata.json: expected 7 steps in all episodes, found 6"),
        (in_json(total_steps="x"), r"metadata.json: expected total_episodes and total_steps as numbers"),
        (in_json(ganglion={"revision": 99}), r"metadata.json: expected revision 1 or less"),
        (in_json(ganglion={"revision": 1}), r"metadata.json: expected run, agent"),
        (in_json(**FOREIGN, jpeg_encoding=True, observation_space=IMAGE), r"metadata.json: .*JPEG, which is lossy"),
        (in_json(**FOREIGN, observation_space=None), r"observation_space: expected a space; one that only"),
        (in_json(**FOREIGN, observation_space='{"type": "Graph"}'), r"expected Box, .*found 'Graph'"),
    ],
    "minari-parquet": [
        (cut(".parquet"), r"data/1/part-0.parquet: cannot be read as Parquet"),
        (cut("1/metadata.json"), r"data/1/metadata.json: cannot be read as JSON"),
        (lambda folder: shutil.rmtree(folder / "old-1/ada-w-0-v0/data/1"), r"data/1: expected one Parquet file"),
        (cell("rewards", 1, None), r"data/1/.*rewards: expected a value in each row"),
        (in_table(lambda t: t.drop_columns("actions")), r"data/1/.*expected the column `actions`"),
    ],
    "parquet": [
        (cut(".parquet"), r"part-00000.parquet: cannot be read as parquet"),
        (in_table(lambda t: t.replace_schema_metadata({})), r"expected a table of sessions that Ganglion wrote"),
        (in_table(lambda t: t.drop_columns("sensors.w.lamp")), r"expected one column `sensors.w.lamp`, found 0"),
        (cast("tick", pa.int32()), r"column `tick`: expected int64, found int32"),
        (cast("sensors.w.speed", pa.list_(pa.float32())), r"`sensors.w.speed`: expected fixed_size_list.*found list"),
        (cell("step", 6, 7), r"row 4, phase 1, .*episode 0: expected step 2 in row 6"),
        (cell("episode", 6, 7), r"row 4: episode: expected one value in all rows"),
        (cell("run", None, "other"), r"row 0: run: expected 'old-1', found 'other'"),
        (cell("sensors.w.speed", 5, [0.0, np.nan]), r"row 4.*, tick 1: w.speed\[1\]: expected a number, found nan"),
        (cell("rewards.w.r", 5, np.nan), r"row 4.*, tick 1: rewards.w.r: expected a number"),
        (cell("setpoints.w.push", 5, None), r"row 4.*setpoints.w.push: expected a value"),
    ],
    "arrow": [(cut(".arrow"), r"part-00000.arrow: cannot be read as arrow")],
}
BAD = [(form, *row) for form, rows in SPOILT.items() for row in rows]


@pytest.mark.parametrize("case", range(len(BAD)), ids=lambda i: f"{i} {BAD[i][0]}")
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, case: int) -> None:
    """A file that is cut, foreign, lossy, executable, or not as it says is refused: file, session, tick."""
    form, spoil, text = BAD[case]
    export_sessions([session(0), session(1)], tmp_path, form)
    spoil(tmp_path)
    before = there(tmp_path)

    with pytest.raises(RecordingInvalid, match=text):
        list(import_sessions(tmp_path))
    assert before == there(tmp_path)


def test_where_nothing_is_it_is_said(tmp_path: Path) -> None:
    """A path without a dataset is refused by name, with what is there instead."""
    with pytest.raises(UsageError, match="found nothing"):
        import_sessions(tmp_path / "none")
    with pytest.raises(UsageError, match="found none"):
        import_sessions(tmp_path)
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(UsageError, match=r"a.csv"):
        import_sessions(tmp_path)
    export_sessions([session()], tmp_path, "parquet")
    with pytest.raises(UsageError, match=r"expected a dataset \(arrow\)"):
        import_sessions(tmp_path, "arrow")


def test_a_view_of_rlds(tmp_path: Path) -> None:
    """A row for each observation; the last has no action, and is terminal where the episode terminated."""
    view = rlds_view(session(steps=2))
    cut_off = rlds_view(session(steps=2, terminated=np.zeros(2, bool), truncated=np.array([False, True])))

    assert [True, False, False] == view["is_first"].tolist()
    assert [False, False, True] == view["is_last"].tolist() == view["is_terminal"].tolist()
    assert [False] * 3 == cut_off["is_terminal"].tolist()
    assert {3} == {len(view[name]) for name in ("reward", "discount")} | {len(a) for a in view["action"].values()}


def test_sources_of_documents_are_files_too(tmp_path: Path) -> None:
    """`path` names them, from where the document lies; what cannot be read is a fault with the place of the source."""
    from ganglion_replay.sources import Finder

    export_sessions([session(0), session(1, agent="bob")], tmp_path / "out")
    finder = Finder("doc", "", tmp_path, None)
    found = finder.find("run.yml:3:4: a.replay.0", {"path": "out"}, "scout")
    only = finder.find("run.yml:3:4: a.replay.0", {"path": "out", "format": "minari", "agent": "bob"}, "scout")

    assert ["ada", "bob"] == [one.agent for one in found.sessions()] == [one.agent for one in found.sessions()]
    assert ["bob"] == [one.agent for one in only.sessions()]
    cut(".hdf5")(tmp_path)
    with pytest.raises(DocumentError, match=r"^run.yml:3:4: a.replay.0: .*main_data.hdf5"):
        finder.find("run.yml:3:4: a.replay.0", {"path": "out"}, "scout")
    with pytest.raises(DocumentError, match=r"^run.yml:3:4: a.replay.0: .*found nothing"):
        finder.find("run.yml:3:4: a.replay.0", {"path": "none"}, "scout")


# -- stores -----------------------------------------------------------------------------------------------------------
def test_sessions_of_a_store_are_chosen(archive: Any) -> None:
    """By phase, agent, environment, body, worker, mode; what is not there is refused with what is."""
    archive.run("r", phases=[("one", "test"), ("two", "train")], workers=2)
    chosen: Sequence[tuple[dict[str, Any], int]] = [
        ({}, 8),
        ({"phase": 1}, 4),
        ({"phase": "one", "worker": 1}, 2),
        ({"agent": "a", "environment": "w", "body": 0}, 8),
        ({"mode": "evaluate"}, 0),
    ]

    assert [count for _, count in chosen] == [len(list(sessions(archive.uri, "r", **only))) for only, _ in chosen]
    for only in ({"phase": "none"}, {"agent": "b"}, {"environment": "v"}, {"body": 1}):
        ((what, name),) = only.items()
        with pytest.raises(UsageError, match=rf"run r has no {what} `{name}`; there are: "):
            sessions(archive.uri, "r", **only)  # type: ignore[arg-type]


def test_a_run_without_first_readings_is_refused(archive: Any) -> None:
    """A run of a time before they were kept is refused by its name, before anything is read."""
    archive.run("r", spoil=lambda record: None if record[0] == "resets" else record)

    with pytest.raises(StoreError, match=r"run r: its first readings are missing: it was recorded before"):
        sessions(archive.uri, "r")


def test_decisions_that_are_missing_are_refused(archive: Any) -> None:
    """An episode that is not whole is not passed over."""

    def spoil(record: list[Any]) -> list[Any]:
        if record[0] == "actions" and record[5] == 1:
            return [*record[:6], [record[6][0], record[6][2]]]
        return record

    archive.run("r", episodes=3, spoil=spoil)
    with pytest.raises(StoreError, match=r"run r, phase 0, worker 0, episode 1: decisions are missing"):
        list(sessions(archive.uri, "r"))


# -- Minari -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return Minari, whose datasets are in the folder of the test."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", os.fspath(tmp_path))
    return pytest.importorskip("minari")


@pytest.mark.parametrize("form", ["minari-hdf5", "minari-parquet"])
@pytest.mark.parametrize("case", CASES)
def test_minari_counts_the_same_and_reads_every_array(minari: Any, tmp_path: Path, case: str, form: str) -> None:
    """Minari lists our datasets, counts their episodes and steps, and has equal arrays, T + 1 observations included."""
    given = CASES[case]()
    export_sessions(given, tmp_path, form)
    names = minari.list_local_datasets()
    found = [one for name in names for one in minari.load_dataset(name).iterate_episodes()]

    def flat(tree: Any) -> list[Any]:
        return sorted((a.dtype.str, a.tobytes()) for a in leaves(tree))

    assert [len(given), sum(map(len, given))] == [
        sum(minari.load_dataset(name).spec.total_episodes for name in names),
        sum(minari.load_dataset(name).spec.total_steps for name in names),
    ]
    assert sorted(
        (flat(dict(one.setpoints)), one.terminated.tolist(), one.truncated.tolist()) for one in given
    ) == sorted((flat(one.actions), one.terminations.tolist(), one.truncations.tolist()) for one in found)
    assert {1} == {len(leaf) - len(one.rewards) for one in found for leaf in leaves(one.observations)}
    if all(one.has_final for one in given):
        assert sorted(flat(dict(one.readings)) for one in given) == sorted(flat(one.observations) for one in found)


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of an observation."""
    return list(tree.values()) if isinstance(tree, dict) else [tree]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Minari, about what would be nice to know
@pytest.mark.parametrize("form", ["hdf5", "parquet"])
def test_what_minari_wrote_is_read(minari: Any, tmp_path: Path, form: str) -> None:
    """Sessions of Minari's own collector are the arrays that it gives, with ids, spaces, seeds."""
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    pole, buffers = gymnasium.make("CartPole-v1"), []
    for seed in range(3):
        pole.action_space.seed(seed)
        seen, rows = [pole.reset(seed=seed)[0]], []
        while not rows or not any(rows[-1][2:]):
            action = pole.action_space.sample()
            observation, reward, *ends, _ = pole.step(action)
            seen.append(observation)
            rows.append((action, reward, *ends))
        actions, rewards, *flags = map(np.array, zip(*rows, strict=True))
        buffers.append(EpisodeBuffer(None, seed, None, np.array(seen), actions, rewards, *flags, None))
    spaces = {"observation_space": pole.observation_space, "action_space": pole.action_space}
    about = {
        "algorithm_name": "random",
        "author": "a",
        "author_email": "a@b.c",
        "code_permalink": "d",
        "description": "e",
    }
    minari.create_dataset_from_buffers("pole/random-v0", buffers, data_format=form, **spaces, **about)
    pole.close()
    theirs = list(minari.load_dataset("pole/random-v0").iterate_episodes())
    ours = list(import_sessions(tmp_path))

    assert [0, 1, 2] == [one.seed for one in ours]
    assert {("pole-random-v0", "agent", "environment")} == {(one.run, one.agent, one.environment) for one in ours}
    assert ["environment.observation", "environment.action"] == [
        it.uid for it in (*ours[0].sensors, *ours[0].actuators)
    ]
    for one, other in zip(ours, theirs, strict=True):
        assert one.observations.tobytes() == other.observations.tobytes()
        assert one.actions[:, 0].tolist() == other.actions.tolist()
        assert one.rewards[:, 0].tolist() == other.rewards.tolist()
        assert (one.terminated.tolist(), one.truncated.tolist()) == (
            other.terminations.tolist(),
            other.truncations.tolist(),
        )
