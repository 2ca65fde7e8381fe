"""What every command is told: where results, store and kernel are, how much is said, and in which form.

Settings come from where they were said last: built in, `/etc/ganglion/config.yml`, `~/.config/ganglion/config.yml`,
`.ganglion.yml` of the working folder, GANGLION_* variables, options. They are merged key by key; a file is checked like
a document. Nothing is imported for files that are not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from ganglion import limits
from ganglion.errors import UsageError

if TYPE_CHECKING:
    from ganglion.document.marks import Node

BUILT_IN = "built in"
KEYS = ("results", "store", "kernel", "bind", "cpus", "allow", "block", "commands", "readers")
"""The settings beside `limits`; each has a variable."""
_PATHS = ("results", "kernel")
_LISTS = ("allow", "block")
_LIMITS = "GANGLION_LIMITS"
_CHOICES: dict[str, dict[str, int]] = {
    "commands": {"allow": 0, "deny": 0},
    "readers": {"owner": 0o077, "group": 0o027, "all": 0o022},
}


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


@dataclass(slots=True)
class Settings:
    """Hold the options that are taken before and after a command's name; `@click.pass_obj` gives them to a command.

    `store` is a URI, None: the file `ganglion.db` of the results folder. `kernel` is a connection file, None: the
    newest of this user. `bind` is an endpoint for other machines, `cpus` a list of processors, `allow` names packages
    that import paths may lead into, `block` plugins or distributions that nobody may use, `commands` is `allow` or
    `deny`, `readers` is `owner`, `group` or `all`: who may read what runs write; `limits` has
    those that were changed. `verbosity` is -1 with `-q`, 0, or the number of `-v`. `origins` says where each setting is
    from, if it is not built in.
    """

    results: Path = field(default_factory=lambda: Path(_variable("GANGLION_RESULTS") or "results"))
    store: str | None = field(default_factory=lambda: _variable("GANGLION_STORE"))
    kernel: Path | None = field(
        default_factory=lambda: Path(text) if (text := _variable("GANGLION_KERNEL")) is not None else None
    )
    verbosity: int = 0
    json: bool = False
    plain: bool = False
    bind: str | None = None
    cpus: str | None = None
    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    commands: str = "allow"
    readers: str = "owner"
    limits: dict[str, int | float] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls) -> Self:
        """Return what files and variables say.

        Raises:
            UsageError: A variable says what it may not, or limits do not fit each other.
            DocumentError: A file is faulty; with all its faults.
        """
        settings = cls(Path("results"), None, None)
        for path in _files():
            if path.is_file():
                settings._read(path)
        for key in KEYS:
            text = _variable(f"GANGLION_{key.upper()}")
            if text is not None:
                settings._set(key, _value(key, text), f"variable GANGLION_{key.upper()}")
        for name, number in _limits_of(os.environ):
            settings._set(f"limits.{name.lower()}", number, f"variable {_LIMITS}_{name}")
        settings._check()
        return settings

    def hand_on(self) -> bool:
        """Put into variables what other processes take from there; say whether this one has other limits than these."""
        for name, value in (
            ("ALLOW", ",".join(self.allow)),
            ("BLOCK", ",".join(self.block)),
            ("COMMANDS", "" if self.commands == "allow" else self.commands),
            ("READERS", "" if self.readers == "owner" else self.readers),
            ("BIND", self.bind or ""),
        ):
            if value or f"GANGLION_{name}" in os.environ:
                os.environ[f"GANGLION_{name}"] = value
        text = ",".join(f"{name}={value}" for name, value in sorted(self.limits.items()))
        changes = text != os.environ.get(_LIMITS, "")
        if text:
            os.environ[_LIMITS] = text
        else:
            os.environ.pop(_LIMITS, None)
        return changes

    @property
    def mask(self) -> int:
        """Return the umask of runs: who may not read what they write."""
        return _CHOICES["readers"][self.readers]

    def origin(self, key: str) -> str:
        """Return where a setting comes from."""
        return self.origins.get(key, BUILT_IN)

    def _read(self, path: Path) -> None:
        from ganglion.document.config import read_config

        for key, node in read_config(path).items():
            rows = [(key, node)]
            if key == "limits":
                rows = [(f"limits.{name}", part) for name, part in node.map.items()]
            for name, part in rows:
                self._set(name, part.plain(), _place(part))

    def _set(self, key: str, value: Any, origin: str) -> None:
        head, _, limit = key.partition(".")
        if limit:
            self.limits[limit] = value
        elif head == "results":
            self.results = Path(value or "results").expanduser()
        elif head == "kernel":
            self.kernel = Path(value).expanduser() if value else None
        else:
            setattr(self, head, tuple(value) if head in _LISTS else value or None)
        self.origins[key] = origin

    def _check(self) -> None:
        changed = {name.upper(): value for name, value in self.limits.items()}
        known = {
            name.upper(): value for name, value in limits.defaults().items()
        }  # ours may be changed already
        for relation in limits.broken({**vars(limits), **known, **changed}):
            named = [n for n in self.limits if n in relation.split()]
            said = ", ".join(
                f"{name} {self.limits[name]} ({self.origin(f'limits.{name}')})" for name in named
            )
            raise UsageError(f"limits: expected {relation}, found {said}")


def _files() -> list[Path]:
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    folders = (Path("/etc"), Path(home).expanduser())
    return [*(folder / "ganglion" / "config.yml" for folder in folders), Path(".ganglion.yml")]


def _place(node: Node) -> str:
    return f"{node.source.name}:{node.line + 1}"


def _value(key: str, text: str) -> Any:
    if key in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    known = _CHOICES.get(key)
    if known is not None and text not in known:
        raise UsageError(
            f"variable GANGLION_{key.upper()}: expected one of {', '.join(known)}, found {text[:80]!r}"
        )
    return text


def _limits_of(variables: Mapping[str, str]) -> Iterator[tuple[str, int | float]]:
    """Yield the limits in variables GANGLION_LIMITS_<NAME>: NAME and value."""
    for variable in sorted(variables):
        if not variable.startswith(f"{_LIMITS}_") or not variables[variable]:
            continue
        from ganglion.document.config import is_limit

        text = variables[variable]
        try:
            number: Any = int(text)
        except ValueError:
            try:
                number = float(text)
            except ValueError:
                number = None
        name = variable.removeprefix(f"{_LIMITS}_")
        wrong = is_limit(name.lower(), number)
        if wrong:
            raise UsageError(f"variable {variable}: {wrong}, found {text[:80]!r}")
        yield name, number


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
        setattr(settings, name, Path(str(value)) if name in _PATHS else value)
        settings.origins[name] = f"option --{name}"


def options(hidden: bool) -> list[click.Option]:
    """Return the options of every command, new ones for each; hidden where a command's own help would drown."""

    def option(*names: str, **more: object) -> click.Option:
        return click.Option(names, expose_value=False, callback=_keep, hidden=hidden, **more)  # type: ignore[arg-type]

    return [
        option("--results", metavar="DIR", help="folder of the results [results]"),
        option("--store", metavar="URI", help="store of the results [DIR/ganglion.db]"),
        option("--kernel", metavar="FILE", help="connection file of the kernel to talk to"),
        option("--cpus", metavar="LIST", help="processors that a run is kept on, as in 0 or 0,2 [all]"),
        option("-v", "--verbose", count=True, help="say more; twice: everything"),
        option("-q", "--quiet", is_flag=True, help="say what went wrong only"),
        option("--json", is_flag=True, help="print JSON"),
        option("--plain", is_flag=True, help="print one line per event, also on a terminal"),
    ]
