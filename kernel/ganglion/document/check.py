"""Faults beyond form: names, ids, references, keys without effect, combinations that are not built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ganglion import __version__
from ganglion.document import model
from ganglion.document.bodies import bodies_of, policies_of, policy_of, rules_of
from ganglion.document.cascade import DEFINING, Expanded, is_given, recovery_faults
from ganglion.document.fault import Fault, unknown
from ganglion.document.marks import Node
from ganglion.document.spelling import label
from ganglion.limits import processes_per_run
from ganglion.run.plan import (
    CONTROLLER,
    FREE,
    NO_BRAIN,
    OBJECTIVE,
    REPLAY,
    BodyPlan,
    PolicyPlan,
    budgets_end,
    sources_of,
)
from ganglion.sdk.naming import nearest


def replays(agent: Node) -> list[Node]:
    """Return the entries of an agent's `replay`."""
    return [item for item in agent.entries("replay") if isinstance(item.value, dict)]


def reads(agent: Node) -> list[Node]:
    """Return the maps of an agent that name runs and phases to read from: `load`, then the entries of `replay`."""
    load = agent.get("load")
    return [*([load] if load else []), *replays(agent)]


def has_brain(agent: Node) -> bool:
    """Return whether an agent learns."""
    brain = agent.get("brain")
    return brain is not None and brain.text("name") != NO_BRAIN


Lookup: TypeAlias = Callable[[str, str], "str | None"]  # (kind, name of a plugin) -> its fault, or None
_TIMELINES = ("clock", "budget", "max_steps", "episode_end")


def _controller(phase: Expanded) -> str:
    return CONTROLLER if phase.simulation is None else phase.simulation.text("name") or CONTROLLER


def has_bodies(phase: Expanded, lookup: Lookup) -> bool:
    """Return whether a phase has bodies: by its controller, or, of an unknown one, by its key `bodies`."""
    name = _controller(phase)
    if name == CONTROLLER:
        return False
    if ":" in name or "." in name:  # a path: its class is unknown
        return phase.bodies is not None
    return lookup("bodies", name) is None


# Keys of `load` and `replay` that refer to something outside of this run.
_ELSEWHERE = frozenset({"experiment_run", "instance", "run", "base", "store", "path", "table"})


def check(root: Node, phases: list[Expanded], lookup: Lookup) -> list[Fault]:
    """Return the faults of a normalised document and its expanded phases.

    Consequences of a fault of form (a key that is missing because it is misspelt) are left out.
    """
    faults = [*_schedule(root), *recovery_faults([root.map.get("recovery")])]
    if "run_config" not in root.map and not (phases and all(has_bodies(phase, lookup) for phase in phases)):
        if root.map.keys() <= {*model.Document.model_fields}:  # else the key may be misspelt
            faults.append(root.fault("missing key `run_config`"))
    names = [phase.name for phase in phases]
    entries, unclear = root.entries("schedule"), False
    sound = next((index for index, entry in enumerate(entries) if len(entry.map) != 1), len(entries))
    said: set[tuple[str, str]] = set()
    for index, phase in enumerate(phases):
        # After the first unreadable part environments and agents are unknown.
        unclear = unclear or index >= sound or _is_unclear(phase.given)
        found = _Phase(root, index, phase, names, lookup, unclear).check()
        found += [] if unclear else _loads(phases[:index], phase)
        # A fault of an inherited entry is reported once.
        faults += [fault for fault in found if (fault.place, fault.path) not in said]
        said |= {(fault.place, fault.path) for fault in found if fault.severity == "error"}
    return faults


