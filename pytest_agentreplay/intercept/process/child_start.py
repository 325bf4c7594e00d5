"""Where Python starts a child process: each child of a test is invited to join the run, and Python children do.

A program gets the invitation in its environment, with a folder first on PYTHONPATH whose `sitecustomize` takes it up
before any code of the child runs. A fork takes it along; `child_multiprocessing` has the processes of that library.
Inactive, each way costs one look-up.

The connection of a child process to the process of its test: requests and answers, one pair at a time.

What travels is pickled by `multiprocessing.connection`, between two processes of one user that both hold the key of
the invitation. Nothing here reads a file.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.network.child_events import (
    above_wrappers,
    environment,
    is_probe,
    short_name,
    split_words,
)
from pytest_agentreplay.intercept.session import interceptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from multiprocessing.connection import Connection
    from types import FrameType

VARIABLE = "AGENTREPLAY_CHILD"
"""The variable of the environment that carries an invitation to a child."""

Here = tuple[str, tuple[int, str] | None, bool, int]
"""Where a child is started: the lane, the exchange around it, whether that is in the body of the test, and its time.

The time is that of the last call of the process that starts it: its other children, at work beside it, count no calls.
"""

NO_ANSWER = frozenset({"handed", "note", "part", "settle"})
"""Requests whose answer says nothing: a finalizer may make them while another request is under way."""

TEST_IS_OVER = "refused: the process of the test has ended, and this child process has outlived it"


@dataclass(frozen=True, slots=True)
class Invitation:
    """What one child needs to join the run: where to connect, with which key, as whom.

    `run` is the test's, `mode` "record" or "replay"; `path` is the PYTHONPATH that the child was to have, if any.
    """

    address: str
    key: str = field(repr=False)
    token: str
    run: str
    mode: str
    path: str | None = None

    def encode(self) -> str:
        """Return the value of `VARIABLE`."""
        return json.dumps([self.address, self.key, self.token, self.run, self.mode, self.path])

    @classmethod
    def decode(cls, value: str) -> Invitation:
        """Return the invitation that `encode` has written."""
        return cls(*json.loads(value))


class ParentLink:
    """The child's end. Safe from any thread; raises ReplayDiverged once the other end is gone."""

    def __init__(self, invitation: Invitation) -> None:
        """Connect, and show the key. Raises OSError or EOFError where nobody listens any more."""
        from multiprocessing.connection import answer_challenge, deliver_challenge

        self.invitation = invitation
        self._connection = connect(invitation.address)
        self._lock = threading.RLock()
        self._busy = False
        self._later: deque[tuple[str, tuple[Any, ...]]] = deque()
        key = invitation.key.encode()
        answer_challenge(self._connection, key)
        deliver_challenge(self._connection, key)

    def ask(self, name: str, *values: Any) -> Any:
        """Make one request and return its answer."""
        with self._lock:
            if self._busy:  # the garbage collector runs a finalizer in the middle of a request of this thread
                if name not in NO_ANSWER:
                    raise ReplayDiverged("refused: a finalizer makes a call while another call is under way")
                self._later.append((name, values))
                return None
            self._busy = True
            try:
                answer = self._exchange(name, values)
                while self._later:
                    self._exchange(*self._later.popleft())
            finally:
                self._busy = False
        return answer

    def _exchange(self, name: str, values: tuple[Any, ...]) -> Any:
        try:
            self._connection.send((name, values))
            return self._connection.recv()
        except (EOFError, OSError):
            raise ReplayDiverged(TEST_IS_OVER) from None

    def abandon(self) -> None:
        """Close this process's copy of a connection that belongs to the process that forked it."""
        self._connection.close()


