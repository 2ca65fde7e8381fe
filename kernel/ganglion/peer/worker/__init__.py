"""WORKERS: the process of a controller: episodes or ticks, boundaries, losses."""
