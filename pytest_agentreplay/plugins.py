"""What packages that extend this one are made of: patches of other libraries, model providers, formats of traces.

Names that are here stay; the modules they come from may move with any release. Each is loaded when it is first used: a
patch of an HTTP client needs nothing of traces, and a trace format no patch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.http.clients import HttpClient, wrap_http
    from pytest_agentreplay.intercept.tools.framework import (
        FrameworkTool,
        copy_tool,
        field_codecs,
        intercept_tool,
        wrap,
    )
    from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply
    from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
    from pytest_agentreplay.providers.dialect import Dialect, make_reading, read_request
    from pytest_agentreplay.providers.messages import normalize_message
    from pytest_agentreplay.providers.streams import ServerSentEvent
    from pytest_agentreplay.traces.assembling import whole
    from pytest_agentreplay.traces.formats import Format, Opened
    from pytest_agentreplay.traces.reading import traces
    from pytest_agentreplay.traces.trace import ModelCall, Source, ToolRun, Trace, TraceFault
    from pytest_agentreplay.traces.wire import json_call

__all__ = [
    "Body",
    "CallReading",
    "Dialect",
    "Format",
    "FrameworkTool",
    "HttpCall",
    "HttpClient",
    "HttpReply",
    "ModelCall",
    "Opened",
    "ReplyReading",
    "ServerSentEvent",
    "Source",
    "ToolRun",
    "ToolUse",
    "Trace",
    "TraceFault",
    "copy_tool",
    "field_codecs",
    "intercept_tool",
    "json_call",
    "make_reading",
    "normalize_message",
    "read_request",
    "traces",
    "whole",
    "wrap",
    "wrap_http",
]

_MODULES = {
    "intercept.http.clients": ("HttpClient", "wrap_http"),
    "intercept.tools.framework": ("FrameworkTool", "copy_tool", "field_codecs", "intercept_tool", "wrap"),
    "model.exchanges": ("Body", "HttpCall", "HttpReply"),
    "model.reading": ("CallReading", "ReplyReading", "ToolUse"),
    "providers.dialect": ("Dialect", "make_reading", "read_request"),
    "providers.messages": ("normalize_message",),
    "providers.streams": ("ServerSentEvent",),
    "traces.assembling": ("whole",),
    "traces.formats": ("Format", "Opened"),
    "traces.reading": ("traces",),
    "traces.trace": ("ModelCall", "Source", "ToolRun", "Trace", "TraceFault"),
    "traces.wire": ("json_call",),
}


def __getattr__(name: str) -> object:
    """Load a public name (PEP 562)."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"pytest_agentreplay.{module}"), name)
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
