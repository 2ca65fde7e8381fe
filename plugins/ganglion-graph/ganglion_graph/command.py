"""`ganglion graph`: documents and runs drawn as processes that ask each other, or as phases, in Mermaid or DOT."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from ganglion.cli.extension import (
    PhasePlan,
    Plan,
    PluginPlan,
    ProgramPlan,
    UsageError,
    load_document,
    read_manifest,
    read_origin,
    registry,
)
from ganglion.cli.settings import Settings
from ganglion.cli.stores import newest_folder
from ganglion.cli.table import counted, visible


@dataclass(slots=True)
class Graph:
    """Hold a directed graph: groups of nodes in order, and edges between nodes, each once.

    Labels are any text, also of several lines; nodes are named by number, so that no label can be taken for a name.
    """

    groups: dict[str, list[int]] = field(default_factory=dict)  # a group without a title stands in no frame
    labels: list[str] = field(default_factory=list)
    edges: dict[tuple[int, int, str, bool], None] = field(default_factory=dict)  # from, to, label, dotted

    def node(self, label: str, group: str = "") -> int:
        """Add a node; return its number."""
        self.labels.append(label)
        self.groups.setdefault(group, []).append(len(self.labels) - 1)
        return len(self.labels) - 1

    def edge(self, source: int, target: int, label: str, dotted: bool = False) -> None:
        """Add an edge."""
        self.edges[source, target, label, dotted] = None


@dataclass(frozen=True, slots=True)
class _Format:
    """Hold the lines of a format as templates, and what stands for a character between quotes."""

    quoted: dict[str, str]
    begin: str
    frame: str
    node: str
    close: str
    edge: str
    dotted: str
    end: str = ""


FORMATS = {
    "mermaid": _Format(
        {'"': "#quot;", "#": "#35;", "&": "#amp;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\\": "#92;", "\n": "<br/>"},
        begin="flowchart LR\n",
        frame='  subgraph g{0}["{1}"]\n',
        node='n{0}["{1}"]\n',
        close="  end\n",
        edge='  n{0} -->|"{2}"| n{1}\n',
        dotted='  n{0} -.->|"{2}"| n{1}\n',
    ),
    "dot": _Format(
        {'"': '\\"', "\\": "\\\\", "\n": "\\n"},
        begin="digraph ganglion {\n  rankdir=LR;\n  node [shape=box];\n",
        frame='  subgraph cluster_{0} {{\n    label="{1}";\n',
        node='n{0} [label="{1}"];\n',
        close="  }\n",
        edge='  n{0} -> n{1} [label="{2}"];\n',
        dotted='  n{0} -> n{1} [label="{2}", style=dashed];\n',
        end="}\n",
    ),
}


def drawn(graph: Graph, form: str) -> Iterator[str]:
    """Yield the lines of a graph in one of `FORMATS`; what cannot be printed in a label is shown, not obeyed."""
    to = FORMATS[form]

    def quoted(text: str) -> str:
        return "".join(to.quoted.get(c, c) for c in visible(text, "\n")) or " "  # Mermaid takes no empty label

    yield to.begin
    for number, (title, nodes) in enumerate(graph.groups.items()):
        if title:
            yield to.frame.format(number, quoted(title))
        for node in nodes:
            yield ("    " if title else "  ") + to.node.format(node, quoted(graph.labels[node]))
        if title:
            yield to.close
    for source, target, label, dotted in graph.edges:
        yield (to.dotted if dotted else to.edge).format(source, target, quoted(label))
    yield to.end


@click.command("graph")
@click.argument("source", metavar="FILE|RUN")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="mermaid", help="[mermaid]")
@click.option("--phases", is_flag=True, help="phases and conditions instead of processes")
@click.option("--allow", multiple=True, metavar="PACKAGE", help="a package that import paths may name")
@click.pass_obj
def graph(settings: Settings, source: str, form: str, phases: bool, allow: tuple[str, ...]) -> None:
    """Print the processes of a document or of a run that was carried out, and which asks which."""
    if source == "-" or Path(source).is_file() or source.endswith((".yml", ".yaml")):
        plan = load_document(source, plugins=registry, allow=allow)[0]
    else:  # a run is drawn by its plan, whatever is installed now
        folder = newest_folder(settings.results, source)
        if folder is None:
            raise UsageError(f"expected a document, or a run in {settings.results}, found no {source!r}")
        plan = read_origin(folder, read_manifest(folder)[0].get("plan"))[0]
    click.echo("".join(drawn(phases_graph(plan) if phases else process_graph(plan), form)), nl=False)


def process_graph(plan: Plan) -> Graph:
    """Return the calls between the processes of each phase; the copies of workers are one node with their number."""
    graph = Graph()
    governor, store = graph.node("governor"), graph.node("store")
    graph.edge(governor, store, "records")
    for phase in plan.phases:
        group = f"phase {phase.index}: {phase.name} ({phase.mode}, {phase.sync})"
        copies = f"\n{phase.workers} workers" if phase.workers > 1 else ""
        copies += "\nand as many that evaluate" if phase.evaluates else ""
        controller = graph.node(f"controller\n{phase.controller.name}{copies}", group)
        graph.edge(governor, controller, "start")
        graph.edge(controller, governor, "episode, boundary")
        graph.edge(controller, store, "records")
        environments = {}
        for environment in phase.environments:
            kind = f"environment {environment.uid}\n{_form(environment.plugin, environment.program)}"
            environments[environment.uid] = graph.node(f"{kind}{copies}", group)
            graph.edge(controller, environments[environment.uid], "update")
        for agent in phase.agents:
            filters = "".join(f"\nfilter {part.name}" for part in agent.filters)
            muscle = graph.node(f"muscle {agent.name}\n{_form(agent.muscle, agent.program)}{filters}{copies}", group)
            graph.edge(controller, muscle, "act")
            # What an agent sees and sets is passed on by the controller, and its owner is the environment.
            for uid, number in _by_owner(agent.sensors, environments).items():
                graph.edge(environments[uid], muscle, f"{number} sensors", dotted=True)
            for uid, number in _by_owner(agent.actuators, environments).items():
                graph.edge(muscle, environments[uid], f"{number} actuators", dotted=True)
            if agent.brain is not None:
                brain = graph.node(f"brain {agent.name}\n{agent.brain.name}", group)
                if phase.mode == "train":
                    graph.edge(muscle, brain, "think")
                graph.edge(governor, brain, "store")
    return graph


def _form(plugin: PluginPlan | None, program: ProgramPlan | None) -> str:
    if plugin is not None:
        return plugin.name
    command = None if program is None else program.command
    return "attach" if command is None else f"command {command[0]}"


def _by_owner(ids: Sequence[str], uids: Collection[str]) -> dict[str, int | str]:
    """Return how many ids each environment owns; `*` is `all`: its number is not known yet.

    Of two environments that could own an id it is the one with the longer uid.
    """
    owners = [max((uid for uid in uids if full.startswith(f"{uid}.")), key=len, default="") for full in ids]
    return {uid: "all" if f"{uid}.*" in ids else owners.count(uid) for uid in uids if uid in owners}


def phases_graph(plan: Plan) -> Graph:
    """Return the phases in order, with what ends their episodes and themselves."""
    graph = Graph()
    nodes = [graph.node(_title(phase)) for phase in plan.phases]
    nodes.append(graph.node("end"))
    for phase, node, following in zip(plan.phases, nodes, nodes[1:], strict=False):
        ends = dict.fromkeys(condition.name for condition in phase.phase_conditions)
        episode = dict.fromkeys([*(condition.name for condition in phase.episode_conditions), *ends])
        graph.edge(node, node, "episode: " + ", ".join(episode), dotted=True)
        graph.edge(node, following, ", ".join(ends))
    return graph


def _title(phase: PhasePlan) -> str:
    lines = [f"{phase.index}: {phase.name}", f"{phase.mode}, {phase.sync}", counted(phase.workers, "worker")]
    if phase.episodes is not None:
        lines.append(f"{counted(phase.episodes, 'episode')} each")
    if phase.evaluates:
        lines.append(f"evaluation every {phase.evaluate_every} episodes")
    return "\n".join(lines)
