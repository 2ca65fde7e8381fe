"""`ganglion kernel`: the daemon, in the foreground; its status; its end."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ganglion.cli import bind as binding
from ganglion.cli.placement import keep_to
from ganglion.cli.run import store_of
from ganglion.cli.settings import Settings
from ganglion.errors import UsageError
from ganglion.supervisor import event
from ganglion.supervisor.output import printable

if TYPE_CHECKING:
    from ganglion.wire.messages import RunEvent

__all__ = ["command", "environment", "status", "stop"]
