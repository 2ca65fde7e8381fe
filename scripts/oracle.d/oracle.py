"""Run the documents of tests/oracle, undisturbed or with kills, and compare the digests of their tables."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import yaml
from digest import digests
from system.command import Command, ganglion
from system.processes import ROLES, below

from ganglion import registry

HERE = Path(__file__).resolve().parents[2] / "tests" / "oracle"
KEPT = HERE / "digests.json"
SPAN_S = 600.0  # for all documents of a seed and a number of workers, on a machine under load
_EVERYTHING = "everything"  # the whole run is killed, and resumed


@dataclass(frozen=True, slots=True)
class Case:
    """Name a run: a document by its path below tests/oracle, a seed, a number of workers (0: as the document says)."""

    document: str
    seed: int
    workers: int

    @property
    def key(self) -> str:
        """The key of its digests, such as `1/2`: seed, number of workers."""
        return f"{self.seed}/{self.workers or '-'}"

    @property
    def uid(self) -> str:
        """The uid of the document as its run is named by."""
        return str(yaml.safe_load((HERE / f"{self.document}.yml").read_text())["uid"])


def main() -> int:
    """Run what was asked for; return 1 if anything differs."""
    parser = argparse.ArgumentParser(
        prog="scripts/oracle", description="Compare what Ganglion computes with what is kept in tests/oracle."
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only documents whose path holds WORD")
    parser.add_argument("--disturbed", action="store_true", help="a drawn tenth, with kills and with resume")
    parser.add_argument("--seed", type=int, default=1, help="what --disturbed draws from (1)")
    parser.add_argument("--write", action="store_true", help="keep the digests found; say why in decisions/")
    words = parser.parse_args()
    if words.write and words.disturbed:
        parser.error("--write keeps digests of undisturbed runs; leave out --disturbed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # folders are removed
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # `python3` of programs has msgpack
    kept: dict[str, dict[str, dict[str, str]]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    cases = [case for case in read_cases() if words.only in case.document]
    began_s, good, bad = time.monotonic(), 0, 0
    found = disturb(cases, random.Random(words.seed)) if words.disturbed else undisturbed(cases)
    for case, label, tables in found:
        faults = [tables] if isinstance(tables, str) else []
        if isinstance(tables, dict):
            if words.write:
                kept.setdefault(case.document, {})[case.key] = tables
            faults = differences(kept.get(case.document, {}).get(case.key, {}), tables)
        good, bad = good + (not faults), bad + bool(faults)
        for fault in faults:
            print(f"DIFFERS {case.document} seed/workers {case.key}{label}: {fault}", flush=True)
    if words.write:
        KEPT.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
    print(f"{good} equal, {bad} different, in {time.monotonic() - began_s:.0f} s")
    return 1 if bad or not good else 0


def read_cases() -> list[Case]:
    """Return all cases of cases.yml whose packages are here; say which are left out."""
    cases = []
    for document, says in yaml.safe_load((HERE / "cases.yml").read_text()).items():
        if (package := says.get("needs")) and find_spec(package) is None:
            print(f"left out: {document} needs {package}")
            continue
        for workers in says.get("workers", [0]):
            cases += [Case(document, seed, workers) for seed in says["seeds"]]
    return cases


def differences(kept: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return a line for each table whose digest is not the kept one."""
    tables = sorted({*kept, *found})
    return [
        f"{table}: kept {kept.get(table, 'none'):.12}, found {found.get(table, 'none'):.12}"
        for table in tables
        if kept.get(table) != found.get(table)
    ]


@contextlib.contextmanager
def place(cases: Iterable[Case]) -> Iterator[Path]:
    """Yield a folder with the documents of cases of one number of workers, and with the modules that they name."""
    folder = Path(tempfile.mkdtemp(prefix="oracle-"))
    try:
        for modules in (HERE, HERE.parent / "documents", HERE.parent / "documents" / "golden"):
            for module in modules.glob("*.py"):
                shutil.copy(module, folder)
        for case in cases:
            text = (HERE / f"{case.document}.yml").read_text().replace("$WORKERS", str(case.workers))
            (folder / Path(case.document).with_suffix(".yml").name).write_text(text)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read(folder: Path, case: Case) -> dict[str, str] | str:
    """Return the digests of the run of a case in a folder, or what is wrong with the run."""
    reader = registry.load("store", "sqlite").reader(f"sqlite:///{folder}/results/ganglion.db")
    try:
        rows = {row["uid"]: row for row in reader.rows("runs")}
        row = rows.get(case.uid, {"status": "missing", "reason": "no run was stored"})
        if row["status"] != "finished":
            return f"expected status finished, found {row['status']}: {row['reason']}"
        return digests(reader, row["run"])
    finally:
        reader.close()


def undisturbed(cases: list[Case]) -> Iterator[tuple[Case, str, dict[str, str] | str]]:
    """Run all cases, those of equal seed and number of workers by one command; yield what came of each."""
    for key in dict.fromkeys(case.key for case in cases):
        group = [case for case in cases if case.key == key]
        with place(group) as folder:
            files = [Path(case.document).with_suffix(".yml").name for case in group]
            words = ("run", "--quiet", "--parallel", "2", "--seed", str(group[0].seed), *files)
            done = ganglion(folder, *words, span_s=SPAN_S)
            if done.returncode:
                print(done.stdout + done.stderr)
            for case in group:
                yield case, "", read(folder, case)


def disturb(cases: list[Case], rng: random.Random) -> Iterator[tuple[Case, str, dict[str, str] | str]]:
    """Run a drawn tenth of the cases with a kill of each role, and of everything; yield what came of each."""
    for case in rng.sample(cases, max(1, len(cases) // 10)):
        for whom in (*ROLES, _EVERYTHING):
            with place([case]) as folder:
                struck = strike(folder, case, whom, rng.uniform(0.0, 0.4))
                label = f", kill of {whom}" + ("" if struck else " (missed: the run was over, or has none)")
                print(f"{case.document} {case.key}{label}", flush=True)
                yield case, label, read(folder, case)


def strike(folder: Path, case: Case, whom: str, after_s: float) -> bool:
    """Run a case, kill one process of a role (or everything, then resume) so long after the first phase has begun."""
    file = Path(case.document).with_suffix(".yml").name
    command = Command(folder, "run", "--seed", str(case.seed), file)
    run = command.until("run.started")["run"]
    command.until("phase.started")
    time.sleep(after_s)  # the moment of the kill is what is drawn
    if whom == _EVERYTHING:
        running = command.process.poll() is None
        command.kill()
        done = ganglion(folder, "resume", run, "--quiet", span_s=SPAN_S)
        if done.returncode:
            print(done.stdout + done.stderr)
        return running
    victims = [seen.pid for seen in below(command.process.pid) if seen.role == whom]
    if victims:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(victims[0], signal.SIGKILL)
    status, said = command.end()
    if status:
        print(said)
    return bool(victims)


if __name__ == "__main__":
    sys.exit(main())
