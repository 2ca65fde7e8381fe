"""Learning muscles and brains of Ganglion: one with numpy alone, three with torch."""
