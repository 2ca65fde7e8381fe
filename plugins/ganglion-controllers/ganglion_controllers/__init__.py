"""The built-in controllers of Ganglion."""
