"""The sandbox of a session: closed where every selected test replays, in each worker; told where it is not, and why."""

import importlib
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.snapshots import codec
from tests.support.project import NOBODY
from tests.support.small_projects import edited, flat, passed

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's"),
]

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
import asyncio, multiprocessing, subprocess
import pytest
import agent

def doubled(number):
    return 2 * number

@pytest.mark.parametrize("number", range(2))
@pytest.mark.agentreplay(allow=["program:python", "program:fork", "program:bash"])
def test_refund(agentreplay, number):
    async def nap():
        return await asyncio.to_thread(doubled, number)

    assert "refund" in agent.answer("Where is A-17?")
    assert asyncio.run(nap()) == 2 * number
    with multiprocessing.get_context("fork" if number else "spawn").Pool(1) as pool:
        assert pool.map(abs, [-3]) == [3]
    # Not a Python process: that would join the replay, which refuses the connection itself.
    ask = f"exec 3<>/dev/tcp/127.0.0.1/{agent.os.environ['OPEN_PORT']}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    assert ("Permission denied" in done.stderr) is agent.os.environ.get("L3", "").startswith("closed"), done.stderr
"""

PROBING = """
import sys
from pathlib import Path

sys.path.insert(0, {safety!r})
import probes

def run(messages):
    probes.ctypes.CDLL(None)
    place = probes.Place(Path({folder!r}))
    for name, probe in probes.PROBES.items():
        if not probe.heard and not probe.needs and name != "a connection from before":
            for context in probe.contexts:
                print(name, context, repr(probes.go(probe, context, place)))
    print("tried")
"""

CASE = """
schemaVersion: "1.0"
id: probing
title: It tries all
source: {format: snapshot, fidelity: bytes}
input: {messages: [{role: user, content: Go.}]}
runner: probing
observed: [{status: ok}]
desired: [{status: error}]
"""

SWALLOWS = """
import ctypes, socket
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")
    if agent.os.environ.get("LOADS"):
        ctypes.CDLL(None)
    if agent.os.environ.get("CURIOUS"):
        try:
            socket.create_connection(("127.0.0.1", 9))
        except BaseException:
            pass
