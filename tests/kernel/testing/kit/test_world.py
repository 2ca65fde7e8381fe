from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.testing.kit.bench import Bench, Order
from ganglion.testing.kit.case import Miss, Skip
from ganglion.testing.kit.world import World


def test_setpoints_lie_in_their_spaces(puppet: Callable[[str], Any], order: Order) -> None:
    """No-ops are those that were declared, random ones are contained and the same in each kit."""
    with Bench(puppet(""), order) as bench:
        world, twin = World.begun(bench), World.begun(bench)
        rows = [world.some() for _ in range(50)]

        assert [0.0] == world.no_ops()
        assert all(-2.0 <= push <= 2.0 for (push,) in rows)
        assert rows == [twin.some() for _ in range(50)]


def test_difference_is_named_by_its_id(puppet: Callable[[str], Any], order: Order) -> None:
    """Two answers differ in the first value that is not the same."""
    with Bench(puppet(""), order) as bench:
        world = World.begun(bench)
        one, two = world.update([1.0]), world.update([0.0])

        assert "" == world.difference(one, one)
        assert world.difference(one, two).startswith("`place` went from 0.153857 to 0.154857")


def test_refusal_is_a_miss_where_an_answer_is_due(puppet: Callable[[str], Any], order: Order) -> None:
    """An ERROR to a right request is told with the step and its message."""
    with Bench(puppet(""), order) as bench:
        world = World.begun(bench)

        with pytest.raises(
            Miss, match=r"update \(episode 0, step 1\): expected readings, found ERROR protocol"
        ):
            world.update([])


def test_what_cannot_be_asked_is_skipped(puppet: Callable[[str], Any], order: Order) -> None:
    """Without actuators nothing can be clipped and no float be an integer."""
    with Bench(puppet(""), order) as bench:
        world = World.begun(bench)
        world.actuators = []

        for ask in (world.bounded, world.floats):
            with pytest.raises(Skip, match="no actuator"):
                ask()


def test_an_answer_is_a_miss_where_a_refusal_is_due(puppet: Callable[[str], Any], order: Order) -> None:
    """What has to be refused is followed by a call that is answered; what is carried out is told by its name."""
    with Bench(puppet(""), order) as bench:
        world = World.begun(bench)
        world.refuses({"setpoints": [[]]}, "too few")

        assert 2 == world.step
        with pytest.raises(Miss, match=r"enough: expected ERROR, found REPLY"):
            world.refuses({"setpoints": [[0.0]]}, "enough")
