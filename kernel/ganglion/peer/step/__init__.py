"""THE VALUES OF A STEP: blocks and rows, laid out by a declaration; the only place that converts values."""
