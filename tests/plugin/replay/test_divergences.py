"""What is a divergence: other content of a request or of a tool's arguments, and calls that are not made any more."""

import pytest

AGENT = """
import json, os, urllib.request
import httpx2

NOW = os.environ.get("PROGRAM") == "changed"

def ask(word):
    return word

def url(path="/v1/things", port=None, host="127.0.0.1"):
    return f"http://{host}:{port or os.environ['MODEL_URL'].rpartition(':')[2]}{path}"

def send(body, **headers):
    httpx2.post(url(), content=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

def urllib_json():
    body = {"code": "2 2" if NOW else "2+2"}
    urllib.request.urlopen(url(), json.dumps(body).encode()).read()

def curl_text():
    send("make & rm -rf build" if NOW else "make && rm -rf build", content_type="application/x-www-form-urlencoded")

def big_number():
    send('{"amount": 12345678901234567.%s}' % ("99" if NOW else "11"), content_type="application/json")

def beyond_floats():
    send('{"limit": 1e%s}' % ("999" if NOW else "400"), content_type="application/json")

def repeated_name():
    send('{"to": "%s", "to": "me"}' % ("eve" if NOW else "ada"), content_type="application/json")

def business_id():
    order = "order-99999" if NOW else "order-12345"
    params = {"name": "ship", "arguments": {"order": order}, "_meta": {"progressToken": order}}
    httpx2.post(url("/mcp"), json={"jsonrpc": "2.0", "id": order, "method": "tools/call", "params": params})

def virtual_host():
    send("{}", host="tenant-b.example" if NOW else "tenant-a.example")

def organization():
    send("{}", openai_organization="org-b" if NOW else "org-a")

def dry_run():
    send("{}", **({} if NOW else {"X_Dry_Run": "true"}))

def idempotency():
    send(json.dumps({"a": 1, "idempotency_key": "b" if NOW else "a"}), content_type="application/json")

def form_again():
    send("b=2&a=x%20y" if NOW else "a=x+y&b=2", content_type="application/x-www-form-urlencoded")
"""


DRIFT = {"organization": "headers.openai-organization", "dry_run": "headers.x-dry-run"}
SAME = {*DRIFT, "idempotency", "form_again"}


def test_another_content_is_a_divergence_and_what_is_watched_or_dropped_is_none(programs):
    made = programs(AGENT)
    told = made.replayed("-v", changed=True)
    assert {name for name, (said,) in told.items() if not said} == SAME
    assert {said.partition("-")[0] for (said,) in told.values()} == {"", "[AR"}
    for name in DRIFT.values():
        assert f"drift     {name} differs in 1 test" in made.said
    assert made.said.count("drift     ") == len(DRIFT)


TESTS = """
import agent

def test_refund(agentreplay):
    agent.answer("Where is A-17?")

def test_swallowed(agentreplay):
    try:
        agent.answer("Where is A-17?")
    except:
        pass
"""


def test_a_prompt_edit_and_another_argument_are_named_at_their_turn(project):
    project.write(test_shop=TESTS)
    assert project.record("--agentreplay-no-prove").returncode == 0
    told, done = project.diverged()
    assert {name: said.partition(": ")[0] for name, said in told.items()} == dict.fromkeys(
        ("test_refund", "test_swallowed"), "FAILED [AR-PROMPT] turn 1/3"
    )
    assert "brief" in done.stdout
    assert "short" in done.stdout
    assert "pytest --snapshot-record test_shop.py::test_refund" in done.stdout
    project.edit("agent.py", '["arguments"]))', '["arguments"].replace("A-17", "a-17")))')
    done = project.offline()
    assert "[AR-ARGS]" in done.stdout
    assert "A-17 -> a-17" in done.stdout.replace('"', "")


# Calls that are not made any more.

WHOLE = """
import agent

def test_whole(agentreplay):
    assert agent.answer("Where is A-17?")

def test_swallows(agentreplay):
    try:
        assert agent.answer("Where is B-2?")
    except BaseException:
        pass

def test_tools_alone(agentreplay):
    agent.lookup_order("A-1")
    agent.lookup_order("A-2")
    agent.refund("A-2", 5.0)
"""
EARLY = {
    "the last turns": ("test_whole", '    assert agent.answer("Where is A-17?")', '    assert agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])'),
    "every turn": ("test_whole", '    assert agent.answer("Where is A-17?")', "    assert True"),
    "all, in a body that swallows": ("test_swallows", '        assert agent.answer("Where is B-2?")', "        raise SystemExit"),
    "a tool call": ("test_tools_alone", '    agent.refund("A-2", 5.0)\n', ""),
    "all tool calls": ("test_tools_alone", '    agent.lookup_order("A-1")\n    agent.lookup_order("A-2")\n    agent.refund("A-2", 5.0)\n', "    pass\n"),
}  # fmt: skip


@pytest.fixture
def whole(project):
    project.plugins += ("xdist.plugin",)
    project.environ["COLUMNS"] = "160"
    project.write(test_shop=WHOLE)
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    return project


@pytest.mark.parametrize("what", EARLY)
def test_calls_that_were_not_made_fail_a_test_that_passes(whole, what):
    test, old, new = EARLY[what]
    whole.edit("test_shop.py", old, new)
    done = whole.offline(*(("-n", "2") if what == "a tool call" else ()))
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert line.startswith(f"FAILED test_shop.py::{test} - [AR-MISSING]")


ASSERTS = """
import agent

def test_shop(agentreplay):
    first = agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])
    assert not first.get("content")
    assert "refund" in agent.answer("Pay A-17 back.")
"""
ERRORS = {
    "an assertion": (
        '    assert not first.get("content")\n',
        '    assert first.get("content") == "late"\n',
        "assert None == 'late'",
        "stopped after turn 1 of 4; turn 2 would have been: model m-1, last message: Pay A-17 back.",
        4,
    ),
    "an exception of the agent": (
        'TOOLS[call["function"]["name"]]',
        '{"refund": refund}[call["function"]["name"]]',
        "KeyError: 'lookup_order'",
        'stopped in turn 2 of 4; the next call would have been: tool lookup_order {"order_id":"A-17"}',
        3,
    ),
    "an error before the first call": (
        "    first = agent.ask(",
        '    raise RuntimeError("no basket")\n    first = agent.ask(',
        "RuntimeError: no basket",
        "stopped before turn 1 of 4; turn 1 would have been: model m-1, last message: Where is A-17?",
        5,
    ),
}


def test_beside_the_error_of_a_test_stands_how_far_its_replay_came(project):
    project.plugins += ("xdist.plugin",)
    project.environ["COLUMNS"] = "160"
    project.write(test_shop=ASSERTS)
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    for what, (old, new, error, far, more) in ERRORS.items():
        file = "agent.py" if "agent" in what else "test_shop.py"
        project.edit(file, old, new)
        done = project.offline(*(("-n", "1", "--show-capture=no", "--tb=short") if "agent" in what else ()))
        project.edit(file, new, old)
        assert done.returncode == 1, what
        assert done.stdout.splitlines()[-2] == f"FAILED test_shop.py::test_shop - {error}", what
        section = done.stdout.partition(" agentreplay -")[2]
        assert f"[AR-MISSING] {far}\n" in section, done.stdout
        assert f"  {more} more recorded calls not made\n" in section, done.stdout
        assert "agentreplay show " in section, what
    project.edit("test_shop.py", '"refund" in', '"nothing" in')
    assert "AR-MISSING" not in project.offline().stdout, "it fails after its last recorded call"
