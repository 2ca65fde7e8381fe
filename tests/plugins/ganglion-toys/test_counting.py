from __future__ import annotations

import subprocess
import sys

import pytest

from ganglion.sdk import ActuatorInformation, ResetRequest
from ganglion_toys.counting import ANSWER, CountingEnvironment
from ganglion_toys.echo import checksum


def _answer(value: int) -> list[ActuatorInformation]:
    return [ActuatorInformation(value, ANSWER, "answer")]


def _episode(environment) -> list[tuple[list[int], float, bool, bool, int]]:
    rows = []
    while not rows or not (rows[-1][2] or rows[-1][3]):
        state = environment.update(_answer(0))
        rows.append(
            (
                state.sensor_information[0].value.tolist(),
                state.rewards[0].value,
                state.terminated,
                state.truncated,
                state.simtime.simtime_ticks,
            )
        )
    return rows


def test_reports_place_episode_and_step(make) -> None:
    """The observation is [e, episode, t, b], the reward 10 e + t / 1000, in each episode anew."""
    environment = make(CountingEnvironment, length=2)
    environment.index = 1
    begin = environment.start_environment()
    first = _episode(environment)
    again = environment.reset(ResetRequest(1, 0)).sensors_available[0].value.tolist()

    assert [1, 0, 0, 0] == begin.sensors_available[0].value.tolist()
    assert -1 == begin.actuators_available[0].value
    assert [([1, 0, 1, 0], 10.001, False, False, 1), ([1, 0, 2, 0], 10.002, True, False, 2)] == first
    assert [1, 1, 0, 0] == again
    assert [1, 1, 2, 0] == _episode(environment)[-1][0]


@pytest.mark.parametrize(
    ("length", "truncate_at", "steps", "flags"),
    [(10, None, 10, (True, False)), (10, 4, 4, (False, True)), (4, 4, 4, (True, False)), (1, 5, 1, (True, False))],
)
def test_ends(make, length, truncate_at, steps, flags) -> None:
    """Episodes terminate at `length` and are truncated at `truncate_at`; at both they terminate."""
    environment = make(CountingEnvironment, length=length, truncate_at=truncate_at)
    environment.start_environment()
    rows = _episode(environment)

    assert (steps, flags) == (len(rows), rows[-1][2:4])
    assert steps == CountingEnvironment.longest_episode(length=length, truncate_at=truncate_at)


def test_verify_refuses_another_answer(make) -> None:
    """With verify the checksum of the last observation passes, and anything else raises and names the place."""
    environment = make(CountingEnvironment, verify=True)
    environment.start_environment()
    environment.update(_answer(checksum([[0, 0, 0, 0]])))

    with pytest.raises(ValueError, match=r"part, episode 0, step 2: expected the answer 30815 .* found 7"):
        environment.update(_answer(7))


def test_crash_ends_the_process() -> None:
    """With crash_at the process ends with status 3 in that step, not before."""
    program = (
        "from ganglion_toys.counting import CountingEnvironment\n"
        "environment = CountingEnvironment(crash_at={'episode': 0, 'step': 2})\n"
        "environment.start_environment(); environment.update([]); print('one', flush=True); environment.update([])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert (3, "one\n") == (found.returncode, found.stdout)
