"""A mock that answers in the process runs in a replay as it did when recorded; what it answers is not recorded."""

import pytest

pytestmark = pytest.mark.env("clients")

AGENT = """
import os
import httpx, httpx2, openai, requests

PROMPT = "Be brief."
TIMES = 1

def think(word):
    http = openai.DefaultHttpxClient(verify=False)
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0, http_client=http) as client:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": word}]
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content

def look(get):
    return get("https://shop.test/orders/A-17")
"""

TESTS = """
import httpx, httpx2, pytest, requests
import agent

BODY = '{"status": "late"}'

def check(get):
    asked = [agent.look(get).json()["status"] for _ in range(agent.TIMES)]
    assert agent.think(f"It is {asked[0]}.")

def test_respx(agentreplay):
    import respx
    with respx.mock as router:
        route = router.get("https://shop.test/orders/A-17").mock(return_value=httpx.Response(200, text=BODY))
        check(httpx.get)
        assert route.call_count == agent.TIMES

def test_responses(agentreplay):
    import responses
    with responses.RequestsMock() as mock:
        mock.add_passthru("http://127.0.0.1")
        mock.get("https://shop.test/orders/A-17", body=BODY)
        check(requests.get)
        assert len(mock.calls) == agent.TIMES

def test_requests_mock(agentreplay):
    import requests_mock
    with requests_mock.Mocker(real_http=True) as mock:
        mock.get("https://shop.test/orders/A-17", text=BODY)
        check(requests.get)
        assert mock.call_count == agent.TIMES

@pytest.mark.parametrize("library", [httpx, httpx2])
def test_mock_transport(agentreplay, library):
    def answer(request):
        answer.count += 1
        return library.Response(200, text=BODY)
    answer.count = 0
    with library.Client(transport=library.MockTransport(answer)) as client:
        check(client.get)
    assert answer.count == agent.TIMES

def test_patched_method(agentreplay, monkeypatch):
    def send(session, request, **options):
        reply = requests.Response()
        reply.status_code, reply._content = 200, BODY.encode()
        send.count += 1
        return reply
    send.count = 0
    monkeypatch.setattr(requests.Session, "send", send)
    check(requests.get)
    assert send.count == agent.TIMES
"""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project()
    made.write(agent=AGENT, test_mocks=TESTS)
    (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    made.recorded = made.record()
    return made


def test_only_the_model_call_is_recorded(project):
    assert project.recorded.returncode == 0, project.recorded.stdout
    assert "does not replay" not in project.recorded.stdout
    assert len(project.snapshots) == 6
    for snapshot in project.snapshots:
        (exchange,) = snapshot.run.exchanges
        assert "/v1/chat/completions" in exchange.call.url, snapshot.run.header.test


def test_a_replay_asks_the_mock_and_no_network(project):
    done = project.offline()
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
    assert "replayed 6 tests (6 turns, 6 calls served, 0 live)" in done.stdout


def test_what_a_mock_is_asked_for_is_not_compared_and_what_the_model_is_asked_for_is(project):
    project.edit("agent.py", "TIMES = 1", "TIMES = 2")
    try:
        assert project.offline().returncode == 0
    finally:
        project.edit("agent.py", "TIMES = 2", "TIMES = 1")
    project.edit("agent.py", "Be brief.", "Be short.")
    try:
        done = project.offline()
    finally:
        project.edit("agent.py", "Be short.", "Be brief.")
    assert "6 failed" in done.stdout
    assert done.stdout.count("[AR-PROMPT]") >= 6, done.stdout
