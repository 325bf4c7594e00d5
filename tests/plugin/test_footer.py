"""What stands beneath a session: what was recorded, what is large, what ran unseen, what was accepted."""

from __future__ import annotations

import socket


def test_a_snapshot_larger_than_wanted_is_told(project):
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_max_bytes = 500\n")
    told = project.record().stdout
    size = project.files[0].stat().st_size
    assert f"test_refund.snapshot.json holds {size:,} bytes, more than agentreplay_max_bytes" in told
    assert "smaller inputs, or keep such files in git-lfs" in told
    project.edit("pytest.ini", "agentreplay_max_bytes = 500", "agentreplay_max_bytes = 0")
    assert "agentreplay_max_bytes" not in project.record().stdout


def test_a_tool_that_ran_unseen_is_told_with_what_to_add(project):
    project.edit("pytest.ini", "    agent.refund\n", "")
    done = project.record("--agentreplay-no-prove")
    assert "[AR-UNFROZEN] tool refund ran unseen" in done.stdout
    assert "add to agentreplay_tools:   agent.refund" in done.stdout


def test_no_proof_runs_an_unseen_tool_a_second_time(project):
    project.edit("pytest.ini", "    agent.refund\n", "")
    done = project.record()
    assert "not replayed: a tool would run again" in done.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"]


def test_accepted_requests_are_told(project):
    project.record()
    project.edit("agent.py", "Be brief.", "Be short.")
    done = project.run("-q", "--agentreplay-adopt=tone only")
    assert done.returncode == 0, done.stdout
    assert "(3 changed requests, every reply as it was)" in done.stdout
    assert project.replay().returncode == 0
    project.edit("test_shop.py", '"refund" in', '"never" in')
    failed = project.run("-q", "--agentreplay-adopt=tone only")
    assert failed.returncode == 1
    assert "accepted  nothing" in failed.stdout


GIVES_UP = """
import asyncio, os
import httpx2, agent

async def order(client, method, path):
    try:
        await asyncio.wait_for(client.request(method, os.environ["SHOP_URL"] + path), 0.3)
    except TimeoutError:
        return "gave up"

async def act(calls):
    agent.ask([{"role": "user", "content": "hello"}])
    async with httpx2.AsyncClient() as client:
        await asyncio.gather(*(order(client, *call.split()) for call in calls.splitlines()))

def test_gives_up(agentreplay):
    asyncio.run(act(os.environ["CALLS"]))
"""


def test_calls_that_were_given_up_when_recorded_and_have_vanished_are_reported(project):
    """It cannot be told whether such a request still reached its server, so no method makes it a divergence."""
    project.write(test_shop=GIVES_UP)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shop = f"http://127.0.0.1:{silent.getsockname()[1]}"
        recorded = project.record(SHOP_URL=shop, CALLS="POST /orders\nDELETE /orders/7\nGET /orders", COLUMNS="120")
        assert recorded.returncode == 0, recorded.stdout
    replayed = project.offline(SHOP_URL=shop, CALLS="GET /orders\nPOST /orders\nDELETE /orders/7", COLUMNS="120")
    assert "vanished" not in replayed.stdout
    replayed = project.offline(SHOP_URL=shop, CALLS="GET /orders", COLUMNS="120")
    assert replayed.returncode == 0, replayed.stdout
    assert [line for line in replayed.stdout.splitlines() if "vanished" in line] == [
        "vanished  DELETE 127.0.0.1/orders/7 was begun and given up when recorded, and is not called now (1 x)",
        "vanished  POST 127.0.0.1/orders was begun and given up when recorded, and is not called now (1 x)",
    ]


MIXED = """
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_recorded_alone(agentreplay):
    agent.answer("Where is A-17?")
    assert agentreplay.mode == "record"
"""


def test_quiet_counts_those_that_replay_and_names_those_that_do_not(project):
    project.furnish(MIXED)
    done = project.record("-q")
    lines = done.stdout.splitlines()
    counted = lines.index("recorded 1 test (1 created, these replay), and others:")
    assert "does not replay: its calls replay, but its own assertions do not hold offline" in lines[counted + 1]
    assert "all replay" not in done.stdout
