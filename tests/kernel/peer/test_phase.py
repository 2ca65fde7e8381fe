from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError


@pytest.mark.parametrize(
    ("wanted", "found"), [(None, [10, 10]), (["v.r"], [10]), (["w"], [10]), (["w.r", "v"], [10, 10]), ([], [])]
)
def test_an_agent_gets_the_rewards_that_it_names(
    worker: Any, world: Any, agent: Any, wanted: list[str] | None, found: list[int]
) -> None:
    """Ids or environments; none named means those of the environments that it touches, here both of three."""
    one = agent(["v.a"], ["w.s"], rewards=wanted)
    it = worker({"v": world(ends=1), "w": world(), "x": world([])}, {"one": one})
    it.run()

    assert [found] == one.acts[-1].rewards


def test_a_strange_reward_is_refused(worker: Any, agent: Any) -> None:
    """A reward that no environment declares is named, with those that there are."""
    it = worker(agents={"one": agent(rewards=["w.luck"])})
    it.setup()
    with pytest.raises(RemoteProtocolError, match=r"agent one: rewards: 'w\.luck' is no reward of w\.r"):
        it.start()
