"""`agentreplay case lint`: what is wrong with a case, where, and the exit code; and that strangers' files do nothing."""

from __future__ import annotations

import json
import os
import sys

import pytest

from pytest_agentreplay import cli
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.snapshots import codec
from tests.support.chat_runs import loop, refund

CASE = """\
schemaVersion: "1.0"
id: lost-order
source: {file: source-trace.jsonl}
observed:
  - tool_failed: issue_refund
desired:
  - output: {not_contains: refunded}
"""
FIXTURE = "tool: issue_refund\nanswers:\n- {arguments: {order_id: A-1001, amount: 20}, result: 1, recorded: true}\n"
TOKEN = "ghp_" + "a1B2c3D4" * 4 + "e5F6"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "cases" / "lost-order"
    (here / "fixtures").mkdir(parents=True)
    (here / "case.yaml").write_text(CASE, "utf-8")
    (here / "run.snapshot.json").write_text(codec.dumps(refund()), "utf-8")
    (here / "fixtures" / "issue_refund-1.yaml").write_text(FIXTURE, "utf-8")
    (here / "source-trace.jsonl").write_text("{}\n", "utf-8")
    (here / "notes.md").write_text("# What happened\n", "utf-8")
    return here


def lint(capsys, *words):
    code = cli.main(["case", "lint", *words])
    return code, capsys.readouterr().out


def rules(capsys, *words):
    code, out = lint(capsys, "--json", *words)
    rows = json.loads(out)["cases"][0]["complaints"]
    return code, {(row["rule"], row["level"]): row for row in rows}


def test_a_good_case_has_nothing_wrong(folder, capsys):
    assert lint(capsys) == (0, "1 case: 0 errors, 0 warnings\n")
    assert lint(capsys, "cases/lost-order")[0] == 0
    assert lint(capsys, "cases/lost-order/case.yaml")[0] == 0


WRONG = [
    ("id: lost-order", "id: other", "id", "id is other, and the folder is called lost-order"),
    ("jsonl}", "json}", "missing", "source.file is source-trace.json"),
    ("tool_failed: issue_refund", "tool_failed: lookup_order", "untrue", "did not fail"),
    ("output: {not_contains: refunded}", "output: {contains: refunded}", "trivial", "says nothing about a fix"),
    ("output: {not_contains: refunded}", "turns: {at_least: 0}", "trivial", "every run has turns"),
    ("output: {not_contains: refunded}", "tool_called: {name: a, at_least: 0}", "trivial", "at least 0 times"),
    ("output: {not_contains: refunded}", "tool_order: {subsequence: []}", "trivial", "no call at all"),
    ("output: {not_contains: refunded}", "tool_failed: issue_refund", "contradictory", "the same check"),
    ("desired:", "expect: fixed\nx-desired:", "empty", "expect: fixed needs desired"),
    ("observed:", "x-observed:", "empty", "expect: reproduces needs observed"),
    ("observed:", "titel: x\nobserved:", "unreadable", "did you mean title?"),
]


def test_what_is_wrong_is_told_with_its_rule(folder, capsys):
    for old, new, rule, told in WRONG:
        (folder / "case.yaml").write_text(CASE.replace(old, new), "utf-8")
        code, found = rules(capsys)
        assert code == 1, new
        assert found[rule, "error"]["file"].endswith("case.yaml")
        assert f"[{rule}]" in (out := lint(capsys)[1])
        assert told in out


CONTRADICTORY = [
    ["tool_called: mail", "tool_not_called: mail"],
    ["tool_called: {name: mail, arguments: {to: a}}", "forbidden_tools: [mail]"],
    ["tool_called: {name: mail, at_most: 2}", "tool_called: {name: mail, at_least: 3}"],
    ["tool_called: {name: mail, arguments: {to: a}}", "tool_not_called: {name: mail, arguments: {to: a}}"],
    ["tool_order: {subsequence: [mail]}", "tool_not_called: mail"],
    ["tool_order: {equal: [a]}", "tool_order: {equal: [b]}"],
    ["tool_failed: mail", "tool_not_called: mail"],
    ["turns: {at_most: 2}", "turns: {at_least: 3}"],
    ["status: ok", "status: error"],
    ["output: {equals: a}", "output: {equals: b}"],
    ["output: {contains: ab}", "output: {not_contains: b}"],
    ["output: {exists: false}", "output: {matches: a}"],
    ["output: {exists: false}", "output: {exists: true}"],
]


