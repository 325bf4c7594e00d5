"""The sandbox of a session: closed where every selected test replays, in each worker; told where it is not, and why."""

import sys
import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

MIXED = """
import socket
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_plain():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
"""

TWICE = """
import asyncio, multiprocessing, subprocess, sys
import pytest
import agent

def doubled(number):
    return 2 * number

@pytest.mark.parametrize("number", range(4))
@pytest.mark.agentreplay(allow_subprocess=["python", "fork"])
def test_refund(agentreplay, number):
    async def nap():
        return await asyncio.to_thread(doubled, number)

    assert "refund" in agent.answer("Where is A-17?")
    assert asyncio.run(nap()) == 2 * number
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            assert pool.map(abs, [-3]) == [3]
    ask = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", ask, agent.os.environ["OPEN_PORT"]], capture_output=True, text=True)
    assert ("PermissionError" in done.stderr) is agent.os.environ.get("L3", "") .startswith("closed"), done.stderr
"""


@pytest.fixture
def recorded(project):
    def made(tests, ini=""):
        project.furnish(tests, ini)
        done = project.record("--agentreplay-no-prove", OPEN_PORT=port(project))
        assert done.returncode == 0, done.stdout + done.stderr
        return project

    return made


def port(project):
    """Where a child that is let out finds somebody."""
    return project.server.url.rpartition(":")[2]


def said(done):
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("how", ["auto", "require"])
@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["alone", "xdist"])
def test_a_session_of_replays_is_closed_by_the_kernel(recorded, how, workers):
    project = recorded(TWICE)
    done = project.offline(
        f"--agentreplay-sandbox={how}", "--junitxml=junit.xml", *workers, OPEN_PORT=port(project), L3="closed"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replayed 4 tests (12 turns, 20 calls served, 0 live, network closed (L3)" in said(done), said(done)
    assert ("agentreplay: network closed (L3): the kernel refuses" in said(done)) is not workers
    assert f"network closed ({'L3' if how == 'require' else 'L1, L3 if every test replays'})" in said(done)
    assert level(project) == ["L3"]


def level(project):
    suite = ET.parse(project.root / "junit.xml").getroot()[0]
    return [one.get("value") for one in suite.iterfind("properties/property") if one.get("name") == "agentreplay.network"]


def test_without_the_sandbox_an_allowed_child_gets_out(recorded):
    project = recorded(TWICE)
    done = project.offline("--junitxml=junit.xml", OPEN_PORT=port(project))
    assert done.returncode == 0, done.stdout + done.stderr
    assert level(project) == ["L1"]


@pytest.mark.parametrize("workers", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["alone", "xdist"])
def test_a_mixed_suite_keeps_its_network(recorded, workers):
    project = recorded(MIXED)
    done = project.offline("--agentreplay-sandbox=auto", *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "network closed at L1, not L3: test_shop.py::test_plain is not replayed" in said(done)
    required = project.offline("--agentreplay-sandbox=require", *workers)
    assert required.returncode == 4, required.stdout + required.stderr
    assert "--agentreplay-sandbox=require: test_shop.py::test_plain is not replayed" in said(required) + required.stderr
    assert "passed" not in required.stdout
    assert "INTERNALERROR" not in required.stdout and "Traceback" not in required.stdout + required.stderr
    alone = project.offline("--agentreplay-sandbox=require", "test_shop.py::test_refund")
    assert alone.returncode == 0, alone.stdout + alone.stderr
