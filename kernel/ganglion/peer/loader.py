"""Loading: a plugin's class by the name that a document gives it, with its distribution for the blame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganglion import registry
from ganglion.sdk.construct import construct


@dataclass(frozen=True, slots=True)
class Loader:
    """Load classes as the document of this run may name them: by entry point, or import path from allowed packages."""

    folder: str
    allow: tuple[str, ...]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Loader:
        """Return the loader that the variables of a process describe."""
        allow = tuple(name for name in variables.get("GANGLION_ALLOW", "").split(",") if name)
        return cls(variables.get("GANGLION_FOLDER", ""), allow)

    def load(self, kind: str, name: str) -> type[Any]:
        """Return the class; PluginInvalid says what is wrong and whose it is."""
        found: type[Any] = registry.load(kind, name, folder=self.folder, allow=self.allow)
        return found

    def make(
        self,
        kind: str,
        plugin: Mapping[str, Any],
        attributes: Mapping[str, Any],
        params: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return a new object of the class that `plugin` names."""
        cls = self.load(kind, str(plugin["name"]))
        chosen = dict(plugin.get("params") or {}) if params is None else dict(params)
        offered = {"uid": attributes.get("uid", ""), "seed": attributes.get("seed", 0), "broker_uri": ""}
        return construct(cls, chosen, offered, {**attributes, "params": chosen})

    def blame(self, kind: str, name: str) -> str:
        """Return whose class it is, for error messages: `class Grid of ganglion-grid 0.3`."""
        cls = self.load(kind, name)
        distribution = registry.distribution_of(cls)
        return f"class {cls.__qualname__}" + (f" of {distribution}" if distribution else "")
