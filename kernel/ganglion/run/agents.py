"""Agents: resolve their ids and `<uid>.*` against the declarations of environments; report faults with places."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.errors import DocumentError
from ganglion.run.plan import AgentPlan, PhasePlan
from ganglion.sdk.naming import nearest

Declarations = Mapping[str, Mapping[str, Any]]
"""Environment -> {sensors, actuators, rewards, static_model}, as reported by the controller."""
STATIC_MODEL = "static_world_model"
"""Kind and id of the row that declares an environment's static world model to the store."""


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """Hold an agent, its declarations under full ids, and the environments that the agent uses.

    With bodies the declarations are those of one body. Their ids are full if all bodies are in one environment, else
    local. `locals` holds the local ids of `sensors`, `actuators` and `rewards`; rewards None means all rewards.
    Bodies whose local ids or spaces differ form several groups. `groups` maps each environment to its group number,
    each declaration has its number as `group`, and `locals` has one entry per group.
    """

    plan: AgentPlan
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    environments: list[str]
    locals: list[dict[str, list[str] | None]] | None = None
    groups: dict[str, int] | None = None

    def parts(self) -> list[tuple[list[str], list[dict[str, Any]], list[dict[str, Any]]]]:
        """Return the environments, sensors and actuators of each group."""
        groups = self.groups
        if groups is None:
            return [(self.environments, self.sensors, self.actuators)]
        return [
            (
                [uid for uid in self.environments if groups[uid] == number],
                [row for row in self.sensors if row["group"] == number],
                [row for row in self.actuators if row["group"] == number],
            )
            for number in range(len(self.locals or ()))
        ]


def resolve(phase: PhasePlan, declarations: Declarations) -> list[ResolvedAgent]:
    """Return the agents of a phase with their declarations; raise DocumentError with all faults together."""
    search = _Search(phase, declarations)
    find = search.agent if phase.bodies is None else search.agent_of_bodies
    found = [find(agent) for agent in phase.agents]
    if search.faults:
        faults = [f"{at}: {text}" if at else text for at, text in search.faults]
        raise DocumentError("\n".join(faults), faults)
    return found


