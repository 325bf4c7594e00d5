"""A replay by a program: by ids as pytest writes them, without a key, and without a trace in the project."""

import pytest

from pytest_agentreplay.cli.offline_pytest import is_credential, replay_tests
from pytest_agentreplay.errors import AgentReplayError

pytestmark = pytest.mark.process

TESTS = """
import os, unittest
import pytest

class TestAll:
    @pytest.mark.parametrize("text", ["a::b", "c[d]", "e.f"])
    def test_text(self, text):
        assert text != "c[d]", "this one fails"

    def test_skipped(self):
        pytest.skip("not today")

class TestOld(unittest.TestCase):
    def test_old(self):
        pass

@pytest.fixture
def breaks():
    yield
    raise OSError("the teardown breaks")

def test_teardown(breaks):
    pass
"""
TEXT = "tests/test_a.py::TestAll::test_text"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_agentreplay.plugin")
    return tmp_path


def test_results_have_the_ids_of_pytest_and_the_project_is_as_it_was(folder):
    before = sorted(folder.rglob("*"))
    outcomes = {result.test: result.outcome for result in replay_tests(folder, ["tests"])}
    assert outcomes == {
        f"{TEXT}[a::b]": "passed",
        f"{TEXT}[c[d]]": "failed",
        f"{TEXT}[e.f]": "passed",
        "tests/test_a.py::TestAll::test_skipped": "skipped",
        "tests/test_a.py::TestOld::test_old": "passed",
        "tests/test_a.py::test_teardown": "failed",
    }
    assert sorted(folder.rglob("*")) == before
    [result] = replay_tests(folder, [f"{TEXT}[c[d]]"])
    assert (result.test, "this one fails" in result.headline, "this one fails" in result.text) == (
        f"{TEXT}[c[d]]",
        True,
        True,
    )


@pytest.mark.parametrize("flags", ["--snapshot-record", "--replay live --replay-runs=2", "--snapshot-record-missing"])
def test_flags_of_the_project_neither_record_nor_go_live(folder, monkeypatch, flags):
    test = "tests/test_b.py::test_mode"
    code = "def test_mode(pytestconfig):\n    option = pytestconfig.option\n    assert not option.agentreplay_record\n"
    code += "    assert (option.agentreplay_replay, option.agentreplay_mode, option.maxfail) == (None, 'model', 7)\n"
    (folder / "tests/test_b.py").write_text(code, encoding="utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts =\n    {flags}\n    --maxfail=7\n", encoding="utf-8")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p pytest_agentreplay.plugin {flags}")
    [result] = replay_tests(folder, [test])
    assert (result.test, result.outcome) == (test, "passed"), result.text


def test_what_pytest_cannot_run_is_an_error_with_its_reason(folder):
    with pytest.raises(AgentReplayError, match=r"pytest could not replay it: ERROR: not found: .*test_nope"):
        replay_tests(folder, ["tests/test_a.py::test_nope"])


def test_a_module_that_cannot_be_imported_fails_under_its_own_name(folder):
    (folder / "tests/test_a.py").write_text("import nope_nope", encoding="utf-8")
    [result] = replay_tests(folder, [TEXT])
    assert (result.test, result.outcome) == ("tests/test_a.py", "failed")
    assert "No module named 'nope_nope'" in result.text


@pytest.mark.parametrize(
    ("name", "value", "stays"),
    [
        ("OPENAI_API_KEY", "x", False),
        ("GITHUB_TOKEN", "whatever-it-is", False),
        ("ODD", "sk-proj-0123456789abcdef0123456789abcdef0123456789abcdef", False),
        ("DATABASE_URL", "postgresql://shop:hunter2-and-more@db/shop", False),
        ("PATH", "/usr/bin", True),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1", True),
        ("SHOP_REGION", "eu", True),
    ],
)
def test_a_key_is_known_by_its_name_or_its_value(name, value, stays):
    assert is_credential(name, value) is not stays
