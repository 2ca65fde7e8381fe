"""Searches: points that follow from the results of earlier ones, asked of Optuna and told to it; resumable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import Node, UsageError
from ganglion_sweep.experiment import Experiment, raised
from ganglion_sweep.factor import Factor, Level
from ganglion_sweep.point import Point, seed_of
from ganglion_sweep.progress import returns_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from ganglion.sdk.store import StoreReader


class Search:
    """Ask Optuna for points, and tell it what came of them.

    A trial is a row of the experiment. Trials are asked for in batches of a size that the document names, and told in
    their order when the whole batch is over; the sampler is made anew for each trial, from the experiment's seed and
    the trial's number. So the points depend on the document alone: not on how many runs go on at the same time, nor on
    interruptions. The study is in the database of the results.
    """

    def __init__(self, experiment: Experiment, uri: str) -> None:
        try:
            import optuna
        except ImportError as error:
            raise UsageError(f"a search needs Optuna: pip install 'ganglion-sweep[optuna]' ({error})") from error
        assert experiment.search is not None, "the caller has looked"
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna: Any = optuna
        self._experiment = experiment
        self._form: Mapping[str, Any] = experiment.search
        self.trials = int(self._form["trials"])
        self._study = optuna.create_study(
            study_name=experiment.uid,
            storage=optuna.storages.RDBStorage(_url(uri)),
            direction=self._form.get("direction", "maximize"),
            pruner=self._pruner(),
            load_if_exists=True,
        )
        self._space = {factor.name: self._distribution(factor) for factor in experiment.factors}
        self._next: dict[int, int] = {}  # of a point: the episode that is weighed next
        self._cut: set[int] = set()

    # -- asking -------------------------------------------------------------------------------------------------------
    def known(self) -> list[Point]:
        """Return the points of all trials that were asked for, as they are by today's document."""
        return [point for trial in self._frozen() for point in self._points(trial)]

    def batch(self) -> list[Point]:
        """Return the points of the trials that are carried out next: open ones, else new ones; none at the end."""
        open_trials = [trial for trial in self._frozen() if not trial.state.is_finished()]
        if not open_trials:
            count = min(int(self._form.get("batch", 1)), self.trials - len(self._frozen()))
            for _ in range(count):
                self._ask()
            open_trials = [trial for trial in self._frozen() if not trial.state.is_finished()]
        return [point for trial in open_trials for point in self._points(trial)]

    def _ask(self) -> None:
        from ganglion.sdk.seed import integer_from_words, words

        number = len(self._frozen())
        drawn = words(self._experiment.seed, ["experiment", self._experiment.uid, "search", number])
        seed = integer_from_words(drawn) % 2**32
        startup, samplers = int(self._form.get("startup", 10)), self._optuna.samplers
        random = self._form.get("sampler", "tpe") == "random"
        self._study.sampler = (
            samplers.RandomSampler(seed=seed) if random else samplers.TPESampler(seed=seed, n_startup_trials=startup)
        )
        self._study.ask(self._space)

    def _frozen(self) -> list[FrozenTrial]:
        found: list[FrozenTrial] = self._study.get_trials(deepcopy=False)
        return found

    def _pruner(self) -> Any:
        pruners, startup = self._optuna.pruners, int(self._form.get("startup", 10))
        if self._form.get("pruner") == "median":
            return pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=int(self._form.get("warmup", 0)))
        return pruners.NopPruner()

    def _distribution(self, factor: Factor) -> BaseDistribution:
        kinds: Any = self._optuna.distributions
        if factor.levels is not None:
            return kinds.CategoricalDistribution(tuple(range(len(factor.levels))))
        if factor.normal is not None:
            return kinds.FloatDistribution(0.0, 1.0)  # a place under the curve
        if factor.whole:
            return kinds.IntDistribution(int(factor.low), int(factor.high), log=factor.log)
        return kinds.FloatDistribution(factor.low, factor.high, log=factor.log)

    def _points(self, trial: FrozenTrial) -> list[Point]:
        names = [factor.name for factor in self._experiment.factors]
        if sorted(trial.params) != sorted(names):
            was, now = ", ".join(sorted(trial.params)), ", ".join(sorted(names))
            raise UsageError(
                f"experiment {self._experiment.uid} cannot go on: trial {trial.number} has the factors {was}, and the "
                f"document {now}; give the experiment another uid"
            )
        levels = tuple(_level(factor, trial.params[factor.name]) for factor in self._experiment.factors)
        base, faults = self._experiment.assemble(levels)
        if faults:
            raise raised(faults)
        return [
            self._point(trial.number, repetition, levels, base) for repetition in range(self._experiment.repetitions)
        ]

    def _point(self, trial: int, repetition: int, levels: tuple[Level, ...], base: Node) -> Point:
        number = trial * self._experiment.repetitions + repetition
        seed = seed_of(self._experiment, repetition, trial)
        return Point(self._experiment, number, trial, repetition, seed, levels, base)

    # -- telling ------------------------------------------------------------------------------------------------------
    def tell(self, known: Mapping[int, Mapping[str, Any]], reader: StoreReader) -> None:
        """Tell what came of the open trials, in their order; those with points that are not over stay open.

        `known` are the rows of points by number. UsageError: a run has no such objective.
        """
        kinds = self._optuna.trial.TrialState
        for trial in [trial for trial in self._frozen() if not trial.state.is_finished()]:
            points = self._points(trial)
            states = [known.get(point.number, {}).get("state") for point in points]
            if not {*states} <= {"done", "failed"}:
                return  # what comes behind it is told behind it
            if "failed" in states:
                self._study.tell(trial.number, state=kinds.FAIL)
                continue
            runs = [(point, known[point.number]["run"]) for point in points]
            if any(self.hopeless(point, run, reader) for point, run in runs):
                self._study.tell(trial.number, state=kinds.PRUNED)
            else:
                self._study.tell(trial.number, fmean(self._value(returns_of(reader, run)) for _, run in runs))

    def _value(self, returns: Mapping[str, float]) -> float:
        agent = self._form["objective"].removeprefix("return.")
        if agent not in returns:
            there = ", ".join(f"return.{name}" for name in returns) or "none"
            raise UsageError(f"search.objective: there is no {self._form['objective']}; there are: {there}")
        return returns[agent]

    def best(self) -> str:
        """Return in words which trial was the best; empty without any."""
        done = [trial for trial in self._frozen() if trial.state.name == "COMPLETE"]
        if not done:
            return ""
        trial = self._study.best_trial
        factors = self._points(trial)[0].factors
        shown = " ".join(f"{name}={value}" for name, value in factors.items())
        return f"best: row {trial.number}, {self._form['objective']} {trial.value:.6g}  {shown}"

    # -- pruning ------------------------------------------------------------------------------------------------------
    def hopeless(self, point: Point, run: str, reader: StoreReader) -> bool:
        """Say whether a run is to be cut, by its episodes that are stored so far and those of trials told before.

        What counts is the mean over workers of the objective's return in each episode of the first phase that trains.
        Episodes are weighed one by one in their order: whoever looks later comes to the same end.
        """
        if self._form.get("pruner") is None or point.number in self._cut:
            return point.number in self._cut
        plan = point.plan()[0]
        phase = next((phase for phase in plan.phases if phase.mode == "train"), None)
        if phase is None:
            return False
        agent = self._form["objective"].removeprefix("return.").replace("'", "''")
        first = self._next.get(point.number, 0)
        where = f"phase = {phase.index} and mode = 'train' and agent = '{agent}' and episode >= {first}"
        found: dict[int, dict[int, float]] = {}
        for row in reader.rows("returns", [run], where, ["worker", "episode", "return"]):
            if row["return"] is not None and math.isfinite(row["return"]):
                found.setdefault(row["episode"], {})[row["worker"]] = row["return"]
        trial = self._optuna.trial.Trial(self._study, self._frozen()[point.row]._trial_id)  # noqa: SLF001
        known = self._frozen()[point.row].intermediate_values
        while len(found.get(first, ())) == phase.workers:
            if first not in known:
                trial.report(fmean(found[first].values()), first)
            first += 1
            self._next[point.number] = first
            if trial.should_prune():
                self._cut.add(point.number)
                return True
        return False


def _level(factor: Factor, value: Any) -> Level:
    if factor.levels is not None or factor.normal is not None:
        return factor.level(value)
    return factor.numbered(value)


def _url(uri: str) -> str:
    """Return where Optuna keeps a study: in the database of the results."""
    scheme, _, rest = uri.partition("://")
    if scheme not in ("sqlite", "postgresql"):
        raise UsageError(f"a search keeps its study in a store of SQLite or PostgreSQL, found one of {scheme}")
    return uri if scheme == "sqlite" else f"postgresql+psycopg://{rest}"
