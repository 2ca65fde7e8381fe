"""BYTES: envelope, framing, the table of calls, codec; no IO, no clock, no randomness."""
