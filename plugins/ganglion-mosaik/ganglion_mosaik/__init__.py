"""Simulators of mosaik (API 3) and units of FMI as environments, and runs as simulators in scenarios of mosaik."""
