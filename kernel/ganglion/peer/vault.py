"""Vault: the stores that the models of a run go to with their bytes, and from which they come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ganglion.errors import DocumentError, GanglionError, LimitExceeded, StoreError
from ganglion.peer.address import located
from ganglion.peer.depot import Depot, kind_of, marked, place_of
from ganglion.peer.fetch import fetch
from ganglion.run.plan import AgentPlan, Plan
from ganglion.sdk.models import file_name

__all__ = ["Vault", "is_store"]

_OWN = "store"  # as `models` of an agent: the run's own


class Vault:
    """Know which agents' models go to which store: the run's own is given them by the record `brain`, others by depots.

    Args:
        plan: The run.
        run: Its id.
        store: URI of its store, None if it has none.
        shelf: The folder of its models, the only place from which they are taken.
        warn: Tells a sentence to who looks on.
        again: Whether the run goes on, or is heard again: it may be in databases already.
    """

    def __init__(
        self,
        plan: Plan,
        run: str,
        store: str | None,
        shelf: Path,
        warn: Callable[[str], None],
        again: bool = False,
    ) -> None:
        self._plan, self._run, self._store, self._shelf = plan, run, store, shelf
        self._warn, self._again = warn, again
        self._document = Path(plan.folder or ".")
        self._heads: list[Sequence[Any]] = []  # records that a depot begun later needs, too
        self._depots: dict[str, Depot] = {}  # by URI
        self._stray: StoreError | None = None  # a file that a brain has left where it should not
        self._checked = False

    # -- in ------------------------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Find out once, before anybody is started, whether all stores take the models of all phases.

        Raises:
            DocumentError: One does not.
        """
        agents = [] if self._checked else [agent for phase in self._plan.phases for agent in phase.agents]
        self._checked = True
        for agent in agents:
            if not is_store(agent.models) or agent.brain is None:
                continue
            try:
                uri = self.second(agent)
                if uri is not None:
                    self._depot(uri)
                elif self._store is None:
                    raise StoreError("`store` is the run's own, and this run has none")
                else:
                    kind_of(self._store)
            except GanglionError as error:
                at = f"{agent.models_at}: " if agent.models_at else ""
                raise DocumentError(f"{at}models of agent `{agent.name}`: {error}") from error

    def take(self, record: Sequence[Any]) -> None:
        """Take a record of the run; what is told of models that go to other stores is written by `flush`."""
        if record[0] in ("run", "phase"):
            self._heads.append(record)
        if record[0] != "brain":
            for depot in self._depots.values():
                depot.take(record)
            return
        agent = self._agent(record)
        if not is_store(agent.models):
            return
        try:
            place = place_of(self._shelf, record, file_name(agent.name))
        except StoreError as error:
            self._stray = self._stray or error
            return
        uri = self.second(agent)
        if uri is not None:
            self._depot(uri).take(marked(record, place))

    def marked(self, record: list[Any]) -> list[Any]:
        """Return a record as it goes to the run's store: marked where that is to keep the bytes of a model."""
        if record[0] != "brain" or self._stray is not None:
            return record
        agent = self._agent(record)
        own = is_store(agent.models) and self.second(agent) is None
        return marked(record, Path(record[9])) if own else record

    def flush(self) -> None:
        """Make durable what was taken; StoreError if it cannot be, or if a brain has named a strange file."""
        if self._stray is not None:
            raise self._stray
        for depot in self._depots.values():
            depot.flush()

    def close(self) -> None:
        """Let go of all stores."""
        for depot in self._depots.values():
            depot.close()

    def _agent(self, record: Sequence[Any]) -> AgentPlan:
        phase: int = record[1]
        return next(agent for agent in self._plan.phases[phase].agents if agent.name == record[2])

    def _depot(self, uri: str) -> Depot:
        if uri not in self._depots:
            self._depots[uri] = depot = Depot(uri, self._run, self._again, self._warn)
            for record in self._heads:
                depot.take(record)
        return self._depots[uri]

    # -- out -----------------------------------------------------------------------------------------------------------
    def second(self, agent: AgentPlan) -> str | None:
        """Return the URI of the store that an agent's models go to; None for the run's own, or a directory."""
        if agent.models is None or agent.models == _OWN or not is_store(agent.models):
            return None
        uri = located(agent.models, self._document)
        own = self._store is not None and _place(uri) == _place(self._store)
        return None if own else uri

    def bring(
        self, agent: AgentPlan, told_by: str | None, files: Mapping[str, str], folder: Path
    ) -> list[str]:
        """Write the files of a model from the first store that has kept all of them.

        Args:
            agent: Who loads it.
            told_by: URI of the store that told of it, which is asked first; then the agent's, then the run's own.
            files: Name of each in the folder -> its SHA-256.
            folder: Of this run.

        Returns:
            Why no store has them, one sentence per store; nothing if they are there now.

        Raises:
            StoreError: What is kept is damaged or too large, or the folder cannot be written.
        """
        vain = []
        for uri in dict.fromkeys((told_by, self.second(agent), self._store)):
            if uri is None:
                continue
            try:
                why = fetch(uri, files, folder)
            except (StoreError, LimitExceeded) as error:
                at = f"{agent.load_at}: " if agent.load_at else ""
                raise StoreError(f"{at}model of agent `{agent.name}`: {error}") from error
            if why is None:
                return []
            vain.append(why)
        return vain or ["no store has its bytes"]


def is_store(models: str | None) -> bool:
    """Say whether `models` of an agent means a store; anything else is a directory."""
    return models is not None and (models == _OWN or "://" in models)


def _place(uri: str) -> str:
    """Return a URI by which two of one file of SQLite are equal."""
    scheme, slashes, path = uri.partition(":///")
    return f"{scheme}:///{Path(path).resolve()}" if scheme == "sqlite" and slashes else uri
