"""An experiment document, read: its factors, its design, its seeds, and how a point becomes a run document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, TypeAlias

from ganglion.cli.extension import (
    DocumentError,
    Fault,
    Node,
    Nowhere,
    Source,
    Tree,
    compose,
    nearest,
    normalise,
    path_of,
    put,
    read_tree,
    registry,
    report,
    settle,
    validate,
    walk,
)
from ganglion_sweep.design import CANDIDATES_MAX, size
from ganglion_sweep.factor import Factor, Level, read_factor, same
from ganglion_sweep.model import ExperimentForm

Assemble: TypeAlias = Callable[[Sequence[Level]], "tuple[Node, list[Fault]]"]

COLUMNS = ("run", "row", "repetition", "seed")  # of the table of the design, before those of the factors
RUNS_MAX = 100_000  # a file, a folder and a row each; beyond it the store and the file system are the bottleneck
CORNERS = ("fractional", "box-behnken", "ccd")  # have as many points as follow from their factors
SIZED = (*CORNERS, "sensitivity")
_OURS = ("full", "list")


@dataclass(frozen=True)
class Experiment:
    """Hold an experiment without faults.

    `assemble` returns the run document of a choice of levels, one per factor, in our spelling. `rows` are the points of
    the design `list`, as numbers of levels. Paths in the run document begin at `folder`.
    """

    uid: str
    seed: int
    factors: tuple[Factor, ...]
    assemble: Assemble
    source: str
    folder: str
    design: str = "full"
    params: dict[str, Any] = field(default_factory=dict)
    rows: tuple[tuple[int, ...], ...] = ()
    samples: int = 0
    repetitions: int = 1
    seeds: tuple[int, ...] = ()
    pairing: bool = True
    max_runs: int | None = None
    search: dict[str, Any] | None = None
    warnings: tuple[Fault, ...] = ()


def raised(faults: Sequence[Fault]) -> DocumentError:
    """Return the error of faults."""
    faults = settle(faults)
    return DocumentError(report(faults), faults)


def composed(setting: str) -> tuple[list[str], Node]:
    """Return path and value of a `PATH=VALUE` setting; DocumentError with its faults."""
    source = Source(f"--set {setting}", inline=True)
    here = Node(None, source)
    path, equals, text = setting.partition("=")
    if not equals:
        raise raised([here.fault("expected PATH=VALUE")])
    value, faults = compose(source, text)
    if faults:
        raise raised(faults)
    try:
        return path_of(path), here if value is None else value
    except ValueError as error:
        raise raised([here.fault(str(error))]) from error


def read_own(tree: Tree, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a document in our own form.

    Settings name keys of the experiment, or paths in its run document (`run.` before them may be left out).

    Raises:
        DocumentError: with every fault.
    """
    settings = [composed(setting) for setting in overrides]
    root, within = tree.root, []
    for path, value in settings:
        if path[0] in ExperimentForm.model_fields and not (path[0] == "run" and len(path) > 1):
            root = settled_at(root, path, value, run=False)
        else:
            within.append((path[1:] if path[0] == "run" else path, value))
    root = _prepared(root)
    faults = [*tree.faults, *validate(root, ExperimentForm)]
    base, folder, more = _base(root.map.get("run"), tree)
    for path, value in within if base is not None else ():
        assert base is not None
        base = normalise(settled_at(base, path, value))[0]
    faults += more
    if base is None or faults:
        if base is not None:  # what is missing may be a factor's
            faults += [f for f in validate(base) if not f.message.startswith("missing key")]
        raise raised(faults)
    return _Reader(root, base, folder, tree.name).read()


def settled_at(root: Node, path: Sequence[str], value: Node, run: bool = True) -> Node:
    """Return a document with a value at a path; DocumentError if nothing can stand there."""
    try:
        done: Node = put(root, path, value) if run else put(root, path, value, None)
    except Nowhere as error:
        raise raised([value.fault(str(error), path="")]) from error
    return done


def without_anchors(root: Node) -> Node:
    """Return a document without its keys for anchors."""
    done: Node = root.like({key: value for key, value in root.map.items() if not key.startswith("x-")})
    return done


def _prepared(root: Node) -> Node:
    """Return the document with paths, without keys for anchors, and with a design that is a map."""
    entries = dict(without_anchors(root).map)
    design = entries.get("design")
    if design is not None and isinstance(design.value, str):
        name = design.like(design.value)
        entries["design"] = design.like({"name": name}, {"name": name})
    for key, value in entries.items():
        walk(root.keys[key], key)
        if key != "run" or not value.map:
            walk(value, key)
    done: Node = root.like(entries)
    return done


