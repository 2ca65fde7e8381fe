"""Random run documents that are valid and end, drawn by Hypothesis, with what is known of each phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import yaml
from hypothesis import strategies as st

from simulation.world import Agent, Environment, PhaseWorld

Draw = Any
UIDS = ("a", "b", "net.1", "Küche 2", "c-3")
NAMES = ("ada", "Bob", "c.d", "eve_2")
STEPS_MAX = 6
MODES = ("train", "train", "test", "evaluate")
SYNCS = ("lockstep", "lockstep", "pipelined", "async")


@dataclass(frozen=True)
class Document:
    """Hold a document's text and what each of its phases is."""

    text: str
    phases: tuple[PhaseWorld, ...]


@st.composite
def documents(draw: Draw, phases_max: int = 3, workers_max: int = 3, modes: tuple[str, ...] = MODES) -> Document:
    """Draw a document: phases with cascade, workers, environments, agents that span them, conditions."""
    whole = draw(_phase_conditions())
    schedule: list[dict[str, Any]] = []
    phases: list[PhaseWorld] = []
    for index in range(draw(st.integers(1, phases_max))):
        given: dict[str, Any] = {}
        if not phases:
            phase = _first(draw, whole, given, workers_max, modes)
        elif draw(st.integers(0, 7)) == 0:
            phase = _game(draw, phases[-1], whole, given)
        else:
            phase = _following(draw, phases, whole, given, workers_max, modes)
        phase = replace(phase, name=f"phase {index}")
        phases.append(phase)
        schedule.append({phase.name: given})
    document = {
        "uid": draw(st.sampled_from(["random", "Zufall 1"])),
        "seed": draw(st.integers(0, 2**70)),
        "version": "0.1",
        "schedule": schedule,
        "run_config": {"conditions": _plugins(whole)},
    }
    return Document(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), tuple(phases))


# -- phases -----------------------------------------------------------------------------------------------------------
def _first(draw: Draw, whole: Any, given: dict[str, Any], workers_max: int, modes: tuple[str, ...]) -> PhaseWorld:
    """Draw the first phase, which says everything."""
    if draw(st.integers(0, 7)) == 0:
        return _game(draw, None, whole, given)
    uids = draw(st.lists(st.sampled_from(UIDS), min_size=1, max_size=3, unique=True))
    environments = tuple(draw(_environment(uid)) for uid in uids)
    mode = draw(st.sampled_from(modes))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    agents = tuple(draw(_agent(name, environments, mode)) for name in names)
    phase = PhaseWorld("", environments, agents, "vanilla", (), tuple(whole), mode)
    given["environments"] = [_entry(e) for e in environments]
    given["agents"] = [_agent_map(agent) for agent in agents]
    phase = _simulation(draw, phase, given)
    phase = _config(draw, phase, given, whole, workers_max, (mode,))
    return _bounded(draw, phase, given)


def _following(
    draw: Draw, earlier: list[PhaseWorld], whole: Any, given: dict[str, Any], workers_max: int, modes: tuple[str, ...]
) -> PhaseWorld:
    """Draw a phase that changes what it inherits."""
    phase = earlier[-1]
    phase = _change_environments(draw, phase, given)
    config: dict[str, Any] = {}
    phase = _config(draw, phase, config, whole, workers_max, modes)
    phase = _change_agents(draw, phase, earlier, given)
    if draw(st.booleans()):
        phase = _simulation(draw, phase, given)
    else:
        phase = _mended_conditions(phase, given)
    given.update(config)
    return _bounded(draw, phase, given)


def _game(draw: Draw, before: PhaseWorld | None, whole: Any, given: dict[str, Any]) -> PhaseWorld:
    """Draw a phase of tic-tac-toe; what was there before is taken out."""
    board = Environment("board", "tic_tac_toe")
    players = tuple(
        Agent(
            name,
            {"name": draw(st.sampled_from(["tic_tac_toe", "random"]))},
            draw(st.sampled_from([None, {"name": "log"}])),
            draw(st.sampled_from([None, "dummy"])),
            ("board.board", "board.legal"),
            (f"board.{name}",),
            (f"board.{name}",),
        )
        for name in ("x", "o")
    )
    left = [] if before is None else [e for e in before.environments if e.uid != "board"]
    gone = [] if before is None else [a for a in before.agents if a.name not in ("x", "o")]
    removed = [{"environment": {"uid": e.uid}, "remove": True} for e in left]
    given["environments"] = [_entry(board), *removed]
    given["agents"] = [
        *[{**_agent_map(player), "load": False} for player in players],
        *[{"name": a.name, "remove": True} for a in gone],
    ]
    conditions = draw(st.lists(_episode_condition(["board"]), max_size=2))
    given["simulation"] = {"name": "taking_turns", "conditions": _plugins(conditions)}
    worker, episodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    sync = draw(st.sampled_from(SYNCS))
    config = {"mode": "train", "worker": worker, "episodes": episodes, "conditions": None, "sync": sync}
    given["phase_config"] = {**config, "evaluate_every": None}
    each = 1 if before is None else before.each
    return PhaseWorld(
        "",
        (board,),
        players,
        "taking_turns",
        tuple(conditions),
        tuple(whole),
        "train",
        worker,
        episodes,
        sync,
        None,
        each,
    )


