"""Part: what all classes of ours have in common that play one of palaestrAI's."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, ClassVar

__all__ = ["Hosted"]

_OFFERED = ("uid", "seed", "broker_uri")


class Hosted:
    """Make an object of palaestrAI's class, `theirs`, of what the document says."""

    hosted: ClassVar[type[Any]]
    params: Mapping[str, Any]

    @staticmethod
    def check(hosted: type[Any], parameters: Mapping[str, Parameter]) -> None:
        """Refuse none: it may take anything."""

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self.theirs: Any = self.hosted(**self.meant(params))

    def meant(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments without those that the bus offers and the document does not name."""
        return {name: value for name, value in params.items() if name not in _OFFERED or name in self.params}
