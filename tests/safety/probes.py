"""The ways out of a replay that a library or an agent may take, each tried for real against a server of ours.

One process tries one probe, so that none undoes the guard for the next; in it the probe is tried in each context (main
thread, thread, asyncio, trio), at one level: "open" (nothing is closed: the probe must come through, or it shows
nothing), L1 or L3. A probe came through if the server was touched, or if it says so itself. `python probes.py` is the
process that all of them are forked from, since what they import takes longer than what they do.
"""

from __future__ import annotations

import _posixsubprocess
import _socket
import asyncio
import atexit
import ctypes
import gc
import importlib
import importlib.util
import json
import multiprocessing
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pytest_agentreplay.backends.backend import RecordBackend
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.intercept.network.guard import Guard
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.interceptions import Interception

LEVELS = ("open", "L1", "L3")
CONTEXTS = ("main", "thread", "asyncio", "trio")

# What an agent may have laid by before anything was closed
SAVED_SOCKET = socket.socket
SAVED_CONNECT = socket.socket.connect
SAVED_SEND_TO = _socket.socket.sendto
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform != "win32" else None


class Place:
    """Where the probes go: a server on TCP and UDP, a socket file, and a file that children write."""

    def __init__(self, folder):
        self.folder = folder
        self.port = int((folder / "port").read_text())
        self.there = ("127.0.0.1", self.port)
        self.file = str(folder / "file.sock")
        self.touched = folder / "touched"
        self.before: socket.socket | None = None

    @property
    def line(self):
        """A shell line that touches the file."""
        return f"echo child >> {self.touched}"

    def touch(self):
        """What a child does, so that it can be seen."""
        with self.touched.open("a") as file:
            file.write("child\n")


def connects(make):
    """Close what `make` gives."""

    def probe(place):
        make(place).close()

    return probe


def tcp_by(kind, connect="connect"):
    def probe(place):
        with SAVED_SOCKET(fileno=kind(socket.AF_INET, socket.SOCK_STREAM).detach()) as one:
            if connect == "saved":
                SAVED_CONNECT(one, place.there)
            elif getattr(one, connect)(place.there):
                raise ConnectionError

    return probe


def by_c_class(place):
    one = _socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        one.connect(place.there)
    finally:
        one.close()


def udp(send):
    def probe(place):
        with SAVED_SOCKET(socket.AF_INET, socket.SOCK_DGRAM) as one:
            send(one, place)

    return probe


def connected_udp(one, place):
    one.connect(place.there)
    one.send(b"udp")


