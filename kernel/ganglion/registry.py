"""The table of plugin groups; plugins by entry point, loaded late, checked; faults name the distribution."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from ganglion.errors import PluginInvalid
from ganglion.run.plan import Plan, PluginPlan
from ganglion.sdk.naming import nearest


@dataclass(frozen=True, slots=True)
class _Group:
    """Describe a group of plugins: its entry points, their base class, and the noun for a plugin."""

    entry_points: str
    base: str  # `module:Class` of the base class; empty if entries are no classes
    noun: str


GROUPS: dict[str, _Group] = {
    "environment": _Group("ganglion.environments", "ganglion.sdk:Environment", "environment"),
    "muscle": _Group("ganglion.muscles", "ganglion.sdk:Muscle", "muscle"),
    "brain": _Group("ganglion.brains", "ganglion.sdk:Brain", "brain"),
    "objective": _Group("ganglion.objectives", "ganglion.sdk:Objective", "objective"),
    "reward": _Group("ganglion.rewards", "ganglion.sdk:Reward", "reward"),
    "transformer": _Group("ganglion.transformers", "ganglion.sdk:StateTransformer", "state transformer"),
    "filter": _Group("ganglion.filters", "ganglion.sdk:Filter", "filter"),
    "controller": _Group("ganglion.controllers", "ganglion.sdk:Controller", "controller"),
    "bodies": _Group("ganglion.bodies", "ganglion.sdk:Controller", "controller of phases with bodies"),
    "condition": _Group("ganglion.conditions", "ganglion.sdk:TerminationCondition", "condition"),
    "observer": _Group("ganglion.observers", "ganglion.sdk:Observer", "observer"),
    "store": _Group("ganglion.stores", "ganglion.sdk.store:Store", "store"),
    "launcher": _Group("ganglion.launchers", "ganglion.sdk:Launcher", "launcher"),
    "table": _Group("ganglion.tables", "ganglion.sdk:Pool", "table"),
    "replay": _Group("ganglion.replays", "", "replay of recordings"),
    "document": _Group("ganglion.documents", "", "document"),
    "design": _Group("ganglion.designs", "", "design of experiments"),
    "schema": _Group("ganglion.schemas", "", "schema"),
    "command": _Group("ganglion.commands", "", "command"),
    "python": _Group("ganglion.python", "", "part of `import ganglion`"),
    "companion": _Group("ganglion.companions", "", "companion of a command"),
    "tracer": _Group("ganglion.tracers", "", "tracer"),
    "alias": _Group("ganglion.aliases", "", "table of aliases"),
}

KERNEL = "ganglion"
"""The distribution of the kernel; documents cannot name its classes by path."""

STANDARD = "pip install 'ganglion[standard]', or in a checkout pip install . ./plugins/ganglion-*"

_GYMNASIUM_ID = re.compile(r"([\w.-]+/)?[\w.-]+-v\d+", re.ASCII)
_PATH = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*)[:.](?P<name>[^\W\d]\w*)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """Name one plugin: its distribution, and its object `module:Class`, which is not imported.

    `distribution` is empty for a module that no distribution owns.
    """

    name: str
    group: str
    distribution: str
    version: str
    value: str
    summary: str = ""

    @property
    def origin(self) -> str:
        """Return `distribution version`, or the object's name if no distribution ships it."""
        return f"{self.distribution} {self.version}".strip() or self.value


def _top(name: str) -> str:
    """Return the first part of an import path."""
    return re.split(r"[.:]", name)[0]


