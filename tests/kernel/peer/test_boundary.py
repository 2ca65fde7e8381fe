from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ganglion.sdk import Signal
from ganglion.sdk.condition import EpisodeView, TerminationCondition
from ganglion.sdk.flow import Mode
from ganglion.wire.messages import Boundary, Done, FlowSignal, Go, Verdict
from ganglion.wire.verb import Verb

ENDED = {"signal": "RESET", "issuer": "condition:environment", "reason": "terminated"}


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


def steer(it: Any, signal: str, issuer: str = "operator", reason: str = "") -> None:
    """Let the governor send a signal."""
    it.link.tell("r/governor", "", FlowSignal(signal, issuer, reason), Verb.SIGNAL)


# -- conditions -------------------------------------------------------------------------------------------------------
def test_an_ended_environment_ends_the_episode(worker: Any) -> None:
    """Without any condition listed, RESET by `condition:environment`, terminated."""
    it = worker()
    it.run()
    report = it.reports[0]

    assert (True, False, "terminated", ["w"]) == (report.terminated, report.truncated, report.reason, report.ended)
    assert [("RESET", "condition:environment", "terminated")] == causes(report)


def test_an_environment_that_cuts_itself_truncates(worker: Any, world: Any) -> None:
    """If none of those that ended terminated, the episode is truncated."""
    it = worker({"w": world(truncates=2)})
    it.run()
    report = it.reports[0]

    assert (False, True, "truncated: environment") == (report.terminated, report.truncated, report.reason)


def test_one_that_terminates_among_those_that_ended(worker: Any, world: Any, agent: Any) -> None:
    """Of two that end in the same step one terminated is enough."""
    it = worker({"v": world(truncates=2), "w": world(ends=2)}, {"one": agent(["w.a"])})
    it.run()

    assert (True, False, ["v", "w"]) == (it.reports[0].terminated, it.reports[0].truncated, it.reports[0].ended)


def test_its_end_is_said_once(worker: Any) -> None:
    """However many conditions speak for environments, there is one cause."""
    speaks = at(2)
    it = worker(
        conditions=[
            condition("environment", speaks, "terminated"),
            condition("vanilla", speaks, "terminated", "environment"),
        ]
    )
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


def test_of_several_signals_the_greatest_wins(worker: Any) -> None:
    """All are told; the environment's end decides flags and reason, the greatest signal what follows."""
    it = worker(
        conditions=[
            condition("Small", at(2), "small: sentence"),
            condition("Great", at(2, Signal.STOP_SIMULATION), "great"),
        ]
    )
    it.run()
    report = it.reports[0]

    assert [
        ("RESET", "condition:environment", "terminated"),
        ("RESET", "condition:Small", "small: sentence"),
        ("STOP_SIMULATION", "condition:Great", "great"),
    ] == causes(report)
    assert (True, "terminated") == (report.terminated, report.reason)


@pytest.mark.parametrize(("first", "second"), [("One", "Two"), ("Two", "One")])
def test_the_first_with_the_winning_signal_gives_the_reason(worker: Any, world: Any, first: str, second: str) -> None:
    """Conditions are asked in document order."""
    it = worker({"w": world()}, conditions=[condition(first, at(3), first), condition(second, at(3), second)])
    it.run()
    report = it.reports[0]

    assert (first, False, True, 3) == (report.reason, report.terminated, report.truncated, report.steps)
    assert [first, second] == [cause["reason"] for cause in report.causes]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("too hot", "too hot"),
        ("failed", "condition: failed"),
        ("failed: too hot", "condition: failed: too hot"),
        ("interrupted", "condition: interrupted"),
        ("lost: the way", "condition: lost: the way"),
        ("failing", "failing"),
    ],
)
def test_no_author_speaks_as_we_do(worker: Any, world: Any, reason: str, told: str) -> None:
    """By its reason it is known of an episode that it is no whole one; a condition cannot say that."""
    it = worker({"w": world()}, conditions=[condition("Hot", at(2), reason)])
    it.run()

    assert [told] == [record[9] for record in it.records("episode")]