def _base(node: Node | None, tree: Tree) -> tuple[Node | None, str, list[Fault]]:
    """Return the run document in our spelling, and the folder at which its paths begin."""
    if node is None or not isinstance(node.value, str | dict) or not node.value:
        return None, "", []  # the form says it
    folder, faults = tree.folder, []
    if isinstance(node.value, str):
        path = File(tree.name).parent / node.value
        if not path.is_file():
            return None, "", [node.fault(f"there is no file {path}")]
        try:
            other = read_tree(path)
        except DocumentError as error:
            return None, "", list(error.faults)
        node, folder, faults = other.root, other.folder, other.faults
    base, more = normalise(node)
    return base, folder, [*faults, *more]


class Reader:
    """Read a document of sound form: collect what is wrong with it, and what is warned of."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def value(self, key: str, default: Any) -> Any:
        """Return the value of a key."""
        node = self.root.map.get(key)
        return default if node is None else node.plain()

    def mark(self, key: str) -> Node:
        """Return where something is said about a key, the document's name where it is not given."""
        keys: dict[str, Node] = self.root.keys
        return keys.get(key) or keys["uid"]

    def check_bounds(self, design: str, points: int, repetitions: int, max_runs: int | None) -> None:
        """Check how many runs there are; DocumentError with all faults if there are any."""
        self.faults += bounded(self.mark("max_runs"), design, points, repetitions, max_runs)
        self.check_faults()

    def check_faults(self) -> None:
        """Raise DocumentError with all faults if there are any."""
        if self.faults:
            raise raised([*self.faults, *self.warnings])