def fast_open(place):
    with SAVED_SOCKET(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.sendto(b"x", socket.MSG_FASTOPEN, place.there)


def looks_up(look):
    """A look-up has no server of ours to touch: it came through unless it was refused."""

    def probe(place):
        del place
        with suppress(OSError):
            look()
        return "asked"

    return probe


def reloaded(place):
    importlib.reload(socket).create_connection(place.there).close()


def binds(place):
    del place
    with SAVED_SOCKET(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.bind(("0.0.0.0", 0))
    return "bound"


def unix(place):
    with SAVED_SOCKET(socket.AF_UNIX) as one:
        one.connect(place.file)


def raw(place):
    """A UDP datagram with a header of one's own; only a superuser may."""
    packet = struct.pack("!HHHH", 9, place.port, 11, 0) + b"raw"
    with SAVED_SOCKET(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as one:
        one.sendto(packet, ("127.0.0.1", 0))


def packet(place):
    del place
    with SAVED_SOCKET(socket.AF_PACKET, socket.SOCK_RAW) as one:
        one.bind(("lo", 0))
        one.send(bytes(64))
    return "sent"


def waits(begin):
    def probe(place):
        if begin(place) != 0:
            raise ChildProcessError

    return probe


def forks(fork):
    def probe(place):
        made = fork()
        child, terminal = made if isinstance(made, tuple) else (made, None)
        if not child:
            with suppress(BaseException):
                place.touch()
            os._exit(0)
        os.waitpid(child, 0)
        if terminal is not None:
            os.close(terminal)

    return probe


def executes(place):
    """In a fork that was made before anything was closed, it would be another probe: this one replaces the process."""
    os.execv("/bin/sh", ["sh", "-c", f'{place.line}; echo \'{{"main": "through"}}\''])


def in_process(method):
    def probe(place):
        process = multiprocessing.get_context(method).Process(target=touches, args=(str(place.touched),))
        process.start()
        process.join()

    return probe


def touches(file):
    """In a child of `multiprocessing`."""
    with open(file, "a") as touched:
        touched.write("child\n")


def fork_exec(place):
    """As `multiprocessing.util.spawnv_passfds` does."""
    read, write = os.pipe()
    args = [b"/bin/sh", b"-c", place.line.encode()], [b"/bin/sh"], True, (write,), None, None
    numbers = (-1, -1, -1, -1, -1, -1, read, write)
    child = _posixsubprocess.fork_exec(*args, *numbers, False, False, -1, None, None, None, -1, None, False)
    os.close(read)
    os.close(write)
    os.waitpid(child, 0)


def interpreter(place):
    """It has a list of audit hooks of its own."""
    interpreters = __import__("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    one = interpreters.create()
    interpreters.run_string(one, f"import socket; socket.create_connection({place.there!r}).close()")


def streams(place):
    async def ask():
        _, writer = await asyncio.open_connection(*place.there)
        writer.close()

    return ask()


def datagrams(place):
    async def ask():
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=place.there)
        transport.sendto(b"udp")
        transport.close()

    return ask()


def shell_of_asyncio(place):
    async def ask():
        await (await asyncio.create_subprocess_shell(place.line)).wait()

    return ask()


async def trio_stream(place):
    import trio

    await (await trio.open_tcp_stream(*place.there)).aclose()


def swallowed(place):
    try:
        socket.create_connection(place.there).close()
    except:  # noqa: E722  what agents do
        pass


def address_of(place):
    return ctypes.create_string_buffer(
        struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", place.port, b"\x7f\0\0\1")
    )


def by_libc(place):
    one = LIBC.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    if one < 0 or LIBC.connect(one, address_of(place), 16):
        raise OSError(ctypes.get_errno(), "libc")
    LIBC.close(one)


def by_syscall(place):
    number = sandbox.MACHINES[os.uname().machine].socket
    one = LIBC.syscall(number, socket.AF_INET, socket.SOCK_STREAM, 0)
    if one < 0 or LIBC.connect(one, address_of(place), 16):
        raise OSError(ctypes.get_errno(), "system call")
    LIBC.close(one)


def system_of_c(place):
    """A child that the guard does not hear of; what it can do is what counts."""
    ask = f"import socket; socket.create_connection({place.there!r})"
    if LIBC.system(f'{sys.executable} -c "{ask}" 2> /dev/null'.encode()):
        raise ChildProcessError


def ring(place):
    """A ring may make and connect sockets without their system calls."""
    del place
    made = LIBC.syscall(425, 4, ctypes.create_string_buffer(120))
    if made < 0:
        raise OSError(ctypes.get_errno(), "io_uring")
    LIBC.close(made)
    return "made"


def child_that_is_allowed(place):
    ask = f"import socket; socket.create_connection({place.there!r})"
    subprocess.run([sys.executable, "-c", ask], check=True, stderr=subprocess.DEVNULL)


def in_fork(place):
    """The guard is inherited; its ledger is the child's own, so what it swallows is not told."""
    child = os.fork()
    if not child:
        try:
            socket.create_connection(place.there).close()
        except BaseException:
            os._exit(7)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise ChildProcessError


def in_spawned(place):
    process = multiprocessing.get_context("spawn").Process(target=socket.create_connection, args=(place.there,))
    process.start()
    process.join()
    if process.exitcode:
        raise ChildProcessError


def curl(perform, place):
    import pycurl

    one = pycurl.Curl()
    one.setopt(one.URL, f"http://127.0.0.1:{place.port}/")
    one.setopt(one.TIMEOUT_MS, 2000)
    one.setopt(one.WRITEFUNCTION, lambda data: None)
    perform(one)


def saved_curl(place):
    """The method of C, as whoever took it before we came still has it."""
    curl(lambda one: type(one).__mro__[-2].perform(one), place)


def primp(get_of, place):
    import primp

    get_of(primp.Client.get)(primp.Client(timeout=2), f"http://127.0.0.1:{place.port}/")


def by_grpc(place):
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{place.port}") as channel, suppress(grpc.RpcError):
        channel.unary_unary("/shop/Find")(b"", timeout=2)


def channel_of_grpc(place):
    """A channel connects by itself, without any call."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{place.port}") as channel, suppress(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=1)


def from_before(place):
    assert place.before is not None
    place.before.sendall(b"from before")


class Probe(NamedTuple):
    """A way out. `heard` says that L1 refuses it, since Python tells of it; `told` that the test's ledger has it.

    `needs` are libraries, `allowed` the programs that the test may start.
    """

    go: object
    heard: bool = True
    needs: tuple = ()
    contexts: tuple = CONTEXTS
    root: bool = False
    allowed: tuple = ()
    told: bool = True


MAIN = ("main",)

PROBES: dict[str, Probe] = {
    "create_connection": Probe(connects(lambda place: socket.create_connection(place.there))),
    "the class, saved": Probe(tcp_by(SAVED_SOCKET)),
    "connect, saved": Probe(tcp_by(SAVED_SOCKET, "saved")),
    "connect_ex": Probe(tcp_by(SAVED_SOCKET, "connect_ex")),
    "_socket.socket": Probe(by_c_class),
    "UDP sendto": Probe(udp(lambda one, place: one.sendto(b"udp", place.there))),
    "UDP sendto, saved": Probe(udp(lambda one, place: SAVED_SEND_TO(one, b"udp", place.there))),
    "UDP sendmsg": Probe(udp(lambda one, place: one.sendmsg([b"udp"], [], 0, place.there))),
    "UDP connected": Probe(udp(connected_udp)),
    "TCP fast open": Probe(fast_open),
    "getaddrinfo": Probe(looks_up(lambda: socket.getaddrinfo("probe.invalid", 80))),
    "_socket.getaddrinfo": Probe(looks_up(lambda: _socket.getaddrinfo("probe.invalid", 80))),
    "gethostbyname": Probe(looks_up(lambda: socket.gethostbyname("probe.invalid"))),
    "gethostbyname_ex": Probe(looks_up(lambda: socket.gethostbyname_ex("probe.invalid"))),
    "gethostbyaddr": Probe(looks_up(lambda: socket.gethostbyaddr("192.0.2.1"))),
    "getnameinfo": Probe(looks_up(lambda: socket.getnameinfo(("192.0.2.1", 80), 0))),
    "bind to all": Probe(binds),
    "reload(socket)": Probe(reloaded),
    "a raw socket": Probe(raw, root=True),
    "a packet socket": Probe(packet, root=True),
    "a socket file": Probe(unix),
    "asyncio streams": Probe(streams, contexts=("asyncio",)),
    "asyncio datagrams": Probe(datagrams, contexts=("asyncio",)),
    "trio streams": Probe(trio_stream, contexts=("trio",)),
    "swallowed": Probe(swallowed),
    "subprocess": Probe(lambda place: subprocess.run(place.line, shell=True, check=True)),
    "asyncio's subprocess": Probe(shell_of_asyncio, contexts=("asyncio",)),
    "os.system": Probe(waits(lambda place: os.system(place.line))),
    "os.popen": Probe(lambda place: os.popen(place.line).close()),
    "os.execv": Probe(executes, contexts=MAIN),
    "os.posix_spawn": Probe(
        waits(lambda place: os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", place.line], {}), 0)[1])
    ),
    "os.spawnv": Probe(waits(lambda place: os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", place.line]))),
    "os.fork": Probe(forks(lambda: os.fork())),
    "os.forkpty": Probe(forks(lambda: os.forkpty())),
    "pty.fork": Probe(forks(lambda: pty.fork())),
    "fork_exec": Probe(fork_exec),
    "multiprocessing fork": Probe(in_process("fork"), contexts=MAIN),
    "multiprocessing spawn": Probe(in_process("spawn"), contexts=MAIN),
    "multiprocessing forkserver": Probe(in_process("forkserver"), contexts=MAIN),
    "another interpreter": Probe(interpreter, contexts=MAIN),
    "libc by ctypes": Probe(by_libc, heard=False),
    "a system call by ctypes": Probe(by_syscall, heard=False),
    "libc's system": Probe(system_of_c, heard=False, contexts=MAIN),
    "io_uring": Probe(ring, heard=False, contexts=MAIN),
    "the child of an allowed program": Probe(child_that_is_allowed, heard=False, contexts=MAIN, allowed=("python",)),
    "an allowed spawn": Probe(in_spawned, heard=False, contexts=MAIN, allowed=("python",)),
    "an allowed fork": Probe(in_fork, contexts=MAIN, allowed=("fork",), told=False),
    "a connection from before": Probe(from_before, heard=False, contexts=MAIN),
    "pycurl": Probe(partial(curl, lambda one: one.perform()), needs=("pycurl",)),
    "pycurl, saved": Probe(saved_curl, heard=False, needs=("pycurl",)),
    "primp (Rust)": Probe(partial(primp, lambda get: get), needs=("primp",)),
    "primp (Rust), saved": Probe(
        partial(primp, lambda get: getattr(get, "__wrapped__", get)), heard=False, needs=("primp",)
    ),
    "grpc": Probe(by_grpc, needs=("grpc",), contexts=("main", "thread")),
    "grpc's own connection": Probe(channel_of_grpc, heard=False, needs=("grpc",), contexts=("main", "thread")),
}


class Plain:
    """A redaction that has nothing to hide."""

    headers = call = reveal = text = staticmethod(lambda value: value)
    outcome = staticmethod(lambda call, outcome: outcome)


class Latching(RecordBackend):
    """A gate that keeps the first refusal."""

    latched = None

    def latch(self, divergence, origin):
        del origin
        self.latched = self.latched or divergence
        return self.latched


def go(probe, context, place):
    """Try it in `context`; what it gives, or what it raised."""
    box = []

    async def awaited():
        made = probe.go(place)
        box.append(await made if asyncio.iscoroutine(made) else made)

    def now():
        try:
            if context in {"asyncio", "trio"}:
                runner = importlib.import_module(context)
                runner.run(awaited() if context == "asyncio" else awaited)
            else:
                made = probe.go(place)
                box.append(asyncio.run(made) if asyncio.iscoroutine(made) else made)
        except BaseException as error:
            box.append(error)

    if context == "thread":
        thread = threading.Thread(target=now)
        thread.start()
        thread.join()
    else:
        now()
    return box[0]


def tried(name, level, place):
    """The verdict of each context: "through", or how it was refused; and with a guard, how many the ledger has."""
    probe = PROBES[name]
    for library in probe.needs:
        importlib.import_module(library)
    verdicts: dict[str, str] = {}
    watch = Guard("deny", root=str(Path(__file__).parent), allow_subprocess=probe.allowed)
    with ExitStack() as stack:
        if name == "a connection from before":
            place.before = stack.enter_context(SAVED_SOCKET(socket.AF_INET, socket.SOCK_STREAM))
            place.before.connect(place.there)
        if level == "L3":
            if sandbox.ways_out():  # the session is refused: `require` runs no test, `auto` says L1
                return {"main": "refused: a socket is open already"}
            assert sandbox.close() == ""
        if level != "open":
            registry.install()
            interception = Interception(Latching(), Plain(), root=str(Path(__file__).parent))
            watch.start(interception)
            stack.callback(watch.stop)
            interceptions.open_for(interception)
            stack.callback(interceptions.open_for, None)
            lanes.CALL_CONTEXT.set(interception.main())
        for context in probe.contexts:
            given = go(probe, context, place)
            if isinstance(given, BaseException):
                verdicts[context] = f"refused: {type(given).__name__}"
            else:
                verdicts[context] = "through" if given else "ended"
    if level != "open":
        verdicts["ledger"] = str(sum(entry.count for entry in watch.ledger))
    return verdicts


class Listener:
    """The server that the probes go to, in a folder; `touched` says whether anybody came since it was asked last."""

    def __init__(self, folder):
        self.folder = folder
        self.tcp = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "file.sock"))
        self.unix.listen(64)
        (folder / "port").write_text(str(self.port))
        self.heard = 0
        self._end, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        """Take every connection and datagram; answer as little as HTTP clients need to end."""
        connections: list[socket.socket] = []
        while True:
            ready, _, _ = select.select([self._end, self.tcp, self.udp, self.unix, *connections], [], [])
            if ready == [self._end]:  # all that was sent before the end is here
                break
            for one in ready:
                if one == self._end:
                    continue
                if one in (self.tcp, self.unix):
                    connections.append(one.accept()[0])
                    self.heard += 1
                elif one is self.udp:
                    self.udp.recv(100)
                    self.heard += 1
                else:
                    data = b""
                    with suppress(OSError):
                        data = one.recv(10_000)
                        one.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                    self.heard += bool(data)
                    one.close()
                    connections.remove(one)
        for one in connections:
            one.close()

    def close(self):
        os.write(self._stop, b".")
        self._thread.join()
        for one in (self.tcp, self.udp, self.unix):
            one.close()
        os.close(self._end)
        os.close(self._stop)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Verdict(NamedTuple):
    """What one process showed: whether anything came through, what each context said, what the ledger held."""

    through: bool
    said: dict[str, str]


class Prober:
    """The process that probes are forked from."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def verdict(self, name, level):
        """Try one probe at one level, in a process of its own, against a server of its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            with Listener(folder) as listener:
                self._process.stdin.write(json.dumps([name, level, place]) + "\n")
                self._process.stdin.flush()
                status = self._process.stdout.readline().strip()
            lines = (folder / "said").read_text().strip().splitlines()
            if status != "0" or not lines:
                raise RuntimeError(f"{name} at {level} ended with {status}: {(folder / 'errors').read_text()}")
            said = json.loads(lines[-1])
            opened = name == "a connection from before"  # which was made before anything was closed
            came = listener.heard > opened or (folder / "touched").exists() or "through" in said.values()
            return Verdict(came, said)


def here():
    """The probes that this system and environment can try."""
    for name, probe in PROBES.items():
        there = all(importlib.util.find_spec(library) for library in probe.needs)
        if there and (not probe.root or os.geteuid() == 0):
            yield name


def main():
    """Fork a process for each probe that is asked for, and tell how it ended."""
    import trio  # noqa: F401  what most of them need

    gc.freeze()
    for line in sys.stdin:
        name, level, folder = json.loads(line)
        child = os.fork()
        if child:
            print(waited(child), flush=True)
            continue
        for number, file in ((1, "said"), (2, "errors")):
            os.dup2(os.open(f"{folder}/{file}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        print(json.dumps(tried(name, level, Place(Path(folder)))), flush=True)
        threading._shutdown()
        atexit._run_exitfuncs()  # which end the servers of multiprocessing
        os._exit(0)  # to take the interpreter down would cost more than most probes


def waited(child):
    """The exit code of a child, which gets a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


if __name__ == "__main__":
    main()
