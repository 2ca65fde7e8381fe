# ruff: noqa: E501 - rows of tables are easier to compare on one line
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ganglion_palaestrai import names
from ganglion_palaestrai.names import ALIASES, NAMES

# Every name under which a document of 3.4 or 3.5 can mean a class that there is here, written out.
EXPECTED = """
environment  dummy                 palaestrai.environment:DummyEnvironment palaestrai.environment.dummy_environment:DummyEnvironment
muscle       dummy                 palaestrai.agent:DummyMuscle palaestrai.agent.dummy_muscle:DummyMuscle
brain        dummy                 palaestrai.agent:DummyBrain palaestrai.agent.dummy_brain:DummyBrain
brain        none                  palaestrai.agent:NoneBrain palaestrai.agent.none_brain:NoneBrain
objective    dummy                 palaestrai.agent:DummyObjective palaestrai.agent.dummy_objective:DummyObjective
objective    aggregate_rewards     palaestrai.agent:AggregateRewardsObjective palaestrai.agent.aggregate_rewards_objective:AggregateRewardsObjective
controller   vanilla               palaestrai.simulation:Vanilla palaestrai.simulation:VanillaSimController palaestrai.simulation:VanillaSimulationController palaestrai.simulation.vanilla_sim_controller:VanillaSimController
controller   taking_turns          palaestrai.simulation:TakingTurns palaestrai.simulation:TakingTurnsSimulationController palaestrai.simulation:TakingTurnsSimController palaestrai.simulation.taking_turns_simulation_controller:TakingTurnsSimulationController palaestrai.simulation.taking_turns_simulation_controller:TakingTurns
condition    environment           palaestrai.experiment:EnvironmentTerminationCondition palaestrai.simulation:EnvironmentTerminationCondition palaestrai.experiment:VanillaSimControllerTerminationCondition palaestrai.simulation:VanillaSimControllerTerminationCondition palaestrai.simulation.vanilla_simcontroller_termination_condition:VanillaSimControllerTerminationCondition palaestrai.experiment.environment_termination_condition:EnvironmentTerminationCondition
condition    max_episodes          palaestrai.experiment:MaxEpisodesTerminationCondition palaestrai.experiment.max_episodes_termination_condition:MaxEpisodesTerminationCondition
condition    vanilla               palaestrai.experiment:VanillaRunGovernorTerminationCondition palaestrai.experiment.vanilla_rungovernor_termination_condition:VanillaRunGovernorTerminationCondition
condition    agent_objective       palaestrai.experiment:AgentObjectiveTerminationCondition palaestrai.experiment.agent_objective_termination_condition:AgentObjectiveTerminationCondition
condition    evaluation_objective  palaestrai.experiment:AgentEvaluationObjectiveTerminationCondition palaestrai.experiment.agent_evaluation_objective_termination_condition:AgentEvaluationObjectiveTerminationCondition
transformer  counting              tests.fixtures:CountingWorldStateTransformer
filter       norm                  palaestrai.agent.filters:Norm palaestrai.agent.filters:NormFilter palaestrai.agent:NormFilter palaestrai.agent.filters.normalization_filter:NormFilter
filter       merge_steps           palaestrai.agent.filters:MergeSteps palaestrai.agent:MergeStepsFilter palaestrai.agent.filters.merge_steps_filter:MergeStepsFilter
filter       delta_obs             palaestrai.agent.filters:DeltaObs palaestrai.agent:DeltaObsFilter palaestrai.agent.filters.delta_obs_filter:DeltaObsFilter
filter       delta_step            palaestrai.agent.filters:DeltaStep palaestrai.agent:DeltaStepFilter palaestrai.agent.filters.delta_step_filter:DeltaStepFilter
filter       delta_action          palaestrai.agent:DeltaActionFilter palaestrai.agent.filters.delta_action_filter:DeltaActionFilter
filter       absolute_deviation    palaestrai.agent:AbsoluteDeviationFilter palaestrai.agent.filters.absolute_deviation_filter:AbsoluteDeviationFilter
filter       quadratic_penalty     palaestrai.agent:QuadraticPenaltyFilter palaestrai.agent.filters.quadratic_penalty_filter:QuadraticPenaltyFilter
filter       action_time_shift     palaestrai.agent:ActionTimeShiftFilter palaestrai.agent.filters.action_time_shift_filter:ActionTimeShiftFilter
"""
ROWS = [
    (kind, ours, foreign)
    for kind, ours, *foreigns in (line.split() for line in EXPECTED.strip().splitlines())
    for foreign in foreigns
]


@pytest.mark.parametrize(("kind", "ours", "foreign"), ROWS, ids=[f"{kind}-{foreign}" for kind, _, foreign in ROWS])
def test_every_name_is_known(kind: str, ours: str, foreign: str) -> None:
    """Each class is known by each module that exported it, as the plugin of ours that it means, and as one kind only."""
    assert ours == NAMES[kind].get(foreign)
    assert [kind] == [other for other, table in NAMES.items() if foreign in table]


def test_names_have_one_form() -> None:
    """A name in the table is a module, a colon and a class, so that a dotted one can be looked up too."""
    wrong = [name for table in NAMES.values() for name in table if not re.fullmatch(r"[a-z_.]+:[A-Z][A-Za-z]+", name)]

    assert [] == wrong


def test_the_table_is_plain_data_without_imports() -> None:
    """The module imports nothing, and its table holds texts, maps and sequences only."""
    tree = ast.parse(Path(names.__file__).read_text())

    assert [] == [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    pending: list[object] = [ALIASES]
    while pending:
        value = pending.pop()
        assert isinstance(value, str | dict | tuple)
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, tuple):
            pending += value


def test_arguments_belong_to_names_that_are_known() -> None:
    """What is said about arguments is said of names in the table."""
    known = {name for table in NAMES.values() for name in table}

    assert set() == set(ALIASES["params"]) - known
    assert {"rewards": "[]"} == ALIASES["params"]["palaestrai.agent:AggregateRewardsObjective"]
