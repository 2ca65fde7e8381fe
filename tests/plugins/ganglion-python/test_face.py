from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ganglion.cli.extension import DocumentError, Pace
from ganglion_python.drawing import run_html, table_html
from ganglion_python.face import check

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


@pytest.mark.parametrize(
    "form", [lambda it: it, json.dumps, lambda it: json.dumps(it, indent=1)], ids=["map", "line", "text"]
)
def test_a_document_is_a_map_or_text(form: Any) -> None:
    """Maps and text are checked as files are; overrides have dots or double underscores in their paths."""
    document = form(DOCUMENT)
    if isinstance(document, str) and "\n" not in document:
        document += "\n"

    assert [] == check(document)
    assert [] == check(document, seed=3, schedule__train__phase_config__episodes=4)
    with pytest.raises(DocumentError, match="episodes") as caught:
        check(document, **{"schedule.train.phase_config.episodes": -4})
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
