"""What is a divergence: other content of a request or of a tool's arguments, and calls that are not made any more."""

import re

from tests.support.small_projects import passed, summary

AGENT = """
import json, os, urllib.request
import httpx2

NOW = os.environ.get("PROGRAM") == "changed"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"

def ask(word):
    return word

def url(path="/v1/things", host="127.0.0.1"):
    return f"http://{host}:{os.environ['MODEL_URL'].rpartition(':')[2]}{path}"

def send(body, **headers):
    httpx2.post(url(), content=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

def urllib_json():
    urllib.request.urlopen(url(), json.dumps({"code": "2 2" if NOW else "2+2"}).encode()).read()

def curl_text():
    send("make & rm -rf build" if NOW else "make && rm -rf build", content_type=FORM)

def big_number():
    send('{"amount": 12345678901234567.%s}' % ("99" if NOW else "11"), content_type=JSON)

def beyond_floats():
    send('{"limit": 1e%s}' % ("999" if NOW else "400"), content_type=JSON)

def repeated_name():
    send('{"to": "%s", "to": "me"}' % ("eve" if NOW else "ada"), content_type=JSON)

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
    send(json.dumps({"a": 1, "idempotency_key": "b" if NOW else "a"}), content_type=JSON)

def form_again():
    send("b=2&a=x%20y" if NOW else "a=x+y&b=2", content_type=FORM)
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
import os
import agent

NOW = os.environ.get("PROGRAM") == "changed"

def first():
    return agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])

def prompt(monkeypatch):
    monkeypatch.setattr(agent, "PROMPT", agent.PROMPT.replace("brief", "short") if NOW else agent.PROMPT)

def test_prompt(agentreplay, monkeypatch):
    prompt(monkeypatch)
    agent.answer("Where is A-17?")

def test_prompt_swallowed(agentreplay, monkeypatch):
    prompt(monkeypatch)
    try:
        agent.answer("Where is A-17?")
    except:
        pass

def test_arguments(agentreplay):
    agent.lookup_order("a-17" if NOW else "A-17")

def test_last_turns(agentreplay):
    first() if NOW else agent.answer("Where is A-17?")

def test_every_turn(agentreplay):
    assert NOW or agent.answer("Where is A-17?")

def test_all_swallowed(agentreplay):
    try:
        if NOW:
            raise SystemExit
        agent.answer("Where is B-2?")
    except BaseException:
        pass

def test_tool_call(agentreplay):
    agent.lookup_order("A-1")
    if not NOW:
        agent.refund("A-2", 5.0)

def test_all_tool_calls(agentreplay):
    if not NOW:
        agent.lookup_order("A-1")
        agent.refund("A-2", 5.0)

def test_assertion(agentreplay):
    said = first()
    assert said.get("content") == ("late" if NOW else None)
    agent.answer("Pay A-17 back.")

def test_exception(agentreplay, monkeypatch):
    monkeypatch.setattr(agent, "TOOLS", {} if NOW else agent.TOOLS)
    agent.answer("Pay A-17 back.")

def test_error_before_the_first_call(agentreplay):
    if NOW:
        raise RuntimeError("no basket")
    agent.answer("Pay A-17 back.")

def test_assertion_after_the_last_call(agentreplay):
    assert ("nothing" if NOW else "refund") in agent.answer("Pay A-17 back.")
"""
MISSING = {"last_turns", "every_turn", "all_swallowed", "tool_call", "all_tool_calls"}
NEXT = "model m-1, last message: Pay A-17 back."
FAR = {
    "assertion": ("assert None == 'late'", f"after turn 1 of 4; turn 2 would have been: {NEXT}", 4),
    "exception": ("KeyError: 'lookup_order'", "in turn 1 of 3; the next call would have been: tool lookup_order", 3),
    "error_before_the_first_call": ("RuntimeError: no basket", f"before turn 1 of 3; turn 1 would have been: {NEXT}", 4),
}  # fmt: skip
"""The error of the test, how far its replay came, and how many recorded calls were left then."""


def test_each_divergence_is_named_at_its_turn_and_beside_an_error_stands_how_far_the_replay_came(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    passed(project.record(COLUMNS="160"))
    done = project.offline("-p", "xdist.plugin", "-n", "2", "--show-capture=no", PROGRAM="changed", COLUMNS="160")
    assert done.returncode == 1
    said = summary(done)
    parts = re.split(r"^_{3,} test_(\w+) _{3,}$", done.stdout.rpartition("- agentreplay -")[0], flags=re.MULTILINE)
    reports = {name: " ".join(report.split()) for name, report in zip(parts[1::2], parts[2::2], strict=True)}
    codes = {name: line.partition(": ")[0] for name, line in said.items() if line.startswith("[AR-")}
    assert codes.pop("arguments").startswith("[AR-ARGS]")
    assert "A-17 -> a-17" in reports["arguments"].replace('"', "")
    assert {codes.pop(name) for name in ("prompt", "prompt_swallowed")} == {"[AR-PROMPT] turn 1/3"}
    told = reports["prompt"] + reports["prompt_swallowed"]  # of one change, the second points to the first
    assert re.search(r"brief.* short.* pytest --snapshot-record test_shop.py::test_prompt", told)
    assert {name: code.partition("]")[0] for name, code in codes.items()} == dict.fromkeys(MISSING, "[AR-MISSING")
    for name, (error, far, more) in FAR.items():
        assert said[name] == error
        assert f"[AR-MISSING] stopped {far}" in reports[name]
        assert f" {more} more recorded calls not made " in reports[name]
        assert "agentreplay show " in reports[name]
    assert "AR-MISSING" not in reports["assertion_after_the_last_call"]
