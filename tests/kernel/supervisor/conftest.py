"""A stand-in for the programs and participants that a launcher starts, and a launcher that starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

STANDIN = '''
import os, signal, sys, time

def main(variables):
    print("variables", sorted(variables), flush=True)
    what = variables.get("WHAT", "leave")
    if what == "raise":
        raise RuntimeError("boom")
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
    if what == "family":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                print("grandchild", os.getpid(), flush=True)
                time.sleep(600)
            os._exit(0)
        os.wait()
    if what == "facts":
        print("facts", os.getppid(), os.getsid(0) == os.getpid(), os.get_inheritable(0), flush=True)
        print("stdin", sys.stdin.read(), flush=True)
    if what in ("stay", "deaf", "family"):
        while True:
            time.sleep(600)
    return int(variables.get("STATUS", "0"))

if __name__ == "__main__":
    sys.exit(main({k: v for k, v in os.environ.items() if k in ("WHAT", "STATUS")}))
'''


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a small program whose module `standin` the warm parent can import."""
    path = tmp_path / "modules" / "standin.py"
    path.parent.mkdir()
    path.write_text(STANDIN)
    monkeypatch.setenv("PYTHONPATH", str(path.parent))
    return path
