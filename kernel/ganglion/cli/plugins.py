"""`ganglion plugins`: lists the installed plugins."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

import click

from ganglion import registry
from ganglion.cli.child import find_misfits
from ganglion.cli.settings import Settings
from ganglion.cli.table import aligned, tell
from ganglion.errors import UsageError
from ganglion.registry import Entry
from ganglion.sdk.naming import nearest


def manual(entry: Entry) -> str | None:
    """Return the docstring of a plugin's class or function; None if it has none, or its source is not found."""
    module, _, name = entry.value.partition(":")
    spec = _spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    parts = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return next((ast.get_docstring(node) for node in parts if node.name == name), None)


def _spec(module: str) -> ModuleSpec | None:
    """Return the spec of a module; none of its packages is imported."""
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    path = top
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = PathFinder.find_spec(path, list(spec.submodule_search_locations))
    return spec


@click.command("plugins")
@click.argument("name", required=False, metavar="[GROUP|NAME]")
@click.option("--check", is_flag=True, help="import each in a child process; exit 1 for one that does not fit")
@click.pass_obj
def command(settings: Settings, name: str | None, check: bool) -> int:
    """List installed plugins, importing none of them; with a NAME, what their classes say of their parameters."""
    entries = _chosen(name)
    named = name is not None and _group(name) is None
    wrong = find_misfits(entries) if check else {}
    rows: list[dict[str, Any]] = []
    for entry in entries:
        said = manual(entry)
        row = {key: getattr(entry, key) for key in ("name", "group", "distribution", "version")}
        rows.append({**row, "object": entry.value, "summary": (said or entry.summary).partition("\n")[0]})
        rows[-1] |= {"manual": said} if named else {}
        rows[-1] |= {"fault": wrong.get((entry.group, entry.distribution, entry.name))} if check else {}
    tell(settings, rows, _lines(rows, check, named))
    return 1 if wrong else 0


def _chosen(name: str | None) -> list[registry.Entry]:
    """Return all plugins, those of a group (also in the plural), or those of a name."""
    every = [entry for group in registry.GROUPS for entry in registry.entries(group)]
    if name is None:
        return every
    group = _group(name)
    if group is not None:  # a plugin may have the name of a group: `distribution:name` is the plugin
        return [entry for entry in every if entry.group == group]
    found = [e for e in every if name in (e.name, f"{e.distribution}:{e.name}", e.distribution)]
    if not found:
        known = [*registry.GROUPS, *(f"{g}s" for g in registry.GROUPS), *(e.name for e in every)]
        raise UsageError(f"there is no plugin and no group `{name}`{nearest(name, known)}")
    return found


def _group(name: str) -> str | None:
    """Return the group of this name, also in the plural or as entry points."""
    return next((g for g in registry.GROUPS if name in (g, f"{g}s", registry.GROUPS[g].entry_points)), None)


def _lines(rows: list[dict[str, Any]], check: bool, named: bool) -> Iterator[str]:
    """Yield aligned columns, each fault below its plugin, then the manuals of the named plugins."""
    columns = ("group", "name", "distribution", "version", "summary")
    head, *lines = aligned([[column.upper() for column in columns], *([row[c] for c in columns] for row in rows)])
    yield head
    for row, line in zip(rows, lines, strict=True):
        yield line
        if row.get("fault"):
            yield f"    does not fit: {row['fault']}"
    if check and not any(row["fault"] for row in rows):
        yield f"all {len(rows)} fit"
    for row in rows if named else ():
        yield f"\n{registry.GROUPS[row['group']].noun} {row['name']} ({row['object']})"
        yield from (f"    {line}".rstrip() for line in (row["manual"] or "says nothing of itself").splitlines())
