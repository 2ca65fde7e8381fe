from __future__ import annotations

import pytest
from pettingzoo import AECEnv, ParallelEnv

from ganglion_pettingzoo.source import make


def test_parallel_where_there_is_that() -> None:
    """Without `api` an environment is parallel if it is registered so, else AEC; both spellings of ids count."""
    assert isinstance(make("classic/rps_v2", None, {"max_cycles": 3}), ParallelEnv)
    assert isinstance(make("classic/rps-v2", "aec", {"max_cycles": 3}), AECEnv)
    assert isinstance(make("classic/tictactoe_v3", None, {}), AECEnv)


def test_particle_environments_come_from_their_own_package() -> None:
    """`mpe/...` is the package mpe2."""
    pytest.importorskip("mpe2", reason="needs mpe2: pip install 'ganglion-pettingzoo[games]'")
    assert isinstance(make("mpe/simple_tag_v3", None, {"max_cycles": 3}), ParallelEnv)
    assert isinstance(make("mpe2/simple_tag_v3", "aec", {}), AECEnv)
    with pytest.raises(ValueError, match="the package mpe2 has no such environment"):
        make("mpe/simple_tug_v3", None, {})


@pytest.mark.parametrize(
    ("id", "api", "message"),
    [
        ("classic/noughts_v3", None, "PettingZoo has no environment of this id"),
        ("classic/tictactoe_v3", "parallel", "no environment of the api parallel"),
        ("classic/rps_v2", "serial", "expected parallel or aec, found 'serial'"),
        ("mpe/../os_v1", None, "expected mpe/NAME_vN"),
        ("antigravity:Thing", None, "package 'antigravity' is not allowed"),
        ("pettingzoo._x:Thing", None, "expected namespace/name_vN, or module:Class"),
    ],
)
def test_what_is_not_there_or_not_allowed_is_refused(id: str, api: str | None, message: str) -> None:  # noqa: A002
    """A message names the id, and nothing of a package that is not allowed is imported."""
    with pytest.raises(ValueError, match=message):
        make(id, api, {})


def test_a_class_of_an_allowed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a class of PettingZoo's two kinds is taken: functions, other classes and the wrong kind are refused."""
    monkeypatch.setenv("GANGLION_ALLOW", "numpy, pettingzoo")
    path = "pettingzoo.classic.tictactoe.tictactoe"
    assert isinstance(make(f"{path}:raw_env", None, {}), AECEnv)
    for refused, api in ((f"{path}:env", None), (f"{path}:raw_env", "parallel"), ("numpy:ndarray", "aec")):
        with pytest.raises(ValueError, match="expected a class of kind"):
            make(refused, api, {})
