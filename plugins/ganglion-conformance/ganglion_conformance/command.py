"""`ganglion env test`, `ganglion muscle test`: judge a plugin or a program by the clauses of the protocol's paper."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from ganglion import registry
from ganglion.cli import plugins
from ganglion.cli.child import Children
from ganglion.cli.settings import Settings
from ganglion.errors import LaunchError, UsageError
from ganglion_conformance.recipes import Recipe, lacking, read_recipes

_KIT = "ganglion_conformance"
_LONGEST_S = 1800.0  # a simulator may be slow, and somebody may have to start it
_COMMAND = "ganglion.command"


class _Split(click.Command):
    """Take what stands behind `--` as a command of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the command apart before options are looked for."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return how it is called."""
        return ["[OPTIONS]", "NAME | -- COMMAND... | --attach UID"]


@click.group("env")
def env() -> None:
    """Judge environments: plugins, and programs in any language."""


@click.group("muscle")
def muscle() -> None:
    """Judge muscles: plugins, and programs in any language."""


def _test(role: str) -> click.Command:
    params = [
        click.Argument(["name"], required=False),
        click.Option(["--attach"], metavar="UID", help="wait for a program that is started separately"),
        click.Option(["--only"], multiple=True, metavar="CASE", help="one case or one group of cases; repeatable"),
        click.Option(["--curve/--no-curve"], default=True, help="ask for CURVE, or not [--curve]"),
        click.Option(["--steps"], type=click.IntRange(1), help="steps of the long run [10000]"),
        click.Option(["--params"], metavar="JSON", help="parameters, a map"),
        click.Option(["--deadline"], type=float, metavar="S", help="seconds to wait for a reply [10]"),
        click.Option(["--allow"], multiple=True, metavar="PACKAGE", help="a package that import paths may name"),
    ]
    text = (
        f"Play the bus against one {role} and judge every clause of PROTOCOL.md: the plugin NAME, a program "
        f"(COMMAND, as in a document's `command`), or one started from outside.\n\nExit status 1 if a must fails."
    )

    @click.pass_context
    def run(ctx: click.Context, /, **given: Any) -> int:
        return _ask(role, ctx.find_object(Settings) or Settings(), ctx.meta.get(_COMMAND), given)

    return _Split("test", params=params, callback=run, help=text, short_help=f"Judge one {role}.")


def _list(role: str) -> click.Command:
    @click.pass_context
    def run(ctx: click.Context, /) -> int:
        found: int = ctx.invoke(plugins.command, name=role, check=False)
        return found

    return click.Command("list", callback=run, help=f"List the {role}s that are installed.")


def _lacks(recipe: Recipe, whole: bool) -> str | None:
    """Return what this machine lacks for a recipe; unless `whole`, only commands are looked for."""
    if whole:
        return lacking(recipe)
    lines = [probe.line.removeprefix("command -v ") for probe in recipe.probe]
    words = [line.split()[0] for line in lines] + [recipe.run[0]]
    missing = [word for word in words if "{" not in word and "/" not in word and shutil.which(word) is None]
    return f"{recipe.language}: no {missing[0]}" if missing else None


@env.command("languages")
@click.option("--whole", is_flag=True, help="start each compiler and interpreter as well")
@click.pass_obj
def languages(settings: Settings, whole: bool) -> None:
    """List the languages for which there are programs, and what this machine lacks for each."""
    recipes = list(read_recipes().values())
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        lacks = list(pool.map(lambda recipe: _lacks(recipe, whole), recipes))
    if settings.json:
        rows = [{"name": r.name, "language": r.language, "lacks": it} for r, it in zip(recipes, lacks, strict=True)]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(recipe.name) for recipe in recipes)
    for recipe, lack in zip(recipes, lacks, strict=True):
        click.echo(f"{recipe.name:<{width}}  {lack or 'all is there' if whole or lack else 'commands are there'}")


for _group, _role in ((env, "environment"), (muscle, "muscle")):
    _group.add_command(_test(_role))
    _group.add_command(_list(_role))


def _ask(role: str, settings: Settings, command: list[str] | None, given: dict[str, Any]) -> int:
    """Let a process of its own judge, since that needs arrays and may run authors' code; return its status."""
    target = [what for what in (given["name"], command, given["attach"]) if what]
    if len(target) != 1:
        raise UsageError("expected one of NAME, -- COMMAND..., --attach UID")
    if given["name"]:
        registry.locate(role, given["name"], str(Path.cwd()), given["allow"])  # PluginInvalid: there is none
    question = {
        "role": role,
        "name": given["name"],
        "argv": command,
        "attach": given["attach"],
        "only": list(given["only"]),
        "curve": given["curve"],
        "params": _params(given["params"]),
        "allow": list(given["allow"]),
        "json": settings.json,
        "again": _again(role, command, given),
    }
    question |= {"steps": given["steps"]} if given["steps"] else {}
    question |= {"deadline_s": given["deadline"]} if given["deadline"] else {}
    children = Children()
    try:
        answer = children.ask(_KIT, question, _LONGEST_S)
    except BaseException:  # Ctrl-C above all: the child has a session of its own and does not hear it
        children.end()
        raise
    click.echo(answer.text, nl=False)
    if answer.status not in (0, 1, 2):
        raise LaunchError(f"the process that judges ended with {answer.status} (None: after {_LONGEST_S:g} s)")
    return answer.status


def _params(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise UsageError(f"--params: expected a map in JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"--params: expected a map in JSON, found {text!r:.60}")
    return found


def _again(role: str, command: list[str] | None, given: dict[str, Any]) -> str:
    """Return the command that asks one case again, with `{case}` for its name."""
    group = "env" if role == "environment" else role
    words = ["ganglion", group, "test", "--only", "{case}"]
    words += ["--params", shlex.quote(given["params"])] if given["params"] else []
    words += ["--attach", given["attach"]] if given["attach"] else []
    words += [given["name"]] if given["name"] else []
    text = " ".join(words) + (f" -- {shlex.join(command)}" if command else "")
    return text.replace("{", "{{").replace("}", "}}").replace("{{case}}", "{case}")
