"""The guard refuses every way out of a replay, also from threads, tasks and forks, and lets the standard library be."""

from __future__ import annotations

import _socket
import asyncio
import ctypes.util
import multiprocessing
import os
import pty
import socket
import subprocess
import sys
import textwrap
import threading
import types
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import openai
import pytest
import trio

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.network import child_events, guard, sandbox
from pytest_agentreplay.intercept.network.guard import Guard, LedgerEntry, ModelHostWatch
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import RawCall, ToolCall, ToolReply
from pytest_agentreplay.report.escape import escape_line
from tests.support.model_server import ModelServer
from tests.support.tapes import Plain, Tape, body

HERE = str(Path(__file__).parent)
DISCARD = ("127.0.0.1", 9)


@contextmanager
def guarded(mode="deny", *interception, **options):
    watch = Guard(mode, root=HERE, **options)
    watch.start(*interception)
    try:
        yield watch
    finally:
        watch.stop()


@contextmanager
def a_test(mode="deny", **options):
    """The body of a test, with its guard."""
    interception = Interception(Tape(), Plain(), root=HERE)
    with guarded(mode, interception, **options) as watch, body(interception):
        yield interception, watch


@pytest.fixture
def listener():
    """A real server socket on loopback that accepts nothing but connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def tcp():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def card():
    """A socket whose `send` puts any packet on the wire, and is not heard; only its superuser may make one."""
    raw = types.SimpleNamespace(family=socket.AF_PACKET, close=lambda: None)
    raw.bind = lambda address: sys.audit("socket.bind", raw, address)
    return raw


def named(watch):
    return [(entry.kind, entry.target) for entry in watch.ledger]


def calls(make, method, *args):
    """Makes a socket, and calls a method of it."""

    def go():
        with closing(make()) as sock:
            getattr(sock, method)(*args)

    return go


def unix():
    return socket.socket(socket.AF_UNIX)


def in_process(method):
    return lambda: multiprocessing.get_context(method).Process(target=print).start()


WAYS_OUT = {
    "a library in C": (lambda: sys.audit(sandbox.LIBRARY, "grpc"), "library", "grpc"),
    "connect": (calls(tcp, "connect", DISCARD), "connect", "127.0.0.1:9"),
    "connect over IPv6": (calls(lambda: socket.socket(socket.AF_INET6), "connect", ("::1", 9)), "connect", "[::1]:9"),
    "connect_ex": (calls(tcp, "connect_ex", DISCARD), "connect", "127.0.0.1:9"),
    "create_connection": (lambda: socket.create_connection(DISCARD), "connect", "127.0.0.1:9"),
    "the class of C": (calls(_socket.socket, "connect", DISCARD), "connect", "127.0.0.1:9"),
    "sendto": (calls(udp, "sendto", b"x", DISCARD), "send", "127.0.0.1:9"),
    "sendmsg": (calls(udp, "sendmsg", [b"x"], [], 0, DISCARD), "send", "127.0.0.1:9"),
    "bind to a network card": (calls(card, "bind", ("lo", 0)), "bind", "AF_PACKET ('lo', 0)"),
    "bind to all": (calls(tcp, "bind", ("0.0.0.0", 0)), "bind", "0.0.0.0:0"),
    "bind to none": (calls(tcp, "bind", ("", 0)), "bind", "0.0.0.0:0"),
    "getaddrinfo": (lambda: socket.getaddrinfo("db.example.com", 5432), "lookup", "db.example.com:5432"),
    "getaddrinfo in bytes": (lambda: socket.getaddrinfo(b"db.example.com", "5432"), "lookup", "db.example.com:5432"),
    "gethostbyname": (lambda: socket.gethostbyname("db.example.com"), "lookup", "db.example.com"),
    "gethostbyname_ex": (lambda: socket.gethostbyname_ex("db.example.com"), "lookup", "db.example.com"),
    "gethostbyaddr": (lambda: socket.gethostbyaddr("192.0.2.1"), "lookup", "192.0.2.1"),
    "getnameinfo": (lambda: socket.getnameinfo(("192.0.2.1", 80), 0), "lookup", "192.0.2.1:80"),
    "a socket file": (calls(unix, "connect", "/run/docker.sock"), "connect", "/run/docker.sock"),
    "an abstract socket": (calls(unix, "connect", b"\0x"), "connect", "\0x"),
    "run": (lambda: subprocess.run(["git", "--secret=7"], check=False), "child", "git"),
    "run by path": (lambda: subprocess.run([sys.executable, "-c", ""], check=False), "child", "python"),
    "run in a shell": (lambda: subprocess.run("git push", shell=True, check=False), "child", "sh"),
    "run with files": (lambda: subprocess.run(["/bin/true"], close_fds=False, check=False), "child", "true"),
    "os.system": (lambda: os.system("git push"), "child", "sh"),
    "os.popen": (lambda: os.popen("git push"), "child", "sh"),
    "os.posix_spawn": (lambda: os.posix_spawn("/bin/true", ["true"], {}), "child", "true"),
    "os.spawnv": (lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]), "child", "fork"),
    "os.execv": (lambda: os.execv("/bin/true", ["true"]), "child", "true"),
    "os.fork": (os.fork, "child", "fork"),
    "os.forkpty": (os.forkpty, "child", "fork"),
    "pty.spawn": (lambda: pty.spawn(["/bin/true"]), "child", "true"),
    "multiprocessing fork": (in_process("fork"), "child", "fork"),
    "multiprocessing spawn": (in_process("spawn"), "child", "python"),
    "multiprocessing forkserver": (in_process("forkserver"), "child", "python"),
}
"""That each is refused in every context is tried in test_probes.py; here, what is told of it."""


def test_every_way_out_is_refused_and_named(monkeypatch):
    heard = set()
    hear = Guard.hear
    monkeypatch.setattr(Guard, "hear", lambda self, event, *rest: heard.add(event) or hear(self, event, *rest))
    for way, (go, kind, target) in WAYS_OUT.items():
        with guarded() as watch, pytest.raises(ReplayDiverged) as caught:
            go()
        (entry,) = watch.ledger
        assert (entry.kind, entry.target, entry.count) == (kind, target, 1), way
        assert entry.origin.startswith("test_guard.py:"), way
        assert caught.value.divergence.kind is Kind.NETWORK
        assert str(caught.value).startswith("[AR-NET] "), way
        assert escape_line(target) in str(caught.value), way
        named = "program" if kind == "child" else "host"
        assert caught.value.divergence.hints == (f"agentreplay_allow = {named}:{target}",) == (entry.allow(),)
    assert guard.EVENTS - heard | {sandbox.MADE} == {
        *("_winapi.CreateProcess", "os.startfile", "os.spawn"),  # Windows raises these
        sandbox.LOADED,
        sandbox.MADE,  # where the sandbox is closed: see test_sandbox.py
        "cpython.PyInterpreterState_New",  # see test_probes.py
    }


def test_a_child_is_named_by_its_program_alone():
    for event, args, name in (
        ("_winapi.CreateProcess", (None, '"C:\\Program Files\\Git\\git.exe" push', None), "git"),
        ("_winapi.CreateProcess", ("C:\\git.exe", "git push", None), "git"),
        ("os.spawn", (0, "C:\\git.EXE", ["git"], None), "git"),
        ("os.startfile", ("report.pdf", "open"), "report.pdf"),
        ("subprocess.Popen", (None, "git push --token=1", None, None), "git"),
        ("subprocess.Popen", (None, ["git", "push"], None, None), "git"),
        ("subprocess.Popen", (None, Path("/usr/bin/git"), None, None), "git"),
        ("subprocess.Popen", (b"/usr/bin/git", ["x"], None, None), "git"),
        ("os.exec", (7, ["x"], {}), "7"),
    ):
        assert child_events.short_name(child_events.program(event, args)) == name, (event, args)


def test_nothing_is_refused_before_and_after(listener):
    watch = Guard("deny")
    socket.create_connection(listener).close()
    watch.start()
    watch.stop()
    watch.stop()
    socket.create_connection(listener).close()
    assert subprocess.run(["true"], check=True).returncode == 0
    assert watch.ledger == []


def test_a_swallowed_refusal_stays_in_the_ledger_and_the_first_is_latched():
    with a_test() as (interception, watch):
        for _ in range(3):
            try:
                socket.create_connection(DISCARD)
            except:  # noqa: E722  what agents do
                pass
        with pytest.raises(ReplayDiverged) as caught:
            os.fork()
    assert watch.ledger[0].line().startswith("3 connects to 127.0.0.1:9 from test_guard.py:")
    first = interception.backend.latched
    assert first == caught.value.divergence
    assert first.summary == "connect to 127.0.0.1:9 refused: a replay reaches nothing"
    assert first.origin.startswith("test_guard.py:")


def test_what_the_agent_loads_in_c_is_noted(tmp_path):
    with guarded() as watch:
        ctypes.CDLL(None)
        ctypes.cdll.LoadLibrary(ctypes.util.find_library("c"))
        uuid.uuid1()
    assert watch.ledger == []
    assert watch.loaded.keys() == {"the C library", ctypes.util.find_library("c")}
    assert all(line.startswith("test_guard.py:") for line in watch.loaded.values())


def test_a_declared_host_is_reached_by_that_name_alone(listener):
    host, port = listener
    for declared in (f"{host}:{port}", host, "localhost", f"localhost:{port}", "127.0.0.0/8"):
        with guarded(allow_hosts=[declared]) as watch:
            socket.create_connection(listener).close()
        assert watch.ledger == []
    for declared in (f"{host}:{port + 1}", "127.0.0.2", "10.0.0.0/8", f"localhost:{port + 1}"):
        with guarded(allow_hosts=[declared]), pytest.raises(ReplayDiverged):
            socket.create_connection(listener)
    for spelling in ("0.0.0.0", "2130706433", "127.1", "0x7f.0.0.1", "", "127.0.0.2"):
        with guarded(allow_hosts=["127.0.0.1", "localhost"]), tcp() as sock, pytest.raises(ReplayDiverged):
            sock.connect((spelling, port))
    mapped = ("::ffff:127.0.0.1", port)
    with guarded(allow_hosts=["127.0.0.0/8"]), socket.socket(socket.AF_INET6) as sock, pytest.raises(ReplayDiverged):
        sock.connect(mapped)
    with guarded(allow_hosts=["::ffff:127.0.0.1"]), socket.socket(socket.AF_INET6) as sock:
        sock.connect(mapped)


def test_a_declared_name_is_looked_up_and_reached(listener, monkeypatch):
    """The name stands in for one in a name server: the guard hears the event, and the answer is a loopback address."""
    real = socket.getaddrinfo

    def name_server(host, port, *args, **kwargs):
        if host == "db":
            sys.audit("socket.getaddrinfo", host, port, 0, 0, 0)
            host = "127.0.0.1"
        return real(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", name_server)
    port = listener[1]
    with guarded(allow_hosts=[f"db:{port}"]) as watch:
        socket.create_connection(("db", port)).close()
    assert watch.ledger == []
    with guarded(allow_hosts=["db:1"]), pytest.raises(ReplayDiverged):
        socket.create_connection(("db", port))
    with guarded(allow_hosts=["other"]), pytest.raises(ReplayDiverged):
        socket.create_connection(("db", port))


def test_a_declared_socket_file_is_used(tmp_path):
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client, guarded(allow_hosts=[path]):
        server.bind(path)
        server.listen()
        client.connect(path)
        with pytest.raises(ReplayDiverged):
            client.connect(path + "2")


def test_a_declared_program_runs():
    with guarded(allow_subprocess=["true"]) as watch:
        assert subprocess.run(["/bin/true"], check=False).returncode == 0
        assert subprocess.run(["true"], check=False, close_fds=False).returncode == 0
        with pytest.raises(ReplayDiverged):
            subprocess.run("true; true", shell=True, check=False)
    assert [entry.target for entry in watch.ledger] == ["sh"]
    with guarded(allow_subprocess=["/bin/true"]):
        assert subprocess.run(["/bin/true"], check=False).returncode == 0
        with pytest.raises(ReplayDiverged):
            subprocess.run(["/usr/bin/true"], check=False)


def loopback_socketpair():
    """By which `socket` makes a pair where the system has none; 3.13 has that function everywhere."""
    if hasattr(socket, "_fallback_socketpair"):
        return socket._fallback_socketpair
    source = textwrap.dedent("""
        def socketpair():
            with socket() as listener:
                listener.bind(("127.0.0.1", 0))
                listener.listen()
                one = socket()
                one.connect(listener.getsockname())
                return one, listener.accept()[0]
    """)
    names: dict = {}
    exec(compile(source, socket.__file__, "exec"), vars(socket), names)
    return names["socketpair"]


async def work():
    await asyncio.sleep(0)
    return await asyncio.to_thread(lambda: 7)  # whose end wakes the loop


async def trio_work():
    await trio.lowlevel.checkpoint()
    return await trio.to_thread.run_sync(lambda: 7)


def test_what_stays_inside_the_process_and_the_machine_passes(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with guarded() as watch, other:
            assert (asyncio.run(work()), trio.run(trio_work)) == (7, 7)
            one.sendall(b"ping")
            one.sendmsg([b"pong"])
            assert other.recv(8) == b"pingpong", "a connection from before"
            for host in ("127.0.0.1", "localhost"):
                calls(tcp, "bind", (host, 0))()
            socket.getaddrinfo("127.0.0.1", 0, flags=socket.AI_PASSIVE)
            socket.getaddrinfo(None, 80)
            socket.getaddrinfo("localhost", 80)
            socket.getfqdn()
            socket.getfqdn("127.0.0.1")
            for pipe in os.pipe():
                os.close(pipe)
            if hasattr(socket, "AF_NETLINK"):
                calls(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0), "bind", (0, 0))()
            for end in socket.socketpair():
                end.close()
            # As each event loop wakes itself on Windows, where there are no pairs.
            monkeypatch.setattr(socket, "socketpair", loopback_socketpair())
            assert asyncio.run(work()) == 7
        assert watch.ledger == []


class Proactor:
    """asyncio's of Windows, by its signatures; its calls are overlapped, and raise no audit event."""

    def connect(self, conn, address):
        return ("connected", address)

    def sendto(self, conn, buf, flags=0, addr=None):
        return ("sent", addr)


