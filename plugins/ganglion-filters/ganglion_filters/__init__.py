"""Filters of Ganglion: what stands between an agent and its environments."""
