from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.errors import PluginInvalid
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan

Install = Callable[..., None]


MODULE = """
from ganglion.sdk import Muscle
OTHER = 3
class Good(Muscle):
    def __init__(self, gain=1.0): pass
    def propose_actions(self, sensors, actuators_available): return actuators_available
class Abstract(Muscle): pass
class Plain(Muscle):
    def propose_actions(self, sensors, actuators_available): return actuators_available
class Stranger: pass
def factory(): return Good()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with entry points on the path, as an installer does."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def of(name: str, points: str, module: str = "", version: str = "1.2", package: str = "") -> None:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        header = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Things of {name}\n\nName: body"
        (info / "METADATA").write_text(header)
        (info / "entry_points.txt").write_text(points)
        if package:
            (site / f"{package}.py").write_text(module)
        registry._table.cache_clear()

    registry._table.cache_clear()
    modules = set(sys.modules)
    path = list(sys.path)
    yield of
    registry._table.cache_clear()
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


def point(kind: str, *rows: str) -> str:
    """Return the entry points of a group."""
    return "\n".join([f"[{registry.GROUPS[kind].entry_points}]", *rows, ""])


def test_listing_imports_nothing(install: Install) -> None:
    """Plugins are listed by their metadata; a module that fails on import is listed like any other."""
    install("acme-arms", point("muscle", "arm = acme_arms:Arm"), "raise RuntimeError", package="acme_arms")

    found = [entry for entry in registry.entries("muscle") if entry.distribution == "acme-arms"]

    assert [registry.Entry("arm", "muscle", "acme-arms", "1.2", "acme_arms:Arm", "Things of acme-arms")] == found
    assert "acme_arms" not in sys.modules


def test_first_on_the_path_counts(install: Install) -> None:
    """A distribution that is there twice counts once."""
    install("acme-arms", point("muscle", "arm = a:Arm"), version="2.0")
    install("Acme.Arms", point("muscle", "arm = a:Arm"), version="1.0")

    assert 1 == len([entry for entry in registry.entries("muscle") if entry.name == "arm"])


def refused(kind: str, name: str, **options: object) -> str:
    """Return why a name is refused."""
    with pytest.raises(PluginInvalid) as caught:
        registry.locate(kind, name, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_two_distributions_with_one_name(install: Install) -> None:
    """A short name that two distributions offer is refused naming both; `distribution:short` selects."""
    install("acme-arms", point("muscle", "arm = a:Arm"))
    install("beta-arms", point("muscle", "arm = b:Arm"))

    expected = "muscle `arm` is offered by 2 distributions: write `acme-arms:arm` or `beta-arms:arm`"
    assert expected == refused("muscle", "arm")
    assert "b:Arm" == registry.locate("muscle", "beta-arms:arm").value
    assert "b:Arm" == registry.locate("muscle", "Beta_Arms:arm").value


def test_unknown_names_are_answered() -> None:
    """An unknown name comes with the nearest one, or with the distribution that has it."""
    assert "there is no environment `dumy`; did you mean `dummy`?" == refused("environment", "dumy")
    listed = f"`ganglion plugins environments` lists the installed ones, {registry.STANDARD} installs more"
    assert f"there is no environment `weather`; {listed}" == refused("environment", "weather")
    assert "there is no brain `random`: it is of kind muscle" == refused("brain", "random")
    for name in ("CartPole-v1", "ALE/Pong-v5"):
        way = f"one of Gymnasium is {{name: gymnasium, params: {{id: {name}}}}}"
        assert f"there is no environment `{name}`; {way}" == refused("environment", name)


TABLE = """
TABLE = {
    "names": {"muscle": {"old.arms:Arm": "dummy", "old:Arm": "dummy"}, "brain": {"old:Head": "dummy"}},
    "params": {"old:Arm": {"strength": "gain"}},
    "prefixes": ("old",),
}
"""


def test_names_of_an_alias_plugin(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in the table of an alias plugin stands for ours, with a colon or a dot; the nearest one is told."""
    install("acme-old", "[ganglion.aliases]\nold = acme_old:TABLE\n", TABLE, package="acme_old")

    for name in ("old.arms:Arm", "old.arms.Arm", "old:Arm", "old.Arm"):
        assert "ganglion_toys.dummy:DummyMuscle" == registry.locate("muscle", name).value
        assert "dummy" == registry.locate("muscle", name, local=False).name
        assert "dummy" == registry.find("muscle", name).name
    assert "DummyMuscle" == registry.load("muscle", "old.arms.Arm").__name__
    found = registry.alias("muscle", "old.Arm")
    assert found is not None
    assert ("dummy", {"strength": "gain"}, "acme-old 1.2") == (found.name, found.params, found.origin)
    assert registry.alias("brain", "old.Arm") is None

    assert "there is no muscle `old.arms.Amr`; did you mean `old.arms:Arm`?" == refused("muscle", "old.arms.Amr")
    assert "there is no muscle `old:Head`: it is of kind brain" == refused("muscle", "old:Head")
    assert "there is no filter `old:Zzz`" == refused("filter", "old:Zzz", allow=["old"])
    assert "there is no module 'older' beside" in refused("muscle", "older:Arm")
    monkeypatch.setenv("GANGLION_BLOCK", "acme-old")
    assert registry.alias("muscle", "old:Arm") is None
    assert "there is no module 'old' beside" in refused("muscle", "old:Arm")


