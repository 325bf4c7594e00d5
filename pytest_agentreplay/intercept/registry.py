"""Which library is patched by which module: one row per library.

A patch module has `patch(library)`, which wraps what the library calls for I/O, for good; called twice it does nothing.
It is imported when its library is, and no sooner.

`when_imported` calls a function when a library arrives: now if it is loaded, else right after its import. Its
finder stays for good, so that a module that is reloaded, or dropped and imported anew, is patched again; for every
other import it costs one look-up.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Act = Callable[[ModuleType], None]

_acts: dict[str, list[Act]] = {}
_lock = threading.Lock()


class _Watch(MetaPathFinder):
    """Finds what the other finders find, with a loader that tells us when it is done."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _acts:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Telling(spec.loader)
                return spec
        return None


class _Telling(Loader):
    """The real loader for everybody who asks, until it loads: then the real one is put back in its place."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if (spec := module.__spec__) is not None:
            name = spec.name
            spec.loader = self._real
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._real
        self._real.exec_module(module)
        for act in list(_acts.get(name, ())):
            # A module may put another one in its own place while it loads.
            act(sys.modules.get(name, module))


_watch = _Watch()


def is_watching(names: AbstractSet[str]) -> bool:
    """Whether imports are watched, those of all `names` among them."""
    return _watch in sys.meta_path and names <= _acts.keys()


def when_imported(name: str, act: Act) -> None:
    """Call `act(module)` now if module `name` is loaded, and after each import of it from now on.

    Asking again with the same pair does nothing. `act` runs inside the import, so what it raises fails that import.
    """
    with _lock:
        known = _acts.setdefault(name, [])
        # Asked each time: test tools save and restore sys.meta_path.
        if _watch not in sys.meta_path:
            sys.meta_path.insert(0, _watch)
        if act in known:
            return
        known.append(act)
    # Another thread may be in this very import already, past the finders; the lock of the import says when it is done.
    importlib._bootstrap._lock_unlock_module(name)  # type: ignore[attr-defined]
    module = sys.modules.get(name)
    if module is not None:
        act(module)


PATCHES: dict[str, str] = {
    "aiohttp.connector": "http.aiohttp",
    "aiohttp.test_utils": "network.in_process",
    "asyncio.base_events": "session.courses",
    "anyio": "process.anyio",
    "anyio.to_thread": "ordering.anyio_trio",
    "concurrent.futures.process": "process.child_multiprocessing",
    "http.client": "http.stdlib",
    "httpx": "http.httpx",
    "httpx2": "http.httpx",
    "mcp.client.sse": "mcp.client",
    "mcp.client.stdio": "mcp.client",
    "mcp.client.streamable_http": "mcp.client",
    "mcp.client.websocket": "mcp.client",
    "fastmcp.server.low_level": "mcp.memory",
    "mcp.server.lowlevel.server": "mcp.memory",
    "mcp.shared.direct_dispatcher": "mcp.memory",
    "mcp.shared.memory": "mcp.memory",
    "multiprocessing.pool": "process.child_multiprocessing",
    "multiprocessing.spawn": "process.child_multiprocessing",
    "multiprocessing.util": "session.exits",
    "numpy.random": "environment.randomness",
    "trio._core._run": "ordering.anyio_trio",
    "urllib3.connectionpool": "http.urllib3",
    "vcr.cassette": "http.vcrpy",
    "pytest_recording._vcr": "http.vcrpy",
    "aiohttp.client": "websocket.aiohttp",
    "websockets.asyncio.client": "websocket.websockets_asyncio",
    "websockets.sync.client": "websocket.websockets_sync",
    "agents.handoffs": "tools.openai_agents",
    "agents.tool": "tools.openai_agents",
    "anthropic.lib.tools._beta_functions": "tools.anthropic",
    "claude_agent_sdk": "tools.claude",
    "crewai.tools.base_tool": "tools.crewai",
    "crewai.tools.structured_tool": "tools.crewai",
    "google.genai._extra_utils": "tools.google_genai",
    "langchain_core.tools.base": "tools.langchain",
    "llama_index.core.tools.function_tool": "tools.llama_index",
    "pydantic_ai.toolsets.combined": "tools.pydantic_ai",
    "pydantic_ai.toolsets.function": "tools.pydantic_ai",
    "smolagents.agents": "tools.smolagents",
    "smolagents.tools": "tools.smolagents",
    "curl_cffi.aio": "network.unintercepted",
    "curl_cffi.curl": "network.unintercepted",
    "grpc._channel": "network.unintercepted",
    "grpc.aio._channel": "network.unintercepted",
    "primp": "network.unintercepted",
    "confluent_kafka.cimpl": "network.unintercepted",
    "psycopg._connection_base": "network.unintercepted",
    "psycopg2": "network.unintercepted",
    "pycares": "network.unintercepted",
    "pycurl": "network.unintercepted",
    "pynng.nng": "network.unintercepted",
    "pyreqwest._pyreqwest": "network.unintercepted",
    "tls_client.sessions": "network.unintercepted",
    "zmq.sugar.socket": "network.unintercepted",
    "uvloop": "process.loops",
    "winloop": "process.loops",
}
"""Module that stands for its library when it is imported -> patch module, below `pytest_agentreplay.intercept`."""

ACTIVE_PATCHES: dict[str, str] = {}
"""The rows that are in force in this process, those of other plugins included; children of a test get them too."""


def install() -> None:
    """Patch every library of the table, now or when it is imported. Outside a test each call costs one look-up."""
    if PATCHES.keys() <= ACTIVE_PATCHES.keys() and is_watching(PATCHES.keys()):
        return
    add_patches({library: f"pytest_agentreplay.intercept.{module}" for library, module in PATCHES.items()})


def add_patches(rows: Mapping[str, str]) -> None:
    """Patch the libraries of `rows` too: module that stands for a library -> import path of a patch module."""
    ACTIVE_PATCHES.update(rows)
    for library, module in rows.items():
        when_imported(library, _patching(module))


def forget_patches(rows: Mapping[str, str]) -> None:
    """Take the rows of a table that failed out again; what was patched by others of them stays."""
    with _lock:
        for library, module in rows.items():
            ACTIVE_PATCHES.pop(library, None)
            if (act := _patching(module)) in _acts.get(library, ()):
                _acts[library].remove(act)


def stop_watching() -> None:
    """Watch no import any more."""
    with _lock:
        _acts.clear()
        if _watch in sys.meta_path:
            sys.meta_path.remove(_watch)


def remove_patches() -> dict[str, str]:
    """Leave everything as it was before the patches, those of threads too. Return the rows that were in force."""
    rows = dict(ACTIVE_PATCHES)
    ACTIVE_PATCHES.clear()
    with _lock:
        for library, module in rows.items():
            acts = [act for act in _acts.pop(library, []) if act is not _patching(module)]
            if acts:
                _acts[library] = acts
    if (replacing := sys.modules.get("pytest_agentreplay.intercept.session.replacing")) is not None:
        replacing.take_back()
    return rows


@functools.cache
def _patching(module: str) -> Callable[[ModuleType], None]:
    """Return the callback for `when_imported`: the same object each time, so that a library is patched once."""

    def patch(library: ModuleType) -> None:
        importlib.import_module(module).patch(library)

    return patch
