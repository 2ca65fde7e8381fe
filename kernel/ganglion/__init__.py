"""A message-bus microkernel for learning agents.

Importing this package imports nothing else: a process that only needs one room pays for that room alone.
"""

__version__ = "0.1.0"
