"""An HTTP client that a package of the tests' own patches, by the hook: recorded, and replayed with no server."""

import pytest

from tests.support.pages import ROOT, blocks_of
from tests.support.small_projects import furnished, passed, recorded, runs

pytestmark = pytest.mark.env("main")

PAGE = ROOT / "docs" / "extending" / "add-an-http-client.md"
FILES = {block.title: block.text for block in blocks_of(PAGE) if block.title}

TESTS = """
import asyncio, os, socket
import httpcore
import pytest

URL = os.environ["MODEL_URL"]
CHAT = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Where is A-17?"}]}'
KEY = {"authorization": "Bearer " + os.environ["MODEL_API_KEY"]}

def test_a_stream(agentreplay):
    with httpcore.ConnectionPool() as pool:
        with pool.stream("POST", URL + "/v1/chat/completions", headers=KEY, content=CHAT) as response:
            events = [*response.iter_stream()]
    assert b"".join(events).rstrip().endswith(b"data: [DONE]")
    agentreplay.run.assert_turn(1, model="m")

def test_tasks(agentreplay):
    async def main():
        async with httpcore.AsyncConnectionPool() as pool:
            asked = [pool.request("POST", URL + f"/{name}") for name in "abc"]
            return await asyncio.gather(*asked)
    assert [response.status for response in asyncio.run(main())] == [200, 200, 200]

def test_errors(agentreplay):
    with socket.create_server(("127.0.0.1", 0)) as silent, httpcore.ConnectionPool() as pool:
        url, timeout = "http://127.0.0.1:%d/" % silent.getsockname()[1], {"timeout": {"read": 0.1}}
        with pytest.raises(httpcore.ReadTimeout):
            pool.request("GET", url, extensions=timeout)
    with httpcore.ConnectionPool() as pool, pytest.raises(httpcore.ConnectError):
        pool.request("GET", url)
"""


def test_a_client_is_patched_by_another_package_and_its_calls_are_replayed_without_a_server(shared_project):
    project = shared_project()
    patch, hook = FILES["httpcore_recorded.py"], FILES["conftest.py"]
    furnished(project, test_shop=TESTS, shop_patches=hook, httpcore_recorded=patch)
    project.write(conftest='pytest_plugins = ["shop_patches"]\n')
    assert "not recorded" not in recorded(project).recording.stdout
    outcomes = {name: [x.outcome for x in run.exchanges] for name, run in runs(project).items()}
    [stream] = outcomes["a_stream"]
    assert len(stream.cuts) > 1
    assert [reply.status for reply in outcomes["tasks"]] == [200, 200, 200]
    assert [failure.type for failure in outcomes["errors"]] == ["httpcore.ReadTimeout", "httpcore.ConnectError"]
    written = "".join(file.read_text(encoding="utf-8") for file in project.files)
    assert project.environ["MODEL_API_KEY"] not in written
    passed(project.offline())


def test_without_the_hook_its_calls_are_listed_as_not_recorded(shared_project):
    project = shared_project()
    furnished(project, test_shop=TESTS)
    done = project.record("-k", "tasks")
    assert "not recorded" in done.stdout
    assert project.files == []
