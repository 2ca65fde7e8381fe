"""THE PAGE: runs, curves, processes and logs of a results folder in a browser, live and later."""
