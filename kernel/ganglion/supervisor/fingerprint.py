"""The fingerprint of an installation: what equal results may depend on beside document and seed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ganglion
from ganglion import registry

__all__ = ["differences", "fingerprint"]

_KERNEL_PACKAGES = ("click", "msgpack", "numpy", "pydantic", "pyyaml", "pyzmq", "rich", "structlog", "uvloop")


def fingerprint() -> dict[str, Any]:
    """Return versions of Ganglion, Python, C library and packages, and which processor this is."""
    return {
        "ganglion": ganglion.__version__,
        "python": sys.version.split()[0],
        "libc": " ".join(platform.libc_ver()).strip(),
        "machine": os.uname().machine,
        "processor": _processor(Path("/proc/cpuinfo")),
        "packages": _versions(),
    }


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return where two fingerprints differ, a line for each: `package numpy: 2.0 then, 2.1 now`."""
    before, after = dict(_lines(then)), dict(_lines(now))
    return [
        f"{name}: {before.get(name) or 'none'} then, {after.get(name) or 'none'} now"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _lines(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from ((f"package {package}", str(version)) for package, version in value.items())
        else:
            yield name, str(value)


def _versions() -> dict[str, str]:
    """Return the versions of what a result may depend on: our dependencies, and all distributions with plugins."""
    found = {e.distribution: e.version for group in registry.GROUPS for e in registry.entries(group)}
    for name in _KERNEL_PACKAGES:
        found[name] = importlib.metadata.version(name)
    return dict(sorted(found.items()))


def _processor(path: Path) -> str:
    """Return the model of the processor; empty where the system does not tell it in a file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip().lower() in ("model name", "cpu model", "cpu part"):
                    return value.strip()
    except OSError:
        pass
    return ""
