"""What a reviewer sees in `git diff` when snapshots are recorded anew: nothing, or prompts, arguments, results, answers."""

import re
import subprocess

import pytest

from tests.support import forking
from tests.support.pages import ROOT
from tests.support.project import refunds

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENTS = """
import os
import httpx2
import agent

def post(path, **body):
    return httpx2.post(os.environ["MODEL_URL"] + path, json=body)

def asked(question):
    return [{"role": "user", "content": question}]

def chat(question):
    return agent.answer(question)

def streamed(question):
    return post("/v1/chat/completions", model="m-1", stream=True, messages=asked(question)).text

def conversation(question):
    messages = asked(question)
    for follow_up in ("Why?", "Since when?", "Who says so?"):
        reply = post("/v1/chat/completions", model="m-1", messages=messages).json()["choices"][0]["message"]
        messages += [reply, *asked(follow_up)]
    return reply["content"]
"""
TESTS = """
import pytest, agents

@pytest.mark.parametrize("name", ["chat", "streamed", "conversation"])
def test_agent(name, agentreplay):
    assert getattr(agents, name)("Where is A-17?")
"""
INCIDENTAL = re.compile(
    r'"(?:ms|recorded|clock|digest|parts|exchanges|self|sha256|size|id|created|created_at|tool_call_id|host|url|cuts)":'
    r"|x-request-id|content-length|input_tokens|output_tokens|prompt_tokens|completion_tokens|total_tokens|req_"
    r"|tokens: |recorded: |^.\s*[\[\]{},]*$"
)
"""Lines of a diff that say nothing about what an agent does."""


def script(word):
    """A model whose last answers hold `word`."""

    def reply(body, number):
        messages = body.get("messages", [])
        if "tools" in body and sum(message["role"] == "tool" for message in messages) < 2:
            return refunds(body, 0)
        return f"It is {word if len(messages) != 1 or body.get('stream') else 'late'}."

    return reply


def git(project, *words):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *map(str, words)]
    env = project.surroundings(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=project.root, env=env, check=True, capture_output=True, encoding="utf-8")
    return done.stdout


def changed_lines(project, *words):
    rows = git(project, "diff", "-U0", *words).splitlines()
    return [row for row in rows if re.match(r"[-+](?![-+]{2} )", row)]


def share(rows):
    return sum(INCIDENTAL.search(row) is None for row in rows) / len(rows)


def test_what_a_reviewer_sees_of_recordings(project):
    project.write(agents=AGENTS, test_agents=TESTS)
    (project.root / "test_shop.py").unlink()
    project.server._replies = script("late")
    assert project.record().returncode == 0
    (project.root / ".gitattributes").write_text("*.snapshot.json diff=agentreplay\n", encoding="utf-8")
    git(project, "init", "-q")
    words = [*forking.command_of("pytest_agentreplay"), "show", "--textconv"]
    command = " ".join(f'"{word}"' for word in words).replace("\\", "/")
    git(project, "config", "diff.agentreplay.textconv", command)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "recorded")

    # a recording that says the same changes no byte
    assert project.record().stdout.count("(unchanged, ") == 3
    assert git(project, "status", "--porcelain", "--", "__agent_snapshots__") == ""

    # changed answers show as answers
    project.server._replies = script("on its way")
    assert project.record().returncode == 0
    plain, rows = changed_lines(project, "--no-textconv"), changed_lines(project)
    assert any("on its way" in row for row in rows)
    assert share(rows) >= 0.8, (share(plain), share(rows), rows)
    assert share(plain) < share(rows)
    git(project, "commit", "-qam", "on its way")

    # a changed schema and a changed result
    project.edit("agent.py", '"properties": {}', '"properties": {"order_id": {"type": "string"}}')
    project.edit("agent.py", '"status": "late"', '"status": "lost"')
    assert project.record("-k", "chat").returncode == 0
    rows = changed_lines(project, "--", "*chat*")
    assert any(row.startswith("+") and "schema of refund: " in row and "order_id" in row for row in rows), rows
    assert any(row.startswith("+") and '"status":"lost"' in row for row in rows), rows
    assert share(rows) >= 0.8, rows

    # what cannot be read still has a diff
    broken = project.files[0]
    broken.write_bytes(broken.read_bytes()[:-40])
    assert any('"schemaVersion"' in row for row in changed_lines(project, "--", broken))