def _loads(earlier: list[Expanded], phase: Expanded) -> list[Fault]:
    """Return a fault for each model or recording of this run of an agent that no earlier phase has."""
    faults = []
    read = [(name, node) for name, agent in phase.agents.items() for node in reads(agent)]
    for policy, bodies in policies_of(phase.bodies, phase.plans):
        for name in dict.fromkeys(body.agent for body in bodies if body.policy.source == "frozen"):
            load, begins = policy.get("load"), phase.agents[name].get("load")
            read += [] if load is None else [(name, load)]
            if load is None and begins is None and not any(name in other.agents for other in earlier):
                faults.append(policy.fault(f"frozen: agent `{name}` begins this phase without a model: give `load`"))
    for name, load in read:
        asked = {key: node for key in load.map if (node := load.get(key))}
        continues = load not in phase.agents[name].entries("replay") and not asked.keys() & {"agent", "phase"}
        if continues or asked.keys() & _ELSEWHERE:
            continue
        whose = load.text("agent") or name
        at = asked["phase"].value if "phase" in asked else None
        meant = [p for i, p in enumerate(earlier) if at is None or at in (i, p.name)]
        if whose in (a for p in meant for a in p.agents) or (at is not None and not meant):
            continue  # an unknown phase has a fault of its own
        if "optional" not in asked or asked["optional"].value is not True:
            where = "no earlier phase has" if at is None else f"phase `{meant[0].name}` has not"
            like = nearest(whose, [a for p in meant for a in p.agents])
            faults.append(load.fault(f"{where} the agent `{whose}`{like}"))
    return faults


def _clean(node: Node, form: type[model.Form]) -> bool:
    """Return whether a node is a map without unknown keys; only then a missing key is reported."""
    return isinstance(node.value, dict) and set(node.map) <= set(form.model_fields)


def _schedule(root: Node) -> list[Fault]:
    """Return the faults of the schedule's entries and of the names of phases."""
    schedule = root.map.get("schedule")
    faults: list[Fault] = []
    seen: set[str] = set()
    if schedule is None or not isinstance(schedule.value, list):
        return faults
    if not schedule.items:
        faults.append(schedule.fault("expected at least one phase, found none"))
    for entry in schedule.items:
        names = list(entry.map)
        if isinstance(entry.value, dict) and len(names) != 1:
            shown = ", ".join(f"`{name}`" for name in names) or "none"
            empty = names and entry.map[names[0]].value is None  # its keys have too little indentation
            hint = "; what belongs to a phase is indented further" if empty else ""
            faults.append(entry.fault(f"expected the name of one phase in each entry, found {shown}{hint}"))
            continue
        for name in names:
            if not model.is_name(name):
                faults.append(entry.keys[name].fault(f"expected {model.NAME_WORDS} as the name of a phase"))
            if name in seen:
                faults.append(entry.keys[name].fault(f"duplicate phase `{name}`: names of phases are unique"))
            seen.add(name)
    return faults


def _is_unclear(given: Node) -> bool:
    """Return whether the environments and agents that a phase gives are unknown."""
    lists = [given.map[key] for key in ("environments", "agents") if key in given.map]
    if not _clean(given, model.Phase) or not all(isinstance(part.value, list) for part in lists):
        return True
    named = [label(entry, model.Entry) for entry in given.entries("environments")]
    named += [label(agent, model.Agent) for agent in given.entries("agents")]
    return None in named


def conditions_of(root: Node, phase: Expanded) -> tuple[list[Node], list[Node]]:
    """Return the (episode-level, phase-level) conditions of a phase in document order."""
    episode = [] if phase.simulation is None else phase.simulation.entries("conditions")
    own = phase.setting("conditions")
    config = root.map.get("run_config", root)
    return episode, config.entries("conditions") if own is None else own.items


def _plain(agent: Node, key: str) -> Any:
    """Return an agent's plain value of a key, None without one."""
    found = agent.get(key)
    return None if found is None else found.plain() or None


