"""Which variables a recording names as keys, and which a replay sets placeholders for."""

import os

from pytest_agentreplay.intercept.environment.machine import PLACEHOLDER, MissingKeys, set_offline
from pytest_agentreplay.redaction.secret_names import key_variables


def test_a_library_that_would_ask_while_it_is_imported_is_told_to_do_without(monkeypatch):
    name = "LITELLM_LOCAL_MODEL_COST_MAP"
    for before, within in ((None, "True"), ("False", "False")):
        monkeypatch.delenv(name, raising=False) if before is None else monkeypatch.setenv(name, before)
        with set_offline():
            assert os.environ[name] == within
        assert os.environ.get(name) == before


def test_variables_of_one_value_are_one_group_and_those_that_were_not_sent_are_left_out():
    environ = {"SHOP_API_KEY": "k-1", "OTHER_TOKEN": "k-1 ", "THIRD_KEY": "k-2", "SPARE_KEY": "k-3", "HOME": "k-1"}
    assert key_variables(environ, {"k-1", "k-2"}.__contains__) == [["OTHER_TOKEN", "SHOP_API_KEY"], ["THIRD_KEY"]]


def test_the_secret_that_signs_comes_with_the_key_that_is_sent():
    environ = {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert key_variables(environ, {"AKIA1"}.__contains__) == [["AWS_ACCESS_KEY_ID"], ["AWS_SECRET_ACCESS_KEY"]]
    assert key_variables(environ, {"secret"}.__contains__) == [["AWS_SECRET_ACCESS_KEY"]]


NO_KEYS = [
    None,
    7,
    {"SHOP_KEY": ["SHOP_KEY"]},
    ["SHOP_KEY"],
    [[7, None, ["SHOP_KEY"]]],
    [["PATH_TO_NOTHING", "LD_PRELOAD", "PYTHONSTARTUP", "HTTPS_PROXY", "PYTEST_ADDOPTS"]],
    [["SHOP\nKEY", "SHOP=KEY", "", "SHOP KEY", "K" * 200 + "_KEY"]],
    [*[[]] * 60, ["SHOP_KEY"]],
]


def test_a_file_sets_nothing_but_variables_of_keys(monkeypatch):
    monkeypatch.delenv("SHOP_KEY", raising=False)
    before = dict(os.environ)
    for stored in NO_KEYS:
        keys = MissingKeys(stored)
        keys.start()
        assert dict(os.environ) == before, stored
        keys.stop()
        assert dict(os.environ) == before, stored


def test_what_is_set_stays_and_what_the_test_has_changed_stays_changed(monkeypatch):
    for name, value in (("SET_KEY", "mine"), ("EMPTY_KEY", ""), ("GONE_KEY", None), ("OTHER_KEY", None)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    keys = MissingKeys([["SET_KEY"], ["EMPTY_KEY", "GONE_KEY"], ["OTHER_KEY"]])
    keys.start()
    assert os.environ["SET_KEY"] == "mine"
    assert os.environ["EMPTY_KEY"] == os.environ["GONE_KEY"] == f"{PLACEHOLDER}-2"
    assert os.environ["OTHER_KEY"] == f"{PLACEHOLDER}-3"
    del os.environ["GONE_KEY"]
    monkeypatch.setenv("OTHER_KEY", "of the test")
    keys.start()
    assert "GONE_KEY" not in os.environ
    keys.stop()
    keys.stop()
    assert os.environ["EMPTY_KEY"] == ""
    assert os.environ["OTHER_KEY"] == "of the test"
    assert "GONE_KEY" not in os.environ
