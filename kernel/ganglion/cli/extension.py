"""The interface of the kernel for commands of plugins, besides `ganglion.sdk`: settings, documents, stores, sessions.

Of the other modules of the command line only `settings`, `stores` and `table` are stable; these are quick to import.
Importing this module imports no numpy and starts nothing.
"""

from __future__ import annotations

from ganglion import __version__, registry
from ganglion.cli.child import find_misfits
from ganglion.cli.progress import plain_line, span
from ganglion.cli.session import COMMAND, Session, document_file, launcher_of
from ganglion.cli.settings import Settings
from ganglion.cli.stores import open_reader, records_heard, store_class, store_uri
from ganglion.cli.table import json_text, write
from ganglion.document import load_document
from ganglion.document.cascade import Nowhere, path_of, put
from ganglion.document.compile import written
from ganglion.document.fault import Fault, placed, report, settle, summary
from ganglion.document.marks import Node, Source, compose
from ganglion.document.model import Count, Expect, Flag, Form, Name, Seed, Version, is_name, validate
from ganglion.document.reader import Tree, load_tree, read_tree
from ganglion.document.schema import cleaned, schema
from ganglion.document.spelling import component, normalise, walk
from ganglion.errors import CallFailed, DeadlineExceeded, DocumentError, GanglionError, PeerLost, UsageError
from ganglion.limits import DEADLINE_OTHER_S, PAUSE_ANSWER_S, PEERS
from ganglion.run.plan import PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.sdk.naming import nearest
from ganglion.supervisor.connection import (
    Connection,
    Operator,
    endpoint_folder,
    find_connections,
    find_kernel,
    find_run,
    read_connection,
    write_private,
)
from ganglion.supervisor.folder import MANIFEST, Files, read_manifest, read_origin
from ganglion.supervisor.launch.local import Local
from ganglion.supervisor.launch.system import LINUX
from ganglion.supervisor.output import printable
from ganglion.supervisor.pace import Pace, thinned
from ganglion.supervisor.runs import Outcome
from ganglion.transport import loop
from ganglion.transport.curve import new_pair
from ganglion.wire.messages import Nothing, RunEvent, RunRequest, RunSignal, Submit

__all__ = ["DocumentError", "GanglionError", "UsageError", "__version__", "registry"]
__all__ += ["Local", "Outcome", "Plan", "PluginPlan", "ProgramPlan", "RunEvent", "Session", "Settings", "loop"]
__all__ += ["json_text", "open_reader", "plain_line", "printable", "span", "store_class", "store_uri", "write"]
__all__ += ["MANIFEST", "Files", "PhasePlan", "read_manifest", "read_origin", "records_heard"]  # besides a store
__all__ += ["CallFailed", "DeadlineExceeded", "PeerLost", "RunRequest", "find_connections", "find_run"]  # live runs
__all__ += ["LINUX", "PEERS", "Nothing", "endpoint_folder", "find_misfits", "launcher_of", "new_pair"]  # the machine
__all__ += ["Pace", "document_file", "thinned"]  # views of programs and notebooks
__all__ += ["COMMAND", "DEADLINE_OTHER_S", "PAUSE_ANSWER_S", "Connection", "Operator", "RunSignal", "Submit"]
__all__ += ["Fault", "find_kernel", "nearest", "placed", "read_connection", "report", "settle", "summary"]
__all__ += ["Node", "Nowhere", "Source", "Tree", "compose", "load_document", "load_tree", "path_of", "put"]
__all__ += ["Count", "Expect", "Flag", "Form", "Name", "Seed", "Version", "is_name", "read_tree", "validate"]
__all__ += ["cleaned", "component", "normalise", "schema", "walk", "write_private", "written"]
