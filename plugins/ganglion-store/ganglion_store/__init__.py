"""The SQL result store of Ganglion."""
