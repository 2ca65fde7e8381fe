# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganglion.sdk import EpisodeMeans, EpisodeView, Mode, PhaseView, Signal, WorkerView
from ganglion_conditions.agent_objective import AgentObjective

Make = Callable[..., Any]
ADA = "ada"


def _episode(values: Sequence[float], agent: str = ADA, step: int | None = None) -> EpisodeView:
    return EpisodeView(0, Mode.TRAIN, 0, step or max(1, len(values)), objectives={agent: values})


def _worker(number: int, *means: float | None, running: bool = True, cut: Sequence[int] = ()) -> WorkerView:
    episodes = [EpisodeMeans(i, 3, {} if value is None else {ADA: value}, i in cut) for i, value in enumerate(means)]
    return WorkerView(number, episodes, running)


def _phase(*workers: WorkerView) -> PhaseView:
    return PhaseView(Mode.TRAIN, workers, asked=[worker.worker for worker in workers])


PHASES = [
    ("phase_avg10", 12.1, [_worker(0, 10.0, 11.0, 6.0, 12.0, 15.0, 20.0, 17.0, 11.0, 9.0, 10.0)], True),
    ("phase_avg2", 5, [_worker(0, 9.0, 9.0, 0.0), _worker(1, 9.0, 9.0)], False),  # not at the same time
    ("phase_avg2", 5, [_worker(0, 9.0, 9.0, running=False), _worker(1, 9.0, 9.0)], True),
    ("phase_avg2", 5, [_worker(0, 9.0, 0.0, running=False), _worker(1, 9.0, 9.0)], False),
]


@pytest.mark.parametrize(("key", "threshold", "workers", "expected"), PHASES)
def test_a_phase_ends_when_all_workers_episodes_are_good_enough(
    make: Make, key: str, threshold: float, workers: list[WorkerView], expected: bool
) -> None:
    """`phase_avgN` fires when the last N episodes of every worker have a mean of means of at least the threshold."""
    condition = make(AgentObjective, ada={key: threshold})

    assert (Signal.STOP_PHASE if expected else Signal.CONTINUE) is condition.phase(_phase(*workers))


def test_the_reason_of_a_phase_is_its_worst_worker(make: Make) -> None:
    """With several workers the smallest of their means is told."""
    condition = make(AgentObjective, ada={"phase_avg1": 3})
    condition.phase(_phase(_worker(0, 9.0), _worker(1, 4.0)))

    assert "agent_objective: ada phase_avg1 4 >= 3 in every worker" == condition.reason


FIRED = WorkerView(1, fired={"agent_objective": "agent_objective: ada brain_avg10 50.5 >= 50"})
OTHER = WorkerView(1, fired={"max_steps": "truncated: max_steps 3"})


@pytest.mark.parametrize(
    ("criteria", "worker", "expected"),
    [
        ({"brain_avg10": 50}, FIRED, True),
        ({"brain_avg3": 900}, FIRED, True),  # another one, of the episode level, fired
        ({"brain_avg10": 50}, OTHER, False),
        ({"brain_avg10": 50}, WorkerView(1), False),
        ({"brain_avg10": 50, "phase_avg3": 50}, FIRED, False),
    ],
)
def test_without_a_criterion_of_its_own_for_phases(
    make: Make, criteria: dict[str, float], worker: WorkerView, expected: bool
) -> None:
    """Without any `phase_avgN` the first `brain_avgN` that ends an episode of any worker ends the phase."""
    condition = make(AgentObjective, ada=criteria)
    signal = condition.phase(_phase(_worker(0), worker))

    assert (Signal.STOP_PHASE if expected else Signal.CONTINUE) is signal
    if expected:
        assert "agent_objective: ada brain_avg10 50.5 >= 50 in worker 1" == condition.reason


BAD = [
    ({}, "params: expected a map of agents to their criteria, found an empty one"),
    ({"ada": 3}, "ada: expected a map of criteria such as brain_avg10 or phase_avg10 to numbers, found 3"),
    ({"ada": {}}, "ada: expected a map of criteria such as brain_avg10 or phase_avg10 to numbers, found an empty one"),
    ({"ada": {"brain_avg0": 1}}, "ada: expected brain_avgN or phase_avgN with N >= 1, found 'brain_avg0'"),
    ({"ada": {"brain_avg07": 1}}, "ada: expected brain_avgN or phase_avgN with N >= 1, found 'brain_avg07'"),
    ({"ada": {"avg10": 1}}, "ada: expected brain_avgN or phase_avgN with N >= 1, found 'avg10'"),
    ({"ada": {10: 1}}, "ada: expected brain_avgN or phase_avgN with N >= 1, found 10"),
    ({"ada": {"brain_avg1": "x"}}, "ada.brain_avg1: expected a finite number, found 'x'"),
    ({"ada": {"brain_avg1": None}}, "ada.brain_avg1: expected a finite number, found None"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "message"), BAD)
