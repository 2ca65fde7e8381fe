"""The built-in termination conditions of Ganglion."""
