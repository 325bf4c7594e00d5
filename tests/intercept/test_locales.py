"""The locale of a recording, where this machine has it; a file names locales and nothing else."""

import locale
import os

import pytest

from pytest_agentreplay.intercept.environment import machine
from pytest_agentreplay.intercept.environment.machine import Locale, read_categories, read_locale


def another():
    """A locale of this machine that is not the one in force."""
    for name in ("C.UTF-8", "C.utf8", "en_US.UTF-8", "German_Germany.1252", "POSIX"):
        if machine.choose("LC_TIME", name):
            chosen = locale.setlocale(locale.LC_TIME)
            locale.setlocale(locale.LC_TIME, "C")
            if chosen != "C":
                return chosen
    return pytest.skip("this machine has one locale")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    before = read_categories()
    for category in machine.CATEGORIES:
        locale.setlocale(getattr(locale, category), "C")
    for name in machine.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    for category, name in before.items():
        locale.setlocale(getattr(locale, category), name)


def test_it_comes_back_and_goes_again(monkeypatch):
    name = another()
    locale.setlocale(locale.LC_TIME, name)
    monkeypatch.setenv("LC_TIME", name)
    stored = read_locale(os.environ)
    assert stored == {"now": {"LC_TIME": name}, "variables": {"LC_TIME": name}}
    locale.setlocale(locale.LC_TIME, "C")
    locale.setlocale(locale.LC_NUMERIC, name)  # what is not named was "C"
    monkeypatch.delenv("LC_TIME")
    monkeypatch.setenv("LANG", "sv_SE.UTF-8")
    held = Locale(stored)
    held.start()
    assert read_locale(os.environ) == stored
    assert read_categories()["LC_NUMERIC"] == "C"
    assert held.missing == []
    held.stop()
    held.stop()
    assert (read_categories()["LC_TIME"], os.environ.get("LC_TIME"), os.environ["LANG"]) == ("C", None, "sv_SE.UTF-8")


def test_what_the_agent_chose_itself_stays():
    name = another()
    held = Locale({"now": {"LC_TIME": name}})
    held.start()
    locale.setlocale(locale.LC_TIME, "C")
    locale.setlocale(locale.LC_NUMERIC, name)
    held.stop()
    assert (read_categories()["LC_TIME"], read_categories()["LC_NUMERIC"]) == ("C", name)


def test_what_this_machine_does_not_have_is_named():
    held = Locale({"now": {"LC_TIME": "xx_XX.UTF-8", "LC_NUMERIC": "C"}, "variables": {"LANG": "xx_XX.UTF-8"}})
    held.start()
    assert held.missing == ["LC_TIME=xx_XX.UTF-8"]
    assert read_categories()["LC_TIME"] == "C"
    assert os.environ["LANG"] == "xx_XX.UTF-8"
    held.stop()
    assert "LANG" not in os.environ


HOSTILE = ["/etc/passwd", "../../x", "a\nb", "", "é", "x" * 99, 7, None, ["C"]]


def test_what_is_no_name_never_reaches_the_system(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(machine, "choose", lambda *_: pytest.fail("a locale was set"))
        for name in HOSTILE:
            for stored in ({"now": {"LC_TIME": name}}, {"variables": {"LANG": name}}, {"now": name}, name):
                held = Locale(stored)
                held.start()
                assert "LANG" not in os.environ, name
                held.stop()
    monkeypatch.delenv("AGENT_X", raising=False)
    held = Locale({"now": {"LC_ALL": "C", "TZ": "UTC"}, "variables": {"AGENT_X": "C", "PATH": "C"}})
    held.start()
    assert "AGENT_X" not in os.environ
    assert os.environ["PATH"] != "C"
    held.stop()
