"""Small programs, as recorded and as they are now (a variable of the environment tells), and reports kept as files.

`AGENTREPLAY_WRITE_GOLDEN=1 pytest ...` writes the reports anew.
"""

import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.small_projects import furnished, passed

GOLDEN = Path(__file__).with_name("golden")

CONFTEST = """
import copy, os

def again(item):
    item = copy.copy(item)
    item._initrequest()
    return item

def pytest_collection_modifyitems(items):
    items[:] = [again(item) for _ in range(int(os.environ.get("TIMES", "1"))) for item in items]
"""

TESTS = """
import asyncio, inspect
import pytest, agent

def is_program(value):
    return inspect.isfunction(value) and value.__module__ == "agent" and not inspect.signature(value).parameters

PROGRAMS = [name for name, value in vars(agent).items() if is_program(value)]

@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, agentreplay):
    program = getattr(agent, name)
    result = program()
    if inspect.iscoroutine(result):
        asyncio.run(result)
"""

INI = "agentreplay_tools =\n    agent.ask\n"


class Programs:
    """Programs of an agent, each a function without arguments. `NOW` in it says whether it is the changed one.

    `ini` goes on with the list of tools.
    """

    def __init__(self, project):
        self.project = project

    def write(self, agent, ini=""):
        furnished(self.project, INI + ini, agent=agent, test_programs=TESTS, conftest=CONFTEST)

    def recorded(self, *words):
        """Record all programs; each must replay at once. Gives what was said."""
        done = passed(self.project.record(*words, COLUMNS="250"))
        assert "does not replay" not in done.stdout, done.stdout
        return done.stdout

    def replayed(self, *words, changed=False, times=1, **environ):
        """What each program is told, once for each time: "" where it passed. Nothing live, and nothing hangs."""
        environ = {"PROGRAM": "changed" if changed else "", "TIMES": str(times), "COLUMNS": "250"} | environ
        done = self.project.offline("-rpf", "--durations=0", *words, **environ)
        assert not done.stderr, done.stderr
        told = defaultdict(list)
        summary = done.stdout.partition("short test summary info")[2]
        for word, name, said in re.findall(r"^(PASSED|FAILED) \S+\[(.+?)\](?: - (.*))?$", summary, re.MULTILINE):
            assert bool(said) == (word == "FAILED")
            told[name].append(said)
        assert all(len(each) == times for each in told.values()), done.stdout
        took = re.findall(r"^(\d+\.\d+)s call ", done.stdout, re.MULTILINE)
        assert max(map(float, took), default=0) < 20
        self.said = done.stdout
        return dict(told)

    def exchanges(self, name):
        """What was recorded of a program."""
        found = [one for one in self.project.snapshots if one.run.header.test.endswith(f"[{name}]")]
        return found[0].run.exchanges


@pytest.fixture(scope="module")
def programs(shared_project):
    """Makes the programs of an agent, recorded, beside a model that says what `script` says, at some `pace`."""

    def make(agent, ini="", script=None, *, pace=0.0):
        made = Programs(shared_project(script))
        made.project.server.pace = pace
        made.write(agent, ini)
        made.recording = made.recorded()
        return made

    return make


@pytest.fixture
def golden():
    """Asserts that a report, from its headline to the line of the snapshot, is the one that is kept by this name."""

    def check(name, done):
        _, code, text = done.stdout.partition("[AR-")
        text = code + text.partition("  snapshot ")[0]
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()

    return check
