from __future__ import annotations

import importlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

import ganglion
from ganglion.cli.extension import DocumentError, Pace
from ganglion_python.drawing import run_html, table_html

DOCUMENT: dict[str, Any] = {
    "uid": "talk",
    "seed": 5,
    "version": "0.1",
    "schedule": [
        {
            "train": {
                "environments": [{"environment": {"uid": "net", "name": "dummy"}}],
                "agents": [
                    {"name": "ada", "muscle": "dummy", "brain": "dummy", "objective": "dummy"}
                    | {"sensors": ["net.0"], "actuators": ["net.0"]}
                ],
                "phase_config": {"mode": "train", "episodes": 2},
            }
        }
    ],
    "run_config": {"condition": "vanilla"},
}


def test_what_programs_use_is_there_by_name() -> None:
    """The six names are attributes of the package, others are not; the room `run` is a room and can be called."""
    assert {"run", "check", "results", "connect", "arun", "aconnect"} <= set(dir(ganglion))
    assert importlib.import_module("ganglion.run") is ganglion.run
    assert callable(ganglion.run)
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = ganglion.runn


@pytest.mark.parametrize("form", [lambda it: it, json.dumps, lambda it: json.dumps(it, indent=1)], ids=str)
def test_a_document_is_a_map_or_text(form: Any) -> None:
    """Maps and text are checked as files are; overrides have dots or double underscores in their paths."""
    document = form(DOCUMENT)
    if isinstance(document, str) and "\n" not in document:
        document += "\n"

    assert [] == ganglion.check(document)
    assert [] == ganglion.check(document, seed=3, schedule__train__phase_config__episodes=4)
    with pytest.raises(DocumentError, match="episodes") as caught:
        ganglion.check(document, **{"schedule.train.phase_config.episodes": -4})
    assert 1 == len(caught.value.faults)


def test_a_drawing_is_text_whatever_names_are() -> None:
    """Names of runs, phases, agents and values are shown and never obeyed; there is no script in it."""
    pace = Pace.of({"name": "<img src=x>", "episodes": 4, "workers": 1}, 0.0)
    for n in range(3):
        fields = {"worker": 0, "episode": n, "steps": 10, "returns": {"<i>ada": float(n)}}
        pace.take("episode.ended", fields, float(n + 1))
    said = {"status": "failed", "reason": "<script>alert(1)</script>", "story": ["<b>x</b>"], "paces": {0: pace}}
    drawn = run_html(SimpleNamespace(**said), "<u>", 65.0) + table_html("<u>", [{"<script>": "<script>"}])

    assert [] == [tag for tag in ("<script", "<img", "<i>", "<u>", "<b>x") if tag in drawn]
    assert "0:01:05" in drawn
    assert "3/4 episodes · 30 steps" in drawn
    assert "<polyline" in drawn
