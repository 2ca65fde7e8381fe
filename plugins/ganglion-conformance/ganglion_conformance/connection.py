"""Clauses of the connection: joining, heartbeats, leaving."""

from __future__ import annotations

from typing import Any

from ganglion.errors import PeerLost
from ganglion.limits import BEAT_ANSWER_S
from ganglion.wire.envelope import decode_head
from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion.wire.verb import Verb
from ganglion_conformance.bench import JOIN_S, TOKEN, Bench
from ganglion_conformance.case import Miss, Skip, case, expect
from ganglion_conformance.drivers import End
from ganglion_conformance.session import LEAVE_S, Session

_SILENCE_MS = 1000
_REFUSED_S = 5.0  # from ERROR to the end of the process
_GONE_S = 15.0  # beyond the ten seconds that a program waits if it knows nothing of GANGLION_SILENCE_MS
_REASONS = {
    "version": "kit-says-why: the kernel speaks another version of the protocol",
    "name": "kit-says-why: that name is taken",
    "token": "kit-says-why: that token admits nobody",
}


@case("join.speaks", "Joining")
def speaks(bench: Bench) -> None:
    """HELLO comes first, within the deadline, to the empty name, in three frames."""
    session = bench.session()
    frames = session.hello
    expect(len(frames) == 3, f"HELLO: expected the frames [name] [head] [body], found {len(frames)} frames")
    expect(frames[0] == b"", f"HELLO: expected the empty name in its first frame, found {frames[0]!r:.60}")
    head = decode_head(frames[1])
    expect(head.verb is Verb.HELLO, f"HELLO: expected the verb 1, found {head.verb.value}")


@case("join.hello", "Joining")
def hello(bench: Bench) -> None:
    """HELLO says version, role, name and token, as text and as the variables have them."""
    session = bench.session()
    fields = session.hello_fields()
    wanted: dict[str, Any] = {
        "version": PROTOCOL_VERSION,
        "role": session.place.role,
        "name": session.place.name,
        "token": TOKEN,
    }
    for key, value in wanted.items():
        found = fields.get(key)
        shown = "bin, not str" if isinstance(found, bytes) else f"{found!r:.80}"
        expect(type(found) is type(value) and found == value, f"HELLO.{key}: expected {value!r}, found {shown}")


@case("join.language", "Joining", must=False)
def language(bench: Bench) -> None:
    """HELLO says in `language` what the peer is written in."""
    found = bench.session().hello_fields().get("language")
    expect(isinstance(found, str) and found, f"HELLO.language: expected a word, found {found!r:.60}")


def _refused(bench: Bench, kind: str) -> None:
    session = bench.fresh(join=False)
    session.listen(JOIN_S)
    session.refuse(kind, _REASONS[kind])
    _ends_refused(session, _REASONS[kind], f"after ERROR {kind} in place of WELCOME")


def _ends_refused(session: Session, reason: str, when: str) -> End:
    """Miss unless the peer ends by itself, non-zero, and says the reason."""
    end = session.peer.ended(_REFUSED_S)
    if end is None:
        raise Miss(f"{when}: expected it to end within {_REFUSED_S:g} s, it is still there")
    expect(end.status != 0, f"{when}: expected an exit status that is not zero, found 0")
    expect(reason in end.words, f"{when}: expected the reason {reason!r} on stderr, found {end.words[-300:]!r}")
    return end


@case("join.refused", "Joining", alone=True)
def refused(bench: Bench) -> None:
    """A peer that is refused for its version ends with a status that is not zero, and says the reason."""
    _refused(bench, "version")


@case("join.second", "Joining", alone=True)
def second(bench: Bench) -> None:
    """A second start under the same name is refused, ends, and does not disturb the first."""
    first = bench.fresh()
    later = bench.fresh(join=False)
    later.listen(JOIN_S)
    later.refuse("name", _REASONS["name"])
    end = later.peer.ended(_REFUSED_S)
    expect(end is not None and end.status != 0, "the second: expected it to end with a status that is not zero")
    first.ask("kit.unknown", {})


@case("secure.token", "CURVE and token", alone=True)
def token(bench: Bench) -> None:
    """A peer whose token admits no peer stays outside, ends with a status that is not zero, and says the reason."""
    _refused(bench, "token")


@case("secure.right-key", "CURVE and token", alone=True)
def right_key(bench: Bench) -> str | None:
    """A peer that speaks CURVE joins with the server's key and a pair of its own, and is answered."""
    session = bench.fresh(join=False, curve=_curve(bench, "right"), silence_ms=10 * _SILENCE_MS)
    try:
        session.listen(JOIN_S)
    except Miss as miss:
        end = session.peer.ended(0.0)
        if end is not None and end.status != 0 and "CURVE" in end.words:
            raise Skip("it says that it has no CURVE") from miss
        raise
    session.welcome()
    session.ask("kit.unknown", {})
    return None


@case("secure.wrong-key", "CURVE and token", alone=True)
def wrong_key(bench: Bench) -> None:
    """With a wrong key for the server a peer stays outside, and ends by itself with a status that is not zero."""
    session = bench.fresh(join=False, curve=_curve(bench, "wrong"), silence_ms=_SILENCE_MS)
    end = _outlived(session)
    if end is None:
        raise Miss(f"expected it to end within {_GONE_S:g} s, it is still there")
    if "CURVE" in end.words and end.status != 0 and "not supported" in end.words:
        raise Skip("it says that it has no CURVE")
    expect(end.status != 0, "expected an exit status that is not zero, found 0")


