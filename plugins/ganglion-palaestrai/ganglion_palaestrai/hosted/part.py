"""Part: what all classes of ours have in common that play one of palaestrAI's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import Parameter
from typing import Any, ClassVar

__all__ = ["Hosted"]

_OFFERED = ("uid", "seed", "broker_uri")
_GROUPED = re.compile(r"[-+]?[0-9]+(_[0-9]+)+")


class Hosted:
    """Make an object of palaestrAI's class, `theirs`, of what the document says."""

    hosted: ClassVar[type[Any]]
    params: Mapping[str, Any]
    theirs: Any

    @staticmethod
    def check(hosted: type[Any], parameters: Mapping[str, Parameter]) -> None:
        """Refuse none: it may take anything."""

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.theirs = self.make(_read(self.meant(params)))

    def make(self, arguments: dict[str, Any]) -> Any:
        """Return the object of palaestrAI's class."""
        return self.hosted(**arguments)

    def meant(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments without those that the bus offers and the document does not name."""
        return {name: value for name, value in params.items() if name not in _OFFERED or name in self.params}


def _read(value: Any) -> Any:
    """Return parameters as palaestrAI reads them from a document: 1_000_000 is a number there, and text here."""
    if isinstance(value, str):
        return int(value) if _GROUPED.fullmatch(value) else value
    if isinstance(value, list):
        return [_read(part) for part in value]
    return {name: _read(part) for name, part in value.items()} if isinstance(value, dict) else value
