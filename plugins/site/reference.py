"""Reference: pages of the site that are printed from the code when it is built; a hook of mkdocs."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from ganglion import registry, sdk
from ganglion.cli.main import Commands

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the reference, and the README of each plugin, to those that are written by hand."""
    pages = {
        "commands": commands(),
        "documents": documents(),
        "sdk": contract(),
        "plugins": plugins(),
        "protocol": protocol(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for path in sorted(ROOT.glob("plugins/ganglion-*/README.md")):
        text = re.sub(r"`plugins/(ganglion-[a-z0-9]+)/README\.md`", r"[\1](\1.md)", path.read_text())
        files.append(File.generated(config, f"plugins/{path.parent.name}.md", content=text))
    return files


def _ganglion(*words: str) -> str:
    argv = [sys.executable, "-P", "-c", "from ganglion.cli.main import main; raise SystemExit(main())", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True, env={"COLUMNS": "90", "HOME": "/"}).stdout


def commands() -> str:
    """Return what each command says of itself."""
    import click

    found = ["# Commands", "", "What `ganglion --help` and `--help` of each command print.", ""]
    group = Commands("ganglion")
    context = click.Context(group, info_name="ganglion", max_content_width=90, terminal_width=90)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += [f"## {name}", "", "```text", *_help(command, context, name), "```", ""]
    return "\n".join(found)


def _help(command: Any, context: Any, name: str) -> Iterator[str]:
    import click

    inner = click.Context(command, info_name=name, parent=context, max_content_width=90, terminal_width=90)
    yield command.get_help(inner)
    for part in command.list_commands(inner) if isinstance(command, click.Group) else ():
        yield ""
        yield from _help(command.get_command(inner, part), inner, part)


def documents() -> str:
    """Return the keys of run documents, as the schema has them."""
    schema = json.loads(_ganglion("schema"))
    found = ["# Keys of documents", "", "Printed from `ganglion schema`, which editors can use, too.", ""]
    found += ["## The document", "", *_keys(schema)]
    for name, part in sorted(schema.get("$defs", {}).items()):
        if part.get("properties"):
            found += ["", f"## {name}", "", part.get("description", ""), "", *_keys(part)]
    return "\n".join(found)


def _keys(schema: dict[str, Any]) -> Iterator[str]:
    yield "| key | form | means |"
    yield "|---|---|---|"
    for key, part in schema.get("properties", {}).items():
        needed = " (required)" if key in schema.get("required", ()) else ""
        yield f"| `{key}`{needed} | {_form(part)} | {_cell(part.get('description', ''))} |"


def _form(part: dict[str, Any]) -> str:
    if "$ref" in part:
        return f"`{part['$ref'].rpartition('/')[2]}`"
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    options = part.get("anyOf") or part.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(map(_form, options)))
    if part.get("type") == "array":
        return f"list of {_form(part.get('items', {}))}"
    kind = part.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def contract() -> str:
    """Return the names that authors of plugins import, with their docstrings."""
    found = ["# The contract of authors: `ganglion.sdk`", ""]
    for name in sorted(sdk.__all__):
        thing = getattr(sdk, name)
        if not callable(thing):
            continue
        found += [f"## {name}", "", *_described(name, thing)]
        for method, value in sorted(vars(thing).items()) if inspect.isclass(thing) else ():
            if not method.startswith("_") and inspect.isfunction(value):
                found += ["", f"### {name}.{method}", "", *_described(method, value)]
        found.append("")
    return "\n".join(found)


def _described(name: str, thing: Any) -> Iterator[str]:
    try:
        signature = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        signature = ""
    yield from ("```python", f"{name}{signature}", "```", "", "```text", inspect.getdoc(thing) or "", "```")


def plugins() -> str:
    """Return the installed plugins by their group, with the first line of what each says of itself."""
    found = ["# Plugins", "", "Those of the distributions of this checkout; `ganglion plugins` lists yours.", ""]
    for kind, group in registry.GROUPS.items():
        entries = registry.entries(kind)
        if not entries or kind in ("command", "alias"):
            continue
        found += [f"## {kind}", "", f"Group of entry points: `{group.entry_points}`.", ""]
        found += ["| name | distribution |", "|---|---|"]
        found += [f"| `{entry.name}` | `{entry.distribution}` |" for entry in entries]
        found.append("")
    return "\n".join(found)


def protocol() -> str:
    """Return the paper of the protocol; what it links to in the checkout is named, not linked."""
    text = (ROOT / "kernel" / "PROTOCOL.md").read_text()
    return re.sub(r"\[([^\]]+)\]\((?!#|https?:)[^)]+\)", r"\1", text)
