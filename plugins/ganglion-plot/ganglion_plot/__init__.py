"""PLOT: curves of the results of runs, as figures for papers and as text in a terminal."""
