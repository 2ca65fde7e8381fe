"""Check of an environment: what the bus, the tables and recovery rely on, tried out on the class itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganglion.errors import ContractBroken
from ganglion.peer.environment import speaks
from ganglion.peer.snapshot import State
from ganglion.peer.values import Layout
from ganglion.sdk.environment import Environment
from ganglion.sdk.seed import generator_from_words, words
from ganglion.testing.checks.clause import clause, encoded, expect, first_difference
from ganglion.testing.stage import StagedEnvironment
from ganglion.wire.messages import EnvironmentDeclared, EnvironmentUpdated

_REPEATS = (
    "the same seed and setpoints give the same readings, rewards and flags, bit by bit (random numbers come from"
    " `self.rng`; nothing is kept in the class or the module)"
)
_RESETS = (
    "the same `reset` again, with `self.rng` put back to where it was before, opens the same episode, bit by bit"
    " (nothing else is kept from the episodes before it)"
)
_PAIR = "`save_state` and `load_state` are there together, or not at all"
_SAVES = "`save_state` returns names and arrays, or other plain values, and changes nothing"
_LOADS = (
    "`load_state` puts one that was started where the other one stood: what `save_state` returns is all that it needs"
    " to go on, bit by bit"
)


def check_environment(
    cls: type[Environment],
    params: Mapping[str, Any] | None = None,
    *,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 50,
) -> None:
    """Check whether an environment keeps its contract.

    It is started, given setpoints drawn from its spaces and the bounds of these, reset at the end of an episode and
    in the middle of one, and shut down; and all that a second and a third time, which must give the same bits. In the
    third each reset is done twice, with a step between them in which no actuator is set. One with `save_state` and
    `load_state` is asked for its state once in each episode, and another one is put in its place.

    Args:
        cls: The class.
        params: Of the document.
        seed: Of the run.
        episodes: How many episodes, at least 2.
        steps: How many steps an episode has at most.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """
    first = _Trial(cls, params, seed, episodes, steps).run()
    for trial, sentence in ((_Trial, _REPEATS), (_Twice, _RESETS)):
        differs = first_difference(first, trial(cls, params, seed, episodes, steps).run())
        expect(cls, sentence, differs is None, f"another answer number {differs} the second time")
    with clause(cls, _PAIR):
        says_itself = speaks(cls)
    if says_itself:
        for trial, sentence in ((_Asked, _SAVES), (_HandedOn, _LOADS)):
            trace = _run(trial(cls, params, seed, episodes, steps), sentence)
            differs = first_difference(first, trace)
            expect(cls, sentence, differs is None, f"another answer number {differs}")


def _run(trial: _Trial, sentence: str) -> list[bytes]:
    """Return the answers of one that did all else right before; what goes wrong now is told of this sentence."""
    try:
        return trial.run()
    except ContractBroken as error:
        whose, text = trial.whose, str(error)
        if _SAVES in text or _LOADS in text:
            raise
        raise ContractBroken(f"{whose}: {sentence}: then {text.removeprefix(f'{whose}: ')}") from error


class _Trial:
    """Run an environment once and keep what it answers."""

    def __init__(
        self, cls: type[Environment], params: Mapping[str, Any] | None, seed: int, episodes: int, steps: int
    ) -> None:
        self._cls, self._params, self._seed = cls, params, seed
        self._staged = self._another()
        self._draw = generator_from_words(words(seed, ["check"]))
        self._episodes, self._steps = max(2, episodes), steps
        self._longest: int | None = None
        self._trace: list[bytes] = []

    @property
    def whose(self) -> str:
        """Return the name of the class."""
        return self._cls.__qualname__

    def _another(self) -> StagedEnvironment:
        return StagedEnvironment(self._cls, self._params, seed=self._seed)

    def run(self) -> list[bytes]:
        """Return the answers as bytes."""
        cls = self._cls
        sentence = "`longest_episode` takes the params of the document and returns a number of steps or None"
        with clause(cls, sentence):
            self._longest = longest = cls.longest_episode(**dict(self._params or {}))
        known = longest is None or (type(longest) is int and longest >= 1)
        expect(cls, sentence, known, repr(longest))
        with clause(cls, "it is made with the params of the document, and `start_environment` opens an episode"):
            declared = self._staged.start()
            self._trace.append(encoded(declared))
        self._check_declared(declared)
        self._actuators = Layout.of(declared.actuators)
        for episode in range(self._episodes):
            if episode:
                with clause(cls, "`reset` opens the next episode, with the same declarations, wherever the last stood"):
                    self._trace.append(encoded(self._open()))
            # The second episode is left in its middle.
            self._episode(max(1, self._steps // 2) if episode == 1 else self._steps, max(1, episode * self._steps // 5))
        with clause(cls, "`shutdown` ends it"):
            self._staged.shutdown()
        return self._trace

    def _check_declared(self, declared: EnvironmentDeclared) -> None:
        cls = self._cls
        expect(cls, "it declares at least one sensor", bool(declared.sensors), "none")
        without = [it["id"] for it in declared.actuators if it.get("value") is None]
        expect(cls, "each actuator has a value, its no-op", not without, f"no value of {', '.join(without)}")

    def _open(self) -> EnvironmentUpdated:
        """Open the next episode."""
        return self._staged.reset()

    def _look(self) -> None:
        """Do what is done once in each episode, between two steps or at its end."""

    def _episode(self, steps: int, asked: int) -> None:
        cls = self._cls
        for step in range(1, steps + 1):
            values = [self._value(space, step) for space in self._actuators.spaces]
            with clause(cls, "`update` takes any setpoints of the actuators' spaces and returns all that it declared"):
                updated = self._staged.update(self._actuators.to_row(values))
            self._trace.append(encoded(updated))
            ended = updated.terminated or updated.truncated
            if step == asked or (ended and step < asked):
                self._look()
            if ended:
                return
            self._check_length(step, updated)

    def _check_length(self, step: int, updated: EnvironmentUpdated) -> None:
        expect(
            self._cls,
            f"no episode is longer than `longest_episode` says ({self._longest})",
            self._longest is None or step < self._longest,
            f"step {step} with neither flag",
        )

    def _value(self, space: Any, step: int) -> Any:
        """Return a value of a space: at first the corners of its vector, then drawn ones."""
        low, high = getattr(space, "low", None), getattr(space, "high", None)
        if step <= 2 and low is not None and high is not None:
            corner = low if step == 1 else high
            if space.contains(corner):
                return space.canonical(corner)
        return space.sample(self._draw)


class _Twice(_Trial):
    """Do each reset twice, with a step between them."""

    def _open(self) -> EnvironmentUpdated:
        opened = super()._open()
        with clause(self._cls, "`update` takes a step in which no actuator is set"):
            self._staged.update([], [])
        return self._staged.reset(opened)


class _Asked(_Trial):
    """Ask for the state, and go on."""

    def _look(self) -> None:
        self._taken()

    def _taken(self) -> State:
        with clause(self._cls, _SAVES):
            return self._staged.take_state()


class _HandedOn(_Asked):
    """Put another one in the place of the one that was asked."""

    def _look(self) -> None:
        state, former = self._taken(), self._staged
        with clause(self._cls, "`shutdown` ends it"):
            former.shutdown()
        self._staged = self._another()
        with clause(self._cls, _LOADS):
            self._staged.start()
            self._staged.go_on(state)
