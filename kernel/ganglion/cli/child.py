"""Child processes that may run authors' code or import arrays, one question each; the questions of commands."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ganglion import registry
from ganglion.document.fault import Fault
from ganglion.document.marks import pointed
from ganglion.errors import DocumentError, LaunchError, PluginInvalid
from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S
from ganglion.run.agents import misfits, resolve, same_declarations, with_groups_of
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, Process, span_s
from ganglion.supervisor.launch.system import SINGLE_THREAD
from ganglion.supervisor.life import exit_text
from ganglion.wire.name import Role

_PYTHON = (sys.executable, "-P")  # -P: no file in the working folder shadows a module
_MODULE = "ganglion.cli.child"  # `__name__` is `__main__` in the child
_DEADLINE_S = 120.0  # importing torch from a cold disk takes tens of seconds; a module that hangs never ends
_AT_ONCE_MAX = 4  # environments; each may be a simulator that uses a processor and much memory
_HANGS = "Timeout ("  # prefix of faulthandler's output before it ends a process

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold a child's result: `status` as in subprocess, None if the child was killed after its deadline; `text`."""

    status: int | None
    text: str


class Children:
    """Run children, each in a session of its own; several threads may call `ask` at the same time."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def ask(self, module: str, question: Any, span_s: float) -> Answer:
        """Run a module with a question in JSON as its standard input; return its standard output.

        Processes of the child's session that live after its end, or after `span_s`, are killed. Files replace pipes: a
        simulator that outlives its parent would keep a pipe open for ever.
        """
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
            source.write(json.dumps(question).encode())
            source.seek(0)
            process = subprocess.Popen(
                [*_PYTHON, "-m", module],
                stdin=source,
                stdout=sink,
                start_new_session=True,
                env={**os.environ, **SINGLE_THREAD},
            )
            self._running.add(process)
            if self._ended:
                _kill(process)
            status: int | None = None
            try:
                status = process.wait(span_s)
            except subprocess.TimeoutExpired:
                pass
            finally:
                _kill(process)
                process.wait()
                self._running.discard(process)
            sink.seek(0)
            return Answer(status, sink.read().decode(errors="backslashreplace"))

    def end(self) -> None:
        """End all running children, and all that are started later."""
        self._ended = True
        for process in tuple(self._running):
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the session of a child; the session's number is not reused while any of its processes lives."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ask(question: dict[str, Any], task: str = "imports plugins") -> Any:
    """Return the answer of a child; LaunchError if it ends without one, or takes too long."""
    answer = Children().ask(_MODULE, question, _DEADLINE_S)
    if answer.status is None:
        raise LaunchError(f"the process that {task} gave no answer within {_DEADLINE_S:g} s")
    if answer.status != 0:
        raise LaunchError(f"the process that {task} ended with exit status {answer.status}")
    return json.loads(answer.text)


# -- questions of commands --------------------------------------------------------------------------------------------
def find_misfits(entries: Sequence[registry.Entry]) -> dict[tuple[str, str, str], str]:
    """Return the faults of plugins by (group, distribution, name); plugins without faults are left out."""
    return {(group, distribution, name): fault for group, distribution, name, fault, _ in _imported(entries) if fault}


def parameters(groups: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return group -> name -> JSON Schema of the map of parameters; a plugin that cannot be imported is left out.

    Each name is also present as `distribution:name`.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {group: {} for group in groups}
    for group, distribution, name, fault, form in _imported([e for kind in groups for e in registry.entries(kind)]):
        if fault:
            sys.stderr.write(f"{fault}\n")
        else:
            found[group].setdefault(name, form)
            found[group][f"{distribution}:{name}"] = form
    return found


def _imported(entries: Sequence[registry.Entry]) -> list[list[Any]]:
    """Return group, distribution, name, fault if there is one, and the form of the parameters of each plugin."""
    found: list[list[Any]] = _ask({"plugins": [[entry.group, entry.distribution, entry.name] for entry in entries]})
    return found


def seeds_of(seed: str, paths: Sequence[Sequence[str | int]]) -> list[str]:
    """Return the seed of each stream of a run as decimal text: it has up to 63 bits."""
    found: list[str] = _ask({"seeds": [seed, *paths]}, "computes seeds")
    return found


def path_of(phase: PhasePlan, process: Process) -> list[str | int]:
    """Return the path of the stream of random numbers for a process's object."""
    if process.role is Role.BRAIN:
        return ["phase", phase.name, "agent", str(process.uid), "brain"]
    place: dict[Role, list[str]] = {
        Role.CONTROLLER: ["controller"],
        Role.MUSCLE: ["agent", str(process.uid), "muscle"],
        Role.ENVIRONMENT: ["environment", str(process.uid)],
    }
    mode = "evaluate" if process.evaluation else phase.mode
    return ["phase", phase.name, mode, *place[process.role], "worker", -1 if process.worker is None else process.worker]


