"""Environment: any environment of PettingZoo on the bus, by its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    Mask,
    MultiBinary,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    Space,
)

if TYPE_CHECKING:
    from ganglion_pettingzoo.game import Game, Seat

__all__ = ["PettingZooEnvironment"]

REWARD = Box(-np.inf, np.inf, ())
FLAG = Discrete(2)


class PettingZooEnvironment(Environment):
    """An environment of PettingZoo, parallel or AEC; each of its agents is for an agent of the run.

    For each PettingZoo agent, say `player_0`, there are
    - sensor `player_0.observation` of its observation space; at first 0, or what is nearest to it, for who is not in
      the game yet; who is dead keeps its last observation;
    - sensor `player_0.action_mask`, the Mask of its actions if these are Discrete (else MultiBinary), if the
      environment tells masks, in its observations (which then hold it no more) or infos: 1 for legal actions. Nothing
      else may be done. Where the environment allows nothing to who does not act (whose turn it is not, who is dead),
      a Mask allows all;
    - sensor `player_0.alive`, Discrete(2): whether it is in the game;
    - sensor `player_0.turn`, Discrete(2), in AEC environments: whether it acts next;
    - actuator `player_0.action` of its action space; its no-op is the action nearest to zero;
    - reward `player_0.reward`, any number. Parallel: of the step. AEC: since it acted last, as PettingZoo's `last()`
      tells it.
    Give an agent the reward that is its own (`rewards: [game.player_0.reward]`): the sum over all is its default.

    The controller `pettingzoo` asks only those that may act, and gives an AEC agent what came of all moves up to
    its next turn; `vanilla` does for parallel environments (actions of the dead are ignored), `taking_turns` for AEC
    environments of fixed order, where a loss by another's move is not seen by the loser. In a parallel environment
    who gets no setpoint does its no-op; in an AEC one who is in turn must get one, unless nobody does.

    In a phase with bodies each body plays an agent of a parallel environment: the first one, in the order of agents and
    numbers, the first of `possible_agents`, and there are as many as these, of equal spaces. Then it has the sensors
    `observation`, `action_mask` and `alive`, the actuator `action` and the reward `reward`, and ends when its agent
    dies. So one agent of the run may play several, or all.

    The episode ends when all agents are dead: truncated if one was truncated (and not terminated) in the last step,
    else terminated. Simulated time: ticks are steps, of AEC environments moves. Every episode is begun by
    `reset(seed=...)` with the seed of the environment or of the episode. Rendered is only what `env_params` ask for.

    Params:
        id: What PettingZoo's registry knows (`classic/tictactoe_v3`), `mpe/simple_tag_v3` and the like of the package
            mpe2, or `module:Class`, a ParallelEnv or AECEnv of a package that is allowed (`--allow`).
        api: `parallel` or `aec`. Default: parallel where the environment offers it.
        env_params: Arguments of the environment, such as `max_cycles`. Default: none.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the name that everybody knows from PettingZoo
        api: str | None = None,
        env_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        from ganglion_pettingzoo.game import game_of  # heavy, and only needed where such an environment really runs
        from ganglion_pettingzoo.source import make

        self.id = id
        self.game: Game = game_of(make(id, api, dict(env_params or {})))
        self.steps = 0
        self._observed: dict[str, Space] = {}
        self._actions: dict[str, Space] = {}
        self._masks: dict[str, MultiBinary] = {}  # a Mask is one, too
        self._seats: dict[str, tuple[str, int]] = {}  # which body plays whom

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode, by the environment's own seed.

        Raises:
            ValueError: There are bodies, and this environment cannot be played by them.
        """
        if self.bodies:
            if self.game.in_turns:
                raise ValueError(f"bodies play parallel environments, and {self.id} is played in turns")
            if len(self.bodies) != len(self.game.agents):
                names = ", ".join(self.game.agents)
                raise ValueError(f"expected {len(self.game.agents)} bodies, for {names}; found {len(self.bodies)}")
            self._seats = {name: (it.agent, it.b) for name, it in zip(self.game.agents, self.bodies, strict=True)}
        return self._begin(self.seed)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin a later episode, by the seed of the request."""
        return self._begin(request.seed)

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Carry out one step: the actions of all that are alive, or of the one whose turn it is.

        Raises:
            ValueError: It is the turn of an agent for which there is no setpoint, and there are others'.
        """
        from ganglion_gymnasium import value_to_gymnasium

        given = {it.uid if it.body is None else it.body: it.value for it in actuators}
        actions = {}
        for name in self._acting(given):
            space = self._actions[name]
            key = self._seats.get(name, f"{name}.action")
            actions[name] = value_to_gymnasium(space, given.get(key, space.default()))
        self.game.step(actions)
        self.steps += 1
        found = EnvironmentState(
            sensor_information=self._readings(),
            rewards=self._rewards(),
            terminated=self.game.terminated,
            truncated=self.game.truncated,
            simtime=SimTime(simtime_ticks=self.steps),
        )
        if self._seats:
            left = [name for name in self._there() if self.game.terminated or self.game.truncated or self._left(name)]
            cut = [name for name in left if self.game.seats[name].cut or not self._left(name)]
            found.truncated = {self._seats[name]: True for name in cut}
            found.terminated = {self._seats[name]: True for name in left if name not in cut}
        return found

    def shutdown(self) -> bool | None:
        """Close the environment."""
        self.game.close()
        return None

    def _there(self) -> list[str]:
        """Return the names of those of whom something is told: all, or those whose bodies take part."""
        names = list(self.game.seats)
        return [names[row] for row in self.rows.tolist()] if self._seats else names

    def _left(self, name: str) -> bool:
        """Say whether somebody has been in the game and is not any more."""
        seat = self.game.seats[name]
        return not seat.alive and seat.observation is not None

    def _id(self, name: str, what: str) -> str:
        return what if self._seats else f"{name}.{what}"

    def _acting(self, given: Mapping[Any, Any]) -> list[str]:
        """Return the names of those who act in this step."""
        names = [name for name, seat in self.game.seats.items() if seat.turn]
        if self.game.in_turns and given and f"{names[0]}.action" not in given:
            raise ValueError(
                f"it is the turn of {names[0]}, and there are setpoints of {', '.join(given)}: let the "
                "controller `pettingzoo` ask who is in turn, and give each an agent"
            )
        return names

    def _begin(self, seed: int) -> EnvironmentBaseline:
        self.game.reset(seed)
        self.steps = 0
        self.rows = np.arange(len(self._seats))
        if not self._actions:
            self._declare()
        no_ops = [
            ActuatorInformation(space.default(), space, self._id(name, "action"), body=self._seats.get(name))
            for name, space in self._actions.items()
        ]
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=no_ops,
            simtime=SimTime(simtime_ticks=0),
            rewards_available=self._rewards(),
        )

    def _declare(self) -> None:
        """Take over the spaces; whether there are masks is seen from the first observations."""
        from ganglion_gymnasium import from_gymnasium

        for name, seat in self.game.seats.items():
            observed, actions = self.game.spaces_of(name)
            self._observed[name], self._actions[name] = from_gymnasium(observed), from_gymnasium(actions)
            if seat.mask is not None:
                count, discrete = len(seat.mask), isinstance(self._actions[name], Discrete)
                self._masks[name] = Mask(count, of=self._id(name, "action")) if discrete else MultiBinary(count)
        kinds = list(zip(self._observed.values(), self._actions.values(), strict=True))
        other = next((name for name, kind in zip(self._observed, kinds, strict=True) if kind != kinds[0]), None)
        if self._seats and other is not None:
            first = next(iter(self._observed))
            raise ValueError(
                f"bodies have equal spaces, and those of {first} and {other} differ: play without `bodies`"
            )

    def _readings(self) -> list[SensorInformation]:
        return [reading for name in self._there() for reading in self._readings_of(name, self.game.seats[name])]

    def _readings_of(self, name: str, seat: Seat) -> list[SensorInformation]:
        space = self._observed[name]
        # A copy: environments may write the next observation into the same array, which the bus freezes.
        value = space.default() if seat.observation is None else space.canonical(seat.observation)
        body = self._seats.get(name)
        found = [SensorInformation(value, space, self._id(name, "observation"), body=body)]
        if name in self._masks:
            legal = self._masks[name]
            mask = legal.default() if seat.mask is None else np.array(seat.mask, dtype=np.int8)
            nothing = isinstance(legal, Mask) and not seat.turn and not mask.any()
            shown = legal.default() if nothing else mask
            found.append(SensorInformation(shown, legal, self._id(name, "action_mask"), body=body))
        found.append(SensorInformation(int(seat.alive), FLAG, self._id(name, "alive"), body=body))
        if self.game.in_turns:
            found.append(SensorInformation(int(seat.turn), FLAG, f"{name}.turn"))
        return found

    def _rewards(self) -> list[RewardInformation]:
        return [
            RewardInformation(
                self.game.seats[name].reward, REWARD, self._id(name, "reward"), body=self._seats.get(name)
            )
            for name in self._there()
        ]