def test_what_asyncio_reaches_on_windows_is_told():
    kind = type("Proactor", (Proactor,), {})
    guard.report_proactor(kind, guard._dispatch)
    proactor = kind()
    with socket.socket() as one, guarded("listen") as watch:
        assert proactor.connect(one, ("192.0.2.1", 443)) == ("connected", ("192.0.2.1", 443))
    assert named(watch) == [("connect", "192.0.2.1:443")]
    with socket.socket() as one, guarded() as watch, pytest.raises(ReplayDiverged):
        proactor.connect(one, ("192.0.2.1", 443))
    with socket.socket(type=socket.SOCK_DGRAM) as one, guarded() as watch:
        assert proactor.sendto(one, b"", 0, None) == ("sent", None), "a connected one reaches nobody new"
        with pytest.raises(ReplayDiverged):
            proactor.sendto(one, b"", addr=("192.0.2.1", 53))
    assert named(watch) == [("send", "192.0.2.1:53")]


CLOSED = """
import ctypes.util, platform, subprocess, sys, uuid
from multiprocessing import shared_memory
events = []
sys.addaudithook(lambda event, args: event == "subprocess.Popen" and events.append(args[0]))
from pytest_agentreplay.intercept.network.guard import Guard
from pytest_agentreplay.errors import ReplayDiverged
watch = Guard("deny")
watch.start()
platform.processor(), platform.uname(), platform.platform(), platform.architecture()
ctypes.util.find_library("c"), ctypes.util.find_library("no such thing")
uuid._ifconfig_getnode(), uuid._ip_getnode(), uuid._netstat_getnode(), uuid.getnode()
probes = len(events)
block = shared_memory.SharedMemory(create=True, size=8)
block.close(), block.unlink()
try:
    subprocess.run(["uname", "-a"])
except ReplayDiverged:
    print("refused", probes >= 2, [entry.target for entry in watch.ledger])
class AtTheEnd:
    def __del__(self):
        try:
            __import__("socket").getaddrinfo("db.example.com", 1)
        except BaseException:
            pass
keep = AtTheEnd()
"""


