"""The model that an agent begins a phase with: what `load` asks for, where it may lie, which of what lies there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.run.plan import AgentPlan, PhasePlan

__all__ = ["FINISHED", "Keeper", "Wish", "continued", "missing", "own", "pick_phase", "pick_run", "wish_of"]

Own = Mapping[tuple[int, str], str]
"""(phase index, agent) -> folder of the model with which the agent left that phase of this run."""

FINISHED = "finished"
_RUNS_SHOWN = 5  # in the sentence of a fault


@dataclass(frozen=True, slots=True)
class Wish:
    """What `load` asks for, with all missing keys filled in.

    `run` None is the newest finished run of `uid`; both None: of whichever run. `phase` None is the last one with the
    agent. `here` says whether this run may have it, `elsewhere` whether other runs may. `bare` is what a folder without
    an index may serve: nothing is asked for but a base, and perhaps an agent (`named`).
    """

    agent: str
    uid: str | None
    run: str | None
    phase: int | str | None
    here: bool
    elsewhere: bool
    base: str | None = None
    optional: bool = False
    bare: bool = False
    named: bool = False

    def __str__(self) -> str:
        """Return what is looked for in words."""
        phase = "the last phase that left one" if self.phase is None else _phase(self.phase)
        if self.run is not None:
            of = f"run {self.run}" + ("" if self.uid is None else f" of `{self.uid}`")
        elif self.here:
            of = "this run"
            phase = "its latest earlier phase" if self.phase is None else phase
            of += f" or of the newest finished run of `{self.uid}`" if self.elsewhere else ""
        else:
            of = f"the newest finished run of `{self.uid}`"
        return f"the model of agent `{self.agent}` from {of} ({phase})"


@dataclass(frozen=True, slots=True)
class Keeper:
    """A run that may keep models: its id, the uid of its document, its status."""

    run: str
    uid: str
    status: str


def wish_of(load: Any, agent: str, uid: str, run: str) -> Wish | None:
    """Return what a `load` asks for by name; None where it does not: to continue (None, no key that asks) or false.

    Args:
        load: The value of the document, in our spelling.
        agent: Whose `load` it is.
        uid: Of this document.
        run: Id of this run.
    """
    given = {key: value for key, value in load.items() if value is not None} if isinstance(load, dict) else {}
    if not given.keys() - {"optional"}:
        return None
    asked, instance = given.get("experiment_run"), given.get("instance")
    this = asked in (None, uid) and instance in (None, run)
    return Wish(
        agent=given.get("agent", agent),
        # A run that is named by its id says by itself of which document it is.
        uid=asked if instance is not None else asked or uid,
        run=instance,
        phase=given.get("phase"),
        here=this,
        # A document that names itself means its newest run: this one, as far as it has come, else the one before.
        elsewhere=not this or (asked is not None and instance is None),
        base=given.get("base"),
        optional=bool(given.get("optional", False)),
        bare=not given.keys() & {"experiment_run", "instance", "phase"},
        named="agent" in given,
    )


def continued(phases: Sequence[PhasePlan], phase: int, agent: str, models: Own) -> str | None:
    """Return the folder of the model that an agent left the latest earlier phase with, None where it has none."""
    for earlier in reversed(phases[:phase]):
        if any(other.name == agent for other in earlier.agents):
            return models.get((earlier.index, agent))
    return None


def own(wish: Wish, phases: Sequence[PhasePlan], phase: int, models: Own) -> tuple[str | None, str]:
    """Return the folder of a model of this run, and why there is none."""
    if wish.phase is None:
        folder = continued(phases, phase, wish.agent, models)
        why = "no earlier phase of this run has left a model of it"
    else:
        index = next((p.index for p in phases[:phase] if wish.phase in _keys(p.index, p.name)), None)
        if index is None:
            return None, f"{_phase(wish.phase)} is no earlier phase of this run"
        folder = models.get((index, wish.agent))
        why = f"{_phase(wish.phase)} of this run has left no model of it"
    return folder, "" if folder is not None else why


def pick_run(wish: Wish, keepers: Sequence[Keeper], this: str) -> Keeper | str:
    """Return the run that is meant among those of one place, the newest last; text says why there is none.

    `this` is the id of the run that looks: while it goes on it is not its own newest finished one.
    """
    if wish.run is not None:
        named = [keeper for keeper in keepers if keeper.run == wish.run]
        if not named:
            return f"there is no run {wish.run}"
        if wish.uid is not None and named[-1].uid != wish.uid:
            return f"run {wish.run} is one of `{named[-1].uid}`, not of `{wish.uid}`"
        return named[-1]
    mine = [k for k in keepers if k.uid == wish.uid and not (k.run == this and k.status != FINISHED)]
    done = [keeper for keeper in mine if keeper.status == FINISHED]
    if done:
        return done[-1]
    if mine:
        shown = ", ".join(f"{keeper.run} ({keeper.status})" for keeper in mine[-_RUNS_SHOWN:])
        return f"no run of `{wish.uid}` has finished: {shown}; `instance` takes a run as it is"
    is_id = any(keeper.run == wish.uid for keeper in keepers)
    like = "; that is the id of a run: give it as `instance`" if is_id else ""
    return f"there is no run of `{wish.uid}`{like}"


def pick_phase(wish: Wish, names: Mapping[int, str], having: Sequence[int], run: str) -> int | str:
    """Return the phase that is meant of a run of another time; text says why there is none.

    Args:
        wish: What is looked for.
        names: Index of each phase of that run -> its name.
        having: Indices of the phases of which there are models of the agent.
        run: Id of that run.
    """
    if not having:
        return f"run {run} has no model of agent `{wish.agent}`"
    if wish.phase is None:
        return max(having)
    index = next((i for i in sorted(names) if wish.phase in _keys(i, names[i])), None)
    if index is None:
        return f"run {run} has no {_phase(wish.phase)}"
    if index not in having:
        return f"{_phase(wish.phase)} of run {run} has left no model of agent `{wish.agent}`"
    return index


def missing(agent: AgentPlan, wish: Wish, places: Sequence[tuple[str, str]]) -> str:
    """Return the sentence of the fault, or of the warning: what was looked for, and where; one line per place."""
    at = f"{agent.load_at}: " if agent.load_at else ""
    end = "it starts fresh" if wish.optional else "with `optional: true` it would start fresh"
    lines = [f"{at}{wish} was not found; {end}", *(f"  in {place}: {why}" for place, why in places)]
    return "\n".join(lines)


def _keys(index: int, name: str) -> tuple[Any, ...]:
    return (index, name)


def _phase(phase: int | str) -> str:
    return f"phase {phase}" if isinstance(phase, int) else f"phase `{phase}`"
