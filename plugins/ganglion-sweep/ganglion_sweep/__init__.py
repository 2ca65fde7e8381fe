"""SWEEPS: one document of factors and levels becomes many runs, each carried out exactly once."""
