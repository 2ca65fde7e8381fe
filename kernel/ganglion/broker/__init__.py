"""DECISIONS: peers' life as a table, routing, permissions, leases -> effects; no IO, no clock, no randomness."""
