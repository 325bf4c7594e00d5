"""Plugins that stand on the same transport: two that answer requests, two that close the network."""

from __future__ import annotations

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main")

ONE_OF_EACH = """
import agent, pytest

def test_ours(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

@pytest.mark.vcr
def test_theirs():
    assert "refund" in agent.answer("Where is A-17?")
"""


def test_pytest_recording_and_ours_each_serve_their_own_tests(project):
    project.plugins += ("recording",)
    project.write(test_shop=ONE_OF_EACH)
    ended(project.record("--record-mode=once"))
    assert [file.stem for file in project.files] == ["test_ours.snapshot"]
    [theirs] = project.root.rglob("cassettes/test_shop/*.yaml")
    before = theirs.read_bytes()
    project.server.stop()
    for words in [(), ("--record-mode=once", "--block-network")]:
        ended(project.replay(*words))
    assert (theirs.name, theirs.read_bytes()) == ("test_theirs.yaml", before)
    project.edit("agent.py", "Be brief.", "Be short.")
    diverged = project.replay("--block-network")
    assert " - [AR-PROMPT] turn 1/" in diverged.stdout
    assert "1 failed, 1 passed" in diverged.stdout  # theirs does not look at bodies


MOCKED = """
import agent, httpx, pytest

def stock():
    return httpx.get("http://stock.invalid/A-17").json()

def test_mocked(httpx_mock):
    httpx_mock.add_response(json={"left": 3})
    assert stock() == {"left": 3}

def test_both(agentreplay, httpx_mock):
    httpx_mock.add_response(json={"left": 3})
    assert stock() == {"left": 3}
    assert "refund" in agent.answer("Where is A-17?")
"""


def test_a_mock_of_pytest_httpx_answers_in_both_modes_and_is_not_recorded(project, three_acts):
    project.plugins += ("pytest_httpx",)
    project.write(test_shop=MOCKED)
    _, replayed, diverged = three_acts(project)
    assert "2 passed" in replayed.stdout, "its strict check has seen the request, too"
    assert "1 failed, 1 passed" in diverged.stdout
    [snapshot] = project.snapshots
    assert all("stock.invalid" not in x.call.url for x in snapshot.run.exchanges if hasattr(x.call, "url"))


def test_pytest_socket_closes_what_a_replay_does_not_need(project, three_acts):
    project.plugins += ("pytest_socket",)
    guard = "\n\ndef test_theirs():\n    import socket, pytest\n    with pytest.raises(UserWarning):\n        socket.socket()\n"
    test = (project.root / "test_shop.py").read_text(encoding="utf-8")
    project.write(test_shop=test + guard + test.replace("test_refund", "test_again").replace("import agent", ""))
    three_acts(project, "--disable-socket", record=("--force-enable-socket", "--deselect", "test_shop.py::test_theirs"))


SOCKET = "pytest-socket refused the call (A test tried to use socket."
VCR = "import agent, vcr\n\n@vcr.use_cassette('a.yaml', record_mode='none')\ndef test_refund(agentreplay):\n    agent.answer('')\n"


def test_what_a_closed_network_said_is_never_recorded(project):
    project.plugins += ("no:unraisableexception",)  # pytest-recording leaves the socket open
    project.write(test_vcr=VCR)
    for words, said in (
        ("-p pytest_socket --disable-socket", f"{SOCKET}getaddrinfo.); record with --force-enable-socket"),
        ("-p pytest_socket --allow-hosts=10.0.0.1", f"{SOCKET}socket.connect()"),
        (
            "-p recording --block-network",
            "pytest-recording refused the call (Network is disabled for host '127.0.0.1')",
        ),
        ("test_vcr.py", "vcrpy refused the call"),
    ):
        refused = ended(project.record(*words.split(), *([] if "vcr" in words else ["test_shop.py"])), 1)
        assert f"::test_refund: {said}" in refused.stdout.partition("recorded  nothing of test_")[2]
        assert ("record without --block-network" in refused.stdout) is ("--block" in words)
    assert project.files == []


def test_a_closed_network_is_told_even_when_the_agent_swallows_it(project):
    project.plugins += ("pytest_socket",)
    calm = "def answer(question):\n    try:\n        return calm(question)\n    except Exception:\n        return 'refund'\n\n"
    project.edit("agent.py", "def answer(", f"{calm}def calm(")
    project.edit("test_shop.py", '    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])\n', "")
    refused = ended(project.record("--disable-socket"), 1)
    assert "\n[AR-FREEZE] pytest-socket refused the call" in refused.stdout
    assert project.files == []
