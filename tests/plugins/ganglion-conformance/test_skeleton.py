from __future__ import annotations

import subprocess
from pathlib import Path

from ganglion_conformance.new import foreign_skeleton
from ganglion_conformance.recipes import Probe, Recipe


def test_a_program_is_built_from_copies(tmp_path: Path) -> None:
    """The build of a program in another language follows its recipe: files, what is fetched, the build, the command."""
    source = tmp_path / "pendulum.x"
    source.write_text("#!/bin/sh\necho it runs, with $(cat kept)\n")
    recipe = Recipe(
        name="x",
        language="X",
        packages="x-tools",
        probe=(Probe(line="true", lacks="x"),),
        run=("sh", "{folder}/pendulum"),
        auth="token",
        sources=(source,),
        fetch="cat settings > kept",
        build='cp "$GANGLION_FETCHED/kept" . && cp pendulum.x pendulum',
        files={"settings": "a word\n"},
    )
    for path, text in foreign_skeleton(recipe, "mine").items():
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / path).write_text(text)
    for _ in range(2):  # it can be built again
        subprocess.run(["sh", "mine/build.sh"], cwd=tmp_path, check=True, timeout=30)
    said = subprocess.run(["sh", "pendulum"], cwd=tmp_path / "mine/build", capture_output=True, text=True)

    assert 'command: ["sh", "build/pendulum"]' in (tmp_path / "mine/run.yml").read_text()
    assert "it runs, with a word\n" == said.stdout
