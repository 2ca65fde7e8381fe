from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.cascade import recovery_faults
from ganglion.document.marks import Node, Source, compose


def nodes(*texts: str) -> list[Node | None]:
    """Return maps as they stand in a document, the farthest first; an empty text stands for none."""
    return [compose(Source("a.yml", text), text)[0] if text else None for text in texts]


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (["on_loss: recover\ndeterministic: false"], "1:10: : {} `deterministic: false` (line 2), {}"),
        (["deterministic: false", "on_loss: recover"], "1:10: : {} `deterministic: false` (line 1), {}"),
        (["deterministic: false", "", "on_loss: recover"], "1:10: : {} `deterministic: false` (line 1), {}"),
    ],
)
def test_a_contradiction_is_a_fault_at_its_place(levels: list[str], said: str) -> None:
    """Who asks for what cannot be is told so, at the line where he asks."""
    text = "found recover: what gives other answers again is not led back"
    [fault] = recovery_faults(nodes(*levels))

    assert said.format("expected restart or fail beside", text) == (
        f"{fault.line}:{fault.column}: {fault.path}: {fault.message}"
    )


@given(
    far=st.sampled_from(["on_loss: recover", "on_loss: restart", "deterministic: true", ""]),
    near=st.sampled_from(["deterministic: false", "on_loss: fail", "on_loss: restart", "run_as: bob", ""]),
)
def test_what_is_said_farther_away_contradicts_nothing(far: str, near: str) -> None:
    """A document may recover all but one: what stands nearer makes the exception."""
    assert [] == recovery_faults(nodes(far, near))
