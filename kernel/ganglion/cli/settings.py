"""What every command is told: where results, store and kernel are, how much is said, and in which form."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import click

__all__ = ["Settings", "options"]


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


@dataclass(slots=True)
class Settings:
    """Hold the options that are taken before and after a command's name; `@click.pass_obj` gives them to a command.

    `store` is a URI, None: the file `ganglion.db` of the results folder. `kernel` is a connection file, None: the
    newest of this user. `verbosity` is -1 with `-q`, 0, or the number of `-v`.
    """

    results: Path = field(default_factory=lambda: Path(_variable("GANGLION_RESULTS") or "results"))
    store: str | None = field(default_factory=lambda: _variable("GANGLION_STORE"))
    kernel: Path | None = field(
        default_factory=lambda: Path(text) if (text := _variable("GANGLION_KERNEL")) is not None else None
    )
    verbosity: int = 0
    json: bool = False
    plain: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Put an option that was given into the settings; one that was not changes nothing."""
    if context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.DEFAULT:
        return
    settings = context.ensure_object(Settings)
    name = str(parameter.name)
    if name == "quiet":
        settings.verbosity = -1
    elif name == "verbose":
        settings.verbosity = max(settings.verbosity, 0) + int(str(value))
    else:
        setattr(settings, name, Path(str(value)) if name in {"results", "kernel"} else value)


def options(hidden: bool) -> list[click.Option]:
    """Return the options of every command, new ones for each; hidden where a command's own help would drown."""

    def option(*names: str, **more: object) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, hidden=hidden, **more)  # type: ignore[arg-type]

    return [
        option("--results", metavar="DIR", help="folder of the results [results]"),
        option("--store", metavar="URI", help="store of the results [DIR/ganglion.db]"),
        option("--kernel", metavar="FILE", help="connection file of the kernel to talk to"),
        option("-v", "--verbose", count=True, help="say more; twice: everything"),
        option("-q", "--quiet", is_flag=True, help="say what went wrong only"),
        option("--json", is_flag=True, help="print JSON"),
        option("--plain", is_flag=True, help="print one line per event, also on a terminal"),
    ]
