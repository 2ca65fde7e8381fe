"""Models: folders of models with an index, the search of `load`, inheritance from phase to phase."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from ganglion import registry
from ganglion.errors import DocumentError, GanglionError, StoreError
from ganglion.limits import MODEL_INDEX_BYTES
from ganglion.run import model
from ganglion.run.model import Own, StoredRun, Wish
from ganglion.run.plan import AgentPlan, PhasePlan, Plan, sources_of
from ganglion.sdk.models import digest_of, load_meta, tag_file
from ganglion.sdk.naming import file_name
from ganglion.sdk.store import Store, StoreReader
from ganglion.synced import write_synced, written_beside

T = TypeVar("T")

INDEX = "models.json"
_OWN = "brains"  # the folder of a run that holds its models
_NUMBERS_MAX = 10_000


# -- stores ---------------------------------------------------------------------------------------------------------


def store_class(uri: str) -> type[Store]:
    """Return the class of stores for the scheme of a URI; PluginInvalid: there is none."""
    found: type[Store] = registry.load("store", uri.partition(":")[0])
    return found


def stored_runs(reader: StoreReader) -> list[StoredRun]:
    """Return the runs of a store, in the store's order."""
    return [StoredRun(**row) for row in reader.rows("runs", columns=["run", "uid", "status"])]


def located(uri: str, folder: Path) -> str:
    """Return the URI of a store; a path after three slashes is relative to the document's folder, like every path."""
    scheme, slashes, path = uri.partition(":///")
    return f"{scheme}:///{(folder / path).absolute()}" if slashes else uri


def shown(uri: str) -> str:
    """Return a URI without credentials (the part before an `@`), for messages."""
    scheme, slashes, rest = uri.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}"


# -- the index of a folder of models --------------------------------------------------------------------------------


class StoredModel(NamedTuple):
    """A file of a model: agent, phase, tag, path, digest."""

    phase: int
    agent: str
    tag: str
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelFolder(StoredRun):
    """The index of a folder: the run, the names of its phases, and its models."""

    folder: Path
    started: str
    phases: Mapping[int, str]
    models: Sequence[StoredModel]