@pytest.mark.process
def test_a_closed_process_probes_its_system_tidies_up_shared_memory_and_ends_quietly():
    """In a process of its own: `platform` keeps what it has found, and the resource tracker is a child of it."""
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "refused True ['uname']\n"), done.stderr


def probe_of(module, close_fds):
    """A function of this module of the standard library that starts a program."""
    source = f"def probe(path):\n    import subprocess\n    subprocess.run([path], close_fds={close_fds})"
    names: dict = {}
    exec(compile(source, module.__file__, "exec"), vars(module), names)
    return names["probe"]


def test_only_the_known_probes_of_the_standard_library_pass(monkeypatch):
    """Also where pydevd stands between `subprocess` and the system, to follow into children."""
    monkey = types.ModuleType("_pydev_bundle.pydev_monkey")
    exec("import os\nreal = os.posix_spawn\ndef posix_spawn(*args, **more): return real(*args, **more)", vars(monkey))
    monkeypatch.setitem(sys.modules, monkey.__name__, monkey)
    for close_fds in (True, False):
        if not close_fds:
            monkeypatch.setattr(os, "posix_spawn", monkey.posix_spawn)
        probe = probe_of(ctypes.util, close_fds)
        with guarded(), pytest.raises(ReplayDiverged):
            probe("/no/such/place/curl")
        with guarded() as watch, pytest.raises(FileNotFoundError):
            probe("/no/such/place/ldconfig")
        assert watch.ledger == []
    names = {"__name__": "platform"}
    exec("import subprocess\ndef go(): subprocess.run(['uname'])", names)
    with guarded(), pytest.raises(ReplayDiverged):
        names["go"]()


