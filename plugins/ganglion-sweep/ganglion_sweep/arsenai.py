"""Experiment documents in the form of arsenAI: definitions by name, and a schedule with lists of levels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ganglion.cli.extension import Fault, Node, Tree, nearest, normalise, validate, walk
from ganglion_sweep.design import size
from ganglion_sweep.experiment import Experiment, Reader, composed, raised, settled_at, without_anchors
from ganglion_sweep.factor import Factor, Level
from ganglion_sweep.model import OLD_SECTIONS, OldForm

_LISTED = ("environments", "agents")  # whose levels are lists of names; those of the others are one name each
_SETS = ("sensors", "actuators")
_REQUEST = re.compile(r"\$req\(\s*([^()]*?)\s*(\)?)\s*\Z")


@dataclass
class _Phase:
    """Hold what the schedule gives for one phase: levels by key, and by key and agent for sensors and actuators."""

    name: str
    mark: Node
    node: Node
    levels: dict[str, list[Node]] = field(default_factory=dict)
    sets: dict[str, dict[str, list[Node]]] = field(default_factory=dict)


def read_old(tree: Tree, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a document with `definitions`; settings are paths in it.

    Raises:
        DocumentError: with every fault.
    """
    root = tree.root
    for path, value in map(composed, overrides):
        root = settled_at(root, path, value, run=False)
    root = without_anchors(root)
    for key, value in root.map.items():
        walk(root.keys[key], key)
        walk(value, key)
    faults = [*tree.faults, *validate(root, OldForm)]
    if faults:
        raise raised(faults)
    return _Reader(root, tree).read()


