"""DOCUMENTS: from YAML with line marks to a checked model, a cascade and a plan of one run."""