class _Reader(Reader):
    """Read an experiment of sound form."""

    def __init__(self, root: Node, base: Node, folder: str, source: str) -> None:
        super().__init__(root)
        self.base = base
        self.folder = folder
        self.source = source
        design = root.map.get("design")
        self.design: str = (design.plain().get("name") if design is not None else None) or "full"
        self.search: Node | None = root.map.get("search")

    def read(self) -> Experiment:
        """Return the experiment; DocumentError with all faults."""
        self._check_design()
        rows = self._rows()
        factors = self._factors(rows)
        samples = self._samples()
        repetitions, seeds = self._repetitions()
        self.check_faults()
        numbers = self._numbered(rows, factors)
        self.check_faults()
        max_runs = self.value("max_runs", None)
        self.check_bounds(self.design, self._points(factors, numbers, samples), repetitions, max_runs)
        design = self.root.map.get("design")
        return Experiment(
            str(self.root.map["uid"].value),
            int(self.root.map["seed"].plain()),
            tuple(factors),
            self._assemble,
            self.source,
            self.folder,
            self.design,
            {} if design is None else design.plain().get("params", {}),
            numbers,
            samples,
            repetitions,
            seeds,
            self.value("pairing", True),
            max_runs,
            None if self.search is None else self.search.plain(),
            tuple(self.warnings),
        )

    def _given(self) -> dict[str, Node]:
        node = self.root.map.get("factors")
        return {} if node is None else node.map

    # -- the design ---------------------------------------------------------------------------------------------------
    def _check_design(self) -> None:
        if self.search is not None:
            self._check_search(self.search)
            return
        if self.design in _OURS:
            return
        node = self.root.map["design"].map["name"]
        known = [*_OURS, *(entry.name for entry in registry.entries("design"))]
        if not ({":", "."} & set(self.design)) and self.design not in known:
            self.faults.append(
                node.fault(
                    f"there is no design `{self.design}`{nearest(self.design, known)}; there are {', '.join(known)}"
                )
            )
        elif not self._given():
            self.faults.append(node.fault("a sampled design needs factors, found none"))

    def _check_search(self, node: Node) -> None:
        for key in ("design", "rows", "samples", "max_runs"):
            if key in self.root.map:
                self.faults.append(
                    self.mark(key).fault(f"`{key}` has no place beside `search`, which tries its own points")
                )
        if not self._given():
            self.faults.append(self.mark("search").fault("a search needs factors, found none"))
        form = node.plain()
        objective = node.map["objective"]
        if not str(objective.value).startswith("return."):
            self.faults.append(objective.fault(f"expected `return.<agent>`, found {objective.found()}"))
        repeated_ = self.root.map.get("repetitions")
        if form.get("pruner") and repeated_ is not None and repeated_.plain() > 1:
            self.faults.append(
                node.keys["pruner"].fault("each run is cut on its own: expected no `repetitions` beside")
            )

    def _samples(self) -> int:
        if self.search is not None:
            return int(self.search.plain()["trials"])
        node = self.root.map.get("samples")
        if self.design in (*_OURS, *CORNERS):
            if node is not None:
                text = f"`samples` is for sampled designs (random, lhs, sobol); the design is `{self.design}`"
                self.faults.append(self.mark("samples").fault(text))
            return 0
        if node is None:
            if self.faults:
                return 0  # without a design that is known, none is missed
            self.faults.append(
                self.mark("design").fault(f"missing key `samples`: how many points has the design `{self.design}`?")
            )
            return 0
        return int(node.plain())

    def _rows(self) -> list[Node]:
        """Return the rows of the design `list`; each has each factor."""
        design = self.root.map.get("design")
        places = [part for part in (design, self.root) if part is not None and "rows" in part.map]
        if self.design != "list":
            for place in places:
                self.faults.append(place.keys["rows"].fault(f"`rows` is for the design `list`, not `{self.design}`"))
            return []
        if len(places) != 1:
            text = "missing key `rows`: the points, each a map factor -> value" if not places else "`rows` stands twice"
            self.faults.append(self.mark("rows" if places else "design").fault(text))
            return []
        rows, known = places[0].map["rows"].items, self._given()
        for row in rows:
            for name, mark in row.keys.items():
                if name not in known:
                    self.faults.append(mark.fault(f"there is no factor `{name}`{nearest(name, known)}"))
            for name in known.keys() - row.keys.keys():
                self.faults.append(row.fault(f"missing factor `{name}`: each point has each factor"))
        return rows

    def _numbered(self, rows: Sequence[Node], factors: Sequence[Factor]) -> tuple[tuple[int, ...], ...]:
        """Return rows as numbers of levels; the same one twice is a fault."""
        numbers: dict[tuple[int, ...], Node] = {}
        for row in rows:
            keys = [[same(level.label) for level in factor.levels or ()] for factor in factors]
            key = tuple(k.index(same(row.map[f.name].plain())) for k, f in zip(keys, factors, strict=True))
            if key in numbers:
                self.faults.append(row.fault(f"the point of line {numbers[key].line + 1} comes twice"))
            numbers[key] = row
        return tuple(numbers)

    def _points(self, factors: list[Factor], rows: Sequence[Any], samples: int) -> int:
        if self.search is not None:
            return samples
        if self.design == "full":
            factors[:] = [factor.stepped() for factor in factors]
            return size([factor.axis or 1 for factor in factors])
        return len(rows) if self.design == "list" else max(samples, 1)  # of those with a size of their own: seen later

    # -- factors ------------------------------------------------------------------------------------------------------
    def _factors(self, rows: Sequence[Node]) -> list[Factor]:
        factors: list[Factor] = []
        taken: dict[tuple[str, ...], str] = {}
        for name, node in self._given().items():
            mark = self.root.map["factors"].keys[name]
            if name in COLUMNS or not name.isprintable() or not name:
                self.faults.append(mark.fault(f"expected another name than {', '.join(COLUMNS)}, found {name!r}"))
                continue
            if self.design == "list":
                node = self._listed(name, node, rows)
            factor, faults = read_factor(name, mark, node, self.design == "full" and self.search is None)
            self.faults += faults
            if factor is None:
                continue
            if factor.normal is not None and self.design in CORNERS:
                self.faults.append(
                    mark.fault(f"the design `{self.design}` goes to the ends of ranges, and this has none")
                )
            self._check_paths(factor, mark, taken)
            factors.append(factor)
        return factors

    def _listed(self, name: str, node: Node, rows: Sequence[Node]) -> Node:
        """Return a factor of the design `list`: its levels are the values of the rows."""
        known = {same(item.plain()) for item in node.map["levels"].items} if "levels" in node.map else None
        values: dict[str, Node] = {}
        for row in rows:
            item = row.map.get(name)
            if item is None:
                continue
            key = same(item.plain())
            values.setdefault(key, item)
            if known is not None and key not in known:
                self.faults.append(item.fault(f"expected one of the levels of `{name}`, found {item.found()}"))
        levels = node.like(list(values.values()), {})
        kept = {key: part for key, part in node.map.items() if key not in ("levels", "range", "normal")}
        keys = {**node.keys, "levels": node.keys.get("levels", node)}
        return node.like({**kept, "levels": levels}, keys)

    def _check_paths(self, factor: Factor, mark: Node, taken: dict[tuple[str, ...], str]) -> None:
        """Check that each path leads somewhere, and that no other factor sets the same."""
        paths = [*factor.paths, *(path for level in factor.levels or () for path, _ in level.settings)]
        for path in dict.fromkeys(paths):
            if path in taken:
                self.faults.append(mark.fault(f"the factor `{taken[path]}` sets {'.'.join(path)} too"))
            taken[path] = factor.name
            try:
                put(self.base, path, mark)
            except Nowhere as error:
                self.faults.append(self._place(factor, path, mark).fault(f"{'.'.join(path)}: {error}"))

    def _place(self, factor: Factor, path: tuple[str, ...], mark: Node) -> Node:
        """Return the node at which a path of a factor is written."""
        node = self._given()[factor.name]
        places = list(node.map["set"].items or [node.map["set"]]) if "set" in node.map else []
        if "levels" in node.map:
            places += [key for item in node.map["levels"].items for key in item.keys.values()]
        return next((p for p in places if isinstance(p.value, str) and _is(p.value, path)), mark)

    # -- repetitions --------------------------------------------------------------------------------------------------
    def _repetitions(self) -> tuple[int, tuple[int, ...]]:
        seeds = self.root.map.get("seeds")
        if seeds is not None and "repetitions" in self.root.map:
            self.faults.append(self.mark("seeds").fault("`seeds` stands instead of `repetitions`: give one of them"))
        if seeds is None:
            return int(self.value("repetitions", 1)), ()
        if self.value("pairing", True) is False:
            self.warnings.append(self.mark("pairing").fault("`pairing: false` has no effect beside `seeds`", "warning"))
        self.faults += repeated(seeds)
        return len(seeds.items), tuple(seeds.plain())

    # -- a run --------------------------------------------------------------------------------------------------------
    def _assemble(self, levels: Sequence[Level]) -> tuple[Node, list[Fault]]:
        root = self.base
        for path, value in (setting for level in levels for setting in level.settings):
            root = put(root, path, value)
        if "version" in self.root.map and "version" not in root.map:
            root = put(root, ["version"], self.root.map["version"])
        return normalise(root)


