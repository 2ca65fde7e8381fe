"""From nodes to phases: overrides of the command line, the cascade of phases, their recovery."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganglion.document.fault import Fault, unknown
from ganglion.document.marks import Node, Source, compose
from ganglion.document.model import Agent, Document, Entry, Form, Phase, forms_within
from ganglion.document.spelling import label
from ganglion.limits import DEADLINES_S, PHASES_PER_RUN, processes_per_run
from ganglion.run.plan import FAIL, ON_LOSS, RECOVER, RESTART, BodyPlan, Recovery
from ganglion.sdk.naming import nearest

_COMPONENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')
_PATH = re.compile(rf"(?:{_COMPONENT.pattern})(?:\.(?:{_COMPONENT.pattern}))*")
_ENTRY_KEYS = frozenset({"environment", "reward", "state_transformer", "remove", "recovery"})
_MADE = frozenset(
    {"params", "phase_config", "run_config", "simulation", "environment"}
    | {"recovery", "deadlines_s", "load", "variables"}
)  # maps that an override creates if they are missing


class Nowhere(Exception):
    """Name the reason why a path has no node."""


def path_of(text: str) -> list[str]:
    """Return the components of a dotted path, of which those with dots are quoted; ValueError: it is no path."""
    if not _PATH.fullmatch(text):
        raise ValueError(f"expected components divided by dots, found {text!r}")
    found = _COMPONENT.finditer(text)
    return [part[2] if part[1] is None else re.sub(r"\\(.)", r"\1", part[1]) for part in found]


def override(root: Node, settings: Sequence[str], option: str = "--set") -> tuple[Node, list[Fault]]:
    """Return a normalised document with `PATH=VALUE` settings applied in order, and the faults of failed settings.

    The values are YAML; they and their faults are located at the option. Entries of lists are named by phase, uid,
    agent or index. The given tree does not change.
    """
    faults: list[Fault] = []
    for setting in settings:
        source = Source(f"{option} {setting}", inline=True)
        path, equals, text = setting.partition("=")
        here = Node(None, source)
        if not equals:
            faults.append(here.fault("expected PATH=VALUE"))
            continue
        value, wrong = compose(source, text)
        faults += wrong
        if wrong:
            continue
        try:
            root = put(root, path_of(path), Node(None, source) if value is None else value)
        except (Nowhere, ValueError) as error:
            faults.append(here.fault(str(error)))
    return root, faults


def put(root: Node, path: Sequence[str], value: Node, form: type[Form] | None = Document) -> Node:
    """Return a tree with a value at a path; nodes on the path are copied, and no other node changes.

    `form` is the kind of the tree: a normalised run document, or anything (None).
    Nowhere: The path has no node.
    """
    return _put(root, list(path), value, form)


def _put(node: Node, path: list[str], value: Node, form: type[Form] | None) -> Node:
    if not path:
        return value
    if isinstance(node.value, list):
        return _put_item(node, path, value, form)
    if not isinstance(node.value, dict):
        raise Nowhere(f"the path leads nowhere: before `{path[0]}` there is {node.found()}")
    key = path[0] if form is None or path[0] in node.map else form.spellings.get(path[0], path[0])
    if form is Entry and key not in _ENTRY_KEYS and key not in node.map:
        key, path = "environment", ["environment", *path]
    below = None if form is None else forms_within(form).get(key)
    if key in node.map:
        part = _put(node.map[key], path[1:], value, below)
    elif len(path) == 1:
        part = value
    elif key in _MADE:
        part = _put(value.like({}, {}), path[1:], value, below)
    else:
        raise Nowhere(f"the path leads nowhere: there is no `{key}`{nearest(key, node.map)}")
    return node.put(key, part, node.keys.get(key) or value.like(key, {}))


def _put_item(node: Node, path: list[str], value: Node, form: type[Form] | None) -> Node:
    """Put the value into the entry of that phase, uid, name or index."""
    labels = [label(item, form) for item in node.items]
    name = path[0]
    if name in labels:
        index = labels.index(name)
    elif name.isdecimal() and int(name) < len(labels):
        index = int(name)
    else:
        what = "phase" if form is Phase else "entry"
        raise Nowhere(f"the path leads nowhere: {unknown(what, name, [known for known in labels if known])}")
    items = list(node.items)
    found = labels[index]
    if form is Phase and found is not None:
        phase = _put(items[index].map[found], path[1:], value, Phase)
        items[index] = items[index].put(found, phase)
    else:
        items[index] = _put(items[index], path[1:], value, form)
    return node.like(items)


INNER = ("deadlines_s", "restarts")
"""Keys whose maps are merged key by key."""


def recovery(levels: Sequence[Node | None]) -> Recovery:
    """Return the recovery that results from these sections, the outermost first."""
    found: dict[str, Any] = {}
    for level in levels:
        for key, value in _plain(level).items():
            found[key] = {**found.get(key, {}), **value} if key in INNER else value
    restarts = found.get("restarts", {})
    deterministic = bool(found.get("deterministic", True))
    known = {key: found[key] for key in ("checkpoint_s", "deadlines_s", "run_as") if key in found}
    return Recovery(
        on_loss=_on_loss(found.get("on_loss"), deterministic),
        deterministic=deterministic,
        **{f"restarts_{key}": value for key, value in restarts.items()},
        **known,
    )


def recovery_faults(levels: Sequence[Node | None]) -> list[Fault]:
    """Return the faults of the innermost of these sections.

    Faults are deadlines of unknown calls, and `recover` beside `deterministic: false`, here or further out.
    """
    own = levels[-1]
    if own is None:
        return []
    keys = own.map["deadlines_s"].keys if "deadlines_s" in own.map else {}
    unknown = [(name, mark) for name, mark in keys.items() if name not in DEADLINES_S]
    faults = [mark.fault(f"unknown call `{name}`{nearest(name, DEADLINES_S)}") for name, mark in unknown]
    asked = own.map.get("on_loss")
    given = [level.map["deterministic"] for level in levels if level and "deterministic" in level.map]
    if asked is not None and asked.value == RECOVER and given and given[-1].value is False:
        why = f"`deterministic: false` (line {given[-1].line + 1})"
        text = f"expected restart or fail beside {why}, found recover: different answers cannot be recovered"
        faults.append(asked.fault(text))
    return faults


def _on_loss(said: str | None, deterministic: bool) -> str:
    """Return the effect of a loss; a process that is not deterministic cannot be recovered."""
    if deterministic:
        return said or ON_LOSS
    return FAIL if said == FAIL else RESTART


def _plain(level: Node | None) -> dict[str, Any]:
    return {} if level is None or not isinstance(level.value, dict) else level.plain()


DEFINING = ("name", "command", "attach")  # an entry with one of these replaces the inherited definition
_ACTS = ("load", "replay")  # actions of one phase: never inherited
_LEARNT = ("brain", "muscle", "objective")


@dataclass(slots=True)
class Expanded:
    """Hold a phase after the cascade: maps in document order, by uid or by agent's name."""

    mark: Node
    given: Node
    environments: dict[str, Node] = field(default_factory=dict)
    agents: dict[str, Node] = field(default_factory=dict)
    simulation: Node | None = None
    config: Node | None = None
    recovery: Node | None = None
    bodies: Node | None = None
    tables: Node | None = None
    faults: list[Fault] = field(default_factory=list)
    vain: list[Fault] = field(default_factory=list)  # of removals of unknown names
    many: bool = False  # whether the phase has bodies, set by `check`
    plans: list[BodyPlan] = field(default_factory=list)  # set by `check`
    excess: Fault | None = None  # a bound is exceeded: later phases are not expanded

    @property
    def name(self) -> str:
        """Return the name of the phase."""
        return str(self.mark.value)

    def setting(self, key: str) -> Node | None:
        """Return the node at a key of `phase_config`; None if missing or null."""
        return None if self.config is None else self.config.get(key)


