from __future__ import annotations

from ganglion.document.fault import Fault, gathered


def test_notes_are_gathered_into_one() -> None:
    """Notes of a document are one text with a line for each, none is none; a note alone says that it is one."""
    notes = [Fault("note", "run.yml", line, 7, "x", f"`a{line}` is `b\x1b`") for line in (3, 5)]

    assert "run.yml:3:7: note: `a3` is `b�`" == str(notes[0])
    assert gathered(notes).splitlines() == [
        "run.yml: note: 2 names and keys of another project, read as ours:",
        "  run.yml:3:7: `a3` is `b�`",
        "  run.yml:5:7: `a5` is `b�`",
    ]
    assert "" == gathered([])