def _outlived(session: Session) -> End | None:
    """Return how a peer ends that hears nothing; Miss if it speaks."""
    try:
        frames = session.peer.receive(0.0)
    except PeerLost:
        frames = None
    end = session.peer.ended(_GONE_S)
    if frames is None:
        try:
            frames = session.peer.receive(0.0)
        except PeerLost:
            frames = None
    expect(frames is None, "expected it to stay outside, found that it spoke in spite of the wrong key")
    return end


def _curve(bench: Bench, which: str) -> str:
    if not bench.order.curve:
        raise Skip("not asked to speak CURVE")
    return which


@case("leave.gone", "Deadlines, beats, leaving", alone=True)
def gone(bench: Bench) -> None:
    """When the kernel is gone without BYE the peer ends by itself with a status that is not zero."""
    session = bench.fresh(silence_ms=_SILENCE_MS)
    session.ask("kit.unknown", {})
    session.peer.cut()
    expect(session.end(_GONE_S).status != 0, "expected an exit status that is not zero, found 0")


@case("leave.sigterm", "Deadlines, beats, leaving", alone=True)
def sigterm(bench: Bench) -> None:
    """SIGTERM ends the process within two seconds."""
    if not bench.driver.program:
        raise Skip("it is no process")
    session = bench.fresh()
    session.ask("kit.unknown", {})
    session.peer.terminate()
    session.end(2.0)


@case("beat.here", "Deadlines, beats, leaving")
def here(bench: Bench) -> None:
    """BEAT is answered within 1.5 s by the same frames, or by BEAT `here` to the kernel, and nothing else is said."""
    session = bench.session()
    head = session.beat(BEAT_ANSWER_S)
    shown = f"verb {head.verb.value}, call {head.call!r}"
    right = head.verb is Verb.BEAT and (head.call == "here" or head.serial == 0)
    expect(right, f"BEAT: expected [8, 0] or [8, .., 'here'], found {shown}, serial {head.serial}")


@case("errors.unknown-call", "Errors")
def unknown_call(bench: Bench) -> None:
    """A call that the peer does not know is answered by ERROR, and the next one is answered."""
    session = bench.session()
    answer = session.ask("kit.dance", {"tempo": "fast"})
    expect(answer.failed, f"kit.dance: expected ERROR, found {answer.text}")
    expect(session.ask("kit.dance", {}).failed, "kit.dance, again: expected ERROR")


@case("errors.kind", "Errors", must=False)
def kind(bench: Bench) -> None:
    """The ERROR for a call that the peer does not know has the kind `unknown_call`."""
    answer = bench.session().ask("kit.dance", {})
    if not answer.failed:
        raise Skip("it answered no ERROR")
    found = answer.fields.get("kind")
    expect(found == "unknown_call", f"kit.dance: kind: expected 'unknown_call', found {found!r:.60}")


@case("errors.message", "Errors")
def message(bench: Bench) -> None:
    """Every ERROR has a `kind` and a `message`, text that is not empty."""
    answer = bench.session().ask("kit.sing", {})
    errors = [*bench.seen, *bench.session().errors]
    if not answer.failed and not errors:
        raise Skip("it answered no ERROR")
    for error in errors:
        for key in ("kind", "message"):
            found = error.get(key)
            right = isinstance(found, str) and found
            expect(right, f"ERROR to {error['call']}: {key}: expected text, found {found!r:.60}")


@case("leave.bye", "Deadlines, beats, leaving")
def bye(bench: Bench) -> None:
    """BYE is answered by the same frames, or by BYE to the kernel."""
    heard = _farewell(bench)
    verbs = [decode_head(frames[1]).verb for frames in heard]
    if Verb.BYE not in verbs:
        raise Miss("expected BYE within 2 s, heard " + (", ".join(verb.name for verb in verbs) or "nothing"))
    to = heard[verbs.index(Verb.BYE)][0]
    expect(to in (b"", b"supervisor"), f"expected BYE to the kernel or to its sender, found it to {to!r:.60}")


@case("leave.silent", "Deadlines, beats, leaving")
def silent(bench: Bench) -> None:
    """Nothing is said after BYE."""
    heard = _farewell(bench)
    verbs = [decode_head(frames[1]).verb for frames in heard]
    after = verbs[verbs.index(Verb.BYE) + 1 :] if Verb.BYE in verbs else []
    expect(not after, f"expected nothing after BYE, found {', '.join(verb.name for verb in after)}")


@case("leave.status", "Deadlines, beats, leaving")
def status(bench: Bench) -> None:
    """The process ends with status 0 within two seconds after its BYE."""
    _farewell(bench)
    end = bench.notes["end"]
    if end is None:
        if not bench.driver.again:
            raise Skip("it is no process of the kit")
        raise Miss("expected it to end within 2 s after BYE, it is still there")
    expect(end.status == 0, f"expected exit status 0, found {end.status}: {end.words[-300:]!r}")


def _farewell(bench: Bench) -> list[list[bytes]]:
    if "farewell" not in bench.notes:
        session = bench.session()
        bench.notes["farewell"] = session.bye()
        bench.notes["end"] = session.peer.ended(LEAVE_S)
    found: list[list[bytes]] = bench.notes["farewell"]
    return found
