"""Games of PettingZoo in real runs: by the controller that knows whose turn it is, with two workers that learn."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from system.command import ganglion

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
      phase_config: {mode: MODE, worker: 2, episodes: 4}
run_config: {condition: vanilla}
"""


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the newest run."""
    done = ganglion(folder, "results", "last", "--table", table, "--format", "json")
    assert 0 == done.returncode, done.stderr
    return [{k: v for k, v in row.items() if k != "run"} for row in json.loads(done.stdout)]


def played(folder: Path, text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run a document; return episodes and actions."""
    (folder / "game.yml").write_text(text)
    done = ganglion(folder, "run", "-q", "game.yml")
    assert 0 == done.returncode, done.stderr
    return rows(folder, "episodes"), rows(folder, "actions")


def test_a_game_of_two_on_the_bus(tmp_path: Path) -> None:
    """Moves come in turn, each player's return is its own, loser and winner both see the end; twice the same."""
    found = [played(tmp_path, DOCUMENT.replace("MODE", "train")) for _ in range(2)]
    episodes, actions = found[0]
    assert found[0] == found[1]
    assert 8 == len(episodes)
    for episode in episodes:
        mine = [
            row
            for row in actions
            if (row["worker"], row["episode"]) == (episode["worker"], episode["episode"])
        ]
        moves = Counter(row["agent"] for row in mine)
        assert episode["steps"] == moves["x"] + moves["o"]
        assert moves["x"] - moves["o"] in (0, 1)
        returns = {agent: sum(row["objective"] for row in mine if row["agent"] == agent) for agent in "xo"}
        last = {agent: [row for row in mine if row["agent"] == agent][-1] for agent in "xo"}
        assert all(row["terminated"] for row in last.values())
        assert returns == {agent: last[agent]["objective"] for agent in "xo"}
        assert returns["x"] == -returns["o"]


def test_fixed_turns_play_too(tmp_path: Path) -> None:
    """Under `taking_turns` the mover gets what its own move brings, and the loser sees nothing of its loss."""
    text = DOCUMENT.replace("MODE", "test").replace(
        "simulation: {name: pettingzoo}", "simulation: {name: taking_turns}"
    )
    episodes, actions = played(tmp_path, text)

    assert sum(row["steps"] for row in episodes) == len(actions)
    assert {0.0, 1.0} == {row["objective"] for row in actions}
