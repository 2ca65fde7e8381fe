"""Models: files in folders, with an index that says whose they are; kept for a run, and found by `load`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ganglion import registry
from ganglion.errors import DocumentError, GanglionError, StoreError
from ganglion.limits import MODEL_INDEX_BYTES
from ganglion.run import model
from ganglion.run.model import Keeper, Wish
from ganglion.run.plan import AgentPlan, PhasePlan, Plan
from ganglion.sdk.models import digest_of, file_name, load_meta, tag_file
from ganglion.sdk.store import Store, StoreReader
from ganglion.synced import write_synced


def store_class(uri: str) -> type[Store]:
    """Return the kind of store that a URI names by its scheme; PluginInvalid if there is none."""
    found: type[Store] = registry.load("store", uri.partition(":")[0])
    return found


def keepers_of(reader: StoreReader) -> list[Keeper]:
    """Return the runs of a store, in its order."""
    return [Keeper(**row) for row in reader.rows("runs", columns=["run", "uid", "status"])]


def located(uri: str, folder: Path) -> str:
    """Return the URI of a store; a relative path of SQLite begins where the document lies, like every path."""
    scheme, slashes, path = uri.partition(":///")
    if scheme != "sqlite" or not slashes or path.startswith("/"):
        return uri
    return f"{scheme}:///{(folder / path).absolute()}"


def shown(uri: str) -> str:
    """Return a URI as people may see it: without what stands before an `@`."""
    scheme, slashes, rest = uri.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}"


INDEX = "models.json"
_BRAINS = "brains"  # the folder of a run that is its shelf
_NUMBERS_MAX = 10_000
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a model: whose it is, after which phase, under which tag, and its digest."""

    phase: int
    agent: str
    tag: str
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """What the index of a folder says: the run, the names of its phases, and its models."""

    folder: Path
    run: str
    uid: str
    status: str
    started: str
    phases: Mapping[int, str]
    models: Sequence[Kept]


