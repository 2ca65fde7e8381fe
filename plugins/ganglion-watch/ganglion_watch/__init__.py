"""Looking at runs from another terminal: processes, a live view, logs."""

from ganglion_watch.reader import Logs

__all__ = ["Logs"]