def connect(address: str) -> Connection:
    """Return a connection to `address`: "@name" for an abstract Unix socket, or "127.0.0.1:PORT"."""
    import socket
    from multiprocessing.connection import Connection

    if sys.platform == "linux" and address.startswith("@"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(address.replace("@", "\0", 1))
    else:
        host, _, port = address.rpartition(":")
        made = socket.create_connection((host, int(port)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(None)
    return Connection(made.detach())


PYTHON = re.compile(r"(?:python|pypy)[0-9.]*[a-z]?(?:\.exe)?", re.IGNORECASE)
SHEBANG = 512
"""Bytes of a script that are looked at: a launcher whose interpreter has a long path is a shell script of two lines."""

STARTERS = frozenset(
    {"multiprocessing.forkserver", "multiprocessing.popen_spawn_posix", "multiprocessing.popen_spawn_win32"}
)
"""Modules whose children get their invitations with the data that they are prepared with."""

POOLS = frozenset({"concurrent.futures.process", "multiprocessing.pool"})
"""Modules that start workers: how many and when is chance, so their lanes are numbered on their own."""


ELSEWHERE = ("main", None, True, 0)
"""Where a child is said to be started whose own lane stays empty."""


class Inviter(Protocol):
    """Who invites the children of this process: the test, or the child that this process is."""

    def here(self) -> Here:
        """Return where a child would be started by the code that runs here."""

    def invite(self, kind: str = "p", program: str = "", here: Here | None = None) -> Invitation:
        """Return an invitation for one child that is started `here`."""

    def note_started(self, invitation: Invitation, process: Any) -> None:
        """The child of `invitation` runs as `process`, a `subprocess.Popen`."""


class ChildHandover(NamedTuple):
    """How an invitation is taken up in the child: functions that are found by their names there.

    `join` joins the run, `job` is a block that works for a job of a pool, of no test where there is no invitation.
    `site` is the folder of the `sitecustomize` that joins.
    """

    join: Callable[..., object]
    job: Callable[[Invitation | None], AbstractContextManager[None]]
    site: str


_inviter: Inviter | None = None
_taking: ChildHandover | None = None
_forking: list[Invitation] = []


@contextmanager
def joining(inviter: Inviter, by: ChildHandover) -> Iterator[None]:
    """A block whose children are invited by `inviter`, and join as `by` says."""
    install()
    before = exchange(inviter, by)
    try:
        yield
    finally:
        exchange(before[0], by)


def exchange(inviter: Inviter | None, by: ChildHandover | None) -> tuple[Inviter | None, ChildHandover | None]:
    """Let `inviter` invite from now on; return who did, and how its children joined."""
    global _inviter, _taking
    before = _inviter, _taking
    _inviter, _taking = inviter, by
    return before


def inviting() -> Inviter | None:
    """Who invites the children of the code that runs here; None outside of tests."""
    if _inviter is None or interceptions.find_interception() is None:
        return None
    return _inviter


def taking() -> ChildHandover | None:
    """How the children of this process join; known from its first test on."""
    return _taking


def install() -> None:
    """Wrap every way to start a child, once and for good."""
    if hasattr(subprocess.Popen.__init__, "__agentreplay__"):
        return
    subprocess.Popen.__init__ = _popen(subprocess.Popen.__init__)  # type: ignore[method-assign]
    for name in ("posix_spawn", "posix_spawnp", "execve"):
        if hasattr(os, name):
            setattr(os, name, _with_environment(getattr(os, name)))
    if hasattr(os, "execv"):
        os.execv = _exec(os.execv)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_join_after_fork)


def with_invitation(environ: Mapping[str, str], invitation: Invitation) -> dict[str, str]:
    """`environ` as the child gets it."""
    path = environ.get("PYTHONPATH")
    completed = replace(invitation, path=path)
    first = "" if _taking is None else _taking.site
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, (first, path))), VARIABLE: completed.encode()}