def test_a_pool_of_processes_is_refused_and_does_not_hang():
    with a_test() as (_, watch):
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))
        with pytest.raises(ReplayDiverged):
            pool.submit(print)
        pool.shutdown(wait=False, cancel_futures=True)
    assert named(watch) == [("child", "fork")]


class Late:
    """A thread that connects when it is let go on."""

    def __init__(self, address):
        self.errors, self.address, self.go = [], address, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        self.go.wait(5)
        try:
            socket.create_connection(self.address).close()
        except BaseException as error:
            self.errors.append(type(error))

    def end(self):
        self.go.set()
        self.thread.join()
        return self.errors


def test_a_thread_of_nobody_is_heard_while_the_test_runs(listener):
    late = Late(listener)
    with a_test() as (_, watch):
        assert late.end() == [ReplayDiverged]
    assert len(watch.ledger) == 1


def test_a_straggler_is_refused_on_its_own_test(listener):
    with a_test() as (first, watch):
        late = Late(listener)
    with a_test() as (second, other):
        assert late.end() == [ReplayDiverged]
    assert (second.ending.late, other.ledger, watch.ledger) == ([], [], [])
    (line,) = first.ending.late
    assert line.startswith(f"connect to 127.0.0.1:{listener[1]}   called from test_guard.py:")