def _bounded(draw: Draw, phase: PhaseWorld, given: dict[str, Any]) -> PhaseWorld:
    """Bound the episodes of a phase whose environments run for long."""
    if max(phase.ending(worker)[0] for worker in range(phase.worker)) <= STEPS_MAX:
        return phase
    kept = phase.episode_conditions
    bound = ("max_steps", {"steps": draw(st.integers(1, STEPS_MAX))})
    phase = replace(phase, episode_conditions=(*kept, bound))
    given.setdefault("simulation", {})["conditions"] = _plugins(phase.episode_conditions)
    return phase


# -- conditions, controller, numbers ----------------------------------------------------------------------------------
@st.composite
def _phase_conditions(draw: Draw) -> list[tuple[str, dict[str, Any]]]:
    """Draw phase-level conditions of which one bounds the number of episodes."""
    one = draw(st.sampled_from(["max_episodes", "max_episodes", "vanilla"]))
    found: list[tuple[str, dict[str, Any]]] = [(one, {})]
    if draw(st.integers(0, 3)) == 0:
        found.insert(draw(st.integers(0, 1)), ("environment", {}))
    if draw(st.integers(0, 3)) == 0:
        found.append(("max_steps", {"steps": draw(st.integers(1, STEPS_MAX))}))
    return found


@st.composite
def _episode_condition(draw: Draw, uids: list[str]) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(["environment", "environment", "environment", "max_steps", "vanilla"]))
    if name == "max_steps":
        return name, {"steps": draw(st.integers(1, STEPS_MAX))}
    if name == "vanilla":
        return name, {}
    some = st.lists(st.sampled_from(uids), min_size=1, unique=True)
    when = draw(st.sampled_from([None, "any", "all", "all", "all"]) | some)
    return name, {} if when is None else {"when": when}


def _simulation(draw: Draw, phase: PhaseWorld, given: dict[str, Any]) -> PhaseWorld:
    """Draw the controller and the conditions of an episode; what names a controller replaces all."""
    uids = [e.uid for e in phase.environments]
    conditions = tuple(draw(st.lists(_episode_condition(uids), max_size=draw(st.sampled_from([1, 1, 3])))))
    controller = draw(st.sampled_from([None, "vanilla", "taking_turns"]))
    found: dict[str, Any] = {"conditions": _plugins(conditions)}
    if controller is not None:
        found["name"] = controller
        if not conditions and draw(st.booleans()):
            del found["conditions"]
    given["simulation"] = found
    return replace(phase, controller=controller or phase.controller, episode_conditions=conditions)


def _mended_conditions(phase: PhaseWorld, given: dict[str, Any]) -> PhaseWorld:
    """Drop conditions that speak of environments which are gone."""
    uids = {e.uid for e in phase.environments}
    kept = []
    for name, params in phase.episode_conditions:
        when = params.get("when")
        if not isinstance(when, list) or set(when) <= uids:
            kept.append((name, params))
    if len(kept) < len(phase.episode_conditions):
        given["simulation"] = {"conditions": _plugins(kept)}
    return replace(phase, episode_conditions=tuple(kept))


def _config(
    draw: Draw, phase: PhaseWorld, given: dict[str, Any], whole: Any, workers_max: int, modes: tuple[str, ...]
) -> PhaseWorld:
    """Draw mode and numbers; what is not given stays."""
    first = not phase.name
    config: dict[str, Any] = {}
    if first or draw(st.booleans()):
        mode = draw(st.sampled_from(modes))
        config["mode"] = mode
        phase = replace(phase, mode=mode)
    if draw(st.booleans()):
        config["worker"] = draw(st.integers(1, workers_max))
        phase = replace(phase, worker=config["worker"])
    if first or draw(st.booleans()):
        config["episodes"] = draw(st.integers(1, 3))
        phase = replace(phase, episodes=config["episodes"])
    if draw(st.integers(0, 2)) == 0:
        config["sync"] = draw(st.sampled_from(SYNCS))
        phase = replace(phase, sync=config["sync"])
    if draw(st.integers(0, 2)) == 0:
        config["evaluate_every"] = draw(st.none() | st.integers(1, 4))
        phase = replace(phase, every=config["evaluate_every"])
    if draw(st.integers(0, 3)) == 0:
        config["evaluate_episodes"] = draw(st.integers(1, 2))
        phase = replace(phase, each=config["evaluate_episodes"])
    own = draw(st.integers(0, 4))
    if own == 0:
        conditions = draw(_phase_conditions())
        config["conditions"] = _plugins(conditions)
        phase = replace(phase, phase_conditions=tuple(conditions))
    elif own == 1:
        config["conditions"] = None
        phase = replace(phase, phase_conditions=tuple(whole))
    if config:
        given["phase_config"] = config
    return phase


