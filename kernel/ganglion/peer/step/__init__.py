"""THE VALUES OF A STEP: blocks and rows, and what a declaration says of them; the only place that converts values."""