class _Reader(Reader):
    """Read a document of sound form."""

    def __init__(self, root: Node, tree: Tree) -> None:
        super().__init__(root)
        self.tree = tree
        self.definitions = root.map["definitions"].map
        self.phases: list[_Phase] = []
        self.factors: list[Factor] = []
        self.places: list[tuple[int, str, str | None]] = []  # of each factor: phase, key, agent

    def read(self) -> Experiment:
        """Return the experiment; DocumentError with all faults."""
        for entry in self.root.map["schedule"].items:
            if len(entry.map) != 1:
                self.faults.append(entry.fault("expected a map with one phase"))
                continue
            [(name, node)] = entry.map.items()
            self._phase(_Phase(name, entry.keys[name], node))
        repetitions = self.value("repetitions", 1)
        max_runs = self.value("max_runs", -1)
        max_runs = None if max_runs in (-1, None) else max_runs
        points = size([factor.axis or 1 for factor in self.factors])
        self.check_bounds("full", points, repetitions, max_runs)
        return Experiment(
            str(self.root.map["uid"].value),
            self.value("seed", 0),
            tuple(self.factors),
            self._assemble,
            self.tree.name,
            self.tree.folder,
            repetitions=repetitions,
            max_runs=max_runs,
            warnings=tuple(self.warnings),
        )

    # -- the schedule -------------------------------------------------------------------------------------------------
    def _phase(self, phase: _Phase) -> None:
        if not isinstance(phase.node.value, dict):
            self.faults.append(phase.mark.fault(f"expected a map with the keys of a phase, found {phase.node.found()}"))
            return
        if phase.name in [other.name for other in self.phases]:
            self.faults.append(phase.mark.fault(f"duplicate phase `{phase.name}`: names of phases are unique"))
        number = len(self.phases)
        self.phases.append(phase)
        for key, node in phase.node.map.items():
            mark = phase.node.keys[key]
            if key not in OLD_SECTIONS:
                self.faults.append(mark.fault(f"unknown key{nearest(key, OLD_SECTIONS)}"))
            elif key in _SETS:
                phase.sets[key] = self._sets(number, key, node)
            else:
                phase.levels[key] = node.items or [node]
                self._factor((number, key, None), mark, phase.levels[key])
                for level in phase.levels[key]:
                    self._check(number, key, level)
        missing = [key for key in _LISTED if number == 0 and key not in phase.levels]
        self.faults += [phase.mark.fault(f"missing key `{key}` in the first phase") for key in missing]

    def _sets(self, number: int, key: str, node: Node) -> dict[str, list[Node]]:
        if not isinstance(node.value, dict):
            self.faults.append(node.fault(f"expected a map agent -> list of sets, found {node.found()}"))
            return {}
        found = {}
        for agent, sets in node.map.items():
            if agent not in self._names("agents"):
                like = nearest(agent, self._names("agents"))
                self.faults.append(node.keys[agent].fault(f"there is no definition `{agent}` of agents{like}"))
            found[agent] = sets.items or [sets]
            self._factor((number, key, agent), node.keys[agent], found[agent])
            for level in found[agent]:
                self._check(number, key, level)
        return found

    def _factor(self, place: tuple[int, str, str | None], mark: Node, levels: Sequence[Node]) -> None:
        """Note a factor where there are several levels."""
        if len(levels) < 2:
            return
        number, key, agent = place
        name = ".".join([self.phases[number].name, key, *([agent] if agent else [])])
        labels = [level.plain() for level in levels]
        shown = [label[0] if isinstance(label, list) and len(label) == 1 else label for label in labels]
        made = tuple(Level(label, (), index) for index, label in enumerate(shown))
        self.factors.append(Factor(name, mark, (), made))
        self.places.append(place)

    def _names(self, key: str) -> list[str]:
        node = self.definitions.get(key)
        return [] if node is None else list(node.map)

    def _check(self, number: int, key: str, level: Node) -> None:
        """Check that a level names definitions that there are, and earlier phases."""
        if isinstance(level.value, list) and key not in _LISTED:
            self.faults.append(level.fault(f"expected the name of one definition, found {level.found()}"))
            return
        for node in level.items or [level]:
            if not isinstance(node.value, str):
                self.faults.append(node.fault(f"expected the name of a definition of {key}, found {node.found()}"))
            elif "$req" in node.value:
                self.request(node, number)
                found = _REQUEST.match(node.value)
                if found is not None and not found[2]:
                    self.warnings.append(node.fault("the closing bracket of $req( is missing", "warning"))
            elif node.value not in self._names(key):
                like = nearest(node.value, self._names(key))
                self.faults.append(node.fault(f"there is no definition `{node.value}` of {key}{like}"))

    def request(self, node: Node, number: int) -> tuple[int, int | None]:
        """Return phase and entry that a `$req` asks for; the entry is None where the whole level is meant."""
        found = _REQUEST.match(str(node.value))
        if found is None:
            self.faults.append(node.fault(f"expected $req(phase=..., index=...), found {node.found()}"))
            return 0, None
        given = dict(self._argument(node, part) for part in found[1].split(",") if part.strip())
        phase = given.get("phase", number - 1 if "$prev" in given else None)
        names = [other.name for other in self.phases[:number]]
        if isinstance(phase, str) and phase in names:
            phase = names.index(phase)
        if not isinstance(phase, int) or not 0 <= phase < number:
            self.faults.append(node.fault(f"expected an earlier phase in $req, found {node.found()}"))
            phase = 0
        index = given.get("index")
        return phase, index if isinstance(index, int) else None

    def _argument(self, node: Node, text: str) -> tuple[str, int | str]:
        key, _, value = (part.strip().strip("'\"") for part in text.partition("="))
        if key not in ("phase", "index", "$prev") or (key == "index" and not value.isdecimal()):
            self.faults.append(node.fault(f"expected `phase` and `index` in $req, found {text.strip()!r}"))
        return key, int(value) if value.isdecimal() else value

    # -- a run --------------------------------------------------------------------------------------------------------
    def _assemble(self, levels: Sequence[Level]) -> tuple[Node, list[Fault]]:
        chosen = {place: level.key for place, level in zip(self.places, levels, strict=True)}
        return _Run(self, chosen).document()