def test_a_thread_that_is_refused_after_pytest_has_put_its_hook_back_prints_no_traceback(listener, monkeypatch):
    with a_test():
        late = threading.Thread(target=lambda: socket.create_connection(listener))
        held = threading.Event()
        late.run = lambda: (held.wait(5), threading.Thread.run(late))
        late.start()
    printed = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    held.set()
    late.join()
    assert printed == []


def test_a_straggler_of_a_recording_is_left_alone(listener):
    with a_test("listen"):
        late = Late(listener)
    with a_test() as (_, other):
        assert late.end() == []
    assert other.ledger == []


def test_listening_lets_through_and_lists(listener):
    def rows():
        socket.create_connection(listener).close()

    with a_test("listen") as (interception, watch):
        for _ in range(3):
            rows()
        subprocess.run(["true"], check=True)
        subprocess.run(["true"], check=True, close_fds=False)
    connects, once, again = watch.ledger
    line = rows.__code__.co_firstlineno + 1
    assert connects.line() == f"3 connects to 127.0.0.1:{listener[1]} from test_guard.py:{line} in rows"
    assert {once.target, again.target} == {"true"}
    assert (once.count, again.count) == (1, 1)
    assert once.line().startswith("1 child process true from test_guard.py:")
    assert interception.backend.latched is None


