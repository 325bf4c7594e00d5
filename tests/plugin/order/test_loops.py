"""Event loops in C: what they reach is listed while recording and refused in a replay; what is allowed works."""

import asyncio
import contextlib
import socket
import sys

import httpx2
import pytest

from pytest_agentreplay.snapshots import codec
from tests.ordering.driving import Stage

pytestmark = [pytest.mark.env("main"), pytest.mark.process]
uvloop = pytest.importorskip("uvloop", reason="uvloop is not made for this system")

loop = asyncio.get_running_loop


async def by_tcp(port, ledger):
    transport, _ = await loop().create_connection(asyncio.Protocol, "127.0.0.1", port)
    transport.close()


async def by_udp(port, ledger):
    transport, _ = await loop().create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", 9))
    transport.sendto(b"x")
    transport.close()


async def by_unix(port, ledger):
    await loop().create_unix_connection(asyncio.Protocol, "/run/nobody.sock")


async def by_dns(port, ledger):
    await loop().getaddrinfo("api.shop.invalid", 443)


async def by_child(port, ledger):
    child = await asyncio.create_subprocess_exec("tee", "-a", ledger, stdin=asyncio.subprocess.PIPE)
    await child.communicate(b"child")


async def by_shell(port, ledger):
    child = await asyncio.create_subprocess_shell(f"echo shell >> {ledger}")
    await child.wait()


async def by_socket(port, ledger):
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop().sock_connect(sock, ("127.0.0.1", port))


async def by_serving(port, ledger):
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    server.close()
    await server.wait_closed()
    await loop().getaddrinfo("127.0.0.1", 80)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import os")
    assert await child.wait() == 0


WAYS = {
    by_tcp: "connect to 127.0.0.1:PORT",
    by_udp: "connect to 127.0.0.1:9",
    by_unix: "connect to /run/nobody.sock",
    by_dns: "look-up of api.shop.invalid:443",
    by_child: "child process tee",
    by_shell: "child process sh",
    by_socket: "connect to 127.0.0.1:PORT",
    by_serving: "",
}
ALLOWED = {"allow_hosts": ("api.shop.invalid",), "allow_subprocess": ("tee",)}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_a_loop_in_c_reaches_is_listed_and_refused_unless_it_is_allowed(tmp_path, server, way):
    stage, ledger, port = Stage(tmp_path), tmp_path / "ledger.txt", int(server.url.rpartition(":")[2])
    ledger.touch()

    async def run():
        async with httpx2.AsyncClient(verify=False) as client:
            assert (await client.get(f"{server.url}/hello")).status_code == 200
        with contextlib.suppress(OSError):
            await way(port, ledger)

    stage.record(lambda: uvloop.run(run()))
    (file,) = tmp_path.rglob("*.snapshot.json")
    gaps = codec.loads(file.read_bytes(), file=str(file)).run.header.kit.get("gaps", [])
    said = WAYS[way].replace("PORT", str(port))
    assert [gap.partition(" from ")[0] for gap in gaps] == ([f"1 {said}"] if said else [])
    before = server.hits, ledger.read_text(encoding="utf-8")
    finding = stage.replay(lambda: uvloop.run(run())).finding
    assert (server.hits, ledger.read_text(encoding="utf-8")) == before
    assert bool(finding) == bool(said)
    assert not said or finding.headline.startswith(f"[AR-NET] refused in a closed replay: 1 {said}")
    if way in {by_dns, by_child}:
        assert stage.replay(lambda: uvloop.run(run()), **ALLOWED).finding is None
