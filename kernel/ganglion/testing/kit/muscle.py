"""Cases of muscles."""
