"""Answers: what was answered to whom, so that a question that comes twice is carried out once; pure."""

from __future__ import annotations

from collections import OrderedDict

from ganglion.limits import ANSWERS_PER_CALLER, PEERS

__all__ = ["Answers"]

_Memory = OrderedDict[tuple[int, str], list[bytes]]


class Answers:
    """Remember the last answers per caller, and the questions that are not answered yet.

    A caller is a name: whoever bears it next may say again what its predecessor asked.
    """

    def __init__(self) -> None:
        self._said: OrderedDict[str, _Memory] = OrderedDict()
        self._doing: set[tuple[str, int, str]] = set()

    def begin(self, caller: str, serial: int, call: str) -> list[bytes] | None:
        """Take a question.

        Returns None if it is to be carried out, nothing at all (an empty list) if that is being done already, else the
        answer that was given.
        """
        memory = self._said.get(caller)
        if memory is not None and (serial, call) in memory:
            return memory[serial, call]
        if (caller, serial, call) in self._doing:
            return []
        self._doing.add((caller, serial, call))
        return None

    def end(self, caller: str, serial: int, call: str, answer: list[bytes]) -> None:
        """Keep the answer to a question that was taken; one that was forgotten meanwhile is nobody's."""
        if (caller, serial, call) not in self._doing:
            return
        self._doing.discard((caller, serial, call))
        memory = self._said.setdefault(caller, OrderedDict())
        self._said.move_to_end(caller)
        memory[serial, call] = answer
        while len(memory) > ANSWERS_PER_CALLER:
            memory.popitem(last=False)
        while len(self._said) > PEERS:
            self._said.popitem(last=False)

    def forget(self, prefixes: tuple[str, ...]) -> None:
        """Forget all callers whose names begin so."""
        for caller in [caller for caller in self._said if caller.startswith(prefixes)]:
            del self._said[caller]
        self._doing = {key for key in self._doing if not key[0].startswith(prefixes)}
