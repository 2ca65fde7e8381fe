"""Settings of every command: where results, store and kernel are, how much is printed, and in which form.

The last source of a setting wins: built in, `/etc/ganglion/config.yml`, `~/.config/ganglion/config.yml`,
`.ganglion.yml` of the working folder, GANGLION_* variables, options. Maps are merged key by key; a file is checked like
a document. Nothing is imported for missing files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import click

from ganglion.errors import UsageError
from ganglion.limits import JOURNAL_BEGIN_BYTES, PROCESSES_PER_RUN

INTERRUPTED = 130
"""The exit status of a command that was interrupted."""

BUILT_IN = "built in"
_NUMBERS = ("processes_per_run", "journal_begin_bytes")
KEYS = ("results", "store", "kernel", "bind", "cpus", "launcher", "allow", "block", "commands", "readers", *_NUMBERS)
"""The settings; each has a variable."""
_PATHS = ("results", "kernel")
_LISTS = ("allow", "block")
_CHOICES: dict[str, dict[str, int]] = {
    "commands": {"allow": 0, "deny": 0},
    "readers": {"owner": 0o077, "group": 0o027, "all": 0o022},
}


@dataclass(slots=True)
class Settings:
    """Hold the options that are taken before and after a command's name; `@click.pass_obj` passes them to a command.

    `store` is a URI, None: the file `ganglion.db` of the results folder. `kernel` is a connection file, None: the
    newest of this user. `bind` is an endpoint for other machines. `cpus` is `auto`, `free` or a list of processors.
    `launcher` is the plugin that starts the processes of runs, None: that of the kernel, for this machine; `launchers`
    holds the arguments of each, by name. `allow` names packages that import paths may lead into, `block` plugins or
    distributions that are not used. `commands` is `allow` or `deny`. `readers` is `owner`, `group` or `all`: the users
    who may read the files of runs. A process whose journal is longer than `journal_begin_bytes` compacts it to its
    state. `verbosity` is -1 with `-q`, 0, or the number of `-v`. `origins` names the source of each setting that is not
    built in.
    """

    results: Path = Path("results")
    store: str | None = None
    kernel: Path | None = None
    verbosity: int = 0
    json: bool = False
    plain: bool = False
    bind: str | None = None
    cpus: str = "auto"
    launcher: str | None = None
    launchers: dict[str, dict[str, Any]] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    commands: str = "allow"
    readers: str = "owner"
    processes_per_run: int = PROCESSES_PER_RUN
    journal_begin_bytes: int = JOURNAL_BEGIN_BYTES
    origins: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls) -> Self:
        """Return the settings of files and variables.

        Raises:
            UsageError: A variable has an invalid value.
            DocumentError: A file is faulty; with all its faults.
        """
        settings = cls()
        home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        for path in (Path("/etc/ganglion/config.yml"), home / "ganglion" / "config.yml", Path(".ganglion.yml")):
            if path.is_file():
                from ganglion.document.config import read_config

                for key, node in read_config(path).items():
                    settings._set(key, node.plain(), f"{node.source.name}:{node.line + 1}")
        for key in KEYS:
            text = os.environ.get(f"GANGLION_{key.upper()}")
            if text:
                settings._set(key, _value(key, text), f"variable GANGLION_{key.upper()}")
        return settings

    def export_variables(self) -> None:
        """Set the environment variables that other processes read."""
        for key in ("allow", "block", "commands", "readers", "bind", *_NUMBERS):
            value, name = getattr(self, key), f"GANGLION_{key.upper()}"
            if key in self.origins or name in os.environ:
                text = ",".join(value) if key in _LISTS else str(value or "")
                os.environ[name] = text if key in self.origins else ""

    @property
    def mask(self) -> int:
        """Return the umask of runs, which decides who may read their files."""
        return _CHOICES["readers"][self.readers]

    def _set(self, key: str, value: Any, origin: str) -> None:
        if key == "results":
            self.results = Path(value or "results").expanduser()
        elif key == "kernel":
            self.kernel = Path(value).expanduser() if value else None
        elif key == "cpus":
            self.cpus = value or "auto"
        else:
            setattr(self, key, tuple(value) if key in _LISTS else value or None)
        self.origins[key] = origin


def _value(key: str, text: str) -> Any:
    if key in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if key in _NUMBERS:
        from ganglion.document.config import NUMBERS

        low, high = NUMBERS[key]
        if text.isascii() and text.isdigit() and low <= int(text) <= high:
            return int(text)
        wanted = f"an integer from {low} to {high}"
    elif key not in _CHOICES or text in _CHOICES[key]:
        return text
    else:
        wanted = f"one of {', '.join(_CHOICES[key])}"
    raise UsageError(f"variable GANGLION_{key.upper()}: expected {wanted}, found {text[:80]!r}")


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store a given option in the settings; an option that was not given changes nothing."""
    if context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.DEFAULT:
        return
    settings = context.ensure_object(Settings)
    name = str(parameter.name)
    if name == "quiet":
        settings.verbosity = -1
    elif name == "verbose":
        settings.verbosity = max(settings.verbosity, 0) + int(str(value))
    else:
        setattr(settings, name, Path(str(value)) if name in _PATHS else value)
        settings.origins[name] = f"option --{name}"


def options(hidden: bool) -> list[click.Option]:
    """Return the options of every command, new ones for each; hidden in a command's own help, to keep it short."""

    def option(*names: str, **more: object) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, hidden=hidden, **more)  # type: ignore[arg-type]

    return [
        option("--results", metavar="DIR", help="folder of the results [results]"),
        option("--store", metavar="URI", help="store of the results [DIR/ganglion.db]"),
        option("--kernel", metavar="FILE", help="connection file of the kernel to talk to"),
        option("--cpus", metavar="LIST", help="auto, free, or processors that a run is kept on, as in 0,2 [auto]"),
        option("--launcher", metavar="NAME", help="plugin that starts the processes of runs [local]"),
        option("-v", "--verbose", count=True, help="say more; twice: everything"),
        option("-q", "--quiet", is_flag=True, help="say what went wrong only"),
        option("--json", is_flag=True, help="print JSON"),
        option("--plain", is_flag=True, help="print one line per event, also on a terminal"),
    ]
