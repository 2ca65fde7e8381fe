"""Trial of an environment: started and shut down once, outside any run, to learn its declarations."""

from __future__ import annotations

import faulthandler
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S
from ganglion.peer.author import Loader, failure_of
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.run.plan import Deadlines, EnvironmentPlan, PhasePlan, Plan, span_s
from ganglion.sdk.seed import integer_from_words, words
from ganglion.wire.conversation import Request
from ganglion.wire.envelope import Head
from ganglion.wire.messages import EnvironmentStart, Nothing
from ganglion.wire.verb import Verb

WIRE_BITS = 10  # a stream yields integers of 63 bits, a message carries 53


def try_out(order: Mapping[str, Any], watch: TextIO) -> dict[str, Any]:
    """Make an environment as a run does, start it, shut it down; return its declarations or the error.

    `order` has `plan` (`Plan.to_map`), `phase` (an index), `environment` (a uid) and `worker`. The author's code runs
    in this process, which must do nothing else. If the code hangs, a traceback is written to the file `watch` and the
    process ends with status 1. The result has `sensors`, `actuators`, `rewards` (rows of id and space; rewards null:
    declared by the first update), or `message` and `traceback`.
    """
    plan = Plan.from_map(dict(order["plan"]))
    phase = plan.phases[order["phase"]]
    environment = next(e for e in phase.environments if e.uid == order["environment"])
    host = EnvironmentHost(Loader(plan.folder, tuple(plan.allow)))
    start = _start(plan, phase, environment, order["worker"])
    table = (environment.recovery or phase).deadlines_s
    try:
        declared = host.start(_begin("environment.start", table, watch), start)
        host.shutdown(_begin("environment.shutdown", table, watch), Nothing())
    except SystemExit as stop:
        where = f"environment {environment.uid} (worker {order['worker']})"
        return {"message": f"{where}: it ended its process (SystemExit: {stop.code})", "traceback": None}
    except Exception as error:  # noqa: BLE001 - whatever an author's code raises is the answer
        failure = failure_of(error)
        where = f"{failure.where}: " if failure.where else ""
        return {"message": f"{where}{failure.message}", "traceback": failure.traceback}
    finally:
        faulthandler.cancel_dump_traceback_later()
    kinds = {"sensors": declared.sensors, "actuators": declared.actuators, "rewards": declared.rewards}
    return {
        kind: None if rows is None else [{"id": row["id"], "space": row["space"]} for row in rows]
        for kind, rows in kinds.items()
    }


def _begin(call: str, table: Deadlines, watch: TextIO) -> Request:
    """Wrap a call; the process ends if the call exceeds its deadline, or the default deadline if it has none."""
    longest_s = span_s(call, table) or DEADLINES_S.get(call.rpartition(".")[2]) or DEADLINE_OTHER_S
    faulthandler.dump_traceback_later(longest_s, exit=True, file=watch)
    return Request("", Head(Verb.CALL, 1, call), b"", ())


def _start(plan: Plan, phase: PhasePlan, environment: EnvironmentPlan, worker: int) -> EnvironmentStart:
    """Return the message that starts the environment in the plan's run, with the same seeds."""
    path: list[str | int] = ["phase", phase.name, phase.mode, "environment", environment.uid, "worker", worker]
    place = (plan.uid, phase.index, phase.name, phase.mode, worker, environment.uid, environment.params_of(worker))
    plugins = {name: getattr(environment, name) for name in ("plugin", "reward", "transformer")}
    parts: Any = {name: plugin and plugin.outline() for name, plugin in plugins.items()}
    return EnvironmentStart(*place, *first_seeds(int(plan.seed), path), **parts)


def first_seeds(seed: int, path: Sequence[str | int]) -> tuple[int, int, bytes, bytes]:
    """Return the seeds of an environment and of its first episode, then their streams."""
    own, episode = words(seed, path), words(seed, [*path, "episode", 0])
    return integer_from_words(own) >> WIRE_BITS, integer_from_words(episode) >> WIRE_BITS, own, episode
