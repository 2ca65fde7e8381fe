"""A document from file to plan: text, marked tree, model, cascade, plan; all faults at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ganglion.document.cascade import Expanded, cascade, override
from ganglion.document.check import Lookup, check, warnings
from ganglion.document.compile import compile_plan
from ganglion.document.fault import Fault, report, settle
from ganglion.document.marks import Node, Source, compose
from ganglion.document.model import validate
from ganglion.document.spelling import Foreign, normalise, numbers, phases_of, translate
from ganglion.errors import DocumentError, PluginInvalid
from ganglion.limits import DOCUMENT_BYTES, DOCUMENT_BYTES_REMOTE
from ganglion.run.plan import Plan


class Plugins(Protocol):
    """Know which plugins there are; `ganglion.registry` does. Documents and registry are neighbours and do not meet."""

    def locate(self, kind: str, name: str, folder: str = ..., allow: Sequence[str] = ..., local: bool = ...) -> Any:
        """Return anything for a plugin that there is; raise PluginInvalid for one that there is not."""

    def alias(self, kind: str, name: str) -> Foreign | None:
        """Return what a name of another project means, None for any other name."""


@dataclass(frozen=True, slots=True)
class _Text:
    """Hold a document's text, its name in faults, and the folder where its paths begin."""

    name: str
    folder: str
    text: str


@dataclass(frozen=True, slots=True)
class Tree:
    """Hold a document that has been read, as it is written: its marked tree, a map, and what is wrong with its YAML.

    `name` stands in faults, paths in the document begin at `folder`.
    """

    root: Node
    faults: list[Fault]
    name: str
    folder: str
    text: str


def load_document(
    source: str | Path,
    *,
    plugins: Plugins,
    text: str | None = None,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    sync: str | None = None,
    allow: Sequence[str] = (),
    local: bool = True,
    notes: list[Fault] | None = None,
) -> tuple[Plan, list[Fault]]:
    """Return the plan of a run document, and its warnings.

    Args:
        source: The file, `-` for standard input; beside `text` only the document's name.
        plugins: Who knows the installed plugins: the module `ganglion.registry`.
        text: The document, where it is no file.
        overrides: `PATH=VALUE` settings, put in before anything is checked.
        seed: Takes the place of the document's `seed`.
        sync: Takes the place of `sync` in every phase.
        allow: Packages that import paths may name, besides those with plugins and modules beside the document.
        local: Whether a local user gave the document; one from the network names no import paths and no commands.
        notes: Gets a line for each name and key of another project that was read as ours; also of a faulty document.

    Raises:
        DocumentError: with every fault and warning in `faults`; nothing was started.
    """
    tree = read_tree(source, text, local)
    keys = tree.root.keys
    sign = keys.get("definitions") or (None if "schedule" in keys else keys.get("run"))
    if sign is not None:  # what else is wrong with it as a run says nothing
        message = "this is an experiment of many runs, no run: `ganglion sweep` carries it out, with `--plan` checks it"
        raise _error([sign.fault(message)])
    root, faults = _prepared(tree.root, overrides, seed, sync)
    return load_tree(
        root,
        plugins=plugins,
        source=tree.name,
        folder=tree.folder,
        text=tree.text,
        allow=allow,
        local=local,
        faults=[*tree.faults, *faults],
        notes=notes,
    )


def read_tree(source: str | Path, text: str | None = None, local: bool = True) -> Tree:
    """Return the marked tree of a document; see `load_document`.

    Raises:
        DocumentError: it cannot be read to its end, or is no map.
    """
    given = _read(source, text, local)
    mark = Source(given.name, given.text)
    root, faults = compose(mark, given.text)
    if root is None and not faults:
        root = Node(None, mark)
    if root is None:
        raise _error(faults)
    if not isinstance(root.value, dict):
        raise _error([*faults, root.fault(f"expected a map with the keys of a run, found {root.found()}")])
    return Tree(root, faults, given.name, given.folder, given.text)


def load_tree(
    root: Node,
    *,
    plugins: Plugins,
    source: str,
    folder: str,
    text: str,
    allow: Sequence[str] = (),
    local: bool = True,
    faults: Sequence[Fault] = (),
    notes: list[Fault] | None = None,
) -> tuple[Plan, list[Fault]]:
    """Return the plan of a run document in our spelling (`normalise`), and its warnings.

    Args:
        root: The document; its nodes may come from several files.
        plugins: As for `load_document`, as are `allow`, `local` and `notes`.
        source: The document's name.
        folder: Where its paths begin.
        text: The document as it is kept with the results.
        faults: What is wrong with it already.

    Raises:
        DocumentError: with every fault and warning in `faults`.
    """
    translation = translate(root, plugins.alias)
    root = translation.root
    if notes is not None:
        notes += settle(translation.notes)
    phases = cascade(phases_of(root), root.text("cascade") == "replace")
    crowd = [phase.crowd for phase in phases if phase.crowd is not None]
    if crowd:  # what else is wrong would be said a thousand times
        raise _error([*faults, *crowd])
    found = [*faults, *translation.faults, *validate(root)]
    found += numbers(root)
    found += check(root, phases, _lookup(plugins, folder, allow, local))
    found += _reaches(root, phases, local)
    wrong = {fault.place for fault in found}
    told = [fault for fault in warnings(root, phases, translation.versions) if fault.place not in wrong]
    found = settle([*found, *told])
    if any(fault.severity == "error" for fault in found):
        raise _error(found)
    return compile_plan(root, phases, source, folder, text, allow), found