def cascade(phases: list[tuple[Node, Node]], replace: bool) -> list[Expanded]:
    """Return every phase, expanded from the previous phase and the document.

    With `replace` each given key replaces the inherited one as a whole. The last phase has an `excess` if a bound on
    phases or processes ended the expansion.
    """
    done: list[Expanded] = []
    for mark, given in phases:
        phase = expand(done[-1] if done else None, mark, given, replace)
        phase.excess = _excess(phase, len(done))
        done.append(phase)
        if phase.excess is not None:
            break
    return done


def _excess(phase: Expanded, index: int) -> Fault | None:
    """Return the fault of a phase beyond the bound on phases or on processes."""
    if index >= PHASES_PER_RUN:
        message = f"expected at most {PHASES_PER_RUN} phases, found more (limit phases_per_run)"
        return phase.mark.fault(message)
    needed = 1 + len(phase.environments) + len(phase.agents)  # with its controller; one worker, no brains
    if needed <= processes_per_run():
        return None
    message = f"phase `{phase.name}` needs at least {needed} processes, a run may have {processes_per_run()}"
    return phase.mark.fault(f"{message} (setting processes_per_run)")


def expand(before: Expanded | None, mark: Node, given: Node, replace: bool = False) -> Expanded:
    """Return a phase expanded from the previous phase, which does not change."""
    phase = Expanded(mark, given)
    if before is not None:
        phase.environments = dict(before.environments)
        phase.agents = {name: agent.without(*_ACTS) for name, agent in before.agents.items()}
        phase.simulation, phase.config, phase.recovery = before.simulation, before.config, before.recovery
        phase.bodies, phase.tables = before.bodies, before.tables
    if replace:
        phase.environments = {} if "environments" in given.map else phase.environments
        phase.agents = {} if "agents" in given.map else phase.agents
    _environments(phase)
    _agents(phase)
    parts = given.map
    if "simulation" in parts:
        phase.simulation = _named(None if replace else phase.simulation, parts["simulation"])
    if "phase_config" in parts:
        phase.config = _merge(None if replace else phase.config, parts["phase_config"])
    if "bodies" in parts:
        phase.bodies = parts["bodies"]
    if "tables" in parts:
        phase.tables = parts["tables"]
    if "recovery" in parts:
        phase.recovery = _merge(None if replace else phase.recovery, parts["recovery"], *INNER)
    return phase


