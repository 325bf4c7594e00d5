"""The guard of one test: it hears of every socket and child process of Python, and refuses them in a replay.

What happens inside an exchange is the boundary's own and passes. C code that opens sockets itself is heard where
`unintercepted` and `loops` know it (libcurl, uvloop, drivers in C), else not, nor is a child of a program that was let
through: a net for mistakes, not a sandbox. What the guard has heard of, it keeps in a ledger, in words.

Python's audit hook cannot be removed. There is one in this process; it looks an event up in a set, and no more.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.network import in_process, sandbox
from pytest_agentreplay.intercept.network.child_events import (
    CHILD_EVENTS,
    INTERPRETER,
    environment,
    is_probe,
    is_repeat,
    program,
    short_name,
)
from pytest_agentreplay.intercept.network.sandbox import (
    LIBRARY,
    LOADED,
    MADE,
    SOCKET_EVENTS,
    Peer,
    is_of_multiprocessing,
    is_socketpair,
    made_family,
    peer,
)
from pytest_agentreplay.intercept.session import callers, exits, interceptions, lanes, pending_call, thread_starts
from pytest_agentreplay.intercept.session.callers import (
    find_function_here,
    find_importing_library,
    find_line_here,
    is_agents,
    refuse_connection,
)
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts, is_loopback, is_model_host, parse_address
from pytest_agentreplay.intercept.session.other_plugins import is_sending_traces
from pytest_agentreplay.model.divergence import Divergence, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import CodeType, FrameType, ModuleType

    Listener = Callable[[str, tuple[Any, ...], FrameType | None], None]

WORDS = {
    "bind": ("listening socket on", "listening sockets on"),
    "child": ("child process", "child processes"),
    "connect": ("connect to", "connects to"),
    "library": ("call by the library", "calls by the library"),
    "lookup": ("look-up of", "look-ups of"),
    "send": ("datagram to", "datagrams to"),
    "socket": ("socket of", "sockets of"),
}
"""What is said of one entry, and of several of its kind."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What no boundary took, and how often. `kind` is bind, child, connect, library, lookup, send or socket.

    `target` is a library, a host ("db:5432"), the path of a socket file, the name of a program or a family of sockets,
    `origin` the line of the agent, "" where none was on the stack.
    """

    kind: str
    target: str
    origin: str
    count: int

    def line(self) -> str:
        """For people: "3 connects to db:5432 from shop/db.py:12 in rows"."""
        words = WORDS[self.kind][self.count != 1]
        return f"{self.count} {words} {self.target}" + (f" from {self.origin}" if self.origin else "")

    def allow(self) -> str:
        """The ini line that lets it through."""
        return allowing(self.kind, self.target)

    def advice(self) -> str:
        """What else to do about it; "" where there is nothing more to say."""
        return advice(self.kind, self.target)


def advice(kind: str, target: str) -> str:
    """What to do about a library that is not met, a Python child that cannot join, a socket of unknown target."""
    if kind == "child" and " -" in target:
        return "a child of Python that is started so does not load the plugin, and its calls would go live"
    if kind == "child" and " (" in target:
        return "a child whose calls never came to the gateway may reach the model past it"
    if kind == "socket":
        return "the sandbox makes none; without it the address is told"
    return f"{target} is not met: use httpx, requests or aiohttp for this call" if kind == "library" else ""


def allowing(kind: str, target: str) -> str:
    """The ini line that lets `target` through."""
    if kind == "socket":
        return "addopts = --agentreplay-sandbox=off"
    if kind == "child":
        return f"agentreplay_allow = program:{target.partition(' ')[0]}"
    return f"agentreplay_allow = host:{target}"


_listening = False


def listen(events: frozenset[str], listener: Listener) -> None:
    """From now on `listener` gets each of `events`, with its arguments and the frame that raised it. Once per process.

    Where a C function raises none, the event is ours: "fork_exec", by which `multiprocessing` starts children, and the
    "socket.connect" and "socket.sendto" of asyncio on Windows. So is that of a new interpreter from Python 3.12 on: who
    refuses in its hook crashes 3.12, and 3.13 calls no hook.
    """
    global _listening  # noqa: PLW0603  a hook is for the whole process
    if _listening:
        return
    _listening = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        # Only names of this function: the interpreter clears modules before it lets go of the hook.
        # The script of a child process is run by no frame.
        if event in audited and (caller := frame_of().f_back) is not None:
            listener(event, args, caller)

    frame_of, audited = sys._getframe, events
    if sys.version_info >= (3, 12):
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters
        audited -= {INTERPRETER}
        _report_calls(listener, interpreters, "create", INTERPRETER)
    sys.addaudithook(hook)
    if sys.platform != "win32":  # which raises "_winapi.CreateProcess"
        import _posixsubprocess

        _report_calls(listener, _posixsubprocess, "fork_exec", "fork_exec")
    else:
        from asyncio.windows_events import IocpProactor

        report_proactor(IocpProactor, listener)


def _report_calls(listener: Listener, library: ModuleType, name: str, event: str) -> None:
    """Call `listener` with `event` before each call of a function in C."""
    function = getattr(library, name)

    def listen_and_call(*args: Any, **kwargs: Any) -> Any:
        listener(event, args, sys._getframe(1))
        return function(*args, **kwargs)

    setattr(library, name, listen_and_call)


def report_proactor(proactor: Any, listener: Listener) -> None:
    """Report whom the sockets of the class `proactor` reach: its `connect` and `sendto` are overlapped calls in C."""
    connect, sendto = proactor.connect, proactor.sendto

    @functools.wraps(connect)
    def report_and_connect(self: Any, conn: Any, address: Any) -> Any:
        listener("socket.connect", (conn, address), sys._getframe(1))
        return connect(self, conn, address)

    @functools.wraps(sendto)
    def report_and_send(self: Any, conn: Any, buf: Any, flags: int = 0, addr: Any = None) -> Any:
        listener("socket.sendto", (conn, addr), sys._getframe(1))
        return sendto(self, conn, buf, flags, addr)

    proactor.connect, proactor.sendto = report_and_connect, report_and_send


EXECUTED = "exec"
"""The event of each code that is run as a module or text: by an import, `exec` or `runpy`."""
EVENTS = CHILD_EVENTS | SOCKET_EVENTS.keys() | {LIBRARY, LOADED, MADE, EXECUTED}
REACHES = SOCKET_EVENTS.keys() | {MADE}


class Guard:
    """Listens ("listen", while recording) or refuses ("deny", in a replay); keeps a ledger either way.

    Heard is what runs in a task or thread of the guarded test, or in one that no test started. What a straggler of an
    earlier replay tries is refused too, and told on its own test.
    """

    def __init__(
        self,
        mode: Literal["listen", "deny"],
        *,
        allow_hosts: Iterable[str] = (),
        allow_subprocess: Iterable[str] = (),
        root: str = "",
    ) -> None:
        """`allow_hosts` are read by `HostRule.parse`; `allow_subprocess` are names of programs, or paths.

        `root` is the directory whose files count as the agent's. Raises SettingsError for an entry that is no host.
        """
        self.mode = mode
        self._hosts = DeclaredHosts(tuple(allow_hosts))
        self._programs = frozenset(allow_subprocess)
        self.joins: Callable[[str, tuple[Any, ...], FrameType | None], str | None] | None = None
        """Whether a child joins the run (""), why it cannot, or None for one that is not asked to."""
        self.served: Callable[[Mapping[str, str], str], str | None] | None = None
        """Whether the model calls of a child come to the gateway (""), why not, or None for one that knows of none."""
        self.executed: Callable[[CodeType], None] = lambda _code: None
        """Is told of code before it is run as a module or text."""
        self._root = root
        self._counts: dict[tuple[str, str, str], int] = {}
        self.functions: dict[str, tuple[str, CodeType | None]] = {}
        """The import path and the code of the function around each line that was heard; the path may be ""."""
        self.loaded: dict[str, str] = {}  # library in C -> the line of the agent that loaded it
        self.imports: dict[str, str] = {}  # library -> what its import asked for, and was refused
        self._looked_up: dict[int, set[str]] = {}
        self._reached: set[str] = set()
        self._before: Guard | None = None
        self._on = False
        # The garbage collector may run code that opens sockets while we count: the lock must let it in.
        self._lock = threading.RLock()

    def start(self, interception: interceptions.Interception | None = None) -> None:
        """Hear from now on. With the test's `interception`, its stragglers stay refused after `stop`."""
        global _active
        listen(EVENTS, _dispatch)
        if self.mode == "deny" and interception is not None:
            _closed[interception] = self
        self._before, _active, self._on = _active, self, True

    @contextlib.contextmanager
    def refusing_imports(self) -> Iterator[None]:
        """Refuse what libraries ask for while they are imported, and hear nothing else."""
        global _refusing_imports  # noqa: PLW0603  as in start
        listen(EVENTS, _dispatch)
        thread_starts.stamp_threads()
        before, _refusing_imports = _refusing_imports, self
        try:
            yield
        finally:
            _refusing_imports = before

    def stop(self) -> None:
        """Hear nothing more. The ledger stays; a second call does nothing."""
        global _active
        if self._on:
            _active, self._before, self._on = self._before, None, False

    @property
    def counted(self) -> dict[tuple[str, str, str], int]:
        """How often each (kind, target, line) was heard."""
        with self._lock:
            return dict(self._counts)

    def count(self, what: tuple[str, str, str], times: int = 1) -> None:
        """Note that (kind, target, line) was heard."""
        with self._lock:
            self._counts[what] = self._counts.get(what, 0) + times

    @property
    def ledger(self) -> list[LedgerEntry]:
        """What was heard, in order; each target once per line. A look-up that led to a connect is left out."""
        with self._lock:
            return [
                LedgerEntry(*what, count)
                for what, count in self._counts.items()
                if not (what[0] == "lookup" and what[1] in self._reached)
            ]

    def hear(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        """An audit event of this test, raised in `frame`. Raises ReplayDiverged when it is refused."""
        if event == EXECUTED:
            self.executed(args[0])
            return
        self._refuse_import(event, args, frame)
        if (reached := self._crosses(event, args, frame)) is not None:
            kind, target = reached
            if is_sending_traces(frame):  # it is let through with the world, refused with it, and counted with neither
                if self.mode == "deny":
                    _close(kind, args)
                    raise ReplayDiverged(_not_sent(target))
                return
            line = find_line_here(self._root)
            if line not in self.functions:
                self.functions[line] = find_function_here(self._root)
            self.count((kind, target, line))
            if self.mode == "deny":
                _close(kind, args)
                _refuse(kind, target, line)

    def refuse_late(self, event: str, args: tuple[Any, ...], frame: FrameType | None, late: list[str]) -> None:
        """An audit event of a straggler, after its test's end. Raises ReplayDiverged; `late` takes a line about it."""
        self._refuse_import(event, args, frame)
        if (reached := self._crosses(event, args, frame)) is not None:
            what = f"{WORDS[reached[0]][0]} {reached[1]}"
            exits.install_excepthooks()  # those of pytest may be gone
            if is_sending_traces(frame):
                _close(reached[0], args)
                raise ReplayDiverged(_not_sent(reached[1]))
            late.append(pending_call.format_caller(what, find_line_here(self._root)))
            _close(reached[0], args)
            msg = f"refused: {what} after its test had ended"
            raise ReplayDiverged(msg)

    def _refuse_import(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        """Raise an OSError where the import of a library looks up a host or connects, in a recording too."""
        if event not in REACHES or not (library := find_importing_library(frame)):
            return
        if event == MADE:
            kind, target = "socket", made_family(args, frame) if self.mode == "deny" and sandbox.is_closed() else ""
        else:
            there = peer(event, args)
            passes = there is None or self._passes(there) or is_socketpair(frame)
            kind, target = ("", "") if there is None or passes else (there.act, str(there))
        if target:
            self.imports.setdefault(library, target)
            _close(kind, args)
            refuse_connection(kind, library, target)

    def _crosses(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> tuple[str, str] | None:
        """What the event reaches out to, as (kind, target); None for what passes."""
        if event == EXECUTED:
            return None
        if event == LIBRARY:
            return None if self._hosts.look_up(args[0]) else ("library", args[0])
        if event == LOADED:
            self._note(args[0], frame)
            return None
        if event == MADE:
            family = made_family(args, frame) if self.mode == "deny" and sandbox.is_closed() else ""
            return ("socket", family) if family else None
        if event in CHILD_EVENTS:
            hindrance = None if self.joins is None else self.joins(event, args, frame)
            if hindrance == "":
                return None
            path = program(event, args)
            name = short_name(path)
            if hindrance is None and self.served is not None and (environ := environment(event, args)):
                hindrance = self.served(environ, name)
            if hindrance == "":
                return None
            passes = not {path, name}.isdisjoint(self._programs) or is_repeat(event, frame) or is_probe(path, frame)
            return None if passes else ("child", f"{name} {hindrance or ''}".strip())
        there = peer(event, args)
        if there is None or self._passes(there) or (there.act == "connect" and is_socketpair(frame)):
            return None
        return there.act, self._name_target(there)

    def _note(self, library: object, frame: FrameType | None) -> None:
        """A library in C was loaded, by a line of the agent's own or by another library, which nobody minds."""
        while frame is not None and frame.f_globals.get("__name__") == "ctypes":
            frame = frame.f_back
        if frame is not None and is_agents(frame.f_code):
            self.loaded.setdefault(str(library or "the C library"), find_line_here(self._root))

    def _passes(self, there: Peer) -> bool:
        if there.device:
            return False
        if there.path:
            return there.act == "bind" or self._hosts.open_file(there.path) or is_of_multiprocessing(there.path)
        if there.act == "lookup":
            is_address = parse_address(there.host) is not None and not there.reverse
            return (
                is_address
                or is_loopback(there.host)
                or there.host == socket.gethostname()
                or self._hosts.look_up(there.host)
            )
        if is_loopback(there.host) and (there.act == "bind" or in_process.is_test_server(there.port or 0)):
            return True
        return self._hosts.may_reach(there.host, there.port or 0)

    def _name_target(self, there: Peer) -> str:
        """Return the target as people know it: by the name that was looked up for its port, where that is one name."""
        if there.port is None or self.mode == "deny":
            return str(there)
        with self._lock:
            if there.act == "lookup":
                self._looked_up.setdefault(there.port, set()).add(str(there))
            elif parse_address(there.host) is not None and len(names := self._looked_up.get(there.port, set())) == 1:
                self._reached |= names
                return next(iter(names))
        return str(there)


class ModelsOnly(Guard):
    """Hears of connections to known model hosts alone."""

    def refuse_from_now_on(self, interception: interceptions.Interception) -> None:
        """Refuse what comes to `interception`, which has ended."""
        self.start(interception)
        self.stop()

    def _crosses(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> tuple[str, str] | None:
        there = peer(event, args) if event in SOCKET_EVENTS else None
        if there is None or not is_model_host(there.host) or self._hosts.look_up(there.host):
            return None
        return super()._crosses(event, args, frame)


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """A block of our own in which nothing is heard: a child process connects to that of its test."""
    global _active  # noqa: PLW0603  as in start
    before, _active = _active, None
    try:
        yield
    finally:
        _active = before


def _not_sent(target: str) -> str:
    """What a thread that sends traces is told."""
    return f"traces of a replay are not sent to {target}"


def _close(kind: str, args: tuple[Any, ...]) -> None:
    """Close a socket that may not connect: libraries do so for Exceptions only, and it would warn in a later test."""
    if kind == "connect":
        with contextlib.suppress(Exception):
            args[0].close()


def _refuse(kind: str, target: str, origin: str) -> NoReturn:
    """Latch the divergence where there is a backend to latch it, and brake."""
    divergence = Divergence(
        Kind.NETWORK,
        f"{WORDS[kind][0]} {target} refused: {advice(kind, target) or 'a replay reaches nothing'}",
        origin=origin,
        hints=(allowing(kind, target),),
    )
    interception = interceptions.find_interception()
    if interception is not None:
        divergence = interception.latch(divergence, origin)
    raise ReplayDiverged(pending_call.format_refusal(divergence), divergence)


class ModelHostWatch:
    """Counts the tests that look for a known model host where nothing is recorded: `start` and `stop` around each.

    `tests` is how many did, `hosts` in how many tests each host. A connection left open by an earlier test is not seen.
    """

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self.tests = 0
        self.hosts: dict[str, int] = {}
        self._reached_hosts: set[str] = set()

    def start(self) -> None:
        """A test begins."""
        global _bystander  # noqa: PLW0603  the hook has no self to find it by
        listen(EVENTS, _dispatch)
        self._reached_hosts.clear()
        _bystander = self

    def stop(self) -> None:
        """It is over."""
        global _bystander  # noqa: PLW0603  as in start
        _bystander = None
        self.tests += bool(self._reached_hosts)
        for host in self._reached_hosts:
            self.hosts[host] = self.hosts.get(host, 0) + 1
        self._reached_hosts.clear()

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit event while nothing is guarded."""
        there = peer(event, args) if event in SOCKET_EVENTS else None
        if there is not None and is_model_host(there.host):
            self._reached_hosts.add(there.host)


_active: Guard | None = None
_refusing_imports: Guard | None = None
_bystander: ModelHostWatch | None = None
_closed: weakref.WeakKeyDictionary[interceptions.Interception, Guard] = weakref.WeakKeyDictionary()


def _import_refusal() -> callers.Refuse | None:
    guard = _active or _refusing_imports
    return None if guard is None else guard._refuse_import


callers.refuse_by(_import_refusal)


def _dispatch(event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
    """Pass an event to the guard whose test it is. What happens inside an exchange is the boundary's own."""
    call_context = lanes.CALL_CONTEXT.get()
    if call_context is not None and lanes.is_inside(call_context):
        return
    if (refuse := callers.get_thread_refusal()) is not None:
        refuse(event, args, frame)
    interception = interceptions.find_for_tool()
    if interception is not None and interception.is_over():
        if (guard := _closed.get(interception)) is not None:
            guard.refuse_late(event, args, frame, interception.ending.late)
    elif _active is not None:
        _active.hear(event, args, frame)
    elif _refusing_imports is not None:
        _refusing_imports._refuse_import(event, args, frame)
    elif _bystander is not None:
        _bystander.hear(event, args)
