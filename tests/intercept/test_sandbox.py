"""The filter that the kernel is given, on both machines that it is written for, and what a process does under it."""

import errno
import platform
import socket
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.intercept.network.sandbox import MACHINES, program

linux = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

ALLOW, KILL = 0x7FFF0000, 0x80000000
NO_SOCKET, NO_CALL = 0x00050000 | errno.EACCES, 0x00050000 | errno.EPERM
CLONE = {"x86_64": 56, "aarch64": 220}
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}


def answer(steps, *, number, audit, first=0):
    """What the filter says of one system call; the machine of the kernel, for the four instructions that we use."""
    data = {0: number, 4: audit, 16: first & 0xFFFFFFFF}
    at = held = 0
    for _ in steps:
        code, yes, no, value = steps[at]
        at += 1
        if code == 0x20:
            held = data[value]
        elif code == 0x06:
            return value
        else:
            at += yes if (held == value if code == 0x15 else held > value) else no
    raise AssertionError("the filter does not end")


@pytest.mark.skipif(not hasattr(socket, "AF_NETLINK"), reason="the numbers of Linux")
@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_refuses_sockets_that_lead_away_and_nothing_else(name):
    machine = MACHINES[name]
    steps = program(machine)

    def said(number, first=0, audit=machine.audit):
        return answer(steps, number=number, audit=audit, first=first)

    inside = {1, 16, 38}  # UNIX, NETLINK, ALG
    for family in range(50):
        assert said(machine.socket, family) == (ALLOW if family in inside else NO_SOCKET), family
    assert said(machine.socket, 2 | 7 << 32) == NO_SOCKET, "the kernel reads the lower half"
    assert {said(number) for number in (425, 426, 427)} == {NO_CALL}
    for number in (0, 1, 3, 59, 424, 428, CLONE[name], SOCKETPAIR[name], machine.seccomp):
        assert said(number, 2) == ALLOW, number
    for other in (0x40000003, 0x40000028, *(one.audit for one in MACHINES.values() if one is not machine)):
        assert said(machine.socket, 1, audit=other) == KILL, "a program of another architecture"
    if name == "x86_64":
        assert said(0x40000000 | machine.socket, 1) == NO_CALL, "x32"


def test_a_system_without_such_a_filter_says_so(monkeypatch):
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    assert sandbox.missing() == sandbox.close() == "darwin has no such filter, the network is not closed by the kernel"
    assert not sandbox.is_closed()


@linux
def test_another_machine_says_so(monkeypatch):
    monkeypatch.setattr(sandbox.os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    assert sandbox.missing() == "the filter is written for x86_64 and aarch64 of 64 bits, and this is riscv64"


@linux
def test_a_kernel_that_minds_no_filter_is_not_told_as_a_closed_one(monkeypatch):
    monkeypatch.setattr(sandbox, "missing", lambda: "")
    monkeypatch.setattr(sandbox, "_install", lambda machine: "")
    monkeypatch.setattr(sandbox.os, "uname", lambda: SimpleNamespace(machine="x86_64"), raising=False)
    assert sandbox.close() == "the kernel took the filter, and makes sockets all the same"
    assert not sandbox.is_closed()


def run(source):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


closes = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES, reason="no filter for this system"
)


@pytest.mark.process
@closes
def test_threads_from_before_are_closed_too_and_what_stays_inside_works():
    assert run("""
        import asyncio, multiprocessing, socket, subprocess, sys, threading
        from pytest_agentreplay.intercept.network import sandbox
        go, told = threading.Event(), []
        def late():
            go.wait()
            try:
                socket.socket().close()
            except PermissionError:
                told.append("refused")
        thread = threading.Thread(target=late)
        thread.start()
        assert sandbox.close() == sandbox.close() == "" and sandbox.is_closed()
        go.set(), thread.join()
        async def work():
            return await asyncio.to_thread(abs, -3)
        assert asyncio.run(work()) == 3
        for name in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(name).Pool(1) as pool:
                assert pool.map(abs, [-3]) == [3]
        with multiprocessing.Manager() as manager:
            assert list(manager.list([1])) == [1]
        for family in (socket.AF_UNIX, socket.AF_NETLINK):
            socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_STREAM).close()
        for one in socket.socketpair():
            one.close()
        print(*told, socket.gethostbyname("localhost"))
        """) == ["refused", "127.0.0.1"]


@pytest.mark.process
@closes
def test_a_socket_that_is_open_already_is_named():
    assert run("""
        import os, socket
        from pytest_agentreplay.intercept.network import sandbox
        assert sandbox.ways_out() == []
        with socket.socketpair()[0], socket.create_server(("127.0.0.1", 0)) as server:
            socket.setdefaulttimeout(3)
            (named,) = sandbox.ways_out()
            assert named == f"127.0.0.1:{server.getsockname()[1]}" and os.get_blocking(server.fileno())
            assert socket.getdefaulttimeout() == 3
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
                one.bind(("::1", 0))
                assert sandbox.ways_out() == [named, f"[::1]:{one.getsockname()[1]}"]
        print(len(sandbox.ways_out()))
        """) == ["0"]


@pytest.mark.process
@closes
def test_the_guard_tells_of_a_socket_that_the_kernel_refuses():
    """It hears of the socket, not of the connect that would have come: a swallowed PermissionError fails the test."""
    assert run("""
        import _socket, socket
        from contextlib import suppress
        from pytest_agentreplay.intercept.network import sandbox
        from pytest_agentreplay.intercept.network.guard import Guard
        pair = socket.socketpair()
        watch = Guard("deny")
        watch.start()
        socket.socket().close()
        assert watch.ledger == [], "a socket alone is nothing, where it can be told whom it reaches"
        sandbox.close()
        for make in (socket.socket, lambda: _socket.socket(socket.AF_INET6), lambda: socket.create_connection(("127.0.0.1", 9))):
            try:
                make()
            except BaseException:
                pass
        pair[0].dup().close(), socket.fromfd(pair[1].fileno(), socket.AF_UNIX, socket.SOCK_STREAM).close()
        with suppress(ImportError):
            import urllib3.util.connection as connection
            assert connection._has_ipv6("::1") is False
        for one in pair:
            one.close()
        print(*(f"{entry.kind}:{entry.target}:{entry.count}" for entry in watch.ledger))
        print(entry.allow() if (entry := watch.ledger[0]) else "")
        """) == ["socket:AF_INET:2", "socket:AF_INET6:1", "addopts", "=", "--agentreplay-sandbox=off"]
