from __future__ import annotations

from ganglion.sdk.flow import Signal, SimulationFlowControl


def test_signals_are_ordered_by_force() -> None:
    """Of several signals the greatest wins, so their order is part of the contract."""
    expected = ["CONTINUE", "PAUSE", "RESET", "RESTART", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"]

    assert expected == [signal.name for signal in sorted(Signal)]
    assert max(Signal.RESET, Signal.STOP_PHASE) is Signal.STOP_PHASE


def test_the_other_name_means_the_same() -> None:
    """Authors who know it need to change an import alone."""
    assert SimulationFlowControl is Signal