def test_a_broken_alias_plugin_is_named(install: Install) -> None:
    """An alias plugin whose table cannot be read is blamed; blocked, it is as if it were not there."""
    install("acme-old", "[ganglion.aliases]\nold = acme_old:NONE\n", TABLE, package="acme_old")

    with pytest.raises(PluginInvalid, match=r"`old`.*acme-old 1.2.*cannot be imported") as caught:
        registry.alias("muscle", "old:Arm")
    assert "acme-old 1.2" == caught.value.distribution


def test_a_kernel_without_plugins_says_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no plugin is installed at all, any name leads to the command that installs all of them."""
    monkeypatch.setattr(registry, "_table", lambda: {kind: [] for kind in registry.GROUPS})

    for kind, name in (("document", "demo"), ("controller", "vanilla")):
        assert refused(kind, name).endswith(f"install those that belong to it: {registry.STANDARD}")


def test_blocked_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that the operator shuts out is not found, and the message says why."""
    monkeypatch.setenv("GANGLION_BLOCK", "other,ganglion-toys:dummy")

    assert "blocked by GANGLION_BLOCK" in refused("environment", "dummy")
    assert registry.find("environment", "cartpole")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("subprocess:Popen", "package 'subprocess' is not allowed (name a plugin, or --allow it if you trust it)"),
        *(
            (name, "is not allowed")
            for name in ("os.system", "builtins:eval", "posix:system", "pickle:loads", "yaml:Loader")
        ),
        *(
            (name, "names with a leading underscore")
            for name in ("ganglion_toys.dummy:_Hidden", "ganglion_toys.__init__:x", "_mine:Thing", "mine:__class__")
        ),
        *(
            (name, "expected a short name or an import path `module:Class`")
            for name in (
                *(
                    "ganglion_toys.dummy:A.b",
                    "a b:c",
                    "../x:y",
                    "/etc/passwd:Thing",
                    "mine:",
                    ":Thing",
                    "mine..deep:Thing",
                ),
                *(
                    "mine:Thing()",
                    "mine:Thing[0]",
                    "mine:Thíng",
                    "\uff4f\uff53:system",
                    "{{ mine:Thing }}",
                    "${HOME}:Thing",
                ),
            )
        ),
    ],
)
def test_import_paths_are_refused_before_any_import(name: str, reason: str) -> None:
    """Only allowed packages and plain identifiers count, and nothing is imported to say so."""
    registry.alias("objective", "no:name")  # reads the tables of alias plugins, which are data
    before = set(sys.modules)

    assert reason in refused("objective", name)
    assert before == set(sys.modules)


def test_a_misspelt_module_is_not_there(tmp_path: Path) -> None:
    """A module that is nowhere is no matter of trust: it comes with the nearest one beside the document."""
    (tmp_path / "tank.py").write_text("")
    message = refused("environment", "tnak:Tank", folder=str(tmp_path))
    trusted = refused("environment", "numpy:Tank", folder=str(tmp_path))

    assert "there is no module 'tnak' beside the document, and no package of that name is installed" in message
    assert message.endswith("; did you mean `tank`?")
    assert "package 'numpy' is not allowed (name a plugin, or --allow it if you trust it)" == trusted


