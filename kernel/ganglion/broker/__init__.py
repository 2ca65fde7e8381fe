"""DECISIONS: the life of peers as a table, routing, permissions, leases; envelopes in, effects out."""
