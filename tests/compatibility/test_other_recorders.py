"""Plugins that stand on the same transport: two that answer requests, two that close the network."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.env("main")

ONE_OF_EACH = """
import agent, pytest

def test_ours(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

@pytest.mark.vcr
def test_theirs():
    assert "refund" in agent.answer("Where is A-17?")
"""

BOTH = """
import agent, pytest

@pytest.mark.vcr
def test_both(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")
"""


def test_pytest_recording_and_ours_each_serve_their_own_tests(project):
    project.plugins += ("recording",)
    project.write(test_shop=ONE_OF_EACH)
    recorded = project.record("--record-mode=once")
    assert recorded.returncode == 0, recorded.stdout
    assert [file.stem for file in project.files] == ["test_ours.snapshot"]
    [theirs] = project.root.rglob("cassettes/test_shop/*.yaml")
    before = theirs.read_bytes()
    project.server.stop()
    for words in [(), ("--block-network",), ("--record-mode=once", "--block-network")]:
        replayed = project.replay(*words)
        assert replayed.returncode == 0, replayed.stdout
    assert theirs.name == "test_theirs.yaml"
    assert theirs.read_bytes() == before
    project.edit("agent.py", "Be brief.", "Be short.")
    diverged = project.replay("--block-network")
    assert " - [AR-PROMPT] turn 1/" in diverged.stdout
    assert "1 failed, 1 passed" in diverged.stdout  # theirs does not look at bodies


@pytest.mark.parametrize("start", ["record", "replay"])
def test_a_test_with_both_recorders_is_refused_before_either_starts(project, start):
    project.plugins += ("recording",)
    project.write(test_shop=BOTH)
    theirs = project.root / "cassettes" / "test_shop" / "test_both.yaml"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("interactions: []\nversion: 1\n", encoding="utf-8")
    refused = getattr(project, start)("--record-mode=rewrite")
    assert refused.returncode == 1
    assert "\nthis test has two recorders: the mark vcr of pytest-recording, and agentreplay" in refused.stdout
    assert "run with --disable-recording" in refused.stdout
    assert theirs.exists(), "rewriting begins with deleting"
    assert project.files == []
    assert project.record("--disable-recording").returncode == 0
    project.server.stop()
    assert project.replay("--disable-recording").returncode == 0


MOCKED = """
import agent, httpx, pytest

REPLY = {"choices": [{"message": {"role": "assistant", "content": "your refund"}}]}

def stock():
    return httpx.get("http://stock.invalid/A-17").json()

def test_ours(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

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
    assert "3 passed" in replayed.stdout, "its strict check has seen the request, too"
    assert "2 failed, 1 passed" in diverged.stdout
    for snapshot in project.snapshots:
        assert all("stock.invalid" not in x.call.url for x in snapshot.run.exchanges if hasattr(x.call, "url"))


def test_pytest_socket_closes_what_a_replay_does_not_need(project, three_acts):
    project.plugins += ("pytest_socket",)
    guard = "\n\ndef test_theirs():\n    import socket, pytest\n    with pytest.raises(UserWarning):\n        socket.socket()\n"
    test = (project.root / "test_shop.py").read_text(encoding="utf-8")
    project.write(test_shop=test + guard + test.replace("test_refund", "test_again").replace("import agent", ""))
    three_acts(project, "--disable-socket", record=("--force-enable-socket", "--deselect", "test_shop.py::test_theirs"))


@pytest.mark.parametrize(
    ("plugin", "words", "said"),
    [
        ("pytest_socket", "--disable-socket", "pytest-socket refused the call (A test tried to use socket.getaddrinfo.); record with --force-enable-socket"),
        ("pytest_socket", "--allow-hosts=10.0.0.1", "pytest-socket refused the call (A test tried to use socket.socket.connect()"),
        ("recording", "--block-network", "pytest-recording refused the call (Network is disabled for host '127.0.0.1'); record without --block-network"),
    ],
    ids=["disable-socket", "allow-hosts", "block-network"],
)  # fmt: skip
def test_what_a_closed_network_said_is_never_recorded(project, plugin, words, said):
    project.plugins += (plugin, "no:unraisableexception")  # pytest-recording leaves the socket open
    refused = project.record(words)
    assert refused.returncode == 1
    assert f"recorded  nothing of test_shop.py::test_refund: {said}" in refused.stdout
    assert project.files == []


def test_a_closed_network_is_told_even_when_the_agent_swallows_it(project):
    project.plugins += ("pytest_socket",)
    project.edit(
        "agent.py",
        "def answer(",
        "def answer(question):\n    try:\n        return calm(question)\n    except Exception:\n        return 'refund'\n\ndef calm(",
    )
    project.edit("test_shop.py", '    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])\n', "")
    refused = project.record("--disable-socket")
    assert refused.returncode == 1
    assert "\n[AR-FREEZE] pytest-socket refused the call" in refused.stdout
    assert project.files == []


def test_vcrpy_without_a_plugin_is_not_recorded_either_when_it_refuses(project):
    project.edit("test_shop.py", "import agent\n", "import agent, vcr\n")
    project.edit("test_shop.py", "def test", "@vcr.use_cassette('a.yaml', record_mode='none')\ndef test")
    refused = project.record()
    assert refused.returncode == 1
    assert "recorded  nothing of test_shop.py::test_refund: vcrpy refused the call" in refused.stdout
    assert project.files == []