@dataclass(slots=True)
class _Phase:
    """Check one expanded phase."""

    root: Node
    index: int
    phase: Expanded
    names: list[str]
    lookup: Lookup
    unclear: bool
    faults: list[Fault] = field(default_factory=list)

    def _wrong(self, node: Node, message: str) -> None:
        self.faults.append(node.fault(message))

    def check(self) -> list[Fault]:
        """Return the faults of the phase."""
        phase = self.phase
        self.faults += phase.faults
        if not self.unclear:
            self.faults += phase.vain
            for kind, entities in (("environment", phase.environments), ("agent", phase.agents)):
                if not entities:
                    self._wrong(phase.mark, f"phase `{phase.name}` has no {kind}")
        for entry in phase.environments.values():
            self._environment(entry)
        for agent in phase.agents.values():
            self._agent(agent)
        if phase.simulation is not None:
            self._plugin("controller", phase.simulation, optional=True)
        self._bodies()
        self._tables()
        for conditions in conditions_of(self.root, phase):
            for condition in conditions:
                self._plugin("condition", condition)
        levels = [self.root.map.get("recovery"), phase.recovery]
        self.faults += recovery_faults(levels)
        for entry in (*phase.environments.values(), *phase.agents.values()):
            self.faults += recovery_faults([*levels, entry.map.get("recovery")])
        self._processes()
        return self.faults

    def _bodies(self) -> None:
        """Check bodies and timelines, or refuse them in a phase without bodies."""
        phase = self.phase
        given = [entry.keys[key] for entry in phase.environments.values() for key in _TIMELINES if key in entry.map]
        given += [] if phase.bodies is None else [phase.bodies]
        phase.many = has_bodies(phase, self.lookup)
        if not phase.many:
            for node in given:
                self._wrong(node, "this needs a controller of phases with bodies, such as `simulation: {name: aeb}`")
            return
        if self.unclear:
            return
        phase.plans = bodies_of(phase.bodies, list(phase.agents), list(phase.environments), self._wrong, phase.mark)
        self._seen({(body.agent, body.environment) for body in phase.plans})
        self._rules()
        self._rewards()
        self._policies()
        self._timelines()
        params = None if phase.simulation is None else phase.simulation.get("params")
        self._ways(params)
        self._end(None if params is None else params.get("end"))

    def _rules(self) -> None:
        """Refuse invalid decisions and rewards."""
        named = False
        for rule in rules_of(self.phase.bodies):
            self._clock(rule.get("decision"))
            reward = rule.get("reward")
            if reward is None:
                continue
            named = named or reward.get("name") is not None
            for key in ("params", "on_error"):
                if not named and reward.get(key) is not None:
                    text = f"`{key}` needs the `name` of a reward, in this rule or an earlier one"
                    self._wrong(reward.keys[key], text)
            clip = reward.get("clip")
            values: Any = None if clip is None else clip.plain()
            sound = isinstance(values, list) and len(values) == 2 and all(type(v) in (int, float) for v in values)
            if clip is not None and not (sound and values[0] <= values[1]):
                self._wrong(clip, f"expected [low, high] with low <= high, found {clip.found()}")

    def _clock(self, clock: Node | None) -> None:
        """Refuse a phase outside of its period."""
        period, phase = (None if clock is None else clock.map.get(key) for key in ("period", "phase"))
        length = 1 if period is None else period.value
        if phase is None or type(phase.value) is not int or type(length) is not int or length < 1:
            return
        if not 0 <= phase.value < length:
            text = f"expected a phase from 0 to {length - 1}, less than the period, found {phase.value}"
            self._wrong(phase, text)

    def _policies(self) -> None:
        """Refuse invalid policies: keys of other sources, pools without a learner, turns without teams."""
        plans = self.phase.plans
        turns = [body for body in plans if body.policy.source == "pool" and body.policy.rotate_every is not None]
        first: dict[str, PolicyPlan] = {}  # environment -> rating of its sides
        for policy, bodies in policies_of(self.phase.bodies, plans):
            plan = policy_of(policy)
            for key in (key for key in policy.map if key in model.Policy.model_fields and key != "source"):
                owner = "frozen" if key == "load" else "pool"
                if plan.source != owner and policy.get(key) is not None:
                    self._wrong(policy.keys[key], f"`{key}` is of `source: {owner}`")
            for name in dict.fromkeys(body.agent for body in bodies if plan.source != "latest"):
                if not (self.phase.agents[name].map.get("muscle") or policy).text("name"):
                    text = f"the muscle of agent `{name}` is a program: it acts by the current model alone"
                    self._wrong(policy, text)
                if plan.source == "pool":
                    self._pool(policy, name, plan.agent or name)
            for body in bodies if plan.source == "pool" else ():
                other = first.setdefault(body.environment, plan)
                if (other.initial, other.k) != (plan.initial, plan.k):
                    text = f"the sides of environment `{body.environment}` are rated otherwise before"
                    self._wrong(policy.map.get("rating", policy), text)
                    break
            if plan.rotate_every is not None and bodies and bodies[0] in turns:
                self._turns(policy.map["rotate_every"], plan, bodies, turns)
            if (load := policy.get("load")) is not None:
                self._load(load)

    def _pool(self, policy: Node, name: str, whose: str) -> None:
        """Refuse a pool of an agent without snapshots, or with models for other parts."""
        agents, mode = self.phase.agents, self.phase.setting("mode")
        asked, trains = policy.map.get("agent", policy), mode is None or mode.value == "train"
        if whose not in agents:
            self._wrong(asked, unknown("agent", whose, agents))
        elif not (trains and has_brain(agents[whose])):
            self._wrong(policy, f"pool: agent `{whose}` does not learn in this phase, it has no snapshots")
        elif any(_plain(agents[name], key) != _plain(agents[whose], key) for key in ("muscle", "filters")):
            self._wrong(asked, f"pool: the models of `{whose}` are for its own `muscle` and `filters`, not `{name}`'s")

    def _turns(self, node: Node, plan: PolicyPlan, bodies: list[BodyPlan], turns: list[BodyPlan]) -> None:
        """Refuse turns of bodies without a team, of a single team, or of different lengths in one phase."""
        every, alone = turns[0].policy.rotate_every, next((body for body in bodies if body.team is None), None)
        if alone is not None:
            name = f"{alone.agent}/{alone.environment}/{alone.b}"
            self._wrong(node, f"teams take turns in learning, and body `{name}` is of no team")
        elif len({body.team for body in turns}) < 2:
            self._wrong(node, f"teams take turns in learning, and there is only `{bodies[0].team}`")
        elif plan.rotate_every != every:
            self._wrong(node, f"expected {every} as elsewhere in the phase, found {plan.rotate_every}")

    def _timelines(self) -> None:
        """Refuse invalid clocks, budgets and rules of ends."""
        for uid, entry in self.phase.environments.items():
            end, budget = entry.get("episode_end"), entry.get("budget")
            self._clock(entry.get("clock"))
            if end is not None and isinstance(end.value, dict):
                named = end.text("body") or ""
                mine = [body for body in self.phase.plans if body.environment == uid and not body.most]
                known = [f"{body.agent}/{body.b}" for body in mine]
                if named not in known:
                    self._wrong(end, f"environment `{uid}` has no body `{named}`{nearest(named, known)}")
            if budget is not None and budget.get("steps") and budget.get("episodes"):
                self._wrong(budget, "expected one of `steps` and `episodes`, found both")

    def _ways(self, params: Node | None) -> None:
        """Refuse `mode: free` without `sync: async`, and an invalid `lead`."""
        sync = self.phase.setting("sync")
        mode, lead = (None if params is None else params.get(key) for key in ("mode", "lead"))
        free = mode is not None and mode.value == FREE
        if mode is not None and mode.value not in ("barrier", FREE):
            self._wrong(mode, f"expected barrier or free, found {mode.found()}")
        if mode is not None and free and (sync is None or sync.value != "async"):
            found = "it is lockstep by default" if sync is None else f"found {sync.found()}"
            self._wrong(sync or mode, f"`mode: free` needs `sync: async` in `phase_config`, {found}")
        if lead is not None and (type(lead.value) is not int or lead.value < 1):
            self._wrong(lead, f"expected a number of ticks of at least 1, found {lead.found()}")
        elif lead is not None and not free:
            self._wrong(lead, "`lead` needs `mode: free`: with a common tick no environment is ahead")

    def _end(self, end: Node | None) -> None:
        """Refuse a phase that neither budgets, nor recorded episodes, nor a condition can end."""
        phase, episodes = self.phase, self.phase.setting("episodes")
        asked: Any = "all" if end is None else end.plain()
        if isinstance(asked, dict) and asked.get("environment") not in phase.environments:
            text = f"there is no environment `{asked.get('environment')}` in phase `{phase.name}`"
            self._wrong(end or phase.mark, text + nearest(str(asked.get("environment")), phase.environments))
            return
        limited, budgets = episodes is not None and isinstance(episodes.value, int), dict[str, bool]()
        for uid, entry in phase.environments.items():
            budget, name = entry.get("budget"), entry.map["environment"].text("name")
            plays = bool(name) and self.lookup("replay", str(name)) is None
            budgets[uid] = limited or plays or (budget is not None and bool(budget.map))
        ended = budgets_end(budgets, str(asked.get("environment")) if isinstance(asked, dict) else asked)
        if not ended and not conditions_of(self.root, phase)[1]:
            text = f"nothing can end phase `{phase.name}`: neither budgets, `episodes` nor a condition"
            self._wrong(phase.mark, text)

    def _tables(self) -> None:
        """Check which agents feed and ask tables, and the plugins or mixes of tables."""
        tables = [] if self.phase.tables is None else self.phase.tables.items
        uids: dict[str, Node] = {}
        sync = self.phase.setting("sync")
        for table in tables:
            uid, mix = table.map.get("uid"), table.get("mix")
            if uid is not None and uid.value in uids:
                self._wrong(uid, f"duplicate uid `{uid.value}`: each is once in the tables of a phase")
            elif uid is not None:
                uids[str(uid.value)] = table
            users = [item for key in ("feed", "serve") for item in table.entries(key)]
            for item in users if not self.unclear else ():
                self._learner(item)
            names = {item.value for item in users if isinstance(item.value, str)}
            if sync is not None and sync.value == "pipelined" and len(names) > 1:
                text = "not built yet: a table of several agents with `sync: pipelined`; expected lockstep or async"
                self._wrong(table, text)
            if mix is None:
                self._plugin("table", table, optional=True)
                if "name" not in table.map and _clean(table, model.Table):
                    self._wrong(table, "missing key `name`: which table is it?")
                begun = (params := table.get("params")) is not None and params.get("source") is not None
                if not table.entries("feed") and not begun and _clean(table, model.Table):
                    text = "expected `feed`, params with a `source`, or `mix` of other tables"
                    self._wrong(table, f"{text}: the table would stay empty")
                continue
            for key in ("name", "feed"):
                if key in table.map:
                    self._wrong(table.keys[key], f"`{key}` cannot be beside `mix`, which draws from other tables")
            asked = [item.value for item in table.entries("serve")]
            if not asked and _clean(table, model.Table):
                self._wrong(table, "missing key `serve`: no brain could ask the table")
            for name, share in mix.map.items():
                part = next((one for one in tables if one.text("uid") == name and one.get("mix") is None), None)
                if part is None:
                    known = [one.text("uid") or "" for one in tables if one.get("mix") is None]
                    self._wrong(
                        mix.keys.get(name, share), f"there is no table `{name}` to draw from{nearest(name, known)}"
                    )
                    continue
                served = {item.value for item in part.entries("serve" if part.get("serve") else "feed")}
                for item in table.entries("serve"):
                    if isinstance(item.value, str) and item.value not in served:
                        self._wrong(item, f"table `{name}`, of which it is mixed, does not serve agent `{item.value}`")

    def _learner(self, item: Node) -> None:
        """Refuse the name of an agent that does not learn."""
        agents = self.phase.agents
        if not isinstance(item.value, str) or (item.value in agents and has_brain(agents[item.value])):
            return
        if item.value in agents:
            self._wrong(item, f"agent `{item.value}` has no brain, which alone feeds and asks tables")
        else:
            text = f"there is no agent `{item.value}` in phase `{self.phase.name}`"
            self._wrong(item, text + nearest(item.value, agents))

    def _seen(self, pairs: set[tuple[str, str]]) -> None:
        """Refuse ids of environments in which their agent has no body, unless the agent has none anywhere."""
        embodied = {agent for agent, _ in pairs}
        for name, agent in ((name, agent) for name, agent in self.phase.agents.items() if name in embodied):
            for item in (item for key in ("sensors", "actuators", "rewards") for item in agent.entries(key)):
                text = str(item.value)
                named = [uid for uid in self.phase.environments if text == uid or text.startswith(f"{uid}.")]
                if named and not any((name, uid) in pairs for uid in named):
                    self._wrong(item, f"agent `{name}` has no body in environment `{named[0]}`")

    def _rewards(self) -> None:
        """Refuse rewards of unknown bodies, or of environments that are programs."""
        plans = self.phase.plans
        for reward in (part for rule in rules_of(self.phase.bodies) if (part := rule.get("reward")) is not None):
            self._plugin("reward", reward, optional=True)
            name = reward.map.get("name")
            at = None if name is None else f"{name.place()}: {name.path}"
            for uid in dict.fromkeys(body.environment for body in plans if body.reward and body.reward.at == at):
                definition = self.phase.environments[uid].map["environment"]
                forms = [key for key in ("command", "attach") if is_given(definition, key)]
                if name is not None and forms:
                    text = f"a reward runs in Ganglion's process, and environment `{uid}` is a `{forms[0]}`"
                    self._wrong(name, text)

    def _processes(self) -> None:
        """Refuse a phase with more processes than a run may have."""
        worker = self.phase.setting("worker")
        if worker is None or not isinstance(worker.value, int) or self.unclear:
            return
        sources = [sources_of(self.phase.plans, name) for name in self.phase.agents]
        each = 1 + len(self.phase.environments) + sum(map(len, sources))
        tables = len(self.phase.tables.items) if self.phase.tables is not None else 0
        needed = worker.value * each + len(self.phase.agents) + tables + 3  # brains; broker, governor, store
        if needed > processes_per_run():
            message = f"{worker.value} workers need up to {needed} processes, a run may have {processes_per_run()}"
            self._wrong(worker, f"{message} (setting processes_per_run)")

    def _plugin(self, kind: str, node: Node | None, optional: bool = False) -> None:
        """Check that a `{name, params}` names a known plugin."""
        if node is None or not isinstance(node.value, dict):
            return
        name = node.map.get("name")
        if name is None:
            if not optional and _clean(node, model.Plugin):
                self._wrong(node, f"missing key `name`: which {kind} is it?")
        elif isinstance(name.value, str) and name.value:
            wrong = self.lookup(kind, name.value)
            if wrong is not None:
                self._wrong(name, wrong)

    def _environment(self, entry: Node) -> None:
        """Check that an environment has exactly one form, and no keys of another form."""
        definition = entry.map["environment"]
        forms = self._forms(definition, "environments")
        if not forms and _clean(definition, model.Environment):
            uid = definition.text("uid")
            message = f"environment `{uid}` is nowhere defined: expected one of `name`, `command`, `attach`"
            self._wrong(definition, message)
        if forms == ["name"]:
            self._plugin("environment", definition)
        self._piped(entry, definition)
        for key, kind in (("reward", "reward"), ("state_transformer", "transformer")):
            part = entry.get(key)
            if part is None:
                continue
            if forms in (["command"], ["attach"]):
                self._wrong(entry.keys[key], f"`{key}` runs in Ganglion's process and cannot be beside `{forms[0]}`")
            else:
                self._plugin(kind, part)

    def _forms(self, definition: Node, what: str) -> list[str]:
        """Return which of `name`, `command`, `attach` are given; refuse two of them, and keys that need `command`."""
        forms = [key for key in DEFINING if is_given(definition, key)]
        if len(forms) > 1:
            shown = " and ".join(f"`{form}`" for form in forms)
            self._wrong(definition.keys[forms[1]], f"expected one of `name`, `command`, `attach`, found {shown}")
        for key in ("cwd", "variables", "speaks"):
            if forms and "command" not in forms and key in definition.map and definition.map[key].value:
                self._wrong(definition.keys[key], f"`{key}` is for {what} with `command` only")
        return forms

    def _piped(self, part: Node, definition: Node) -> None:
        """Refuse topics of a program that has none."""
        if "topics" in part.map and definition.text("speaks") == "lines":
            self._wrong(
                part.keys["topics"], "a program with `speaks: lines` is told of no `topics`; expected `speaks: bus`"
            )

    def _muscle(self, agent: Node, muscle: Node) -> None:
        """Check that a muscle has one form, and that a program has no keys that run in Ganglion's process."""
        forms = self._forms(muscle, "muscles")
        self._piped(agent, muscle)
        if not forms and isinstance(muscle.value, dict) and _clean(muscle, model.Muscle):
            self._wrong(muscle, "missing key `name`: which muscle is it?")
        if not forms or "name" in forms:
            self._plugin("muscle", muscle, optional=True)
            return
        objective = agent.get("objective")
        if agent.entries("filters"):
            message = f"`filters` run in Ganglion's process and cannot be beside `{forms[0]}`"
            self._wrong(agent.keys["filters"], message)
        params = None if objective is None else objective.get("params")
        if (objective and objective.text("name") != OBJECTIVE) or (params and params.value):
            message = f"a program adds up its rewards: beside `{forms[0]}` expected none, or {OBJECTIVE} without params"
            self._wrong(agent.keys["objective"], message)

    def _agent(self, agent: Node) -> None:
        """Check an agent's parts, lists and model."""
        muscle = agent.map.get("muscle")
        if muscle is None and _clean(agent, model.Agent):
            self._wrong(agent, f"missing key `muscle`: agent `{agent.text('name')}` has no actor")
        if muscle is not None:
            self._muscle(agent, muscle)
        for kind in ("brain", "objective"):
            self._plugin(kind, agent.map.get(kind))
        for part in agent.entries("filters"):
            self._plugin("filter", part)
        for key in ("sensors", "actuators", "rewards"):
            self._ids(agent.entries(key), key)
        for node in reads(agent):
            self._load(node)
        if agent.entries("replay") and not has_brain(agent):
            message = f"agent `{agent.text('name')}` has no brain that could learn: `replay` needs one"
            self._wrong(agent.keys["replay"], message)
        if replays(agent) and (wrong := self.lookup("replay", REPLAY)) is not None:
            self._wrong(agent.keys["replay"], wrong)

    def _ids(self, items: list[Node], key: str) -> None:
        """Check that ids name environments of this phase, each id once."""
        seen: set[str] = set()
        wild = {str(item.value)[:-1] for item in items if isinstance(item.value, str) and item.value.endswith(".*")}
        for item in items:
            if not isinstance(item.value, str) or not item.value:
                continue
            within = next((f"{w}*" for w in sorted(wild) if self._within(item.value, w)), None)
            if item.value in seen:
                self._wrong(item, f"`{item.value}` is twice in `{key}`")
            elif within is not None:
                self._wrong(item, f"`{item.value}` is twice in `{key}`: `{within}` has it too")
            elif not self.unclear:
                self._id(item, item.value, key)
            seen.add(item.value)

    def _within(self, text: str, whole: str) -> bool:
        """Return whether `<whole>*` certainly contains an id: no environment with a longer uid has it."""
        others = (f"{uid}." for uid in self.phase.environments if len(uid) >= len(whole))
        return text.startswith(whole) and text != f"{whole}*" and not text.startswith(tuple(others))

    def _id(self, item: Node, text: str, key: str) -> None:
        uids = self.phase.environments
        if key == "rewards" and text in uids:
            return
        if any(text.startswith(f"{uid}.") and len(text) > len(uid) + 1 for uid in uids):
            return
        prefix, dot, _ = text.partition(".")
        if not dot or text in uids:
            words = "`<environment uid>.<id>`" + (" or `<environment uid>`" if key == "rewards" else "")
            message = f"expected a full id {words}, found {item.found()}"
        else:
            message = f"there is no environment `{prefix}` in phase `{self.phase.name}`"
        self._wrong(item, message + nearest(prefix, uids))

    def _load(self, load: Node) -> None:
        """Check that a model or recording of this run is of an earlier phase."""
        phase = load.get("phase")
        if phase is None or load.map.keys() & _ELSEWHERE:
            return
        earlier = self.names[: self.index]
        value = phase.value
        if isinstance(value, str) and value not in earlier:
            why = "is not earlier than" if value in self.names else "is unknown in"
            like = "" if value in self.names else nearest(value, earlier)
            self._wrong(phase, f"phase `{value}` {why} phase `{self.phase.name}`{like}")
        elif isinstance(value, int) and not isinstance(value, bool) and value >= self.index:
            self._wrong(phase, f"expected the index of a phase before this one, which is {self.index}, found {value}")


