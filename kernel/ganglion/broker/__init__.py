"""DECISIONS: peers' life as a table, routing, permissions, leases -> effects; no IO, no clock, no randomness."""

from __future__ import annotations

from ganglion.broker.core import Broker
from ganglion.broker.link import Close, Effect, Link, Note, Route, Send

__all__ = ["Broker", "Close", "Effect", "Link", "Note", "Route", "Send"]