def _entries(phase: Expanded, key: str, entities: dict[str, Node]) -> Iterator[tuple[str, Node]]:
    """Yield (name, entry) of each sound entry of a phase; apply the removals."""
    form, named = (Entry, "uid") if key == "environments" else (Agent, "name")
    seen: set[str] = set()
    for entry in phase.given.entries(key):
        name = label(entry, form)
        if name is None:
            continue
        if name in seen:
            node = entry.map.get("environment", entry).map[named]
            phase.faults.append(node.fault(f"duplicate {named} `{name}`: each is once in the {key} of a phase"))
            continue
        seen.add(name)
        flag = entry.map.get("remove")
        if flag is None or flag.value is not True:
            yield name, entry.without("remove")
        elif entities.pop(name, None) is None:
            like = nearest(name, entities)
            phase.vain.append(flag.fault(f"there is no `{name}` to remove in phase `{phase.name}`{like}"))


def _environments(phase: Expanded) -> None:
    for uid, entry in _entries(phase, "environments", phase.environments):
        inherited, definition = phase.environments.get(uid), entry.map["environment"]
        if inherited is not None and not any(is_given(definition, key) for key in DEFINING):
            changed = _merge(inherited.map["environment"], definition, "params")
            phase.environments[uid] = _merge(inherited, entry, "clock", "topics").put("environment", changed)
            _recover(phase.environments, uid, inherited, entry)
            continue
        phase.environments[uid] = entry
        for key in ("reward", "state_transformer"):
            if inherited is not None and inherited.get(key) is not None and key not in entry.map:
                message = f"this full definition of `{uid}` drops its {key} of an earlier phase"
                phase.faults.append(definition.fault(message, "warning"))


def _agents(phase: Expanded) -> None:
    for name, entry in _entries(phase, "agents", phase.agents):
        inherited = phase.agents.get(name)
        merged = _merge(inherited, entry, "topics")
        for key in _LEARNT:
            if inherited is not None and key in entry.map:
                merged = merged.put(key, _named(inherited.map.get(key), entry.map[key]))
        phase.agents[name] = merged
        _recover(phase.agents, name, inherited, entry)


def is_given(node: Node, key: str) -> bool:
    """Return whether a form is given; `attach: false` and `command: ~` give none."""
    return key in node.map and node.map[key].value not in (None, False)


def _named(inherited: Node | None, given: Node) -> Node:
    """Return a `{name, params}` after the cascade: with a name it replaces, without one its params are merged."""
    whole = "name" in given.map or any(is_given(given, key) for key in DEFINING)
    return given if whole else _merge(inherited, given, "params")


def _merge(inherited: Node | None, given: Node, *inner: str) -> Node:
    """Return two maps merged key by key, as are the maps at `inner`; new keys come last."""
    if inherited is None or not isinstance(given.value, dict):
        return given
    merged = given.like({**inherited.map, **given.map}, {**inherited.keys, **given.keys})
    for key in inner:
        if key in inherited.map and key in given.map:
            merged = merged.put(key, _merge(inherited.map[key], given.map[key]))
    return merged


def _recover(entities: dict[str, Node], name: str, inherited: Node | None, given: Node) -> None:
    """Merge the `recovery` of a merged entry."""
    if inherited is not None and "recovery" in given.map:
        part = _merge(inherited.map.get("recovery"), given.map["recovery"], *INNER)
        entities[name] = entities[name].put("recovery", part)
