"""The kit itself: carries out the cases against one peer and collects the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ganglion.errors import GanglionError, LaunchError, UsageError
from ganglion_conformance import connection, environment, muscle
from ganglion_conformance.bench import Bench, Order
from ganglion_conformance.case import CASES, FAIL, OK, SKIP, Case, Miss, Report, Skip, Verdict
from ganglion_conformance.drivers import Driver

GROUPS: tuple[str, ...] = ("join", "reset", "act", "step", "brain", "repeat", "beat", "errors", "bodies", "leave")
GROUPS += ("secure", "large", "state")
_LAST = ("errors.message", "leave.bye", "leave.silent", "leave.status")  # these see what the others left
_FIRST = ("join.speaks", "reset.before-start", "act.before-setup")
_AT_ONCE = 3
_ALL = (connection, environment, muscle)  # imported for the cases that they enter


def cases_of(role: str, only: Sequence[str] = ()) -> list[Case]:
    """Return the cases of a role, in the order of the report; `only` names cases or groups of them.

    Raises:
        UsageError: there is no such case; the message lists those that there are.
    """
    found = [case for case in CASES.values() if role in case.roles]
    found.sort(key=lambda case: GROUPS.index(case.group))
    names = {case.name for case in found} | {case.group for case in found}
    for word in only:
        if word not in names:
            raise UsageError(f"there is no case {word!r} of {role}s: expected one of {', '.join(sorted(names))}")
    return [case for case in found if not only or case.name in only or case.group in only]


def judge(driver: Driver, order: Order, only: Sequence[str] = (), again: str = "{case}") -> Report:
    """Carry out the cases against a peer, and return what was found.

    Most cases share one peer, one after the other; those with a peer of their own come last, some at once.

    Raises:
        UsageError: `only` names no case.
        LaunchError: the peer cannot be started.
    """
    cases = cases_of(order.role, only)
    verdicts: dict[str, Verdict] = {}
    with Bench(driver, order) as bench:
        for case in _sorted(case for case in cases if not case.alone):
            verdicts[case.name] = _carry_out(case, bench)
        alone = [case for case in cases if case.alone]
        if driver.again:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for verdict in pool.map(lambda case: _aside(case, bench), alone):
                    verdicts[verdict.case.name] = verdict
        else:
            for case in alone:
                verdicts[case.name] = Verdict(case, SKIP, "it would have to be started again")
        who = _who(bench)
    found = [verdicts[case.name] for case in cases]
    return Report(who, found, again, bench.notes.get("speed"))


def _sorted(cases: Iterable[Case]) -> list[Case]:
    """Return shared cases in the order in which they are asked."""
    place = {name: i - len(_FIRST) for i, name in enumerate(_FIRST)} | {name: 1 + i for i, name in enumerate(_LAST)}
    return sorted(cases, key=lambda case: place.get(case.name, 0))


def _aside(case: Case, bench: Bench) -> Verdict:
    with bench.aside() as own:
        return _carry_out(case, own)


def _carry_out(case: Case, bench: Bench) -> Verdict:
    try:
        text = case.run(bench) or ""
    except Skip as skip:
        return Verdict(case, SKIP, str(skip))
    except Miss as miss:
        bench.spoil()
        return Verdict(case, FAIL, str(miss))
    except LaunchError:  # it is no program: nothing can be asked
        raise
    except GanglionError as error:  # the peer ended, or said what is no message
        bench.spoil()
        return Verdict(case, FAIL, str(error))
    finally:
        bench.tidy()
    return Verdict(case, OK, text)


def _who(bench: Bench) -> str:
    """Return the first line of the report."""
    words = [bench.driver.what]
    try:
        fields = bench.hello()
    except (Miss, Skip, GanglionError):
        return words[0]
    language = fields.get("language")
    words += [language] if isinstance(language, str) and language else []
    words.append(f"protocol {fields.get('version')}")
    counts = bench.notes.get("counts")
    if counts:
        kinds = zip(counts, ("sensor", "actuator", "reward"), strict=True)
        words.append(", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in kinds))
    return " · ".join(words)