def write_index(folder: Path, run: str, records: Iterable[Sequence[Any]], results: Path | None = None) -> None:
    """Write the index of the models in a run's records; StoreError: the file cannot be written.

    `results` is the run's own folder, recorded in an index that is in another folder.
    """
    head: dict[str, Any] = {"format": 1, "run": run, "uid": "", "started": "", "status": "running"}
    head["results"] = "" if results is None else str(results)
    phases: dict[str, str] = {}
    models: list[dict[str, Any]] = []
    for kind, *fields in records:
        if kind == "run":
            head |= {key: str(fields[0][key]) for key in ("uid", "experiment", "started")}
        elif kind == "phase":
            phases[str(fields[0])] = fields[1]
        elif kind == "end":
            head["status"] = fields[0]
        elif kind == "brain":
            phase, agent, tag, _, updates, _, size, sha256, path = fields
            row = {"phase": phase, "agent": agent, "tag": tag, "updates": updates, "bytes": size, "sha256": sha256}
            # <phase>/<agent>/<file>: the folder may be moved as a whole.
            models.append({**row, "path": "/".join(Path(path).parts[-3:])})
    path, tree = folder / INDEX, {**head, "phases": phases, "models": models}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_synced(path, json.dumps(tree, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise StoreError(f"index of models {path}: cannot be written: {error}") from error


def read_index(folder: Path) -> ModelFolder | None:
    """Return the index of a folder, None without one; StoreError: the index is damaged."""
    return _read_json(folder / INDEX, partial(_model_folder, folder))


def model_folders(folder: Path, run: str | None = None) -> tuple[list[ModelFolder], bool]:
    """Return the folders of models in a directory, oldest first, and whether the directory is of one run only.

    A directory has an index, is the folder of a run (whose models are in `brains`), or holds any number of these. With
    `run` the folder of that name comes first, and is the only one if it has models of that run. StoreError: an index is
    damaged.
    """
    if (alone := _read_either(folder)) is not None:
        return [alone], True
    is_name = run is not None and PurePosixPath(run).name == run and run != ".." and "\0" not in run
    if run is not None and is_name:  # the name of a run may be any text
        named = _read_either(folder / run)
        if named is not None and named.run == run and not (folder / f"{run}+2").exists():
            return [named], False
    paths: list[Path] = []
    with contextlib.suppress(OSError):
        paths = sorted(path for path in folder.iterdir() if path.is_dir())
    found = [one for path in paths if (one := _read_either(path)) is not None]
    return sorted(found, key=lambda one: one.started), False


def _read_either(folder: Path) -> ModelFolder | None:
    return read_index(folder) or read_index(folder / _OWN)


def _model_folder(folder: Path, tree: Any) -> ModelFolder:
    if tree["format"] != 1:
        raise ValueError(f"format {tree['format']!r:.20} is not read")
    texts = {key: _text(tree[key]) for key in ("run", "uid", "status", "started")}
    phases = {int(index): _text(name) for index, name in tree["phases"].items()}
    models = [_stored_model(row) for row in tree["models"]]
    for one in models:
        if one.path.is_absolute() or ".." in one.path.parts:
            raise ValueError(f"path {str(one.path)!r:.100} leaves the folder")
    return ModelFolder(
        **texts, folder=folder, phases=phases, models=[one._replace(path=folder / one.path) for one in models]
    )


def _stored_model(row: Mapping[str, Any]) -> StoredModel:
    if type(row["phase"]) is not int:
        raise TypeError(f"phase {row['phase']!r:.20} is no index")
    agent, tag, path, sha256 = (_text(row[key]) for key in ("agent", "tag", "path", "sha256"))
    return StoredModel(row["phase"], agent, tag, Path(path), sha256)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.40}")
    return value


def _read_json(path: Path, read: Callable[[Any], T]) -> T | None:
    """Return `read` of a JSON file, None without a file; StoreError: the file is damaged."""
    try:
        if path.stat().st_size > MODEL_INDEX_BYTES:
            raise ValueError(f"expected at most {MODEL_INDEX_BYTES} bytes")
        return read(json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"index of models {path}: cannot be read: {error.strerror}") from error
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"index of models {path}: the file is damaged: {error}") from error


# -- folders and files of models ------------------------------------------------------------------------------------


def files_of(folder: Path) -> list[Path]:
    """Return the files of the model in a folder, one per tag, the one without a tag first; empty without a model."""
    return sorted(folder.glob("model*.npz"), key=lambda path: (path.name != "model.npz", path.name))


def copy_model(files: Sequence[Path], folder: Path) -> list[dict[str, Any]]:
    """Copy files of a model atomically; return maps of tag, path, sha256, bytes. StoreError: a file was not copied."""
    rows = []
    for path in files:
        tag = str((load_meta(path) or {}).get("tag", ""))
        target = folder / path.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, written_beside(target, 0o666, follow=True) as file:
                shutil.copyfileobj(source, file)
            digest, size = digest_of(target), target.stat().st_size
        except OSError as error:
            raise StoreError(f"model {target}: cannot be written: {error}") from error
        rows.append({"tag": tag, "path": str(target), "sha256": digest, "bytes": size})
    return rows


