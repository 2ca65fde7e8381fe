"""A document from file to plan: text, marked tree, model, cascade, plan; all faults at once."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ganglion.document.cascade import Expanded, Nowhere, cascade, override, put
from ganglion.document.check import Lookup, check, warnings
from ganglion.document.compile import compile_plan
from ganglion.document.fault import Fault, report, settle
from ganglion.document.marks import Node, Source, compose
from ganglion.document.model import validate
from ganglion.document.spelling import normalise, numbers, phases_of, translate
from ganglion.errors import DocumentError, PluginInvalid
from ganglion.limits import DOCUMENT_BYTES, DOCUMENT_BYTES_REMOTE
from ganglion.run.plan import Plan


class Plugins(Protocol):
    """Find plugins, as `ganglion.registry` does; the two rooms do not import each other."""

    def locate(self, kind: str, name: str, folder: str = ..., allow: Sequence[str] = ..., local: bool = ...) -> Any:
        """Return without an error for a known plugin; raise PluginInvalid for an unknown one."""

    def alias(self, kind: str, name: str) -> Any:
        """Return the meaning of another project's name; None for any other name."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Hold a document as read from its text."""

    root: Node  # the root, a map
    faults: list[Fault]  # of its YAML
    name: str  # of the document, as in faults
    folder: str  # to which paths in the document are relative
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
    """Return the plan of a run document, and its warnings; DocumentError has every fault and warning in `faults`.

    Args:
        source: The file, `-` for standard input; beside `text` only the document's name.
        plugins: The installed plugins: the module `ganglion.registry`.
        text: The document, if it is no file.
        overrides: `PATH=VALUE` settings, applied before any check.
        seed: Replaces the document's `seed`.
        sync: Replaces `sync` in every phase.
        allow: Packages that import paths may name, besides those with plugins and modules beside the document.
        local: Whether a local user gave the document; one from the network names no import paths and no commands.
        notes: Receives a line for each name and key of another project that was replaced; also for a faulty document.
    """
    tree = read_tree(source, text, local)
    keys = tree.root.keys
    sign = keys.get("definitions") or (None if "schedule" in keys else keys.get("run"))
    if sign is not None:  # its other faults as a run mean nothing
        message = "this is an experiment of many runs, no run: `ganglion sweep` carries it out, with `--plan` checks it"
        raise _error([sign.fault(message)])
    tree = _prepared(tree, overrides, seed, sync)
    return load_tree(tree, plugins=plugins, allow=allow, local=local, notes=notes)


def read_tree(source: str | Path, text: str | None = None, local: bool = True) -> Tree:
    """Return the tree of a document; DocumentError: the text cannot be read to its end, or is no map."""
    name = str(source)
    folder = Path.cwd() if name == "-" else Path(name).absolute().parent
    text = _read(name, text, local).removeprefix("\ufeff")
    mark = Source("<stdin>" if name == "-" else name, text)
    root, faults = compose(mark, text)
    if root is None and not faults:
        root = Node(None, mark)
    if root is None:
        raise _error(faults)
    if not isinstance(root.value, dict):
        raise _error([*faults, root.fault(f"expected a map with the keys of a run, found {root.found()}")])
    return Tree(root, faults, mark.name, str(folder) if local else "", text)


def load_tree(
    tree: Tree, *, plugins: Plugins, allow: Sequence[str] = (), local: bool = True, notes: list[Fault] | None = None
) -> tuple[Plan, list[Fault]]:
    """Return the plan of a document normalised by `normalise`, and its warnings; see `load_document`.

    The nodes may come from several files; the text is kept with the results. DocumentError has every fault and warning
    in `faults`.
    """
    root = tree.root
    translation = translate(root, plugins.alias)
    root = translation.root
    if notes is not None:
        notes += settle(translation.notes)
    phases = cascade(phases_of(root), root.text("cascade") == "replace")
    excess = [phase.excess for phase in phases if phase.excess is not None]
    if excess:  # other faults would repeat for every phase
        raise _error([*tree.faults, *excess])
    unread = {fault.place for fault in tree.faults}  # what is wrong there follows from it
    found = [*tree.faults, *translation.faults, *(fault for fault in validate(root) if fault.place not in unread)]
    found += numbers(root)
    found += check(root, phases, _lookup(plugins, tree.folder, allow, local))
    found += _reaches(root, phases, local)
    wrong = {fault.place for fault in found}
    told = [fault for fault in warnings(root, phases, translation.versions) if fault.place not in wrong]
    found = settle([*found, *told])
    if any(fault.severity == "error" for fault in found):
        raise _error(found)
    return compile_plan(root, phases, tree.name, tree.folder, tree.text, allow), found


