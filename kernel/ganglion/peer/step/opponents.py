"""Opponents: snapshots of a model, the draw of one for a team, the turns of learning teams, ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ganglion.sdk.seed import generator_from_words

Kept = TypeVar("Kept")


class Pool(Generic[Kept]):
    """Keep the newest `window` snapshots of a model, oldest first; one is due every `every` learned transitions."""

    def __init__(self, window: int, snapshot_every: int) -> None:
        self.window, self._every, self._learned = window, snapshot_every, 0
        self.snapshots: list[Kept] = []

    def learned(self, count: int) -> bool:
        """Count learned transitions; return whether a snapshot is due."""
        before = self._learned // self._every
        self._learned += count
        return self._learned // self._every > before

    def add(self, snapshot: Kept) -> None:
        """Add a snapshot; a full pool drops its oldest."""
        self.snapshots = [*self.snapshots, snapshot][-self.window :]

    def state(self) -> list[Any]:
        """Return the count and the snapshots."""
        return [self._learned, self.snapshots]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        self._learned, self.snapshots = state[0], list(state[1])


class Draws:
    """Draw opponents from the stream of one team in a worker."""

    def __init__(self, stream: bytes, latest: float) -> None:
        self._rng, self._latest = generator_from_words(stream), latest

    def draw(self, count: int) -> int | None:
        """Return the place of one of `count` snapshots; None is the current model, always without snapshots."""
        if self._rng.random() < self._latest or not count:
            return None
        return int(self._rng.integers(count))

    def state(self) -> list[Any]:
        """Return the state of the stream, as plain values."""
        found: Mapping[str, Any] = self._rng.bit_generator.state
        numbers = found["state"]
        return [hex(numbers["state"]), hex(numbers["inc"]), found["has_uint32"], found["uinteger"]]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        numbers = {"state": int(state[0], 16), "inc": int(state[1], 16)}
        own = self._rng.bit_generator
        own.state = {**own.state, "state": numbers, "has_uint32": state[2], "uinteger": state[3]}


class Opponents:
    """Keep the pools of a model and draw from them for muscles, each by its own stream.

    Args:
        pools: How many snapshots each keeps, and how many learned transitions lie between two.
        players: Muscle -> number of its pool, share of the current model, stream.
    """

    def __init__(self, pools: Sequence[Sequence[int]], players: Mapping[str, Sequence[Any]] | None) -> None:
        self._pools = [Pool[list[Any]](*pool) for pool in pools]
        self._players = {
            name: (pool, Draws(stream, latest)) for name, (pool, latest, stream) in (players or {}).items()
        }

    def learned(self, count: int, snapshot: Callable[[], list[Any]]) -> None:
        """Count learned transitions; add a snapshot to each pool in which one is due."""
        due = [pool for pool in self._pools if pool.learned(count)]
        if due:
            taken = snapshot()
            for pool in due:
                pool.add(taken)

    def draw(self, name: str) -> list[Any] | None:
        """Return the snapshot drawn for a muscle; None is the current model."""
        number, draws = self._players[name]
        snapshots = self._pools[number].snapshots
        place = draws.draw(len(snapshots))
        return None if place is None else snapshots[place]

    def state(self) -> list[Any]:
        """Return the changing state as plain values."""
        return [[pool.state() for pool in self._pools], {name: one.state() for name, (_, one) in self._players.items()}]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        for pool, known in zip(self._pools, state[0], strict=True):
            pool.restore(known)
        for name, known in state[1].items():
            self._players[name][1].restore(known)


class Turns:
    """Decide when agents of a worker that act by a pool change models, and which of them learn.

    Args:
        swap_every: Decisions between two draws, of each.
        rotate_every: Decisions of the learning team until the next team learns.
        teams: Numbers of the agents that take turns in learning, team by team; empty: models of all are drawn.
    """

    def __init__(self, swap_every: Sequence[int], rotate_every: int | None, teams: Sequence[Sequence[int]]) -> None:
        self._swap_every, self._rotate_every, self._teams = list(swap_every), rotate_every, [*map(list, teams)]
        self._taking = {one for team in teams for one in team}
        self._decided = [0] * len(self._swap_every)
        self._fresh, self._turn = [*range(len(self._decided))], 0

    @property
    def learning(self) -> Sequence[int]:
        """Return the team that learns, by the current model; None if teams do not take turns."""
        return self._teams[self._turn] if self._teams else ()

    def learns(self, one: int) -> bool:
        """Return whether decisions of an agent are learned from; of teams that take turns one learns at a time."""
        return one not in self._taking or one in self.learning

    def decided(self, one: int, count: int) -> None:
        """Count decisions."""
        self._decided[one] += count

    def again(self, one: int) -> None:
        """Make a change of an agent's model due, since its muscle is new."""
        self._fresh.append(one)

    def due(self) -> list[int]:
        """Return the agents whose models change now, in order, at first all; restart their counts."""
        before, found, self._fresh = self.learning, {*self._fresh}, []
        if self._rotate_every is not None and sum(self._decided[one] for one in before) >= self._rotate_every:
            self._turn = (self._turn + 1) % len(self._teams)
            found |= {*before, *self.learning}
        played = zip(self._decided, self._swap_every, strict=True)
        found |= {one for one, (count, every) in enumerate(played) if count >= every and one not in before}
        for one in found:
            self._decided[one] = 0
        return sorted(found)

    def state(self) -> list[Any]:
        """Return the counts and the learning team."""
        return [list(self._decided), list(self._fresh), self._turn]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        self._decided, self._fresh, self._turn = list(state[0]), list(state[1]), state[2]


def rated(ratings: Sequence[float], returns: Sequence[float], k: float) -> list[float]:
    """Return the ratings of n sides after an episode: each pair moves by k / (n - 1) * (score - expected)."""
    found, pairs = list(map(float, ratings)), len(ratings) - 1
    for a in range(len(ratings)):
        for b in range(a + 1, len(ratings)):
            score = 0.5 if returns[a] == returns[b] else float(returns[a] > returns[b])
            expected = 1.0 / (1.0 + 10.0 ** ((ratings[b] - ratings[a]) / 400.0))
            moved = k / pairs * (score - expected)
            found[a] += moved
            found[b] -= moved
    return found
