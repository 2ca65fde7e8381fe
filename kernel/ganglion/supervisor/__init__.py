"""LIFE: starts, watches, restarts and stops processes."""