def misfits(phase: PhasePlan, declarations: Declarations, unknown: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return the faults for which `resolve` would raise, as (place in the document, message).

    `unknown` are environments whose declarations are not known yet; ids that may belong to one of them are accepted.
    """
    search = _Search(phase, declarations, unknown)
    for agent in phase.agents:
        if phase.bodies is None:
            search.agent(agent)
        elif not unknown:
            search.agent_of_bodies(agent)
    return search.faults


def groups_of_bodies(phase: PhasePlan, declarations: Declarations, agent: AgentPlan) -> list[list[str]]:
    """Return the environments of an agent's bodies, grouped by equal local ids and spaces."""
    return [uids for uids, _, _ in _Search(phase, declarations).agent_of_bodies(agent).parts()]


def blind(agent: str, groups: Sequence[Sequence[str]], what: str) -> str:
    """Return the error text for an agent with several groups of bodies whose brain or muscle accepts only one."""
    text = f"its bodies are of {len(groups)} groups of unequal ids or spaces ({'; '.join(map(', '.join, groups))})"
    return f"agent {agent}: {text}, and {what} takes one: takes_groups is False"


def full_ids(uid: str, declarations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an environment's declarations under full ids."""
    return [{**row, "id": f"{uid}.{row['id']}"} for row in declarations]


def with_groups(uid: str, rewards: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> list[dict[str, Any]]:
    """Return the declared rewards of an environment and the rewards shared among groups of its bodies.

    Raises DocumentError if a group has the name of a reward.
    """
    known = {row["id"] for row in rewards}
    for group in groups:
        if group in known:
            raise DocumentError(f"environment {uid}: the group {group!r} of bodies has the name of a reward of it")
    from ganglion.sdk.spaces import Box  # late: the supervisor, which reads plans, imports no arrays

    shared = Box(-math.inf, math.inf).to_wire()
    return [*map(dict, rewards), *({"id": group, "space": shared} for group in groups)]


def groups_of(bodies: Iterable[tuple[str, str | None]], uid: str) -> list[str]:
    """Return the groups of bodies in an environment, in the order of their first bodies; bodies are (uid, group)."""
    return list(dict.fromkeys(group for environment, group in bodies if environment == uid and group))


def with_groups_of(phase: PhasePlan, uid: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return an environment's declarations plus the shared rewards of groups in a phase; raises like `with_groups`."""
    groups = groups_of([(body.environment, body.group) for body in phase.all_bodies], uid)
    if not groups or declared.get("rewards") is None:
        return dict(declared)
    return {**declared, "rewards": with_groups(uid, declared["rewards"], groups)}


def same_declarations(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether an environment declares the same sensors and actuators in two workers."""

    def rows(declared: Mapping[str, Any]) -> list[Any]:
        return [[(row["id"], row["space"]) for row in declared[kind]] for kind in ("sensors", "actuators")]

    return rows(one) == rows(other)


def strange(first: Declarations, declared: Declarations, worker: str) -> str:
    """Return how a worker's declarations differ from those of worker 0; empty if they are equal."""
    uids = [uid for uid in first if not same_declarations(first[uid], declared[uid])]
    return f"environment {uids[0]} declares otherwise in {worker} than in worker 0" if uids else ""


def declaration_rows(
    declarations: Declarations, agents: Sequence[ResolvedAgent]
) -> list[tuple[str, str | None, str | None, list[dict[str, Any]]]]:
    """Return the rows of `Declare`: environments with their static models first, then agents."""
    rows: list[tuple[str, str | None, str | None, list[dict[str, Any]]]] = []
    for uid, declared in declarations.items():
        for kind in ("sensor", "actuator", "reward"):
            if declared[kind + "s"] is not None:
                rows.append((kind, uid, None, full_ids(uid, declared[kind + "s"])))
        if declared.get("static_model") is not None:
            told = {"id": STATIC_MODEL, "model": declared["static_model"]}
            rows.append((STATIC_MODEL, uid, None, [told]))
    for agent in agents:
        for uids, sensors, actuators in agent.parts():
            for own in uids if agent.groups else [None]:  # with several groups each environment has its own rows
                rows.append(("sensor", own, agent.plan.name, sensors))
                rows.append(("actuator", own, agent.plan.name, actuators))
    return rows


_Known = Mapping[str, tuple[str, dict[str, Any]]]  # full id -> environment, declaration


class _Search:
    """Look up the ids of agents in the declarations of environments; `faults` is a list of (place, message)."""

    def __init__(self, phase: PhasePlan, declarations: Declarations, unknown: Collection[str] = ()) -> None:
        self.faults: list[tuple[str, str]] = []
        self._declarations, self._unknown = declarations, unknown
        self._bodies = phase.all_bodies
        self._order = [environment.uid for environment in phase.environments]
        self._places = {e.uid: e.plugin.at for e in phase.environments if e.plugin is not None}
        self._sensors, self._actuators = self._full("sensors"), self._full("actuators")
        self._rewards = self._full("rewards")
        # Rewards may be declared as late as the first update. Until then any id may turn out to be a reward.
        late = [uid for uid, declared in declarations.items() if declared.get("rewards") is None]
        self._late = {*unknown, *late}

    def _full(self, what: str) -> _Known:
        """Return the declarations of one kind; report a fault for an id that two environments can claim."""
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        for uid, declared in self._declarations.items():
            for row in full_ids(uid, declared.get(what) or ()):
                full = row["id"]
                if full in found:
                    text = f"the {what[:-1]} {full!r} can belong to environment {found[full][0]!r} and to {uid!r}"
                    self.faults.append((self._places.get(uid, ""), text))
                found[full] = (uid, row)
        return found

    def agent(self, agent: AgentPlan) -> ResolvedAgent:
        """Return an agent with the declarations of its ids."""
        name = f"agent {agent.name}"
        seen = self._pick(agent.sensors, agent.sensors_at, self._sensors, f"{name}: sensors", self._unknown)
        moved = self._pick(agent.actuators, agent.actuators_at, self._actuators, f"{name}: actuators", self._unknown)
        whole = {*self._declarations, *self._unknown}  # an environment's uid means all its rewards
        wanted = [(i, uid) for i, uid in enumerate(agent.rewards or ()) if uid not in whole]
        places = [agent.rewards_at[i] if i < len(agent.rewards_at) else "" for i, _ in wanted]
        self._pick([uid for _, uid in wanted], places, self._rewards, f"{name}: rewards", self._late)
        self._check_masks(agent, seen, moved)
        touched = list(dict.fromkeys(environment for environment, _ in (*seen, *moved)))
        return ResolvedAgent(agent, [row for _, row in seen], [row for _, row in moved], touched)

    def agent_of_bodies(self, agent: AgentPlan) -> ResolvedAgent:
        """Return an agent with the declarations of one of its bodies, or of one body of each group."""
        where = {body.environment for body in self._bodies if body.agent == agent.name}
        uids = [uid for uid in self._order if uid in where]
        if not uids:  # idle: the ids of the agent belong to other phases
            return ResolvedAgent(agent, [], [], [], [{"sensors": [], "actuators": [], "rewards": None}])
        whole, name = [f"{uid}.*" for uid in uids], f"agent {agent.name}"
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        both: list[list[tuple[str, dict[str, Any]]]] = []
        for what, ids, places, known in (
            ("sensors", agent.sensors, agent.sensors_at, self._sensors),
            ("actuators", agent.actuators, agent.actuators_at, self._actuators),
        ):
            picked = self._pick(ids or whole, places if ids else [], known, f"{name}: {what}", self._unknown)
            found[what] = self._of_bodies(agent, what, uids, picked)
            both.append(picked)
        self._check_masks(agent, *both)
        rewards = self._rewards_of_bodies(agent, uids)
        alike: list[tuple[Any, list[str]]] = []
        for uid in uids:
            mine = [rewards[uid], *([(row["id"], row["space"]) for row in rows[uid]] for rows in found.values())]
            if not any(mine[1:]) and (agent.sensors or agent.actuators):
                text = f"{name}: it has a body in environment {uid}, of which it names neither sensors nor actuators"
                self.faults.append(((agent.sensors_at or agent.actuators_at or [""])[0], text))
            known_ones = next((members for one, members in alike if one == mine), None)
            if known_ones is None:
                alike.append((mine, [uid]))
            else:
                known_ones.append(uid)
        groups = [members for _, members in alike]
        sensors: list[dict[str, Any]] = []
        actuators: list[dict[str, Any]] = []
        locals_: list[dict[str, list[str] | None]] = []
        for number, members in enumerate(groups):
            first, own = members[0], {"group": number} if len(groups) > 1 else {}
            for rows, what in ((sensors, "sensors"), (actuators, "actuators")):
                given = found[what][first] if len(members) > 1 else full_ids(first, found[what][first])
                rows += [{**row, **own} for row in given]
            local: dict[str, list[str] | None] = {w: [row["id"] for row in found[w][first]] for w in found}
            chosen = [uid for uid, _ in rewards[first]]
            whole = [row["id"] for row in self._declarations[first].get("rewards") or ()]
            locals_.append({**local, "rewards": None if agent.rewards is None and chosen == whole else chosen})
        of = {uid: number for number, members in enumerate(groups) for uid in members}
        return ResolvedAgent(agent, sensors, actuators, uids, locals_, of if len(groups) > 1 else None)

    def _check_masks(
        self, agent: AgentPlan, seen: Sequence[tuple[str, dict[str, Any]]], moved: Sequence[tuple[str, dict[str, Any]]]
    ) -> None:
        """Report an agent that sets a masked actuator without seeing the mask: it could not know the allowed values."""
        sees, moves = ({row["id"] for _, row in picked} for picked in (seen, moved))
        for uid, row in self._sensors.values():
            of = f"{uid}.{row['space'].get('of')}"
            if row["space"].get("type") == "mask" and of in moves and row["id"] not in sees:
                text = f"sensors: {row['id']!r} is missing, which says what is allowed of its actuator {of!r}"
                self.faults.append(((agent.sensors_at or [""])[0], f"agent {agent.name}: {text}"))

    def _of_bodies(
        self, agent: AgentPlan, what: str, uids: Sequence[str], picked: Sequence[tuple[str, dict[str, Any]]]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the local declarations of one kind in each of these environments."""
        at = (agent.sensors_at if what == "sensors" else agent.actuators_at or [""])[:1]
        strange = next((row["id"] for uid, row in picked if uid not in uids), None)
        if strange is not None:
            text = f"agent {agent.name}: {what}: {strange!r} is of an environment in which the agent has no body"
            self.faults.append((at[0] if at else "", text))
        return {uid: [{**row, "id": row["id"][len(uid) + 1 :]} for own, row in picked if own == uid] for uid in uids}

    def _rewards_of_bodies(self, agent: AgentPlan, uids: Sequence[str]) -> dict[str, list[tuple[str, Any]]]:
        """Return the local ids and shapes of the rewards in each of these environments."""
        found: dict[str, list[str]] = {uid: [] for uid in uids}
        for i, full in enumerate(uids if agent.rewards is None else agent.rewards):
            at = agent.rewards_at[i] if agent.rewards is not None and i < len(agent.rewards_at) else ""
            owner = next((uid for uid in uids if full == uid or full.startswith(f"{uid}.")), None)
            uid = self._rewards[full][0] if full in self._rewards else owner
            if uid not in found:
                text = f"agent {agent.name}: rewards: {full!r} is of no environment in which the agent has a body"
                self.faults.append((at, text))
            elif full == uid:  # except the rewards of groups in which the agent has no body
                mine, all_ = (
                    {body.group for body in self._bodies if body.environment == uid and name in (None, body.agent)}
                    for name in (agent.name, None)
                )
                declared = [row["id"] for row in self._declarations[uid].get("rewards") or ()]
                found[uid] += [one for one in declared if one in mine or one not in all_]
            else:
                self._pick([full], [at], self._rewards, f"agent {agent.name}: rewards", self._late)
                found[uid].append(full[len(uid) + 1 :])
        shapes = {full: row["space"].get("shape") or [] for full, (_, row) in self._rewards.items()}
        return {uid: [(one, shapes.get(f"{uid}.{one}")) for one in ids] for uid, ids in found.items()}

    def _pick(
        self, ids: Sequence[str], places: Sequence[str], known: _Known, what: str, late: Collection[str]
    ) -> list[tuple[str, dict[str, Any]]]:
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        for i, uid in enumerate(ids):
            at = places[i] if i < len(places) else ""
            whole = uid.removesuffix(".*") if uid.endswith(".*") else None
            matches = {full: row for full, row in known.items() if row[0] == whole}
            if not matches and uid in known:  # a local id may end like a wildcard
                matches = {uid: known[uid]}
            if not matches and not any(uid.startswith(f"{other}.") for other in late):
                text = f"{what}: {uid!r} was not declared by its environment{nearest(uid, known)}"
                self.faults.append((at, text))
            twice = [full for full in matches if full in found]
            if twice:
                self.faults.append((at, f"{what}: {twice[0]!r} comes twice"))
            found.update(matches)
        return list(found.values())


def storing(phase: PhasePlan, agents: Sequence[ResolvedAgent], models: Collection[str]) -> list[ResolvedAgent]:
    """Return the agents whose brains store at the end: all if the phase trains, else those that have a model."""
    with_brain = [agent for agent in agents if agent.plan.brain is not None]
    return [agent for agent in with_brain if phase.mode == "train" or agent.plan.name in models]


def replaying(phase: PhasePlan) -> list[AgentPlan]:
    """Return the agents of a phase whose brains learn from recorded episodes first."""
    if phase.mode != "train":
        return []
    return [agent for agent in phase.agents if agent.replay and agent.brain is not None]
