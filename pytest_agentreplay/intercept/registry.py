"""Which library is met by which boundary file: one row a library.

A boundary file has `meet(module)`, which wraps the seam of its library for good; done twice it does nothing. It is
loaded when its library is, and no sooner.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.session.import_hooks import is_watching, when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

SEAMS: dict[str, str] = {
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
"""Module that stands for its library when it is imported -> boundary file."""

ALSO: dict[str, str] = {}
"""All rows that are met in this process, those that other plugins have brought included; children get them too."""


def install() -> None:
    """Meet every library of the table, now or when it is imported. Outside a test each call costs one look-up."""
    if SEAMS.keys() <= ALSO.keys() and is_watching(SEAMS):
        return
    also({library: f"pytest_agentreplay.intercept.{boundary}" for library, boundary in SEAMS.items()})


def also(rows: Mapping[str, str]) -> None:
    """Meet the libraries of `rows` too: module that stands for a library -> import path of a boundary module."""
    ALSO.update(rows)
    for library, boundary in rows.items():
        when_imported(library, _meeting(boundary))


@functools.cache
def _meeting(boundary: str) -> Callable[[ModuleType], None]:
    """What `when_imported` is to call: the same object each time, so that a library is met once."""

    def meet(library: ModuleType) -> None:
        importlib.import_module(boundary).meet(library)

    return meet
