"""Event loops in C: what they reach is listed while recording and refused in a replay; what is allowed works."""

import pytest

from tests.support.small_projects import edited, flat, furnished, recorded, runs, sections

pytestmark = pytest.mark.env("main")
uvloop = pytest.importorskip("uvloop", reason="uvloop is not made for this system")

AGENT = """
import asyncio, os, pathlib, socket, sys
import httpx2, uvloop

URL = os.environ["MODEL_URL"]
PORT = int(URL.rpartition(":")[2])
LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def loop():
    return asyncio.get_running_loop()

async def met():
    async with httpx2.AsyncClient() as client:
        assert (await client.get(URL + "/hello")).status_code == 200

async def by_tcp():
    transport, _ = await loop().create_connection(asyncio.Protocol, "127.0.0.1", PORT)
    transport.close()

async def by_udp():
    transport, _ = await loop().create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", 9))
    transport.sendto(b"x")
    transport.close()

async def by_unix():
    try:
        await loop().create_unix_connection(asyncio.Protocol, "/run/nobody.sock")
    except OSError:
        pass

async def by_dns():
    try:
        await loop().getaddrinfo("api.shop.invalid", 443)
    except OSError:
        pass

async def by_child():
    child = await asyncio.create_subprocess_exec("tee", "-a", LEDGER, stdin=asyncio.subprocess.PIPE)
    await child.communicate(b"child")

async def by_shell():
    child = await asyncio.create_subprocess_shell(f"echo shell >> {LEDGER}")
    await child.wait()

async def by_socket():
    sock = socket.socket()
    sock.setblocking(False)
    await loop().sock_connect(sock, ("127.0.0.1", PORT))
    sock.close()

async def serving():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    server.close()
    await server.wait_closed()
    await loop().getaddrinfo("127.0.0.1", 80)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import os")
    assert await child.wait() == 0
"""

TESTS = """
import pytest, agent, uvloop

@pytest.mark.parametrize("way", [name for name in vars(agent) if name.startswith("by_")])
def test_way(way, agentreplay):
    async def run():
        await agent.met()
        await getattr(agent, way)()
    uvloop.run(run())

def test_serving(agentreplay):
    async def run():
        await agent.met()
        await agent.serving()
        await agent.met()
    uvloop.run(run())

def test_without():
    uvloop.run(agent.by_tcp())
    uvloop.run(agent.by_shell())
"""

WAYS = {
    "tcp": "connect to 127.0.0.1:PORT",
    "udp": "connect to 127.0.0.1:9",
    "unix": "connect to /run/nobody.sock",
    "dns": "look-up of api.shop.invalid:443",
    "child": "child process tee",
    "shell": "child process sh",
    "socket": "connect to 127.0.0.1:PORT",
}


@pytest.fixture(scope="module")
def loops(shared_project):
    return recorded(furnished(shared_project(), agent=AGENT, test_loops=TESTS))


def reached(project):
    """What is said of each way, with the port of the day."""
    port = project.server.url.rpartition(":")[2]
    return {f"way[by_{way}]": f"1 {said.replace('PORT', port)} from agent.py:" for way, said in WAYS.items()}


def test_a_recording_lists_them(loops):
    gaps = {name: " ".join(map(str, run.header.kit.get("gaps", []))) for name, run in runs(loops).items()}
    assert not [way for way, said in reached(loops).items() if said not in gaps[way]], gaps
    assert not gaps["serving"]
    said = flat(loops.recording)
    assert not [gap for gap in reached(loops).values() if f"not recorded: {gap}" not in said]


def test_a_replay_refuses_them(loops):
    hits, ledger = loops.server.hits, loops.ledger
    done = loops.replay()
    assert loops.server.hits == hits, "nothing came through"
    assert loops.ledger[len(ledger) :] == ["shell"], "that of the test without the plugin"
    assert f"{len(WAYS)} failed, 2 passed" in done.stdout, done.stdout
    found = sections(done)
    for way, said in reached(loops).items():
        assert f"[AR-NET] refused in a closed replay: {said}" in found[way]
    assert "agentreplay_allow_hosts = api.shop.invalid:443" in found["way[by_dns]"]
    assert "agentreplay_allow_subprocess = tee" in found["way[by_child]"]


ALLOWED = "agentreplay_allow_hosts =\n    127.0.0.1\n    api.shop.invalid\nagentreplay_allow_subprocess = tee\n"


def test_what_is_allowed_passes(loops):
    with edited(loops, "pytest.ini", "pythonpath = .\n", "pythonpath = .\n" + ALLOWED):
        done = loops.replay()
    assert "2 failed, 7 passed" in done.stdout, done.stdout
    assert "open to 127.0.0.1, api.shop.invalid" in done.stdout
