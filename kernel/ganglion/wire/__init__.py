"""BYTES: envelope, framing, the table of calls, codec, one side of a conversation; no IO, no clock, no randomness."""