# -- environments -----------------------------------------------------------------------------------------------------
@st.composite
def _params(draw: Draw, kind: str) -> dict[str, Any]:
    if kind == "dummy":
        found: dict[str, Any] = {"max_iter": draw(st.integers(1, STEPS_MAX))}
        return {**found, "discrete": draw(st.booleans())} if draw(st.booleans()) else found
    if kind == "counting":
        found = {"length": draw(st.integers(1, STEPS_MAX))}
        return {**found, "truncate_at": draw(st.integers(1, STEPS_MAX))} if draw(st.booleans()) else found
    return {"longest": draw(st.integers(1, STEPS_MAX))} if kind == "cartpole" else {}


_TIMES = {"dummy": "max_iter", "counting": "length", "cartpole": "longest"}
"""The parameter that may differ between workers: it changes no declaration but the dummy's."""


@st.composite
def _environment(draw: Draw, uid: str) -> Environment:
    kind = draw(st.sampled_from(["dummy", "counting", "cartpole", "pendulum"]))
    params = draw(_params(kind))
    rows: list[dict[str, Any]] = []
    if kind in ("counting", "cartpole") and draw(st.booleans()):
        lengths = draw(st.lists(st.integers(1, STEPS_MAX), min_size=1, max_size=3))
        rows = [{_TIMES[kind]: length} for length in lengths]
    return Environment(uid, kind, params, tuple(rows))


def _entry(environment: Environment) -> dict[str, Any]:
    found: dict[str, Any] = {"uid": environment.uid, "name": environment.kind}
    if environment.params:
        found["params"] = dict(environment.params)
    if environment.per_worker:
        found["per_worker"] = [dict(row) for row in environment.per_worker]
    return {"environment": found}


def _change_environments(draw: Draw, phase: PhaseWorld, given: dict[str, Any]) -> PhaseWorld:
    """Draw what happens to the environments: parameters, other classes, removal, new ones."""
    entries: list[dict[str, Any]] = []
    kept: list[Environment] = []
    for environment in phase.environments:
        fate = draw(st.sampled_from(["stay", "stay", "stay", "part", "whole", "remove"]))
        if environment.kind == "tic_tac_toe":
            fate = "remove"
        if fate == "part" and environment.kind in _TIMES and not environment.per_worker:
            key = _TIMES[environment.kind]
            params = {key: draw(st.integers(1, STEPS_MAX))}
            entries.append({"environment": {"uid": environment.uid, "params": params}})
            environment = replace(environment, params={**environment.params, **params})
        elif fate == "whole":
            environment = draw(_environment(environment.uid))
            entries.append(_entry(environment))
        elif fate == "remove":
            entries.append({"environment": {"uid": environment.uid}, "remove": True})
            continue
        kept.append(environment)
    unused = [uid for uid in UIDS if uid not in [e.uid for e in phase.environments]]
    if not kept or (len(kept) < 3 and draw(st.booleans())):
        fresh = draw(_environment(draw(st.sampled_from(unused))))
        entries.append(_entry(fresh))
        kept.append(fresh)
    if entries:
        given["environments"] = draw(st.permutations(entries))
    return replace(phase, environments=tuple(kept))


# -- agents -----------------------------------------------------------------------------------------------------------
@st.composite
def _agent(draw: Draw, name: str, environments: tuple[Environment, ...], mode: str) -> Agent:
    """Draw an agent with columns of one environment or of several."""
    poles = [e for e in environments if e.kind == "cartpole"]
    objective = draw(st.sampled_from([None, "dummy"]))
    if poles and mode == "train" and draw(st.booleans()):
        pole = poles[0]
        sarsa = {"name": "sarsa", "params": {"order": 1}}
        return Agent(name, {"name": "sarsa"}, sarsa, "dummy", tuple(pole.ids(0)), tuple(pole.ids(1)), (pole.uid,))
    sensors, actuators = draw(_columns(environments, 0)), draw(_columns(environments, 1))
    if not sensors and not actuators:
        sensors = (environments[0].ids(0)[0],)
    muscle: dict[str, Any] = {"name": draw(st.sampled_from(["dummy", "random"]))}
    if muscle["name"] == "dummy" and draw(st.booleans()):
        muscle["params"] = {"count_upwards": True}
    answers = {uid for e in environments if e.kind == "counting" for uid in e.ids(1)}
    if actuators and set(actuators) <= answers and draw(st.booleans()):
        muscle = {"name": "echo"}
    brains = [None, {"name": "none"}, {"name": "log", "params": {"update_every": 2}}]
    if muscle["name"] == "dummy":
        brains += [{"name": "dummy"}] * 3
    brain = draw(st.sampled_from(brains))
    return Agent(name, muscle, brain, objective, sensors, actuators, draw(_rewards(environments)))


