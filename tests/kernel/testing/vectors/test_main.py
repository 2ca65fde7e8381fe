from __future__ import annotations

import pytest

from ganglion.testing.vectors.__main__ import main
from ganglion.testing.vectors.make import text


def test_all_vectors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments everything is printed, and unknown ones are refused."""
    assert 0 == main([])
    assert text("messages") + text("session") + text("refused") == capsys.readouterr().out
    assert 2 == main(["--wirte"])