def checked(folder, capsys, checks):
    """The complaints about a case that desires these checks."""
    lines = "".join(f"  - {check}\n" for check in checks)
    (folder / "case.yaml").write_text(CASE.partition("  - output")[0] + lines, "utf-8")
    return rules(capsys)[1]


def test_two_checks_that_no_run_satisfies(folder, capsys):
    for checks in (*CONTRADICTORY, *(checks[::-1] for checks in CONTRADICTORY)):
        row = checked(folder, capsys, checks)["contradictory", "error"]
        assert "no run can show this and" in row["message"], checks
        assert row["place"] == "8:5"


POSSIBLE = [
    ["tool_called: {name: mail, arguments: {to: a}}", "tool_not_called: {name: mail, arguments: {to: b}}"],
    ["tool_called: {name: mail, at_least: 0, at_most: 1}", "tool_not_called: mail"],
    ["tool_called: {name: mail, at_most: 2}", "tool_called: {name: mail, arguments: {to: a}, at_least: 3}"],
    ["output: {contains: ab}", "output: {not_contains: c}"],
    ["output: {path: $.a, equals: 1}", "output: {path: $.b, equals: 2}"],
    ["turns: {at_most: 3}", "turns: {at_least: 3}"],
    ["error: KeyError", "status: ok"],
]


def test_two_checks_that_a_run_may_satisfy(folder, capsys):
    for checks in POSSIBLE:
        assert ("contradictory", "error") not in checked(folder, capsys, checks), checks


def test_fixtures_that_nothing_reaches(folder, capsys):
    written = FIXTURE.replace("recorded", "written")
    (folder / "fixtures" / "b-1.yaml").write_text(FIXTURE.replace("A-1001", "A-9"), "utf-8")
    (folder / "fixtures" / "c-1.yaml").write_text(written.replace("issue_refund", "mail"), "utf-8")
    (folder / "fixtures" / "d-1.yaml").write_text(written.replace("A-1001", "A-8"), "utf-8")
    code, found = rules(capsys)
    assert code == 1
    dead, unused = found["dead", "error"], found["dead", "warning"]
    assert (dead["file"], dead["place"]) == ("cases/lost-order/fixtures/b-1.yaml", "3:3")
    assert "no call of issue_refund in the frozen run has the arguments" in dead["message"]
    assert "no call of mail in the frozen run is there" in unused["message"]
    assert len(found) == 2, "one that a person wrote for a tool of the run is for calls to come"


def test_files_that_are_not_ours(folder, capsys):
    (folder / "__init__.py").write_text("raise SystemExit", "utf-8")
    (folder / "fixtures" / "x.py").write_text("raise SystemExit", "utf-8")
    code, out = lint(capsys)
    assert code == 0
    assert "warning: __init__.py is no file of a case" in out
    assert "warning: fixtures/x.py is no file of a case" in out


def test_what_should_have_come_off(folder, capsys):
    (folder / "notes.md").write_text(f"it used\nthe token {TOKEN}\n", "utf-8")
    code, out = lint(capsys)
    assert code == 1
    assert "cases/lost-order/notes.md:2:" in out
    assert "holds what should have come off" in out
    assert ": take it out [unredacted]" in out, "agentreplay redact takes snapshots"
    assert TOKEN not in out
    (folder / "notes.md").write_text("call erika.muster@example.com", "utf-8")
    assert lint(capsys)[0] == 0
    assert lint(capsys, "--policy", "pii")[0] == 1


