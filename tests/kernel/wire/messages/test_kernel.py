from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import Admit, Ended, Failure, RunRequest, Submit


def test_a_request_for_runs_means_all_unless_it_names_one() -> None:
    """An empty request is for every run, and asks for nothing to be done now."""
    assert RunRequest(run="", now=False, reason="") == codec_of(RunRequest).decode(b"")


def test_document_is_enough_to_submit() -> None:
    """A document may be submitted as nothing but its text: its paths begin nowhere, and nothing is overridden."""
    submit = codec_of(Submit).decode(encode_map({"document": "uid: a"}))

    assert Submit("uid: a", source="<submitted>", folder="", seed=None, name=None, overrides=None) == submit


def test_hash_of_a_token_is_bytes() -> None:
    """A hash in hexadecimal is refused by its field, and not kept as a hash that no token has."""
    admit: dict[str, Any] = {"name": "r/brain", "role": "brain", "run": "r", "token_sha256": bytes(32)}

    assert Admit("r/brain", "brain", "r", bytes(32)) == codec_of(Admit).decode(encode_map(admit))
    with pytest.raises(RemoteProtocolError, match=r"admit\.token_sha256: expected bytes"):
        codec_of(Admit).decode(encode_map({**admit, "token_sha256": "00" * 32}))


def test_end_of_a_run_may_hold_a_failure() -> None:
    """A failure inside of a message is one of its own, and what it lacks is named by its whole path."""
    ended: dict[str, Any] = {"run": "r", "status": "failed", "reason": "lost", "exit_status": 1}
    failure = {"kind": "peer_lost", "message": "gone"}
    codec = codec_of(Ended)

    assert codec.decode(encode_map(ended)).failure is None
    assert Failure("peer_lost", "gone") == codec.decode(encode_map({**ended, "failure": failure})).failure
    with pytest.raises(RemoteProtocolError, match=r"ended\.failure\.message: expected"):
        codec.decode(encode_map({**ended, "failure": {"kind": "peer_lost"}}))
