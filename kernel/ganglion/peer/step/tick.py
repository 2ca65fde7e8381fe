"""Timelines: what is due in a tick, which bodies decide, which episodes end, what ends a phase; by index arrays.

A *row* is the number of a body in the table of its worker, in the order of agents, environments and `b`. An environment
has one timeline for all its bodies, or with `episode_end: each` one for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ganglion.wire.messages import BY_CLOCK, TERMINATED, TRUNCATED

Array = NDArray[Any]

BUDGET = "truncated: budget"
_MOST = 2**62
_NOBODY: Array = np.zeros(0, np.int64)  # an array that is no view: a snapshot refuses views
Spawned = tuple[Array, Array]
"""Rows of bodies that an environment spawns, and their numbers b."""
BETWEEN = {"repeat": 0, "noop": 1, "zero": 2}
"""What is applied between the decisions of a body."""


class Clock(NamedTuple):
    """Describe when an environment steps, and what ends its episodes and its phase; None means no bound.

    `end` is `all`, `any`, `each`, `environment`, or the number of the row whose end ends the episode.
    """

    uid: str
    period: int = 1
    offset: int = 0
    budget_steps: int | None = None
    budget_episodes: int | None = None
    max_steps: int | None = None
    end: str | int = "all"


class EndedEpisode(NamedTuple):
    """Describe an ended episode; `row` is its body with `each`, None for an episode of the environment.

    `closed` are the rows of bodies alive at the end: their last transitions are truncated. A `lost` episode counts for
    no body. `b` is the number of the body at the end; the row may get another body later.
    """

    environment: int
    row: int | None
    episode: int
    steps: int
    terminated: bool
    reason: str
    closed: Array
    lost: bool = False
    b: int = -1


class Timelines:
    """Keep the clocks, episodes and budgets of one worker's environments and bodies.

    Args:
        clocks: Of the environments, in document order.
        environment: The number of its environment, per row.
        period, offset: Of the decisions of each row.
        end: `all`, `any`, or the uid of the environment whose spent budget ends the phase.
        numbers: The b of each row; -1 of a row for bodies that are spawned.

    Attributes:
        tick: The current tick.
        rows: Environment -> its rows, ascending: those of the document's bodies, then those for spawned bodies.
        static: Environment -> the rows of the document's bodies.
        b: The number of the body of a row, -1 before the first one, per row.
        spare: Whether a row is for spawned bodies.
        alive: Whether a body takes part in a running episode, per row.
        fresh: Whether a body has not decided in its episode yet, per row.
        step: Steps of the episode of a body, per row.
        episode: Its number.
        spent: Whether an environment has spent its budget.
        more, more_of: How many episodes an environment, or a body with `each`, may have beyond its budget.
    """

    def __init__(
        self,
        clocks: Sequence[Clock],
        environment: Array,
        period: Array,
        offset: Array,
        end: str = "all",
        numbers: Array | None = None,
    ) -> None:
        self.clocks, self.end, self.tick = list(clocks), end, 0
        self.environment = environment
        self.rows = self.static = [np.flatnonzero(environment == e) for e in range(len(clocks))]
        self.b = np.zeros(len(environment), np.int64) if numbers is None else numbers.astype(np.int64)
        self.spare = self.b < 0
        self.dynamic = bool(self.spare.any())
        if self.dynamic:
            self.static = [rows[~self.spare[rows]] for rows in self.rows]
            self.rows = [np.concatenate([rows[~self.spare[rows]], rows[self.spare[rows]]]) for rows in self.rows]
        self._period, self._offset = period, offset
        self._always = bool((period == 1).all() and (offset == 0).all())
        count = len(environment)
        self._want, self._wanted = np.full(count, BY_CLOCK, np.uint8), 0  # the wants of environments
        self.alive, self.fresh = np.zeros(count, bool), np.zeros(count, bool)
        self.step, self.episode, self._made = (np.zeros(count, np.int64) for _ in range(3))
        self.spent = [len(rows) == 0 for rows in self.rows]  # an environment without bodies takes no part in the phase
        self.steps, self.episodes, self._steps_made, self.more = ([0] * len(clocks) for _ in range(4))
        self.more_of = np.zeros(count, np.int64)

    STATE = (
        *("tick", "alive", "fresh", "step", "episode", "_made", "spent"),
        *("steps", "episodes", "_steps_made", "more", "more_of", "b", "_want", "_wanted"),
    )

    def state(self) -> dict[str, Any]:
        """Return the changing state as copies of plain values and arrays."""
        values = {name: getattr(self, name) for name in self.STATE}
        return {name: value if type(value) is int else value.copy() for name, value in values.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        for name in self.STATE:
            value = state[name]
            setattr(self, name, value if type(value) is int else value.copy())

    # -- what is due -------------------------------------------------------------------------------------------------
    def due(self, tick: int | None = None) -> list[int]:
        """Return the environments that step in a tick; None is the current one."""
        k = self.tick if tick is None else tick
        return [
            e
            for e, clock in enumerate(self.clocks)
            if not self.spent[e] and k >= clock.offset and (k - clock.offset) % clock.period == 0
        ]

    def skip(self) -> None:
        """Advance to the first tick, from the current one on, in which an environment is due, if there is one."""
        waits = [
            max(clock.offset - self.tick, 0) if self.tick < clock.offset else -(self.tick - clock.offset) % clock.period
            for e, clock in enumerate(self.clocks)
            if not self.spent[e]
        ]
        self.tick += min(waits, default=0)

    def deciding(self, due: Sequence[int]) -> Array:
        """Return the rows that decide before the step of these environments, ascending."""
        if len(due) == 1:
            rows = self.rows[due[0]]
            return self._by_clock(np.sort(rows[self.alive[rows]]) if self.dynamic else rows[self.alive[rows]])
        found = self.alive
        if len(due) < len(self.clocks):
            found = found & np.isin(self.environment, due)
        return self._by_clock(np.flatnonzero(found))

    def _by_clock(self, rows: Array) -> Array:
        """Select the living bodies that decide, by their clocks or by the wants of their environments."""
        if self._always and not self._wanted:
            return rows
        since = self.step[rows] - self._offset[rows]
        decides = (since >= 0) & (since % self._period[rows] == 0)
        if self._wanted:
            want = self._want[rows]
            decides = np.where(want == BY_CLOCK, decides, want == 1)
        found: Array = rows[decides]
        return found

    def want(self, environment: int, rows: Array, wants: Array | None) -> None:
        """Set the wants of a reply for the next decisions of these bodies; None: by their clocks."""
        if wants is not None:
            self._wanted = 1
        if self._wanted:
            self._want[self.rows[environment]] = BY_CLOCK
            self._want[rows] = BY_CLOCK if wants is None else wants

    def living(self, environment: int) -> Array:
        """Return the seats of living bodies among the rows of an environment, ascending."""
        found: Array = self.alive[self.rows[environment]].nonzero()[0]
        return found

    # -- ends --------------------------------------------------------------------------------------------------------
    def begin(self, environment: int) -> None:
        """Begin an episode of the bodies of an environment; with `each`, of the bodies whose budget is not spent."""
        rows, clock = self.static[environment], self.clocks[environment]
        self.want(environment, rows, None)
        if clock.end != "each":
            self.episode[rows] = self.episodes[environment]
        else:
            rows = rows[self._unspent(environment)]
        self._begin(rows)

    def _unspent(self, environment: int) -> Array:
        """Return, with `each`, whether the budget of each body of the document allows more steps."""
        rows, clock = self.static[environment], self.clocks[environment]
        episodes, steps = clock.budget_episodes or _MOST, clock.budget_steps or _MOST
        found: Array = (self.episode[rows] - self.more_of[rows] < episodes) & (self._made[rows] < steps)
        return found

    def limits(self, environment: int) -> dict[str, Any]:
        """Return the budgets of an environment with `each` and the progress of its bodies, as lists by body."""
        rows, clock = self.rows[environment], self.clocks[environment]
        more = np.where(self.spare[rows], 0, self.more_of[rows])  # a spawned body has the whole budget
        budget = None if clock.budget_episodes is None else (clock.budget_episodes + more).tolist()
        found = {"max_steps": clock.max_steps, "budget_steps": clock.budget_steps, "budget_episodes": budget}
        return {**found, "episodes": self.episode[rows].tolist(), "made": self._made[rows].tolist()}

    def settle(self, environment: int) -> None:
        """Update whether the budget of an environment is spent, after `close`."""
        clock = self.clocks[environment]
        if clock.end == "each":
            self.spent[environment] = not self._unspent(environment).any()
        else:
            episodes, steps = self.episodes[environment] - self.more[environment], self._steps_made[environment]
            self.spent[environment] = episodes == clock.budget_episodes or steps == clock.budget_steps

    def grant(self) -> None:
        """Grant each environment, or each body, its budget of episodes again."""
        self.more, self.more_of = list(self.episodes), self.episode.copy()
        self.spent = [len(rows) == 0 for rows in self.rows]

    def _begin(self, rows: Array) -> None:
        self.alive[rows] = self.fresh[rows] = True
        self.step[rows] = 0

    def take(
        self, environment: int, rows: Array, flags: Array, own: int, begun: Array, spawned: Spawned | None = None
    ) -> list[EndedEpisode]:
        """Record a step: the flags of these rows, the environment's flags, the rows whose next episode begins in it.

        Ended bodies, and bodies of an ended episode, are no longer alive; with `each` those of `begun` are alive again.
        `spawned` bodies are alive from now on, unless the episode of their environment ends with this step.
        """
        self.step[rows] += 1
        self._made[rows] += 1
        nobody = flags.tobytes().count(0) == len(flags)  # `any` of an array calls two Python functions first
        ended, flags = (rows[:0], flags[:0]) if nobody else (rows[flags != 0], flags[flags != 0])
        self.alive[ended] = False
        if self.clocks[environment].end == "each":
            over = self._take_each(environment, ended, flags, begun)
            if spawned is not None:
                self._spawn(environment, spawned)
            return over
        self.steps[environment] += 1
        self._steps_made[environment] += 1
        over = self._take_all(environment, ended, flags, own, spawned is not None)
        if spawned is not None and not over:
            self._spawn(environment, spawned)
        return over

    def free(self, environment: int, ended: Array, begun: Array) -> Array:
        """Return the rows that are free for spawned bodies in a step in which these bodies ended and began."""
        spare = self.rows[environment][len(self.static[environment]) :]
        lives = self.alive[spare] & ~np.isin(spare, ended) | np.isin(spare, begun)
        return spare[~lives]

    def _spawn(self, environment: int, spawned: Spawned) -> None:
        rows, self.b[spawned[0]] = spawned
        each = self.clocks[environment].end == "each"
        if each and self.spent[environment]:
            return
        self.episode[rows] = 0 if each else self.episodes[environment]
        self._made[rows], self._want[rows] = 0, BY_CLOCK
        self._begin(rows)
        self.step[rows] = 0 if each else self.steps[environment]

    def _take_each(self, environment: int, ended: Array, flags: Array, begun: Array) -> list[EndedEpisode]:
        clock = self.clocks[environment]
        found = []
        for row, flag in zip(ended.tolist(), flags.tolist(), strict=True):
            steps, terminated = int(self.step[row]), bool(flag & TERMINATED)
            reason = "terminated"
            if not terminated:
                reason = "truncated: environment"
                if steps == clock.max_steps:
                    reason = f"truncated: max_steps {steps}"
                elif self._made[row] == clock.budget_steps:
                    reason = BUDGET
            b = int(self.b[row])
            found.append(
                EndedEpisode(environment, row, int(self.episode[row]), steps, terminated, reason, _NOBODY, b=b)
            )
        if found or len(begun):
            self.episode[ended] += 1
            self._begin(begun)
        spent = 1 not in self.alive[self.static[environment]].tobytes()
        if spent and self.dynamic:  # others have no budget that could end the phase
            found += self.close(environment, BUDGET)
        self.spent[environment] = spent
        return found

    def _take_all(self, environment: int, ended: Array, flags: Array, own: int, spawned: bool) -> list[EndedEpisode]:
        clock, steps = self.clocks[environment], self.steps[environment]
        spent = self._steps_made[environment] == clock.budget_steps
        meant = self._satisfying(environment, ended, flags, own, spawned)
        if meant is not None:
            terminated = bool(meant & TERMINATED)
            reason = "terminated" if terminated else "truncated: environment"
        elif steps == clock.max_steps:
            terminated, reason = False, f"truncated: max_steps {steps}"
        elif spent:
            terminated, reason = False, BUDGET
        else:
            return []
        over = self._close(environment, terminated, reason)
        self.spent[environment] = spent or self.episodes[environment] - self.more[environment] == clock.budget_episodes
        return [over]

    def _satisfying(self, environment: int, ended: Array, flags: Array, own: int, spawned: bool) -> int | None:
        """Return the flags of the bodies whose end ends the episode by the environment's rule; None without any."""
        end = self.clocks[environment].end
        if end == "environment":
            return own or None
        if end == "any" or (end == "all" and not spawned and not self.alive[self.rows[environment]].any()):
            met = flags
        elif type(end) is int:
            met = flags[ended == end]
        else:
            return None
        return int(np.bitwise_or.reduce(met)) if len(met) else None

    def _close(self, environment: int, terminated: bool, reason: str, lost: bool = False) -> EndedEpisode:
        rows = self.rows[environment]
        closed = rows[self.alive[rows]]
        self.alive[rows] = False
        number, steps = self.episodes[environment], self.steps[environment]
        self.episodes[environment] += 1
        self.steps[environment] = 0
        return EndedEpisode(environment, None, number, steps, terminated, reason, closed, lost)

    def close(self, environment: int, reason: str, lost: bool = False) -> list[EndedEpisode]:
        """Close the open episodes of an environment; episodes without a step do not count.

        A `lost` episode is recorded in any case and does not count for the budget.
        """
        rows = self.rows[environment]
        if self.spent[environment] or not self.open(environment):
            return []
        living = rows[self.alive[rows]]
        if self.clocks[environment].end != "each":
            if not self.steps[environment] and not lost:
                self.alive[living] = False
                return []
            self.more[environment] += lost
            return [self._close(environment, False, reason, lost)]
        begun = living[self.step[living] > 0] if not lost else living
        numbers = np.stack([begun, self.episode[begun], self.step[begun], self.b[begun]], 1).tolist()
        found = [
            EndedEpisode(environment, row, episode, steps, False, reason, np.array([row]), lost, b)
            for row, episode, steps, b in numbers
        ]
        self.alive[living] = False
        self.episode[begun] += 1
        self.more_of[begun] += lost
        return found

    def open(self, environment: int) -> bool:
        """Return whether a body of an environment is alive, or its episode continues without bodies."""
        return self.steps[environment] > 0 or 1 in self.alive[self.rows[environment]].tobytes()

    @property
    def finished(self) -> bool:
        """Return whether spent budgets end the phase."""
        if self.end == "any":
            return any(spent and len(rows) for spent, rows in zip(self.spent, self.rows, strict=True))
        if self.end == "all":
            return all(self.spent)
        return next(spent for spent, clock in zip(self.spent, self.clocks, strict=True) if clock.uid == self.end)


