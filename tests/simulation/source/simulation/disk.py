"""The store's database of the simulation: its transactions break where a fault says so."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulation.process import Process


class Disk:
    """Disturb the transactions of a store, one for each of `faults`.

    The remainder of a fault by 5 says what happens: the process is killed before COMMIT (0) or after it (1); COMMIT
    fails (2), or is carried out and fails all the same (3); a row cannot be written (4).
    """

    def __init__(self) -> None:
        self.faults: list[int] = []
        self.hits = 0

    def spin(self, writer: Any, process: Process) -> None:
        """Stand between the writer of a process and its database."""
        writer._connection = _Connection(writer._connection, self, process)

        def close() -> None:  # the one that it has then: it may have connected again
            writer._connection.close()

        process.held.append(close)

    def execute(self, process: Process, execute: Any, sql: str, rest: Any) -> Any:
        """Carry out a statement, or a fault."""
        if not self.faults or not sql.startswith(("COMMIT", "INSERT", "UPDATE")):
            return execute(sql, *rest)
        kind = self.faults[0] % 5
        if (kind == 4) == (sql == "COMMIT"):
            return execute(sql, *rest)
        self.faults.pop(0)
        self.hits += 1
        if kind in (1, 3):
            execute(sql, *rest)
        if kind in (0, 1):
            process.die()
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error


class _Connection:
    """Be a connection whose cursors ask the disk first."""

    def __init__(self, real: Any, disk: Disk, process: Process) -> None:
        self._real, self._disk, self._process = real, disk, process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def cursor(self) -> Any:
        return _Cursor(self._real.cursor(), self._disk, self._process)


class _Cursor:
    """Be a cursor that asks the disk first."""

    def __init__(self, real: Any, disk: Disk, process: Process) -> None:
        self._real, self._disk, self._process = real, disk, process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        """Carry out a statement, or a fault."""
        return self._disk.execute(self._process, self._real.execute, sql, rest)
