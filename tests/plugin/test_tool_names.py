"""Tools that share a short name have their full paths, in whatever order they are given and called."""

import pytest

AGENT = """
import functools, pathlib

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")
    return line

class SearchTool:
    def run(self, word):
        return note(f"search {word}")

class DeleteTool:
    def run(self, word):
        return note(f"delete {word}")

def one(word, extra):
    return note(f"one {word}")

def two(word, extra):
    return note(f"two {word}")

first = functools.partial(one, extra=1)
second = functools.partial(two, extra=1)
"""

TOOLS = """
import agent

def search(word):
    return agent.note(f"NAME {word}")
"""

TESTS = """
import os
import pytest, agent, tools_a, tools_b

SWAP = bool(os.environ.get("SWAP"))

@pytest.mark.parametrize("turn", [1, -1])
def test_functions(agentreplay, turn):
    given = [tools_a.search, tools_b.search][::turn]
    for tool in given:
        agentreplay.tool(tool)
    (tools_b if SWAP else tools_a).search("x")

def test_one_is_called_before_the_other_is_given(agentreplay):
    agentreplay.tool(tools_a.search)
    (agent.note if SWAP else tools_a.search)("early")
    agentreplay.tool(tools_b.search)
    (tools_a if SWAP else tools_b).search("late")

def test_methods(agentreplay):
    agentreplay.tool(agent.SearchTool.run)
    agentreplay.tool(agent.DeleteTool().run)
    (agent.DeleteTool if SWAP else agent.SearchTool)().run("x")

def test_partials(agentreplay):
    agentreplay.tool(agent.first)
    agentreplay.tool(agent.second)
    (agent.second if SWAP else agent.first)("x")

@pytest.mark.agentreplay(tools=["tools_a.search"])
def test_beside_one_of_the_settings(agentreplay):
    agentreplay.tool(tools_b.search)
    (tools_b if SWAP else tools_a).search("x")

def test_one_alone(agentreplay):
    agentreplay.tool(tools_a.search)
    agentreplay.tool(tools_a.search, effects="read")
    tools_a.search("x")
    assert [call.name for call in agentreplay.run.tool_calls] == ["search"]

def test_given_names(agentreplay):
    agentreplay.tool(tools_a.search, name="find")
    agentreplay.tool(tools_b.search)
    tools_a.search("x"), tools_b.search("x")
    assert [call.name for call in agentreplay.run.tool_calls] == ["find", "search"]
"""


@pytest.fixture(scope="module")
def named(shared_project):
    project = shared_project()
    project.write(
        agent=AGENT,
        tools_a=TOOLS.replace("NAME", "a"),
        tools_b=TOOLS.replace("NAME", "b"),
        test_names=TESTS,
    )
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout
    assert "does not replay" not in recorded.stdout, recorded.stdout
    return project


def test_names_are_full_where_two_share_one(named):
    called = {
        s.run.header.test.partition("::test_")[2]: [x.call.name for x in s.run.exchanges] for s in named.snapshots
    }
    assert called == {
        "functions[1]": ["tools_a.search"],
        "functions[-1]": ["tools_a.search"],
        "one_is_called_before_the_other_is_given": ["tools_a.search", "tools_b.search"],
        "methods": ["agent.SearchTool.run"],
        "partials": ["agent.one"],
        "beside_one_of_the_settings": ["tools_a.search"],
        "one_alone": ["search"],
        "given_names": ["find", "search"],
    }


def test_another_one_of_that_name_is_a_divergence(named):
    assert named.offline().returncode == 0
    done = named.replay(SWAP="1")
    assert "6 failed, 2 passed" in done.stdout, done.stdout