class Pace:
    """Keep the virtual ticks of independent environments.

    Attributes:
        at: The tick at which each steps next.
        lead: How many ticks an environment may be ahead of the slowest unfinished one; None: any.
    """

    def __init__(self, clocks: Sequence[Clock], lead: int | None = None) -> None:
        self.at, self.lead = [clock.offset for clock in clocks], lead
        self._periods = [clock.period for clock in clocks]

    def step(self, environment: int) -> None:
        """Record a step."""
        self.at[environment] += self._periods[environment]

    def join(self) -> None:
        """Set the next step of all environments behind the last step of any."""
        last = max(map(self.since, range(len(self.at))))
        for environment, period in enumerate(self._periods):
            self.at[environment] += -((self.at[environment] - last) // period) * period

    def since(self, environment: int) -> int:
        """Return the tick behind the last step of an environment."""
        return max(0, self.at[environment] - self._periods[environment] + 1)

    def may_step(self, environment: int, spent: Sequence[bool]) -> bool:
        """Return whether an environment may step next; `spent` environments delay no other."""
        if self.lead is None:
            return True
        slowest = min(at for at, done in zip(self.at, spent, strict=True) if not done)
        return self.at[environment] - slowest < self.lead


def closed_flags(flags: Array, rows: Array, over: Sequence[EndedEpisode]) -> Array:
    """Return the flags of rows, where bodies that were closed with their episode are truncated."""
    closed = [one.closed for one in over if len(one.closed)]
    if not closed:
        return flags
    # The row of an ended body may have a spawned body by now, which was closed.
    found: Array = np.where((flags == 0) & np.isin(rows, np.concatenate(closed)), np.uint8(TRUNCATED), flags)
    return found
