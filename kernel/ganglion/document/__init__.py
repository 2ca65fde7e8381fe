"""DOCUMENTS: from YAML with line marks to a checked model, a cascade and a plan of one run."""

from ganglion.document.compile import resolved
from ganglion.document.reader import load_document
from ganglion.document.schema import schema

__all__ = ["load_document", "resolved", "schema"]
