"""Run `python -m MODULE` as a fork of a warm interpreter: 0.2 s of CPU for a replay where a process takes 1.4 s.

`run` starts one server for this process: an interpreter that has imported pytest and what most agents of our tests
import, and nothing that has state of its own. Each child is a fork of it with its own streams, folder and environment.
What Python reads only when it starts (PYTHONHASHSEED, PYTHONPATH, the locale ...) needs a real process: `run` starts one
where the environment has such a variable, and where forking is not safe (macOS, Windows). The pytest that a command of
ours starts, and the workers of xdist, are forks too where the process that starts them is one.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

PRELOADED = ("pytest", "httpx", "httpx2", "openai", "anthropic", "pydantic", "yaml", "time_machine")
"""What agents of our tests import, and what a replay freezes time with."""
ROOMS = (
    "errors", "clocks", "hookspec", "model", "values", "snapshots", "redaction", "compare", "backends", "providers",
    "traces", "cases", "report", "settings",
)  # fmt: skip
"""Of ours only what intercepts nothing, 0.17 of the 0.4 s of CPU of a short replay: each child imports the plugin by
itself, before or after what it intercepts, as a process does. A test of what is imported needs a real process."""
UNFROZEN = ("httpcore", "httpcore2")
"""What httpx imports at its first request, trio with it: 0.07 of the 0.37 s of CPU of a short replay. Hypothesis asks
the garbage collector who refers to trio's generator, and what is frozen is not seen by it."""
READ_LATER = {"PYTHONBREAKPOINT", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUNBUFFERED"}
"""Variables of Python that a fork can honour after its start."""
ADDRESS = sys.argv[1] if __name__ == "__main__" else ""
"""Where the server listens; its forks know it."""


def run(module, *words, cwd, env, given=None, timeout=180.0, forked_proofs=False):
    """Run `python -m module words` to its end; return the finished process, its output decoded as UTF-8.

    With `forked_proofs` the pytest that proves recordings is a fork too, whose hash seed is not another one.
    """
    if not forkable(env):
        return run_process(module, *words, cwd=cwd, env=env, given=given, timeout=timeout)
    with tempfile.TemporaryFile() as streams_in, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams_in.write((given or "").encode())
        streams_in.seek(0)
        request = {"module": module, "words": words, "cwd": str(cwd), "env": env, "forked_proofs": forked_proofs}
        code = ForkServer.get().fork(request, (streams_in, out, err), timeout=timeout)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode().replace("\r\n", "\n"))
    if code is None:
        raise subprocess.TimeoutExpired(request["words"], timeout, *texts)
    return subprocess.CompletedProcess([sys.executable, "-m", module, *words], code, *texts)


def run_process(module, *words, cwd, env, given=None, timeout=180.0):
    """Run the same as a process of its own."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(
        command, cwd=cwd, env=env, input=given, capture_output=True, encoding="utf-8", timeout=timeout
    )


def command_of(module):
    """Return the words by which another program starts `python -m module`: a fork, where that is safe."""
    if sys.platform != "linux":
        return [sys.executable, "-m", module]
    return fork_of(ForkServer.get().address, module)


def fork_of(address, module, *words):
    """Return the command of a process that is a fork of the server at `address`."""
    return [sys.executable, "-IS", str(Path(__file__).with_name("fork_of.py")), address, module, *words]


def forkable(env, ours=os.environ):
    """Whether a fork behaves as a process with this environment does, where the server has `ours`."""
    at_start = {key for key in env if key.startswith(("PYTHON", "LC_", "LANG", "COV_")) and key not in READ_LATER}
    return sys.platform == "linux" and all(env[key] == ours.get(key) for key in at_start)


class ForkServer:
    """The warm interpreter of this process, and how children are asked for."""

    running = None
    lock = threading.Lock()

    @classmethod
    def get(cls):
        """Return the server, which is started by the first child that is asked for."""
        with cls.lock:
            if cls.running is None or cls.running.owner != os.getpid():
                cls.running = cls()
            return cls.running

    def __init__(self):
        self.owner = os.getpid()
        self.folder = tempfile.TemporaryDirectory(prefix="forks-")
        self.address = str(Path(self.folder.name, "socket"))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "AGENTREPLAY", "COV"))}
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=kept,
            cwd=self.folder.name,
        )
        assert self.process.stdout.readline() == b"ready\n", "the fork server did not start"
        atexit.register(self.stop)

    def fork(self, request, streams, *, timeout):
        """Return the exit code of a child (minus the signal that ended it), None if it was killed after `timeout`."""
        with socket.socket(socket.AF_UNIX) as connection, tempfile.TemporaryFile() as file:
            connection.connect(self.address)
            file.write(json.dumps(request).encode())
            file.seek(0)
            socket.send_fds(connection, [b"."], [*(stream.fileno() for stream in streams), file.fileno()])
            with connection.makefile("r") as answers:
                pid = int(answers.readline())
                ended, _, _ = select.select([connection], [], [], timeout)
                if not ended:
                    os.killpg(pid, signal.SIGKILL)
                code = int(answers.readline())
                return code if ended else None

    def stop(self):
        """End the server, which waits for the end of its standard input."""
        if self.owner == os.getpid():
            self.process.stdin.close()
            self.process.wait(10)
            self.folder.cleanup()


def serve(address):
    """Fork a child per connection and answer with its exit code, until standard input ends. Returns in each child."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        wakes, waker = socket.socketpair()
        waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno())
        connections = {}
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([listener, wakes, 0, *connections.values()], [], [])
            if 0 in ready:  # whoever asked is gone, and waits for none of these
                for pid in connections:
                    os.killpg(pid, signal.SIGKILL)
                os._exit(0)
            if wakes in ready:
                wakes.recv(4096)
                for pid, connection in list(connections.items()):
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    if ended:
                        with contextlib.suppress(BrokenPipeError):
                            connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                        connections.pop(pid).close()
            for pid, connection in list(connections.items()):
                if connection in ready:  # closed: whoever asked for this one was killed
                    os.killpg(pid, signal.SIGKILL)
                    connections.pop(pid).close()
                    os.waitpid(pid, 0)
            if listener in ready:
                connection, _ = listener.accept()
                _, streams, _, _ = socket.recv_fds(connection, 1, 4)
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for other in (connection, wakes, waker, *connections.values()):
                        other.close()
                    return streams
                for stream in streams:
                    os.close(stream)
                connection.sendall(f"{pid}\n".encode())
                connections[pid] = connection


