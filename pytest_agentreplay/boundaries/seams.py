"""Which library is met by which boundary file: one row a library.

A boundary file has `meet(module)`, which wraps the seam of its library for good; done twice it does nothing. It is
loaded when its library is, and no sooner.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from pytest_agentreplay.boundaries.imports import is_watching, when_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

SEAMS: dict[str, str] = {
    "aiohttp.connector": "http_aiohttp",
    "aiohttp.test_utils": "in_process",
    "asyncio.base_events": "tasks_asyncio",
    "anyio": "process_anyio",
    "anyio.to_thread": "threads_anyio",
    "concurrent.futures.process": "child_multiprocessing",
    "http.client": "http_stdlib",
    "httpx": "http_httpx",
    "httpx2": "http_httpx",
    "mcp.client.sse": "mcp",
    "mcp.client.stdio": "mcp",
    "mcp.client.streamable_http": "mcp",
    "mcp.client.websocket": "mcp",
    "fastmcp.server.low_level": "mcp_memory",
    "mcp.server.lowlevel.server": "mcp_memory",
    "mcp.shared.direct_dispatcher": "mcp_memory",
    "mcp.shared.memory": "mcp_memory",
    "multiprocessing.pool": "child_multiprocessing",
    "multiprocessing.spawn": "child_multiprocessing",
    "multiprocessing.util": "exits",
    "numpy.random": "numpy_random",
    "trio._core._run": "trio_order",
    "urllib3.connectionpool": "http_urllib3",
    "aiohttp.client": "websocket_aiohttp",
    "websockets.asyncio.client": "websocket_asyncio",
    "websockets.sync.client": "websocket_sync",
    "agents.handoffs": "tool_openai_agents",
    "agents.tool": "tool_openai_agents",
    "anthropic.lib.tools._beta_functions": "tool_anthropic",
    "claude_agent_sdk": "tool_claude",
    "crewai.tools.base_tool": "tool_crewai",
    "crewai.tools.structured_tool": "tool_crewai",
    "google.genai._extra_utils": "tool_google_genai",
    "langchain_core.tools.base": "tool_langchain",
    "llama_index.core.tools.function_tool": "tool_llama_index",
    "pydantic_ai.toolsets.combined": "tool_pydantic_ai",
    "pydantic_ai.toolsets.function": "tool_pydantic_ai",
    "smolagents.agents": "tool_smolagents",
    "smolagents.tools": "tool_smolagents",
    "curl_cffi.aio": "unmet",
    "curl_cffi.curl": "unmet",
    "grpc._channel": "unmet",
    "grpc.aio._channel": "unmet",
    "primp": "unmet",
    "confluent_kafka.cimpl": "unmet",
    "psycopg._connection_base": "unmet",
    "psycopg2": "unmet",
    "pycares": "unmet",
    "pycurl": "unmet",
    "pynng.nng": "unmet",
    "pyreqwest._pyreqwest": "unmet",
    "tls_client.sessions": "unmet",
    "zmq.sugar.socket": "unmet",
    "uvloop": "loops",
    "winloop": "loops",
}
"""Module that stands for its library when it is imported -> boundary file."""

ALSO: dict[str, str] = {}
"""All rows that are met in this process, those that other plugins have brought included; children get them too."""


def install() -> None:
    """Meet every library of the table, now or when it is imported. Outside a test each call costs one look-up."""
    if SEAMS.keys() <= ALSO.keys() and is_watching(SEAMS):
        return
    also({library: f"pytest_agentreplay.boundaries.{boundary}" for library, boundary in SEAMS.items()})


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
