"""The proof of recordings: one fresh process replays them, with another hash seed and without anybody's write modes."""

from __future__ import annotations

import re

import pytest

from tests.support.finished import ended

pytestmark = [pytest.mark.env("main"), pytest.mark.proves]
PROVED = "test passed)   replays"
RAN_ON = ": the clock ran on: the agent waits on wall time"
"""What a loaded machine adds: a second without a call."""


def lines_by_test(done):
    """What is said of each recording, by its test."""
    lines = re.findall(r"^recorded .*/test_(\w+?)(?:-.*?)?\.snapshot\.json \(.*?\)   (.*)$", done.stdout, re.MULTILINE)
    return {test: told.removesuffix(RAN_ON) for test, told in lines}


ODD = """
import agent, pytest

@pytest.mark.parametrize("n", ["a b", "x[1]", "a::b", "\\u00fc/\\u00f6", "@file", "-k"])
def test_odd(n, agentreplay):
    agent.answer(n)

def test_out(agentreplay):
    agent.answer("never")
"""


def test_odd_ids_below_another_directory_and_ini_file_are_replayed(project):
    (project.root / "pytest.ini").rename(project.root / "other.ini")
    (project.root / "test_shop.py").unlink()
    project.write(**{"some tests__inner__test_odd": ODD})
    place = project.root / "some tests"
    words = [*project.options, "--snapshot-record", "-c", project.root / "other.ini", "-k", "not out", "-x", "inner"]
    done = ended(project.child("pytest", *words, cwd=place))
    assert done.stdout.count(PROVED) == 6, done.stdout


INLINE = """
import agent
from inline_snapshot import snapshot

def test_create(agentreplay):
    assert agent.answer("Where is A-17?").partition(" (")[0] == snapshot()

def test_fix(agentreplay):
    agent.answer("Where is A-18?")
    assert len(agentreplay.run.tool_calls) == snapshot(5)

def test_place(agentreplay, tmp_path):
    agent.answer("Where is A-16?")
    assert [str(tmp_path)] == snapshot([str(tmp_path)])

def test_in(agentreplay):
    agent.answer("Where is A-19?")
    for call in agentreplay.run.tool_calls:
        assert call.name in snapshot()
"""


def test_inline_snapshot_writes_each_value_once_fails_nothing_and_fixes_none_in_a_run_that_diverged(project):
    project.plugins += ("inline_snapshot",)
    project.write(test_shop=INLINE)
    created = project.record("--inline-snapshot=create,fix")
    assert "4 passed, 3 errors" in created.stdout, created.stdout
    assert created.stdout.count(PROVED) == 4, created.stdout
    text = (project.root / "test_shop.py").read_text(encoding="utf-8")
    values = ["('Here is your refund')", "(2)", "([str(tmp_path)])", "(['lookup_order', 'refund'])"]
    assert re.findall(r"snapshot(\(.*\))$", text.replace('"', "'"), re.MULTILINE) == values, text
    again = project.record()
    assert "4 passed in" in again.stdout, again.stdout
    assert again.stdout.count(PROVED) == 4, again.stdout
    for words, environ in [(["--inline-snapshot=fix"], {}), ([], {"CI": "1"})]:
        told, _ = project.diverged(*words, **environ)
        assert [" [AR-PROMPT] turn 1/" in said for said in told.values()] == [True] * 4
    assert (project.root / "test_shop.py").read_text(encoding="utf-8") == text


AILING = """
import os, uuid
import agent, pytest

def test_set(agentreplay):
    agent.answer("Which of " + ", ".join({f"order-{n}" for n in range(40)}))

def test_hash(agentreplay):
    agent.answer(f"Key {hash('A-17')}")

def test_pid(agentreplay):
    agent.answer(f"Process {os.getpid()}")

def test_calm(agentreplay):
    agent.answer("Where is A-17?")

@pytest.mark.parametrize("n", [str(uuid.uuid4())])
def test_anew(n, agentreplay):
    agent.answer("Where is A-18?")

def replayed(agentreplay, question="Where is A-19?"):
    agent.answer(question)
    return agentreplay.mode == "replay"

def test_ends_the_process(agentreplay):
    if replayed(agentreplay):
        os._exit(3)

def test_skips(agentreplay):
    if replayed(agentreplay):
        pytest.skip("there is no machine")

def test_leaves(agentreplay):
    if replayed(agentreplay):
        pytest.exit("enough")

def test_stops(agentreplay):
    import pdb
    if replayed(agentreplay):
        pdb.set_trace()
"""

SECOND = """
import pathlib
import agent

if pathlib.Path("imported.txt").exists():
    raise ImportError("imported a second time")
pathlib.Path("imported.txt").touch()

def test_second(agentreplay):
    agent.answer("Where is A-30?")
"""


