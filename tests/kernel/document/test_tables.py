"""Tables of a phase: what is refused, with its place, and what a plan says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.document.fault import Fault
from ganglion.run.plan import Plan, TablePlan, processes_of
from ganglion.wire.name import Role, label

DOCUMENT = """
uid: run
seed: 1
version: "0.1"
schedule:
  - train:
      environments: [{{environment: {{uid: lake, name: dummy}}}}]
      agents:
        - {{name: ada, brain: dummy, muscle: dummy, sensors: [lake.0], actuators: [lake.0]}}
        - {{name: bob, brain: dummy, muscle: dummy, sensors: [lake.1], actuators: [lake.1]}}
        - {{name: cyd, brain: none, muscle: dummy, sensors: [lake.2], actuators: [lake.2]}}
      tables: {tables}
      phase_config: {{mode: train, episodes: 1, sync: {sync}}}
  - test: {{phase_config: {{mode: test}}}}
run_config: {{conditions: [max_episodes]}}
"""
POOL = "{uid: recent, name: pool, feed: [ada]}"


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ("[{uid: recent, name: pool, feed: [adda]}]", "feed.0: there is no agent `adda` in phase `train`; did you"),
        ("[{uid: recent, name: pool, feed: [ada], serve: [bbo]}]", "serve.0: there is no agent `bbo` in phase"),
        ("[{uid: recent, name: pool, feed: [cyd]}]", "feed.0: agent `cyd` has no brain, which alone feeds and asks"),
        ("[{uid: recent, name: pol, feed: [ada]}]", "name: there is no table `pol`"),
        ("[{uid: recent, feed: [ada]}]", "missing key `name`: which table is it?"),
        (
            "[{uid: recent, name: pool}]",
            "expected `feed`, params with a `source`, or `mix` of other tables: the table would",
        ),
        ("[{name: pool, feed: [ada]}]", "missing key `uid`"),
        (f"[{POOL}, {POOL}]", "tables.1.uid: duplicate uid `recent`: each is once in the tables of a phase"),
        (f"[{POOL}, {{uid: both, mix: {{recnt: 1}}, serve: [ada]}}]", "there is no table `recnt` to draw from; did"),
        (f"[{POOL}, {{uid: both, mix: {{recent: 1}}}}]", "missing key `serve`: no brain could ask the table"),
        (f"[{POOL}, {{uid: both, mix: {{recent: 1}}, serve: [bob]}}]", "does not serve agent `bob`"),
        (f"[{POOL}, {{uid: both, mix: {{recent: 0.5}}, serve: [ada]}}]", "mix: expected a map from uids of tables to"),
        (f"[{POOL}, {{uid: both, mix: {{recent: 1}}, name: pool, serve: [ada]}}]", "`name` cannot be beside `mix`"),
        ("[{uid: recent, name: pool, fed: [ada]}]", "fed: unknown key; did you mean `feed`?"),
    ],
)
def test_what_cannot_be_a_table_is_refused_at_its_place(
    faults_of: Callable[..., list[str]], tables: str, expected: str
) -> None:
    """Misspelt agents, tables and keys, two tables of one uid, and tables that nobody feeds or asks."""
    found = faults_of(DOCUMENT.format(tables=tables, sync="lockstep"))

    assert [True] == [expected in fault for fault in found], found


def test_several_agents_of_a_table_need_rounds(faults_of: Callable[..., list[str]]) -> None:
    """With `sync: pipelined` rounds of several brains overlap: a table of one agent alone is allowed then."""
    several = "[{uid: recent, name: pool, feed: [ada], serve: [bob]}]"
    (fault,) = faults_of(DOCUMENT.format(tables=several, sync="pipelined"))

    assert "not built yet: a table of several agents with `sync: pipelined`; expected lockstep or async" in fault
    assert [] == faults_of(DOCUMENT.format(tables=f"[{POOL}]", sync="pipelined"))


def test_tables_are_processes_of_phases_that_train(load: Callable[..., tuple[Plan, list[Fault]]]) -> None:
    """Who feeds a table is served by it unless the document says otherwise; a mix is no process of its own."""
    mix = "{uid: both, mix: {recent: 1}, serve: [ada]}"
    plan, _ = load(DOCUMENT.format(tables=f"[{POOL}, {mix}]", sync="lockstep"))
    found: list[list[Any]] = [
        [label(process.name) for process in processes_of("run", phase) if process.role is Role.TABLE]
        for phase in plan.phases
    ]
    recent, both = plan.phases[0].tables

    assert [["table recent"], []] == found
    assert (["ada"], ["ada"], "pool") == (recent.feed, recent.serve, recent.plugin and recent.plugin.name)
    assert TablePlan("both", None, [], ["ada"], {"recent": 1}) == both
