"""Birth: the process of a member is started, with what it has to know of its place in a run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ganglion.errors import LaunchError
from ganglion.run.recovery import span_s, widest
from ganglion.supervisor.connection import Connection, write_private
from ganglion.supervisor.folder import log_name
from ganglion.supervisor.launcher import CREDENTIALS, Launcher
from ganglion.supervisor.member import Member
from ganglion.supervisor.user import User
from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion.wire.name import Role

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Run

__all__ = ["Home", "argv_of", "start", "variables_of"]

_STORED = (Role.STORE, Role.GOVERNOR)  # the governor looks for models of other runs there


@dataclass(frozen=True, slots=True)
class Home:
    """Where processes are born: how they reach the broker, the supervisor's private folder, the results.

    `allow` are packages that import paths may name beside those of the plan.
    """

    connection: Connection
    folder: Path
    results: Path
    allow: Sequence[str] = ()


async def start(launcher: Launcher, home: Home, run: Run, member: Member) -> None:
    """Start the process of a member; if that cannot be done the member says why."""
    if run.over.is_set():
        return  # it ended while this one was being announced
    member.start()
    log = run.folder.logs / f"{log_name(member.place)}.out"
    program = member.place.program
    try:
        user = run.folder.give(member.place)
        variables = variables_of(home, run, member)
        if program is not None:
            argv = argv_of(home, run, member, variables, user)
            cwd = Path(run.plan.folder or ".", program.cwd or "")
            variables = {**variables, **program.variables}
            process = launcher.execute(member.label, argv, variables, member.exited, log, cwd, user, run.mask)
        else:
            process = await launcher.fork(
                log_name(member.place), variables, member.exited, log=log, user=user, mask=run.mask
            )
    except (LaunchError, OSError) as error:
        member.failed(str(error))
        return
    member.started(process)


def variables_of(home: Home, run: Run, member: Member) -> dict[str, str]:
    """Return what a process is told of its place; a program that speaks for itself gets no more than it needs."""
    foreign = member.place.program is not None
    outside = foreign or member.place.run_as is not None  # who may not open our socket file
    variables = {
        "GANGLION_ENDPOINT": (home.connection.tcp or "") if outside else home.connection.endpoint,
        "GANGLION_NAME": member.name,
        "GANGLION_TOKEN": member.token,
        "GANGLION_ROLE": member.place.role.value,
        "GANGLION_INCARNATION": str(member.incarnation),
        "GANGLION_RUN": run.id,
    }
    if foreign:
        return variables
    if member.place.role in _STORED:  # nobody else needs to know where rows and models of all runs are
        variables |= {"GANGLION_RESULTS": str(home.results.resolve())}
        known = {**os.environ, "GANGLION_STORE": run.store or "", "GANGLION_KERNEL": ""}
        variables |= {name: known[name] for name in CREDENTIALS if known.get(name)}
    if member.tape is not None:
        variables["GANGLION_TAPE"] = str(member.tape)
        if run.rewound:  # somebody was not what his portrait was: nobody is portrayed again
            variables["GANGLION_GONE_BACK"] = "1"
    if member.place.role is Role.STORE:
        variables |= run.withdrawal
        variables |= {} if run.kept is None else {"GANGLION_KEEP": str(run.kept)}
        span = span_s("record", widest(phase.deadlines_s for phase in run.plan.phases))
        variables["GANGLION_RECORD_S"] = "" if span is None else str(span)
    return variables | {
        "GANGLION_FOLDER": run.plan.folder,
        "GANGLION_ALLOW": ",".join([*run.plan.allow, *home.allow]),
        "GANGLION_LOG": str((run.folder.logs / f"{log_name(member.place)}.jsonl").resolve()),
    }


def argv_of(
    home: Home, run: Run, member: Member, variables: Mapping[str, str], user: User | None
) -> list[str]:
    """Return a program's arguments with `{connection}` replaced by the path of a file made for it alone."""
    program = member.place.program
    argv = (program.command if program is not None else None) or []
    if program is not None and program.speaks == "lines":
        argv = [sys.executable, "-P", "-m", "ganglion.peer.lines", *argv]
    if not any("{connection}" in argument for argument in argv):
        return list(argv)
    words = {key.removeprefix("GANGLION_").lower(): value for key, value in variables.items()}
    name = f"{log_name(member.place)}.json"
    path = home.folder / name if user is None else (run.folder.own(user) / name).resolve()
    write_private(path, json.dumps({"version": PROTOCOL_VERSION, **words}, indent=2).encode())
    if user is not None:
        user.own(path)
    return [argument.replace("{connection}", str(path)) for argument in argv]
