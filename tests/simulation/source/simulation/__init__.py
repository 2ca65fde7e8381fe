"""The whole bus in one process and one thread, for tests: a seed decides who runs next."""

from simulation.bus import Act, Disturbance, Simulation, kill_one, orders, read, simulate
from simulation.outcome import Outcome
from simulation.schedule import Stuck
from simulation.search import ROLES, calm, rows, searched, sets, survives

__all__ = [
    "ROLES",
    "Act",
    "Disturbance",
    "Outcome",
    "Simulation",
    "Stuck",
    "calm",
    "kill_one",
    "orders",
    "read",
    "rows",
    "searched",
    "sets",
    "simulate",
    "survives",
]
