"""Bodies: which agents have how many bodies in which environments, and the rules that apply to each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ganglion.document.fault import unknown
from ganglion.document.marks import Node
from ganglion.document.model import Location
from ganglion.limits import BODIES_PER_PHASE
from ganglion.run.plan import BodyPlan, PluginPlan, PolicyPlan

Body: TypeAlias = tuple[int, int, int]
"""Places of agent and environment in the phase, and the number within the pair."""
Wrong: TypeAlias = tuple[Location, str]
"""The path of a fault below `bodies`, and its text."""
Tell: TypeAlias = Callable[[Node, str], None]
"""A function that records a fault at a node."""
_OF_POLICIES: dict[str, Any] = {"source": str, "load": dict, "agent": str, "latest": int | float} | dict.fromkeys(
    ("window", "snapshot_every", "swap_every", "rotate_every"), int
)


def resolve(
    agents: Sequence[str], environments: Sequence[str], product: str = "outer", num: Any = 1, idle: Sequence[str] = ()
) -> tuple[list[Body], list[Wrong]]:
    """Return the bodies of a phase, sorted, and the faults of the request.

    Args:
        agents: Names, in document order.
        environments: Uids, in document order.
        product: `outer` is every pair, `inner` the i-th agent with the i-th environment, `custom` what `num` lists.
        num: A count for each pair, a list of one per environment, a map agent -> environment -> count, or with
            `custom` a list of `[agent, environment, b]`.
        idle: Agents and environments that deliberately have no body.
    """
    asked = _Asked(agents, environments)
    for i, name in enumerate(idle):
        asked.place(name, [*agents, *environments], "agent or environment", ("idle", i))
    pairs = list(itertools.product(range(len(agents)), range(len(environments))))
    if product == "inner":
        pairs = [(i, i) for i in range(len(agents))]
    if product == "inner" and len(agents) != len(environments):
        text = f"inner: {len(agents)} agents, {len(environments)} environments"
        return [], [*asked.wrong, (("product",), text)]
    if product == "custom" and not (isinstance(num, list | dict) and num):
        words = "a map agent -> environment -> count, or a list of [agent, environment, b]"
        return [], [*asked.wrong, (("num",), f"custom: expected {words}, found {num!r}")]
    if product == "custom" and isinstance(num, list):
        found = asked.listed(num)
    else:
        found = asked.counted(num, pairs, whole=product != "custom")
    wrong = bool(asked.wrong)
    for kind, names, place in (("agent", agents, 0), ("environment", environments, 1)):
        there = {*idle, *(names[body[place]] for body in found)}
        lonely = [] if wrong else [name for name in names if name not in there]
        text = f"{kind} `{{}}` has no body: name it in `idle` if that is meant"
        asked.wrong += [(("num",), text.format(name)) for name in lonely]
    return ([] if asked.wrong else sorted(found)), asked.wrong


class _Asked:
    """Read a request for bodies; its faults are in `wrong`."""

    def __init__(self, agents: Sequence[str], environments: Sequence[str]) -> None:
        self._agents, self._environments = agents, environments
        self.wrong: list[Wrong] = []

    def place(self, name: Any, names: Sequence[str], kind: str, where: Location) -> int | None:
        """Return the place of a name among the known ones; None, and a fault, if the name is unknown."""
        if name in names:
            return names.index(name)
        self.wrong.append((where, unknown(kind, name, names)))
        return None

    def _fits(self, count: int) -> bool:
        """Return whether a phase may have so many bodies; more of them are a fault."""
        if count > BODIES_PER_PHASE:
            text = f"expected at most {BODIES_PER_PHASE} bodies, found {count} (limit bodies_per_phase)"
            self.wrong.append((("num",), text))
        return count <= BODIES_PER_PHASE

    def _count(self, count: Any, where: Location, whose: str = "") -> int:
        """Return a count; 0, and a fault, if the value is no count."""
        if type(count) is not int:
            of = f" for `{whose}`" if whose else ""
            self.wrong.append((where, f"expected a count{of}, found {count!r}"))
        elif count < 1:
            of = f" (`{whose}`)" if whose else ""
            self.wrong.append((where, f"a count is at least 1{of}: leave a pair out by `custom`"))
        return count if type(count) is int and count >= 1 else 0

    def counted(self, num: Any, pairs: Sequence[tuple[int, int]], whole: bool) -> list[Body]:
        """Return the bodies of pairs by counts; with `whole` a map must have a count for exactly these pairs."""
        if isinstance(num, dict):
            counts = self._of_map(num)
            for a, e in [pair for pair in pairs if pair not in counts] if whole else ():
                self.wrong.append((("num",), f"no count for `{self._agents[a]}` in `{self._environments[e]}`"))
            for a, e in [pair for pair in counts if pair not in pairs]:
                agent, uid = self._agents[a], self._environments[e]
                self.wrong.append((("num", agent, uid), f"`{agent}` and `{uid}` are no pair of this product"))
        elif isinstance(num, list):
            uids = self._environments
            each = [self._count(n, ("num", e), uids[e]) for e, n in enumerate(num[: len(uids)])]
            self.wrong += [(("num",), f"no count for `{uid}`") for uid in uids[len(num) :]]
            for i, extra in enumerate(num[len(uids) :], len(uids)):
                self.wrong.append((("num", i), f"surplus count {extra!r}: there are {len(uids)} environments"))
            counts = {(a, e): each[e] for a, e in pairs if e < len(each)}
        else:
            counts = dict.fromkeys(pairs, self._count(num, ("num",)))
        if not self._fits(sum(counts.values())):
            return []
        return [(a, e, b) for (a, e), count in counts.items() for b in range(count)]

    def _of_map(self, num: Mapping[Any, Any]) -> dict[tuple[int, int], int]:
        """Return the counts of a map agent -> environment -> count."""
        found: dict[tuple[int, int], int] = {}
        for agent, row in num.items():
            a = self.place(agent, self._agents, "agent", ("num", agent))
            if a is not None and not isinstance(row, dict):
                self.wrong.append((("num", agent), f"expected a map environment -> count, found {row!r}"))
            for uid, count in row.items() if a is not None and isinstance(row, dict) else ():
                e = self.place(uid, self._environments, "environment", ("num", agent, uid))
                if a is not None and e is not None:
                    found[a, e] = self._count(count, ("num", agent, uid), f"{agent}/{uid}")
        return found

    def listed(self, num: list[Any]) -> list[Body]:
        """Return the bodies of a list; a gap in the numbers of a pair is a fault."""
        found: dict[Body, None] = {}
        for i, row in enumerate(num if self._fits(len(num)) else ()):
            if not (isinstance(row, list) and len(row) == 3 and type(row[2]) is int and row[2] >= 0):
                self.wrong.append((("num", i), f"expected [agent, environment, b], found {row!r}"))
                continue
            a = self.place(row[0], self._agents, "agent", ("num", i))
            e = self.place(row[1], self._environments, "environment", ("num", i))
            if a is None or e is None:
                continue
            if (a, e, row[2]) in found:
                self.wrong.append((("num", i), f"`{row[0]}/{row[1]}/{row[2]}` is listed twice"))
            found[a, e, row[2]] = None
        most = {(a, e): b for a, e, b in sorted(found)}
        for (a, e), last in most.items():
            for b in range(last) if self._fits(last + 1) else ():
                if (a, e, b) not in found:
                    text = f"gap: `{self._agents[a]}/{self._environments[e]}/{b}` is missing"
                    self.wrong.append((("num",), text))
        return [*found]


def bodies_of(
    section: Node | None, agents: Sequence[str], environments: Sequence[str], tell: Tell, mark: Node
) -> list[BodyPlan]:
    """Return the bodies that a phase's section describes, each with the rules that match it; report faults by `tell`.

    The last entries are those of bodies that environments may spawn (`most`), one for each agent and environment.
    Without a section there is one body for each pair; `mark` is the node of the phase.
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
    for rule in rules_of(section):
        met = [i for i, body in enumerate(plans) if _meets(rule, body)]
        pairs = [BodyPlan(a, e, 0) for a in agents for e in environments] if wrong else ()  # unknown numbers
        if not (met or any(_meets(rule, pair, ("agent", "environment")) for pair in pairs)):
            tell(rule, "this rule matches no body")
        for i in met:
            plans[i] = _ruled(plans[i], rule)
    _check_models(section, plans, tell)
    return plans