def test_import_paths_that_are_allowed(tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules beside the document, packages of distributions with plugins, and what is allowed by name count."""
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "random.py").write_text("")
    install("acme-arms", point("muscle", "arm = acme_arms:Arm"))

    assert "mine:Slope" == registry.locate("reward", "mine.Slope", folder=str(tmp_path)).value
    assert "acme-arms 1.2" == registry.locate("reward", "acme_arms.deep:Slope").origin
    assert "theirs:X" == registry.locate("reward", "theirs:X", allow=["theirs"]).value
    monkeypatch.setenv("GANGLION_ALLOW", "a, theirs")
    assert "theirs:X" == registry.locate("reward", "theirs:X").value
    assert "there is no module 'mine' beside" in refused("reward", "mine:Slope")
    assert "'random' is not allowed" in refused("reward", "random:Slope", folder=str(tmp_path))
    assert "over the network" in refused("reward", "mine:Slope", folder=str(tmp_path), local=False)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("arms:Abstract", "is abstract: it lacks propose_actions"),
        ("arms:Stranger", "is not a subclass of Muscle"),
        ("arms:factory", "is no class but function"),
        ("arms:OTHER", "is no class but int"),
        ("arms:Missing", "has no attribute 'Missing'"),
    ],
)
def test_misfits_are_blamed(name: str, reason: str, install: Install) -> None:
    """What is not a class of the group's kind is refused after import, naming distribution and version."""
    install("acme-arms", point("muscle", "arm = arms:Good"), MODULE, package="arms")

    with pytest.raises(PluginInvalid, match=f"of acme-arms 1.2.*{reason}") as caught:
        registry.load("muscle", name)

    assert "acme-arms 1.2" == caught.value.distribution
    assert "Good" == registry.load("muscle", "arm").__name__
    assert "acme-arms 1.2" == registry.distribution_of(registry.load("muscle", "arm"))


def test_modules_beside_a_document(tmp_path: Path, install: Install) -> None:
    """A class beside the document is found, with the modules beside it, and shadows nothing that is installed."""
    (tmp_path / "own_arms.py").write_text("import own_part\n" + MODULE)
    (tmp_path / "own_part.py").write_text("")
    install(
        "acme-arms",
        point("muscle", "arm = own_arms:Good"),
        "raise RuntimeError('the installed one')",
        package="own_arms",
    )

    target = registry.load("muscle", "own_arms:Good", folder=str(tmp_path))

    assert str(tmp_path / "own_arms.py") == sys.modules[target.__module__].__file__
    assert "own_part" in sys.modules


def plan_of(muscle: str, params: dict[str, object], folder: Path) -> Plan:
    """Return a plan of two equal phases with one agent."""
    plugin = PluginPlan(muscle, params, at="run.yml:3:4: schedule.one.agents.ada.muscle")
    agent = AgentPlan("ada", plugin, None, PluginPlan("aggregate_rewards"), [], [])
    environments = [EnvironmentPlan("hill", program=ProgramPlan())]
    phase = PhasePlan(0, "one", environments, [agent], PluginPlan("vanilla"), [], [PluginPlan("max_episodes")])
    return Plan("u", "u", "1", [phase, phase], folder=str(folder))


def test_imports_of_an_alias_plugin(tmp_path: Path, install: Install) -> None:
    """A plan with a class of another project wants what its table has for any of them, and for its package."""
    imports = '"imports": {"": ("all",), "json": ("more",), "csv": ("other",)},'
    table = TABLE.replace('"prefixes"', f'{imports} "prefixes"')
    install("acme-old", "[ganglion.aliases]\nold = acme_old:TABLE\n", table, package="acme_old")

    assert ["all", "more"] == registry.shared_imports(plan_of("acme-old:json:Arm", {}, tmp_path))
    assert [] == registry.shared_imports(plan_of("old:Arm", {}, tmp_path))


def test_deep_check(tmp_path: Path, install: Install) -> None:
    """Every class of a plan is imported and its constructor asked; each misfit is a fault at its place, once."""
    (tmp_path / "own_muscle.py").write_text(MODULE)

    def plan(muscle: str, params: dict[str, object]) -> Plan:
        return plan_of(muscle, params, tmp_path)

    assert [] == registry.deep_check(plan("own_muscle:Good", {"gain": 2.0}).to_map())
    (fault,) = registry.deep_check(plan("own_muscle:Good", {"gian": 2.0}).to_map())
    assert ("run.yml", 3, 4, "schedule.one.agents.ada.muscle") == tuple(
        fault[k] for k in ("file", "line", "column", "path")
    )
    assert "gian" in fault["message"]
    (fault,) = registry.deep_check(plan("own_muscle:Stranger", {}).to_map())
    assert "muscle `own_muscle:Stranger` is not a subclass of Muscle" == fault["message"]
    (fault,) = registry.deep_check(plan("own_muscle:Plain", {"gain": 2.0}).to_map())
    assert ("warning", "`own_muscle:Plain` has no constructor, so that nothing checks the params gain") == (
        fault["severity"],
        fault["message"],
    )
