"""The guests of a broker: who may join it, what we hear of them, and what its loss means to their runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from ganglion.limits import RECONNECT_S
from ganglion.run.recovery import FAIL
from ganglion.supervisor import event
from ganglion.wire.messages import Admit, Lost
from ganglion.wire.name import topic

if TYPE_CHECKING:
    from ganglion.supervisor.access import Access
    from ganglion.supervisor.member import Member
    from ganglion.supervisor.runs import Run
    from ganglion.supervisor.supervisor import Supervisor

__all__ = ["Guests"]

_BROKER = "broker"
_REJOIN_S = 5.0  # for our own processes to find another broker; a hang is given two


class Guests:
    """Be the patron of a hub for the runs of a supervisor."""

    def __init__(self, supervisor: Supervisor, access: Access) -> None:
        self._supervisor = supervisor
        self._access = access
        self._number = 1  # of the broker
        self._told: set[str] = set()  # runs that know of its loss

    def wants_broker(self) -> bool:
        """Say whether a lost broker is to be replaced: for a run that outlives it, and for those that will come."""
        to_come = self._supervisor.settings.run is None or not self._supervisor.runs
        return to_come or any(_outlives(run) for run in self._live())

    def admissions(self) -> list[Admit]:
        """Return who may join: operators, observers, and everybody who takes part in a run that is not over.

        Nobody is to wait for those who have been asked to leave.
        """
        members = [member for run in self._live() for member in run.members.values()]
        places = [(member, self._access.admission(member)) for member in members]
        awaited = (replace(place, returns=place.returns and not m.dismissed) for m, place in places)
        return [*self._access.admissions(), *awaited]

    def interests(self) -> tuple[list[str], list[str]]:
        """Return the topics that are read, and the names that are watched."""
        topics = [topic(run.id, name) for run in self._live() for name in (event.TOPIC, event.WAITS)]
        return topics, [name for run in self._live() for name in run.members]

    def broker_lost(self, how: str, words: list[str], returns: bool) -> None:
        """Fail the runs that do not outlive their broker; the others wait for the next one."""
        for run in self._supervisor.runs.values():
            if run.outcome is not None:
                continue
            if not returns or run.over.is_set() or not _outlives(run):
                run.losses.append((_BROKER, how, words))
                run.fail(f"{_BROKER} {how}")
                continue
            for member in run.members.values():
                member.joined = False
            self._told.add(run.id)
            self._tell(run, event.PEER_LOST, "lost", how, reason=how)

    def broker_back(self, took_s: float) -> None:
        """Tell it, and see to those who do not find the way to another broker."""
        self._number += 1
        loop = asyncio.get_running_loop()
        for run in self._live():
            if run.id in self._told:  # else it has begun meanwhile, and was never without
                self._tell(
                    run, event.PEER_RESTARTED, "restarted", f"after {took_s:.2f} s", took_s=round(took_s, 3)
                )
            for member in run.members.values():
                if member.here.is_set() and not member.joined:
                    span_s = RECONNECT_S if member.place.attached else _REJOIN_S
                    loop.call_later(span_s, self._miss, run, member)
        self._told.clear()

    def _live(self) -> list[Run]:
        return [run for run in self._supervisor.runs.values() if not run.over.is_set()]

    def _tell(self, run: Run, name: str, kind: str, detail: str, **fields: object) -> None:
        known = {"name": _BROKER, "label": _BROKER, "incarnation": self._number}
        self._supervisor.tell(run, name, {**known, **fields})
        self._supervisor.revival.report_broker(run, self._number, kind, detail)

    def _miss(self, run: Run, member: Member) -> None:
        """Take note of a member that has not come back to a new broker."""
        if member.joined or run.members.get(member.name) is not member:
            return
        member.lost_reason = "it did not come back when the broker was replaced"
        if member.place.attached:
            self._supervisor.peer_lost(Lost(member.name, member.incarnation, member.lost_reason))
        else:
            self._supervisor.end_cut_off(run, member)


def _outlives(run: Run) -> bool:
    """Say whether a run goes on with another broker: its participants come back to it where losses are made good."""
    return any(part.on_loss != FAIL for part in run.plan.phases[run.phase].parts())
