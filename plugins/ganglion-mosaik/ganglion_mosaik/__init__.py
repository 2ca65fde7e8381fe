"""Simulators of mosaik (API 3) as environments, and runs as simulators in scenarios of mosaik."""
