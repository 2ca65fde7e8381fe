from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ganglion.sdk import Signal
from ganglion.sdk.condition import EpisodeView, TerminationCondition
from ganglion.sdk.flow import Mode
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Bye, FlowSignal, Go, Verdict
from ganglion.wire.verb import Verb


def condition(
    name: str, answer: Callable[[EpisodeView], Signal], reason: str = "", issuer: str = ""
) -> type[TerminationCondition]:
    """Return a condition of this name whose episode part is `answer`."""
    members: dict[str, Any] = {"episode": lambda self, view: answer(view), "reason": reason, "issuer": issuer}
    if name == "environment":  # what the end of environments means is its to say
        members["reads"] = frozenset({"ended"})
    return type(name, (TerminationCondition,), members)


def at(step: int, signal: Signal = Signal.RESET) -> Callable[[EpisodeView], Signal]:
    """Return what fires from a step on."""
    return lambda view: signal if view.step >= step else Signal.CONTINUE


def causes(report: Any) -> list[tuple[str, str, str]]:
    """Return the causes of an episode's end."""
    return [(cause["signal"], cause["issuer"], cause["reason"]) for cause in report.causes]


def steer(it: Any, signal: str, steps: int | None = None) -> None:
    """Let the governor send a signal."""
    it.link.tell("r/governor", "", FlowSignal(signal, "operator", steps=steps), Verb.SIGNAL)


# -- conditions -------------------------------------------------------------------------------------------------------


def test_an_environment_that_cuts_itself_truncates(worker: Any, world: Any) -> None:
    """If none of those that ended terminated, the episode is truncated."""
    it = worker({"w": world(truncates=2)})
    it.run()
    report = it.reports[0]

    assert (False, True, "truncated: environment") == (report.terminated, report.truncated, report.reason)


def test_its_end_is_said_once(worker: Any) -> None:
    """However many conditions speak for environments, there is one cause."""
    names = (("environment", ""), ("vanilla", "environment"))
    it = worker(conditions=[condition(name, at(2), "terminated", issuer) for name, issuer in names])
    it.run()

    assert [("RESET", "condition:environment", "terminated")] == causes(it.reports[0])


def test_the_environments_condition_decides_when(worker: Any, world: Any) -> None:
    """A condition that speaks for environments may wait; without it the first that ends is the end."""
    it = worker(
        {"v": world(ends=1), "w": world(ends=2)},
        conditions=[condition("environment", lambda view: at(1)(view) if len(view.ended) == 2 else Signal.CONTINUE)],
    )
    it.run()

    assert 2 == it.reports[0].steps


def test_the_greatest_signal_decides(worker: Any, world: Any) -> None:
    """Of two conditions that fire at once the greater signal gives the reason, else its name; both are causes."""
    it = worker({"w": world()}, conditions=[condition("Mild", at(1)), condition("Great", at(1, Signal.STOP_PHASE))])
    it.run()

    assert ("Great", 2) == (it.reports[0].reason, len(it.reports[0].causes))


def test_a_condition_sees_the_episode(worker: Any, world: Any) -> None:
    """Worker, mode, numbers, flags, times; objectives of this episode only where they are settled."""
    views: list[EpisodeView] = []
    sees = condition("Sees", lambda view: views.append(view) or Signal.CONTINUE)  # type: ignore[func-returns-value]
    it = worker({"w": world(ends=2)}, conditions=[sees])
    it.verdicts = [Verdict("RESET", episode=1)]
    it.run(settle=True)

    assert [(0, Mode.TRAIN, 0, 1), (0, Mode.TRAIN, 0, 2), (0, Mode.TRAIN, 1, 1), (0, Mode.TRAIN, 1, 2)] == [
        (view.worker, view.mode, view.episode, view.step) for view in views
    ]
    assert [("w",)] == [view.ended for view in views[1:2]]
    assert [2, [10.0, 20.0]] == [views[1].simtime["w"].simtime_ticks, list(views[1].objectives["one"])]
    assert [10.0, 20.0] == list(views[3].objectives["one"])


