from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Body, ResetRequest
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


# -- bodies -----------------------------------------------------------------------------------------------------------
BODIES = (Body("ada", 0, 0), Body("ada", 0, 1), Body("bob", 2, 0))


def _bodies(make, **params) -> CountingEnvironment:
    environment = make(CountingEnvironment, **params)
    environment.bodies, environment.index = BODIES, 1
    environment.start_environment()
    return environment


def _step(environment, *rows: int, answers=None):
    environment.rows = np.array(rows)
    return environment.update_batch({"answer": np.array(answers or [0] * len(rows))})


def test_bodies_report_their_places(make) -> None:
    """The observation is [e, episode, t, b], the reward 100 a + 10 e + b + t / 1000, of those that take part."""
    environment = _bodies(make)
    first = environment.begin_batch(np.arange(3), [0, 0, 0])["observation"]
    _step(environment, 0, 1, 2)
    batch = _step(environment, 1, 2)
    again = environment.begin_batch(np.array([1]), [0])["observation"]

    assert environment.batched
    assert [[1, 0, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0]] == first.tolist()
    assert [[1, 0, 2, 1], [1, 0, 2, 0]] == batch.readings["observation"].tolist()
    assert [11.002, 210.002] == batch.rewards["reward"].tolist()
    assert [[1, 1, 0, 1]] == again.tolist()


def test_anonymous_bodies_are_alike(make) -> None:
    """Then the observation is [0, episode, t, 0] and the reward t / 1000."""
    environment = _bodies(make, anonymous=True)
    environment.begin_batch(np.arange(3), [0, 0, 0])
    batch = _step(environment, 0, 1, 2)

    assert [[0, 0, 1, 0]] * 3 == batch.readings["observation"].tolist()
    assert [0.001] * 3 == batch.rewards["reward"].tolist()


def test_each_body_has_its_end(make) -> None:
    """Lists have one end for each body; at both ends a body terminates."""
    environment = _bodies(make, length=[1, 2, 9], truncate_at=[None, 2, 2])
    environment.begin_batch(np.arange(3), [0, 0, 0])
    first, second = _step(environment, 0, 1, 2), _step(environment, 1, 2)

    assert ([True, False, False], [False] * 3) == (first.terminated.tolist(), first.truncated.tolist())
    assert ([True, False], [False, True]) == (second.terminated.tolist(), second.truncated.tolist())
    assert 9 == CountingEnvironment.longest_episode(length=[1, 2, 9], truncate_at=[None, 2, 2])
    for params in ({"length": [1, 2]}, {"truncate_at": [1, 2, 3, 4]}):
        with pytest.raises(ValueError, match="one for each of 3 bodies"):
            _bodies(make, **params)


def test_verify_names_the_body(make) -> None:
    """An answer that is not the checksum of what this body was shown is refused by its coordinate."""
    environment = _bodies(make, verify=True)
    seen = environment.begin_batch(np.arange(3), [0, 0, 0])["observation"]
    right = [checksum([observation]) for observation in seen]
    _step(environment, 0, 1, 2, answers=right)
    stale = [checksum([[1, 0, 1, 0]]), right[1]]

    with pytest.raises(ValueError, match=r"body ada/part/1: expected the answer .* to \[1, 0, 1, 1\], found"):
        _step(environment, 0, 1, answers=stale)


def test_bodies_go_on_where_they_were(make) -> None:
    """A loaded state is gone on with, in another object."""
    one, other = _bodies(make, length=[3, 5, 7]), _bodies(make, length=[3, 5, 7])
    one.begin_batch(np.arange(3), [0, 0, 0])
    _step(one, 0, 1, 2)
    one.begin_batch(np.array([2]), [0])
    other.load_state({name: np.array(value) for name, value in one.save_state().items()})
    found = [_step(it, 0, 2) for it in (one, other)]

    assert found[0].readings["observation"].tolist() == found[1].readings["observation"].tolist()
    assert [[1, 0, 2, 0], [1, 1, 1, 0]] == found[1].readings["observation"].tolist()
