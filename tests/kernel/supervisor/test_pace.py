from __future__ import annotations

from typing import Any

from ganglion.supervisor.pace import Pace


def _phase(limit: int | None, *told: tuple[float, str, dict[str, Any]]) -> Pace:
    pace = Pace.of({"name": "train", "episodes": limit, "workers": 1}, 0.0)
    for now_s, what, fields in told:
        pace.take(what, {"worker": 0, **fields}, now_s)
    return pace


def _episodes(count: int, took_s: float = 10.0) -> list[tuple[float, str, dict[str, Any]]]:
    ended = ({"episode": n, "steps": 100, "returns": {"ada": float(n)}} for n in range(count))
    return [(took_s * (n + 1), "episode.ended", fields) for n, fields in enumerate(ended)]


def test_the_rest_is_told_by_steps() -> None:
    """What is left are the episodes that have not ended, of the mean length so far, at the newest speed."""
    pace = _phase(10, *_episodes(4))

    assert (4, 400, 10.0, 60.0) == (pace.episodes, pace.steps, pace.steps_per_s, pace.left_s(40.0))
    pace.take("steps.taken", {"worker": 0, "episode": 4, "steps": 50}, 45.0)
    assert 55.0 == pace.left_s(45.0)


def test_the_rest_is_told_by_episodes_where_each_body_has_its_own() -> None:
    """With bodies an end stands for several episodes, without steps: what passed for each counts."""
    told = [(10.0 * n, "episode.ended", {"episode": n, "episodes": 2, "environment": "lake"}) for n in (1, 2, 3)]

    assert 6 == _phase(12, *told).episodes
    assert 25.0 < (_phase(12, *told).left_s(30.0) or 0.0) < 40.0


def test_nothing_is_told_that_is_not_known() -> None:
    """Without a number of episodes, before the first end, in a pause and after the end there is no rest."""
    for pace in (_phase(None, *_episodes(3)), _phase(10), _phase(10, (1.0, "steps.taken", {"episode": 0, "steps": 5}))):
        assert pace.left_s(30.0) is None
    for last in ("phase.paused", "phase.ended"):
        assert _phase(10, *_episodes(3), (31.0, last, {"workers": [0]})).left_s(31.0) is None
    resumed = ((31.0, "phase.paused", {"workers": [0]}), (32.0, "phase.resumed", {}))
    assert _phase(10, *_episodes(3), *resumed).left_s(32.0) is not None


def test_returns_stay_bounded_and_begin_with_the_first() -> None:
    """Of very many episodes neighbouring ones stand for each other; a row has at most sixty numbers of an agent."""
    pace = _phase(None, *_episodes(10_000, 0.01))
    row = pace.row(100.0)

    assert len(pace.returns["ada"]) <= 1000
    assert 60 == len(row["returns"]["ada"])
    assert row["returns"]["ada"][0] < 200 < 9_700 < row["returns"]["ada"][-1]
    assert sorted(row["returns"]["ada"]) == row["returns"]["ada"]
