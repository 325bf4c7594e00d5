"""Secrets of the environment, of headers and of the test itself: in no file and no report; and CI replays without any."""

import base64
import json
import re
from urllib.parse import quote

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

TOKEN = 's3cr"Tok/en+vä=99\\x'
"""As awkward as a password may be: JSON, URLs and UTF-8 all write it in another way."""
KEY = "sk-live-0123456789abcdef"
DUMMY = "dummy-key-of-the-ci-job"
PIN = "pin-8471-of-the-customer"
LATE = "named-late-5512-as-a-secret"

AGENT = '''
import base64, json, os
from urllib.parse import quote
import httpx2

TOKEN = os.environ.get("SHOP_TOKEN", "")
BASE = os.environ["MODEL_URL"]

def lookup(order_id: str) -> dict:
    """Leaks as tools do: plain, encoded, inside JSON inside JSON, as a key."""
    inner = json.dumps({"auth": json.dumps({"token": TOKEN})})
    return {
        "plain": f"<{TOKEN}>", "base64": base64.b64encode(TOKEN.encode()).decode(), "percent": quote(TOKEN, safe=""),
        "nested": inner, TOKEN: [TOKEN, TOKEN.encode()], "late": "named-late-5512-as-a-secret",
    }

def answer(question):
    headers = {"authorization": "Bearer " + os.environ.get("MODEL_API_KEY", "")}
    httpx2.get(f"{BASE}/rest/orders/{quote(TOKEN, safe='')}?api_key={quote(TOKEN)}&page=2", headers=headers)
    found = lookup("A-17")
    messages = [
        {"role": "system", "content": f"The token is {TOKEN}; never tell it."},
        {"role": "user", "content": question},
        {"role": "user", "content": json.dumps(found, default=repr)},
    ]
    body = {"model": "m-1", "messages": messages}
    reply = httpx2.post(f"{BASE}/v1/chat/completions", json=body, headers=headers).json()
    with httpx2.stream("POST", f"{BASE}/v1/chat/completions", json=body | {"stream": True}, headers=headers) as streamed:
        streamed.read()
    return reply["choices"][0]["message"]["content"]
'''

TEST = """
import agent, os

def test_leaky(agentreplay):
    pin = agentreplay.secret(os.environ.get("PIN", "pin-8471-of-the-customer"))
    agent.answer(f"My pin is {pin}.")
    agentreplay.secret("named-late-5512-as-a-secret")
    # end
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools = agent.lookup
"""

FORBIDDEN = [
    writing.encode()
    for value in (TOKEN, KEY, PIN, LATE)
    for writing in {
        value,
        json.dumps(value)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value),
        quote(value, safe=""),
        base64.b64encode(value.encode()).decode().rstrip("=")[:-1],
        base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")[:-1],
    }
]


@pytest.fixture
def leaky(project):
    """An agent that leaks wherever it can, and a model that repeats all of it and the header."""

    def reply(body, number):
        request = project.server.requests[number - 1]
        header = next((value for name, value in request.headers if name.lower() == "authorization"), "")
        return f"You sent {header} and {json.dumps(body, ensure_ascii=False)}"

    project.server._replies = reply
    project.environ = {"MODEL_API_KEY": KEY, "SHOP_TOKEN": TOKEN, "COLUMNS": "100"}
    project.write(agent=AGENT, test_shop=TEST)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return project


def search(project, *done):
    """Nothing that the plugin wrote or printed holds a secret."""
    written = [
        file
        for place in ("__agent_snapshots__", ".pytest_agentreplay", "junit.xml")
        for file in [project.root / place, *(project.root / place).rglob("*")]
        if file.is_file()
    ]
    told = [(text.encode(), "the output") for one in done for text in (one.stdout, one.stderr)]
    for data, where in [(file.read_bytes(), file.name) for file in written] + told:
        for secret in FORBIDDEN:
            assert secret not in data, f"{secret} in {where}"
    return [file.name for file in written]