def _normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _header(distribution: importlib.metadata.Distribution) -> dict[str, str]:
    """Return name, version and summary of a distribution; `.metadata` would import the `email` package for that."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    lines = text.partition("\n\n")[0].splitlines()
    found = {key: value.strip() for key, colon, value in (line.partition(":") for line in lines) if colon}
    return {"Name": "unknown", "Version": "0", **found}


@functools.cache
def _version(distribution: str) -> str:
    return _header(importlib.metadata.distribution(distribution))["Version"]


@functools.cache
def _table() -> dict[str, list[Entry]]:
    """Return every entry point of `GROUPS`, in order of name and distribution; a distribution counts once."""
    known = {group.entry_points: key for key, group in GROUPS.items()}
    found: dict[str, list[Entry]] = {key: [] for key in GROUPS}
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        text = distribution.read_text("entry_points.txt")
        if text is None or "[ganglion." not in text:
            continue
        header = _header(distribution)
        name = _normal(header["Name"])
        if name in seen:
            continue  # imports find the first one on the path
        seen.add(name)
        told = header["Version"], header.get("Summary", "")
        for point in distribution.entry_points:
            if point.group in known:
                group = known[point.group]
                found[group].append(Entry(point.name, group, name, told[0], point.value, told[1]))
    return {key: sorted(rows, key=lambda e: (e.name, e.distribution)) for key, rows in found.items()}


def entries(group: str) -> list[Entry]:
    """Return the plugins of a group of `GROUPS`, importing none of them."""
    return list(_table()[group])


def _listed(variable: str) -> set[str]:
    """Return the names in an environment variable, separated by commas."""
    return {part.strip() for part in os.environ.get(variable, "").split(",")} - {""}


def _blocked(entry: Entry) -> bool:
    """Return whether the operator has blocked a plugin, by short name or by distribution."""
    return bool(_listed("GANGLION_BLOCK") & {entry.name, entry.distribution, f"{entry.distribution}:{entry.name}"})


@dataclass(frozen=True, slots=True)
class Alias:
    """Describe the meaning of another project's name.

    `params` has the changes of the constructor's arguments (see `alias`), `customs` is the whole table with the name,
    `origin` is the distribution that ships the table.
    """

    name: str
    params: Mapping[str, str]
    customs: Mapping[str, Any]
    origin: str


def _foreign(name: str) -> str:
    """Return a foreign name as tables spell it: with a colon before the class."""
    return name if ":" in name else ":".join(name.rsplit(".", 1))


def _tables() -> Iterator[tuple[Entry, Mapping[str, Any]]]:
    """Yield the tables of the alias plugins; their modules hold data and import nothing."""
    for entry in entries("alias"):
        if not _blocked(entry):
            yield entry, _object(entry)


def alias(kind: str, name: str) -> Alias | None:
    """Return the meaning of another project's name; None if no alias plugin knows a plugin of this kind by it.

    For the kind `hosted` the result names a class that is played unmodified, and `origin` its distribution.

    The object of an entry in `ganglion.aliases` is a map of plain values, in a module that imports nothing:

    - `names`: kind -> foreign name (`module:Class`; documents may write a dot) -> our short name; of the kind `switch`:
      a key of documents, which says `real` if all names there are of the other project's own classes -> the
      distribution of the table;
    - `params`: foreign name -> argument -> `[]` (a single value becomes a list of one) or the argument's name here;
    - `prefixes`: packages all of whose names are foreign: never import paths; a misspelt one gets the nearest name;
    - `versions`: values `major.minor` of a document's `version` that give no warning;
    - `moves`: rows of part of an agent, argument of its constructor, key of the agent that replaces the argument;
    - `ignored`: place in a document -> key -> why the key has no effect here;
    - `hosted`: package -> distribution to install: a name of the package that `names` lacks is a class of the other
      project, which is played unmodified; so is every name after `<distribution of the table>:`;
    - `host`: `module:function` that returns for a kind and such a class a class of Ganglion's, or raises TypeError;
    - `imports`: package -> modules that a run with such a class of the package needs, `""` for any package: imported
      once, before processes are forked; these modules start no thread;
    - `limits`: kind -> what such a class cannot do here, the end of the note "as it is, but ...".

    `versions`, `moves` and `ignored` apply to documents with at least one of the names.
    """
    foreign = _foreign(name)
    if kind == "hosted":
        found = _hosted(name)
        return None if found is None else Alias(found[0], {}, found[2], " ".join(found[1]))
    for entry, table in _tables():
        short = table["names"].get(kind, {}).get(foreign)
        if short is not None:
            return Alias(short, table.get("params", {}).get(foreign, {}), table, entry.origin)
    return None


def _foreign_table(name: str) -> Mapping[str, Any] | None:
    """Return the alias plugin's table of the package of a name; None if no table has the package."""
    return next((table for _, table in _tables() if _top(name) in table.get("prefixes", ())), None)


