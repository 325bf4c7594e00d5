"""The reference pages say what the code says: every flag, key, keyword, verb, name and default, and no other."""

import argparse
import inspect
import re
from pathlib import Path

import pytest_agentreplay
from pytest_agentreplay import settings
from pytest_agentreplay.cases.turn import ToolCallView, TurnView
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.cli import build_parser
from pytest_agentreplay.core.rules import MATCHED_HEADERS
from pytest_agentreplay.dialects import all_dialects
from pytest_agentreplay.dialects.rules import RULES
from pytest_agentreplay.intercept.registry import PATCHES
from pytest_agentreplay.runs.fixture_handle import AgentReplay

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def section(page, heading):
    """The text of a page below a heading, up to the next one."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def table(text):
    """The cells of the first table in `text`, without its head."""
    rows = re.search(r"^\|.*?\n\|[ -|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert rows
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[1].splitlines()]


def code(cell):
    found = re.match(r"`(.*?)`", cell)
    return found[1] if found else ""


def test_every_flag():
    shown = [code(row[0]) for row in table(section("settings.md", "Flags"))]
    there = [
        f"{flag}={options['metavar']}" if "metavar" in options else flag
        for flag, options in settings.OPTIONS
        if options["help"] is not argparse.SUPPRESS
    ]
    assert shown == there


def test_every_ini_key_with_type_and_default():
    shown = [(code(key), kind, code(default)) for key, kind, default, _ in table(section("settings.md", "Ini keys"))]
    there = []
    for key, options in settings.INI:
        default = options["default"]
        plain = default if isinstance(default, str) else ""
        there.append((key, options["type"], plain))
        if options["type"] == "bool":
            cell = next(row[2] for row in table(section("settings.md", "Ini keys")) if code(row[0]) == key)
            assert cell == str(default).lower(), key
        else:
            assert default in (plain, []), key
    assert shown == there
    for key, _ in settings.INI:
        assert f"\n{key} =" in section("settings.md", "Ini keys"), f"{key} is not in the example"


def test_every_marker_keyword():
    text = section("settings.md", "The marker")
    assert [code(row[0]) for row in table(text)] == list(settings.MARKER)
    for keyword in settings.MARKER:
        assert f"{keyword}=" in text, f"{keyword} is not in the example"


def test_every_verb_with_its_arguments():
    verbs = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    shown = {}
    for row in table(section("command-line.md", "The command line")):
        verb, _, rest = code(row[0]).partition(" ")
        shown.setdefault(verb, set()).update(re.findall(r"--[a-z][a-z-]*", rest))
    assert list(shown) == list(verbs)
    for verb, parser in verbs.items():
        there = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
        assert shown[verb] == there - {"--help"}, verb


def test_every_exit_code():
    from pytest_agentreplay.cli import saying

    shown = {int(row[0]) for row in table(section("command-line.md", "Exit codes"))}
    assert shown == {value for name, value in vars(saying).items() if name.isupper() and isinstance(value, int)}


def names(cls):
    ours = [one for one in cls.__mro__ if one.__module__.startswith("pytest_agentreplay")]
    return {name for one in ours for name in vars(one) if not name.startswith("_")}


def test_every_name_of_the_fixture():
    text = section("fixture-and-assertions.md", "`agentreplay`")
    shown = {code(row[0]).lstrip(".").partition("(")[0]: code(row[0]) for row in table(text)}
    assert set(shown) == names(AgentReplay)
    for name, signature in shown.items():
        if "(" in signature:
            there = {p for p in inspect.signature(getattr(AgentReplay, name)).parameters if p != "self"}
            assert set(re.findall(r"\b([a-z_]+)\b(?==|,|\)| *\*)", signature.partition("(")[2])) >= there, signature


def test_every_name_of_the_run():
    text = section("fixture-and-assertions.md", "The run")
    assert {code(row[0]).lstrip(".").partition("(")[0] for row in table(text)} == names(RunView)
    said = set(re.findall(r"`([a-z_]+)`", text))
    for cls in (TurnView, ToolCallView):
        assert set(cls.__dataclass_fields__) <= said


def test_every_argument_of_the_assertions():
    text = section("fixture-and-assertions.md", "`assert_turn`")
    for name in inspect.signature(RunView.assert_turn).parameters:
        assert name in {"self", "number"} or f"`{name}`" in text, name


def test_every_public_name():
    text = section("fixture-and-assertions.md", "Snapshots by hand")
    listed = set(re.findall(r"`(\w+)`", text.partition("Public names of")[2])) - {"pytest_agentreplay"}
    assert listed - {"BaseException"} == set(pytest_agentreplay.__all__)


def test_the_rules_page_knows_the_actions_scopes_and_the_way_of_headers():
    text = (REFERENCE / "rules.md").read_text(encoding="utf-8")
    for word in {rule.action for rule in RULES} | {rule.scope for rule in RULES} | {"header", "query"}:
        assert word in text, word
    assert "content-type" in MATCHED_HEADERS


def test_every_model_api():
    rows = table(section("model-apis.md", "Model APIs: what is read"))
    assert [code(row[0]) for row in rows] == [dialect.name for dialect in all_dialects()]
    for (_, paths, _), dialect in zip(rows, all_dialects(), strict=True):
        shown = re.findall(r"`(.*?)`", paths)
        assert shown
        assert all(dialect.at("/v1/models/m" + path if path.startswith(":") else path) for path in shown), dialect.name


def test_every_library_that_is_met():
    shown = [
        name
        for _, modules, *_ in table(section("boundaries.md", "Boundaries"))
        for name in re.findall(r"`(.*?)`", modules)
    ]
    assert sorted(shown) == sorted(PATCHES)