class _Run:
    """Make the run document of one choice of levels; nodes keep the places of their definitions."""

    def __init__(self, reader: _Reader, chosen: dict[tuple[int, str, str | None], int]) -> None:
        self.reader = reader
        self.chosen = chosen
        self.faults: list[Fault] = []
        self.names: list[dict[str, list[Node]]] = []  # of each phase: names of definitions by key
        self.sets: list[dict[str, dict[str, Node]]] = []  # likewise: name of a set by key and agent

    def document(self) -> tuple[Node, list[Fault]]:
        """Return the document in our spelling."""
        schedule = [self._phase(number, phase) for number, phase in enumerate(self.reader.phases)]
        root = self.reader.root
        entries = {
            "cascade": root.like("replace", {}),  # every phase is written out
            "schedule": root.map["schedule"].like(schedule),
            "run_config": self.reader.definitions["run_config"],
        }
        if "version" in root.map:
            entries["version"] = root.map["version"]
        done, faults = normalise(root.like(entries, {key: root.like(key, {}) for key in entries}))
        return done, [*self.faults, *faults]

    def _phase(self, number: int, phase: _Phase) -> Node:
        before = self.names[-1] if number else {}
        names = {key: self._level(number, key) for key in phase.levels}
        self.names.append({**before, **names})
        sets = {
            key: {agent: levels[self.chosen.get((number, key, agent), 0)] for agent, levels in given.items()}
            for key, given in phase.sets.items()
        }
        self.sets.append({**(self.sets[-1] if number else {}), **sets})
        names = self.names[number]
        environments = [self._environment(node) for node in names["environments"]]
        uids = [str(e.map["environment"].text("uid")) for e in environments if "environment" in e.map]
        entries = {
            "environments": phase.node.like(environments, {}),
            "agents": phase.node.like([self._agent(node, number, uids) for node in names["agents"]], {}),
        }
        for key in ("simulation", "phase_config"):
            if names.get(key):
                entries[key] = self._definition(key, names[key][0])
        node = phase.node.like(entries, {key: phase.node.keys.get(key, phase.mark).like(key, {}) for key in entries})
        return phase.mark.like({phase.name: node}, {phase.name: phase.mark})

    def _definition(self, key: str, node: Node) -> Node:
        return self.reader.definitions[key].map[str(node.value)]

    def _level(self, number: int, key: str) -> list[Node]:
        """Return the names of the level that was chosen, requests answered."""
        levels = self.reader.phases[number].levels[key]
        level = levels[self.chosen.get((number, key, None), 0)]
        names: list[Node] = []
        for node in level.items or [level]:
            if "$req" not in str(node.value):
                names.append(node)
                continue
            phase, index = self.reader.request(node, number)
            there = self.names[phase].get(key, [])
            if index is None:
                names += there
            elif index < len(there):
                names.append(there[index])
            else:
                name = self.reader.phases[phase].name
                self.faults.append(node.fault(f"phase `{name}` has {len(there)} {key} there, found the index {index}"))
        return names

    def _environment(self, name: Node) -> Node:
        """Return an entry of `environments`; a reward or transformer without a name is none."""
        node = self._definition("environments", name)
        empty = [k for k in ("reward", "state_transformer") if k in node.map and not _names_something(node.map[k])]
        return node.like({key: part for key, part in node.map.items() if key not in empty})

    def _agent(self, name: Node, number: int, uids: Sequence[str]) -> Node:
        node = self._definition("agents", name)
        entries, keys = dict(node.map), dict(node.keys)
        for key in _SETS:
            chosen = self.sets[number].get(key, {}).get(str(name.value))
            if chosen is not None:
                entries[key] = chosen.like(self._ids(key, chosen, uids), {})
                keys[key] = chosen.like(key, {})
        load = entries.get("load")
        names = {phase.name for phase in self.reader.phases}
        if load is not None and load.map and load.map.keys() <= names:  # by phase
            phase = self.reader.phases[number].name
            if phase in load.map:
                entries["load"] = load.map[phase]
            else:
                del entries["load"]
        return node.like(entries, keys)

    def _ids(self, key: str, name: Node, uids: Sequence[str]) -> list[Node]:
        """Return the full ids of a set, for the environments of the phase, each once."""
        given = self._definition(key, name).map
        ids: dict[str, Node] = {}
        for uid in uids:
            for node in given[uid].items or [given[uid]] if uid in given else []:
                text = str(node.value)
                full = text if text.startswith(f"{uid}.") else f"{uid}.{text}"
                ids.setdefault(full, node.like(full, {}))
        return list(ids.values())


def _names_something(node: Node) -> bool:
    return isinstance(node.value, str) or node.map.get("name", node).value not in ("", None)
