from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from ganglion.limits import LOG_LINE_BYTES
from ganglion.log import set_up


def _line(level: str = "info", **fields: Any) -> str:
    stream = io.StringIO()
    set_up("broker", stream=stream).say(level, "peer.joined", **fields)
    return stream.getvalue()


def test_an_event_is_one_line_of_json() -> None:
    """A line holds process, level, event, time and the fields; an unknown level is a warning."""
    for level, written in (("info", "info"), ("odd", "warning")):
        line = json.loads(_line(level, name="r/muscle/a/0"))
        assert line.pop("time").endswith("Z")
        assert {"process": "broker", "level": written, "event": "peer.joined", "name": "r/muscle/a/0"} == line


def test_what_a_peer_says_draws_and_floods_nothing() -> None:
    """Control characters are escaped, and no line is longer than LOG_LINE_BYTES: one that was cut says so."""
    for text in ("a\x1b[2J\nb", "x" * 2 * LOG_LINE_BYTES):
        line = _line(text=text)
        assert line.count("\n") == 1
        assert "\x1b" not in line
        assert len(line) <= LOG_LINE_BYTES + 1
        assert line.endswith("characters\n") is (len(text) > LOG_LINE_BYTES)


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    """A process that comes back goes on in the file of the one before it."""
    path = tmp_path / "logs" / "p.jsonl"
    for event in ("first", "second"):
        log = set_up("p", str(path))
        log.say("info", event)
        log.close()

    assert ["first", "second"] == [json.loads(line)["event"] for line in path.read_text().splitlines()]