def test_what_moves_with_the_process_or_cannot_be_replayed_in_a_fresh_one_is_reported_with_the_reason(project):
    project.write(test_shop=AILING, test_second=SECOND)
    done = ended(project.record(COLUMNS="200"))
    told = lines_by_test(done)
    for moving in ("set", "hash", "pid"):
        assert told.pop(moving).startswith("does not replay: [AR-PROMPT] turn 1/")
    assert project.server.hits == 30, "the proof asked no model"
    assert told == {
        "calm": "replays",
        "ends_the_process": "does not replay: the process ended in this test (exit status 3)",
        "anew": "not replayed: a fresh process does not collect it",
        "skips": "not replayed: the test is skipped in its replay: there is no machine",
        "leaves": "not replayed: it ends the session of pytest: enough",
        "stops": "replays",
        "second": "not replayed: a fresh process does not collect it: ImportError: imported a second time",
    }


def test_a_process_that_does_not_begin_is_reported(project):
    project.write(
        conftest="import os\nif os.environ.get('PYTHONHASHSEED') == '1':\n    raise RuntimeError('no seed')\n"
    )
    done = ended(project.record())
    assert "not replayed: no process replayed it (exit status 4: E   RuntimeError: no seed)" in done.stdout


WRITES = """
import logging
import agent

def test_first(agentreplay, tmp_path):
    (tmp_path / "kept.txt").write_text("kept")
    logging.warning("mode %s", agentreplay.mode)
    agent.answer("Where is A-17?")

def test_second(agentreplay):
    agent.answer("Where is A-18?")
    assert agentreplay.mode == "replay", "fails where it is recorded"

def test_third(agentreplay):
    agent.answer("Where is A-19?")
"""
FAILED = "does not replay: the test failed when it was recorded and passes offline"


def test_nothing_that_the_session_has_written_is_written_again(project):
    project.plugins += ("pytest_cov.plugin",)
    project.write(test_shop=WRITES)
    words = ["--junitxml=junit.xml", "--log-file=log.txt", "--basetemp=temporary", "--cov=agent", "--cov-report=json"]
    done = ended(project.record(*words, COLUMNS="200"), 1)
    assert "1 failed, 2 passed" in done.stdout
    assert lines_by_test(done) == {"first": "replays", "second": FAILED, "third": "replays"}
    assert 'tests="3"' in (project.root / "junit.xml").read_text(encoding="utf-8")
    assert (project.root / "log.txt").read_text(encoding="utf-8").count("mode record") == 1
    assert (project.root / "temporary" / "test_first0" / "kept.txt").exists()
    assert '"agent.py"' in (project.root / "coverage.json").read_text(encoding="utf-8")
    project.plugins = project.plugins[:-1]
    stopped = project.record("-x", COLUMNS="200")
    assert "1 failed, 1 passed" in stopped.stdout
    assert lines_by_test(stopped) == {"first": "replays", "second": FAILED}, "what was recorded before it stopped"


INTERRUPTED = """
import agent

def test_first(agentreplay):
    agent.answer("Where is A-17?")

def test_second(agentreplay):
    agent.answer("Where is A-18?")
    raise KeyboardInterrupt
"""


def test_an_interrupted_session_is_not_made_longer(project):
    project.write(test_shop=INTERRUPTED)
    done = ended(project.record(), 2)
    assert "test passed)   not replayed: the session was interrupted\n" in done.stdout
    assert project.server.hits == 6


MAIN = """
import sys
import pytest

class Plugin:
    @pytest.fixture
    def question(self):
        return "Where is A-17?"

sys.exit(pytest.main(sys.argv[1:], plugins=[Plugin()]))
"""


def test_a_session_with_plugins_of_its_own_process_is_proved_there(project):
    test = "import agent\n\ndef test_it(agentreplay, question):\n    agent.answer(question)\n"
    project.write(main=MAIN, test_shop=test)
    done = ended(project.child("main", *project.options, "--snapshot-record"))
    assert PROVED in done.stdout


ORDERS = """
import asyncio, os
import agent, httpx2, pytest

async def ask(client, question):
    body = {"model": "m-1", "messages": [{"role": "user", "content": question}]}
    await client.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body)

async def both():
    async with httpx2.AsyncClient() as client:
        await asyncio.gather(ask(client, "first"), ask(client, "second"))

@pytest.mark.agentreplay(permutations=5)
def test_both(agentreplay):
    agent.note(agentreplay.mode)
    asyncio.run(both())
"""


def test_the_proof_is_one_replay_and_not_one_in_each_order(project):
    project.server.pace = 0.2
    project.write(test_shop=ORDERS)
    done = ended(project.record())
    assert PROVED in done.stdout
    assert "replay" in project.ledger
    assert project.ledger[0] == "record"
    before = len(project.ledger)
    assert before <= 3, "a loaded machine has the proof look twice whether the clock ran on"
    assert project.replay().returncode == 0
    assert len(project.ledger) - before == 2, "the recorded order, and the other one"
