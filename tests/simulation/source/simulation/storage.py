"""Journals of the simulation: they outlive processes, are torn where one is killed, and let it be killed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakepeer import MemoryJournalFile

from ganglion.peer.journal.write import Journal
from ganglion.wire.journal import Kind, Record

if TYPE_CHECKING:
    from simulation.process import Process


class JournalStorage(MemoryJournalFile):
    """Keep the journal of one name; `data` is what its predecessor has left.

    Killed while it writes, a process leaves a part of what it wrote; `torn` counts how often such a part was cut off.
    """

    def __init__(self, process: Process, data: bytearray) -> None:
        super().__init__()
        self.data = data
        self.torn = 0
        self._process = process

    def cut(self, size: int) -> None:
        self.torn += size < len(self.data)
        super().cut(size)

    def append(self, *pieces: bytes | memoryview) -> None:
        """Write at its end, or only begin to."""
        if self._process.mine == 0 and self._process.running:  # else `step` does not kill it
            data = b"".join(pieces)
            self.data += data[: len(data) // 2]
        self._process.step()
        super().append(*pieces)
        self._process.step()

    def replace(self, *pieces: bytes | memoryview) -> None:
        self._process.step()
        super().replace(*pieces)
        self._process.step()


class SimulatedJournal(Journal):
    """Be a journal whose process may be killed while it hears it again.

    `played` counts the records that it has heard, `compared` those that say what its predecessor has said.
    """

    def __init__(self, storage: JournalStorage, process: Process) -> None:
        self.played = self.compared = 0
        self.process = process
        super().__init__(storage)

    def take(self) -> Record:
        self.process.step()
        found = super().take()
        self.played += 1
        self.compared += found.kind is Kind.SAID
        return found
