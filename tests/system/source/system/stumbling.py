"""A learner on cart-pole, its controller and its conditions, which stumble once where a file beside them says so.

This is a module beside a document, loaded by Ganglion as an author's own. Each hook tells where it is; the file
`trips.json` has a list of orders {place, number, deed}: at the `number`-th call of a place in one process, `deed` is
done, once in all processes (the file `tripped-<index>` is made first, and holds the number of the process). Nothing
of this changes what is computed.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ganglion.sdk import EpisodeView, PhaseView, RewardInformation, Signal
from ganglion_conditions.vanilla import VanillaCondition
from ganglion_controllers.vanilla import Vanilla
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.sarsa.muscle import SarsaMuscle
from ganglion_toys.cartpole import REWARD, CartPole

HERE = Path(__file__).parent
WAIT_S = 5.0  # for whom we wait while somebody else is struck
_FILE = HERE / "trips.json"
_ORDERS: list[dict[str, Any]] = json.loads(_FILE.read_text()) if _FILE.exists() else []
_calls: dict[str, int] = {}


def come_by(place: str) -> None:
    """Count a call of a hook, and stumble if it is its turn."""
    number = _calls[place] = _calls.get(place, 0) + 1
    for index, order in enumerate(_ORDERS):
        if order["place"] == place and number >= order["number"] and _is_first(index):
            stumble(index, order["deed"])


def _is_first(index: int) -> bool:
    try:
        file = os.open(HERE / f"tripped-{index}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    os.write(file, str(os.getpid()).encode())
    os.close(file)
    return True


def stumble(index: int, deed: str) -> None:
    """Do what an order says to this process."""
    if deed in ("SIGKILL", "SIGSTOP", "SIGSEGV"):
        os.kill(os.getpid(), signal.Signals[deed])
    elif deed == "exit":
        os._exit(5)
    elif deed == "hang":
        time.sleep(3600.0)
    elif deed == "hold":
        re.match("(a+)+$", 64 * "a" + "b")  # for years, and no other thread runs meanwhile
    elif deed == "linger":
        threading.Thread(target=time.sleep, args=(3600.0,)).start()  # asked to leave, it stays
    elif deed == "cut":
        _cut_connections()
    elif deed == "wait":
        until_s = time.monotonic() + WAIT_S
        while not (HERE / f"go-{index}").exists() and time.monotonic() < until_s:
            time.sleep(0.001)
    else:
        raise ValueError(f"expected a deed, found {deed!r}")


def _cut_connections() -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names of descriptors
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as held:
                held.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # it is gone, or was not connected


class Pole(CartPole):
    """Tell of each call; the reward is drawn by generators that go on from episode to episode."""

    def start_environment(self) -> Any:
        come_by("environment.start")
        return super().start_environment()

    def reset(self, request: Any) -> Any:
        come_by("environment.reset")
        return super().reset(request)

    def update(self, actuators: Any) -> Any:
        come_by("environment.update")
        state = super().update(actuators)
        value = (self.rng.random() + random.random()) / 2.0
        state.rewards = [RewardInformation(value, REWARD, "reward")]
        return state


class Actor(SarsaMuscle):
    """Tell of each call."""

    def update(self, update: Any) -> None:
        come_by("muscle.update")
        super().update(update)

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        come_by("muscle.act")
        return super().propose_actions(sensors, actuators_available)


class Learner(SarsaBrain):
    """Tell of each call."""

    def setup(self) -> None:
        come_by("brain.setup")
        super().setup()

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        come_by("brain.think")
        return super().thinking(muscle_id, data_from_muscle)

    def evaluate(self, evaluation: Any) -> Any:
        come_by("brain.evaluate")
        return {"score": float(self.decisions)}

    def arrays(self) -> Mapping[str, Any]:
        come_by("brain.store")
        return super().arrays()


class Stepping(Vanilla):
    """Tell of the moment between act and update."""

    async def advance(self) -> None:
        setpoints = await self.act(self.agents)
        come_by("controller.between")
        await self.update(setpoints, self.agents)


class Ending(VanillaCondition):
    """Tell of each question."""

    def episode(self, view: EpisodeView) -> Signal:
        come_by("controller.step")
        return super().episode(view)

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        come_by("governor.boundary")
        return super().phase(view)