def _error(faults: Sequence[Fault]) -> DocumentError:
    faults = settle(faults)
    return DocumentError(report(faults), faults)


def _read(name: str, text: str | None, local: bool) -> str:
    """Return the text of a document, given or read from its file."""
    bound = DOCUMENT_BYTES if local or text is None else DOCUMENT_BYTES_REMOTE
    line = column = 0
    try:
        if text is not None:
            data = text.encode(errors="replace")
        elif name == "-":
            data = sys.stdin.buffer.read(bound + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(bound + 1)
        if len(data) <= bound:
            return data.decode() if text is None else text
        message = f"expected at most {bound} bytes, found more (limit document_bytes)"
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"expected UTF-8, found the byte 0x{data[error.start]:02x}"
    raise _error([Fault("error", name, line, column, "", message)])


def _prepared(tree: Tree, overrides: Sequence[str], seed: int | None, sync: str | None) -> Tree:
    """Return the normalised document with seed, sync and overrides applied."""
    root, faults = normalise(tree.root)
    if overrides:
        root, more = override(root, overrides)
        root, again = normalise(root)
        faults += [*more, *again]
    if seed is not None:
        node = Node(seed, Source(f"--seed {seed}", inline=True))
        node.path = "seed"
        root = put(root, ["seed"], node)
    for index, (mark, phase) in enumerate(phases_of(root) if sync is not None else []):
        node = Node(sync, Source(f"--sync {sync}", inline=True))
        if index == 0 or "phase_config" in phase.map:  # a phase that only inherits its configuration does not change
            with suppress(Nowhere):  # no map: a fault of its own
                root = put(root, ["schedule", str(mark.value), "phase_config", "sync"], node)
    return replace(tree, root=root, faults=[*tree.faults, *faults])


def _lookup(plugins: Plugins, folder: str, allow: Sequence[str], local: bool) -> Lookup:
    """Return a cached function from kind and name of a plugin to its fault, if any."""

    @functools.cache
    def ask(kind: str, name: str) -> str | None:
        try:
            plugins.locate(kind, name, folder=folder, allow=allow, local=local)
        except PluginInvalid as error:
            return str(error)
        return None

    return ask


def _reaches(root: Node, phases: Sequence[Expanded], local: bool) -> list[Fault]:
    """Refuse programs, and places to read or write, in a document from the network.

    GANGLION_COMMANDS=deny refuses programs in every document.
    """
    agents = [agent for phase in phases for agent in phase.agents.values()]
    entries = [entry for phase in phases for entry in phase.environments.values()]
    parts = [*(entry.map["environment"] for entry in entries), *_values(agents, "muscle")]
    commands = _values(parts, "command")
    if local:
        message = "documents start no programs here (GANGLION_COMMANDS=deny)"
        return [node.fault(message) for node in commands] if os.environ.get("GANGLION_COMMANDS") == "deny" else []
    loads = [*_values(agents, "load"), *(item for replay in _values(agents, "replay") for item in replay.items)]
    tables = [table for phase in phases if phase.tables is not None for table in phase.tables.items]
    loads += _values(_values([*(entry.map["environment"] for entry in entries), *tables], "params"), "source")
    recoveries = [*(p.recovery for p in phases if p.recovery), *_values([root, *entries, *agents], "recovery")]
    refused = {
        "starts no programs": commands,
        "names no folder to write to": _values(agents, "models"),
        "names no place to read from": [node for key in ("base", "store", "path") for node in _values(loads, key)],
        "chooses no user": _values(recoveries, "run_as"),
    }
    whose = "a document that came over the network"
    return [node.fault(f"{whose} {what}") for what, nodes in refused.items() for node in nodes]


def _values(nodes: Sequence[Node], key: str) -> list[Node]:
    """Return the nodes at a key of these maps, without nulls."""
    return [node.map[key] for node in nodes if key in node.map and node.map[key].value is not None]