def test_a_condition_without_a_reason_is_named(worker: Any, world: Any) -> None:
    """Its name in the document stands for it."""
    it = worker({"w": world()}, conditions=[condition("Bare", at(1))])
    it.run()

    assert "Bare" == it.reports[0].reason


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
    it.setup()
    it.start()
    it.hosted.host.tick()
    failure = it.failures[0].failure

    assert ("author", "ZeroDivisionError: integer division or modulo by zero") == (failure.kind, failure.message)
    assert (failure.where or "").endswith("step 1, hook Broken.episode")


# -- signals ----------------------------------------------------------------------------------------------------------
def test_a_signal_acts_at_the_next_boundary(worker: Any, world: Any) -> None:
    """A signal that has come ends the episode after the step it came in; it is known to its issuer."""
    it = worker({"w": world()})
    it.setup()
    it.start()
    steer(it, "RESET", "operator")
    it.hosted.host.tick()
    report = it.reports[0]

    assert (1, False, True, "truncated: signal RESET") == (
        report.steps,
        report.terminated,
        report.truncated,
        report.reason,
    )
    assert [True] == [cause["known"] for cause in report.causes]


@pytest.mark.parametrize(
    ("issuer", "reason", "text"),
    [
        ("operator", "why", "truncated: signal STOP_PHASE"),
        ("phase end", "", "truncated: phase end"),
        ("interrupted", "", "interrupted"),
        ("failed", "", "failed"),
        ("brain:one", "learned", "brain: learned"),
        ("brain:one", "", "brain"),
    ],
)
def test_reasons_are_in_the_words_of_the_results(worker: Any, world: Any, issuer: str, reason: str, text: str) -> None:
    """A word, then perhaps a sentence."""
    it = worker({"w": world()})
    it.setup()
    it.start()
    steer(it, "STOP_PHASE", issuer, reason)
    it.hosted.host.tick()

    assert text == it.reports[0].reason


def test_continue_changes_nothing(worker: Any) -> None:
    """A CONTINUE that ends no pause has no effect."""
    it = worker()
    it.setup()
    it.start()
    steer(it, "CONTINUE")
    it.hosted.host.tick()

    assert (2, "terminated") == (it.reports[0].steps, it.reports[0].reason)


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


def test_a_greater_signal_ends_a_pause(worker: Any, world: Any) -> None:
    """RESET while it stands ends the episode there."""
    it = worker({"w": world()})
    paused(it, [lambda: steer(it, "RESET")])

    assert (1, "truncated: signal RESET") == (it.reports[0].steps, it.reports[0].reason)


def test_a_pause_ends_when_the_worker_is_told_to_leave(worker: Any, world: Any) -> None:
    """BYE during a pause ends the episode as interrupted."""
    from ganglion.wire.codec import codec_of
    from ganglion.wire.envelope import Head
    from ganglion.wire.messages import Bye

    it = worker({"w": world()})
    bye = codec_of(Bye).encode(Bye("the end"))
    paused(it, [lambda: it.link.deliver("", Head(Verb.BYE, 9), bye)])

    assert (1, "interrupted: told to leave") == (it.reports[0].steps, it.reports[0].reason)


def test_a_pause_of_a_brain_is_told_with_the_end(worker: Any, agent: Any) -> None:
    """A PAUSE that somebody wished for is among the causes of the episode's end, although it ended by CONTINUE."""
    one = agent()
    one.signals = {1: "PAUSE"}
    it = worker(agents={"one": one})
    it.setup()
    it.start()
    it.link.idle.append(lambda: steer(it, "CONTINUE"))
    it.hosted.host.tick()

    assert [("PAUSE", "brain:one", "because"), ("RESET", "condition:environment", "terminated")] == causes(
        it.reports[0]
    )


# -- the common boundary ----------------------------------------------------------------------------------------------
def test_at_a_common_boundary_the_governor_is_asked(worker: Any) -> None:
    """After each round it hears the round, the steps, whether the episode ends, who acts next, and why."""
    it = worker()
    it.goes = [Go(round=1, participants={"one": [0, 2]})]
    it.run(common=True, verdict=Verdict("RESET", round=0, participants={"one": [0, 1, 2]}))

    assert [Boundary(0, 1, 1, False, ["one"], []), Boundary(0, 2, 2, True, ["one"], [ENDED])] == it.boundaries
    assert [(0, [0, 1, 2]), (1, [0, 2])] == [(act.round, act.workers) for act in it.agents["one"].acts[:2]]