def warnings(root: Node, phases: list[Expanded], versions: frozenset[str] = frozenset()) -> list[Fault]:
    """Return the warnings of a normalised document without faults and its expanded phases.

    `versions` are those of another project for which the document may have been written, as `major.minor`.
    """
    found = list(_version(root, versions))
    known: set[str] = set()  # agents of earlier phases
    for phase in phases:
        found += phase.faults
        told = [*_config(phase), *_evaluations(phase), *_agents(phase, known), *_shared(phase)]
        found += [node.fault(message, "warning") for node, message in told]
        known |= phase.agents.keys()
    return found


Told: TypeAlias = Iterator[tuple[Node, str]]
"""Nodes with the text of a warning."""


def _version(root: Node, versions: frozenset[str]) -> Iterator[Fault]:
    """Yield the warning about a version: another major or minor one, none, or a number."""
    node = root.map.get("version")
    ours = ".".join(__version__.split(".")[:2])
    if node is None:
        message = f"no `version`: expected the version of Ganglion it was written for, such as {__version__!r}"
        yield root.fault(message, "warning")
        return
    theirs = ".".join(str(node.value).split(".")[:2])
    if theirs in versions:
        return
    if not isinstance(node.value, str):
        yield node.fault(f"expected the version as text, found {node.found()}; write it in quotes", "warning")
    elif theirs != ours:
        yield node.fault(f"written for version {node.value}, this is {__version__}", "warning")


