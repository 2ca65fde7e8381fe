"""The whole bus in one process and one thread, for tests: a seed decides who runs next."""

from simulation.bus import Act, Disturbance, Simulation, kill_one, orders, read, simulate
from simulation.outcome import Outcome
from simulation.schedule import Stuck

__all__ = ["Act", "Disturbance", "Outcome", "Simulation", "Stuck", "kill_one", "orders", "read", "simulate"]