def _error(faults: Sequence[Fault]) -> DocumentError:
    faults = settle(faults)
    return DocumentError(report(faults), faults)


def _read(source: str | Path, text: str | None, local: bool) -> _Text:
    """Return the text of a document; a mark of byte order goes."""
    name = str(source)
    folder = Path.cwd() if name == "-" else Path(name).absolute().parent
    if text is None:
        data = _bytes(name)
        _check_size(name, len(data), DOCUMENT_BYTES)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            column = error.start - data.rfind(b"\n", 0, error.start)
            message = f"expected UTF-8, found the byte 0x{data[error.start]:02x}"
            raise _error([Fault("error", name, line, column, "", message)]) from error
    else:
        _check_size(name, len(text.encode(errors="replace")), DOCUMENT_BYTES if local else DOCUMENT_BYTES_REMOTE)
    name = "<stdin>" if name == "-" else name
    return _Text(name, str(folder) if local else "", text.removeprefix("\ufeff"))


def _check_size(name: str, size: int, bound: int) -> None:
    if size > bound:
        message = f"expected at most {bound} bytes, found more (limit document_bytes)"
        raise _error([Fault("error", name, 0, 0, "", message)])


def _bytes(name: str) -> bytes:
    """Return what is in a file, at most one byte more than a document may have."""
    if name == "-":
        return sys.stdin.buffer.read(DOCUMENT_BYTES + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(DOCUMENT_BYTES + 1)
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise _error([Fault("error", name, 0, 0, "", message)]) from error


def _prepared(root: Node, overrides: Sequence[str], seed: int | None, sync: str | None) -> tuple[Node, list[Fault]]:
    """Return the document in our spelling with all that was set from outside."""
    root, faults = normalise(root)
    if overrides:
        root, more = override(root, overrides)
        root, again = normalise(root)
        faults += [*more, *again]
    if seed is not None:
        node = Node(seed, Source(f"--seed {seed}", inline=True))
        node.path = "seed"
        root = root.like({**root.map, "seed": node}, {"seed": node.like("seed"), **root.keys})
    return (root if sync is None else _synchronised(root, sync)), faults


def _synchronised(root: Node, sync: str) -> Node:
    """Return a normalised document with `sync` in every phase that has a configuration, and in the first one."""
    schedule = root.map.get("schedule")
    if schedule is None or not isinstance(schedule.value, list):
        return root
    node = Node(sync, Source(f"--sync {sync}", inline=True))
    entries = []
    for index, entry in enumerate(schedule.items):
        phases = {
            name: _put(phase, node, index == 0 or "phase_config" in phase.map) for name, phase in entry.map.items()
        }
        entries.append(entry.like(phases) if phases else entry)
    return root.like({**root.map, "schedule": schedule.like(entries)})


def _put(phase: Node, sync: Node, wanted: bool) -> Node:
    """Return a phase with another `sync`; a phase that would only inherit its configuration stays as it is."""
    config = phase.map.get("phase_config", sync.like({}, {}))
    if not wanted or not isinstance(phase.value, dict) or not isinstance(config.value, dict):
        return phase
    config = config.like({**config.map, "sync": sync}, {**config.keys, "sync": sync.like("sync")})
    keys = {"phase_config": sync.like("phase_config"), **phase.keys}
    return phase.like({**phase.map, "phase_config": config}, keys)


def _lookup(plugins: Plugins, folder: str, allow: Sequence[str], local: bool) -> Lookup:
    """Return the question what is wrong with a plugin's name; each is asked once."""
    known: dict[tuple[str, str], str | None] = {}

    def ask(kind: str, name: str) -> str | None:
        if (kind, name) not in known:
            try:
                plugins.locate(kind, name, folder=folder, allow=allow, local=local)
                known[kind, name] = None
            except PluginInvalid as error:
                known[kind, name] = str(error)
        return known[kind, name]

    return ask


def _reaches(root: Node, phases: Sequence[Expanded], local: bool) -> list[Fault]:
    """Refuse programs, and places to write to or read from, in a document that came over the network.

    With GANGLION_COMMANDS=deny an operator has no document start programs.
    """
    agents = [agent for phase in phases for agent in phase.agents.values()]
    environments = [entry.map["environment"] for p in phases for entry in p.environments.values()]
    muscles = [agent.map["muscle"] for agent in agents if "muscle" in agent.map]
    commands = _given([part.map.get("command") for part in (*environments, *muscles)])
    if local:
        message = "documents start no programs here (GANGLION_COMMANDS=deny)"
        return [node.fault(message) for node in commands] if os.environ.get("GANGLION_COMMANDS") == "deny" else []
    loads = [agent.map["load"] for agent in agents if "load" in agent.map]
    loads += [item for agent in agents if "replay" in agent.map for item in agent.map["replay"].items]
    holders = [root, *(e for p in phases for e in p.environments.values()), *agents]
    parts = [p.recovery for p in phases] + [holder.map.get("recovery") for holder in holders]
    users = [part.map.get("run_as") for part in parts if part is not None]
    whose = "a document that came over the network"
    return [
        *(node.fault(f"{whose} starts no programs") for node in commands),
        *(node.fault(f"{whose} names no folder to write to") for node in _given([a.map.get("models") for a in agents])),
        *(node.fault(f"{whose} names no place to read from") for node in _given([n.map.get("base") for n in loads])),
        *(node.fault(f"{whose} chooses no user") for node in _given(users)),
    ]


def _given(nodes: Sequence[Node | None]) -> list[Node]:
    return [node for node in nodes if node is not None and node.value is not None]
