"""`agentreplay show --step` by lines and by keys, and `--replay-break` in sync and async agents."""

import os
import sys

import pytest

from tests.support.small_projects import furnished, passed, recorded

AGENT = """
import os
import httpx2

async def ask_async(text):
    async with httpx2.AsyncClient() as client:
        return (await client.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body(text))).json()

def body(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}]}

def ask(text):
    return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body(text)).json()
"""
TESTS = """
import asyncio, agent

def test_sync(agentreplay):
    agent.ask("first")
    agent.ask("second")

def test_async(agentreplay):
    async def run():
        await agent.ask_async("first")
        await agent.ask_async("second")
    asyncio.run(run())
"""
DEBUGGER = """
import pdb

class Debugger(pdb.Pdb):
    def interaction(self, frame, *rest):
        names = frame.f_locals
        print("STOPPED", frame.f_code.co_name, names["request"]["messages"][0]["content"], names["reply"].text,
              type(names["call"]).__name__, names["recorded"].start)
        self.set_continue()
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project(lambda body, number: f"answer {number}")
    return recorded(furnished(project, agent=AGENT, test_shop=TESTS, debugger=DEBUGGER))


def snapshot(shop):
    return next(file for file in shop.files if "test_sync" in file.name)


def test_lines_are_commands_where_there_is_no_terminal(shop):
    done = shop.child("pytest_agentreplay", "show", "--step", snapshot(shop), given="n\n/first\ng 9\nq\nn\n")
    assert done.returncode == 0, done.stderr
    places = [line.partition(" ")[0] for line in done.stdout.splitlines() if line.startswith("[")]
    assert places == ["[1/2]", "[2/2]", "[1/2]"]
    assert "there is no turn 9; this run has 1 to 2" in done.stdout
    done = shop.child("pytest_agentreplay", "show", "--step", snapshot(shop), given="n")
    assert "[2/2]" in done.stdout
    assert shop.child("pytest_agentreplay", "show", "--step", "gone.json").returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
@pytest.mark.real_process
def test_single_keys_are_commands_in_a_terminal(shop):
    import pty
    import subprocess

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "pytest_agentreplay", "show", "--step", str(snapshot(shop))]
    process = subprocess.Popen(command, stdin=follower, stdout=subprocess.PIPE, env=shop.surroundings(), cwd=shop.root)
    os.write(leader, b"n\x1b[Dnq")
    text = process.communicate(timeout=60)[0].decode()
    os.close(leader)
    os.close(follower)
    places = [line.partition(" ")[0] for line in text.splitlines() if line.startswith("[")]
    assert places == ["[1/2]", "[2/2]", "[1/2]", "[2/2]"]


def test_a_replay_stops_at_a_turn_with_call_and_record_at_hand(shop):
    done = shop.offline("--replay-break=2", "--pdbcls=debugger:Debugger", "-o", "pythonpath=.", "-s")
    assert done.returncode == 0, done.stdout
    stops = [line for line in done.stdout.splitlines() if line.startswith("STOPPED")]
    assert [line.split()[1:3] for line in stops] == [["stop_at_turn", "second"]] * 2
    assert all("answer" in line and "HttpCall" in line for line in stops)


def test_a_turn_that_never_comes_is_a_warning_and_what_cannot_stop_is_refused(shop):
    done = passed(shop.replay("-W", "default", "--replay-break=9", "-k", "sync", MODEL_URL="http://127.0.0.1:9"))
    assert "--replay-break=9: the run has 2 turns" in done.stdout
    for words, message in (
        (["--replay-break=0"], "--replay-break takes a turn like 3, not '0'"),
        (["--replay-break=2", "--snapshot-record"], "--replay-break=2 is for replays, but the mode is record"),
    ):
        done = shop.run(*words)
        assert done.returncode == 4
        assert message in done.stderr
    done = shop.replay("--replay-break=2", "-p", "xdist.plugin", "-n", "2")
    assert "--replay-break stops in a terminal, which a worker of xdist has not: add -n0" in " ".join(
        done.stdout.split()
    )