def check_deeply(
    plan: Plan, store: str | None = None, results: str | None = None, tracebacks: list[str] | None = None
) -> list[Fault]:
    """Return the faults of a plan that only its plugins can detect.

    Classes, parameters, conditions, recorded episodes (also those in `store`) and models of earlier runs (there and in
    the folder `results`; None: they are not looked for) are checked first. Then each environment without faults is
    started once. Then brains check whether they can learn with the declared spaces. Tracebacks of environments are
    added to `tracebacks`; None: they go to standard error.
    """
    rows: Rows = _ask({"plan": {**plan.to_map(), "store": store, "results": results, "tried": True}})
    errors = [row for row in rows if row["severity"] == "error"]
    known: dict[str, Any] = {"pairs": [], "declared": {}}
    rows += try_environments(plan, errors, known, tracebacks)
    if not errors and (known["pairs"] or any(phase.bodies is not None for phase in plan.phases)):
        rows += _ask({"fit": {**known, "plan": {**plan.to_map(), "document": ""}}})
    faults = [Fault(**row) for row in rows]
    wrong = {fault.place for fault in faults if fault.severity == "error"}
    told = [fault for fault in faults if fault.severity == "error" or fault.place not in wrong]
    return pointed(told, plan.source, plan.document)


# -- environments, each started once ----------------------------------------------------------------------------------
def try_environments(
    plan: Plan,
    faults: Sequence[Mapping[str, Any]] = (),
    told: dict[str, Any] | None = None,
    tracebacks: list[str] | None = None,
) -> Rows:
    """Start each environment of a plan once, in a process of its own, and return maps of faults.

    Faults are errors of the author's code, values outside their spaces, workers whose declarations differ, and ids that
    no environment declares. An environment with `command` or `attach`, or one that plays recordings, is skipped: its
    ids are unknown before it runs, and are accepted.

    Args:
        plan: Of a document without other faults.
        faults: Of plugins that cannot be loaded, or not with their parameters; these are skipped, too.
        told: Filled by this function: `pairs` with the brains of agents whose spaces are known, and these spaces;
            `declared` with the declarations of environments, by `EnvironmentPlan.trial`.
        tracebacks: Filled with those of authors' code, each once; None: they go to standard error.
    """
    wrong = [_place(fault) for fault in faults]
    orders: dict[str, tuple[PhasePlan, EnvironmentPlan, int]] = {}
    for phase in plan.phases:
        for environment in phase.environments:
            parts = (environment.plugin, environment.reward, environment.transformer)
            places = [_place(registry.fault(part.at, "")) for part in parts if part is not None]
            own = environment.plugin is not None and not registry.plays(environment.plugin.name)
            if own and not any(place in wrong for place in places):
                for worker in _variants(phase, environment):
                    orders.setdefault(environment.trial(worker), (phase, environment, worker))
    children, tree = Children(), {**plan.to_map(), "document": ""}
    with ThreadPoolExecutor(min(_AT_ONCE_MAX, os.cpu_count() or 1)) as pool:
        try:
            found = pool.map(lambda order: _try(children, tree, *order), orders.values())
            answers = dict(zip(orders, found, strict=True))
        except BaseException:  # Ctrl-C in particular: children have sessions of their own and do not receive it
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise
    raised = dict.fromkeys(answer["traceback"] for answer in answers.values() if answer.get("traceback"))
    if tracebacks is None:
        sys.stderr.writelines(f"{text}\n" for text in raised)
    else:
        tracebacks += raised
    told = {"pairs": [], "declared": {}} if told is None else told
    told["declared"] |= {key: answer for key, answer in answers.items() if "message" not in answer}
    return [registry.fault(at, text) for at, text in _faults(plan, answers, told["pairs"])]


_place = itemgetter("file", "line", "column", "path")


def _variants(phase: PhasePlan, environment: EnvironmentPlan) -> range:
    """Return the workers whose parameters differ."""
    return range(min(phase.workers, max(1, len(environment.per_worker))))


def _try(
    children: Children, tree: Mapping[str, Any], phase: PhasePlan, environment: EnvironmentPlan, worker: int
) -> dict[str, Any]:
    """Return the answer of a child, or a fault with the cause of its end."""
    table = (environment.recovery or phase).deadlines_s
    start_s, shutdown_s = (  # a call without a deadline gets the default one
        span_s(f"environment.{word}", table) or DEADLINES_S.get(word) or DEADLINE_OTHER_S
        for word in ("start", "shutdown")
    )
    order = {"plan": tree, "phase": phase.index, "environment": environment.uid, "worker": worker}
    answer = children.ask(_MODULE, {"trial": order}, start_s + shutdown_s + _DEADLINE_S)
    if answer.status == 0:
        found: dict[str, Any] = json.loads(answer.text)
        return found
    if answer.text.startswith(_HANGS):
        text = f"it hangs: expected it to start within {start_s:g} s and to shut down within {shutdown_s:g} s"
    elif answer.status is None:
        text = f"its process gave no answer within {start_s + shutdown_s + _DEADLINE_S:g} s"
    else:
        text = f"its process ended while it was started: {exit_text(answer.status)}"
    return {"message": f"environment {environment.uid} (worker {worker}): {text}", "traceback": answer.text}