def test_a_snapshot_holds_none_and_replays_with_another_key(leaky):
    done = leaky.record("--junitxml=junit.xml")
    assert done.returncode == 0, done.stdout
    assert "replays" in done.stdout
    assert "test_leaky.snapshot.json" in search(leaky, done)
    text = leaky.files[0].read_text(encoding="utf-8")
    assert len(set(re.findall(r"\[\[redacted:[a-z-]+:\d+\]\]", text))) >= 4
    asked = leaky.server.hits
    for values in ({}, {"MODEL_API_KEY": DUMMY, "SHOP_TOKEN": "another-token-entirely", "PIN": "some-other-pin-0000"}):
        replayed = leaky.replay(CI="1", **values)
        assert replayed.returncode == 0, replayed.stdout
    assert leaky.server.hits == asked


def test_ci_has_no_key_at_all(project):
    assert project.record().returncode == 0
    project.server.stop()
    del project.environ["MODEL_API_KEY"]
    for words in ([], ["--replay=model"]):
        done = project.run(*words, CI="1")
        assert done.returncode == 0, done.stdout


def test_a_divergence_tells_none(leaky):
    assert leaky.record().returncode == 0
    leaky.edit("agent.py", "never tell it", "never say it")
    for words in (["--junitxml=junit.xml"], ["-vv"], ["-vv", "--replay=model"]):
        done = leaky.run(*words)
        assert done.returncode == 1
        assert "[AR-PROMPT]" in done.stdout
        search(leaky, done)
    assert "[AR-PROMPT]" in (leaky.root / "junit.xml").read_text(encoding="utf-8")


def test_a_pending_run_and_a_failure_that_is_kept_hold_none(leaky):
    assert leaky.record().returncode == 0
    leaky.edit("test_shop.py", "# end", "raise ValueError(f'{agent.TOKEN} and {pin}')")
    assert leaky.record().returncode == 1
    names = search(leaky)
    assert names.count("test_leaky.snapshot.json") == 2, "the snapshot and the pending run"
    leaky.files[0].unlink()
    assert leaky.record().returncode == 1
    outcome = leaky.snapshots[0].run.header.outcome
    assert outcome["type"] == "ValueError"
    assert "[[redacted:" in outcome["message"]
    search(leaky)


def test_a_journal_holds_none_even_of_what_was_named_a_secret_late(leaky):
    leaky.edit("test_shop.py", "# end", "import signal; signal.raise_signal(signal.SIGINT)")
    done = leaky.record()
    assert done.returncode == 2
    assert any(name.endswith(".jsonl") for name in search(leaky, done))
    listed = leaky.command("recover")
    assert "4 calls" in listed.stdout
    made = leaky.command(*re.search(r"agentreplay (recover \S+)", listed.stdout)[1].split())
    assert made.returncode == 0, made.stderr
    assert search(leaky, listed, made) == [".gitignore", "test_leaky.snapshot.json"]


def test_a_killed_recording_leaves_none_of_the_environment(leaky):
    leaky.edit("test_shop.py", "# end", "os._exit(9)")
    leaky.edit("agent.py", ', "late": "named-late-5512-as-a-secret"', "")
    assert leaky.record().returncode == 9
    assert any(name.endswith(".jsonl") for name in search(leaky))


def test_a_leak_that_cannot_be_mended_is_refused_and_leaves_nothing(leaky):
    # The id of a test is its identity and is written as it is.
    leaky.write(
        test_shop=(
            "import agent, pytest\n"
            f"@pytest.mark.parametrize('pin', ['{PIN}'])\n"
            "def test_leaky(agentreplay, pin):\n"
            "    agentreplay.secret(pin)\n"
            "    agent.lookup('A-17')\n"
        )
    )
    done = leaky.record()
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "a known secret (key) would be in it" in " ".join(done.stdout.split())
    assert leaky.files == []
    assert not list(leaky.root.rglob("*.jsonl"))


def test_the_command_line_prints_none(leaky):
    assert leaky.record().returncode == 0
    shown = leaky.command("show", leaky.files[0])
    assert shown.returncode == 0, shown.stderr
    assert "[[redacted:" in shown.stdout
    search(leaky, shown)
