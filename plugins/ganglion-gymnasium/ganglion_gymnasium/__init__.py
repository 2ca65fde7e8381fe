"""Gymnasium environments on the Ganglion bus."""
