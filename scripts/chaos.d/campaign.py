"""Rounds of disturbed runs, or one long run (`soak.py`): prints what came of them, ends with 1 if a round failed."""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from system.fault import ASKED, SCENES, draw
from system.processes import ROLES
from system.round import Reference, Round, Verdict, reference
from system.world import FORMS


def main() -> int:
    """Play the rounds that were asked for."""
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Disturb real runs: kill, stop, hang, cut off any process, or all; then compare the results.",
    )
    parser.add_argument("--rounds", type=int, default=50, help="how many (50)")
    parser.add_argument("--seed", type=int, default=1, help="what the rounds are drawn from (1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first round, to play it again (0)")
    parser.add_argument("--workers", type=_numbers, default=[1, 3], help="numbers of workers: 1,3")
    parser.add_argument("--roles", type=_words(ROLES), default=list(ROLES), help=f"who: {','.join(ROLES)}")
    parser.add_argument(
        "--scenes", type=_words((*SCENES, *ASKED)), default=[], help=f"what: {','.join((*SCENES, *ASKED))}"
    )
    parser.add_argument(
        "--forms", type=_words(tuple(FORMS)), default=list(FORMS), help=f"environments: {','.join(FORMS)}"
    )
    parser.add_argument("--keep", type=Path, help="folder where the folders of failed rounds are kept")
    parser.add_argument("--soak", type=float, metavar="HOURS", help="one long run, a kill each minute")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two kills of --soak (60)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended, and its folder removed
    if arguments.soak is not None:
        import soak

        return soak.main(3600.0 * arguments.soak, arguments.every, arguments.seed, max(arguments.workers))
    return rounds(arguments)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _words(known: tuple[str, ...]):  # type: ignore[no-untyped-def]
    def parse(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}, found {word!r}")
        return words

    return parse


def rounds(arguments: argparse.Namespace) -> int:
    """Play rounds; return 1 if one of them has failed, or if none has hit anybody."""
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="gc-", dir="/tmp") as text:
        folder = Path(text)
        references: dict[tuple[int, str], Reference] = {}
        for number in range(arguments.first, arguments.first + arguments.rounds):
            seed = f"{arguments.seed}/{number}"
            scene = draw(seed, arguments.workers, arguments.roles, arguments.scenes, arguments.forms)
            which = scene.workers, scene.form
            if which not in references:
                known = references[which] = reference(scene.workers, folder, form=scene.form)
                print(f"undisturbed, {which[0]} workers, {which[1]}: {known.took_s:.1f} s, {known.digest[:12]}")
            verdict = Round(scene, references[which], folder / f"{number}").play()
            verdicts.append(verdict)
            _tell(number, verdict)
            _put_away(verdict, arguments.keep, number)
    return _sum_up(verdicts, arguments)


def _tell(number: int, verdict: Verdict) -> None:
    word = "FAILED" if verdict.defects else "ok" if verdict.hits else "missed"
    times = f"{verdict.took_s:5.1f} s (+{verdict.over_s:.1f})"
    print(f"{number:4d} {word:6} {times} {_spans(verdict.restarts_s):14}  {verdict.scene}", flush=True)
    for kind, lines in (("missed", verdict.missed), ("note", verdict.notes), ("DEFECT", verdict.defects)):
        for line in lines:
            print(f"       {kind}: {line}", flush=True)


def _spans(spans_s: list[float]) -> str:
    return f"{len(spans_s)} back {max(spans_s):.2f} s" if spans_s else "-"


def _put_away(verdict: Verdict, keep: Path | None, number: int) -> None:
    if verdict.defects and keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(keep / f"{number}", ignore_errors=True)
        shutil.copytree(verdict.folder, keep / f"{number}", symlinks=True, ignore=_sockets)
    shutil.rmtree(verdict.folder, ignore_errors=True)


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_socket()]


def _sum_up(verdicts: list[Verdict], arguments: argparse.Namespace) -> int:
    groups: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        scene = verdict.scene
        one = scene.strikes[0]
        groups[f"{one.deed} {one.role}" if scene.kind in ("one", "store") else scene.kind].append(verdict)
    print(f"\n{'scene':24} {'rounds':>6} {'hit':>4} {'failed':>6} {'median':>8} {'max':>8}")
    for name, group in sorted(groups.items()):
        over = [v.over_s for v in group if v.hits]
        failed = sum(bool(v.defects) for v in group)
        spans = f"{statistics.median(over):+7.1f}s {max(over):+7.1f}s" if over else ""
        print(f"{name:24} {len(group):6d} {sum(bool(v.hits) for v in group):4d} {failed:6d} {spans}")
    failed = [number for number, v in enumerate(verdicts, arguments.first) if v.defects]
    hit = sum(bool(v.hits) for v in verdicts)
    over = [v.over_s for v in verdicts if v.hits and not v.defects]
    if over:
        print(f"time over the undisturbed run: median {statistics.median(over):.2f} s, max {max(over):.2f} s")
    back = [span for v in verdicts for span in v.restarts_s]
    if back:
        print(f"{len(back)} back: median {statistics.median(back):.2f} s after the loss, max {max(back):.2f} s")
    print(f"seed {arguments.seed}: {len(verdicts)} rounds, {hit} hit somebody, {len(failed)} failed {failed}")
    return 1 if failed or not hit else 0


if __name__ == "__main__":
    sys.exit(main())