def _check_models(section: Node, plans: Sequence[BodyPlan], tell: Tell) -> None:
    """Refuse bodies that may be spawned if their model is drawn, or if no body from the begin has the same one."""
    known = {(body.agent, _same(body.policy)) for body in plans if not body.most}
    entries = {(entry.text("agent"), entry.text("environment")): entry for entry in section.entries("dynamic")}
    for body in (body for body in plans if body.most):
        entry = entries[body.agent, body.environment]
        if body.policy.source == "pool":
            text = "not built yet: `policy: pool` of bodies that are spawned"
            tell(entry, f"{text}; a rule with `match: {{dynamic: false}}` leaves them out")
        elif known and (body.agent, _same(body.policy)) not in known:
            tell(entry, f"no body of agent `{body.agent}` that exists from the begin decides by the same model")


def _same(policy: PolicyPlan) -> str:
    return repr(replace(policy, at=""))


def _spawned(
    section: Node, agents: Sequence[str], environments: Sequence[str], plans: Sequence[BodyPlan], tell: Tell
) -> list[BodyPlan]:
    """Return an entry for the bodies that environments may spawn, by agents and environments; report faults by `tell`.

    `plans` are the bodies from the begin; empty if these have a fault.
    """
    found: dict[tuple[int, int], BodyPlan] = {}
    for entry in section.entries("dynamic"):
        said = {key: node for key in ("agent", "environment", "max") if (node := entry.get(key)) is not None}
        most = said["max"].value if len(said) == 3 else 0
        if type(most) is not int or most < 1:
            continue  # a fault of form
        known = {"agent": agents, "environment": environments}
        strange = {key: names for key, names in known.items() if said[key].value not in names}
        for key, names in strange.items():
            if isinstance(said[key].value, str):  # else a fault of form
                tell(said[key], unknown(key, said[key].value, names))
        if strange:
            continue
        agent, uid = str(said["agent"].value), str(said["environment"].value)
        if plans and not any((body.agent, body.environment) == (agent, uid) for body in plans):
            tell(entry, f"agent `{agent}` has no body in `{uid}` from the begin, so none can be spawned there")
        pair = (agents.index(agent), environments.index(uid))
        if pair in found:
            tell(entry, f"bodies of `{agent}` in `{uid}` are listed twice")
        found[pair] = BodyPlan(agent, uid, -1, most=most)
    count = len(plans) + sum(body.most for body in found.values())
    if found and count > BODIES_PER_PHASE:
        text = f"expected at most {BODIES_PER_PHASE} bodies with those that may be spawned, found {count}"
        tell(section.map["dynamic"], f"{text} (limit bodies_per_phase)")
    return [found[pair] for pair in sorted(found)]


