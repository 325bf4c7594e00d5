"""The JSON Schemas that are shipped are those of the models; by the newest pydantic, since releases write them differently."""

import json
from importlib.resources import files

import pytest

from pytest_agentreplay import cases
from pytest_agentreplay.cases import form_model, result

pytestmark = pytest.mark.env("main")


def shipped(name):
    return json.loads(files(cases).joinpath(name).read_text("utf-8"))


def test_that_of_a_case():
    schema = shipped(form_model.SCHEMA)
    assert schema == json.loads(json.dumps(form_model.schema()))
    assert set(schema["properties"]) == set(form_model.model().model_fields)
    assert schema["additionalProperties"] is False


def test_that_of_a_result():
    assert shipped(result.SCHEMA) == json.loads(json.dumps(result.schema()))