def _hosted(name: str) -> tuple[str, tuple[str, ...], Mapping[str, Any]] | None:
    """Return import path, distribution with version, and table of the other project's class of a name."""
    for entry, table in _tables():
        path = name.removeprefix(f"{entry.distribution}:")
        if _PATH.match(path) is None:
            continue
        ours = path == name and any(_foreign(name) in names for names in table["names"].values())
        whose = table.get("hosted", {}).get(_top(path))
        if not ours and (path != name or whose) and importlib.util.find_spec(_top(path)):
            return path, (whose, _version(whose)) if whose else (), table
    return None


def shared_imports(plan: Plan) -> list[str]:
    """Return the modules to import once for all processes of a plan, by alias plugins; nothing is imported."""
    found: dict[str, None] = {}
    for name in dict.fromkeys(plugin.name for _, plugin, _ in _named(plan)):
        path, _, table = _hosted(name) or ("", (), {})
        for package in ("", _top(path)):
            found |= dict.fromkeys(table.get("imports", {}).get(package, ()))
    return list(found)


def _offered(kind: str, name: str) -> list[Entry]:
    """Return the plugins of a kind that `short` or `distribution:short` names."""
    distribution, _, short = name.rpartition(":")
    wanted = _normal(distribution)
    return [e for e in entries(kind) if e.name == short and (not distribution or e.distribution == wanted)]


def find(kind: str, name: str) -> Entry:
    """Return the plugin of a short name, or of `distribution:short` where two distributions offer the same one.

    A name of another project that an alias plugin knows counts as the short name of its meaning.

    Raises:
        PluginInvalid: There is no such plugin (with the nearest name, or the distribution to install), or several.
    """
    noun = GROUPS[kind].noun
    ours = alias(kind, name) if re.search(r"[.:]", name) else None
    if ours is not None:
        return find(kind, ours.name)
    found = _offered(kind, name)
    if len(found) > 1:
        ways = " or ".join(f"`{e.distribution}:{e.name}`" for e in found)
        raise PluginInvalid(f"{noun} `{name}` is offered by {len(found)} distributions: write {ways}", name)
    if not found:
        raise PluginInvalid(f"there is no {noun} `{name}`{_advice(kind, name)}", name)
    if _blocked(found[0]):
        raise PluginInvalid(f"{noun} `{name}` of {found[0].origin} is blocked by GANGLION_BLOCK", name)
    return found[0]


def _advice(kind: str, name: str) -> str:
    """Return the nearest plugin's name, or how to install more plugins."""
    if not any(entry.distribution != KERNEL for rows in _table().values() for entry in rows):
        return f"; the kernel is installed without plugins; install those that belong to it: {STANDARD}"
    table = _foreign_table(name)
    if table is not None:
        others = [GROUPS[k].noun for k, names in table["names"].items() if _foreign(name) in names][:1]
        near = nearest(_foreign(name), table["names"].get(kind, {}))
    elif kind == "environment" and _GYMNASIUM_ID.fullmatch(name):
        return f"; one of Gymnasium is {{name: gymnasium, params: {{id: {name}}}}}"
    else:
        others = [g.noun for other, g in GROUPS.items() if g.base and name in {e.name for e in entries(other)}]
        near = nearest(name, [entry.name for entry in entries(kind)])
        near = near or f"; `ganglion plugins {kind}s` lists the installed ones, {STANDARD} installs more"
    return f": it is of kind {' and '.join(others)}" if others else near


def plays(environment: str) -> bool:
    """Return whether an environment plays recorded episodes: a plugin of the group `replay` has its name."""
    return bool(_offered("environment", environment)) and bool(_offered("replay", environment))


def locate(kind: str, name: str, folder: str = "", allow: Sequence[str] = (), local: bool = True) -> Entry:
    """Return the plugin of a document's name, a short name or an import path; nothing is imported.

    Args:
        kind: A key of `GROUPS`.
        name: `short`, `distribution:short`, `module:Class` or `module.Class`; also a name of an alias plugin.
        folder: The document's folder, whose modules an import path may name; empty: none.
        allow: Further packages that an import path may name, besides those of `GANGLION_ALLOW`.
        local: Whether the document is a local user's own; others may not name import paths.

    Raises:
        PluginInvalid: There is no such plugin, or the path may not be imported.
    """
    short = not re.search(r"[.:]", name) or bool(_offered(kind, name))
    hosted = None if short else _hosted(name)
    if short or (hosted is None and (_foreign_table(name) or alias(kind, name))):
        return find(kind, name)
    path = _PATH.match(name if hosted is None else hosted[0])
    if path is None:
        raise PluginInvalid(f"expected a short name or an import path `module:Class`, found {name!r}", name)
    if not local:
        message = f"import path {name!r}: a document that came over the network names plugins by short name only"
        raise PluginInvalid(message, name)
    if path["name"].startswith("_") or any(part.startswith("_") for part in path["module"].split(".")):
        raise PluginInvalid(f"import path {name!r}: names with a leading underscore are private", name)
    top = path["module"].partition(".")[0]
    owner = hosted[1] if hosted and hosted[1] else _owner(top, folder, allow)
    if owner is None:
        raise PluginInvalid(_unknown(top, folder), name)
    return Entry(name, kind, owner[0], owner[1], f"{path['module']}:{path['name']}")