def _config(phase: Expanded) -> Told:
    """Yield warnings about keys of `phase_config` without effect, or with results that cannot be reproduced."""
    raw, sync = phase.setting("store_raw_actuators"), phase.setting("sync")
    if raw is not None:
        yield raw, "`store_raw_actuators` has no effect: a muscle's proposals are always stored"
    if sync is not None and sync.value == "async":
        yield sync, "`sync: async` is not reproducible: updates come in order of arrival"
    params = phase.simulation.get("params") if phase.many and phase.simulation is not None else None
    mode, end = (None if params is None else params.get(key) for key in ("mode", "end"))
    if mode is not None and mode.value == FREE and end is not None and end.value != "all":
        yield end, "in `mode: free` others step until this end is noticed: their last steps are not reproducible"


def _evaluations(phase: Expanded) -> Told:
    """Yield warnings about given, not inherited, evaluations that never happen."""
    every, mode = phase.setting("evaluate_every"), phase.setting("mode")
    period = _number(every)
    if every is None or period is None or "evaluate_every" not in phase.given.map.get("phase_config", phase.mark).map:
        return
    if mode is not None and mode.value != "train":
        yield every, "this phase does not train: there is never an evaluation"
    most = (_number(phase.setting("episodes")) or 0) * (_number(phase.setting("worker")) or 1)
    if most and period > most:
        yield every, f"there is never an evaluation: this phase has at most {most:g} episodes"


