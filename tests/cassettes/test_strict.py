"""`pytest --vcr=strict`: a stale request fails its test with our report, and nothing goes live."""

import pytest

from tests.support.small_projects import edited, flat, summary

pytestmark = pytest.mark.env("main")

TURNS = """
import asyncio, os, unittest
from concurrent.futures import ThreadPoolExecutor
import pytest, vcr
from vcr.unittest import VCRTestCase
import app

SECOND = "second"

@pytest.mark.vcr
def test_turns():
    try:
        app.by_httpx("first"), app.by_httpx(SECOND), app.by_httpx("third")
    except Exception:
        pass

@pytest.mark.vcr
def test_own():
    app.by_httpx(SECOND)
    assert "OWN" not in os.environ, "my own failure"

@pytest.mark.vcr
@pytest.mark.xfail(reason="known")
def test_excused():
    app.by_httpx(SECOND)
    assert False

class TestCase(VCRTestCase):
    def test_inherited(self):
        app.by_httpx(SECOND)

@pytest.fixture
def torn():
    yield
    with vcr.use_cassette("tapes/torn.yaml"):
        app.by_httpx(SECOND)

def test_torn(torn):
    pass

@pytest.fixture
def set_up():
    with vcr.use_cassette("tapes/up.yaml"):
        app.by_httpx(SECOND)

def test_set_up(set_up):
    pass

def order(names):
    names = [f"{name}. Where is it?" for name in names]
    names[0] = os.environ.get("FIRST", names[0])
    return sorted(names, reverse="REVERSED" in os.environ)

@pytest.mark.vcr
def test_parallel():
    async def ask():
        return await asyncio.gather(*map(app.by_httpx_async, order("abcd")))
    asyncio.run(ask())
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(app.by_requests, order("efgh")))
"""


@pytest.fixture(scope="module")
def turns(make_suite):
    suite = make_suite(test_turns=TURNS)
    hits = suite.server.hits
    with edited(suite, "test_turns.py", 'SECOND = "second"', 'SECOND = "another"'):
        suite.failed = suite.run("--vcr=strict", "-v", OWN="1", REVERSED="1")
    assert suite.server.hits == hits
    return suite


def test_a_stale_request_fails_its_test_whatever_catches_or_excuses_it(turns):
    done = turns.failed
    told = summary(done)
    stale = {"turns", "excused", "TestCase::test_inherited", "torn", "set_up"}
    assert all(told.pop(name).startswith("[AR-PROMPT] ") for name in stale), told
    assert told == {"own": "AssertionError: my own failure"}
    own = done.stdout.partition("_ test_own _")[2].partition("_ test_excused _")[0]
    assert "[AR-PROMPT] turn 1/1: model m-1: user text" in own


def test_the_report_names_turn_lines_cause_line_of_the_agent_cassette_and_commands(turns):
    told = flat(turns.failed).partition(" test_turns ___")[2].partition("____ test_own")[0]
    for words in (
        "[AR-PROMPT] turn 2/3: model m-1: user text $.messages[1].content",
        'recorded "second" now "another"',
        "likely cause the prompt was edited",
        "called from app.py:19 in by_httpx",
        "cassette cassettes/test_turns/test_turns.yaml, interaction 2",
        "record it again: pytest --record-mode=rewrite test_turns.py::test_turns",
        "list all that are stale: pytest --vcr=audit",
    ):
        assert words in told, told
    assert "agentreplay accept" not in turns.failed.stdout
    assert "the same change as in test_turns.py::test_turns" in told or "in 5 tests" in told


def test_the_commands_of_the_report_do_what_they_say(turns):
    with edited(turns, "test_turns.py", 'SECOND = "second"', 'SECOND = "another"'):
        told = flat(turns.run("--vcr=strict", "-k", "torn"))
        assert "delete tapes/torn.yaml, and record it again: pytest test_turns.py::test_torn" in told
        (turns.root / "tapes" / "torn.yaml").unlink()
        for words in (["--record-mode=rewrite", "test_turns.py::test_turns"], ["test_turns.py::test_torn"]):
            assert turns.run(*words).returncode == 0
        done = turns.run("--vcr=strict", "test_turns.py::test_turns", "test_turns.py::test_torn")
    assert "2 passed" in done.stdout
    assert "strict    2 tests, 4 requests, 2 cassettes: all equal" in done.stdout


def test_requests_in_another_order_get_their_own_replies_though_one_beside_them_has_changed(turns):
    assert "test_parallel PASSED" in turns.failed.stdout
    done = turns.run("--vcr=strict", "-k", "parallel", FIRST="A. Where is it?", REVERSED="1")
    assert "8 requests, 1 cassette: 6 equal, 2 stale" in done.stdout, "one of each group"


@pytest.mark.exhaustive
def test_workers_and_a_session_without_a_terminal_fail_alike(turns):
    with edited(turns, "test_turns.py", 'SECOND = "second"', 'SECOND = "other"'):
        done = turns.run("--vcr=strict", "-p", "xdist", "-n1", "-k", "torn")
        assert summary(done)["torn"].startswith("[AR-PROMPT] turn 1/1")
        assert turns.run("--vcr=strict", "-p", "no:terminal", "-k", "test_own").returncode == 1


OFFLINE = """
import pytest, vcr, app, httpx, os

@pytest.mark.parametrize("mode", ["once", "new_episodes", "all"])
def test_missing(mode):
    with vcr.use_cassette(f"tapes/{mode}.yaml", record_mode=mode):
        if "STRICT" in os.environ:
            app.by_httpx("not there")

def test_ignored():
    with vcr.use_cassette("tapes/ignored.yaml", ignore_localhost=True):
        app.by_httpx("passes")

@pytest.mark.vcr(record_mode="rewrite")
def test_rewritten():
    app.by_httpx("kept")

@pytest.mark.vcr
def test_public(vcr):
    app.by_httpx("one"), app.by_httpx("two")
    assert len(vcr.responses_of(vcr.requests[0])) == 2

def test_recorded_anew():
    with vcr.use_cassette("tapes/anew.yaml", record_mode="all"):
        app.by_httpx("kept")
"""


def test_cassettes_only_play_in_every_record_mode_and_what_vcrpy_ignores_passes(make_suite):
    suite = make_suite(test_offline=OFFLINE)
    hits = suite.server.hits
    done = suite.run("--vcr=strict", STRICT="1")
    assert "3 failed, 4 passed" in done.stdout
    assert done.stdout.count("CannotOverwriteExistingCassetteException") >= 3
    assert suite.server.hits == hits + 1
    assert {file: file.read_bytes() for file in suite.root.rglob("*.yaml")} == suite.tapes