def test_the_last_row_of_an_episode_waits_for_nobody(worker: Any) -> None:
    """With a common boundary, too, the brain thinks about a closing row at once."""
    it = worker()
    it.run(common=True, verdict=Verdict("RESET", participants={"one": [0, 1]}))

    assert ([0], True) == (it.agents["one"].acts[-1].workers, it.agents["one"].acts[-1].closing)


def test_the_governor_may_end_the_episode(worker: Any, world: Any) -> None:
    """Its signal counts like any other, and it knows of it."""
    it = worker({"w": world()})
    it.goes = [Go(round=1), Go("STOP_PHASE", "phase end")]
    it.run(common=True)
    report = it.reports[0]

    assert (2, "truncated: phase end", True) == (report.steps, report.reason, report.truncated)
    assert [{"signal": "STOP_PHASE", "issuer": "phase end", "reason": "", "known": True}] == report.causes


def test_a_paused_worker_tells_where_it_stands(worker: Any) -> None:
    """Without a common boundary the governor hears episode and step, once more if it is told to stand again."""
    it = worker()
    paused(it, [lambda: steer(it, "PAUSE"), lambda: steer(it, "CONTINUE")])

    assert [(0, 0, 1, False)] * 2 == [(s.worker, s.episode, s.steps, s.evaluation) for s in it.stands]


def test_a_paused_worker_hands_on_its_rows(worker: Any) -> None:
    """The rows of its episode so far are with the store while it is paused: who looks on finds them there."""
    it = worker()
    seen: list[int] = []
    look = lambda: seen.append(sum(len(record[-1]) for record in it.records("steps")))  # noqa: E731
    paused(it, [look, lambda: steer(it, "CONTINUE")])

    assert [1] == seen


def test_a_paused_worker_says_which_signals_it_has_acted_on(worker: Any) -> None:
    """One that has come, and that it has not looked at yet, is not among them: it ends the stand at once."""
    it = worker()
    send = lambda number, signal: it.link.tell(  # noqa: E731
        "r/governor", "", FlowSignal(signal, "operator", number=number), Verb.SIGNAL
    )

    def stands(peer: str, report: Any) -> Done:
        it.stands.append(report)
        if len(it.stands) == 1:
            for number, signal in [(4, "CONTINUE"), (5, "PAUSE")]:
                send(number, signal)
        return Done()

    it.link.answers["governor.stands"] = stands
    it.setup()
    it.start()
    send(3, "PAUSE")
    it.hosted.participant.pump(0.0)
    it.link.idle.extend([lambda: None, lambda: send(6, "CONTINUE")])
    it.hosted.host.tick()

    assert [3, 5] == [report.heeded for report in it.stands]
    assert "terminated" == it.reports[0].reason


def test_of_pause_and_continue_the_last_holds(worker: Any) -> None:
    """A PAUSE that was taken back before the boundary stops nobody."""
    it = worker()
    it.setup()
    it.start()
    for signal in ("PAUSE", "CONTINUE"):
        steer(it, signal)
    it.hosted.participant.pump(0.0)
    it.hosted.participant.pump(0.0)
    it.hosted.host.tick()

    assert [] == it.stands
    assert "terminated" == it.reports[0].reason


def test_continue_for_some_steps_stands_again(worker: Any, world: Any) -> None:
    """CONTINUE for n steps goes on for n boundaries and stands; a CONTINUE without a number goes on for good."""
    it = worker({"w": world(ends=6)})
    steps = lambda: it.link.tell("r/governor", "", FlowSignal("CONTINUE", "operator", steps=2), Verb.SIGNAL)  # noqa: E731
    paused(it, [steps, lambda: steer(it, "CONTINUE")])

    assert [1, 3] == [stand.steps for stand in it.stands]
    assert 6 == it.reports[0].steps
