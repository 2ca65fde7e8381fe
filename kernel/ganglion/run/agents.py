"""Agents against declarations: full ids, `<uid>.*`, and the faults of both, with their places."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.errors import DocumentError
from ganglion.run.plan import AgentPlan, PhasePlan

Declarations = Mapping[str, Mapping[str, Any]]
"""Environment -> {sensors, actuators, rewards, static_model}, as its controller reported."""
STATIC_MODEL = "static_world_model"
"""Kind and id of the one row in which an environment's static world model is declared to the store."""


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """An agent with its declarations under full ids, and the environments that it touches.

    With bodies the declarations are those of one body: under full ids if all bodies are in one environment, else under
    local ones. `locals` are the local ids of `sensors`, `actuators` and `rewards`; rewards None are all that there are.
    """

    plan: AgentPlan
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    environments: list[str]
    locals: dict[str, list[str] | None] | None = None


def resolve(phase: PhasePlan, declarations: Declarations) -> list[ResolvedAgent]:
    """Return the agents of a phase with their declarations; DocumentError holds all faults at once."""
    search = _Search(phase, declarations)
    find = search.agent if phase.bodies is None else search.agent_of_bodies
    found = [find(agent) for agent in phase.agents]
    if search.faults:
        faults = [f"{at}: {text}" if at else text for at, text in search.faults]
        raise DocumentError("\n".join(faults), faults)
    return found