def test_refuses_what_means_nothing(make: Make, params: dict[str, Any], message: str) -> None:
    """Bad parameters are refused by key, expected and found."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(AgentObjective, **params)


# -- against the definition, written down as it stands ----------------------------------------------------------------
VALUES = st.one_of(st.none(), st.integers(-3, 3).map(float), st.floats(-3, 3))
CRITERIA = st.dictionaries(st.integers(1, 5), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=3)


def _exact(values: Sequence[float]) -> float:
    return float(sum(map(Fraction, values))) / len(values)


def _params(kind: str, criteria: dict[int, float]) -> dict[str, float]:
    return {f"{kind}_avg{n}": x for n, x in criteria.items()}


@given(st.lists(VALUES, max_size=30), CRITERIA)
def test_episodes_against_the_definition(values: list[float | None], criteria: dict[int, float]) -> None:
    """At every boundary of any episode the answer is that of the definition, also of an object made anew."""
    params = {"ada": _params("brain", criteria)}
    condition = AgentObjective(**params)
    for t in range(1, len(values) + 1):
        there = [value for value in values[:t] if value is not None]
        wanted = any(len(there) >= n and _exact(there[-n:]) >= x for n, x in criteria.items())
        view = _episode(there, step=t)
        condition.restore(condition.state())

        assert (Signal.RESET if wanted else Signal.CONTINUE) is condition.episode(view)
        assert condition.episode(view) is AgentObjective(**params).episode(view)


FINISHED = st.lists(st.tuples(VALUES, st.booleans()), max_size=8)


@settings(deadline=None)
@given(st.lists(FINISHED, min_size=1, max_size=3), CRITERIA, st.randoms(use_true_random=False))
def test_phases_against_the_definition(
    workers: list[list[tuple[float | None, bool]]], criteria: dict[int, float], random: Any
) -> None:
    """In whatever order the workers finish their episodes, the answer is that of the definition; twice, the same."""
    condition = AgentObjective(ada=_params("phase", criteria))
    order = [w for w, finished in enumerate(workers) for _ in finished]
    random.shuffle(order)
    done = [0] * len(workers)
    for ended in [None, *order]:
        if ended is not None:
            done[ended] += 1
        views, means = [], []
        for w, finished in enumerate(workers):
            now = finished[: done[w]]
            cut = [i for i, (_, is_cut) in enumerate(now) if is_cut]
            views.append(_worker(w, *(value for value, _ in now), cut=cut))
            means.append([value for value, is_cut in now if value is not None and not is_cut])
        wanted = any(all(len(row) >= n and _exact(row[-n:]) >= x for row in means) for n, x in criteria.items())
        expected = Signal.STOP_PHASE if wanted else Signal.CONTINUE
        condition.restore(condition.state())

        assert expected is condition.phase(_phase(*views))
        assert expected is condition.phase(PhaseView(Mode.TRAIN, views))


# -- warnings ---------------------------------------------------------------------------------------------------------
def _document(
    longest: int | None, controller: str = "vanilla", agents: Sequence[str] = (ADA,), steps: int | None = None
) -> dict[str, Any]:
    conditions = [] if steps is None else [{"name": "max_steps", "params": {"steps": steps}}]
    return {
        "environments": [{"environment": {"uid": "hill"}}],
        "agents": [{"name": name} for name in agents],
        "simulation": {"name": controller, "params": {}, "conditions": conditions},
        "phase_config": {"conditions": [], "episodes": 3},
        "longest_episode": longest,
    }


NEVER = "condition can never fire: "
SHORT = [
    (_document(None), []),
    (_document(50), []),
    (_document(40), [f"{NEVER}brain_avg50 needs 50 decisions per episode, this environment ends after 40"]),
    (_document(40, steps=45), [f"{NEVER}brain_avg50 needs 50 decisions per episode, this environment ends after 40"]),
    (_document(60, steps=40), [f"{NEVER}brain_avg50 needs 50 decisions per episode, max_steps ends it after 40"]),
    (_document(None, "taking_turns", (ADA, "bob"), steps=90),
     [f"{NEVER}brain_avg50 needs 50 decisions per episode, max_steps ends it after 90, 45 of them in this agent's turns"]),
    (_document(40, steps=50), [f"{NEVER}brain_avg50 needs 50 decisions per episode, this environment ends after 40"]),
    (_document(100, "taking_turns", (ADA, "bob")), []),
    (_document(99, "taking_turns", (ADA, "bob")), []),
    (_document(99, "taking_turns", ("bob", ADA)),
     [f"{NEVER}brain_avg50 needs 50 decisions per episode, this environment ends after 99, 49 of them in this agent's turns"]),
    (_document(120, "ganglion-controllers:taking_turns", (ADA, "bob", "eve")),
     [f"{NEVER}brain_avg50 needs 50 decisions per episode, this environment ends after 120, 40 of them in this agent's turns"]),
    (_document(1, "taking_turns", ("bob", "eve", ADA)),
     [f"{NEVER}brain_avg50 needs 50 decisions per episode, this environment ends after 1, 0 of them in this agent's turns"]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "messages"), SHORT)
def test_warns_where_no_episode_is_long_enough(make: Make, document: dict[str, Any], messages: list[str]) -> None:
    """A `brain_avgN` that needs more decisions than an episode has is told."""
    assert messages == list(make(AgentObjective, ada={"brain_avg50": 1}).warnings(document))


USUAL = "an episode ends when its last values reach that, the mean of all of them is usually below"
HARDLY = [
    ({"brain_avg2": 5, "phase_avg3": 4}, {}, []),
    ({"brain_avg2": 5, "phase_avg4": 4}, {}, [f"{NEVER}phase_avg4 needs 4 episodes, the phase ends after 3"]),
    ({"brain_avg2": 5, "phase_avg4": 4}, {"episode_limit": None}, []),
    ({"phase_avg2": 4}, {}, ["phase_avg2 without a brain_avgN of this agent: palaestrAI needs one"]),
    ({"brain_avg2": 5, "phase_avg2": 5}, {}, [f"phase_avg2: 5 beside a brain_avgN of 5: {USUAL}"]),
    ({"brain_avg2": 5, "phase_avg2": 4}, {"part": "episode"},
     ["`phase_avg2` is not read among `simulation.conditions`: it is phase-level"]),
]  # fmt: skip


@pytest.mark.parametrize(("criteria", "more", "messages"), HARDLY)
def test_warns_of_what_a_phase_hardly_reaches(make: Make, criteria: Any, more: Any, messages: list[str]) -> None:
    """Criteria of the phase that never hold, or not in the way that was meant, are told."""
    document = {**_document(None), "episode_limit": 3, "part": "phase", **more}

    assert messages == list(make(AgentObjective, ada=criteria).warnings(document))


def test_a_brain_criterion_of_another_condition_counts(make: Make) -> None:
    """What ends the episodes may stand in another condition of the phase."""
    document = _document(None)
    document["simulation"]["conditions"] = [{"name": "agent_objective", "params": {"ada": {"brain_avg2": 5}}}]

    assert [] == list(make(AgentObjective, ada={"phase_avg2": 4}).warnings(document))


def test_an_agent_that_no_phase_has_is_refused(make: Make) -> None:
    """The nearest name is told."""
    document = {**_document(None), "known_agents": ["ada", "bob"]}
    with pytest.raises(ValueError, match="there is no agent `adda`; did you mean `ada`"):
        make(AgentObjective, adda={"brain_avg1": 1}).warnings(document)


def test_distances_are_means_of_what_there_is(make: Make) -> None:
    """Of decisions the worker that is nearest counts, of episodes the one that is farthest; without any there is none."""
    condition = make(AgentObjective, ada={"brain_avg2": 5, "phase_avg2": 4})
    workers = [
        WorkerView(n, [EpisodeMeans(episode=0, steps=3, means={"ada": value})]) for n, value in enumerate((1.0, 3.0))
    ]
    episodes = [
        EpisodeView(n, Mode.TRAIN, 1, 3, objectives={"ada": values}) for n, values in enumerate(([9, 1, 2], [4]))
    ]
    phase = PhaseView(Mode.TRAIN, workers)

    assert [("ada brain_avg2", 4.0, 5), ("ada phase_avg2", 1.0, 4)] == list(condition.distances(phase, episodes))
    assert [] == list(condition.distances(PhaseView(Mode.TRAIN, []), []))