"""

AUTO, REQUIRE = "--agentreplay-sandbox=auto", "--agentreplay-sandbox=require"
XDIST = ("-p", "xdist.plugin", "-n", "2")


@pytest.fixture(scope="module")
def recorded(shared_project):
    """Makes the projects of these tests, each recorded once."""
    made = {}

    def project(tests):
        if tests not in made:
            made[tests] = shared_project()
            made[tests].furnish(tests)
            made[tests].environ["OPEN_PORT"] = made[tests].server.url.rpartition(":")[2]
            passed(made[tests].record())
        return made[tests]

    return project


def level(project):
    suite = ET.parse(project.root / "junit.xml").getroot()[0]
    found = suite.iterfind("properties/property")
    return [one.get("value") for one in found if one.get("name") == "agentreplay.network"]


@pytest.mark.parametrize(("how", "workers"), [(AUTO, ()), (REQUIRE, XDIST)], ids=["auto", "required in workers"])
def test_a_session_of_replays_is_closed_by_the_kernel(recorded, how, workers):
    project = recorded(TWICE)
    said = flat(passed(project.offline(how, "--junitxml=junit.xml", *workers, L3="closed")))
    assert "replayed 2 tests (6 turns, 10 calls served, 0 live, offline by the kernel" in said, said
    assert ("agentreplay: offline by the kernel, which refuses" in said) is not workers
    assert f"offline{' by the kernel' if how == REQUIRE else ', by the kernel if every test replays'}" in said
    assert level(project) == ["L3"]


def test_without_the_sandbox_an_allowed_child_gets_out(recorded):
    project = recorded(TWICE)
    passed(project.offline("--junitxml=junit.xml"))
    assert level(project) == ["L1"]


def put(project, ini):
    """The case in its project, which has these lines in its ini file."""
    folder = project.root / "cases/probing"
    folder.mkdir(parents=True)
    (folder / "case.yaml").write_text(CASE, encoding="utf-8")
    (folder / "run.snapshot.json").write_text(codec.dumps(Run(Header("nothing"))), encoding="utf-8")
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n" + ini, encoding="utf-8")


@pytest.mark.real_process
@pytest.mark.env("main")
def test_no_runner_of_a_case_gets_out_where_the_kernel_keeps_it(project, monkeypatch):
    safety = Path(__file__).parents[2] / "safety"
    monkeypatch.syspath_prepend(str(safety))
    probes = importlib.import_module("probes")
    project.write(probing=PROBING.format(safety=str(safety), folder=str(project.root)))
    put(project, "agentreplay_runners = probing = probing:run\nagentreplay_allow = program:python\n")
    with probes.Listener(project.root) as listener:
        done = passed(project.run("cases", REQUIRE, "--junitxml=junit.xml", "-rP"))
        assert listener.heard == 0, done.stdout
    assert "tried" in done.stdout
    assert level(project) == ["L3"]


def test_a_case_that_may_reach_a_host_keeps_the_sandbox_off(project):
    put(project, "agentreplay_allow = host:db:5432\n")
    done = project.run("cases", "--agentreplay-sandbox=require")
    assert done.returncode == 4, done.stdout + done.stderr
    said = "--agentreplay-sandbox=require: cases/probing/case.yaml::probing may reach db:5432"
    assert said in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_a_mixed_suite_keeps_its_network(recorded, workers):
    project = recorded(MIXED)
    done = passed(project.offline(AUTO, *workers))
    assert "2 passed" in done.stdout
    assert "network closed, but not by the kernel: test_shop.py::test_plain is not replayed" in flat(done)
    required = project.offline(REQUIRE, *workers)
    assert required.returncode == 4, required.stdout + required.stderr
    assert f"{REQUIRE}: test_shop.py::test_plain is not replayed" in flat(required) + required.stderr
    assert not {"passed", "INTERNALERROR>", "Traceback"} & {*(required.stdout + required.stderr).split()}


def test_a_swallowed_refusal_of_the_kernel_fails_the_test(recorded):
    done = recorded(SWALLOWS).offline(REQUIRE, CURIOUS="1")
    assert done.returncode == 1
    for said in ("[AR-NET]", "socket of AF_INET", "addopts = --agentreplay-sandbox=off"):
        assert said in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        ("allow=['host:127.0.0.1']", "test_shop.py::test_refund may reach 127.0.0.1"),
        ("children=['node *']", "test_shop.py::test_refund has children, which reach their gateway by loopback"),
    ],
)
def test_what_a_test_declares_keeps_the_sandbox_off(recorded, marker, why):
    project = recorded(SWALLOWS)
    marked = f"import pytest\n@pytest.mark.agentreplay({marker})\ndef test_refund("
    with edited(project, "test_shop.py", "def test_refund(", marked):
        assert f"agentreplay: offline, but not by the kernel: {why}" in flat(project.run(AUTO))


def test_a_socket_from_before_keeps_it_off(recorded):
    project = recorded(SWALLOWS)
    project.write(conftest="import socket\nopened = socket.create_server(('127.0.0.1', 0))\n")
    done = project.run(AUTO, "-W", "ignore::ResourceWarning")
    (project.root / "conftest.py").unlink()
    assert "not by the kernel: a socket is open already, to 127.0.0.1:" in flat(passed(done))


def test_a_gateway_that_nobody_has_declared_says_what_it_needs(recorded):
    project = recorded(SWALLOWS)
    with edited(project, "test_shop.py", "    if agent", "    agentreplay.gateway\n    if agent"):
        done = project.run(AUTO)
    assert done.returncode == 1
    assert 'allow=["host:127.0.0.1"]' in flat(done), done.stdout


def test_what_addopts_says_holds_for_replays_and_what_is_typed_for_this_run(recorded):
    project = recorded(SWALLOWS)
    with edited(project, "pytest.ini", "agentreplay_tools", f"addopts = {REQUIRE}\nagentreplay_tools"):
        assert "offline by the kernel" in project.run().stdout
        assert "offline by the kernel" not in project.run("--agentreplay-sandbox=off").stdout
        passed(project.record())
    typed = project.record(REQUIRE)
    assert typed.returncode == 4
    assert f"{REQUIRE} closes the network, but the mode is record" in typed.stderr
    assert project.run("--agentreplay-sandbox=sometimes").returncode == 4


def test_a_session_without_replays_is_left_alone(project):
    project.write(test_plain="import socket\ndef test_plain():\n    socket.socket().close()\n")
    assert "1 passed" in passed(project.run(AUTO, "test_plain.py")).stdout


def test_what_is_loaded_in_c_is_told_where_no_kernel_refuses_it(recorded):
    project = recorded(SWALLOWS)
    told = "unheard test_shop.py:8 in test_refund loads the C library with ctypes"
    assert told in flat(project.offline(LOADS="1"))
    assert "unheard" not in project.offline(AUTO, LOADS="1").stdout


def test_a_job_that_replays_needs_no_credentials_and_is_told_of_those_it_has(recorded):
    project = recorded(SWALLOWS)
    secrets = {"SHOP_TOKEN": "a8d0f17c2b9e", "DB_PASSWORD_FILE": "run/secrets/db"}
    held = {"MODEL_API_KEY": "dummy-key-for-replays"} | secrets
    done = project.offline(CI="true", **held)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("secrets")]
    assert line.startswith("secrets   SHOP_TOKEN")
    assert "MODEL_API_KEY" not in line
    assert "a8d0f17c2b9e" not in done.stdout
    assert "secrets" not in project.offline(**held).stdout, "on a machine of one's own that is as usual"
    project.write(test_plain="def test_plain():\n    pass\n")
    done = project.run("test_plain.py", CI="true", **held)
    (project.root / "test_plain.py").unlink()
    assert "secrets" not in done.stdout, "nothing is replayed"


def test_a_replay_in_a_namespace_without_any_network_passes(recorded):
    """There is nothing to reach, not even by loopback."""
    apart = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        if os.environ.get("CI") and not os.environ.get("NO_NAMESPACES"):
            pytest.fail("CI must try this: permit user namespaces, or say NO_NAMESPACES=1 in the job")
        pytest.skip("this system permits no user namespaces")
    project = recorded(SWALLOWS)
    command = [*apart, sys.executable, "-m", "pytest", *project.options]
    environ = project.surroundings(MODEL_URL=NOBODY)
    done = passed(subprocess.run(command, cwd=project.root, env=environ, capture_output=True, text=True, timeout=120))
    assert "3 turns, 5 calls served, 0 live" in done.stdout
