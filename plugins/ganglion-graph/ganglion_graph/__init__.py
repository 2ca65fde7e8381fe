"""GRAPHS: the processes of a document and which asks which, drawn."""
