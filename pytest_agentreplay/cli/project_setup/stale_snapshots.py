"""`agentreplay stale`: which snapshots of a project stand for an agent that is gone. Nothing of the project is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.cli.project_setup.project_modules import read_project
from pytest_agentreplay.compare.staleness import StaleFact, find_stale, read_facts
from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER, genai
from pytest_agentreplay.settings.parsers import tools_of
from pytest_agentreplay.snapshots.store import projects, reading
from pytest_agentreplay.snapshots.store.projects import ini_lines, test_to_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.cli.project_setup.project_modules import Function
    from pytest_agentreplay.model.exchanges import Run


@dataclass(slots=True)
class ProjectTools:
    """The frozen tools that the settings name, by the name that the model knows: parameters, or that they are gone."""

    signatures: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, frozenset[str]] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StaleSnapshots:
    """The stale snapshots by what makes them so, how many were read, and those that cannot be."""

    facts: dict[StaleFact, list[Path]] = field(default_factory=dict)
    read: int = 0
    damaged: list[SnapshotError] = field(default_factory=list)


def find_stale_snapshots(
    root: Path, snapshots: Iterable[Path], *, days: int, retired: Mapping[str, str]
) -> StaleSnapshots:
    """Return what makes these snapshots of the project at `root` stale. Raises SettingsError."""
    tools, stale = read_tools(root), StaleSnapshots()
    installed = {each.name: each.version for each in metadata.distributions() if each.name}
    for file in snapshots:
        try:
            run = reading.load(file).run
        except SnapshotError as error:
            stale.damaged.append(error)
            continue
        stale.read += 1
        facts = find_stale(
            read_facts(run.header),
            today=datetime.fromtimestamp(clocks.wall(), UTC).date(),
            days=days,
            retired=retired,
            installed=installed,
            signatures=tools.signatures,
        )
        for fact in dict.fromkeys((*facts, *compare_schemas(run, tools), *find_gone(file, run))):
            stale.facts.setdefault(fact, []).append(file)
    for name, path in tools.gone.items():
        stale.facts[StaleFact("tool", f"{path}, frozen as {name}, is not defined")] = []
    return stale


def read_tools(root: Path) -> ProjectTools:
    """Return the tools of the project that its settings name, from the text of its modules. Raises SettingsError."""
    lines, file = ini_lines(root, "agentreplay_tools")
    bases = [root, *(root / folder for folder in ini_lines(root, "pythonpath")[0])]
    modules = read_project(root, bases).modules if lines else {}
    tools = ProjectTools()
    for path, how in tools_of(lines, f"{file}: agentreplay_tools"):
        name = how.partition(" as ")[2] or path.rpartition(".")[2]
        module = next((modules[each] for each in list_prefixes(path) if each in modules), None)
        # A function of another package, several, or no frozen tool.
        if module is None or "*" in path or how.startswith(("live", "model", "retrieval")):
            continue
        qualified = path.removeprefix(f"{module.name}.")
        function = module.functions.get(qualified)
        if function is not None:
            tools.signatures[name] = format_parameters(function)
            tools.parameters[name] = list_parameters(function)
        elif qualified not in module.assigned and qualified not in module.imports and "." not in qualified:
            tools.gone[name] = path
    return tools


def list_prefixes(path: str) -> Iterator[str]:
    """Yield the beginnings of an import path that may be a module, the longest first."""
    while path := path.rpartition(".")[0]:
        yield path


def format_parameters(function: Function) -> str:
    """Return the parameters of a function as `Redirection.describe_parameters` does: "order, amount=, *rest"."""
    parameters = function.args
    plain = [*parameters.posonlyargs, *parameters.args]
    first_default = len(plain) - len(parameters.defaults)
    parts = [each.arg + "=" * (place >= first_default) for place, each in enumerate(plain)]
    parts += [f"*{parameters.vararg.arg}"] if parameters.vararg else ["*"] * bool(parameters.kwonlyargs)
    defaults = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    parts += [each.arg + "=" * (default is not None) for each, default in defaults]
    parts += [f"**{parameters.kwarg.arg}"] if parameters.kwarg else []
    return ", ".join(parts)


def list_parameters(function: Function) -> frozenset[str]:
    """Return the names that a function takes; none where it takes any."""
    parameters = function.args
    accepted = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    return frozenset() if parameters.kwarg else frozenset(each.arg for each in accepted)


def compare_schemas(run: Run, tools: ProjectTools) -> Iterator[StaleFact]:
    """Yield the arguments of frozen tools that the model was told of, and that their functions do not take any more."""
    models = [x.call for x in run.exchanges if x.parent is None and is_model(x.call, READER)]
    for schema in genai.tools(READER.read_call(models[-1]).tools) if models else ():
        name, parameters = str(schema.get("name")), schema.get("parameters")
        accepted = tools.parameters.get(name)
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        if accepted and isinstance(properties, dict) and (strange := sorted(properties.keys() - accepted)):
            yield StaleFact("schema", f"the model was told of {name}({', '.join(strange)}), which it does not take")


def find_gone(file: Path, run: Run) -> Iterator[StaleFact]:
    """Yield that the test of a snapshot is gone, as far as the text of its file says so."""
    try:
        _, module, test = test_to_run(file.absolute(), run.header.test)
    except (SnapshotError, SettingsError):
        return
    name, _, rest = test.partition("::")
    tests = projects.list_tests(module, name)
    if rest and tests is not None and test.partition("[")[0] not in tests and "<" not in rest:
        yield StaleFact("gone", "belongs to a test that is not there any more")