def _unknown(top: str, folder: str) -> str:
    """Return why a module is refused: it does not exist, or is neither beside the document nor allowed."""
    hint = nearest(top, [place.stem for place in Path(folder).glob("*") if _beside(place.stem, folder)])
    if top.isidentifier() and importlib.util.find_spec(top) is None:
        known = next((table["hosted"][top] for _, table in _tables() if top in table.get("hosted", {})), None)
        hint = f"; pip install {known}" if known else hint
        return f"there is no module {top!r} beside the document, and no package of that name is installed{hint}"
    return f"package {top!r} is not allowed (name a plugin, or --allow it if you trust it){hint}"


def _owner(top: str, folder: str, allow: Iterable[str]) -> tuple[str, str] | None:
    """Return (distribution, version) of an allowed package, empty texts without a distribution; None: not allowed."""
    if _beside(top, folder) is not None:
        return "", ""
    owner = _shipped(top)
    if owner is not None:
        return owner.distribution, owner.version
    return ("", "") if top in _listed("GANGLION_ALLOW").union(allow) else None


def _shipped(top: str) -> Entry | None:
    """Return a plugin of the distribution that ships a package; None if the distribution has no plugins."""
    found = (entry for rows in _table().values() for entry in rows if _top(entry.value) == top)
    return next((entry for entry in found if entry.distribution != KERNEL), None)


def _beside(top: str, folder: str) -> Path | None:
    """Return the file of a module in a document's folder; names of the standard library never count."""
    if not folder or top in sys.stdlib_module_names or not top.isidentifier():
        return None
    places = (Path(folder, f"{top}.py"), Path(folder, top, "__init__.py"))
    return next((place for place in places if place.is_file()), None)


def _import(module: str, folder: str) -> ModuleType:
    """Import a module; a module beside the document is loaded from there and can import its neighbours."""
    top = module.partition(".")[0]
    place = _beside(top, folder)
    if place is None:
        return importlib.import_module(module)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that modules there shadow nothing that is installed
    loaded = sys.modules.get(top)
    if loaded is None:
        spec = PathFinder.find_spec(top, [folder])
        if spec is None or spec.loader is None:
            raise ImportError(f"{place} cannot be read as a module")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[top] = loaded
        try:
            spec.loader.exec_module(loaded)
        except BaseException:
            del sys.modules[top]
            raise
    elif Path(str(getattr(loaded, "__file__", None))).resolve() != place.resolve():
        raise ImportError(f"{place} has the name of a module that is imported already: rename it")
    return importlib.import_module(module)


def load(kind: str, name: str, folder: str = "", allow: Sequence[str] = ()) -> Any:
    """Import a plugin and return its class (for a group without base class: the object).

    Call this in the process that hosts the plugin, never in supervisor, broker or command line.

    Raises:
        PluginInvalid: Not found, not importable, not a class of the group's kind, or abstract; it names the
            distribution and version.
    """
    entry = locate(kind, name, folder, allow)
    target = _object(entry, folder)
    if GROUPS[kind].base:
        target = _adapted(entry, target)
        _check_class(entry, target, GROUPS[kind].base)
    return target


def _adapted(entry: Entry, target: Any) -> Any:
    """Return a class of another project as one of Ganglion's; any other object unchanged."""
    for _, table in _tables() if inspect.isclass(target) else ():
        if "host" in table and not _top(entry.value).startswith("ganglion"):
            if any(_top(cls.__module__) in table["prefixes"] for cls in target.__mro__):
                try:
                    return pkgutil.resolve_name(table["host"])(entry.group, target)
                except TypeError as error:
                    raise _invalid(entry, str(error)) from error
    return target


