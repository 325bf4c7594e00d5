"""The reference pages say what the code says: every verb, name and default, and no other."""

import inspect
import json
import re

import pytest_agentreplay
from pytest_agentreplay import capture, hookspec, plugins
from pytest_agentreplay.backends.perturbation import NOT_DRAWN, OPERATORS
from pytest_agentreplay.cases.turn import ToolCallView, TurnView
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.cli.verbs import GROUPS, HELP, Exit, load_verbs, split_verb
from pytest_agentreplay.intercept.registry import PATCHES
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.model.rules import MATCHED_HEADERS
from pytest_agentreplay.providers import list_ours
from pytest_agentreplay.providers.rules import RULES
from pytest_agentreplay.report.other_findings import FREEZE, REDACTED
from pytest_agentreplay.runs.fixture_handle import AgentReplay
from pytest_agentreplay.runs.fuzz import invariants
from pytest_agentreplay.traces.reading import OURS
from tests.model.test_json_paths import NEWEST
from tests.support.pages import ROOT, list_api_names


def section(page, heading):
    """The text of a reference page below a heading, up to the next one."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def table(page, heading):
    """The cells of the first table in a section, without its head."""
    rows = re.search(r"^\|.*?\n\|[ -|]+\n((?:\|.*\n)+)", section(page, heading), re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[1].splitlines()]


def code(cell):
    """The code that a cell begins with."""
    found = re.match(r"`(.*?)`", cell)
    return found[1] if found else ""


def names(page, heading):
    """The names in the first column, without a leading dot and arguments."""
    return [code(row[0]).lstrip(".").partition("(")[0] for row in table(page, heading)]


def members(cls):
    ours = [base for base in cls.__mro__ if base.__module__.startswith("pytest_agentreplay")]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


def test_every_verb_with_its_arguments_in_the_groups_of_the_help():
    groups, shown = {}, {}
    for group, verb, _, module in HELP:
        verbs = [verb] if module else [name for name, _, _ in GROUPS if name.startswith(f"{verb} ")]
        groups[group or [*groups][-1]] = [*groups.get(group or [*groups][-1], []), *verbs]
    for group, verbs in groups.items():
        here = {}
        for row in table("command-line.md", group.capitalize()):
            verb, rest = split_verb(code(row[0]).split())
            here.setdefault(verb, set()).update(re.findall(r"--[a-z][a-z-]*", " ".join(rest)))
        assert list(here) == verbs, group
        shown |= here
    for verb, parser in load_verbs().items():
        there = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
        assert shown[verb] == there - {"--help"}, verb


def test_every_exit_code():
    assert {int(row[0]) for row in table("command-line.md", "Exit codes")} == {*Exit}


def test_every_code_has_its_section_with_what_it_means_why_and_what_to_do():
    text = (ROOT / "docs" / "reference" / "codes.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (AR-\w+)$", text, re.MULTILINE) == [
        *(kind.code for kind in Kind),
        FREEZE,
        REDACTED,
        "AR-REDIRECT",
    ]
    for kind in Kind:
        told = section("codes.md", kind.code)
        assert told.startswith(f"\n*{kind.title}*, layer {kind.layer}. "), kind
        assert "Likely causes" in told, kind
        assert "What to do:" in told or "cures" in told, kind


def test_every_name_of_the_fixture_and_its_parameters():
    assert {*names("fixture-and-assertions.md", "`agentreplay`")} == members(AgentReplay)
    for row in table("fixture-and-assertions.md", "`agentreplay`"):
        name, called, arguments = code(row[0]).lstrip(".").partition("(")
        there = {*inspect.signature(getattr(AgentReplay, name)).parameters} - {"self"} if called else set()
        assert {*re.findall(r"\b([a-z_]+)\b(?==|,|\)| *\*)", arguments)} >= there, row[0]


def test_every_name_of_the_run_and_every_argument_of_its_assertions():
    assert {*names("fixture-and-assertions.md", "The run")} == members(RunView)
    told = {*re.findall(r"`([a-z_]+)`", section("fixture-and-assertions.md", "The run"))}
    assert {*TurnView.__dataclass_fields__, *ToolCallView.__dataclass_fields__} <= told
    text = section("fixture-and-assertions.md", "`assert_turn`")
    parameters = {*inspect.signature(RunView.assert_turn).parameters} - {"self", "number"}
    assert [name for name in parameters if f"`{name}`" not in text] == []


def test_the_page_of_the_api_has_every_public_name():
    hooks = [name for name in vars(hookspec) if name.startswith("pytest_agentreplay_")]
    modules = {
        "": pytest_agentreplay.__all__,
        ".capture": capture.__all__,
        ".plugins": plugins.__all__,
        ".hookspec": hooks,
    }
    public = {f"pytest_agentreplay{module}.{name}" for module, names in modules.items() for name in names}
    assert sorted(list_api_names()) == sorted(public - {"pytest_agentreplay.__version__"})


def test_every_field_that_an_author_of_another_package_fills_in_is_documented():
    for each in (
        plugins.HttpClient,
        plugins.HttpCall,
        plugins.HttpReply,
        plugins.ModelCall,
        plugins.ToolRun,
        plugins.Trace,
    ):
        documented = re.findall(r"^        (\w+): ", each.__doc__.partition("Attributes:")[2], re.MULTILINE)
        assert sorted(documented) == sorted(each.__dataclass_fields__), each


def test_the_rules_page_knows_the_actions_scopes_and_the_way_of_headers():
    text = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
    words = {rule.action for rule in RULES} | {rule.scope for rule in RULES} | {"header", "query"}
    assert [word for word in words if word not in text] == []
    assert "content-type" in MATCHED_HEADERS


def test_paths_find_what_their_page_says():
    tree = json.loads(re.search(r"^```json\n(.*?)^```", section("paths.md", "Steps"), re.MULTILINE | re.DOTALL)[1])
    rows = [*table("paths.md", "Steps"), *table("paths.md", "Filters")]
    assert len(rows) == 20
    for path, _, places in rows if NEWEST else ():
        found = compile_path(code(path).replace("\\|", "|")).find(tree)
        assert [show(place) for place, _ in found] == re.findall(r"`(.*?)`", places), path


def test_every_model_api():
    rows = table("model-apis.md", "Model APIs: what is read")
    for (name, paths, _), dialect in zip(rows, list_ours(), strict=True):
        shown = re.findall(r"`(.*?)`", paths)
        assert shown
        assert code(name) == dialect.name
        assert all(dialect.matches_path("/v1/models/m" + path if path.startswith(":") else path) for path in shown), (
            dialect.name
        )


def test_every_operator_of_fuzzing_under_its_label():
    labels = {"transparent": "transparent", "in recorded order": "robust", "opaque": "opaque", "request": "request"}
    rows = {labels[row[0]]: row[1] for row in table("../how-to/fuzz-a-fix.md", "What is tried")}
    drawn = {name: operator.label for name, operator in OPERATORS.items() if name not in NOT_DRAWN}
    assert {name: label for label, cell in rows.items() for name in re.findall(r"`(.*?)`", cell)} == drawn


def test_every_invariant_of_fuzzing():
    listed = [line[:22].strip() for line in invariants.__doc__.splitlines()[2:] if line[:1].strip()]
    assert [row[0] for row in table("../how-to/fuzz-a-fix.md", "What must hold")] == listed


def test_every_library_and_every_trace_format_that_is_read():
    rows = table("boundaries.md", "Boundaries")
    assert sorted(name for row in rows for name in re.findall(r"`(.*?)`", row[1])) == sorted(PATCHES)
    assert sorted(names("trace-formats.md", "The formats")) == sorted(form.name for form in OURS)
