"""The JSON Schemas that are shipped are those of the models, and say what the reader says.

By the newest pydantic, since releases write them differently.
"""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given

from pytest_agentreplay import cases
from pytest_agentreplay.cases import render, result
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.snapshots.codec import strict_yaml
from tests.cases.test_case_files import CASES, FULL, HEAD, REFUSED, read
from tests.cases.test_words import CANNOT_SAY, FAILS, HOLDS

pytestmark = pytest.mark.env("main")
BEYOND = (
    *("stands here twice", "no file of the folder", "no tool and place", "write ignore, unordered, exact", "more `..`"),
    *("the pattern", "column ", "more than at_most", "write tool_not_called", "which is none", "ends in no name"),
    *("'outptu' is no word", "'politeness' is no word"),  # packages add words
)
"""What no schema can say of a file: the reader alone does."""


def shipped(name):
    return json.loads(files(cases).joinpath(name).read_text("utf-8"))


@pytest.fixture(scope="module")
def editor():
    """Whether an editor takes the text of a case."""
    import jsonschema

    schema = shipped(model.SCHEMA)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    return lambda text: validator.is_valid(strict_yaml.load(text.encode(), file="", error=CaseError).value)


def test_those_of_a_case_and_of_a_result():
    schema = shipped(model.SCHEMA)
    assert schema == json.loads(json.dumps(model.schema()))
    assert set(schema["properties"]) == set(model.model().model_fields)
    assert schema["additionalProperties"] is False
    assert shipped(result.SCHEMA) == json.loads(json.dumps(result.schema()))


def test_an_editor_refuses_what_the_reader_refuses(editor):
    for text, _ in REFUSED:
        with pytest.raises(CaseError) as caught:
            read(HEAD + text)
        if not any(words in str(caught.value) for words in BEYOND):
            assert not editor(HEAD + text), caught.value


def test_an_editor_takes_what_the_reader_takes(editor):
    ours = [path.read_text("utf-8") for path in Path(__file__).parents[2].glob("cases/*/case.yaml")]
    assert ours
    for text in (FULL, HEAD, *ours):
        read(text, words=None)
        assert editor(text)
    for word, wanted, *_ in (*HOLDS, *FAILS, *CANNOT_SAY):
        text = HEAD + "observed: " + json.dumps([{word: wanted}])
        read(text)
        assert editor(text), text


@given(CASES)
def test_an_editor_takes_whatever_is_written(editor, case):
    assert editor(render.case_text(case))
