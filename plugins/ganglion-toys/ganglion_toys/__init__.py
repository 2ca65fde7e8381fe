"""Small environments, muscles, brains and the demo of Ganglion."""
