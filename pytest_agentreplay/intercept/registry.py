"""Which library is patched by which module: one row per library.

A patch module has `patch(library)`, which wraps what the library calls for I/O, for good; called twice it does nothing.
It is imported when its library is, and no sooner.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.session.import_hooks import is_watching, when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

PATCHES: dict[str, str] = {
    "aiohttp.connector": "http.aiohttp",
    "aiohttp.test_utils": "network.in_process",
    "asyncio.base_events": "session.tasks_asyncio",
    "anyio": "process.anyio",
    "anyio.to_thread": "ordering.threads_anyio",
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
    "numpy.random": "environment.numpy_random",
    "trio._core._run": "ordering.trio_order",
    "urllib3.connectionpool": "http.urllib3",
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
    if PATCHES.keys() <= ACTIVE_PATCHES.keys() and is_watching(PATCHES):
        return
    add_patches({library: f"pytest_agentreplay.intercept.{module}" for library, module in PATCHES.items()})


def add_patches(rows: Mapping[str, str]) -> None:
    """Patch the libraries of `rows` too: module that stands for a library -> import path of a patch module."""
    ACTIVE_PATCHES.update(rows)
    for library, module in rows.items():
        when_imported(library, _patching(module))


@functools.cache
def _patching(module: str) -> Callable[[ModuleType], None]:
    """Return the callback for `when_imported`: the same object each time, so that a library is patched once."""

    def patch(library: ModuleType) -> None:
        patch_module = importlib.import_module(module)
        # Until 0.2 a patch module may have the function's former name, `meet`.
        (getattr(patch_module, "patch", None) or patch_module.meet)(library)

    return patch