class Index:
    """Write the index of a shelf: it takes the records that go to the store, and keeps what it needs of them."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self._head: dict[str, Any] = {"format": 1, "run": run, "uid": "", "started": "", "status": "running"}
        self._phases: dict[str, str] = {}
        self._models: dict[tuple[int, str, str], dict[str, Any]] = {}
        self._stale = False

    def take(self, record: Sequence[Any]) -> None:
        """Take a record; those of no use here are skipped."""
        kind, *fields = record
        if kind == "run":
            self._head |= {key: str(fields[0][key]) for key in ("uid", "experiment", "started")}
        elif kind == "phase":
            self._phases[str(fields[0])] = fields[1]
        elif kind == "end":
            self._head["status"] = fields[0]
            self._stale = True
        elif kind == "brain":
            phase, agent, tag, _, updates, _, size, sha256, path = fields
            row = {"phase": phase, "agent": agent, "tag": tag, "updates": updates, "bytes": size}
            # <phase>/<agent>/<file>: the shelf may be moved as a whole.
            place = "/".join(Path(path).parts[-3:])
            self._models[phase, agent, tag] = {**row, "sha256": sha256, "path": place}
            self._stale = True

    def flush(self) -> None:
        """Write the index if there is news; StoreError if it cannot be written."""
        if not self._stale:
            return
        tree = {**self._head, "phases": self._phases, "models": list(self._models.values())}
        path = self.folder / INDEX
        beside = path.with_name(f".{INDEX}.{os.getpid()}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)  # of a process that died; `x` follows no link
            with beside.open("x", encoding="utf-8") as file:
                json.dump(tree, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise StoreError(f"index of models {path}: cannot be written: {error}") from error
        self._stale = False

    @property
    def is_empty(self) -> bool:
        """Say whether there is no model on the shelf."""
        return not self._models


def files_of(folder: Path) -> list[Path]:
    """Return the files of the model in a folder, one per tag, that without a tag first; none if there is no model."""
    return sorted(folder.glob("model*.npz"), key=lambda path: (path.name != "model.npz", path.name))


def copy_model(files: Sequence[Path], folder: Path) -> list[dict[str, Any]]:
    """Copy files of a model into a folder; return maps of tag, path, sha256 and bytes.

    Each is written beside its place, synced, and renamed. StoreError: one is damaged, or cannot be read or written.
    """
    rows = []
    for path in files:
        tag = str((load_meta(path) or {}).get("tag", ""))
        target = folder / path.name
        beside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            digest = _copy(path, beside)
            beside.replace(target)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise StoreError(f"model {target}: cannot be written: {error}") from error
        size = target.stat().st_size
        rows.append({"tag": tag, "path": str(target), "sha256": digest, "bytes": size})
    return rows


def _copy(path: Path, target: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source, target.open("xb") as file:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def reserve(folder: Path, run: str, noted: Path) -> Path:
    """Return the folder of a run in a directory of models: made new, its id, or that and the first free number.

    Nothing that lies there is overwritten, also where a run of other results had the same id. Which one it is stands in
    the file `noted`, in the run's own folder: a process that takes over from one that was lost gets the same.

    Raises:
        OSError: The folder cannot be made.
        StoreError: The note cannot be read or written.
    """
    known = _noted(noted)
    if str(folder) in known:
        path = Path(known[str(folder)])
        path.mkdir(parents=True, exist_ok=True)
        return path
    path = _fresh(folder, run)
    _note(noted, {**known, str(folder): str(path)})
    return path


def give_back(folder: Path, noted: Path) -> None:
    """Remove a folder that was reserved in vain, with its note; what others have put there stays, and it as well.

    Raises:
        StoreError: The note cannot be read or written.
    """
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass  # somebody has tidied up
    except OSError:
        return
    known = _noted(noted)
    kept = {place: path for place, path in known.items() if path != str(folder)}
    if kept != known:
        _note(noted, kept)


def _noted(path: Path) -> dict[str, str]:
    """Return which folder a run has in each directory of models."""
    try:
        if path.stat().st_size > MODEL_INDEX_BYTES:
            raise ValueError(f"expected at most {MODEL_INDEX_BYTES} bytes")
        tree = json.loads(path.read_bytes())
        return {_text(place): _text(folder) for place, folder in tree.items()}
    except FileNotFoundError:
        return {}
    except (OSError, AttributeError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error


def _note(path: Path, known: Mapping[str, str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(path, json.dumps(known, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error}") from error


def _fresh(folder: Path, run: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, _NUMBERS_MAX):
        path = folder / (run if number == 1 else f"{run}+{number}")
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise FileExistsError(f"{_NUMBERS_MAX} folders for run {run}")


def hand_over(shelf: Path, place: str, user: str) -> None:
    """Make a folder on a shelf in which one user writes and nobody else reads; others may pass by. OSError if not."""
    entry = pwd.getpwnam(user)
    *between, last = [shelf.joinpath(*Path(place).parts[:count]) for count in range(len(Path(place).parts) + 1)]
    for folder in between:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)
    last.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(last, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, entry.pw_uid, entry.pw_gid)
    finally:
        os.close(fd)


def shelves(folder: Path, run: str | None = None) -> tuple[list[Shelf], bool]:
    """Return the shelves of a directory, the oldest first, and whether it is that of one run only.

    A directory is a shelf, the folder of a run (whose shelf is `brains`), or holds any number of these. With `run`
    the folder of that name is looked at first, and no other if it has a shelf of that run.

    Raises:
        StoreError: An index is damaged or cannot be read.
    """
    for one in (folder, folder / _BRAINS):
        shelf = read_shelf(one)
        if shelf is not None:
            return [shelf], True
    if run is not None and _is_folder_name(run):
        shelf = _below(folder / run)
        if shelf is not None and shelf.run == run and not (folder / f"{run}+2").exists():
            return [shelf], False
    found = [shelf for path in sorted(_folders(folder)) if (shelf := _below(path)) is not None]
    return sorted(found, key=lambda shelf: shelf.started), False


def _is_folder_name(run: str) -> bool:
    """Say whether a run's name can be that of a folder of ours: documents name runs as they like."""
    return PurePosixPath(run).name == run and run != ".." and "\0" not in run


def _folders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir())
    except OSError:
        return


def _below(folder: Path) -> Shelf | None:
    return read_shelf(folder) or read_shelf(folder / _BRAINS)


def read_shelf(folder: Path) -> Shelf | None:
    """Return the shelf in a folder, None if it has no index; StoreError if the index is damaged."""
    path = folder / INDEX
    try:
        if path.stat().st_size > MODEL_INDEX_BYTES:
            raise StoreError(f"index of models {path}: expected at most {MODEL_INDEX_BYTES} bytes")
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"index of models {path}: cannot be read: {error.strerror}") from error
    try:
        return _shelf(folder, json.loads(data))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"index of models {path}: the file is damaged: {error}") from error


def _shelf(folder: Path, tree: Any) -> Shelf:
    if tree["format"] != 1:
        raise ValueError(f"format {tree['format']!r:.20} is not read")
    words = {key: _text(tree[key]) for key in ("run", "uid", "status", "started")}
    phases = {int(index): _text(name) for index, name in tree["phases"].items()}
    return Shelf(folder, phases=phases, models=[_kept(folder, row) for row in tree["models"]], **words)