def _object(entry: Entry, folder: str = "") -> Any:
    module, _, attribute = entry.value.partition(":")
    try:
        return functools.reduce(getattr, attribute.split("."), _import(module, folder))
    except (ImportError, AttributeError) as error:
        near = nearest(attribute, dir(error.obj)) if isinstance(error, AttributeError) else ""
        raise _invalid(entry, f"cannot be imported: {error}{near}") from error


def _invalid(entry: Entry, message: str) -> PluginInvalid:
    whose = f" ({entry.value}, of {entry.origin})" if entry.distribution else ""
    text = f"{GROUPS[entry.group].noun} `{entry.name}`{whose} {message}"
    return PluginInvalid(text, plugin=entry.name, distribution=f"{entry.distribution} {entry.version}".strip() or None)


def _check_class(entry: Entry, target: Any, base: str) -> None:
    """Refuse an object that is no class of the group's kind, or has abstract methods."""
    module, _, name = base.partition(":")
    wanted = getattr(importlib.import_module(module), name)
    if not inspect.isclass(target):
        raise _invalid(entry, f"is no class but {type(target).__name__}: expected a subclass of {name}")
    if not issubclass(target, wanted):
        raise _invalid(entry, f"is not a subclass of {name}")
    if inspect.isabstract(target):
        lacking = ", ".join(sorted(getattr(target, "__abstractmethods__", ())))
        raise _invalid(entry, f"is abstract: it lacks {lacking}")


def distribution_of(cls: type[Any]) -> str | None:
    """Return `distribution version` of the plugin distribution that ships a class; None without one."""
    owner = _shipped(_top(cls.__module__))
    return None if owner is None else owner.origin


def deep_check(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Import every class of a plan and check kind, abstractness and parameters; return the faults as maps.

    Call this in a child process, since importing runs authors' code.

    Args:
        plan: As `Plan.to_map` gives it.
    """
    from ganglion.sdk.part import Part, check_parameters  # the sdk needs numpy, which the command line must not import

    faults: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, plugin, params in _named(Plan.from_map(dict(plan))):
        try:
            target = load(kind, plugin.name, plan["folder"], plan["allow"])
            check_parameters(target, params)
            if params and getattr(target, "__init__", None) is Part.__init__:
                text = f"`{plugin.name}` has no constructor, so that nothing checks the params {', '.join(params)}"
                faults.setdefault((plugin.at, text), fault(plugin.at, text, "warning"))
        except PluginInvalid as error:
            faults.setdefault((plugin.at, str(error)), fault(plugin.at, str(error)))
    return list(faults.values())


def _named(plan: Plan) -> Iterator[tuple[str, PluginPlan, dict[str, Any]]]:
    """Yield (kind, plugin, constructor's arguments) of all plugins of a plan, with each worker's own arguments."""
    for phase in plan.phases:
        for environment in phase.environments:
            if environment.plugin is not None:
                for worker in range(max(1, len(environment.per_worker))):
                    yield "environment", environment.plugin, environment.params_of(worker)
        parts: list[tuple[str, PluginPlan | None]] = [("controller", phase.controller)]
        parts += [(kind, getattr(e, kind)) for kind in ("reward", "transformer") for e in phase.environments]
        for agent in phase.agents:
            parts += [(kind, getattr(agent, kind)) for kind in ("muscle", "brain", "objective")]
            parts += [("filter", part) for part in agent.filters]
        parts += [("condition", part) for part in (*phase.episode_conditions, *phase.phase_conditions)]
        yield from ((kind, part, part.params) for kind, part in parts if part is not None)


_AT = re.compile(r"(?P<file>.*?)(:(?P<line>\d+):(?P<column>\d+))?(: (?P<path>.*))?\Z", re.DOTALL)


def fault(at: str, message: str, severity: str = "error") -> dict[str, Any]:
    """Return a fault, or a warning, at the place `file:line:column: path` of a plan."""
    found = _AT.match(at)
    assert found is not None
    place = {"file": found["file"], "line": int(found["line"] or 0), "column": int(found["column"] or 0)}
    return {"severity": severity, **place, "path": found["path"] or "", "message": message}
