from __future__ import annotations

import io
import json
from pathlib import Path

from ganglion.limits import LOG_LINE_BYTES
from ganglion.log import set_up


def test_an_event_is_one_line_of_json() -> None:
    """A line holds process, level, event, time and the fields."""
    stream = io.StringIO()

    set_up("broker", stream=stream).say("info", "peer.joined", name="r/muscle/a/0")

    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    expected = {"process": "broker", "level": "info", "event": "peer.joined", "name": "r/muscle/a/0"}
    assert expected == line


def test_control_characters_are_escaped() -> None:
    """What a peer says can draw nothing on a terminal."""
    stream = io.StringIO()

    set_up("p", stream=stream).say("info", "e", text="a\x1b[2J\nb")

    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_a_long_line_is_cut_and_says_so() -> None:
    """A line is never longer than LOG_LINE_BYTES."""
    stream = io.StringIO()

    set_up("p", stream=stream).say("info", "e", text="x" * 2 * LOG_LINE_BYTES)

    line = stream.getvalue().rstrip("\n")
    assert len(line) <= LOG_LINE_BYTES
    assert line.endswith("characters")


def test_an_unknown_level_is_a_warning() -> None:
    """A note of a level that there is not is not lost."""
    stream = io.StringIO()

    set_up("p", stream=stream).say("odd", "e")

    assert "warning" == json.loads(stream.getvalue())["level"]


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    """A process that comes back goes on in the file of the one before it."""
    path = tmp_path / "logs" / "p.jsonl"

    for event in ("first", "second"):
        log = set_up("p", str(path))
        log.say("info", event)
        log.close()

    assert ["first", "second"] == [json.loads(line)["event"] for line in path.read_text().splitlines()]
