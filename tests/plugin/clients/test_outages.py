"""A run in which no model call was answered waits as pending; a recorded failure that recurs is told from a live one."""

import pytest

from tests.support.model_server import Raw
from tests.support.small_projects import edited, furnished, passed, runs

AGENT = """
import asyncio, os
import httpx2

def post(text, url=None, **more):
    url = (url or os.environ["MODEL_URL"]) + "/v1/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    reply = httpx2.post(url, json=body, **more)
    reply.raise_for_status()
    return reply.json()["choices"][0]["message"]["content"]

def refused():
    return post("hi", url="http://127.0.0.1:9")

def timed_out():
    return post("slow", timeout=0.05)

def unauthorised():
    return post("401")

def unavailable():
    for _ in range(2):
        try:
            post("503")
        except httpx2.HTTPStatusError as error:
            last = error
    raise last

def swallowed():
    try:
        return refused()
    except httpx2.ConnectError:
        return "sorry"

def closed_loop():
    client = httpx2.AsyncClient()
    url, body = os.environ["MODEL_URL"] + "/v1/chat/completions", {"model": "m", "messages": []}

    async def first():
        await client.get(os.environ["MODEL_URL"] + "/hello")

    async def second():
        return await client.post(url, json=body)

    asyncio.run(first())
    return asyncio.run(second())

def answered_at_last():
    try:
        post("503")
    except httpx2.HTTPStatusError:
        return post("hi")

def bad_request():
    return post("400")

def no_model():
    return httpx2.get("http://127.0.0.1:9/hello")
"""

TESTS = """
import agent, pytest

WAYS = [name for name, value in vars(agent).items() if callable(value) and name != "post"]

@pytest.mark.parametrize("way", WAYS)
def test_way(way, agentreplay):
    getattr(agent, way)()
"""

OUTAGES = {
    "refused": "ConnectError: ",
    "timed_out": "ReadTimeout: ",
    "unauthorised": "401 Unauthorized",
    "unavailable": "503 Busy",
    "swallowed": "ConnectError: ",
    "closed_loop": "RuntimeError: Event loop is closed",
}


def script(body, number):
    match body["messages"][-1]["content"] if body and body.get("messages") else "":
        case "400":
            return Raw(400, reason="Bad Request", chunks=(b"{}",))
        case "401":
            return Raw(401, reason="Unauthorized", chunks=(b"{}",))
        case "503":
            return Raw(503, reason="Busy", chunks=(b"{}",))
        case "slow":
            return Raw(hang=True)
    return "Hello."


@pytest.fixture(scope="module")
def shop(shared_project):
    project = furnished(shared_project(script), agent=AGENT, test_shop=TESTS)
    project.recording = project.record("-W", "ignore", COLUMNS="250")
    return project


def test_an_outage_is_kept_as_pending_and_all_else_is_recorded_as_ever(shop):
    lines = shop.recording.stdout.splitlines()
    for way, failure in OUTAGES.items():
        number = next(n for n, line in enumerate(lines) if f"pending   test_shop.py::test_way[{way}]" in line)
        assert f"no model call was answered ({failure}" in lines[number]
        assert lines[number].endswith("was not written")
        assert "if the outage is the point:   agentreplay accept .pytest_agentreplay/pending/" in lines[number + 1]
    assert runs(shop).keys() == {f"way[{way}]" for way in ("answered_at_last", "bad_request", "no_model")}


def test_an_accepted_outage_recurs_as_recorded(shop):
    shop.proves = True
    [pending] = (shop.root / ".pytest_agentreplay" / "pending").rglob("*refused*.json")
    passed(shop.command("accept", str(pending)))
    done = shop.offline("-k", "refused or bad_request", COLUMNS="200")
    date = runs(shop)["way[refused]"].header.recorded[:10]
    assert done.stdout.count(f"agentreplay: the test fails as recorded on {date}; nothing went live") == 2
    assert 'to record again:   pytest --snapshot-record "test_shop.py::test_way[refused]"' in done.stdout
    assert f"2 tests fail as recorded on {date}; nothing went live" in done.stdout
    again = shop.record("-k", "refused", COLUMNS="250")
    assert "unchanged, 1 call, test failed)   replays: fails as recorded" in again.stdout


def test_another_failure_is_not_said_to_be_the_recorded_one(shop):
    with edited(shop, "test_shop.py", "    getattr(agent, way)()", "    raise ValueError('today')"):
        done = shop.offline("-k", "bad_request", COLUMNS="200")
    assert "1 failed" in done.stdout
    assert "as recorded" not in done.stdout
