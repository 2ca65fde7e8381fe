"""Fuzz one target, guided by which branches an input takes: python -m fuzz TARGET [OPTIONS OF LIBFUZZER].

It needs atheris (the extra `fuzz`). What it finds lies in the working folder, or where `-artifact_prefix=` says.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ganglion", "ganglion_store", "yaml", "json"]):
    from fuzz.measure import search
    from fuzz.targets import TARGETS

KEPT = Path(__file__).parents[2] / "kept"


def _quoted(word: bytes) -> str:
    """Return a word as a line of a dictionary of libFuzzer."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def main() -> None:
    """Fuzz until libFuzzer ends: with 0 after its time, with another status at the first finding."""
    target = TARGETS[sys.argv[1]]
    corpus = Path(tempfile.mkdtemp(prefix=f"ganglion-fuzz-{target.name}-"))
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    for path in (KEPT / target.name).glob("*"):
        (corpus / path.name).write_bytes(path.read_bytes())
    words = corpus.with_suffix(".dict")
    words.write_text("".join(map(_quoted, target.words)))

    def one(data: bytes) -> None:
        found = search(target, [data])
        if found is not None:
            raise AssertionError(str(found))

    options = [f"-max_len={target.bytes_max}", f"-dict={words}", "-rss_limit_mb=2048", "-timeout=10"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[2:], str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
