"""The table of permissions: what a role may send to another role."""

from __future__ import annotations

from collections.abc import Callable

from ganglion.broker.link import Peer
from ganglion.limits import OPEN_CALLS, OPEN_CALLS_CONTROL
from ganglion.wire.envelope import packed
from ganglion.wire.messages import CALLS
from ganglion.wire.name import Role, safe
from ganglion.wire.verb import Verb

Relation = Callable[[Peer, Peer], bool]


def _same_run(source: Peer, target: Peer) -> bool:
    return source.run == target.run


def _same_worker(source: Peer, target: Peer) -> bool:
    places = [(peer.run, peer.worker, peer.evaluation) for peer in (source, target)]
    return places[0] == places[1]


def _same_agent(source: Peer, target: Peer) -> bool:
    return source.run == target.run and source.uid == target.uid


def _anyone(source: Peer, target: Peer) -> bool:
    return True


RIGHTS: dict[tuple[Role, Role], tuple[frozenset[Verb], Relation]] = {
    (Role.SUPERVISOR, Role.GOVERNOR): (frozenset({Verb.CALL, Verb.BYE}), _anyone),
    **{
        (Role.SUPERVISOR, role): (frozenset({Verb.BYE}), _anyone)
        for role in (Role.CONTROLLER, Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN, Role.TABLE, Role.STORE)
    },
    (Role.GOVERNOR, Role.CONTROLLER): (frozenset({Verb.CALL, Verb.SIGNAL}), _same_run),
    (Role.GOVERNOR, Role.BRAIN): (frozenset({Verb.CALL}), _same_run),
    (Role.GOVERNOR, Role.TABLE): (frozenset({Verb.CALL}), _same_run),
    (Role.GOVERNOR, Role.STORE): (frozenset({Verb.TELL}), _same_run),
    (Role.CONTROLLER, Role.GOVERNOR): (frozenset({Verb.CALL, Verb.SIGNAL}), _same_run),
    (Role.CONTROLLER, Role.ENVIRONMENT): (frozenset({Verb.CALL}), _same_worker),
    (Role.CONTROLLER, Role.MUSCLE): (frozenset({Verb.CALL}), _same_worker),
    (Role.CONTROLLER, Role.STORE): (frozenset({Verb.TELL}), _same_run),
    (Role.MUSCLE, Role.BRAIN): (frozenset({Verb.CALL}), _same_run),
    (Role.BRAIN, Role.TABLE): (frozenset({Verb.CALL}), _same_run),
    (Role.STORE, Role.GOVERNOR): (frozenset({Verb.TELL}), _same_run),
    (Role.STORE, Role.CONTROLLER): (frozenset({Verb.TELL}), _same_run),
}
"""What a source may send to a target without being asked. REPLY and ERROR pass where the reverse CALL does."""

_CALLS = {
    (caller, callee): frozenset(packed(call.name) for call in CALLS if call.callee is callee and caller in call.callers)
    for caller, callee in RIGHTS
}
_OF_OTHERS = frozenset({packed("brain.policy")})  # calls of a muscle to the brain of another agent, its opponent
_PUBLISHERS = frozenset(Role) - {Role.OPERATOR, Role.OBSERVER, Role.RELAY}
_NOBODY: tuple[frozenset[Verb], Relation] = (frozenset(), _anyone)


def bit(verb: Verb) -> int:
    """Return the bit of a verb in `Route.allowed`."""
    return 1 << verb


def _own(source: Peer, target: Peer) -> frozenset[Verb]:
    verbs, related = RIGHTS.get((source.role, target.role), _NOBODY)
    return verbs if verbs and related(source, target) else frozenset()


def allowed(source: Peer, target: Peer) -> int:
    """Return the bits of all verbs that may pass from `source` to `target`."""
    verbs = set(_own(source, target))
    if Verb.CALL in _own(target, source):
        verbs |= {Verb.REPLY, Verb.ERROR}
    return sum(bit(verb) for verb in verbs)


def calls(source: Peer, target: Peer) -> frozenset[bytes]:
    """Return the names of the calls that `source` may make to `target`, encoded as in a head."""
    if Verb.CALL not in _own(source, target):
        return frozenset()
    found = _CALLS[source.role, target.role]
    strange = source.role is Role.MUSCLE and not _same_agent(source, target)
    return found & _OF_OTHERS if strange else found


def may_publish(source: Peer, topic: str) -> bool:
    """Return True if `source` may TELL the topic `@<run>/<name>`: participants their own run's, the supervisor any.

    Of the participants, only the governor may publish to the topic `events`, which reports the progress of a run.
    """
    if source.role not in _PUBLISHERS:
        return False
    if source.role is Role.SUPERVISOR:
        return True
    own = topic.startswith(f"@{safe(source.run)}/")
    return own and (source.role is Role.GOVERNOR or not topic.endswith("/events"))


def open_calls(source: Peer) -> int:
    """Return how many unanswered CALLs a peer may have to one other peer."""
    control = (Role.CONTROLLER, Role.GOVERNOR, Role.SUPERVISOR)
    return OPEN_CALLS_CONTROL if source.role in control else OPEN_CALLS
