"""Cases of every role: beats, errors of its own, and how a peer leaves; these close the shared session."""

from __future__ import annotations

from ganglion.limits import BEAT_ANSWER_S
from ganglion.testing.kit.bench import Bench
from ganglion.testing.kit.case import Miss, Skip, case, expect
from ganglion.testing.kit.session import LEAVE_S
from ganglion.wire.envelope import decode_head
from ganglion.wire.verb import Verb

__all__: list[str] = []


@case("beat.here", "Deadlines, beats, leaving")
def here(bench: Bench) -> None:
    """BEAT is answered by BEAT `here` to the kernel within 1.5 s, and nothing else is said."""
    session = bench.session()
    head = session.beat(BEAT_ANSWER_S)
    shown = f"verb {head.verb.value}, call {head.call!r}"
    expect((head.verb, head.call) == (Verb.BEAT, "here"), f"BEAT: expected [8, .., 'here'], found {shown}")


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
    """BYE is answered by BYE to the kernel."""
    session = bench.session()
    heard = bench.notes["farewell"] = session.bye()
    verbs = [decode_head(frames[1]).verb for frames in heard]
    bench.notes["end"] = session.peer.ended(LEAVE_S)
    if Verb.BYE not in verbs:
        raise Miss("expected BYE within 2 s, heard " + (", ".join(verb.name for verb in verbs) or "nothing"))
    to = heard[verbs.index(Verb.BYE)][0]
    expect(to == b"", f"expected BYE to the kernel, the empty name, found it to {to!r:.60}")


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
