"""CONTRACT: what the author of a plugin reads."""
