"""What commands of plugins may use of the kernel beside `ganglion.sdk`: settings, documents, stores, sessions.

Nothing else behind the command line is promised to them. Importing this imports no numpy and starts nothing.
"""

from __future__ import annotations

from ganglion import __version__, registry
from ganglion.cli.progress import plain_line
from ganglion.cli.session import Session
from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader, store_class, store_uri
from ganglion.cli.table import json_text, write
from ganglion.document.cascade import Nowhere, path_of, put
from ganglion.document.compile import written
from ganglion.document.fault import Fault, nearest, placed, report, settle, summary
from ganglion.document.marks import Node, Source, compose, node_of
from ganglion.document.model import Count, Expect, Flag, Form, Name, Seed, Version, is_name, validate
from ganglion.document.reader import Tree, load_tree, read_tree
from ganglion.document.schema import cleaned, schema
from ganglion.document.spelling import component, normalise, walk
from ganglion.errors import DocumentError, GanglionError, UsageError
from ganglion.run.plan import Plan
from ganglion.supervisor.launcher import Launcher
from ganglion.supervisor.output import printable
from ganglion.supervisor.runs import Outcome
from ganglion.transport import loop
from ganglion.wire.messages import RunEvent

__all__ = [
    "Count",
    "DocumentError",
    "Expect",
    "Fault",
    "Flag",
    "Form",
    "GanglionError",
    "Launcher",
    "Name",
    "Node",
    "Nowhere",
    "Outcome",
    "Plan",
    "RunEvent",
    "Seed",
    "Session",
    "Settings",
    "Source",
    "Tree",
    "UsageError",
    "Version",
    "__version__",
    "cleaned",
    "component",
    "compose",
    "is_name",
    "json_text",
    "load_tree",
    "loop",
    "nearest",
    "node_of",
    "normalise",
    "open_reader",
    "path_of",
    "placed",
    "plain_line",
    "printable",
    "put",
    "read_tree",
    "registry",
    "report",
    "schema",
    "settle",
    "store_class",
    "store_uri",
    "summary",
    "validate",
    "walk",
    "write",
    "written",
]
