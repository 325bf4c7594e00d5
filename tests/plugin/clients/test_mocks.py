"""A mock that answers in the process runs in a replay as it did when recorded; what it answers is not recorded."""

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("clients")

AGENT = """
import os
import openai, requests

PROMPT = "Be brief."
TIMES = 1

def think(word):
    http = openai.DefaultHttpxClient(verify=False)
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0, http_client=http) as client:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": word}]
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content

def look():
    return requests.get("https://shop.test/orders/A-17")
"""

TESTS = """
import requests
import agent

BODY = '{"status": "late"}'

def check():
    asked = [agent.look().json()["status"] for _ in range(agent.TIMES)]
    assert agent.think(f"It is {asked[0]}.")

def test_responses(agentreplay):
    import responses
    with responses.RequestsMock() as mock:
        mock.add_passthru("http://127.0.0.1")
        mock.get("https://shop.test/orders/A-17", body=BODY)
        check()
        assert len(mock.calls) == agent.TIMES

def test_requests_mock(agentreplay):
    import requests_mock
    with requests_mock.Mocker(real_http=True) as mock:
        mock.get("https://shop.test/orders/A-17", text=BODY)
        check()
        assert mock.call_count == agent.TIMES

def test_patched_method(agentreplay, monkeypatch):
    def send(session, request, **options):
        reply = requests.Response()
        reply.status_code, reply._content = 200, BODY.encode()
        send.count += 1
        return reply
    send.count = 0
    monkeypatch.setattr(requests.Session, "send", send)
    check()
    assert send.count == agent.TIMES
"""


@pytest.fixture(scope="module")
def project(shared_project):
    return recorded(furnished(shared_project(), agent=AGENT, test_mocks=TESTS))


def test_only_the_model_call_is_recorded_and_a_replay_asks_the_mock_and_no_network(project):
    assert len(project.snapshots) == 3
    for snapshot in project.snapshots:
        (exchange,) = snapshot.run.exchanges
        assert "/v1/chat/completions" in exchange.call.url, snapshot.run.header.test
    assert "replayed 3 tests (3 turns, 3 calls served, 0 live)" in passed(project.offline()).stdout


def test_what_a_mock_is_asked_for_is_not_compared_and_what_the_model_is_asked_for_is(project):
    with edited(project, "agent.py", "TIMES = 1", "TIMES = 2"):
        passed(project.offline())
    with edited(project, "agent.py", "Be brief.", "Be short."):
        told = summary(project.offline(COLUMNS="200"))
    assert len(told) == 3
    assert all("[AR-PROMPT]" in said for said in told.values()), told
