"""A launcher that lets Ray place the processes of runs on the nodes of a cluster; messages go over the bus."""

from ganglion_ray.launcher import RayLauncher

__all__ = ["RayLauncher"]
