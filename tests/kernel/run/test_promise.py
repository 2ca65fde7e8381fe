from __future__ import annotations

from typing import Any

from ganglion.limits import PAUSE_ANSWER_S
from ganglion.run.flow import Promises


def told(effects: list[Any]) -> dict[str, tuple[bool, str]]:
    """Return who was answered what."""
    return {effect.token: (effect.message.accepted, effect.message.text) for effect in effects}


def test_it_is_kept_when_all_stand() -> None:
    """Who asks for all workers is answered when the last one stands, with a line for each, and once."""
    promises = Promises()
    promises.give("all", None, 0.0)

    assert {} == told(promises.keep({0: (3, 12), 1: None}, "worker", 1.0))
    kept = promises.keep({0: (3, 12), 1: (0, 4)}, "worker", 2.0)
    assert {
        "all": (True, "worker 0 is paused after step 12 of episode 3\nworker 1 is paused after step 4 of episode 0")
    } == told(kept)
    assert {} == told(promises.keep({0: (3, 12), 1: (0, 4)}, "worker", 3.0))


def test_nobody_waits_for_ever() -> None:
    """After its time a promise is kept with what is known: who does not stand is named."""
    promises = Promises()
    promises.give("all", None, 0.0)
    workers = {0: (0, 2), 1: None}

    assert {} == told(promises.keep(workers, "worker", PAUSE_ANSWER_S - 0.1))
    text = told(promises.keep(workers, "worker", PAUSE_ANSWER_S))["all"][1]
    assert "worker 1 has not reached its next step boundary within 20 s" in text