def test_a_failing_condition_is_blamed(worker: Any) -> None:
    """The failure names the condition's class and method, worker and step."""
    it = worker(conditions=[condition("Broken", lambda view: 1 // 0)])  # type: ignore[arg-type,return-value]
    failure = it.fail().failure

    assert ("author", "ZeroDivisionError: integer division or modulo by zero") == (failure.kind, failure.message)
    assert (failure.where or "").endswith("step 1, hook Broken.episode")


# -- signals ----------------------------------------------------------------------------------------------------------


def paused(it: Any, answers: Sequence[Callable[[], Any]]) -> None:
    """Run a phase that is paused before its first step, with what happens during the pause."""
    it.setup()
    it.start()
    steer(it, "PAUSE")
    it.link.idle.extend(answers)
    it.hosted.host.tick()


def test_a_pause_stands_until_continue(worker: Any) -> None:
    """After PAUSE nothing is asked until CONTINUE; then the episode goes on where it stood."""
    it = worker()
    seen: list[int] = []
    look = lambda: seen.append(len(it.link.asked("environment.update")))  # noqa: E731
    paused(it, [look, look, lambda: steer(it, "PAUSE"), look, lambda: steer(it, "CONTINUE")])

    assert ([1, 1, 1], 2, "terminated") == (seen, it.reports[0].steps, it.reports[0].reason)
    assert it.hosted.clock.now_s > 100.5


@pytest.mark.parametrize("ends", [1, 2])
def test_a_pause_holds_where_the_episode_ends(worker: Any, world: Any, ends: int) -> None:
    """PAUSE at the very boundary at which the environment has ended is not lost: the end comes after CONTINUE."""
    it = worker({"w": world(ends=ends)})
    one = lambda: steer(it, "CONTINUE", 1)  # noqa: E731
    paused(it, [*[one] * (ends - 1), lambda: steer(it, "CONTINUE")])

    assert [*range(1, ends + 1)] == [stand.steps for stand in it.stands]
    assert (ends, "terminated") == (it.reports[0].steps, it.reports[0].reason)


def test_a_greater_signal_ends_a_pause(worker: Any, world: Any) -> None:
    """RESET while it stands ends the episode there."""
    it = worker({"w": world()})
    paused(it, [lambda: steer(it, "RESET")])

    assert (1, "truncated: signal RESET") == (it.reports[0].steps, it.reports[0].reason)


def test_a_pause_ends_when_the_worker_is_told_to_leave(worker: Any, world: Any) -> None:
    """BYE during a pause ends the episode as interrupted."""
    it = worker({"w": world()})
    bye = codec_of(Bye).encode(Bye("the end"))
    paused(it, [lambda: it.link.deliver("", Head(Verb.BYE, 9), bye)])

    assert (1, "interrupted: told to leave") == (it.reports[0].steps, it.reports[0].reason)


# -- the common boundary ----------------------------------------------------------------------------------------------


def test_the_governor_may_end_the_episode(worker: Any, world: Any) -> None:
    """Its signal counts like any other, and it knows of it."""
    it = worker({"w": world()})
    it.goes = [Go(round=1), Go("STOP_PHASE", "phase end")]
    it.run(common=True)
    report = it.reports[0]

    assert (2, "truncated: phase end", True) == (report.steps, report.reason, report.truncated)
    assert [{"signal": "STOP_PHASE", "issuer": "phase end", "reason": "", "known": True}] == report.causes


def test_continue_for_some_steps_stands_again(worker: Any, world: Any) -> None:
    """CONTINUE for n steps goes on for n boundaries and stands; a CONTINUE without a number goes on for good."""
    it = worker({"w": world(ends=6)})
    steps = lambda: steer(it, "CONTINUE", 2)  # noqa: E731
    paused(it, [steps, lambda: steer(it, "CONTINUE")])

    assert [1, 3] == [stand.steps for stand in it.stands]
    assert 6 == it.reports[0].steps