def misfits(phase: PhasePlan, declarations: Declarations, unknown: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return what `resolve` would refuse, as (place in the document, message).

    `unknown` are environments of which nobody knows yet what they declare: ids that could be theirs pass.
    """
    search = _Search(phase, declarations, unknown)
    for agent in phase.agents:
        if phase.bodies is None:
            search.agent(agent)
        elif not unknown:
            search.agent_of_bodies(agent)
    return search.faults


def full_ids(uid: str, declarations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an environment's declarations under full ids."""
    return [{**row, "id": f"{uid}.{row['id']}"} for row in declarations]


def same_declarations(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two workers' objects of one environment declare the same sensors and actuators."""

    def rows(declared: Mapping[str, Any]) -> list[Any]:
        return [[(row["id"], row["space"]) for row in declared[kind]] for kind in ("sensors", "actuators")]

    return rows(one) == rows(other)


def strange(first: Declarations, declared: Declarations, worker: str) -> str:
    """Return what is wrong with what a worker's environments declare beside worker 0's; empty if nothing is."""
    uids = [uid for uid in first if not same_declarations(first[uid], declared[uid])]
    return f"environment {uids[0]} declares otherwise in {worker} than in worker 0" if uids else ""


def declaration_rows(
    declarations: Declarations, agents: Sequence[ResolvedAgent]
) -> list[tuple[str, str | None, str | None, list[dict[str, Any]]]]:
    """Return the rows of `Declare`: those of the environments, with what they tell of themselves, then each agent's."""
    rows: list[tuple[str, str | None, str | None, list[dict[str, Any]]]] = []
    for uid, declared in declarations.items():
        for kind in ("sensor", "actuator", "reward"):
            if declared[kind + "s"] is not None:
                rows.append((kind, uid, None, full_ids(uid, declared[kind + "s"])))
        if declared.get("static_model") is not None:
            told = {"id": STATIC_MODEL, "model": declared["static_model"]}
            rows.append((STATIC_MODEL, uid, None, [told]))
    for agent in agents:
        rows.append(("sensor", None, agent.plan.name, agent.sensors))
        rows.append(("actuator", None, agent.plan.name, agent.actuators))
    return rows


_Known = Mapping[str, tuple[str, dict[str, Any]]]  # full id -> environment, declaration


class _Search:
    """Look up the ids of agents in what environments declare; `faults` is what does not fit, as (place, message)."""

    def __init__(self, phase: PhasePlan, declarations: Declarations, unknown: Collection[str] = ()) -> None:
        self.faults: list[tuple[str, str]] = []
        self._declarations, self._unknown = declarations, unknown
        self._bodies = [*(phase.bodies or ()), *phase.dynamic]
        self._order = [environment.uid for environment in phase.environments]
        self._places = {e.uid: e.plugin.at for e in phase.environments if e.plugin is not None}
        self._sensors, self._actuators = self._full("sensors"), self._full("actuators")
        self._rewards = self._full("rewards")
        # Rewards may be declared as late as by the first update: until then any id may turn out to be one.
        late = [uid for uid, declared in declarations.items() if declared.get("rewards") is None]
        self._late = {*unknown, *late}

    def _full(self, what: str) -> _Known:
        """Return the declarations of one kind; an id that two environments can claim is a fault."""
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
        whole = {*self._declarations, *self._unknown}  # an environment's uid stands for all its rewards
        wanted = [(i, uid) for i, uid in enumerate(agent.rewards or ()) if uid not in whole]
        places = [agent.rewards_at[i] if i < len(agent.rewards_at) else "" for i, _ in wanted]
        self._pick([uid for _, uid in wanted], places, self._rewards, f"{name}: rewards", self._late)
        touched = list(dict.fromkeys(environment for environment, _ in (*seen, *moved)))
        return ResolvedAgent(agent, [row for _, row in seen], [row for _, row in moved], touched)

    def agent_of_bodies(self, agent: AgentPlan) -> ResolvedAgent:
        """Return an agent with the declarations of one of its bodies, which must be equal in all environments."""
        where = {body.environment for body in self._bodies if body.agent == agent.name}
        uids = [uid for uid in self._order if uid in where]
        if not uids:  # idle: its ids are for other phases
            return ResolvedAgent(agent, [], [], [], {"sensors": [], "actuators": [], "rewards": None})
        whole = [f"{uid}.*" for uid in uids]
        name = f"agent {agent.name}"
        rows: dict[str, list[dict[str, Any]]] = {}
        for what, ids, places, known in (
            ("sensors", agent.sensors, agent.sensors_at, self._sensors),
            ("actuators", agent.actuators, agent.actuators_at, self._actuators),
        ):
            picked = self._pick(ids or whole, places if ids else [], known, f"{name}: {what}", self._unknown)
            rows[what] = self._of_one_body(agent, what, uids, picked)
        return ResolvedAgent(
            agent,
            rows["sensors"] if len(uids) > 1 else full_ids(uids[0], rows["sensors"]),
            rows["actuators"] if len(uids) > 1 else full_ids(uids[0], rows["actuators"]),
            uids,
            {
                "sensors": [row["id"] for row in rows["sensors"]],
                "actuators": [row["id"] for row in rows["actuators"]],
                "rewards": self._rewards_of_one_body(agent, uids),
            },
        )

    def _of_one_body(
        self, agent: AgentPlan, what: str, uids: Sequence[str], picked: Sequence[tuple[str, dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Return local declarations of one kind that hold in each of these environments."""
        at = (agent.sensors_at if what == "sensors" else agent.actuators_at or [""])[:1]
        place = at[0] if at else ""
        strange = next((row["id"] for uid, row in picked if uid not in uids), None)
        if strange is not None:
            text = f"agent {agent.name}: {what}: {strange!r} is of an environment in which the agent has no body"
            self.faults.append((place, text))
        found = {uid: [{**row, "id": row["id"][len(uid) + 1 :]} for own, row in picked if own == uid] for uid in uids}
        first = found[uids[0]]
        for uid in uids[1:]:
            mine, other = ([(row["id"], row["space"]) for row in rows] for rows in (first, found[uid]))
            if mine != other:
                text = "bodies of several kinds in one agent are not built yet: expected equal ids and spaces in order"
                text = f"agent {agent.name}: {what} differ between environments {uids[0]} and {uid}; {text}"
                self.faults.append((place, f"{text}, found {_ids(first, found[uid])} and {_ids(found[uid], first)}"))
        return first

    def _rewards_of_one_body(self, agent: AgentPlan, uids: Sequence[str]) -> list[str] | None:
        """Return the local ids of rewards that hold in each of these environments; None are all that there are."""
        found: dict[str, list[str]] = {uid: [] for uid in uids}
        for i, full in enumerate(uids if agent.rewards is None else agent.rewards):
            at = agent.rewards_at[i] if agent.rewards is not None and i < len(agent.rewards_at) else ""
            owner = next((uid for uid in uids if full == uid or full.startswith(f"{uid}.")), None)
            uid = self._rewards[full][0] if full in self._rewards else owner
            if uid not in found:
                text = f"agent {agent.name}: rewards: {full!r} is of no environment in which the agent has a body"
                self.faults.append((at, text))
            elif full == uid:
                found[uid] += [row["id"] for row in self._declarations[uid].get("rewards") or ()]
            else:
                self._pick([full], [at], self._rewards, f"agent {agent.name}: rewards", self._late)
                found[uid].append(full[len(uid) + 1 :])
        different = next((uid for uid in uids[1:] if found[uid] != found[uids[0]]), None)
        if different is not None and not self._late.intersection(uids):
            both = " and ".join(", ".join(found[uid]) or "none" for uid in (uids[0], different))
            text = f"agent {agent.name}: rewards differ between environments {uids[0]} and {different}"
            text = f"{text}; bodies of several kinds in one agent are not built yet: expected equal ids in order"
            self.faults.append((agent.rewards_at[0] if agent.rewards_at else "", f"{text}, found {both}"))
        return None if agent.rewards is None else found[uids[0]]

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
                near = difflib.get_close_matches(uid, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                self.faults.append((at, f"{what}: {uid!r} was not declared by its environment{hint}"))
            twice = [full for full in matches if full in found]
            if twice:
                self.faults.append((at, f"{what}: {twice[0]!r} comes twice"))
            found.update(matches)
        return list(found.values())


def storing(phase: PhasePlan, agents: Sequence[ResolvedAgent], models: Collection[str]) -> list[ResolvedAgent]:
    """Return whose brains store at the end: all that learn, else those that have a model to hand on unchanged."""
    with_brain = [agent for agent in agents if agent.plan.brain is not None]
    return [agent for agent in with_brain if phase.mode == "train" or agent.plan.name in models]


def replaying(phase: PhasePlan) -> list[AgentPlan]:
    """Return the agents of a phase whose brains learn from recorded episodes first."""
    if phase.mode != "train":
        return []
    return [agent for agent in phase.agents if agent.replay and agent.brain is not None]


def _ids(rows: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> str:
    """Return the ids of declarations in which they differ from others; with their spaces where these differ."""
    if [row["id"] for row in rows] != [row["id"] for row in other]:
        return ", ".join(row["id"] for row in rows) or "none"
    different = [row for row, second in zip(rows, other, strict=True) if row["space"] != second["space"]]
    return ", ".join(f"{row['id']} {row['space']!s:.120}" for row in different)