def _is(text: str, path: tuple[str, ...]) -> bool:
    try:
        return tuple(path_of(text)) == path
    except ValueError:
        return False


def repeated(seeds: Node) -> list[Fault]:
    """Return a fault for each seed that stands twice in a list."""
    plain = seeds.plain()
    return [
        item.fault(f"the seed {item.value} comes twice")
        for n, item in enumerate(seeds.items)
        if item.value in plain[:n]
    ]


def bounded(mark: Node, design: str, points: int, repetitions: int, max_runs: int | None) -> list[Fault]:
    """Return what is wrong with the number of runs; a full design above `max_runs` is thinned."""
    runs = points * repetitions
    if max_runs is not None and repetitions > max_runs:
        return [mark.fault(f"`max_runs` is {max_runs}, and one point alone has {repetitions} repetitions")]
    if max_runs is not None and runs > max_runs and design != "full":
        text = f"`max_runs` is {max_runs}, found {points} points times {repetitions} repetitions"
        return [mark.fault(f"{text}; only a full design is thinned")]
    if min(runs, max_runs or runs) > RUNS_MAX:
        return [mark.fault(f"expected at most {RUNS_MAX} runs, found {min(runs, max_runs or runs)}; see `max_runs`")]
    if points > CANDIDATES_MAX:
        text = f"expected at most {CANDIDATES_MAX} combinations of levels, found {points}"
        return [mark.fault(f"{text}; a sampled design (random, lhs, sobol) takes any number")]
    return []


def read_experiment(source: str, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a document; `-` is standard input. Settings `PATH=VALUE` are put in before all checks.

    Raises:
        DocumentError: with every fault and its place.
    """
    tree = read_tree(source)
    if "definitions" in tree.root.map and "run" not in tree.root.map:
        from ganglion_sweep.arsenai import read_old

        return read_old(tree, overrides)
    if "schedule" in tree.root.map and "run" not in tree.root.map:
        fault = tree.root.keys["schedule"].fault("this is one run, no experiment: `ganglion run` carries it out")
        raise raised([fault])
    return read_own(tree, overrides)