@st.composite
def _columns(draw: Draw, environments: tuple[Environment, ...], what: int) -> tuple[str, ...]:
    found: list[str] = []
    for environment in environments:
        style = draw(st.sampled_from(["none", "some", "some", "all"]))
        if style == "all":
            found.append(f"{environment.uid}.*")
        elif style == "some":
            ids = environment.ids(what)
            found += draw(st.lists(st.sampled_from(ids), min_size=1, max_size=4, unique=True))
    return tuple(found)


@st.composite
def _rewards(draw: Draw, environments: tuple[Environment, ...]) -> tuple[str, ...] | None:
    choice = draw(st.integers(0, 4))
    if choice > 1:
        return None
    chosen = draw(st.lists(st.sampled_from(environments), min_size=1, unique_by=lambda e: e.uid))
    return tuple(e.uid if choice == 0 else e.ids(2)[0] for e in chosen)


def _agent_map(agent: Agent) -> dict[str, Any]:
    found: dict[str, Any] = {"name": agent.name, "muscle": agent.muscle}
    if agent.brain is not None:
        found["brain"] = agent.brain
    if agent.objective is not None:
        found["objective"] = {"name": agent.objective}
    found["sensors"], found["actuators"] = list(agent.sensors), list(agent.actuators)
    if agent.rewards is not None:
        found["rewards"] = list(agent.rewards)
    return found


def _change_agents(draw: Draw, phase: PhaseWorld, earlier: list[PhaseWorld], given: dict[str, Any]) -> PhaseWorld:
    """Draw what happens to the agents; those whose environments have changed get other columns or go."""
    maps: list[dict[str, Any]] = []
    kept: list[Agent] = []
    former = {e.uid: e for e in earlier[-1].environments}
    changed = {e.uid for e in phase.environments if former.get(e.uid, e).kind != e.kind}
    changed |= former.keys() - {e.uid for e in phase.environments}
    for agent in phase.agents:
        before = [former[uid] for uid in sorted(changed) if uid in former]
        touched = any(_touches(agent, environment) for environment in before)
        fate = draw(st.sampled_from(["stay", "stay", "part", "remove"]))
        if fate == "remove" or agent.name in ("x", "o") or (touched and agent.muscle["name"] in ("sarsa", "echo")):
            maps.append({"name": agent.name, "remove": True})
            continue
        changes: dict[str, Any] = {}
        if touched or (fate == "part" and agent.muscle["name"] not in ("sarsa", "echo")):
            sensors, actuators = draw(_columns(phase.environments, 0)), draw(_columns(phase.environments, 1))
            if not sensors and not actuators:
                sensors = (phase.environments[0].ids(0)[0],)
            agent = replace(agent, sensors=sensors, actuators=actuators)
            changes = {"sensors": list(sensors), "actuators": list(actuators)}
            if agent.rewards is not None:
                rewards = (phase.environments[0].uid,)
                agent = replace(agent, rewards=rewards)
                changes["rewards"] = list(rewards)
        if agent.muscle["name"] != "sarsa" or phase.mode == "train":
            load = draw(st.sampled_from([None, False, {}]))
            changes |= {} if load is None else {"load": load}
        if changes:
            maps.append({"name": agent.name, **changes})
        kept.append(agent)
    unused = [name for name in NAMES if name not in [a.name for a in phase.agents]]
    if not kept or (len(kept) < 3 and draw(st.booleans())):
        fresh = draw(_agent(draw(st.sampled_from(unused)), phase.environments, phase.mode))
        again = any(fresh.name == agent.name for phase_ in earlier for agent in phase_.agents)
        # Who comes back as somebody else must not go on with what he was before.
        maps.append({**_agent_map(fresh), **({"load": False} if again else {})})
        kept.append(fresh)
    if maps:
        given["agents"] = maps
    return replace(phase, agents=tuple(kept))


def _touches(agent: Agent, environment: Environment) -> bool:
    """Say whether an agent speaks of an environment at all."""
    ids = {environment.uid, f"{environment.uid}.*", *(uid for what in range(3) for uid in environment.ids(what))}
    return bool(ids & {*agent.sensors, *agent.actuators, *(agent.rewards or ())})


def _plugins(conditions: Any) -> list[dict[str, Any]]:
    return [{"name": name, **({"params": dict(params)} if params else {})} for name, params in conditions]