def test_a_host_is_listed_by_the_name_that_was_looked_up_where_there_is_one(listener):
    port = listener[1]
    for names, targets in ((["db"], ["db"]), (["db", "cache"], ["db", "cache", "127.0.0.1"])):
        with guarded("listen") as watch:
            for name in names:
                sys.audit("socket.getaddrinfo", name, port, 0, 0, 0)
            socket.create_connection(listener).close()
        assert [entry.target for entry in watch.ledger] == [f"{target}:{port}" for target in targets]


def test_what_happens_inside_an_exchange_is_no_gap(listener):
    with a_test("listen") as (interception, watch):
        intercepted = interception.enter(RawCall(ToolCall("rows")))
        with intercepted.inside(), ThreadPoolExecutor(1) as pool:
            socket.create_connection(listener).close()
            pool.submit(lambda: socket.create_connection(listener).close()).result()
            asyncio.run(asyncio.wait_for(asyncio.to_thread(subprocess.run, ["true"]), 5))
        intercepted.settle(ToolReply(None))
    assert watch.ledger == []


def test_recording_a_real_client_leaves_no_gap():
    """Names are resolved in executors, connects race in tasks: all of it belongs to the exchange."""
    request = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}

    async def ask(url):
        with openai.OpenAI(base_url=url, api_key="x", max_retries=0) as client:
            client.chat.completions.create(**request)
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            await asyncio.gather(*[client.chat.completions.create(**request) for _ in range(3)])
            async for _ in await client.chat.completions.create(**request, stream=True):
                pass

    registry.install()
    with ModelServer() as server, a_test("listen") as (interception, watch):
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            asyncio.run(ask(url))
    assert len(interception.backend.exchanges) == 10
    assert (watch.ledger, interception.ending.late) == ([], [])


def test_tests_without_the_plugin_that_call_a_model_host_are_counted(listener):
    bystander = ModelHostWatch()

    def a_test_that_asks(*hosts):
        bystander.start()
        for host in hosts:
            sys.audit("socket.getaddrinfo", host, 443, 0, 0, 0)
        socket.create_connection(listener).close()
        bystander.stop()

    a_test_that_asks("api.openai.com", "api.openai.com", "api.anthropic.com")
    a_test_that_asks("example.com")
    a_test_that_asks("api.openai.com")
    sys.audit("socket.getaddrinfo", "api.openai.com", 443, 0, 0, 0)
    bystander.start()
    with guarded(), pytest.raises(ReplayDiverged):
        socket.getaddrinfo("api.openai.com", 443)
    bystander.stop()
    assert bystander.tests == 2, "a guarded test is no bystander"
    assert bystander.hosts == {"api.openai.com": 2, "api.anthropic.com": 1}


def test_entries_read_well():
    assert LedgerEntry("lookup", "db:5432", "", 2).line() == "2 look-ups of db:5432"
    assert LedgerEntry("child", "git", "a.py:3 in f", 1).line() == "1 child process git from a.py:3 in f"
    assert LedgerEntry("child", "git", "a.py:3 in f", 2).line() == "2 child processes git from a.py:3 in f"
    assert LedgerEntry("send", "[::1]:53", "", 1).line() == "1 datagram to [::1]:53"
    assert LedgerEntry("library", "grpc", "", 1).line() == "1 call by the library grpc"
    assert set(guard.WORDS) == {"child", "library", "socket", *sandbox.SOCKET_EVENTS.values()}