def _kept(folder: Path, row: Mapping[str, Any]) -> Kept:
    place = PurePosixPath(_text(row["path"]))
    if place.is_absolute() or ".." in place.parts:
        raise ValueError(f"path {str(place)!r:.100} leaves the folder")
    phase = row["phase"]
    if type(phase) is not int:
        raise TypeError(f"phase {phase!r:.20} is no index")
    return Kept(phase, _text(row["agent"]), _text(row["tag"]), folder / place, _text(row["sha256"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r:.40}")
    return value


_NOTED = "shelves.json"  # beside the index: which folder the run has in each second directory


@dataclass(frozen=True, slots=True)
class _Found:
    """A model: its folder, and its files with their digests, None where nobody has noted one.

    `tags` are those of its files, where they are known.
    """

    folder: Path
    files: Sequence[tuple[Path, str | None]]
    tags: Sequence[str] = ()


class Library:
    """Find models for one run, and keep the indices of those that it stores.

    Args:
        plan: The run.
        run: Its id.
        results: Its folder.
        store: URI of its store, None if it has none.
        warn: Tells a sentence to who looks on.
    """

    def __init__(self, plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> None:
        self._plan, self._run, self._store, self._warn = plan, run, store, warn
        self._results = Path(results)
        self._document = Path(plan.folder or ".")
        self._shelves: dict[Path, Index] = {}  # what documents call `models` -> folder of this run in it
        self._heads: list[Sequence[Any]] = []  # records that an index begun later needs, too
        self._rows: dict[tuple[Any, ...], Sequence[Any]] = {}  # newest records of phases and models
        self._index = Index(self._results / "brains", run)
        self._noted = self._results / "brains" / _NOTED
        self._known: dict[str, _Found] = {}  # by folder

    # -- what this run stores -----------------------------------------------------------------------------------------
    def shelf(self, agent: AgentPlan) -> str:
        """Return the folder of this run in the agent's second directory; it is made when it is first asked for."""
        assert agent.models is not None
        place = (self._document / agent.models).absolute()
        if place not in self._shelves:
            try:
                folder = reserve(place, self._run, self._noted)
            except OSError as error:
                at = f"{agent.models_at}: " if agent.models_at else ""
                text = f"{at}models of agent `{agent.name}`: the folder {place} cannot be written: {error}"
                raise DocumentError(text) from error
            self._shelves[place] = index = Index(folder, self._run)
            for record in self._heads:
                index.take(record)
        return str(self._shelves[place].folder)

    def note(self) -> dict[str, Any]:
        """Return what a successor needs to know of the models of this run, as plain values."""
        shelves = [[str(place), str(index.folder)] for place, index in self._shelves.items()]
        return {"shelves": shelves, "rows": [list(row) for row in self._rows.values()]}

    def recall(self, shelves: Sequence[Sequence[str]], rows: Sequence[Sequence[Any]]) -> None:
        """Take over what was noted: the folders in second directories, and the records of phases and models."""
        for place, folder in shelves:
            self._shelves[Path(place)] = Index(Path(folder), self._run)
        for row in rows:
            self.take(row)

    def take(self, record: Sequence[Any]) -> None:
        """Take a record of the run: models that were stored are remembered, and written into the indices."""
        if record[0] in ("run", "phase"):
            self._heads.append(record)
        if record[0] in ("phase", "brain"):
            self._rows[tuple(record[:4])] = record
        if record[0] == "brain":
            self._remember(record)
            phase, agent = record[1], record[2]
            plan = next(a for a in self._plan.phases[phase].agents if a.name == agent)
            second = None if plan.models is None else (self._document / str(plan.models)).absolute()
            indices = [self._index, *([] if second is None else [self._shelves[second]])]
        else:
            indices = [self._index, *self._shelves.values()]
        for index in indices:
            index.take(record)

    def _remember(self, record: Sequence[Any]) -> None:
        path = Path(record[9])
        known = self._known.get(str(path.parent), _Found(path.parent, []))
        files = {**dict(known.files), path: record[8]}
        self._known[str(path.parent)] = _Found(path.parent, list(files.items()))

    def flush(self) -> None:
        """Write the indices that have news; StoreError if one cannot be written."""
        for index in (self._index, *(index for index in self._shelves.values() if not index.is_empty)):
            index.flush()

    def close(self) -> None:
        """Take away the folders that were made in vain; what others have put there stays."""
        for index in self._shelves.values():
            if index.is_empty:
                with contextlib.suppress(StoreError):  # a note too many: the run would get that folder again
                    give_back(index.folder, self._noted)

    # -- what a phase begins with -------------------------------------------------------------------------------------
    def model(self, phase: PhasePlan, agent: AgentPlan, own: Mapping[tuple[int, str], str]) -> str | None:
        """Return the folder of the model that an agent begins a phase with, None to begin afresh.

        Raises:
            DocumentError: What `load` asks for is nowhere; with the places that were looked at.
            StoreError: It is damaged.
        """
        self._hand_over(phase, agent)
        if agent.load is False:
            return None
        wish = model.wish_of(agent.load, agent.name, self._plan.uid, self._run)
        if wish is None:
            folder = model.continued(self._plan.phases, phase.index, agent.name, own)
            return None if folder is None else self._checked(agent, self._own(folder))
        vain: list[tuple[str, str]] = []
        for place, look in self._places(wish, phase, agent, own):
            found = look()
            gone = _gone(found) if isinstance(found, _Found) else found
            if isinstance(found, _Found) and gone is None:
                return self._checked(agent, found)
            vain.append((place, str(gone)))
        text = model.missing(agent, wish, vain)
        if not wish.optional:
            raise DocumentError(text)
        self._warn(text)
        return None

    def _hand_over(self, phase: PhasePlan, agent: AgentPlan) -> None:
        """Give a brain that runs under another name the folder of its model."""
        user = (agent.recovery or phase).run_as
        if user is None or agent.brain is None:
            return
        shelf = self._results / "brains"
        try:
            hand_over(shelf, f"{phase.index}/{file_name(agent.name)}", user)
        except OSError as error:
            raise StoreError(f"models of agent `{agent.name}`: {shelf}: {error}") from error

    def _places(
        self, wish: Wish, phase: PhasePlan, agent: AgentPlan, own: Mapping[tuple[int, str], str]
    ) -> list[tuple[str, Callable[[], _Found | str]]]:
        """Return the places to look at, in order: base, this run, the agent's `models`, the run's store."""
        found: list[tuple[str, Callable[[], _Found | str]]] = []
        if wish.base is not None:
            found.append(self._base(wish, wish.base))
        if wish.here:
            found.append(("this run", lambda: self._here(wish, phase, own)))
        if not wish.elsewhere:
            return found
        if agent.models is not None:
            place = (self._document / str(agent.models)).absolute()
            found.append((f"models {place}", lambda: self._directory(place, wish)))
        if self._store is not None:
            store = self._store
            found.append((f"the store {shown(store)}", lambda: self._stored(store, wish)))
        results = self._results.parent
        found.append((f"the results {results}", lambda: self._directory(results, wish)))
        return found

    def _base(self, wish: Wish, base: str) -> tuple[str, Callable[[], _Found | str]]:
        if "://" in base:
            uri = located(base, self._document)
            return f"base {shown(uri)}", lambda: self._stored(uri, wish)
        place = (self._document / base).absolute()
        return f"base {place}", lambda: self._directory(place, wish, is_base=True)

    def _own(self, folder: str) -> _Found:
        return self._known.get(folder) or _bare(Path(folder)) or _Found(Path(folder), [])

    def _here(self, wish: Wish, phase: PhasePlan, own: Mapping[tuple[int, str], str]) -> _Found | str:
        folder, why = model.own(wish, self._plan.phases, phase.index, own)
        return why if folder is None else self._own(folder)

    # -- directories --------------------------------------------------------------------------------------------------
    def _directory(self, place: Path, wish: Wish, is_base: bool = False) -> _Found | str:
        """Look in a directory: at its shelves; a base may also be a folder of files without an index."""
        if not place.is_dir():
            return "there is no such directory"
        try:
            found, single = shelves(place, wish.run)
        except StoreError as error:
            return str(error)
        if not found:
            return self._unlabelled(place, wish) if is_base else "it holds no models of a run"
        keepers = [Keeper(shelf.run, shelf.uid, shelf.status) for shelf in found]
        any_run = wish.here and not wish.elsewhere and wish.run is None
        if is_base and single and any_run:  # who points at the folder of one run means that run
            chosen: Keeper | str = keepers[0]
        else:
            chosen = model.pick_run(wish, keepers, self._run)
        if isinstance(chosen, str):
            return chosen
        shelf = next(s for s, k in reversed(list(zip(found, keepers, strict=True))) if k is chosen)
        mine = [kept for kept in shelf.models if kept.agent == wish.agent]
        return _of_phase(wish, shelf.phases, mine, chosen.run)

    def _unlabelled(self, place: Path, wish: Wish) -> _Found | str:
        if not wish.bare:
            return "it says nothing of runs and phases: there is no `models.json` in it or in a folder of it"
        found = _bare(place / file_name(wish.agent)) or (None if wish.named else _bare(place))
        folder = "" if wish.named else " nor in it"
        return found or f"there is no model.npz in {place / file_name(wish.agent)}{folder}"

    # -- stores -------------------------------------------------------------------------------------------------------
    def _stored(self, uri: str, wish: Wish) -> _Found | str:
        """Look in a store; one that cannot be read is one more place without the model."""
        try:
            return self._in_store(uri, wish)
        except GanglionError as error:
            return str(error)

    def _in_store(self, uri: str, wish: Wish) -> _Found | str:
        with store_class(uri).reader(uri) as reader:
            chosen = model.pick_run(wish, keepers_of(reader), self._run)
            if isinstance(chosen, str):
                return chosen
            runs = [chosen.run]
            phases = {r["phase"]: r["name"] for r in reader.rows("phases", runs, columns=["phase", "name"])}
            columns = ["phase", "agent", "tag", "path", "sha256"]
            rows = reader.rows("brains", runs, columns=columns)
            kept = [_kept_of(row) for row in rows if row["agent"] == wish.agent]
        found = _of_phase(wish, phases, kept, chosen.run)
        return self._moved(uri, found) if isinstance(found, _Found) else found

    def _moved(self, uri: str, found: _Found) -> _Found:
        """Return a model where it lies: results that were moved as a whole keep their order below the folder."""
        place = Path(*found.folder.parts[-4:])  # <run>/brains/<phase>/<agent>
        folders = [self._results.parent]
        if uri.startswith("sqlite:///"):
            folders.insert(0, Path(uri.removeprefix("sqlite:///")).absolute().parent)
        for folder in (found.folder, *(folder / place for folder in folders)):
            moved = replace(found, folder=folder, files=[(folder / p.name, sha) for p, sha in found.files])
            if _gone(moved) is None:
                return moved
        return found

    # -- digests ------------------------------------------------------------------------------------------------------
    def _checked(self, agent: AgentPlan, found: _Found) -> str:
        """Return the folder of a model whose files are what they were; it is known from now on."""
        for path, sha256 in found.files:
            actual = None if sha256 is None or not path.is_file() else digest_of(path)
            if actual != sha256:
                at = f"{agent.load_at}: " if agent.load_at else ""
                what = "the file is gone" if actual is None else f"the file is damaged: found {actual}"
                raise StoreError(f"{at}model of agent `{agent.name}`: {path}: expected SHA-256 {sha256}, {what}")
        self._known.setdefault(str(found.folder), found)
        return str(found.folder)


def _kept_of(row: Mapping[str, Any]) -> Kept:
    """Return the row of a model in a store; StoreError if its path is not that of a model in a run's folder."""
    phase, agent, tag, path, sha256 = (row[key] for key in ("phase", "agent", "tag", "path", "sha256"))
    texts = all(isinstance(value, str) for value in (agent, tag, path, sha256))
    if not texts or type(phase) is not int:
        raise StoreError(f"model of agent {agent!r:.80}: expected text and a phase, found {row!r:.300}")
    place = Path(path)
    expected = ("brains", str(phase), file_name(agent), tag_file(tag))
    if place.parts[-4:] != expected or ".." in place.parts or "\0" in path:
        raise StoreError(
            f"model of agent `{agent}`: expected a path that ends with {'/'.join(expected)}, found {path!r:.200}"
        )
    return Kept(phase, agent, tag, place, sha256)


def _of_phase(wish: Wish, phases: Mapping[int, str], kept: Sequence[Kept], run: str) -> _Found | str:
    """Return the newest model of the phase that is meant among those of the agent in one run."""
    index = model.pick_phase(wish, phases, [row.phase for row in kept], run)
    if isinstance(index, str):
        return index
    newest = {row.tag: row for row in kept if row.phase == index}
    folder = list(newest.values())[-1].path.parent
    mine = [row for row in newest.values() if row.path.parent == folder]
    return _Found(folder, [(row.path, row.sha256) for row in mine], [row.tag for row in mine])


def _bare(folder: Path) -> _Found | None:
    """Return the model in a folder that nobody has noted, None if there is none."""
    if not (folder / "model.npz").is_file():
        return None
    return _Found(folder, [(path, None) for path in files_of(folder)])


def _gone(found: _Found) -> str | None:
    """Return which file of a model is no longer there, None if all are."""
    gone = [path for path, _ in found.files if not path.is_file()]
    return f"the file {gone[0]} is gone" if gone else None
