"""The page about case files: every example is read and judged, every key, word and rule has its row."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from pytest_agentreplay.cases import fixtures
from pytest_agentreplay.cases.case import LIST_NAMES
from pytest_agentreplay.cases.checks.values import COMPARISONS
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import WORDS, judge
from pytest_agentreplay.cases.schema import model, parse
from tests.support.chat_runs import refund

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "case.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml(?: title=\"([^\"]+)\")?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
HEAD = 'schemaVersion: "1.0"\nid: some\n'
EVIDENCE = frozen(refund())


def rows(heading):
    text = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in cells}


def case_of(text):
    return parse.read_case(text.encode(), file="case.yaml", folder=Path("some"))


def judged(case):
    return [result.holds for half in LIST_NAMES for result in judge(case, half, EVIDENCE).results]


def test_every_example_is_read_and_the_first_reproduces_and_is_not_fixed():
    for title, text in BLOCKS:
        assert yaml.safe_load(text), "YAML of everybody"
        if "fixtures/" in title:
            told = fixtures.read_fixtures({title: text.encode()})
            written = next(answer for answer in told.fixtures[0].answers if answer.written)
            assert told.answer(told.tools[0], written.arguments) is written
        else:
            assert {*judged(case_of(text if "schemaVersion" in text else HEAD + text))} <= {True, False, None}
    first = case_of(BLOCKS[0][1])
    assert judge(first, "observed", EVIDENCE).holds
    assert not judge(first, "desired", EVIDENCE).holds


def test_the_example_of_each_word_is_judged():
    for word, cells in rows("Checks").items():
        case = case_of(f"{HEAD}observed:\n- {cells[0].strip('`')}\n")
        assert [check.word for check in case.observed] == [word]
        assert judged(case)[0] in {True, False, None}


def test_every_key_word_and_rule_has_its_row():
    assert set(rows("Keys")) == set(model.model().model_fields)
    assert list(rows("Checks")) == list(WORDS)
    assert set(rows("Values")) == {*COMPARISONS, "path"}
    assert set(rows("Fixtures")) == {*fixtures.KEYS, *fixtures.OUTCOMES, "then"}
    assert set(rows("What is served")) == {"strict", "position", "arguments", "live"}
    files = ("cases/linting.py", "runs/case_files/case_linting.py")
    code = "".join((ROOT / "pytest_agentreplay" / name).read_text("utf-8") for name in files)
    used = re.findall(r'LintProblem\(\s*"(\w+)"|yield "(\w+)", \w+,|_make_problem\(\s*case, "\w+", "(\w+)"', code)
    named = {*re.findall(r'^[A-Z]+ = "(\w+)"$', code, re.MULTILINE), *filter(None, sum(used, ()))}
    assert set(rows("What lint says")) == named
    source = model.model().model_json_schema()["$defs"]["Source"]["properties"]
    assert all(f"`{key}`" in rows("Keys")["source"][0] for key in source)
