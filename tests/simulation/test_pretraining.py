"""Brains learn from what bodies did before, on the bus in memory: as decisions of those bodies, group by group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from simulation import Outcome, calm, sets, survives

from ganglion import registry
from ganglion.document import load_document
from ganglion_replay import Recorded

BODIES = """
uid: school
seed: 3
version: "0.1"
schedule:
  - record:
      environments:
        - environment: {{uid: lake, name: counting, params: {{length: [2, 3]}}}}
          budget: {{episodes: 2}}
          episode_end: {end}
        - {{environment: {moor}, budget: {{episodes: 2}}}}
      agents: [{{name: ada, brain: log, muscle: random, objective: aggregate_rewards}}]
      bodies: {{num: [2, 1]}}
      phase_config: {{worker: {workers}}}
      simulation: {{name: aeb}}
  - learn:
      agents: [{{name: ada, brain: {brain}, filters: {filters}, replay: [{{phase: record{only}}}]}}]
"""
PLAIN = """
uid: school
seed: 3
version: "0.1"
run_config: {{condition: vanilla}}
schedule:
  - record:
      environments: [{{environment: {{uid: lake, name: counting, params: {{length: 3, anonymous: true}}}}}}]
      agents:
        - {{name: ada, brain: none, muscle: random, objective: aggregate_rewards,
           sensors: [lake.*], actuators: [lake.*]}}
      phase_config: {{episodes: 2}}
  - learn:
      environments: [{{environment: {{uid: lake}}, budget: {{episodes: 1}}}}]
      agents: [{{name: ada, brain: {brain}, replay: [{{phase: record}}]}}]
      bodies: {{num: 2}}
      simulation: {{name: aeb}}
"""
COUNTING = "{uid: moor, name: counting, params: {length: 4}}"
CARTPOLE = "{uid: moor, name: cartpole, params: {longest: 4}}"
FEW = {"end": "all", "moor": COUNTING, "filters": "[]", "only": "", "workers": 1, "brain": "log"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bodies": (BODIES, {}),
    "each behind filters": (BODIES, {"end": "each", "filters": "[delta_obs, norm]"}),
    "groups": (BODIES, {"moor": CARTPOLE, "workers": 2}),
    "groups behind filters": (BODIES, {"moor": CARTPOLE, "filters": "[norm]", "end": "each"}),
    "one of two groups": (BODIES, {"moor": CARTPOLE, "only": ", environment: moor"}),
    "one environment": (BODIES, {"only": ", environment: moor"}),
    "none had bodies": (PLAIN, {}),
}
SOME = ("each behind filters", "groups")  # in every run


def document(case: str, path: Path | None = None) -> str:
    """Return a document, whose brain writes what it hears into a file."""
    text, given = CASES[case]
    brain = "log" if path is None else f"{{name: log, params: {{path: {json.dumps(str(path))}}}}}"
    return text.format(**{**FEW, **given, "brain": brain})


def some(cases: Sequence[str]) -> list[Any]:
    """Return cases, of which few are in every run."""
    return [pytest.param(case, marks=[pytest.mark.long] * (case not in SOME)) for case in cases]


@pytest.mark.parametrize("case", some(list(CASES)))
def test_a_brain_hears_of_all_that_bodies_did(case: str, results: Path, tmp_path: Path) -> None:
    """Every recorded decision, as that of its body, episode by episode, before its own bodies decide."""
    outcome = calm(document(case, tmp_path / "heard"), 1, results)
    lines = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    home = "moor" if "one" in case.split() else None
    rows = [row for row in outcome.tables["actions"] if row["phase"] == 0 and home in (None, row["environment"])]
    found = lines[: len(rows)]
    keys = [(line["worker"], *(line[name][0] for name in ("environment", "body", "episode", "step"))) for line in found]
    wanted = {
        (row["worker"], row["environment"] or "lake", row["body"], row["episode"], row["step"]): row["objective"]
        for row in rows
    }

    assert rows
    assert {1} == {len(line["step"]) for line in found}
    assert wanted == {key: line["rewards"][0] for key, line in zip(keys, found, strict=True)}
    spans = [key[:4] for i, key in enumerate(keys) if not i or keys[i - 1][:4] != key[:4]]
    assert len(set(spans)) == len(spans)  # episodes are told one after another
    assert lines[len(rows)]["tick"][0] == 0


@pytest.mark.parametrize("case", ["groups", pytest.param("groups behind filters", marks=pytest.mark.long)])
def test_a_brain_that_is_lost_learns_again(case: str, results: Path) -> None:
    """Killed while it learns or later, it has learned the same in the end: the rows and the model are equal."""

    def view(outcome: Outcome) -> Any:
        return {**sets(outcome, ("actions", "steps", "episodes")), "brains": outcome.tables["brains"]}

    survives(document(case), results, "brain", shares=(0.45, 0.6, 0.75), tight=True, view=view)


FAULTS = [
    (
        "sarsa",
        "{run: RUN, phase: record}",
        "agents.ada.replay.0: its bodies were of several groups of ids or spaces (lake, moor)",
    ),
    ("log", "{experiment_run: school, phase: nowhere}", "agents.ada.replay.0: recorded episodes of"),
    ("log", "{run: school, environment: sea}", "agents.ada.replay.0.environment: in run "),
    ("log", "{store: nowhere, run: school}", "agents.ada.replay.0: recorded episodes of"),
    ("log", "{path: nowhere}", "agents.ada.replay.0: "),
    (
        "log",
        "{path: nowhere, run: school}",
        "agents.ada.replay.0.run: expected a run, a `path` or a `table`, found `run`",
    ),
    ("log", "{table: demos}", "agents.ada.replay.0: expected a table of this phase that begins with a `source` (none)"),
]
ASKS = """
uid: asks
seed: 1
version: "0.1"
schedule:
  - learn:
      environments:
        - {{environment: {{uid: lake, name: counting}}, budget: {{steps: 1}}}}
        - {{environment: {{uid: moor, name: cartpole}}, budget: {{steps: 1}}}}
      agents: [{{name: ada, brain: {brain}, muscle: random, replay: [{source}]}}]
      bodies: {{num: [2, 1]}}
      simulation: {{name: aeb}}
