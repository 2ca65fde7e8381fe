"""Reference: pages of the site that are printed from the code when it is built; a hook of mkdocs."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
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
WIDE = 80
"""So many characters of a command's help stand beside each other on a page."""


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
    for name in ("page-live.png", "page-run.png"):
        files.append(File.generated(config, f"pictures/{name}", abs_src_path=str(ROOT / ".github" / name)))
    for path in sorted(ROOT.glob("plugins/ganglion-*/README.md")):
        text = re.sub(r"`plugins/(ganglion-[a-z0-9]+)/README\.md`", r"[\1](\1.md)", path.read_text())
        files.append(File.generated(config, f"plugins/{path.parent.name}.md", content=text))
    return files


def _ganglion(*words: str) -> str:
    argv = [sys.executable, "-P", "-c", "from ganglion.cli.main import main; raise SystemExit(main())", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, check=True, env={"COLUMNS": f"{WIDE}", "HOME": "/"}
    ).stdout


def commands() -> str:
    """Return what each command says of itself."""
    import click

    found = ["# Commands", "", "What `ganglion --help` and `--help` of each command print.", ""]
    group = Commands("ganglion")
    context = click.Context(group, info_name="ganglion", max_content_width=WIDE, terminal_width=WIDE)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += [f"## {name}", "", "```text", *_help(command, context, name), "```", ""]
    return "\n".join(found)


def _help(command: Any, context: Any, name: str) -> Iterator[str]:
    import click

    inner = click.Context(command, info_name=name, parent=context, max_content_width=WIDE, terminal_width=WIDE)
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
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        signature = None
    if signature is not None:
        text = f"{name}{signature}"
        if len(text) > WIDE:  # a line for each parameter
            parts = "".join(f"    {one},\n" for one in signature.parameters.values())
            text = f"{name}(\n{parts}){str(signature).rpartition(')')[2]}"
        text = re.sub(r" at 0x[0-9a-f]+", "", text)
        yield from (
            "```python",
            re.sub(r"'([^',]*(?:\[[^']*\])?[^',]*)'", r"\1", text),
            "```",
            "",
        )  # texts are annotations
    yield from _prose(inspect.getdoc(thing) or f"`{thing}`")
    if inspect.isclass(thing) and (fields := _fields(thing)):
        yield from ("**Fields**", "", *fields, "")


def _fields(cls: type[Any]) -> list[str]:
    """Return the fields of a class with their comments, which are behind a declaration or above it."""
    lines = inspect.getsource(cls).splitlines()
    (tree,) = ast.parse("\n".join(lines)).body
    found = []
    for node in tree.body if isinstance(tree, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            code, _, behind = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")
            before = reversed(lines[: node.lineno - 1])
            above = list(itertools.takewhile(lambda line: line.startswith("    # "), before))
            said = behind or " ".join(line.strip("# ") for line in reversed(above))
            if code and said:
                found.append(f"- `{node.target.id}`: {_safe(said)}")
    return found


_SECTION = re.compile(r"(Args|Attributes|Params|Returns|Yields|Raises):")


def _prose(text: str) -> Iterator[str]:
    """Return a docstring as Markdown: sections as lists, examples as code."""
    for block in re.split(r"\n{2,}", text):
        lines = block.splitlines()
        if not lines:
            continue
        section = _SECTION.fullmatch(lines[0])
        if block.lstrip().startswith(">>>"):
            yield from ("```pycon", inspect.cleandoc(block), "```", "")
        elif section:
            yield from (f"**{section[1]}**", "", *_entries("\n".join(lines[1:])), "")
        elif lines[0].startswith("    "):
            yield from ("```text", block, "```", "")
        else:
            yield from (_safe(block), "")


def _entries(text: str) -> Iterator[str]:
    for entry in re.split(r"\n(?=\S)", inspect.cleandoc(text)):
        name, colon, rest = " ".join(entry.split()).partition(": ")
        yield f"- `{name}`: {_safe(rest)}" if colon and " " not in name.strip() else f"- {_safe(name + colon + rest)}"


def _safe(text: str) -> str:
    """Return text in which what looks like a tag is none; what stands between backticks stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


def plugins() -> str:
    """Return the installed plugins by their group, with the first line of what each says of itself."""
    found = ["# Plugins", "", "Those of the distributions of this checkout; `ganglion plugins` lists yours.", ""]
    for kind, group in registry.GROUPS.items():
        entries = registry.entries(kind)
        if not entries or kind in ("command", "alias"):
            continue
        found += [f"## {kind}", "", f"Group of entry points: `{group.entry_points}`.", ""]
        found += ["| name | what it is | distribution |", "|---|---|---|"]
        found += [f"| `{one.name}` | {_cell(_safe(_said(one.value)))} | `{one.distribution}` |" for one in entries]
        found.append("")
    return "\n".join(found)


def _said(target: str) -> str:
    """Return the first sentence of a plugin's docstring; nothing of it is imported, which may need what is not here."""
    module, _, name = target.partition(":")
    package, *rest = module.split(".")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return ""
    for place in found.submodule_search_locations:
        path = Path(place, *rest)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            tree = ast.parse(file.read_text()) if file.is_file() else ast.Module([], [])
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                    return (ast.get_docstring(node) or "").partition("\n\n")[0]
    return ""


def protocol() -> str:
    """Return the paper of the protocol; what it links to in the checkout is named, not linked."""
    text = (ROOT / "kernel" / "PROTOCOL.md").read_text()
    return re.sub(r"\[([^\]]+)\]\((?!#|https?:)[^)]+\)", r"\1", text)
