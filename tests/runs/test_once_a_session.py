"""What is the same in each test of a session is looked through once."""

import importlib.metadata
import sys

import pytest

from pytest_agentreplay.compare.matching import Matching, key
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.model.exchanges import Body, HttpCall
from pytest_agentreplay.model.rules import Rule
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.redact import redaction_setup

ENVIRON = {"SHOP_API_KEY": "looked-through-once-4711", "LANG": "C.UTF-8"}


@pytest.fixture
def calls_of(monkeypatch):
    """Has each call of a function of a module noted: gives the list of their arguments."""

    def watch(module, name):
        seen, function = [], getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: seen.append(given) or function(*given))
        return seen

    return watch


def test_an_environment_is_searched_for_secrets_once_and_another_one_anew(calls_of):
    redaction_setup.read_environment.cache_clear()
    looked = calls_of(redaction_setup, "secret_environment")
    for number in range(3):
        environ = ENVIRON | {"PYTEST_CURRENT_TEST": f"test_shop.py::test_{number} (setup)"}
        assert "4711" not in redaction_setup.redaction_for(environ).hide(f"key {ENVIRON['SHOP_API_KEY']}")
    environ = ENVIRON | {"PYTEST_CURRENT_TEST": "test_db.py::test_x[db://ada:parameter-4713@host/x] (call)"}
    assert "parameter-4713" not in redaction_setup.redaction_for(environ).hide("it is parameter-4713")
    changed = ENVIRON | {"OTHER_TOKEN": "known-from-now-on-4712"}
    assert "known-from-now-on" not in redaction_setup.redaction_for(changed).hide("known-from-now-on-4712")
    assert [environ for environ, *_ in looked if "LANG" in environ] == [ENVIRON, changed]


def test_libraries_are_met_once_and_again_where_the_finder_was_taken_away(monkeypatch):
    registry.install()
    asked = []
    monkeypatch.setattr(registry, "when_imported", lambda library, act: asked.append(library))
    registry.install()
    assert not asked
    monkeypatch.setattr(sys, "meta_path", [])
    registry.install()
    assert asked == [*registry.PATCHES]


def test_the_rules_of_a_project_are_sorted_once(calls_of):
    made = calls_of(key, "RuleTable")
    key._make_table.cache_clear()
    call = HttpCall("POST", "https://api.test/orders", (), Body(b'{"order": 1, "noise": 2}'))
    noise = Rule("http", "body", "$.noise", "drop", "of this test")
    keys = {Matching(READER, (*RULES, noise)).key_alone(call) for _ in range(3)}
    assert (len(keys), len(made)) == (1, 1)
    assert Matching(READER, RULES).key_alone(call) not in keys
    assert len(made) == 2


def test_the_metadata_of_installed_packages_is_read_once(calls_of):
    version = importlib.metadata.version("pytest")
    asked = calls_of(importlib.metadata, "version")
    replay_kit.find_version.cache_clear()
    first, *others = [replay_kit.list_versions() for _ in range(3)]
    assert others == [first, first]
    assert first["pytest"] == version
    assert len(asked) == len(set(asked)) > 0
