"""Subjects: what an environment and a muscle have in common, as the kit asks them call by call."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from ganglion.errors import RemoteProtocolError
from ganglion.peer.environment.contract import Declared
from ganglion.wire.envelope import Position
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Run, Skip, case, expect
from ganglion_conformance.session import Answer, Session

CALLS, SPACES, REPEAT, ERRORS = "Calls", "Spaces and arrays", "Identity and repetition", "Errors"
BODIES = "Several bodies"


class Subject(ABC):
    """Ask one peer in one session; `step` counts the calls of an episode, `began` answered the begin of the phase."""

    role: ClassVar[str]
    call: ClassVar[str]  # the one of each step
    unit: ClassVar[str]  # what a step is called
    declares: ClassVar[str]  # the case which shows that a phase can be begun

    def __init__(self, bench: Bench, session: Session) -> None:
        self.bench = bench
        self.session = session
        self.order = bench.order
        self.checks = Declared()
        self.episode = self.step = 0
        self.began: Answer

    @classmethod
    def begun(cls, bench: Bench, fresh: bool = False) -> Self:
        """Return the peer of the shared session, or with `fresh` another one, at the beginning of an episode."""
        if bench.notes.get("undeclared"):
            raise Skip(f"it cannot be started: see {cls.declares}")
        found = cls(bench, bench.fresh() if fresh else bench.session())
        found.began = found.begin()
        return found

    @classmethod
    def first(cls, bench: Bench) -> Self:
        """Return the peer of the shared session with its first phase; other cases skip if it cannot be begun."""
        bench.notes["undeclared"] = True
        found = cls(bench, bench.session())
        found.began = found.begin()
        bench.notes["undeclared"] = False
        return found

    @abstractmethod
    def begin(self) -> Answer:
        """Begin a phase; Miss if that is refused."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Return the body of a call that is to be answered."""

    @abstractmethod
    def judge(self, answer: Answer) -> object:
        """Miss if an answer does not fit the declarations."""

    def ask(self, body: Mapping[str, Any] | bytes, **more: Any) -> Answer:
        """Ask for the next step, and return the answer whatever it is."""
        self.step += 1
        return self.session.ask(self.call, body, position=self.position, **more)

    def refuses(self, body: Mapping[str, Any] | bytes, what: str) -> None:
        """Miss unless a request is answered by ERROR, and the next call as if nothing had been."""
        answer = self.ask(body)
        expect(answer.failed, f"{what}: expected ERROR, found {answer.text}")
        self.goes_on(what)

    def goes_on(self, what: str) -> None:
        """Miss unless the next call is answered as if nothing had been."""
        name = self.call.partition(".")[2]
        self.judge(self.ask(self.plain()).granted(f"after {what}", f"the next {name} to be answered"))

    def row(self, what: str, fields: Mapping[str, Any], key: str) -> list[Any]:
        """Return the one row of a field; Miss says what does not fit the declarations."""
        rows = fields.get(key)
        try:
            if not isinstance(rows, list):
                raise RemoteProtocolError(f"{key}: expected a list of one row, found {rows!r:.60}")
            return self.checks.row(what, rows, key)
        except (RemoteProtocolError, TypeError, KeyError) as error:
            raise Miss(f"{self.where}: {said(error)}") from error

    @property
    def position(self) -> Position:
        """Return what the step is about."""
        return (0, 0, self.episode, 0, self.step, 0)

    @property
    def where(self) -> str:
        """Return the step in words."""
        return f"{self.call.partition('.')[2]} (episode {self.episode}, {self.unit} {self.step})"


S = TypeVar("S", bound=Subject)


def case_of(kind: type[S], name: str, heading: str) -> Callable[[Callable[[S], str | None]], Run]:
    """Enter a case whose function gets the peer of the shared session, at the beginning of an episode."""

    def enter(run: Callable[[S], str | None]) -> Run:
        @functools.wraps(run)
        def begun(bench: Bench) -> str | None:
            return run(kind.begun(bench))

        return case(name, heading, kind.role)(begun)

    return enter


def said(error: Exception) -> str:
    """Return what an error says; a field that is missing is named."""
    return f"expected the field {error}, found none" if isinstance(error, KeyError) else str(error)
