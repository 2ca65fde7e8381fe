"""PettingZoo environments on the Ganglion bus."""
