"""Library: looks for the model that an agent begins a phase with, on shelves and in stores, and checks its digest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ganglion.errors import DocumentError, GanglionError, StoreError
from ganglion.peer.address import keepers_of, located, shown, store_class
from ganglion.peer.shelf import Index, Kept, files_of, give_back, hand_over, reserve, shelves
from ganglion.peer.vault import Vault, is_store
from ganglion.run import model
from ganglion.run.model import Keeper, Wish
from ganglion.run.plan import AgentPlan, PhasePlan, Plan
from ganglion.sdk.models import digest_of, file_name, tag_file

__all__ = ["Library"]

_NOTED = "shelves.json"  # beside the index: which folder the run has in each second directory


@dataclass(frozen=True, slots=True)
class _Found:
    """A model: its folder, and its files with their digests, None where nobody has noted one.

    `tags` are those of its files, where they are known, and `store` is the one that told of it.
    """

    folder: Path
    files: Sequence[tuple[Path, str | None]]
    tags: Sequence[str] = ()
    store: str | None = None


class Library:
    """Find models for one run, and keep the indices of those that it stores.

    Args:
        plan: The run.
        run: Its id.
        results: Its folder.
        store: URI of its store, None if it has none.
        warn: Tells a sentence to who looks on.
        again: Whether the run goes on, or is heard again: it may be in databases already.
    """

    def __init__(
        self,
        plan: Plan,
        run: str,
        results: str,
        store: str | None,
        warn: Callable[[str], None],
        again: bool = False,
    ) -> None:
        self._plan, self._run, self._store, self._warn = plan, run, store, warn
        self._results = Path(results)
        self._document = Path(plan.folder or ".")
        self._shelves: dict[Path, Index] = {}  # what documents call `models` -> folder of this run in it
        self._heads: list[Sequence[Any]] = []  # records that an index begun later needs, too
        self._rows: dict[tuple[Any, ...], Sequence[Any]] = {}  # newest records of phases and models
        self._index = Index(self._results / "brains", run)
        self._noted = self._results / "brains" / _NOTED
        self._known: dict[str, _Found] = {}  # by folder
        self._vault = Vault(plan, run, store, self._results / "brains", warn, again)

    # -- what this run stores -----------------------------------------------------------------------------------------
    def shelf(self, agent: AgentPlan) -> str | None:
        """Return the folder of this run in the agent's second directory; made when it is first asked for, once a run.

        None if its models go into a store.
        """
        assert agent.models is not None
        if is_store(agent.models):
            return None
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
        self._vault.take(record)
        if record[0] == "brain":
            self._remember(record)
            phase, agent = record[1], record[2]
            plan = next(a for a in self._plan.phases[phase].agents if a.name == agent)
            second = None if _has_no_shelf(plan) else (self._document / str(plan.models)).absolute()
            indices = [self._index, *([] if second is None else [self._shelves[second]])]
        else:
            indices = [self._index, *self._shelves.values()]
        for index in indices:
            index.take(record)

    def marked(self, record: list[Any]) -> list[Any]:
        """Return a record as it goes to the run's store: marked where that is to keep the bytes of a model."""
        return self._vault.marked(record)

    def _remember(self, record: Sequence[Any]) -> None:
        path = Path(record[9])
        known = self._known.get(str(path.parent), _Found(path.parent, []))
        files = {**dict(known.files), path: record[8]}
        self._known[str(path.parent)] = _Found(path.parent, list(files.items()))

    def flush(self) -> None:
        """Write the indices and the stores that have news; StoreError if one cannot be written."""
        self._vault.flush()
        for index in (self._index, *(index for index in self._shelves.values() if not index.is_empty)):
            index.flush()

    def close(self) -> None:
        """Take away the folders that were made in vain; what others have put there stays. Let go of stores."""
        self._vault.close()
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
        self._vault.check()
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
            if isinstance(found, _Found):
                found = self._present(found, phase, agent)
            if isinstance(found, _Found):
                return self._checked(agent, found)
            vain.append((place, found))
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

    def _present(self, found: _Found, phase: PhasePlan, agent: AgentPlan) -> _Found | str:
        """Return a model whose files are on this machine: where one is gone, all are written from a store's bytes."""
        gone = _gone(found)
        if gone is None:
            return found
        files = {tag_file(tag): sha256 for tag, (_, sha256) in zip(found.tags, found.files, strict=False)}
        if len(files) != len(found.files) or None in files.values():
            return gone  # nobody has noted what it was
        place = f"loaded/{phase.index}/{file_name(agent.name)}"
        folder = self._results / "brains" / place
        digests = {name: str(sha256) for name, sha256 in files.items()}
        vain = self._vault.bring(agent, found.store, digests, folder)
        if vain:
            return f"{gone}; {'; '.join(vain)}"
        user = (agent.recovery or phase).run_as
        if user is not None:
            hand_over(self._results / "brains", place, user)
        return _Found(folder, [(folder / name, sha256) for name, sha256 in digests.items()])

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
        second = self._vault.second(agent)
        if second is not None:
            found.append((f"models {shown(second)}", lambda: self._stored(second, wish)))
        elif not _has_no_shelf(agent):
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
            kept = [_kept(row) for row in rows if row["agent"] == wish.agent]
        found = _of_phase(wish, phases, kept, chosen.run)
        return replace(self._moved(uri, found), store=uri) if isinstance(found, _Found) else found

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
                raise StoreError(
                    f"{at}model of agent `{agent.name}`: {path}: expected SHA-256 {sha256}, {what}"
                )
        self._known.setdefault(str(found.folder), found)
        return str(found.folder)


def _kept(row: Mapping[str, Any]) -> Kept:
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


def _has_no_shelf(agent: AgentPlan) -> bool:
    """Say whether an agent has no second directory."""
    return agent.models is None or is_store(agent.models)
