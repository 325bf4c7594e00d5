"""The page about case files: every example is read and judged, every key, word and rule has its row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pytest_agentreplay.cases import fixtures
from pytest_agentreplay.cases.case import HALVES
from pytest_agentreplay.cases.checks import WORDS
from pytest_agentreplay.cases.checks.values import COMPARISONS
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.schema import fixtures as fixture_form
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


@pytest.mark.parametrize(("title", "text"), BLOCKS)
def test_every_example_is_read(title, text):
    if "fixtures/" in title:
        told = fixtures.read({title: text.encode()})
        written = next(answer for answer in told.fixtures[0].answers if answer.written)
        assert told.answer(told.tools[0], written.arguments) is written
        return
    whole = text if "schemaVersion" in text else HEAD + text
    case = parse.read(whole.encode(), file="case.yaml", folder=Path("some"))
    for half in HALVES:
        for result in judge(case, half, EVIDENCE).results:
            assert result.held in {True, False, None}


def test_the_first_example_reproduces_and_is_not_fixed():
    case = parse.read(BLOCKS[0][1].encode(), file="case.yaml", folder=Path("some"))
    assert judge(case, "observed", EVIDENCE).holds
    assert not judge(case, "desired", EVIDENCE).holds


@pytest.mark.parametrize(("word", "cells"), rows("Checks").items())
def test_the_example_of_a_word_is_judged(word, cells):
    example = cells[0].strip("`")
    assert example.startswith(f"{word}: ")
    case = parse.read(f"{HEAD}observed:\n- {example}\n".encode(), file="case.yaml", folder=Path("some"))
    assert case.observed[0].word == word
    assert judge(case, "observed", EVIDENCE).results[0].held in {True, False, None}


def test_every_key_word_and_rule_has_its_row():
    assert set(rows("Keys")) == set(model.model().model_fields)
    assert list(rows("Checks")) == list(WORDS)
    assert set(rows("Values")) == {*COMPARISONS, "path"}
    assert set(rows("Fixtures")) == {*fixture_form.KEYS, *fixture_form.OUTCOMES, "then"}
    assert set(rows("What is served")) == {"strict", "position", "arguments", "live"}
    code = "".join(
        (ROOT / "pytest_agentreplay" / name).read_text("utf-8")
        for name in ("cases/linting.py", "cases/contradictions.py", "case_files/case_linting.py")
    )
    used = set(re.findall(r'LintProblem\(\s*"(\w+)"|yield "(\w+)", \w+,|_at\(case, "\w+", "(\w+)"', code))
    named = {word for found in used for word in found if word} | set(
        re.findall(r'^[A-Z]+ = "(\w+)"$', code, re.MULTILINE)
    )
    assert set(rows("What lint says")) == named


def test_the_keys_of_a_source_are_told():
    source = model.model().model_json_schema()["$defs"]["Source"]["properties"]
    told = rows("Keys")["source"][0]
    assert all(f"`{key}`" in told for key in source)


def test_the_examples_are_yaml_of_everybody():
    for _, text in BLOCKS:
        assert yaml.safe_load(text)
