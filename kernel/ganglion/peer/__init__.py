"""PROCESSES: one plugin object in one process, joined to the bus."""
