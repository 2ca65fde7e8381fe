"""A game of PettingZoo: by the controller that knows whose turn it is, with two workers that learn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from simulation import simulate

DOCUMENT = """
uid: noughts
seed: 3
version: "0.1"
schedule:
  - play:
      environments: [{environment: {uid: game, name: pettingzoo, params: {id: classic/tictactoe_v3}}}]
      agents:
        - name: x
          muscle: random_legal
          brain: dummy
          sensors: [game.player_1.observation, game.player_1.action_mask, game.player_1.turn]
          actuators: [game.player_1.action]
          rewards: [game.player_1.reward]
        - name: o
          muscle: random_legal
          brain: dummy
          sensors: [game.player_2.observation, game.player_2.action_mask, game.player_2.turn]
          actuators: [game.player_2.action]
          rewards: [game.player_2.reward]
      simulation: {name: pettingzoo}
      phase_config: {mode: train, worker: 2, episodes: 4}
run_config: {condition: vanilla}
"""


def test_a_game_of_two_on_the_bus(results: Path) -> None:
    """Moves come in turn, each player's return is its own, loser and winner both see the end."""
    outcome = simulate(DOCUMENT, 1, results)
    assert ("finished", []) == (outcome.status, outcome.defects), outcome.reason
    episodes, actions = outcome.tables["episodes"], outcome.tables["actions"]

    assert 8 == len(episodes)
    for episode in episodes:
        mine = [row for row in actions if (row["worker"], row["episode"]) == (episode["worker"], episode["episode"])]
        moves = Counter(row["agent"] for row in mine)
        assert episode["steps"] == moves["x"] + moves["o"]
        assert moves["x"] - moves["o"] in (0, 1)
        returns = {agent: sum(row["objective"] for row in mine if row["agent"] == agent) for agent in "xo"}
        last = {agent: [row for row in mine if row["agent"] == agent][-1] for agent in "xo"}
        assert all(row["terminated"] for row in last.values())
        assert returns == {agent: last[agent]["objective"] for agent in "xo"}
        assert returns["x"] == -returns["o"]