def _number(node: Node | None) -> float | None:
    """Return the number at a node, None without one."""
    value = None if node is None else node.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _agents(phase: Expanded, known: set[str]) -> Told:
    """Yield warnings about models and recordings without effect, and about agents without sensors and actuators."""
    mode = phase.setting("mode")
    for name, agent in phase.agents.items():
        load = agent.map.get("load", phase.mark)
        if load.value == {} and name not in known:
            yield load, f"no earlier phase has the agent `{name}`: it starts fresh"
        vain = [key for key in load.map if key not in ("agent", "optional")]
        if vain and "agent" in load.map and load.get("agent") is None:
            yield load, f"`agent: ~` starts fresh: `{vain[0]}` has no effect"
        if replays(agent) and mode is not None and mode.value != "train":
            message = f"no brain learns in a phase of mode `{mode.value}`: `replay` has no effect"
            yield agent.keys["replay"], message
        blind = has_brain(agent) and not agent.entries("sensors") and not agent.entries("actuators")
        if blind and name not in known and not phase.many:
            yield agent, f"agent `{name}` has neither `sensors` nor `actuators`: it sees and sets nothing"


def _shared(phase: Expanded) -> Told:
    """Yield a warning for each two agents of a phase under `vanilla` that set the same actuators in the same steps."""
    setters: dict[str, str] = {}  # an id, or `<uid>.*` -> the last agent that names it
    for name, agent in phase.agents.items() if _controller(phase) == CONTROLLER else ():
        both: dict[str, list[Node]] = {}
        mine = {item.value: item for item in agent.entries("actuators") if isinstance(item.value, str)}
        for named, item in mine.items():
            other = next((setters[full] for full in _alike(named, setters) if full in setters), None)
            if other is not None:
                both.setdefault(other, []).append(item)
        for other, items in both.items():
            more = f" and {len(items) - 1} more" if len(items) > 1 else ""
            text = f"agents `{other}` and `{name}` both set `{items[0].value}`{more} in each step"
            yield items[0], f"{text}: the later one, `{name}`, wins"
        setters |= dict.fromkeys(mine, name)


def _alike(full: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the texts by which a full id, or `<uid>.*`, may also be named: itself first, of `known` for a wildcard."""
    yield full
    yield from (f"{full[:place]}.*" for place, letter in enumerate(full) if letter == ".")
    if full.endswith(".*"):
        yield from (one for one in known if one.startswith(full[:-1]))