"""
PLAYS = """
uid: plays
seed: 1
version: "0.1"
schedule:
  - learn:
      environments:
        - {{environment: {{uid: lake, name: replay, params: {{source: {source}}}}}}}
        - {{environment: {{uid: moor, name: replay, params: {{source: {{run: RUN}}}}}}}}
      agents: [{{name: ada, brain: {brain}, muscle: random, sensors: {sensors}, filters: {filters}}}]
      bodies: {{num: [2, 1]}}
      simulation: {{name: aeb}}
      tables: {tables}
"""
PLAYED: list[tuple[dict[str, str], str]] = [
    (
        {"brain": "sarsa"},
        "agents.ada.brain: agent ada: its bodies are of several groups of ids or spaces (lake, moor), and",
    ),
    ({"sensors": "[lake.observation, moor.obs]"}, "agents.ada.sensors.1: agent ada: sensors: 'moor.obs' was not"),
    (
        {"source": "{run: RUN, environment: moor}"},
        "environments.lake.environment.params.source: body ada/lake/1 was not",
    ),
    ({"source": "{run: RUN, winds: 3}"}, "environments.lake.environment.params.source: expected keys of agent, base"),
    (
        {"source": "{run: RUN, agent: eve}"},
        "environments.lake.environment.params.source.agent: expected one of ada, found",
    ),
    ({"source": "{run: RUN, format: arrow}"}, "environments.lake.environment.params.source.format: expected a run, a"),
    ({"source": "{run: RUN, worker: -1}"}, "environments.lake.environment.params.source.worker: expected a number"),
    ({"source": "{run: RUN, store: nowhere}"}, "environments.lake.environment.params.source: recorded episodes of"),
    (
        {"tables": "[{uid: t, name: pool, params: {source: {run: RUN, pat: 1}}, serve: [ada]}]"},
        "tables.0.params.source: ex",
    ),
    ({"source": "RUN"}, "environments.lake.environment.params.source: expected a map that names a run"),
    ({"source": "{path: nowhere}"}, "environments.lake.environment.params.source: "),
    ({"source": "{table: demos}"}, "environments.lake.environment.params.source: expected a table of this phase"),
    (
        {"filters": "[norm]", "tables": "[{uid: t, name: pool, params: {source: {run: RUN}}, serve: [ada]}]"},
        "tables.0.params.source: agent `ada` has filters, and what they would have made of recorded sessions",
    ),
    (
        {"tables": "[{uid: t, name: pool, feed: [ada], serve: [ada]}]"},
        "tables.0.name: agent ada: its bodies are of sev",
    ),
    ({"tables": "[{uid: t, name: pool, params: {source: 3}, serve: [ada]}]"}, "tables.0.params.source: expected a map"),
]


WRONG = [(ASKS, {"brain": brain, "source": source}, said) for brain, source, said in FAULTS]
WRONG += [(PLAYS, given, said) for given, said in PLAYED]


@pytest.mark.parametrize(("text", "given", "said"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_recordings_is_told_before_anything_starts(
    text: str, given: dict[str, str], said: str, results: Path
) -> None:
    """With its place in the document, out of the store alone: neither an environment nor a brain is made."""
    outcome = calm(document("groups"), 1, results)
    few = {"brain": "log", "source": "{run: RUN}", "sensors": "[]", "filters": "[]", "tables": "[]"}
    asked = text.format(**{**few, **given}).replace("RUN", outcome.run)
    plan, _ = load_document("document.yml", plugins=registry, text=asked)
    [(place, found), *_] = Recorded.faults(plan, f"sqlite:///{results / 'ganglion.db'}")

    assert f"schedule.learn.{said}" in f"{place.rpartition(' ')[2]}: {found}"
    assert place.startswith("document.yml:")
