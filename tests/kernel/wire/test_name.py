from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ganglion.limits import NAME_BYTES
from ganglion.wire.name import Role, check_name, peer_name, safe

# Texts that are likely to collide: the characters of escapes, and lengths around the cut.
tricky = st.one_of(st.text("x_-.7845fZ", max_size=60), st.text(max_size=60))


@given(tricky, tricky)
def test_different_uids_have_different_parts(first: str, second: str) -> None:
    """No two uids become the same part of a name."""
    assert (first == second) == (safe(first) == safe(second))


@given(st.text("abc-_ ", min_size=49, max_size=80))
def test_the_part_of_a_long_uid_is_no_uid_of_somebody_else(uid: str) -> None:
    """A part that was cut cannot be had by choosing that part as a uid."""
    assert safe(uid) != safe(safe(uid))


@given(st.text(min_size=1, max_size=300))
def test_safe_part_is_short_and_plain(uid: str) -> None:
    """Whatever the uid is, its part holds no separator, names no other folder and has at most 48 bytes."""
    part = safe(uid)

    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,47}", part)


@given(tricky.filter(bool), st.sampled_from(Role), st.none() | tricky.filter(bool), st.none() | st.integers(0, 2**31))
def test_every_peer_has_a_name(run: str, role: Role, uid: str | None, worker: int | None) -> None:
    """Any run, uid and worker give a name that may stand on the wire."""
    name = peer_name(run, role, uid, worker)

    assert name == check_name(name)
    assert len(name) <= NAME_BYTES