def reserve(folder: Path, run: str, results: Path) -> Path:
    """Make the folder of a run in a directory of models, named by the run's id, with a number if the id is taken.

    Nothing is overwritten, also if a run of other results had the same id. The index of the folder names the results of
    the run, so that a successor gets the folder of its predecessor. OSError: the folder cannot be made. StoreError: an
    index cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, _NUMBERS_MAX):
        path = folder / (run if number == 1 else f"{run}+{number}")
        try:
            path.mkdir()
        except FileExistsError:
            if _read_json(path / INDEX, lambda tree: tree.get("results")) == str(results):
                return path
        else:
            write_index(path, run, [], results)
            return path
    raise FileExistsError(f"{_NUMBERS_MAX} folders for run {run}")


def hand_over(folder: Path, place: str, user: str) -> None:
    """Make a folder below another that one user writes and no other user reads; OSError: it cannot be made."""
    entry = pwd.getpwnam(user)
    *between, last = [folder.joinpath(*Path(place).parts[:count]) for count in range(len(Path(place).parts) + 1)]
    for one in between:
        one.mkdir(exist_ok=True)
        one.chmod(0o711)
    last.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(last, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, entry.pw_uid, entry.pw_gid)
    finally:
        os.close(fd)


# -- the models of one run ------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """A model: its folder, and its files with their recorded digests."""

    folder: Path
    files: Mapping[Path, str]

    def gone(self) -> str | None:
        """Return the fault of a missing file, None if all files exist."""
        return next((f"the file {path} is gone" for path in self.files if not path.is_file()), None)


_KEYS = {"run": 1, "phase": 4, "brain": 4, "end": 1}  # kind of record about models -> length of its key


class ModelStore:
    """Find models for one run, and keep the indices of the run's own models; `results` is the folder of the run."""

    def __init__(self, plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> None:
        self._plan, self._run, self._store, self._warn = plan, run, store, warn
        self._results = Path(results)
        self._own = self._results / _OWN
        self._document = Path(plan.folder or ".")
        self._second: dict[Path, Path] = {}  # `models` of documents -> folder of this run in it
        self._records: dict[tuple[Any, ...], Sequence[Any]] = {}  # the newest records of models
        self._stale = False  # whether an index lacks a record
        self._known: dict[str, dict[Path, str]] = {}  # folder -> its files with their digests

    # -- models of this run ------------------------------------------------------------------------------------------
    def second_folder(self, agent: AgentPlan) -> str:
        """Return the folder of this run in the agent's second directory; the first call makes it."""
        place = self._place(agent.models)
        try:
            return str(self._reserved(place))
        except OSError as error:
            at = f"{agent.models_at}: " if agent.models_at else ""
            text = f"{at}models of agent `{agent.name}`: the folder {place} cannot be written: {error}"
            raise DocumentError(text) from error

    def _reserved(self, place: Path) -> Path:
        if place not in self._second:
            self._second[place] = reserve(place, self._run, self._results)
        return self._second[place]

    def _place(self, path: Any) -> Path:
        """Return a path of the document as an absolute one."""
        return (self._document / str(path)).absolute()

    def note(self) -> list[list[Any]]:
        """Return the records of phases and models, for a successor's `take`."""
        return [list(row) for row in self._records.values() if row[0] in ("phase", "brain")]

    def take(self, record: Sequence[Any]) -> None:
        """Take a record of the run; keep records of models."""
        kind = record[0]
        if kind not in _KEYS:
            return
        self._records[tuple(record[: _KEYS[kind]])] = record
        self._stale |= kind in ("brain", "end")
        if kind == "brain":
            path = Path(record[9])
            self._known.setdefault(str(path.parent), {})[path] = record[8]

    def flush(self) -> None:
        """Write the indices if a record is new; StoreError: an index cannot be written."""
        if not self._stale:
            return
        write_index(self._own, self._run, self._records.values())
        heads = [record for record in self._records.values() if record[0] != "brain"]
        for place, models in self._stored_twice().items():
            try:
                write_index(self._reserved(place), self._run, [*heads, *models], self._results)
            except OSError as error:
                raise StoreError(f"index of models in {place}: cannot be written: {error}") from error
        self._stale = False

    def _stored_twice(self) -> dict[Path, list[Sequence[Any]]]:
        """Return the records of models with a copy in a second directory, by directory."""
        agents = [(phase.index, agent) for phase in self._plan.phases for agent in phase.agents if agent.models]
        places = {(index, agent.name): self._place(agent.models) for index, agent in agents}
        found: dict[Path, list[Sequence[Any]]] = {}
        for row in self._records.values():
            if row[0] == "brain" and (row[1], row[2]) in places:
                found.setdefault(places[row[1], row[2]], []).append(row)
        return found

    def close(self) -> None:
        """Remove folders that stayed empty."""
        stored = self._stored_twice()
        for place, folder in self._second.items():
            if place not in stored:
                with contextlib.suppress(OSError):
                    if [path.name for path in folder.iterdir()] == [INDEX]:
                        shutil.rmtree(folder)

    # -- load --------------------------------------------------------------------------------------------------------
    def model(self, phase: PhasePlan, agent: AgentPlan, own: Own) -> str | None:
        """Return the folder of the model with which an agent begins a phase; None begins afresh.

        DocumentError: no place has the model of `load`; it names the places. StoreError: the model is damaged.
        """
        user = (agent.recovery or phase).run_as
        if user is not None and agent.brain is not None:  # a run of another name
            try:
                hand_over(self._own, f"{phase.index}/{file_name(agent.name)}", user)
            except OSError as error:
                raise StoreError(f"models of agent `{agent.name}`: {self._own}: {error}") from error
        if agent.load is False:
            return None
        wish = model.wish_of(agent.load, agent.name, self._plan.uid, self._run)
        if wish is None:
            folder = model.continued(self._plan.phases, phase.index, agent.name, own)
            return None if folder is None else self._checked(agent, self._inherited(folder))
        found = self._find(wish, phase, agent, own)
        if isinstance(found, _Found):
            return self._checked(agent, found)
        if not wish.optional:
            raise DocumentError(found)
        self._warn(found)
        return None

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield place and text of each `load` whose model is nowhere, before the run begins.

        One that an earlier phase of the run may fulfil is left to the run.
        """
        for phase in self._plan.phases:
            loading = [agent for agent in phase.agents if agent.load is not False]
            for agent in phase.agents:
                policies = [source.policy for source in sources_of(phase.seats, agent.name)]
                loading += [replace(agent, load=p.load, load_at=p.at) for p in policies if p.load is not None]
            for agent in loading:
                wish = model.wish_of(agent.load, agent.name, self._plan.uid, self._run)
                if wish is None or wish.optional or self._may_leave(wish, phase):
                    continue
                found = self._find(wish, phase, replace(agent, load_at=""), {})
                if isinstance(found, str):
                    yield agent.load_at, found.replace("\n  ", "; ")

    def _may_leave(self, wish: Wish, phase: PhasePlan) -> bool:
        """Say whether an earlier phase may leave the model; a run named by its id may be this one."""
        earlier = [p for p in self._plan.phases[: phase.index] if wish.phase in (None, p.index, p.name)]
        return (wish.here or wish.run is not None) and wish.agent in {a.name for p in earlier for a in p.agents}

    def _find(self, wish: Wish, phase: PhasePlan, agent: AgentPlan, own: Own) -> _Found | str:
        """Return the model in the first place that has it, else the text that names all places."""
        vain: list[tuple[str, str]] = []
        for place, found in self._search(wish, phase, agent, own):
            gone = found if isinstance(found, str) else found.gone()
            if gone is None:
                return found
            vain.append((place, gone))
        return model.missing(agent, wish, vain)

    def _inherited(self, folder: str) -> _Found:
        return _Found(Path(folder), self._known.get(folder, {}))

    def _search(self, wish: Wish, phase: PhasePlan, agent: AgentPlan, own: Own) -> Iterator[tuple[str, _Found | str]]:
        """Search base, this run, the agent's `models`, the store, the results; yield each place with its result."""
        if wish.base is not None and "://" in wish.base:
            uri = located(wish.base, self._document)
            yield f"base {shown(uri)}", self._in_store(uri, wish)
        elif wish.base is not None:
            place = self._place(wish.base)
            yield f"base {place}", self._in_directory(place, wish, is_base=True)
        if wish.here:
            folder, why = model.own(wish, self._plan.phases, phase.index, own)
            yield "this run", why if folder is None else self._inherited(folder)
        if not wish.elsewhere:
            return
        if agent.models is not None:
            place = self._place(agent.models)
            yield f"models {place}", self._in_directory(place, wish)
        if self._store is not None:
            yield f"the store {shown(self._store)}", self._in_store(self._store, wish)
        yield f"the results {self._results.parent}", self._in_directory(self._results.parent, wish)

    def _in_directory(self, place: Path, wish: Wish, is_base: bool = False) -> _Found | str:
        """Search the folders of models in a directory; a base may also be a folder of files without an index."""
        if not place.is_dir():
            return "there is no such directory"
        try:
            folders, single = model_folders(place, wish.run)
        except StoreError as error:
            return str(error)
        if not folders:
            return _without_index(place, wish) if is_base else "it holds no models of a run"
        any_run = wish.here and not wish.elsewhere and wish.run is None
        # The folder of one run as base means that run.
        chosen = folders[0] if is_base and single and any_run else model.pick_run(wish, folders, self._run)
        return chosen if isinstance(chosen, str) else _of_phase(wish, chosen.phases, chosen.models, chosen.run)

    def _in_store(self, uri: str, wish: Wish) -> _Found | str:
        """Search a store; an unreadable store counts as a place without the model."""
        try:
            with store_class(uri).reader(uri) as reader:
                chosen = model.pick_run(wish, stored_runs(reader), self._run)
                if isinstance(chosen, str):
                    return chosen
                phases = {r["phase"]: r["name"] for r in reader.rows("phases", [chosen.run], columns=["phase", "name"])}
                rows = reader.rows("brains", [chosen.run], columns=list(StoredModel._fields))
                models = [_checked_row(row) for row in rows if row["agent"] == wish.agent]
            found = _of_phase(wish, phases, models, chosen.run)
        except GanglionError as error:
            return str(error)
        return found if isinstance(found, str) else self._moved(uri, found)

    def _moved(self, uri: str, found: _Found) -> _Found:
        """Return a model with its present path: results that were moved as a whole keep their layout."""
        place = Path(*found.folder.parts[-4:])  # <run>/brains/<phase>/<agent>
        file = uri.partition(":///")[2]
        beside = [Path(file).absolute().parent / place] if file else []
        for folder in (found.folder, *beside, self._results.parent / place):
            moved = _Found(folder, {folder / path.name: sha256 for path, sha256 in found.files.items()})
            if moved.gone() is None:
                return moved
        return found

    def _checked(self, agent: AgentPlan, found: _Found) -> str:
        """Return the folder of a model after comparing its files with their digests; remember them."""
        for path, sha256 in found.files.items():
            actual = digest_of(path) if path.is_file() else None
            if actual != sha256:
                at = f"{agent.load_at}: " if agent.load_at else ""
                what = "the file is gone" if actual is None else f"the file is damaged: found {actual}"
                raise StoreError(f"{at}model of agent `{agent.name}`: {path}: expected SHA-256 {sha256}, {what}")
        self._known.setdefault(str(found.folder), dict(found.files))
        return str(found.folder)


def _without_index(place: Path, wish: Wish) -> _Found | str:
    """Return the model of an agent in a folder of agents, or in the folder itself if no agent is named."""
    if not wish.bare:
        return "it says nothing of runs and phases: there is no `models.json` in it or in a folder of it"
    folders = [place / file_name(wish.agent), *([] if wish.named else [place])]
    found = [_Found(folder, {}) for folder in folders if (folder / "model.npz").is_file()]
    return found[0] if found else f"there is no model.npz in {folders[0]}{'' if wish.named else ' nor in it'}"


def _checked_row(row: Mapping[str, Any]) -> StoredModel:
    """Return the row of a model in a store; StoreError: its path is not that of a model in a run's folder."""
    try:
        found = _stored_model(row)
    except TypeError:
        agent = row["agent"]
        raise StoreError(f"model of agent {agent!r:.80}: expected text and a phase, found {row!r:.300}") from None
    expected = (_OWN, str(found.phase), file_name(found.agent), tag_file(found.tag))
    path = found.path
    if path.parts[-4:] != expected or ".." in path.parts or "\0" in str(path):
        wanted = f"expected a path that ends with {'/'.join(expected)}"
        raise StoreError(f"model of agent `{found.agent}`: {wanted}, found {str(path)!r:.200}")
    return found


def _of_phase(wish: Wish, phases: Mapping[int, str], models: Iterable[StoredModel], run: str) -> _Found | str:
    """Return the newest model of the wanted phase among those of the agent in one run."""
    mine = [one for one in models if one.agent == wish.agent]
    index = model.pick_phase(wish, phases, [one.phase for one in mine], run)
    if isinstance(index, str):
        return index
    newest = {one.tag: one for one in mine if one.phase == index}
    folder = list(newest.values())[-1].path.parent
    return _Found(folder, {one.path: one.sha256 for one in newest.values() if one.path.parent == folder})
