"""Who acts in a step: what a controller announces, whom it asks, and who is left to pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ganglion.errors import AuthorError
from ganglion.peer.hooks import Hooks
from ganglion.sdk.controller import Controller


class Turn:
    """Watch over the steps of an episode: each agent acts once in a step, and as was announced.

    A controller that overrides `turn` announces who acts. Of one that does not, those act whom it asks first in a
    step; the others pass.
    """

    def __init__(self, controller: Controller, agents: Sequence[str], hooks: Hooks) -> None:
        self._controller, self._hooks = controller, hooks
        self._agents = dict.fromkeys(agents)
        self._announces = getattr(controller.turn, "__func__", None) is not Controller.turn
        self._acted: set[str] = set()
        self._passed: set[str] = set()
        self._acting: frozenset[str] | None = None  # what was announced for the running step
        self._step = 0  # steps that have been made

    @property
    def full(self) -> bool:
        """Say whether everybody has acted in this step."""
        return len(self._acted) == len(self._agents)

    def announced(self, step: int) -> list[str]:
        """Return who acts after `step` steps by the word of the controller; AuthorError if it names a stranger."""
        if not self._announces:
            return list(self._agents)
        named: list[str] = self._hooks("turn", lambda: list(self._controller.turn(step)))
        self.check(named)
        return named

    def check(self, agents: Iterable[str]) -> None:
        """Refuse names that no agent has."""
        for name in agents:
            if name not in self._agents:
                raise AuthorError(f"there is no agent {name!r}, expected some of {', '.join(self._agents)}")

    def call(self, agents: Sequence[str]) -> None:
        """Note whom the controller asks; AuthorError says who may not act now, and why."""
        self.check(agents)
        number = self._step + 1
        for name in agents:
            if name in self._acted:
                raise AuthorError(f"agent {name} is asked twice in step {number}: an agent acts once in a step")
            if name in self._passed:
                raise AuthorError(
                    f"agent {name} is asked in step {number} after others: with several workers those who act in a "
                    "step are asked at once, or announced by turn()"
                )
            if self._announces and name not in self._announced():
                raise AuthorError(f"agent {name} is asked in step {number}, but turn({self._step}) did not say so")
            self._acted.add(name)

    def passing(self, awaited: Iterable[str], complete: bool = False) -> list[str]:
        """Return those of the awaited agents who will not act in this step, each once.

        `complete` says that the controller asks nobody else in this step.
        """
        acting = self._announced() if self._announces and not complete else self._acted
        found = [n for n in awaited if n not in acting and n not in self._acted and n not in self._passed]
        self._passed.update(found)
        return found

    def end(self) -> None:
        """Begin the next step."""
        self._step += 1
        self._acted.clear()
        self._passed.clear()
        self._acting = None

    def _announced(self) -> frozenset[str]:
        if self._acting is None:
            self._acting = frozenset(self.announced(self._step))
        return self._acting
