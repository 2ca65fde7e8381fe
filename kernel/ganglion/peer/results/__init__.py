"""RESULTS: rows on their way to the store, and the process of the store."""
