"""Files: recorded sessions in datasets that other tools read, written atomically, read one after another."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ganglion import __version__
from ganglion.errors import DiskError, DocumentError, StoreError, UsageError
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import Box, Space
from ganglion.sdk.spaces import parse_space as _parsed
from ganglion.synced import sync
from ganglion_replay.pool import ReplayError
from ganglion_replay.sources import Finder
from ganglion_replay.sources import Recorded as Found
from ganglion_replay.stored import SessionSource

__all__ = [
    "FORMATS",
    "Dataset",
    "Exported",
    "Form",
    "ImportedSessions",
    "Layout",
    "RecordingInvalid",
    "Writer",
    "assembled",
    "checked",
    "export_sessions",
    "find",
    "import_sessions",
    "layout_of",
    "library",
    "rlds_view",
]

Array = NDArray[Any]
Pairs = list[list[str]]
"""Columns: full id and space, as text."""

FORMATS = ("minari-hdf5", "minari-parquet", "parquet", "arrow")
"""The formats of datasets; `minari` is the first of them."""

REVISION = 1
"""Revision of the head beside the arrays; files of a greater one are refused by name."""
OPEN_MAX = 16  # datasets written at a time: each holds up to 8 MiB and an open file
EPISODE_BYTES_MAX = 4 * 1024**3  # of one array of a session, which is read as a whole: a file may claim any size
HEAD_BYTES_MAX = 64 * 1024**2  # of JSON beside the arrays, in which the bounds of a large image are text

_STRANGE = re.compile(r"[^-\w]", re.ASCII)
_NAME = re.compile(r"(?P<name>.+)-v(?P<version>\d+)")


class RecordingInvalid(ReplayError, StoreError):
    """Report a file without valid sessions, with the place: file, session, tick."""


def library(name: str, extra: str) -> Any:
    """Return a module of an extra of this distribution; UsageError names a missing extra."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        base = name.partition(".")[0]
        text = f"expected the package {base} for files of this format, which cannot be imported ({error})"
        raise UsageError(f"{text}: pip install 'ganglion-replay[{extra}]'") from error


@lru_cache(maxsize=512)  # cached: the bounds of an image are long texts
def parse_space(text: str) -> Space:
    """Return the space of a text."""
    return _parsed(text)


@lru_cache(maxsize=512)
def text_of(space: Space) -> str:
    """Return a space as text."""
    return space.to_string()


# -- heads of datasets ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Form:
    """The owner of a dataset's sessions, and its columns: pairs of full id and space, as text."""

    run: str
    agent: str
    environment: str
    body: int
    sensors: Pairs
    actuators: Pairs
    rewards: Pairs

    @classmethod
    def of(cls, session: Session) -> Form:
        """Return the form of a session's dataset."""
        seen, acted = ([[it.uid, text_of(it.space)] for it in part] for part in (session.sensors, session.actuators))
        whose = session.run, session.agent, session.environment, session.body
        return cls(*whose, seen, acted, _reward_spaces(session))

    @property
    def columns(self) -> tuple[Pairs, Pairs, Pairs]:
        """Return the columns of readings, setpoints and rewards."""
        return self.sensors, self.actuators, self.rewards

    @property
    def key(self) -> str:
        """Return the identity of a dataset as text."""
        return json.dumps(list(vars(self).values()))

    @property
    def name(self) -> str:
        """Return the folder of the dataset without its version; several datasets may share a name."""
        whose = "-".join(_STRANGE.sub("_", part) for part in (self.agent, self.environment))
        return f"{self.namespace(self.run)}/{whose}-{self.body}"

    @staticmethod
    def namespace(run: str) -> str:
        """Return the folder of all datasets of a run."""
        name = _STRANGE.sub("_", run)
        return name if len(name) > 1 else f"run-{name}"  # Minari takes no shorter one


def _reward_spaces(session: Session) -> Pairs:
    """Return columns for rewards; with unknown spaces, an array of several numbers is one column."""
    width, ids, dtype = session.rewards.shape[1], session.reward_ids, session.rewards.dtype
    spaces = list(session.reward_spaces)
    if len(spaces) == len(ids) and sum(space.size for space in spaces) == width:
        if np.result_type(*(space.dtype for space in spaces), *([] if spaces else [dtype])) == dtype:
            return [[uid, text_of(space)] for uid, space in zip(ids, spaces, strict=True)]
        # A missing value needs a float.
        spaces = [Box(-np.inf, np.inf, space.shape, dtype) for space in spaces]
        return [[uid, text_of(space)] for uid, space in zip(ids, spaces, strict=True)]
    if width != len(ids) and len(ids) != 1:
        what = f"{len(ids)} rewards of one number each"
        raise RecordingInvalid(f"{place_of(session)}: expected {what}, or one array, found {width} numbers")
    shape = () if width == len(ids) else (width,)
    return [[uid, Box(-np.inf, np.inf, shape, dtype).to_string()] for uid in ids]


