"""What a replay says of a child process or a socket that it refused: which function to freeze, and which never."""

import pytest

from tests.support.small_projects import flat, furnished, recorded, sections

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

NET = """
import os, subprocess
import httpx2

class Git:
    def head(self):
        return [line for line in map(self.run, ["--version"])]

    def run(self, word):
        def started():
            return subprocess.run(["git", word], capture_output=True, check=False).returncode
        return started()

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()

async def answer(text, before=True):
    if before:
        subprocess.run(["git", "--version"], capture_output=True, check=False)
    ask(text)
    if not before:
        subprocess.run(["git", "--version"], capture_output=True, check=False)
"""
TESTS = """
import asyncio, subprocess
from shop import net

def test_alone(agentreplay):
    net.Git().head()

def test_beside(agentreplay):
    net.ask("hello")
    net.Git().head()

def test_loop(agentreplay):
    asyncio.run(net.answer("hello"))

def test_loop_afterwards(agentreplay):
    asyncio.run(net.answer("hello", before=False))

def test_itself(agentreplay):
    net.ask("hello")
    subprocess.run(["git", "--version"], capture_output=True)
"""
FREEZE = "add the function around it to agentreplay_tools, and record again: "
SPLIT = "move it into a function, add that to agentreplay_tools, and record again: your.module.function"


def test_the_function_to_freeze_is_the_one_that_made_no_recorded_call(shared_project):
    project = furnished(shared_project(), "    src\n", src__shop__net=NET, tests__test_net=TESTS)
    recorded(project)
    told = sections(project.offline("-vv"))
    for test in ("alone", "beside"):
        assert f"{FREEZE}shop.net.Git.run or" in told[test], told[test]
    for test in ("loop", "loop_afterwards"):
        assert "shop.net.answer makes recorded calls too" in told[test]
        assert SPLIT in told[test]
    assert SPLIT in told["itself"]
    assert FREEZE not in told["loop"] + told["loop_afterwards"] + told["itself"]


def test_a_frozen_tool_that_asks_a_model_is_reported_while_recording(shared_project):
    ini = "    src\nagentreplay_tools =\n    shop.net.answer\n    shop.net.Git.run = read\n"
    project = recorded(
        furnished(shared_project(), ini, src__shop__net=NET, tests__test_net=TESTS), "-k", "loop or alone"
    )
    said = flat(project.recording)
    assert said.count("inside tool answer asks a model itself") == 2
    assert said.count("inside tool") == 2