def test_words_of_other_packages_are_a_warning(folder, capsys):
    (folder / "case.yaml").write_text(CASE + "  - polite: very\n", "utf-8")
    code, found = rules(capsys)
    assert code == 0
    assert "'polite' is no word of a check" in found["word", "warning"]["message"]


def test_a_cold_case_says_what_is_missing(folder, capsys):
    (folder / "run.snapshot.json").unlink()
    assert "there is no run.snapshot.json" in lint(capsys)[1]
    cold = CASE.replace("observed:", "expect: cold\ncold: {reason: results were not kept}\nobserved:")
    (folder / "case.yaml").write_text(cold, "utf-8")
    code, found = rules(capsys)
    assert code == 0
    assert "a cold case lists what a replay would need" in found["cold", "warning"]["message"]
    whole = cold.replace("not kept}", "not kept, missing: [result of lookup_order]}")
    (folder / "case.yaml").write_text(whole, "utf-8")
    assert lint(capsys)[0] == 0


def test_a_run_without_an_output_says_so(folder, capsys):
    (folder / "run.snapshot.json").write_text(codec.dumps(loop()), "utf-8")
    (folder / "fixtures" / "issue_refund-1.yaml").unlink()
    checks = "observed:\n  - output: {exists: false}\n  - repeated_call: {name: search, at_least: 5}\n"
    (folder / "case.yaml").write_text(CASE.partition("observed")[0] + checks + "  - output: {contains: x}\n", "utf-8")
    code, found = rules(capsys)
    assert (code, [*found]) == (1, [("contradictory", "error"), ("untrue", "error")])
    assert "cannot say: there is no output" in found["untrue", "error"]["message"]


def test_exit_codes_and_the_schema_for_editors(folder, capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    assert lint(capsys, "empty")[0] == 5
    assert lint(capsys, "nowhere")[0] == 2
    (folder / "run.snapshot.json").write_text("{", "utf-8")
    assert lint(capsys)[0] == 4
    assert rules(capsys)[1]["damaged", "error"]["file"] == "cases/lost-order/run.snapshot.json"
    code, out = lint(capsys, "--schema")
    assert (code, json.loads(out)) == (0, json.loads(json.dumps(model.schema())))


def test_many_cases_are_linted_below_a_folder(folder, capsys, tmp_path):
    other = tmp_path / "cases" / "deep" / "second"
    other.mkdir(parents=True)
    (other / "case.yaml").write_text("a: [", "utf-8")
    code, out = lint(capsys)
    assert code == 1
    assert out.endswith("2 cases: 1 error, 0 warnings\n")
    assert "cases/deep/second/case.yaml:2:1: error: is no YAML" in out


# Strangers


def test_what_a_file_says_cannot_act_on_a_terminal(folder, capsys):
    title = 'title: "x\\e[2J\\u202e"'
    (folder / "case.yaml").write_text(CASE.replace("observed:", f'"\\e[31mkey": 1\n{title}\nobserved:', 1), "utf-8")
    code, out = lint(capsys)
    assert code == 1
    assert "\x1b" not in out
    assert "\u202e" not in out


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_are_not_followed(folder, capsys, tmp_path):
    codes = {"run.snapshot.json": 4, "fixtures/issue_refund-1.yaml": 1, "notes.md": 0, "fixtures": 1, "case.yaml": 1}
    for name, expected in codes.items():
        here, target = folder / name, tmp_path / "elsewhere"
        here.rename(target)
        here.symlink_to(target)
        (folder / "loop").symlink_to(folder, target_is_directory=True)
        code, out = lint(capsys)
        assert code == expected, name
        assert "not followed" in out or f"{name} is no file of a case" in out
        assert "loop is no file of a case" in out or name == "case.yaml"
        (folder / "loop").unlink()
        here.unlink()
        target.rename(here)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are those of POSIX")
def test_a_pipe_is_not_waited_for(folder, capsys):
    (folder / "fixtures" / "issue_refund-1.yaml").unlink()
    os.mkfifo(folder / "fixtures" / "issue_refund-1.yaml")
    assert lint(capsys)[0] == 1
