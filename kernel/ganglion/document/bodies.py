"""Bodies: which agents have how many bodies in which environments, and what a document says of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ganglion.document.fault import nearest
from ganglion.document.marks import Node
from ganglion.document.model import Policy
from ganglion.limits import BODIES_PER_PHASE
from ganglion.run.plan import FREE, BodyPlan, PluginPlan, PolicyPlan, budgets_end

Body: TypeAlias = tuple[int, int, int]
"""Places of agent and environment in the phase, and the number within the pair."""
Wrong: TypeAlias = tuple[tuple[str | int, ...], str]
"""Where something is wrong, below `bodies`, and what."""
Tell: TypeAlias = Callable[[Node, str], None]
"""What takes a node and what is wrong with it."""
_OF_POLICIES: dict[str, Any] = {"source": str, "load": dict, "agent": str, "latest": int | float} | dict.fromkeys(
    ("window", "snapshot_every", "swap_every", "rotate_every"), int
)


def resolve(
    agents: Sequence[str], environments: Sequence[str], product: str = "outer", num: Any = 1, idle: Sequence[str] = ()
) -> tuple[list[Body], list[Wrong]]:
    """Return the bodies of a phase, sorted, and all that is wrong with what was asked for.

    Args:
        agents: Names, in document order.
        environments: Uids, likewise.
        product: `outer` is every pair, `inner` the i-th agent with the i-th environment, `custom` what `num` lists.
        num: A count for each pair, a list of one per environment, a map agent -> environment -> count, or with
            `custom` a list of `[agent, environment, b]`.
        idle: Agents and environments that deliberately have no body.
    """
    asked = _Asked(agents, environments, idle)
    if product == "custom":
        found = asked.custom(num)
    elif product == "inner" and len(agents) != len(environments):
        asked.wrong.append((("product",), f"inner: {len(agents)} agents, {len(environments)} environments"))
        return [], asked.wrong
    else:
        pairs = [(a, e) for a in range(len(agents)) for e in range(len(environments)) if product == "outer" or a == e]
        found = asked.counted(num, pairs)
    if not asked.wrong:
        asked.missing(found)
    return ([] if asked.wrong else sorted(found)), asked.wrong


class _Asked:
    def __init__(self, agents: Sequence[str], environments: Sequence[str], idle: Sequence[str]) -> None:
        self._agents, self._environments = list(agents), list(environments)
        self._idle = set(idle)
        self.wrong: list[Wrong] = []
        for i, name in enumerate(idle):
            if name not in self._agents and name not in self._environments:
                known = [*self._agents, *self._environments]
                text = f"there is no agent or environment `{name}`{nearest(name, known)}"
                self.wrong.append((("idle", i), text))

    def counted(self, num: Any, pairs: Sequence[tuple[int, int]]) -> list[Body]:
        """Return the bodies of pairs by counts."""
        if isinstance(num, dict):
            counts = self._map(num, pairs)
        elif isinstance(num, list):
            counts = self._list(num, pairs)
        else:
            self._count(num, ("num",), "")
            counts = {pair: num if _is_count(num) else 0 for pair in pairs}
        return self._all(counts)

    def _all(self, counts: Mapping[tuple[int, int], int]) -> list[Body]:
        """Return as many bodies of each pair as are counted, none where these are too many."""
        if not self._fits(sum(counts.values())):
            return []
        return [(a, e, b) for (a, e), count in counts.items() for b in range(count)]

    def _fits(self, count: int) -> bool:
        """Say whether a phase may have so many bodies; that it may not is told."""
        if count > BODIES_PER_PHASE:
            text = f"expected at most {BODIES_PER_PHASE} bodies, found {count} (limit bodies_per_phase)"
            self.wrong.append((("num",), text))
        return count <= BODIES_PER_PHASE

    def _list(self, num: list[Any], pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        for e, uid in enumerate(self._environments):
            if e >= len(num):
                self.wrong.append((("num",), f"no count for `{uid}`"))
            else:
                self._count(num[e], ("num", e), uid)
        for i, extra in enumerate(num[len(self._environments) :], len(self._environments)):
            self.wrong.append(
                (("num", i), f"surplus count {extra!r}: there are {len(self._environments)} environments")
            )
        return {(a, e): num[e] if e < len(num) and _is_count(num[e]) else 0 for a, e in pairs}

    def _map(self, num: dict[Any, Any], pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        found = dict(self._pairs(num))
        for pair in pairs:
            if pair not in found:
                agent, uid = self._agents[pair[0]], self._environments[pair[1]]
                self.wrong.append((("num",), f"no count for `{agent}` in `{uid}`"))
        for a, e in found:
            if (a, e) not in pairs:
                place = ("num", self._agents[a], self._environments[e])
                self.wrong.append(
                    (place, f"`{self._agents[a]}` and `{self._environments[e]}` are no pair of this product")
                )
        return found

    def _pairs(self, num: Mapping[Any, Any]) -> Iterator[tuple[tuple[int, int], int]]:
        for agent, row in num.items():
            if agent not in self._agents:
                self.wrong.append((("num", agent), f"there is no agent `{agent}`{nearest(str(agent), self._agents)}"))
                continue
            if not isinstance(row, dict):
                self.wrong.append((("num", agent), f"expected a map environment -> count, found {row!r}"))
                continue
            for uid, count in row.items():
                if uid not in self._environments:
                    like = nearest(str(uid), self._environments)
                    self.wrong.append((("num", agent, uid), f"there is no environment `{uid}`{like}"))
                    continue
                self._count(count, ("num", agent, uid), f"{agent}/{uid}")
                yield (self._agents.index(agent), self._environments.index(uid)), count if _is_count(count) else 0

    def _count(self, count: Any, place: tuple[str | int, ...], whose: str) -> None:
        if type(count) is not int:
            of = f" for `{whose}`" if whose else ""
            self.wrong.append((place, f"expected a count{of}, found {count!r}"))
        elif count < 1:
            of = f" (`{whose}`)" if whose else ""
            self.wrong.append((place, f"a count is at least 1{of}: leave a pair out by `custom`"))

    def custom(self, num: Any) -> list[Body]:
        """Return the bodies of a list, or of a map of those pairs that exist."""
        if isinstance(num, dict) and num:
            return self._all(dict(self._pairs(num)))
        if not isinstance(num, list) or not num:
            words = "a map agent -> environment -> count, or a list of [agent, environment, b]"
            self.wrong.append((("num",), f"custom: expected {words}, found {num!r}"))
            return []
        if not self._fits(len(num)):
            return []
        found: list[Body] = []
        for i, row in enumerate(num):
            if not (isinstance(row, list) and len(row) == 3 and type(row[2]) is int and row[2] >= 0):
                self.wrong.append((("num", i), f"expected [agent, environment, b], found {row!r}"))
                continue
            agent, uid, b = row
            known = ((agent, self._agents, "agent"), (uid, self._environments, "environment"))
            strange = [(name, names, kind) for name, names, kind in known if name not in names]
            for name, names, kind in strange:
                self.wrong.append((("num", i), f"there is no {kind} `{name}`{nearest(str(name), names)}"))
            if strange:
                continue
            body = (self._agents.index(agent), self._environments.index(uid), b)
            if body in found:
                self.wrong.append((("num", i), f"`{agent}/{uid}/{b}` is listed twice"))
            found.append(body)
        self._gaps(set(found))
        return found

    def _gaps(self, found: set[Body]) -> None:
        most: dict[tuple[int, int], int] = {}
        for a, e, b in found:
            most[a, e] = max(most.get((a, e), 0), b)
        for (a, e), last in sorted(most.items()):
            if not self._fits(last + 1):
                continue
            for b in range(last):
                if (a, e, b) not in found:
                    name = f"{self._agents[a]}/{self._environments[e]}/{b}"
                    self.wrong.append((("num",), f"gap: `{name}` is missing"))

    def missing(self, found: Sequence[Body]) -> None:
        """Find agents and environments without a body that are not said to be idle."""
        for kind, names, place in (("agent", self._agents, 0), ("environment", self._environments, 1)):
            there = {body[place] for body in found}
            for i, name in enumerate(names):
                if i not in there and name not in self._idle:
                    self.wrong.append((("num",), f"{kind} `{name}` has no body: name it in `idle` if that is meant"))


def _is_count(count: Any) -> bool:
    return type(count) is int and count >= 1


def bodies_of(
    section: Node | None, agents: Sequence[str], environments: Sequence[str], tell: Tell, mark: Node
) -> list[BodyPlan]:
    """Return the bodies that a phase's section describes, each with the rules that meet it; faults are told.

    Behind them stand those that environments may spawn (`most`), an entry for each agent and environment. `section`
    None is one body for each pair; `mark` is where the phase stands.
    """
    plain = {} if section is None or not isinstance(section.value, dict) else section.plain()
    product, num = plain.get("product", "outer"), plain.get("num", 1)
    idle = plain.get("idle") or []
    if product not in ("outer", "inner", "custom") or not isinstance(idle, list):
        return []  # a fault of form
    found, wrong = resolve(agents, environments, product, num, [str(name) for name in idle])
    for place, text in wrong:
        tell(_at(section or mark, place), text)
    plans = [BodyPlan(agents[a], environments[e], b) for a, e, b in found]
    if section is None:
        return plans
    plans += _spawned(section, agents, environments, () if wrong else plans, tell)
    for rule in section.entries("rules"):
        met = [i for i, body in enumerate(plans) if _meets(rule, body)]
        if not met and not wrong:
            tell(rule, "this rule meets no body")
        for i in met:
            plans[i] = _ruled(plans[i], rule)
    _check_models(section, plans, tell)
    return plans


def _check_models(section: Node, plans: Sequence[BodyPlan], tell: Tell) -> None:
    """Refuse bodies that may be spawned whose model no body from the begin decides by, or which is drawn."""
    known = {(body.agent, _same(body.policy)) for body in plans if not body.most}
    entries = {(entry.text("agent"), entry.text("environment")): entry for entry in section.entries("dynamic")}
    for body in (body for body in plans if body.most):
        entry = entries[body.agent, body.environment]
        if body.policy.source == "pool":
            text = "not built yet: `policy: pool` of bodies that are spawned"
            tell(entry, f"{text}; a rule with `match: {{dynamic: false}}` leaves them out")
        elif known and (body.agent, _same(body.policy)) not in known:
            tell(entry, f"no body of agent `{body.agent}` that is there from the begin decides by the same model")


def _same(policy: PolicyPlan) -> str:
    return repr(replace(policy, at=""))


def _spawned(
    section: Node, agents: Sequence[str], environments: Sequence[str], plans: Sequence[BodyPlan], tell: Tell
) -> list[BodyPlan]:
    """Return what stands for the bodies that environments may spawn, by agents and environments; faults are told.

    `plans` are the bodies that are there from the begin; empty if there is something wrong with these.
    """
    found: dict[tuple[int, int], BodyPlan] = {}
    for entry in section.entries("dynamic"):
        agent, uid, most = (entry.get(key) for key in ("agent", "environment", "max"))
        if agent is None or uid is None or most is None or type(most.value) is not int or most.value < 1:
            continue  # a fault of form
        strange = [
            (node, names, kind)
            for node, names, kind in ((agent, agents, "agent"), (uid, environments, "environment"))
            if str(node.value) not in names
        ]
        for node, names, kind in strange:
            tell(node, f"there is no {kind} `{node.value}`{nearest(str(node.value), names)}")
        if strange:
            continue
        if plans and not any((body.agent, body.environment) == (agent.value, uid.value) for body in plans):
            text = f"agent `{agent.value}` has no body in `{uid.value}` from the begin, so none can be spawned there"
            tell(entry, text)
        pair = (list(agents).index(str(agent.value)), list(environments).index(str(uid.value)))
        if pair in found:
            tell(entry, f"bodies of `{agent.value}` in `{uid.value}` are listed twice")
        found[pair] = BodyPlan(str(agent.value), str(uid.value), -1, most=most.value)
    count = len(plans) + sum(body.most for body in found.values())
    if found and count > BODIES_PER_PHASE:
        text = f"expected at most {BODIES_PER_PHASE} bodies with those that may be spawned, found {count}"
        tell(section.map["dynamic"], f"{text} (limit bodies_per_phase)")
    return [found[pair] for pair in sorted(found)]


def _at(node: Node, place: Sequence[str | int]) -> Node:
    """Return the deepest node on a way that there is."""
    for part in place:
        if isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        elif isinstance(part, str) and part in node.map:
            node = node.map[part]
        else:
            break
    return node


def _meets(rule: Node, body: BodyPlan) -> bool:
    match = rule.map.get("match")
    if match is None or not isinstance(match.value, dict):
        return match is None or match.value is None
    values: dict[str, Any] = {"agent": body.agent, "environment": body.environment}
    values |= {"body": None if body.most else body.b, "dynamic": body.most > 0}
    for key, wanted in match.plain().items():
        if wanted is not None and values.get(key) not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def _ruled(body: BodyPlan, rule: Node) -> BodyPlan:
    """Return a body as a rule has it, which overrides what was said before key by key."""
    said = rule.plain()
    reward, decision = said.get("reward") or {}, said.get("decision") or {}
    changed: dict[str, Any] = {key: said[key] for key in ("learn", "role", "team", "group") if key in said}
    if isinstance(reward, dict):
        changed |= {"reward": _reward(body.reward, reward, rule)}
        changed |= {
            name: float(reward[key]) for key, name in (("scale", "scale"), ("offset", "shift")) if key in reward
        }
        clip = reward.get("clip")
        if isinstance(clip, list) and len(clip) == 2:
            changed |= {"low": float(clip[0]), "high": float(clip[1])}
    if isinstance(decision, dict):
        names = (("period", "period"), ("phase", "offset"), ("between", "between"))
        changed |= {name: decision[key] for key, name in names if key in decision}
    if "policy" in said:
        changed["policy"] = _policy(said["policy"], rule.map["policy"])
    return replace(body, **changed)


def _reward(known: PluginPlan | None, said: Mapping[str, Any], rule: Node) -> PluginPlan | None:
    """Return the reward plugin of a body, as a rule overrides what was said before; None if it has none."""
    if isinstance(said.get("name"), str):
        name = rule.map["reward"].map["name"]
        known = PluginPlan(said["name"], at=f"{name.place()}: {name.path}")
    if known is None:
        return None
    params, on_error = said.get("params"), said.get("on_error")
    return replace(
        known, params=params if isinstance(params, dict) else known.params, on_error=on_error or known.on_error
    )


def _policy(said: Any, node: Node) -> PolicyPlan:
    """Return what a policy says; of one that is faulty what can be told."""
    given: dict[str, Any] = {"source": said} if isinstance(said, str) else said if isinstance(said, dict) else {}
    rating = given.get("rating") or {}
    own = {key: given[key] for key, kind in _OF_POLICIES.items() if isinstance(given.get(key), kind)}
    if isinstance(rating, dict):
        own |= {key: float(rating[key]) for key in ("initial", "k") if type(rating.get(key)) in (int, float)}
    return PolicyPlan(**own, at=f"{node.place()}: {node.path}")


def policies_of(section: Node | None, plans: Sequence[BodyPlan]) -> Iterator[tuple[Node, list[BodyPlan]]]:
    """Yield the policy of each rule that has one, with the bodies of which no later rule says another."""
    for rule in [] if section is None else section.entries("rules"):
        policy = rule.map.get("policy")
        if policy is not None:
            at = f"{policy.place()}: {policy.path}"
            yield policy, [body for body in plans if body.policy.at == at]


def _plain(agent: Node, key: str) -> Any:
    """Return what an agent says of a key, None where that is nothing."""
    found = agent.get(key)
    return None if found is None else found.plain() or None


def check_policies(
    section: Node | None, plans: Sequence[BodyPlan], agents: Mapping[str, Node], learners: Collection[str], tell: Tell
) -> None:
    """Refuse policies that cannot be: keys of other sources, pools of who does not learn, turns of no teams."""
    turns = [body for body in plans if body.policy.source == "pool" and body.policy.rotate_every is not None]
    first: dict[str, PolicyPlan] = {}  # environment -> by which its sides are rated
    for policy, bodies in policies_of(section, plans):
        said, plan = policy.map if isinstance(policy.value, dict) else {}, _policy(policy.plain(), policy)
        for key, node in policy.keys.items() if said else ():
            owner = "frozen" if key == "load" else "pool"
            if key != "source" and key in Policy.model_fields and plan.source != owner and said[key].value is not None:
                tell(node, f"`{key}` is of `source: {owner}`")
        for name in dict.fromkeys(body.agent for body in bodies if plan.source != "latest"):
            if not (agents[name].map.get("muscle") or policy).text("name"):
                tell(policy, f"the muscle of agent `{name}` is a program: it acts by the current model alone")
            whose = plan.agent or name
            if plan.source != "pool":
                continue
            if whose not in agents:
                tell(said["agent"], f"there is no agent `{whose}`{nearest(whose, agents)}")
            elif whose not in learners:
                tell(policy, f"pool: agent `{whose}` does not learn in this phase, it has no snapshots")
            elif any(_plain(agents[name], key) != _plain(agents[whose], key) for key in ("muscle", "filters")):
                tell(
                    said["agent"],
                    f"pool: the models of `{whose}` are for its own `muscle` and `filters`, not `{name}`'s",
                )
        for body in bodies if plan.source == "pool" else ():
            other = first.setdefault(body.environment, plan)
            if (other.initial, other.k) != (plan.initial, plan.k):
                tell(
                    said.get("rating", policy),
                    f"the sides of environment `{body.environment}` are rated otherwise before",
                )
                break
        if plan.rotate_every is None or not bodies or bodies[0] not in turns:
            continue
        node = said["rotate_every"]
        alone = next((body for body in bodies if body.team is None), None)
        if alone is not None:
            name = f"{alone.agent}/{alone.environment}/{alone.b}"
            tell(node, f"teams take turns in learning, and body `{name}` is of no team")
        elif len({body.team for body in turns}) < 2:
            tell(node, f"teams take turns in learning, and there is only `{bodies[0].team}`")
        elif plan.rotate_every != turns[0].policy.rotate_every:
            tell(node, f"expected {turns[0].policy.rotate_every} as elsewhere in the phase, found {plan.rotate_every}")


def check_timelines(entries: Mapping[str, Node], plans: Sequence[BodyPlan], tell: Tell) -> None:
    """Refuse clocks, budgets and rules of ends that cannot be."""
    for uid, entry in entries.items():
        clock, end = entry.get("clock"), entry.get("episode_end")
        _check_phase(clock, tell)
        if end is not None and isinstance(end.value, dict):
            named = end.text("body") or ""
            known = [f"{body.agent}/{body.b}" for body in plans if body.environment == uid and not body.most]
            if named not in known:
                tell(end, f"environment `{uid}` has no body `{named}`{nearest(named, known)}")
        budget = entry.get("budget")
        if budget is not None and budget.get("steps") and budget.get("episodes"):
            tell(budget, "expected one of `steps` and `episodes`, found both")


def check_rules(section: Node | None, tell: Tell) -> None:
    """Refuse decisions and rewards that cannot be."""
    named = False
    for rule in [] if section is None else section.entries("rules"):
        _check_phase(rule.get("decision"), tell)
        reward = rule.get("reward")
        named = named or (reward is not None and reward.get("name") is not None)
        for key in ("params", "on_error"):
            if reward is not None and not named and reward.get(key) is not None:
                tell(reward.keys[key], f"`{key}` of which reward? No rule before has a `name`")
        clip = None if reward is None else reward.get("clip")
        if clip is not None:
            values = clip.plain()
            sound = isinstance(values, list) and len(values) == 2 and all(type(v) in (int, float) for v in values)
            if not sound or not values[0] <= values[1]:
                tell(clip, f"expected [low, high] with low <= high, found {clip.found()}")


def _check_phase(clock: Node | None, tell: Tell) -> None:
    if clock is None or not isinstance(clock.value, dict):
        return
    period, phase = (clock.map.get(key) for key in ("period", "phase"))
    length = 1 if period is None else period.value
    if phase is not None and type(phase.value) is int and type(length) is int and length >= 1:
        if not 0 <= phase.value < length:
            tell(phase, f"expected a phase from 0 to {length - 1}, less than the period, found {phase.value}")


def check_mode(params: Node | None, sync: Node | None, tell: Tell) -> None:
    """Refuse that environments go their own ways where updates do not come in order of arrival, and a strange lead."""
    mode, lead = (None if params is None else params.get(key) for key in ("mode", "lead"))
    free = mode is not None and mode.value == FREE
    if mode is not None and free and (sync is None or sync.value != "async"):
        found = "it is lockstep where nothing is said" if sync is None else f"found {sync.found()}"
        tell(sync or mode, f"`mode: free` needs `sync: async` in `phase_config`, {found}")
    if lead is not None and (type(lead.value) is not int or lead.value < 1):
        tell(lead, f"expected a number of ticks of at least 1, found {lead.found()}")
    elif lead is not None and not free:
        tell(lead, "`lead` needs `mode: free`: in one tick for all nobody is ahead")


def ends(entries: Mapping[str, Node], end: Any, episodes: int | None, playing: Callable[[str], bool]) -> bool:
    """Say whether spent budgets end a phase; what is `playing` recorded episodes has one of these."""
    own = {uid: entry.get("budget") for uid, entry in entries.items()}
    budgets = {uid: episodes is not None or (budget is not None and bool(budget.map)) for uid, budget in own.items()}
    names = {uid: entry.map["environment"].text("name") for uid, entry in entries.items()}
    budgets |= {uid: True for uid, name in names.items() if name and playing(name)}
    return budgets_end(budgets, str(end.get("environment")) if isinstance(end, dict) else end)