def head_of(form: Form, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of a dataset, as plain values."""
    versions = {"ganglion": __version__, "numpy": np.__version__}
    return {"revision": REVISION, **vars(form), **about, "versions": versions}


def form_of(head: Any, where: str) -> Form:
    """Return the form in a head; RecordingInvalid: the head is not Ganglion's, or of a later revision."""
    try:
        if type(head["revision"]) is not int or head["revision"] > REVISION:
            found = head["revision"]
            raise RecordingInvalid(f"{where}: expected revision {REVISION} or less of our files, found {found!r:.20}")
        seen, acted, rewards = (
            [[str(uid), text_of(parse_space(text))] for uid, text in head[kind]]
            for kind in ("sensors", "actuators", "rewards")
        )
        texts = [head[name] for name in ("run", "agent", "environment")]
        if not all(isinstance(text, str) for text in texts) or type(head["body"]) is not int:
            raise ValueError("run, agent and environment are texts, body is a number")
        return Form(texts[0], texts[1], texts[2], head["body"], seen, acted, rewards)
    except (KeyError, TypeError, ValueError) as error:
        what = "run, agent, environment, body, sensors, actuators, rewards"
        raise RecordingInvalid(f"{where}: expected {what} as Ganglion writes them: {error!s:.200}") from error


def about_of(head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rest of a head: the digest of the run's document, if known."""
    document = head.get("document")
    return {"document": document if isinstance(document, str) else None}


def declared(pairs: Pairs) -> list[Information]:
    """Return columns as declarations without values."""
    return [Information(None, parse_space(text), uid) for uid, text in pairs]


def dtype_of(pairs: Pairs) -> np.dtype[Any]:
    """Return the dtype of a matrix with these columns."""
    dtypes = [parse_space(text).dtype for _, text in pairs]
    return np.result_type(*dtypes) if dtypes else np.dtype(np.float64)


# -- sessions out of columns ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Columns:
    """Hold the unchecked content of one session of a file.

    `readings`, `setpoints` and `rewards` are by column; a missing reward or objective is NaN, which is not allowed
    elsewhere. `at` names the session in messages.
    """

    at: str
    key: Mapping[str, Any]
    readings: Sequence[Array]
    setpoints: Sequence[Array]
    rewards: Sequence[Array]
    terminated: Array
    truncated: Array
    ticks: Array | None = None
    objectives: Array | None = None
    policy_version: Array | None = None
    policy: Sequence[str] | None = None
    final: bool = True


KEY = ("phase", "worker", "episode")


def assembled(form: Form, columns: Columns) -> Session:
    """Return the session of columns after checking them by its form.

    Raises:
        RecordingInvalid: A count, dtype or shape differs, or a value is NaN, or infinite beyond a finite bound.
    """
    at, key = columns.at, columns.key
    steps = len(columns.terminated)
    for name in KEY:
        if type(key.get(name)) is not int or key[name] < 0:
            raise RecordingInvalid(f"{at}: expected a number >= 0 as {name}, found {key.get(name)!r:.40}")
    if key.get("mode") not in [mode.value for mode in Mode]:
        raise RecordingInvalid(f"{at}: expected train, test or evaluate as mode, found {key.get('mode')!r:.40}")
    seed = key.get("seed")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise RecordingInvalid(f"{at}: expected a number >= 0 as seed, found {seed!r:.40}")
    if not steps:
        raise RecordingInvalid(f"{at}: expected at least one step, found none")
    flags = {"terminated": columns.terminated, "truncated": columns.truncated}
    for name, array in flags.items():
        _check(at, name, array, steps, (), np.dtype(bool))
    for name, numbers in (("ticks", columns.ticks), ("policy_version", columns.policy_version)):
        if numbers is not None:
            _check(at, name, numbers, steps, (), np.dtype(np.int64))
    if columns.objectives is not None:
        _check(at, "objectives", columns.objectives, steps, (), np.dtype(np.float64))
    matrix = _matrix(at, form.rewards, columns.rewards, steps, missing=True)
    if matrix.dtype.kind == "f" and np.isinf(matrix).any():
        tick = int(np.argwhere(np.isinf(matrix))[0, 0])
        raise RecordingInvalid(f"{at}, tick {tick}: expected a finite reward, found infinity")
    return Session(
        run=form.run,
        phase=key["phase"],
        worker=key["worker"],
        agent=form.agent,
        environment=form.environment,
        body=form.body,
        episode=key["episode"],
        mode=Mode(key["mode"]),
        sensors=declared(form.sensors),
        actuators=declared(form.actuators),
        observations=_matrix(at, form.sensors, columns.readings, steps + columns.final),
        actions=_matrix(at, form.actuators, columns.setpoints, steps),
        rewards=matrix,
        reward_ids=[uid for uid, _ in form.rewards],
        objectives=np.full(steps, np.nan) if columns.objectives is None else columns.objectives,
        terminated=columns.terminated,
        truncated=columns.truncated,
        ticks=np.full(steps, -1, np.int64) if columns.ticks is None else columns.ticks,
        seed=seed,
        policy_version=columns.policy_version,
        policy=columns.policy,
        reward_spaces=[parse_space(text) for _, text in form.rewards],
        phase_name=str(key.get("phase_name") or ""),
    )


def _check(at: str, name: str, array: Array, rows: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if array.dtype != dtype:
        raise RecordingInvalid(f"{at}: {name}: expected the dtype {dtype}, found {array.dtype}")
    if array.shape[1:] != shape:
        found = list(array.shape[1:])
        raise RecordingInvalid(f"{at}: {name}: expected the shape {list(shape)} in each row, found {found}")
    if len(array) != rows:
        raise RecordingInvalid(f"{at}: {name}: expected {rows} rows, found {len(array)}")


def _matrix(at: str, pairs: Pairs, arrays: Sequence[Array], rows: int, missing: bool = False) -> Array:
    """Return columns side by side, checked; the dtype is that of all their spaces together."""
    spaces = [parse_space(text) for _, text in pairs]
    if len(arrays) != len(spaces):
        raise RecordingInvalid(f"{at}: expected {len(spaces)} items, found {len(arrays)}")
    found = np.empty((rows, sum(space.size for space in spaces)), dtype_of(pairs))
    begin = 0
    for (uid, _), space, array in zip(pairs, spaces, arrays, strict=True):
        _check(at, uid, array, rows, space.shape, space.dtype)
        flat = array.reshape(rows, space.size)
        if not missing:
            _check_numbers(at, uid, space, flat)
        found[:, begin : begin + space.size] = flat
        begin += space.size
    return found


def _check_numbers(at: str, uid: str, space: Space, flat: Array) -> None:
    """Refuse NaN, and infinities beyond finite bounds."""
    if flat.dtype.kind != "f" or np.isfinite(flat).all():
        return
    low = np.ravel(getattr(space, "low", np.full(flat.shape[1], -np.inf)))
    high = np.ravel(getattr(space, "high", np.full(flat.shape[1], np.inf)))
    wrong = np.isnan(flat) | ((flat == np.inf) & (high < np.inf)) | ((flat == -np.inf) & (low > -np.inf))
    if wrong.any():
        tick, column = np.argwhere(wrong)[0].tolist()
        place = f"[{column}]" if flat.shape[1] > 1 else ""
        raise RecordingInvalid(f"{at}, tick {tick}: {uid}{place}: expected a number, found {flat[tick, column]}")


def split(session: Session, form: Form) -> tuple[list[Array], list[Array], list[Array]]:
    """Return readings, setpoints and rewards by column, each with the dtype and shape of its space."""
    rewards: list[Array] = []
    begin = 0
    for _, text in form.rewards:
        space = parse_space(text)
        part = session.rewards[:, begin : begin + space.size]
        rewards.append(part.reshape(len(part), *space.shape).astype(space.dtype, copy=False))
        begin += space.size
    return list(session.readings.values()), list(session.setpoints.values()), rewards


def key_of(session: Session) -> dict[str, Any]:
    """Return the key of a session within its dataset, as plain values."""
    key: dict[str, Any] = {"phase": session.phase, "worker": session.worker, "episode": session.episode}
    key |= {"mode": session.mode.value, "phase_name": session.phase_name}
    return key if session.seed is None else {**key, "seed": session.seed}


def place_of(session: Session) -> str:
    """Return the name of a session in messages."""
    body = f"{session.agent}/{session.environment}/{session.body}"
    return f"session {session.run}, phase {session.phase}, worker {session.worker}, {body}, episode {session.episode}"


# -- datasets -------------------------------------------------------------------------------------------------------
class Writer(ABC):
    """Write the sessions of one dataset; `suspend` closes open files until the next session."""

    def __init__(self, folder: Path, name: str, form: Form, about: Mapping[str, Any]) -> None:
        self.folder, self.name, self.form, self.about = folder, name, form, about
        self.sessions = self.steps = 0

    @abstractmethod
    def add(self, session: Session) -> None:
        """Write a session."""

    @abstractmethod
    def suspend(self) -> None:
        """Write waiting sessions, and close files."""

    def close(self) -> None:
        """Complete the dataset."""
        self.suspend()


class Layout(NamedTuple):
    """A format: its writer, its test of a folder or file, its reader."""

    writer: Callable[[Path, str, Form, Mapping[str, Any]], Writer]
    is_one: Callable[[Path], bool]
    opened: Callable[[Path], Dataset]


class Dataset(ABC):
    """Read one dataset; each iteration reads the files again.

    `about` is the result of `about_of`, `form` the owner, `count` the number of sessions, `steps` that of decisions.
    """

    form: Form
    about: Mapping[str, Any]
    count: int
    steps: int

    @abstractmethod
    def __iter__(self) -> Iterator[Session]: ...


def layout_of(name: str) -> Layout:
    """Return a format by its name."""
    module = importlib.import_module("ganglion_replay." + ("minari" if name.startswith("minari") else "frames"))
    found: Layout = module.LAYOUTS[name]
    return found


def _known_format(name: str, others: Sequence[str] = ()) -> str:
    name = "minari-hdf5" if name == "minari" else name
    if name not in (*FORMATS, *others):
        raise UsageError(f"expected a format of {', '.join(('minari', *FORMATS, *others))}, found {name!r:.40}")
    return name


# -- writing --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Exported:
    """The result of an export: the folders of the datasets, numbers of sessions and steps, and of incomplete sessions.

    `open` sessions had no end, and are truncated in the files; `without_closing` had no closing readings, for which
    formats of Minari, which need some, repeat the last ones.
    """

    datasets: list[Path] = field(default_factory=list)
    sessions: int = 0
    steps: int = 0
    open: int = 0
    without_closing: int = 0


def export_sessions(
    sessions: Iterable[Session],
    path: str | PathLike[str],
    format: str = "minari",  # noqa: A002 - the word of `import_sessions` and of the command
    *,
    progress: Callable[[Session], None] | None = None,
) -> Exported:
    """Write sessions into files below a folder, a dataset for each body: `<run>/<agent>-<environment>-<b>-v0`.

    The files keep dtypes, seeds, whether an episode terminated or was truncated, and the key of each session. A session
    without an end is truncated in the files. Characters that a dataset's name cannot have become `_`; if two bodies
    would share a name, or a body had other spaces in another phase, the version is increased. Sessions are written one
    after another, so that memory does not grow.

    Args:
        sessions: At least one; of `sessions`, `import_sessions`, or your own.
        path: A folder, which is made if missing; existing files stay.
        format: One of `FORMATS`, or `minari`.
        progress: Called with each written session.

    Raises:
        UsageError: The format is unknown, its library is missing (the text names the extra), there is no session, or
            a dataset of that name exists; the folder does not change, here and below.
        RecordingInvalid: A session has no steps, or NaN in place of a number.
        DiskError: A file cannot be written.
    """
    layout = layout_of(_known_format(format))
    target = Path(path).absolute()
    try:
        with _beside(target) as folder:
            done = _written(sessions, folder, target, layout, progress)
            _moved(folder, target, done.datasets)
    except OSError as error:
        raise DiskError(target, error) from error
    return done


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Yield a hidden folder on the same disk, which is removed afterwards."""
    home = next(path for path in (target, *target.parents) if path.is_dir())
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target}: expected a folder, found a file")
    folder = Path(tempfile.mkdtemp(prefix=".ganglion-export-", dir=home))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(
    sessions: Iterable[Session], folder: Path, target: Path, layout: Layout, progress: Callable[[Session], None] | None
) -> Exported:
    documents: Mapping[str, str] = getattr(sessions, "documents", {})
    writers: dict[str, Writer] = {}
    active: dict[str, None] = {}  # the keys of open datasets, the least recently used first
    open_, without_closing = 0, 0
    for session in sessions:
        form = Form.of(session)
        whole, was_open = checked(session)
        key = form.key
        if key not in writers:
            name = _free_name(form.name, {one.name for one in writers.values()}, target)
            about = {"document": documents.get(form.run)}
            place = folder / name
            place.mkdir(parents=True)
            writers[key] = layout.writer(place, name, form, about)
        active.pop(key, None)
        active[key] = None
        if len(active) > OPEN_MAX:
            first = next(iter(active))
            del active[first]
            writers[first].suspend()
        writers[key].add(whole)
        open_ += was_open
        without_closing += not session.has_final
        if progress is not None:
            progress(session)
    if not writers:
        raise UsageError("expected at least one session to export, found none")
    for writer in writers.values():
        writer.close()
    all_of = writers.values()
    count, steps = sum(writer.sessions for writer in all_of), sum(writer.steps for writer in all_of)
    return Exported([target / writer.name for writer in all_of], count, steps, open_, without_closing)


def _free_name(base: str, taken: set[str], target: Path) -> str:
    """Return a name with the next version; a dataset in the target folder is never replaced."""
    version = 0
    while f"{base}-v{version}" in taken:
        version += 1
    name = f"{base}-v{version}"
    if (target / name).exists():
        raise UsageError(f"{target / name}: is there already; export to another folder, or remove it")
    return name


def checked(session: Session) -> tuple[Session, bool]:
    """Return a session with an end, and whether it had none; refuse an invalid session."""
    at = place_of(session)
    if not len(session):
        raise RecordingInvalid(f"{at}: expected at least one step, found none")
    for informations, parts in ((session.sensors, session.readings), (session.actuators, session.setpoints)):
        for it in informations:
            flat = parts[it.uid].reshape(-1, it.space.size)
            _check_numbers(at, it.uid, it.space, flat)
    if session.rewards.dtype.kind == "f" and np.isinf(session.rewards).any():
        tick = int(np.argwhere(np.isinf(session.rewards))[0, 0])
        raise RecordingInvalid(f"{at}, tick {tick}: expected a finite reward, found infinity")
    if session.terminated[-1] or session.truncated[-1]:
        return session, False
    truncated = session.truncated.copy()
    truncated[-1] = True
    return replace(session, truncated=truncated), True


def _moved(folder: Path, target: Path, datasets: Sequence[Path]) -> None:
    """Move complete datasets to their place; undo all moves on failure."""
    for place in sorted(folder.rglob("*")):
        sync(place)
    made: list[Path] = []
    moved: list[Path] = []
    try:
        for place in datasets:
            for parent in (*reversed(place.parent.parents), place.parent):
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
            if place.exists():
                raise UsageError(f"{place}: is there already; export to another folder, or remove it")
            (folder / place.relative_to(target)).rename(place)
            moved.append(place)
            sync(place.parent)
    except BaseException:
        for place in moved:
            shutil.rmtree(place, ignore_errors=True)
        for parent in reversed(made):
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


# -- reading --------------------------------------------------------------------------------------------------------
class ImportedSessions(SessionSource):
    """Read the sessions of `datasets` (by place), one after another; see `import_sessions`."""

    def __init__(self, datasets: Mapping[Path, Dataset]) -> None:
        self.datasets = datasets
        known = ((one.form.run, one.about.get("document")) for one in datasets.values())
        self.documents = {run: document for run, document in known if document is not None}

    def __len__(self) -> int:
        """Return the number of sessions."""
        return sum(one.count for one in self.datasets.values())

    @property
    def decisions(self) -> int:
        """Return the number of decisions of all sessions."""
        return sum(one.steps for one in self.datasets.values())

    def __iter__(self) -> Iterator[Session]:
        for one in self.datasets.values():
            yield from one


def import_sessions(path: str | PathLike[str], format: str = "auto") -> ImportedSessions:  # noqa: A002
    """Return the sessions of files of Ganglion or of other programs; they are read one after another.

    Sessions come dataset by dataset, by name, in the order of the files. Exported sessions come back unchanged except
    for a missing end. For datasets of other programs the run has the name of the dataset, the agent is `agent`, the
    environment `environment`, the body 0, and ids are `environment.observation`, `environment.action` and
    `environment.reward`, or those of the parts of a composite space. Nothing in the files is executed.

    Args:
        path: A dataset, a file of a dataset, or a folder with datasets below.
        format: One of `FORMATS`, `minari`, or `auto`, which recognises each dataset.

    Raises:
        UsageError: There is no such dataset, or the library of its format is missing (the text names the extra).
        RecordingInvalid: The head of a dataset cannot be read; while sessions are read, a fault of a session, with
            file, session and tick.
    """
    place = Path(path).absolute()
    wanted = _known_format(format, ["auto"])
    if not place.exists():
        raise UsageError(f"{place}: expected a dataset or a folder with some, found nothing")
    layouts = {name: layout_of(name) for name in FORMATS if wanted in ("auto", name)}
    found: dict[Path, Dataset] = {}
    others: list[str] = []
    for folder in _folders(place):
        name = next((name for name, layout in layouts.items() if layout.is_one(folder)), None)
        if name is not None:
            found[folder] = layouts[name].opened(folder)
        elif folder.is_file():
            others.append(folder.name)
    if not found:
        there = f"; found {', '.join(sorted(others)[:3])}" if others else ""
        known = ", ".join(layouts)
        raise UsageError(f"{place}: expected a dataset ({known}) or a folder with some{there or ', found none'}")
    return ImportedSessions(found)


def _folders(place: Path) -> Iterator[Path]:
    """Yield a folder and all folders below it in order; the caller stops at a dataset."""
    inside: list[Path] = []
    for folder, names, files in os.walk(place, followlinks=False) if place.is_dir() else [(str(place), [], [])]:
        names[:] = sorted((name for name in names if not name.startswith(".")), key=_by_number)
        here = Path(folder)
        if any(here.is_relative_to(one) for one in inside):
            names.clear()
            continue
        if _is_any(here):
            inside.append(here)
            names.clear()
        yield here
        if here not in inside:
            yield from (here / name for name in sorted(files) if not name.startswith("."))


def _is_any(place: Path) -> bool:
    return any(layout_of(name).is_one(place) for name in FORMATS)


def _by_number(name: str) -> list[Any]:
    """Return a key that sorts body 2 before body 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; RecordingInvalid names the file."""
    try:
        if path.stat().st_size > HEAD_BYTES_MAX:
            raise RecordingInvalid(f"{path}: expected at most {HEAD_BYTES_MAX} bytes of JSON")
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RecordingInvalid(f"{path}: cannot be read as JSON: {error!s:.200}") from error


def find(finder: Finder, at: str, source: Mapping[str, Any]) -> Found:
    """Return the sessions of the files that a source of a document names by `path` and `format`.

    Other keys of the source select sessions: `agent`, `environment`, `mode`, `worker`.

    Raises:
        DocumentError: There are no sessions, or the files cannot be read; the text begins with `at`.
    """
    path = finder.folder / str(source["path"])
    told = f"recorded episodes in {path}"
    only = {name: source[name] for name in ("agent", "environment", "mode", "worker") if source.get(name) is not None}
    try:
        imported = import_sessions(path, str(source.get("format") or "auto"))
        for session in imported:  # read as a whole, to find damage before anything starts
            checked(session)
    except (UsageError, StoreError) as error:
        raise DocumentError(f"{at}: {error}") from error

    def chosen() -> Iterator[Session]:
        for session in imported:
            found = {"agent": session.agent, "environment": session.environment, "mode": session.mode.value}
            if only.items() <= {**found, "worker": session.worker}.items():
                yield session

    told += "".join(f", {name} {value}" for name, value in only.items())
    homes = list(dict.fromkeys(one.form.environment for one in imported.datasets.values()))
    return Found(told, str(path), chosen, environments=homes)


# -- views ----------------------------------------------------------------------------------------------------------
def rlds_view(session: Session) -> dict[str, Any]:
    """Return a session in the form of RLDS: a row for each observation, the last one without an action.

    Returns:
        `observation` and `action`, by full id; `reward` (the sum of a decision's), `discount`, `is_first`, `is_last`
        and `is_terminal`, each `[T + 1]`, or `[T]` without known closing readings. In the row of the
        closing readings actions are zeros.
    """
    rows = len(session.observations)
    spare = rows - len(session)

    def padded(array: Array) -> Array:
        return np.concatenate([array, np.zeros((spare, *array.shape[1:]), array.dtype)])

    last, first = np.zeros(rows, bool), np.zeros(rows, bool)
    last[-1], first[0] = True, True
    terminal = np.zeros(rows, bool)
    terminal[-1] = session.terminated[-1]
    return {
        "observation": dict(session.readings),
        "action": {uid: padded(array) for uid, array in session.setpoints.items()},
        "reward": padded(np.asarray(np.nansum(session.rewards, axis=1, dtype=np.float64))),
        "discount": 1.0 - padded(session.terminated.astype(np.float64)),
        "is_first": first,
        "is_last": last,
        "is_terminal": terminal,
    }
