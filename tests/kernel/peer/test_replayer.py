from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganglion.wire.messages import Failure, Rebuilt, Verdict

GONE = Failure("unreachable", "nobody of that name is here")


class Frail:
    """Stand before an environment that is lost when it is asked for the n-th time, and comes back as it was made."""

    def __init__(self, it: Any, losses: list[int], **how: Any) -> None:
        self.it, self.losses = it, losses
        self.lies, self.dies = how.get("lies", False), how.get("dies", True)
        self.error, self.idle = how.get("error"), how.get("idle", 0)  # the calls after which it dies unasked
        self.asked: list[str] = []
        self.told: list[Any] = []
        answers = it.link.answers
        for call in ("start", "update", "reset"):
            answers[f"environment.{call}"] = self._frail(call, answers[f"environment.{call}"])
        answers["governor.rebuild"] = self._back
        answers["muscle.act"] = self._meanwhile(answers["muscle.act"])
        self.comes_back = True

    def _frail(self, call: str, answer: Any) -> Any:
        def ask(peer: str, message: Any) -> Any:
            self.asked.append(call)
            if len(self.asked) in self.losses:
                return self._lose(peer)
            answered = answer(peer, message)
            lies = self.lies and self.told and call == "update"
            return replace(answered, readings=[[99]]) if lies else answered

        return ask

    def _meanwhile(self, answer: Any) -> Any:
        def act(peer: str, message: Any) -> Any:
            if len(self.asked) == self.idle:
                self.idle = 0
                self.it.link.lose("r/environment/w/0")
            return answer(peer, message)

        return act

    def _lose(self, peer: str) -> Failure | None:
        if self.error is not None or not self.dies:
            return self.error or GONE
        self.it.link.lose(peer)
        return None

    def _back(self, peer: str, message: Any) -> Rebuilt:
        assert self.dies is not message.unreachable
        self.told.append((message.worker, message.peer))
        return Rebuilt(self.comes_back)


@pytest.fixture
def mending(worker: Any, world: Any) -> Any:
    """Return a function that stands a worker whose environment is lost at these calls, and runs its episodes."""

    def make(losses: list[int], episodes: int = 1, ends: int = 3, **how: Any) -> Frail:
        it = worker({"w": world(ends=ends)})
        frail = Frail(it, losses, **how)
        it.verdicts = [Verdict("RESET", episode=n) for n in range(1, episodes)]
        it.setup(mends=True)
        it.start()
        it.hosted.host.tick()
        return frail

    return make


def test_a_later_episode_begins_with_its_reset(mending: Any) -> None:
    """In the second episode the successor is started, reset, and given the steps of that episode only."""
    frail = mending([7], episodes=2)

    first = ["start", "update", "update", "update", "reset", "update", "update"]
    assert [*first, "start", "reset", "update", "update", "update"] == frail.asked
    assert [] == frail.it.failures


def test_another_answer_than_before_fails_by_place(mending: Any) -> None:
    """A successor that answers otherwise is not gone on with: episode and step are named."""
    frail = mending([4], lies=True)

    (failed,) = frail.it.failures
    assert "nondeterministic" == failed.failure.kind
    place = "environment w (worker 0), episode 0, step 1"
    text = f"{place}: environment.update is answered otherwise than before it was lost"
    assert text == failed.failure.message


def test_an_environment_that_a_new_broker_has_not_met_has_not_died(mending: Any) -> None:
    """However often it is unreachable, it is awaited, led to where it stood, and never poisoned."""
    undisturbed, frail = mending([]), mending([3, 4, 5, 6], dies=False)

    assert 4 == len(frail.told)
    assert [] == frail.it.failures
    assert undisturbed.it.records("steps") == frail.it.records("steps")


def test_a_successor_that_nobody_has_told_of_is_led(mending: Any) -> None:
    """An error may come of a successor that has heard nothing yet: it is led once, then the error counts."""
    ours, own = Failure("protocol", "expected environment.start before it"), Failure("author", "no")
    frail = mending([3], error=ours)
    assert ["start", "update", "update", "start", "update", "update", "update"] == frail.asked
    assert ([], []) == (frail.told, frail.it.failures)

    broken = mending([3, 6], error=own)
    assert ["start", "update", "update", "start", "update", "update"] == broken.asked
    assert ["author"] == [failed.failure.kind for failed in broken.it.failures]


def test_a_loss_between_two_calls_is_noticed_before_the_next(mending: Any) -> None:
    """The successor, which has heard nothing, is led before it is asked."""
    frail = mending([], idle=2)

    assert ["start", "update", "start", "update", "update", "update"] == frail.asked
    assert [] == frail.it.failures


def test_who_dies_at_one_step_again_and_again_is_poisoned(mending: Any) -> None:
    """After three losses at one place the run fails, with the place and how it died."""
    frail = mending([3, 6, 9])

    assert 1 == len(frail.it.failures)
    assert "poison: environment w (worker 0) died 3 times at episode 0, step 2" in frail.it.failures[0].failure.message


def test_without_a_successor_the_loss_stands(mending: Any, worker: Any, world: Any) -> None:
    """When the governor knows that nobody will come, the first error is what fails the worker."""
    it = worker({"w": world(ends=3)})
    frail = Frail(it, [3])
    frail.comes_back = False
    it.setup(mends=True)
    it.start()
    it.hosted.host.tick()

    (failed,) = it.failures
    assert "r/environment/w/0 is gone: exit 9" == failed.failure.message
