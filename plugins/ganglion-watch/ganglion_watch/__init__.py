"""Looking at runs from another terminal: processes, a live view, logs."""