def _popen(original: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        inviter = inviting()
        if inviter is None:
            return original(self, *args, **kwargs)
        from pytest_agentreplay.intercept.gateway import children

        bound = signature.bind(self, *args, **kwargs)
        environ = children.variables(bound.arguments)
        if environ is None:
            environ = _texts(bound.arguments.get("env") or os.environ)
        words = split_words(bound.arguments["args"])
        program = bound.arguments.get("executable") or words[0]
        if is_probe(os.fsdecode(program), sys._getframe(1)):
            return original(self, *args, **kwargs)
        # A program that is no Python has no calls of its own, but may start a Python child that has.
        options = python_options(os.fsdecode(program), words[1:], environ)
        here = None if options is not None else ELSEWHERE
        invitation = inviter.invite(program=short_name(os.fsdecode(program)), here=here)
        bound.arguments["env"] = with_invitation(environ, invitation)
        original(*bound.args, **bound.kwargs)
        if options is not None and not hindrance(options):
            inviter.note_started(invitation, self)
        return None

    init.__agentreplay__ = True  # type: ignore[attr-defined]
    return init


def _with_environment(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(path: Any, argv: Any, env: Any, *args: Any, **kwargs: Any) -> Any:
        inviter = inviting()
        if inviter is not None and VARIABLE not in (environ := _texts(env)):
            env = with_invitation(environ, inviter.invite())
        return original(path, argv, env, *args, **kwargs)

    return start


def _exec(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(path: Any, argv: Any) -> Any:
        if inviting() is not None:
            return os.execve(path, argv, os.environ)  # noqa: S606  what the agent asked for
        return original(path, argv)

    return start


def _texts(environ: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}


def kind_here() -> str:
    """Whether a process that is started here is one of a pool's workers."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") in POOLS:
            return "w"
        frame = frame.f_back
    return "p"


_EXECUTES: ContextVar[bool] = ContextVar("agentreplay_executes", default=False)


@contextmanager
def executing() -> Iterator[None]:
    """A block whose forks only execute a program: a loop in C holds the GIL until they have, so none may join."""
    token = _EXECUTES.set(True)
    try:
        yield
    finally:
        _EXECUTES.reset(token)


def invite_program(program: str, environ: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
    """Return the environment of a program that an event loop in C starts, with an invitation while a test runs."""
    inviter = inviting()
    if inviter is None:
        return environ
    variables = _texts(os.environ if environ is None else environ)
    return with_invitation(variables, inviter.invite(program=short_name(program)))


def _before_fork() -> None:
    inviter = inviting()
    if inviter is not None and not _EXECUTES.get():
        _forking.append(inviter.invite(kind_here()))


def _after_fork() -> None:
    if _forking:
        _forking.pop()


def _join_after_fork() -> None:
    if _forking and _taking is not None:
        invitation = _forking.pop()
        _forking.clear()
        _taking.join(invitation)


# Which children join.


def joins(event: str, args: tuple[Any, ...], frame: FrameType | None) -> str | None:
    """Whether the child that an audit event tells of joins the run ("") or why it cannot ("-S"); None: not Python."""
    if _inviter is None:
        return None
    if event in {"os.fork", "os.forkpty"}:
        return ""
    if event in {"fork_exec", "_winapi.CreateProcess"}:
        return "" if above_wrappers(frame) in STARTERS else None
    match event, args:
        case "subprocess.Popen", (executable, command, *_):
            words, environ = split_words(command), environment(event, args)
            program = os.fsdecode(executable) if executable else words[0]
        case ("os.posix_spawn", (path, argv, _)) | ("os.exec", (path, argv, _)):
            words, environ, program = split_words(argv), _texts(args[2] or {}), os.fsdecode(path)
        case _:
            return None
    if VARIABLE not in environ:
        return None
    options = python_options(program, words[1:], environ)
    return None if options is None else hindrance(options)


def python_options(program: str, words: Sequence[str], environ: Mapping[str, str]) -> list[str] | None:
    """The words after the interpreter of a Python child; None for a program that is no Python."""
    if short_name(program) == "python" or PYTHON.fullmatch(short_name(program)):
        return [*words]
    file = shutil.which(program, path=environ.get("PATH"))
    if file is None:
        return None
    with suppress(OSError), Path(file).open("rb") as opened:
        start = opened.read(SHEBANG)
        lines = start.decode("utf-8", "replace").splitlines()[:2]
        if start[:2] == b"#!":
            # A launcher whose interpreter has a long path is a shell script with `'''exec' PYTHON` in its second line.
            for line in lines[:2] if lines[1:] and lines[1].startswith("'''exec' ") else lines[:1]:
                before, separator, after = line.partition("python")
                if separator and ("/" in before or " " in before):
                    return [word for word in after.split() if word.startswith("-")]
    return None


def hindrance(options: Sequence[str]) -> str:
    """Which option keeps an interpreter from loading `sitecustomize` from PYTHONPATH; "" for none."""
    with_value = False
    for option in options:
        if with_value:
            with_value = False
            continue
        if not option.startswith("-") or option in {"-", "--"}:
            break
        if option.startswith("--"):
            with_value = option == "--check-hash-based-pycs"
            continue
        for at, letter in enumerate(option[1:], 1):
            if letter in "EIS":
                return f"-{letter}"
            if letter in "cm":
                return ""
            if letter in "WX":
                with_value = at == len(option) - 1
                break
    return ""
