from __future__ import annotations

from ganglion import sdk
from ganglion_palaestrai import types


def test_types_are_ours() -> None:
    """Every type is the one of the contract, and flow control is ordered as it was."""
    assert [] == [
        name
        for name in types.__all__
        if name != "SimulationFlowControl" and getattr(types, name) is not getattr(sdk, name)
    ]
    control = types.SimulationFlowControl
    assert ["CONTINUE", "PAUSE", "RESET", "RESTART", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"] == [
        signal.name for signal in sorted(control, key=lambda signal: signal.value)
    ]
