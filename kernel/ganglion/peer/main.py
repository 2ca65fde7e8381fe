"""The program of every Python participant: joins the bus in its role and serves until it is told to leave."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ganglion import registry
from ganglion.errors import GanglionError, UsageError
from ganglion.limits import DEADLINES_S, EXIT_DIFFERS
from ganglion.log import set_up
from ganglion.peer.author import Loader
from ganglion.peer.host import Host
from ganglion.peer.journal.write import Journal, JournalDiffers, JournalFile
from ganglion.peer.participant import Connect, Participant
from ganglion.wire.name import Role

_FAILED = 1
# Objects between two looks for cycles: a step makes some hundred objects, and hardly a cycle.
_GARBAGE_OBJECTS = 20_000


def main(variables: Mapping[str, str], command: Sequence[str] = ()) -> int:
    """Join as the variables say (GANGLION_ENDPOINT, _NAME, _TOKEN, _ROLE, ...) and serve; return the exit status.

    `command` is the program behind a pipe that plays the environment or the muscle.
    """
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor
    usual = gc.get_threshold()
    gc.freeze()  # what is there now stays: nothing of it needs to be looked at again
    gc.set_threshold(_GARBAGE_OBJECTS, *usual[1:])
    try:
        return serve(dict(variables), command=command)
    except (GanglionError, JournalDiffers) as error:
        _say(f"{variables.get('GANGLION_NAME', 'peer')}: {error}")
        return error.exit_status if isinstance(error, GanglionError) else EXIT_DIFFERS
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


def serve(variables: dict[str, str], on_join: Callable[[], None] | None = None, command: Sequence[str] = ()) -> int:
    """Join and serve like `main`; errors are raised. GANGLION_PLUGIN names the class of an environment from outside."""
    from ganglion.transport.blocking import connect_blocking
    from ganglion.transport.curve import SECRETS, ClientKeys

    for name in SECRETS:  # we have read them; what the plugin starts has no business with them
        os.environ.pop(name, None)
    missing = [name for name in ("GANGLION_ENDPOINT", "GANGLION_NAME", "GANGLION_ROLE") if not variables.get(name)]
    if missing:
        raise UsageError(f"expected the variable {missing[0]}, found nothing")
    told = ("GANGLION_FOLDER", "GANGLION_INCARNATION")  # an author's object can tell a successor, and a stranger's run
    given = {name: value for name, value in variables.items() if name.startswith("PG") or name in told}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        host = host_of(Role(variables["GANGLION_ROLE"]), variables, command)
        keys = ClientKeys.of(variables)
        journal = _journal(variables)
        node = variables.get("GANGLION_NODE")
        if node:
            from ganglion.peer.modelstore import BusModelStore

            host.place = BusModelStore(Path(node), lambda: host.participant)
        connect: Connect = lambda: connect_blocking(variables["GANGLION_ENDPOINT"], keys=keys)  # noqa: E731
        for name in filter(None, os.environ.get("GANGLION_TRACER", "").split(",")):
            connect = registry.load("tracer", name)(connect, variables["GANGLION_NAME"])
        return live(host, connect, variables, journal=journal, on_join=on_join)
    finally:  # as it was before: the process may go on with something else
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _journal(variables: Mapping[str, str]) -> Journal | None:
    """Return the journal, None if none is kept; JournalDiffers where that of a predecessor is on another node."""
    path = Path(variables["GANGLION_JOURNAL"]) if variables.get("GANGLION_JOURNAL") else None
    if path is not None and variables.get("GANGLION_NODE"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not variables.get("GANGLION_HEARS"):
            path.unlink(missing_ok=True)  # of one before, with another history
        elif not path.exists():
            raise JournalDiffers("its journal was on a node that is lost")
    return None if path is None else Journal(JournalFile(path))


def live(
    host: Host,
    connect: Connect,
    variables: Mapping[str, str],
    clock: Callable[[], float] = time.monotonic,
    pulse: bool = True,
    journal: Journal | None = None,
    pause: Callable[[float], None] = time.sleep,
    on_join: Callable[[], None] | None = None,
) -> int:
    """Join, serve until told to leave, and leave; return the exit status. Errors are raised, as by `serve`.

    `connect`, `clock`, `pulse`, `journal` and `pause` are those of `Participant`.
    """
    participant = Participant(connect, host.handlers(), host.told, host.gone, clock, pulse, journal, pause)
    participant.on_return = host.reconnected
    participant.takes_attributes = not variables.get("GANGLION_GONE_BACK")
    host.participant = participant
    incarnation = int(variables.get("GANGLION_INCARNATION", "0"))
    hello = participant.hello(
        variables["GANGLION_ROLE"], variables["GANGLION_NAME"], variables.get("GANGLION_TOKEN", ""), incarnation
    )
    participant.join(hello)
    if on_join is not None:
        on_join()
    path = variables.get("GANGLION_LOG")
    log = set_up(participant.name, None if path == "-" else path) if path else None
    if log is not None:
        log.say("info", "peer.joined", pid=os.getpid())
        participant.on_failure = lambda call, failure: log.say(
            "error", "call.failed", call=call, kind=failure.kind, message=failure.message, where=failure.where
        )
        participant.on_tolerated = lambda fields: log.say("warning", "hook.excused", **fields)
    host.joined()
    leave = participant.serve(host.tick, host.idle_s, host.timed)
    host.close()
    participant.leave()
    if log is not None:
        log.say("info", "peer.left", reason=leave.reason)
        log.close()
    if leave.refused:
        _say(f"{participant.name}: the kernel ended the connection: {leave.reason}")
        return _FAILED
    return 0


def host_of(role: Role, variables: Mapping[str, str], command: Sequence[str] = ()) -> Host:
    """Return the host of a role; each imports what it alone needs."""
    loader = Loader.of(variables)
    if command:
        from ganglion.peer.lines import LinesLoader

        loader = LinesLoader(loader.folder, loader.allow, command)
    if role is Role.ENVIRONMENT:
        from ganglion.peer.environment.host import EnvironmentHost

        return EnvironmentHost(loader, variables.get("GANGLION_PLUGIN"))
    if role is Role.MUSCLE:
        from ganglion.peer.agent.muscle import MuscleHost

        return MuscleHost(loader)
    if role is Role.BRAIN:
        from ganglion.peer.agent.brain import BrainHost

        return BrainHost(loader)
    if role is Role.TABLE:
        from ganglion.peer.agent.table import TableHost

        return TableHost(loader)
    if role is Role.CONTROLLER:
        from ganglion.peer.worker.controller import ControllerHost

        return ControllerHost(loader)
    if role is Role.GOVERNOR:
        from ganglion.peer.governor import GovernorHost

        results = f"{variables['GANGLION_RESULTS']}/{variables['GANGLION_RUN']}"
        return GovernorHost(loader, results, variables.get("GANGLION_STORE"), variables.get("GANGLION_STARTED", ""))
    if role is Role.OBSERVER:
        from ganglion.peer.observer import ObserverHost

        results = variables.get("GANGLION_RESULTS", "")
        return ObserverHost(loader, variables["GANGLION_PLUGIN"], variables["GANGLION_RUN"], results)
    if role is Role.STORE:
        return _store_host(variables)
    raise UsageError(f"GANGLION_ROLE: expected the role of a participant, found {role.value!r}")


def _store_host(variables: Mapping[str, str]) -> Host:
    from ganglion.peer.models import store_class
    from ganglion.peer.results.store import StoreHost

    uri = variables["GANGLION_STORE"]
    store = store_class(uri)
    again = int(variables.get("GANGLION_INCARNATION", "1")) > 1
    run = variables["GANGLION_RUN"]
    writer = store.writer(uri, run, again, variables.get("GANGLION_STARTED", ""))
    if variables.get("GANGLION_WITHDRAW"):  # the run goes on, after it was cut short, in this phase
        writer.withdraw(int(variables["GANGLION_WITHDRAW"]))
    if variables.get("GANGLION_WITHDRAW_ALL"):
        writer.withdraw_behind(int(variables["GANGLION_WITHDRAW_ALL"]), {}, {})
    if again and variables.get("GANGLION_KEEP"):
        writer.keep(int(variables["GANGLION_KEEP"]))
    behind, span = variables.get("GANGLION_WITHDRAW_BEHIND"), variables.get("GANGLION_RECORD_S", DEADLINES_S["record"])
    return StoreHost(writer, float(span) if span else None, int(behind) if behind else None)


def _say(text: str) -> None:
    """Write to the output that the supervisor keeps."""
    sys.stderr.write(text + "\n")