def _faults(plan: Plan, answers: Mapping[str, dict[str, Any]], pairs: Rows) -> Iterator[tuple[str, str]]:
    """Yield (place, message) of each fault in document order, and fill `pairs`."""
    for phase in plan.phases:
        declared: dict[str, dict[str, Any]] = {}
        unknown: list[str] = []
        for environment in phase.environments:
            found = [answers.get(environment.trial(worker)) for worker in _variants(phase, environment)]
            known = [answer for answer in found if answer is not None and "message" not in answer]
            at = "" if environment.plugin is None else environment.plugin.at
            yield from ((at, str(a["message"])) for a in found if a is not None and "message" in a)
            if len(known) < len(found):
                unknown.append(environment.uid)
                continue
            declared[environment.uid] = known[0]
            try:
                declared[environment.uid] = with_groups_of(phase, environment.uid, known[0])
            except DocumentError as error:
                yield at, str(error)
            other = next((w for w, answer in enumerate(known) if not same_declarations(answer, known[0])), None)
            if other is not None:
                yield at, f"environment {environment.uid} declares otherwise in worker {other} than in worker 0"
        wrong = misfits(phase, declared, unknown)
        yield from wrong
        for agent in resolve(phase, declared) if not wrong and not unknown else ():
            brain = agent.plan.brain
            if brain is not None and not agent.plan.filters:  # filters declare other spaces
                row = {"agent": agent.plan.name, "brain": brain.name, "params": brain.params, "at": brain.at}
                pairs += [{**row, "sensors": seen, "actuators": moved} for _, seen, moved in agent.parts()]


# -- in the child -----------------------------------------------------------------------------------------------------
def _import(rows: Sequence[Sequence[str]]) -> Iterator[list[Any]]:
    """Yield each plugin with its fault, and with the form of its parameters if it is a valid class."""
    for group, distribution, name in rows:
        try:
            found = registry.load(group, f"{distribution}:{name}")
        except PluginInvalid as error:
            yield [group, distribution, name, str(error), None]
        else:
            form = form_of(found) if registry.GROUPS[group].base else None
            yield [group, distribution, name, None, form]


def _unfit(question: dict[str, Any]) -> Rows:
    """Return the objections of brains to the sensors and actuators of their agents, and the faults of bodies."""
    from ganglion.peer import check
    from ganglion.sdk import ActuatorInformation, SensorInformation
    from ganglion.sdk.spaces import space_from_wire

    plan, found = question["plan"], check.fit_bodies(question["plan"], question["declared"])
    for pair in question["pairs"]:
        rows: list[list[Any]] = [
            [kind(None, space_from_wire(row["space"]), row["id"]) for row in pair[word]]
            for word, kind in (("sensors", SensorInformation), ("actuators", ActuatorInformation))
        ]
        cls = registry.load("brain", pair["brain"], plan["folder"], plan["allow"])
        try:
            cls.check_spaces(*rows, **pair["params"])
        except Exception as error:  # noqa: BLE001 - authors' code may raise anything; the error becomes a fault
            found.append(registry.fault(pair["at"], f"agent {pair['agent']}: {error}"))
    return found


def _seeds(question: Sequence[Any]) -> list[str]:
    from ganglion.sdk.seed import integer_from_words, words

    seed, *paths = question
    return [str(integer_from_words(words(int(seed), path))) for path in paths]


def form_of(cls: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of the parameters that a class takes."""
    from ganglion.sdk.part import parameters_of

    taken, is_open = parameters_of(cls)
    try:
        hints = typing.get_type_hints(cls.__init__)
    except (AttributeError, NameError, SyntaxError, TypeError, ValueError):  # names for type checkers only
        hints = {}
    properties = {}
    for name, parameter in taken.items():
        form = schema_of(hints.get(name, Any))
        properties[name] = {**form, "default": parameter.default} if _is_plain(parameter.default) else form
    found: dict[str, Any] = {"type": "object", "properties": properties}
    about = (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
    if about:
        found["description"] = about
    return found if is_open else {**found, "additionalProperties": False}


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the schema of a type; empty for a type that JSON cannot describe, so that its values are accepted."""
    from pydantic import TypeAdapter

    try:
        found = TypeAdapter(hint).json_schema()
    except Exception:  # noqa: BLE001 - authors' types may raise anything
        return {}
    return {} if "$defs" in found else found  # references would be broken within another schema


def _is_plain(value: object) -> bool:
    """Say whether a document can contain a value as it is."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def _child() -> None:
    """Answer one question; output of plugins during their import goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    question = json.load(sys.stdin)

    from ganglion.peer import check
    from ganglion.peer.environment.trial import try_out

    answers: dict[str, Callable[[Any], Any]] = {
        "plan": check.inspect,
        "trial": lambda order: try_out(order, answer),
        "plugins": lambda rows: list(_import(rows)),
        "seeds": _seeds,
        "fit": _unfit,
    }
    (key,) = answers.keys() & question.keys()
    found = answers[key](question[key])
    with answer:
        json.dump(found, answer)


if __name__ == "__main__":
    _child()
