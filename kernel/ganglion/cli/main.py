"""The command line: finds a command by name, imports it then, and turns errors into exit statuses."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import importlib
import io
import json
import os
import sys
import textwrap
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ganglion import __version__
from ganglion.cli.settings import INTERRUPTED, Settings, options
from ganglion.errors import GanglionError
from ganglion.supervisor.output import printable

_ESCAPED = "ganglion.escaped"

# name -> (module:attribute, line of the help); a command is imported when it is called
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("ganglion.cli.run:command", "Run documents; without one the demo."),
    "resume": ("ganglion.cli.resume:command", "Go on with a run that was cut short."),
    "check": ("ganglion.cli.documents:check", "Check documents; start nothing."),
    "schema": ("ganglion.cli.documents:print_schema", "Print the JSON Schema of documents."),
    "plugins": ("ganglion.cli.plugins:command", "List the installed plugins."),
    "kernel": ("ganglion.cli.kernel:command", "Run the daemon, or talk to it."),
    "submit": ("ganglion.cli.kernel:submit", "Hand documents to the daemon."),
    "attach": ("ganglion.cli.live:attach", "Join a plugin to a kernel as a process of its own."),
    "pipe": ("ganglion.cli.live:pipe", "Join a program that speaks in lines to a kernel."),
    "pause": ("ganglion.cli.live:pause", "Pause the workers of a live run at their step boundaries."),
    "continue": ("ganglion.cli.live:unpause", "Continue the paused workers of a live run."),
    "signal": ("ganglion.cli.live:signal", "Send a flow signal to a live run."),
    "set": ("ganglion.cli.live:tell_topics", "Set parameters of an environment or agent of a live run."),
    "stop": ("ganglion.cli.live:stop", "Interrupt a live run."),
}


class Commands(click.Group):
    """Find commands by name: the kernel's own in a table, those of plugins by entry point."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*COMMANDS, *(name for name in _of_plugins() if name not in COMMANDS)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command, None if there is none of that name."""
        if name in COMMANDS:
            return _with_options(_object(COMMANDS[name][0]))
        entry = _of_plugins().get(name)
        if entry is None:
            return None
        command = _with_options(_object(entry.value))
        origin = f"A command of {entry.origin}."
        if not (command.epilog or "").endswith(origin):  # click asks for a command more than once
            command.epilog = f"{command.epilog or ''}\n\n{origin}".strip()
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command; the error for an unknown name suggests the nearest one."""
        name = args[0]
        if not name.startswith("-") and self.get_command(context, name) is None:
            from ganglion.sdk.naming import nearest

            raise click.UsageError(f"there is no command `{name}`{nearest(name, self.list_commands(context))}", context)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their lines of help; no command is imported."""
        from ganglion.cli.plugins import manual  # late: reads sources of plugins, which no other command needs

        rows = [(name, line) for name, (_, line) in COMMANDS.items()]
        for name, entry in _of_plugins().items():
            if name not in COMMANDS:
                said = (manual(entry) or entry.summary).partition("\n")[0]
                rows.append((name, f"{textwrap.shorten(said, 60, placeholder=' ...')} ({entry.distribution})"))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _of_plugins() -> dict[str, Any]:
    """Return the commands of plugins by name."""
    from ganglion import registry  # reads the metadata of all distributions: only after our own table

    return {entry.name: entry for entry in registry.entries("command")}


def _object(path: str) -> click.Command:
    module, _, name = path.partition(":")
    command: click.Command = getattr(importlib.import_module(module), name)
    return command


def _with_options(command: click.Command) -> click.Command:
    """Add the options common to all commands, except those that the command defines itself."""
    own = {name for parameter in command.params for name in parameter.opts}
    command.params += [option for option in options(hidden=True) if not own & set(option.opts)]
    if isinstance(command, click.Group):
        for part in command.commands.values():
            _with_options(part)
    return command


ganglion = Commands(
    "ganglion",
    params=[*options(hidden=False)],
    help="A message-bus microkernel for learning agents. Options may stand before or after the name of a command.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, prog_name="ganglion", message="%(prog)s %(version)s")(ganglion)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return unencodable text with JSON escapes: in JSON the text is unchanged, elsewhere it is readable."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPED, _escaped)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line and return its exit status.

    0 is ok, 1 a run failed, 2 nothing was started, 130 interrupted; there is no other status. A command returns its own
    status, None for 0.
    """
    settings = Settings()
    atexit.register(gc.freeze)  # otherwise the interpreter searches all objects at exit for 0.25 s
    os.umask(mask := os.umask(0))  # commands narrow the mask; it is restored for a caller in this process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPED)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = Settings.load()
        settings.export_variables()
        status = ganglion.main(given, prog_name="ganglion", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except GanglionError as error:
        if settings.verbosity > 0:
            traceback.print_exception(error)
        else:
            text = "\n".join(printable(line) for line in str(error).split("\n"))  # may contain other programs' text
            click.echo(text if getattr(error, "faults", ()) else f"ganglion: {text}", err=True)
        return error.exit_status
    except OSError as error:  # the reader of our output has ended, or a file cannot be written
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
        with Path(os.devnull).open("wb") as nothing:  # where the interpreter's own flush would fail
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            click.echo(f"ganglion: {error.filename or 'standard output'}: {error.strerror}", err=True)
        return 1
    finally:
        os.umask(mask)
    return status if isinstance(status, int) else 0
