"""What is the same in each test of a session is looked through once."""

import importlib.metadata
import sys

import pytest

from pytest_agentreplay.core import matching
from pytest_agentreplay.core.model import Body, HttpCall
from pytest_agentreplay.core.rules import Rule
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.redact import redaction_factory
from pytest_agentreplay.runs import replay_kit

ENVIRON = {"SHOP_API_KEY": "looked-through-once-4711", "LANG": "C.UTF-8"}


@pytest.fixture
def looked(monkeypatch):
    """The environments that were searched for secrets."""
    seen = []
    search = redaction_factory.secret_environment

    def counting(environ, names=()):
        seen.append(dict(environ))
        return search(environ, names)

    monkeypatch.setattr(redaction_factory, "secret_environment", counting)
    redaction_factory.looked_through.cache_clear()
    return seen


def test_the_environment_is_searched_once_for_all_tests(looked):
    for number in range(3):
        environ = ENVIRON | {"PYTEST_CURRENT_TEST": f"test_shop.py::test_{number} (setup)"}
        assert ENVIRON["SHOP_API_KEY"] not in redaction_factory.redaction_for(environ).hide(
            f"key {ENVIRON['SHOP_API_KEY']}"
        )
    assert looked == [ENVIRON]


def test_another_environment_is_searched_anew(looked):
    redaction_factory.redaction_for(ENVIRON)
    changed = ENVIRON | {"OTHER_TOKEN": "known-from-now-on-4712"}
    assert "known-from-now-on" not in redaction_factory.redaction_for(changed).hide("known-from-now-on-4712")
    assert looked == [ENVIRON, changed]


def test_a_password_among_the_parameters_of_a_test_is_known(looked):
    environ = ENVIRON | {"PYTEST_CURRENT_TEST": "test_db.py::test_x[db://ada:parameter-4713@host/x] (call)"}
    assert "parameter-4713" not in redaction_factory.redaction_for(environ).hide("it is parameter-4713")


def test_libraries_are_met_once_and_again_where_the_finder_was_taken_away(monkeypatch):
    registry.install()
    asked = []
    monkeypatch.setattr(registry, "when_imported", lambda library, act: asked.append(library))
    registry.install()
    assert not asked
    monkeypatch.setattr(sys, "meta_path", [])
    registry.install()
    assert asked == [*registry.PATCHES]


def test_the_rules_of_a_project_are_sorted_once(monkeypatch):
    made = []

    def counting(rules):
        made.append([*rules])
        return table(made[-1])

    table = matching.RuleTable
    monkeypatch.setattr(matching, "RuleTable", counting)
    matching._table_of.cache_clear()
    call = HttpCall("POST", "https://api.test/orders", (), Body(b'{"order": 1, "noise": 2}'))
    noise = Rule("http", "body", "$.noise", "drop", "of this test")
    keys = {matching.Matching(READER, (*RULES, noise)).key_alone(call) for _ in range(3)}
    assert len(keys) == 1
    assert len(made) == 1
    assert matching.Matching(READER, RULES).key_alone(call) not in keys
    assert len(made) == 2


def test_the_metadata_of_installed_packages_is_read_once(monkeypatch):
    asked = []
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: asked.append(name) or version(name))
    replay_kit.installed_version.cache_clear()
    told = [replay_kit.versions() for _ in range(3)]
    assert told[0] == told[1] == told[2]
    assert told[0]["pytest"] == version("pytest")
    assert len(asked) == len(set(asked)) > 0