def _at(node: Node, place: Sequence[str | int]) -> Node:
    """Return the deepest existing node on a path."""
    for part in place:
        if isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        elif isinstance(part, str) and part in node.map:
            node = node.map[part]
        else:
            break
    return node


def _meets(rule: Node, body: BodyPlan, keys: Sequence[str] | None = None) -> bool:
    """Return whether a rule matches a body by all its keys, or by these keys alone."""
    match = rule.map.get("match")
    if match is None or not isinstance(match.value, dict):
        return match is None or match.value is None
    values: dict[str, Any] = {"agent": body.agent, "environment": body.environment}
    values |= {"body": None if body.most else body.b, "dynamic": body.most > 0}
    for key, wanted in match.plain().items():
        if (
            wanted is not None
            and (keys is None or key in keys)
            and values.get(key) not in (wanted if isinstance(wanted, list) else [wanted])
        ):
            return False
    return True


_RULED: tuple[
    tuple[str | None, str, str, Any], ...
] = (  # part of a rule, key in it, attribute of a body, valid types: others are faults of form
    *((None, key, key, object) for key in ("learn", "role", "team", "group")),
    ("reward", "scale", "scale", int | float),
    ("reward", "offset", "shift", int | float),
    ("decision", "period", "period", object),
    ("decision", "phase", "offset", object),
    ("decision", "between", "between", object),
)


def _ruled(body: BodyPlan, rule: Node) -> BodyPlan:
    """Return a body with the keys of a rule, which override those of earlier rules."""
    changed: dict[str, Any] = {}
    for part, key, name, kind in _RULED:
        holder = rule if part is None else rule.map.get(part)
        said = None if holder is None else holder.map.get(key)
        value: Any = None if said is None else said.value
        if said is not None and isinstance(value, kind):
            changed[name] = value if kind is object else float(value)
            if key == "between":
                changed["between_at"] = said.at
    reward = rule.get("reward")
    if reward is not None:
        changed["reward"] = _reward(body.reward, reward)
        clip = [] if reward.get("clip") is None else reward.map["clip"].plain()
        if isinstance(clip, list) and len(clip) == 2 and all(isinstance(bound, int | float) for bound in clip):
            changed |= {"low": float(clip[0]), "high": float(clip[1])}
    if "policy" in rule.map:
        changed["policy"] = policy_of(rule.map["policy"])
    return replace(body, **changed)


def _reward(known: PluginPlan | None, said: Node) -> PluginPlan | None:
    """Return the reward plugin of a body after a rule; None if the body has none."""
    name, params, on_error = said.text("name"), said.get("params"), said.text("on_error")
    if name is not None:
        known = PluginPlan(name, at=said.map["name"].at)
    if known is None:
        return None
    if params is not None and isinstance(params.value, dict):
        known = replace(known, params=params.plain())
    return replace(known, on_error=on_error or known.on_error)


def policy_of(node: Node) -> PolicyPlan:
    """Return the plan of a policy; of a faulty policy, the readable part."""
    given = {"source": node.plain()} if isinstance(node.value, str) else node.plain() if node.map else {}
    own = {key: given[key] for key, kind in _OF_POLICIES.items() if isinstance(given.get(key), kind)}
    rating = given["rating"] if isinstance(given.get("rating"), dict) else {}
    own |= {key: float(rating[key]) for key in ("initial", "k") if type(rating.get(key)) in (int, float)}
    return PolicyPlan(**own, at=node.at)


def policies_of(section: Node | None, plans: Sequence[BodyPlan]) -> Iterator[tuple[Node, list[BodyPlan]]]:
    """Yield the policy of each rule that has one, with the bodies for which no later rule has another policy."""
    for policy in (rule.map["policy"] for rule in rules_of(section) if "policy" in rule.map):
        yield policy, [body for body in plans if body.policy.at == policy.at]


def rules_of(section: Node | None) -> list[Node]:
    """Return the rules of a section, none without one."""
    return [] if section is None else section.entries("rules")
