from __future__ import annotations

from typing import Any

from ganglion.limits import PAUSE_ANSWER_S
from ganglion.run.flow import Promises


def told(effects: list[Any]) -> dict[str, tuple[bool, str]]:
    """Return who was answered what."""
    return {effect.token: (effect.message.accepted, effect.message.text) for effect in effects}


def test_nobody_waits_for_ever() -> None:
    """After its time a promise is kept with what is known: who does not stand is named."""
    promises = Promises()
    promises.give("all", None, 0.0)
    workers = {0: (0, 2), 1: None}

    assert {} == told(promises.keep(workers, "worker", PAUSE_ANSWER_S - 0.1))
    text = told(promises.keep(workers, "worker", PAUSE_ANSWER_S))["all"][1]
    assert "worker 1 has not reached its next step boundary within 20 s" in text
