"""Names: every class of palaestrAI that a document can name, by each module that exported it, and what it is here.

Plain data: the command line reads it while it checks a document, and imports nothing else for it.
"""

__all__ = ["ALIASES", "HOSTED"]

AGENT = "palaestrai.agent"
ENVIRONMENT = "palaestrai.environment"
EXPERIMENT = "palaestrai.experiment"
SIMULATION = "palaestrai.simulation"
FILTERS = "palaestrai.agent.filters"

# (kind, our name, modules that exported the class, the names it had there)
CLASSES = (
    ("environment", "dummy", (ENVIRONMENT, f"{ENVIRONMENT}.dummy_environment"), ("DummyEnvironment",)),
    ("muscle", "dummy", (AGENT, f"{AGENT}.dummy_muscle"), ("DummyMuscle",)),
    ("brain", "dummy", (AGENT, f"{AGENT}.dummy_brain"), ("DummyBrain",)),
    ("brain", "none", (AGENT, f"{AGENT}.none_brain"), ("NoneBrain",)),
    ("objective", "dummy", (AGENT, f"{AGENT}.dummy_objective"), ("DummyObjective",)),
    ("objective", "aggregate_rewards", (AGENT, f"{AGENT}.aggregate_rewards_objective"), ("AggregateRewardsObjective",)),
    (
        "controller",
        "vanilla",
        (SIMULATION, f"{SIMULATION}.vanilla_sim_controller", f"{EXPERIMENT}.vanilla_sim_controller"),
        ("Vanilla", "VanillaSimController", "VanillaSimulationController"),
    ),
    (
        "controller",
        "taking_turns",
        (SIMULATION, f"{SIMULATION}.taking_turns_simulation_controller"),
        ("TakingTurns", "TakingTurnsSimController", "TakingTurnsSimulationController"),
    ),
    (
        "condition",
        "environment",
        (
            EXPERIMENT,
            SIMULATION,
            f"{EXPERIMENT}.environment_termination_condition",
            f"{EXPERIMENT}.vanilla_simcontroller_termination_condition",
            f"{SIMULATION}.vanilla_simcontroller_termination_condition",
        ),
        ("EnvironmentTerminationCondition", "VanillaSimControllerTerminationCondition"),
    ),
    (
        "condition",
        "max_episodes",
        (
            EXPERIMENT,
            f"{EXPERIMENT}.max_episodes_termination_condition",
            f"{EXPERIMENT}.vanilla_rungovernor_termination_condition",
        ),
        ("MaxEpisodesTerminationCondition",),
    ),
    (
        "condition",
        "vanilla",
        (EXPERIMENT, f"{EXPERIMENT}.vanilla_rungovernor_termination_condition"),
        ("VanillaRunGovernorTerminationCondition",),
    ),
    (
        "condition",
        "agent_objective",
        (EXPERIMENT, f"{EXPERIMENT}.agent_objective_termination_condition"),
        ("AgentObjectiveTerminationCondition",),
    ),
    (
        "condition",
        "evaluation_objective",
        (EXPERIMENT, f"{EXPERIMENT}.agent_evaluation_objective_termination_condition"),
        ("AgentEvaluationObjectiveTerminationCondition",),
    ),
    ("transformer", "counting", ("tests.fixtures",), ("CountingWorldStateTransformer",)),
    *(
        ("filter", ours, (AGENT, FILTERS, f"{FILTERS}.{module}_filter"), (theirs, f"{theirs}Filter"))
        for ours, module, theirs in (
            ("norm", "normalization", "Norm"),
            ("merge_steps", "merge_steps", "MergeSteps"),
            ("delta_obs", "delta_obs", "DeltaObs"),
            ("delta_step", "delta_step", "DeltaStep"),
            ("delta_action", "delta_action", "DeltaAction"),
            ("absolute_deviation", "absolute_deviation", "AbsoluteDeviation"),
            ("quadratic_penalty", "quadratic_penalty", "QuadraticPenalty"),
            ("action_time_shift", "action_time_shift", "ActionTimeShift"),
        )
    ),
)

NAMES = {
    kind: {
        f"{module}:{name}": ours
        for other, ours, modules, names in CLASSES
        if other == kind
        for module in modules
        for name in names
    }
    for kind in ("environment", "muscle", "brain", "objective", "transformer", "filter", "controller", "condition")
}

_STATE = "its state stays inside: after a loss it hears its phase again"
_DUMP = "it chooses a part of a dump for agents outside of a run; all of a model is loaded"
_REPLAY = "it belongs to `replay`; a model is chosen by agent, experiment_run, instance and phase"

# Packages of classes that are played as they are where a document names one -> the distribution to install.
HOSTED = {
    "palaestrai": "palaestrai",
    "palaestrai_environments": "palaestrai-environments",
    "palaestrai_mosaik": "palaestrai-mosaik",
    "midas_palaestrai": "midas-palaestrai",
    "harl": "palaestrai-agents",
}

ALIASES = {
    "names": {**NAMES, "switch": {"palaestrai": "ganglion-palaestrai"}},
    "hosted": HOSTED,
    "host": "ganglion_palaestrai.hosted:host",
    "imports": {
        "": (
            "packaging.requirements",
            *(f"palaestrai.agent.{module}" for module in ("brain", "muscle", "objective")),
            "palaestrai.environment.environment",
            "ganglion_palaestrai.hosted.agent",
            "ganglion_palaestrai.hosted.environment",
        ),
        "harl": ("torch",),
    },
    "limits": {
        "muscle": _STATE,
        "brain": f"{_STATE}; palaestrAI's store shows it the episodes of an evaluation alone",
        "condition": "evaluation_flow_control is not asked, and a governor is seen by its episode counts alone",
        "controller": "it steers by act and step alone",
        "filter": _STATE,
    },
    # One reward may stand there without brackets.
    "params": {name: {"rewards": "[]"} for name, ours in NAMES["objective"].items() if ours == "aggregate_rewards"},
    "prefixes": ("palaestrai",),
    "versions": ("3.4", "3.5"),
    # Brains of 3.4 were told where to keep what they learn.
    "moves": (("brain", "store_path", "models"),),
    "ignored": {
        "agent": {"uid": "an agent is known by its `name`", "load_key": _DUMP, "load-key": _DUMP},
        "load": {
            **dict.fromkeys(("key", "load_key", "load-key"), _DUMP),
            **dict.fromkeys(("mode", "strict", "repeat", "sensors", "actuators"), _REPLAY),
        },
    },
}
