from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ganglion.testing.kit.__main__ import main


@pytest.mark.parametrize(
    ("question", "status", "text"),
    [
        ({"name": "pendulum", "only": ["join.declares"]}, 0, "conforms: 1 must\n"),
        ({"name": "no_such", "only": ["join"], "again": "again {case}"}, 1, "again: again join.declares"),
        ({"argv": ["./nowhere"]}, 2, "ganglion: ./nowhere: No such file"),
        ({"argv": [sys.executable, "-c", ""], "only": ["nothing"]}, 2, "there is no case 'nothing'"),
    ],
)
def test_question_is_answered_by_report_and_status(
    question: dict[str, Any], status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 for a peer that conforms, 1 for one that does not, 2 where nothing could be asked."""
    found = main({"role": "environment", **question})
    said = capsys.readouterr()

    assert status == found
    assert text in said.out + said.err


def test_report_is_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    """For programs the report is one map."""
    status = main({"role": "environment", "name": "dummy", "only": ["join"], "json": True})

    assert 0 == status
    assert json.loads(capsys.readouterr().out)["conforms"] is True
