"""What a reviewer sees in `git diff` when snapshots are recorded anew: nothing, or prompts, arguments, results, answers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import refunds

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

PACKAGE_ROOT = Path(__file__).resolve().parents[2]

AGENTS = """
import json, os
import httpx2
import agent

URL = os.environ["MODEL_URL"]

def post(path, body):
    return httpx2.post(URL + path, json=body)

def chat(question):
    return agent.answer(question)

def streamed(question):
    body = {"model": "m-1", "stream": True, "messages": [{"role": "user", "content": question}]}
    return post("/v1/chat/completions", body).text

def claude(question):
    body = {"model": "c-1", "max_tokens": 64, "messages": [{"role": "user", "content": question}]}
    return post("/v1/messages", body).json()["content"][0]["text"]

def responses(question):
    return json.dumps(post("/v1/responses", {"model": "m-1", "input": question}).json()["output"])

def conversation(question):
    messages = [{"role": "user", "content": question}]
    for follow_up in ("Why?", "Since when?", "Who says so?"):
        reply = post("/v1/chat/completions", {"model": "m-1", "messages": messages}).json()["choices"][0]["message"]
        messages += [reply, {"role": "user", "content": follow_up}]
    return reply["content"]
"""

TESTS = """
import pytest, agents

@pytest.mark.parametrize("name", ["chat", "streamed", "claude", "responses", "conversation"])
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
        return f"It is {word if len(messages) != 1 or 'max_tokens' in body or body.get('stream') else 'late'}."

    return reply


def git(project, *words):
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words],
        cwd=project.root,
        capture_output=True,
        encoding="utf-8",
        env=project.surroundings(PYTHONPATH=str(PACKAGE_ROOT)),
        check=True,
    )
    return done.stdout


@pytest.fixture
def agents(project):
    """Five recorded agents in a git repository that shows their snapshots by textconv."""
    project.write(agents=AGENTS, test_agents=TESTS)
    (project.root / "test_shop.py").unlink()
    project.server._replies = script("late")
    assert project.record().returncode == 0
    assert len(project.files) == 5
    (project.root / ".gitattributes").write_text("*.snapshot.json diff=agentreplay\n", encoding="utf-8")
    git(project, "init", "-q")
    command = f'"{sys.executable}" -m pytest_agentreplay show --textconv'.replace("\\", "/")
    git(project, "config", "diff.agentreplay.textconv", command)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "recorded")
    return project


def changed_lines(diff):
    return [row for row in diff.splitlines() if re.match(r"[-+](?![-+]{2} )", row)]


def share(rows):
    return sum(INCIDENTAL.search(row) is None for row in rows) / len(rows)


def test_a_recording_that_says_the_same_changes_no_byte(agents):
    before = {file: file.read_bytes() for file in agents.files}
    done = agents.record()
    assert done.returncode == 0
    assert done.stdout.count("(unchanged, ") == 5, done.stdout
    assert {file: file.read_bytes() for file in agents.files} == before
    assert git(agents, "status", "--porcelain", "--", "__agent_snapshots__") == ""
    assert agents.offline().returncode == 0


def test_a_diff_of_changed_answers_shows_answers(agents):
    agents.server._replies = script("on its way")
    assert agents.record().returncode == 0
    plain = changed_lines(git(agents, "diff", "--no-textconv", "-U0"))
    rows = changed_lines(git(agents, "diff", "-U0"))
    assert any("on its way" in row for row in rows)
    assert share(rows) >= 0.8, (share(plain), share(rows), rows)
    assert share(plain) < share(rows)
    assert agents.offline().returncode == 0


def test_a_changed_schema_and_a_changed_result_are_in_the_diff(agents):
    agents.edit("agent.py", '"properties": {}', '"properties": {"order_id": {"type": "string"}}')
    agents.edit("agent.py", '"status": "late"', '"status": "lost"')
    assert agents.record("-k", "chat").returncode == 0
    rows = changed_lines(git(agents, "diff", "-U0"))
    assert any(row.startswith("+") and "schema of refund: " in row and "order_id" in row for row in rows), rows
    assert any(row.startswith("+") and '"status":"lost"' in row for row in rows), rows
    assert share(rows) >= 0.8, rows


def test_a_snapshot_that_cannot_be_read_still_has_a_diff(agents):
    broken = agents.files[0]
    broken.write_bytes(broken.read_bytes()[:-40])
    rows = changed_lines(git(agents, "diff", "-U0"))
    assert any('"schemaVersion"' in row for row in rows)


def test_an_answer_a_status_or_a_version_of_the_model_is_written_anew(agents):
    document = json.loads(agents.files[0].read_text(encoding="utf-8"))
    assert document["header"]["test"].startswith("test_agents.py::test_agent[")
    before = {file: file.read_bytes() for file in agents.files}
    agents.server._replies = script("lost")
    assert agents.record("-k", "claude").returncode == 0
    changed = [file.name for file, data in before.items() if file.read_bytes() != data]
    assert len(changed) == 1
    assert "claude" in changed[0]
