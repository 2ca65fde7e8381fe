"""Evaluation objective: a phase is over when its evaluations say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ganglion.sdk import EpisodeView, PhaseView, Signal, TerminationCondition
from ganglion_conditions.parameter import known, table
from ganglion_conditions.rule import Plateau, Rule, Success

__all__ = ["EvaluationObjective"]

_RULES: dict[str, type[Rule]] = {"success": Success, "plateau": Plateau}


class EvaluationObjective(TerminationCondition):
    """Stop the phase when all agents have succeeded in its evaluations, or none gets better any more.

    Phase part: STOP_PHASE with the reason `success` if the success rules of all agents hold, else `plateau` if their
    plateau rules do. An evaluation's metrics are `objective`, `return`, `steps`, and what the brain itself returns.
    Each evaluation is counted once, however often the condition is asked.

    Params:
        agents: Agent -> a map of rules. A rule stands for all named agents or for none.
            success: `metric`; `threshold`; `direction`, greater_equal (default) or less_equal; `consecutive` (1),
                evaluations in a row that reach it, a metric that is missing or not finite never does;
                `min_evaluations` (1).
            plateau: `metric`; `direction`, maximize (default) or minimize; `patience`, evaluations that are not
                better than the best; `min_delta` (0) by which a better one is better at least; `window` (1), how many
                values are averaged; `min_evaluations` (1), from which on they are counted.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"evaluations"})
    issuer = "evaluation_objective"

    def __init__(self, agents: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        table("agents", agents, "agents to their rules")
        for agent, given in agents.items():
            for word in table(f"agents.{agent}", given, "success, plateau to their rules"):
                if word not in _RULES:
                    raise ValueError(f"agents.{agent}: expected success or plateau, found {word!r}")
        self._rules = {word: _rules(word, agents) for word in _RULES}
        self._taken = 0

    def phase(self, view: PhaseView) -> Signal:
        """Return STOP_PHASE if the evaluations up to now are enough."""
        for evaluation in view.evaluations:
            if evaluation.number >= self._taken:
                self._take(evaluation.metrics)
                self._taken = evaluation.number + 1
        for word, rules in self._rules.items():
            if rules and all(rule.met for rule in rules.values()):
                self.reason = f"{word}: {', '.join(rule.words(agent) for agent, rule in rules.items())}"
                return Signal.STOP_PHASE
        return Signal.CONTINUE

    def _take(self, metrics: Mapping[str, Mapping[str, float]]) -> None:
        for rules in self._rules.values():
            for agent, rule in rules.items():
                rule.take(metrics.get(agent, {}))

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return for each success rule the newest value of its metric, and the threshold."""
        newest = phase.evaluations[-1].metrics if phase.evaluations else {}
        rules = [(agent, rule) for agent, rule in self._rules["success"].items() if isinstance(rule, Success)]
        return [
            (f"{agent} {rule.metric}", newest[agent][rule.metric], rule.threshold)
            for agent, rule in rules
            if rule.metric in newest.get(agent, {})
        ]

    def warnings(self, document: Mapping[str, Any]) -> Sequence[str]:
        """Return one warning for each rule that more evaluations need than the phase can have.

        Raises:
            ValueError: No phase has an agent of that name.
        """
        known((agent for rules in self._rules.values() for agent in rules), document)
        config, episodes = document["phase_config"], document.get("episode_limit")
        every = config["evaluate_every"]
        if every is None:
            return ("condition can never fire: without `evaluate_every` there is no evaluation",)
        if episodes is None:
            return ()
        most = episodes * config["worker"] // every
        return [
            f"condition can never fire: {rule.where} needs {rule.earliest()} evaluations, this phase has at most {most}"
            for rules in self._rules.values()
            for rule in rules.values()
            if 0 < most < rule.earliest()
        ]

    def state(self) -> Mapping[str, Any]:
        """Return how many evaluations were taken, and what each rule has counted."""
        return {
            "evaluations": self._taken,
            **{word: {agent: rule.state() for agent, rule in rules.items()} for word, rules in self._rules.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self._taken = state["evaluations"]
        for word, rules in self._rules.items():
            for agent, rule in rules.items():
                rule.restore(state[word][agent])


def _rules(word: str, agents: Mapping[str, Mapping[str, Any]]) -> dict[str, Rule]:
    """Return the rules of one kind; all agents have one or none."""
    lacking = [agent for agent in agents if word not in agents[agent]]
    if lacking and len(lacking) < len(agents):
        having = next(agent for agent in agents if agent not in lacking)
        raise ValueError(
            f"agents.{lacking[0]}: expected a {word} rule as for {having}: a rule stands for all agents or for none"
        )
    if lacking:
        return {}
    return {agent: _RULES[word](f"agents.{agent}.{word}", given[word]) for agent, given in agents.items()}
