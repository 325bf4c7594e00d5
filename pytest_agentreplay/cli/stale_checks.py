"""`agentreplay ls --stale`: snapshots and cases that are out of date, by age, models, SDKs, tools and tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.cli.project_setup.project_modules import Function, list_parameter_names, read_project
from pytest_agentreplay.cli.verbs import Exit, Options, complain, find_root, say_result
from pytest_agentreplay.compare.staleness import RETIRED, StaleFact, find_stale, read_facts
from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import normalize_tools
from pytest_agentreplay.runs.case_files.case_linting import cases_in, lint_case
from pytest_agentreplay.runs.redact.redaction_setup import find_policy
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.settings.parsers import parse_checks, parse_tools
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import format_path, locks, projects, reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Run


SHOWN = 3  # files of one reason that are named
STEPS = {
    "gone": "agentreplay prune --dry-run",
    "tool": "correct the line of agentreplay_tools",
    "dead": "agentreplay case lint",
}
RECORD = "pytest --snapshot-record, for the tests that should go on"


def print_stale(options: Options) -> int:
    """`agentreplay ls --stale [PATH...] [--json]`."""
    root = find_root()
    paths = options.paths or [root]
    snapshots = [file for path in paths for file in (locks.snapshots(path) if path.is_dir() else [path])]
    if not snapshots:
        return complain(f"there is no *.snapshot.json below {', '.join(map(format_path, paths))}", Exit.NOTHING)
    lines, file = projects.ini_lines(root, "agentreplay_checks")
    limits = Settings()._replace(**parse_checks(lines, f"{file}: agentreplay_checks"))
    staleness = find_stale_snapshots(root, dict.fromkeys(snapshots), limits)
    facts = staleness.facts | find_dead_fixtures(root, paths)
    rows = [{**fact._asdict(), "files": [*map(format_path, files)]} for fact, files in facts.items()]
    data = {"snapshots": staleness.read, "stale": rows}
    say_result(options, data, format_stale(facts, staleness.read), staleness.damaged)
    return Exit.DAMAGED if staleness.damaged else Exit.DIVERGED if facts else Exit.SAME


def find_dead_fixtures(root: Path, paths: Iterable[Path]) -> dict[StaleFact, list[Path]]:
    """Return the frozen answers of cases that no call of theirs reaches."""
    policy = find_policy(root)
    folders = [folder for folder in cases_in(paths) if folder.is_dir()]
    complaints = [complaint for folder in folders for complaint in lint_case(folder, policy, {}).complaints]
    files = [Path(complaint.file) for complaint in complaints if complaint.rule == "dead"]
    return {StaleFact("dead", "a fixture that no call of its case reaches"): files} if files else {}


def format_stale(facts: Mapping[StaleFact, Sequence[Path]], read: int) -> Iterator[str]:
    """Yield the reasons, each with its first files and the next command."""
    if not facts:
        yield f"{plural(read, 'snapshot')}, none is stale"
    for fact, files in sorted(facts.items()):
        yield f"{fact.text}: {plural(len(files), 'file')}" if files else fact.text
        yield from (f"  {quote_word(format_path(file))}" for file in files[:SHOWN])
        if len(files) > SHOWN:
            yield f"  and {len(files) - SHOWN} more"
        yield f"  next: {STEPS.get(fact.kind, RECORD)}"


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


def find_stale_snapshots(root: Path, snapshots: Iterable[Path], limits: Settings) -> StaleSnapshots:
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
            days=limits.stale_days,
            retired={**RETIRED, **dict(limits.retired_models)},
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
    lines, file = projects.ini_lines(root, "agentreplay_tools")
    bases = [root, *(root / folder for folder in projects.ini_lines(root, "pythonpath")[0])]
    modules = read_project(root, bases).modules if lines else {}
    tools = ProjectTools()
    for path, how in parse_tools(lines, f"{file}: agentreplay_tools"):
        name = how.partition(" as ")[2] or path.rpartition(".")[2]
        module = next((modules[each] for each in list_prefixes(path) if each in modules), None)
        # A function of another package, several, or no frozen tool.
        if module is None or "*" in path or how.startswith(("live", "model", "retrieval")):
            continue
        qualified = path.removeprefix(f"{module.name}.")
        function = module.functions.get(qualified)
        if function is not None:
            tools.signatures[name] = format_parameters(function)
            takes_any = function.args.kwarg is not None
            tools.parameters[name] = frozenset() if takes_any else frozenset(list_parameter_names(function))
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


def compare_schemas(run: Run, tools: ProjectTools) -> Iterator[StaleFact]:
    """Yield the arguments of frozen tools that the model was told of, and that their functions do not take any more."""
    models = [x.call for x in run.exchanges if x.parent is None and is_model(x.call, READER)]
    for schema in normalize_tools(READER.read_call(models[-1]).tools) if models else ():
        name, parameters = str(schema.get("name")), schema.get("parameters")
        accepted = tools.parameters.get(name)
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        if accepted and isinstance(properties, dict) and (strange := sorted(properties.keys() - accepted)):
            yield StaleFact("schema", f"the model was told of {name}({', '.join(strange)}), which it does not take")


def find_gone(file: Path, run: Run) -> Iterator[StaleFact]:
    """Yield that the test of a snapshot is gone, as far as the text of its file says so."""
    try:
        _, module, test = projects.test_to_run(file.absolute(), run.header.test)
    except (SnapshotError, SettingsError):
        return
    name, _, rest = test.partition("::")
    tests = projects.list_tests(module, name)
    if rest and tests is not None and test.partition("[")[0] not in tests and "<" not in rest:
        yield StaleFact("gone", "belongs to a test that is not there any more")
