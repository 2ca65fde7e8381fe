"""Oracles: what must hold of the books of governors, stores and writers whenever they have said their word."""

from __future__ import annotations

from typing import Any

from ganglion.limits import STREAM_CREDIT_MESSAGES
from ganglion.run.effect import Stage

_OVER = (Stage.FAILING, Stage.ENDED)
_IN_PHASE = (Stage.SETTING_UP, Stage.BRAINS, Stage.RUNNING)


def check_governor(governor: Any) -> None:
    """Assert that a governor waits for somebody by name and for something by deadline, or is over."""
    stage, waits = governor.stage, governor.waits._waits
    if stage is not Stage.PLANNED:
        assert governor.awaited() >= governor._places.keys(), "a process of the phase is not awaited"
    assert stage is not Stage.ENDED or not waits, f"an ended run waits for {[*waits]}"
    if stage not in _OVER:
        assert governor._open <= waits.keys(), f"nobody is named for {governor._open - waits.keys()}"
        assert governor._failure is None, f"a failed run is in stage {stage}"
    for wait in waits.values():
        assert wait.text, f"nobody knows what {wait.peer} is waited for"
    assert not governor._joined.keys() & governor._returning, "somebody is here, and will return"
    if stage in _IN_PHASE:
        assert not governor._joined.keys() & governor._absent.keys(), "somebody waits for who is here"
    if stage is Stage.FAILING:
        assert governor._failure is not None
        assert governor._cut_by_s is not None, "workers may close their episodes for ever"
        assert governor._flow.active or governor._evaluations.active, "a failed run waits for nobody"
    if stage is Stage.RUNNING:
        flow, evaluations = governor._flow, governor._evaluations
        assert flow.active, "a phase runs in which nobody is active"
        assert flow.active <= {*range(governor._phase.workers)}
        assert flow.standing.keys() <= flow.active, f"{flow.standing} stand of {flow.active}"
        assert flow._stood.keys() <= flow.active, f"{[*flow._stood]} stand at a boundary of {flow.active}"
        assert not evaluations.begun or evaluations.standing.keys() <= evaluations.active
        assert not evaluations.active or flow.evaluating, "an evaluation runs which no phase waits for"
    for promise in governor._promises._open:
        assert promise.until_s < float("inf"), "an operator waits for ever"


def check_writer(records: Any, credit: int = STREAM_CREDIT_MESSAGES) -> None:
    """Assert that a writer keeps to its credit, and that its batches count without a gap."""
    numbers = [sent.number for sent in records._sent]
    assert len(numbers) <= credit, f"{len(numbers)} batches are not acknowledged, {credit} may be"
    assert numbers == [*range(records.number - len(numbers) + 1, records.number + 1)], (
        f"batches {numbers} are not acknowledged, the last one is {records.number}"
    )


def check_store(host: Any) -> None:
    """Assert that a store owes no more than it has heard, and holds batches only while it cannot write."""
    for peer, number in host._unacknowledged.items():
        heard = host._heard.last.get(peer, 0)
        assert number <= heard, f"batch {number} of {peer} is to be acknowledged, {heard} were heard"
    assert host._trouble is not None or not host._held, "batches are held although the store can write"
    assert host._failed is None or host._trouble is None, "a store that has failed tries again"


def check_names(simulation: Any) -> None:
    """Assert that nobody has come back to the bus who was stopped, and has a successor."""
    joined = simulation.bus.exchange.broker.joined
    for process in simulation.processes:
        if process.zombie and process.lives and process.wires:
            member, link = simulation.keeper.members.get(process.name), process.wires[-1].link
            if member is not None and member.process is not process and joined.get(process.name) is link:
                late_s = link.joined_s - member.process.born_s
                assert late_s <= 0.0, f"{process.name} has joined {late_s:.3f} s after its successor was started"


def check_host(host: Any, credit: int = STREAM_CREDIT_MESSAGES) -> None:
    """Assert what must hold of a participant, whichever it is."""
    governor, records = getattr(host, "_governor", None), getattr(host, "_records", None)
    if hasattr(governor, "stage"):
        check_governor(governor)
    if records is not None and hasattr(records, "_sent"):
        check_writer(records, credit)
    if hasattr(host, "_unacknowledged"):
        check_store(host)
