"""GRAPHS: what a document starts and who asks whom, drawn."""
