"""Learning muscles and brains of Ganglion, written with numpy."""
