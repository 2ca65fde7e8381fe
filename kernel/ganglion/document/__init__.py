"""DOCUMENTS: from YAML with line marks to a checked model, a cascade and a plan of one run."""

from ganglion.document.compile import resolved
from ganglion.document.reader import load_document

__all__ = ["load_document", "resolved"]
