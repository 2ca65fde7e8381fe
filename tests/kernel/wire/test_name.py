from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import LocalProtocolError
from ganglion.limits import NAME_BYTES
from ganglion.wire.name import KERNEL, Role, check_name, label, peer_name, safe, topic

SAFE_CASES = [
    ("grid", "grid"),
    ("net.1", "net.1"),
    ("my grid", "my_20grid"),
    ("Ada", "x_41da"),
    ("x_", "x_78_5f"),
    ("_", "x_5f"),
    (".hidden", "x_2ehidden"),
    ("-", "x_2d"),
    ("ähre", "x_c3_a4hre"),
    ("a/../../etc", "a_2f.._2f.._2fetc"),
    ("n" * 48, "n" * 48),
]

# Texts that are likely to collide: the characters of escapes, and lengths around the cut.
tricky = st.one_of(st.text("x_-.7845fZ", max_size=60), st.text(max_size=60))


@pytest.mark.parametrize(("uid", "part"), SAFE_CASES)
def test_safe_part(uid: str, part: str) -> None:
    """A uid becomes one part of a name in the documented way."""
    assert part == safe(uid)


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


def test_peer_name_is_a_path() -> None:
    """A peer's name shows run, role, uid and worker."""
    assert "farm/muscle/ada/3" == peer_name("farm", Role.MUSCLE, "ada", 3)
    assert "farm/governor" == peer_name("farm", Role.GOVERNOR)


def test_topic_cannot_be_a_peer() -> None:
    """A topic begins with a sign that no peer's name has."""
    assert "@my_20farm/events" == topic("my farm", "events")
    assert not peer_name("@", Role.BRAIN, "@").startswith("@")


@pytest.mark.parametrize("name", [KERNEL, "A", "/a", "-a", ".a", "@", "a b", "a\n", "ä", "a" * 129, "@" + "a" * 128])
def test_bad_name_is_refused(name: str) -> None:
    """What is no name does not get onto the wire."""
    with pytest.raises(LocalProtocolError, match="expected a name of 1 to 128"):
        check_name(name)


def test_bad_name_is_shown_cut() -> None:
    """A refusal does not repeat a name of any length."""
    with pytest.raises(LocalProtocolError) as caught:
        check_name("A" * 100_000)

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (peer_name("r", Role.ENVIRONMENT, "grid", 2), "environment grid (worker 2)"),
        (peer_name("r", Role.ENVIRONMENT, "my grid", 0, evaluation=True), "environment my grid (evaluation worker 0)"),
        (peer_name("r", Role.MUSCLE, "e0", 1), "muscle e0 (worker 1)"),
        (peer_name("r", Role.CONTROLLER, None, 3), "controller (worker 3)"),
        (peer_name("r", Role.CONTROLLER, None, 3, evaluation=True), "controller (evaluation worker 3)"),
        (peer_name("r", Role.BRAIN, "7"), "brain 7"),
        (peer_name("r", Role.GOVERNOR), "governor"),
        ("operator/1", "operator/1"),
        ("", "the kernel"),
    ],
)
def test_a_person_is_told_role_uid_and_worker(name: str, text: str) -> None:
    """Names of participants are read back into words, whatever uids look like."""
    assert text == label(name)
