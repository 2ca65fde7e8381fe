from __future__ import annotations

import pytest

from ganglion.cli.main import main


def test_place_is_needed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variables of a place nothing is started: exit status 2, with the first one that is missing."""
    monkeypatch.delenv("GANGLION_ENDPOINT", raising=False)
    assert 2 == main(["pipe", "--", "true"])
    assert "expected the variable GANGLION_ENDPOINT, found nothing; see ganglion kernel env" in capsys.readouterr().err