def become(streams):
    """Make this fork what `python -m MODULE` is: streams, folder, environment, arguments; return the module's name."""
    os.setsid()
    with open(streams.pop(), "rb") as file:
        request = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")[0]
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding=encoding)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding=encoding)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", encoding=encoding, errors="backslashreplace", buffering=1)
    module, words = request["module"], request["words"]
    sys.argv = ["-m", *words] if module != "-c" else ["-c", *words[1:]]
    sys.orig_argv = [sys.executable, *(["-m"] if module != "-c" else []), module, *words]
    sys.path[0] = request["cwd"] if module != "-c" else ""
    fork_children(module, request.get("forked_proofs", False))
    return module


def fork_children(module, forked_proofs=False):
    """Have this fork start the pytest of a command or proof, and the workers of xdist, as forks of the interpreter."""
    started_with = dict(os.environ)
    can_fork, command, address = forkable, fork_of, ADDRESS
    if module == "pytest_agentreplay" or forked_proofs:
        execute = subprocess.Popen._execute_child

        def execute_child(self, args, *more):  # executable, preexec_fn, close_fds, pass_fds, cwd, env ...
            plain = isinstance(args, list) and args[:3] == [sys.executable, "-m", "pytest"] and not any(more[:2])
            proof = forked_proofs and plain and any(word.startswith("--agentreplay-proof=") for word in args)
            if plain and not more[3] and (proof or can_fork(more[5] or os.environ, started_with)):
                args = command(address, "pytest", *args[3:])
            return execute(self, args, *more)

        # The network guard knows a probe of the standard library by the modules on its stack: this one is `subprocess`.
        code, cells = execute_child.__code__, execute_child.__closure__
        subprocess.Popen._execute_child = types.FunctionType(code, vars(subprocess), closure=cells)
    if module != "pytest_agentreplay" and "execnet.gateway_io" in sys.modules:
        bootstrap = sys.modules["execnet.gateway_io"].popen_bootstrapline
        sys.modules["execnet.gateway_io"].popen_args = lambda spec: fork_of(ADDRESS, "-c", bootstrap)


def exit_of(module):
    """Run the module as `__main__` and end this process as Python would, but leave all objects to the system.

    Taking down an interpreter that has imported so much costs 0.1 s; a test of what happens then needs a real process.
    """
    code = 0
    try:
        if module == "-c":
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(sys.orig_argv[2], vars(main))
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code
    threading._shutdown()  # joins what is not a daemon, as Py_FinalizeEx does (CPython 3.11 to 3.14)
    atexit._run_exitfuncs()
    if code and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


def preload():
    """Import what most children need, so that they need not."""
    import_found(PRELOADED)
    for room in ROOMS:
        package = importlib.import_module(f"pytest_agentreplay.{room}")
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
            importlib.import_module(module.name)
    from _pytest.config import builtin_plugins

    for name in builtin_plugins:
        if "pytester" not in name:  # pytest rewrites its asserts when it is loaded
            importlib.import_module(f"_pytest.{name}")
    import_found(["execnet.gateway_io"])  # by which xdist starts workers: see fork_children
    gc.collect()
    gc.freeze()
    import_found(UNFROZEN)


def import_found(names):
    """Import those of the modules that this environment has: not every environment of tests/envs has all of them."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    del sys.path[0]  # this folder, which a child does not have
    sys.path.insert(0, "")
    preload()
    streams = serve(ADDRESS)
    exit_of(become(streams))
