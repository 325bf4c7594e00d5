"""Errors, as platforms keep them: a traceback, a repr, "Class: message", a struct, or the JSON text of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.dialects.genai import parsed
from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.interchange.trace import TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

_TRACEBACK = "Traceback (most recent call last)"
_NAME = r"(?:[A-Za-z_][\w]*\.)*[A-Za-z_]\w*"
_SAID = re.compile(rf"^({_NAME})(?:: (.*))?$", re.DOTALL)
_REPR = re.compile(rf"^({_NAME})\((.*)\)$", re.DOTALL)
_RAISED = re.compile(rf"^({_NAME})(?:: (.*))?$", re.MULTILINE)
_CLASS = re.compile(r"(?:Error|Exception|Exceeded|Warning|Interrupt|Tripwire\w*|Timeout|Exit)$|^[A-Z](?=\w*$)\w*?[a-z]")
_STATUS = re.compile(r"\b(?:Error code|status[ _]code)\D{0,3}(\d{3})\b")


def fault(value: Json) -> TraceFault | None:
    """The error that a field tells; None where it tells none."""
    told = parsed(value)
    if isinstance(told, dict):
        return _of_struct(told) if told else None
    told = told if isinstance(told, str) else value
    if not isinstance(told, str) or not told.strip():
        return None
    return _of_text(told.strip())


def call_fields(found: TraceFault | None) -> dict[str, Any]:
    """Return the fields of a model call that failed: the error, and the HTTP status that its message names, else 0."""
    told = _STATUS.search(found.message[:1000]) if found is not None else None
    return {"fault": found, "status": int(told[1]) if told else 0}


def _of_struct(told: JsonObject) -> TraceFault:
    """A struct under any of the names that platforms give to type, message and traceback."""
    inner = next((obj(told[name]) for name in ("error", "exception") if isinstance(told.get(name), dict)), told)
    kind = next(filter(None, (string(inner.get(name)) for name in ("type", "exception_type", "name", "class"))), "")
    message = next(filter(None, (string(inner.get(name)) for name in ("message", "error", "detail", "msg"))), "")
    frames = next((inner[name] for name in ("traceback", "stacktrace", "stack_trace", "stack") if inner.get(name)), "")
    text = frames if isinstance(frames, str) else "\n".join(map(_frame, objects(arr(frames))))
    said = TraceFault("", message) if kind else _of_line(message)
    return TraceFault(kind.rpartition(".")[2] or said.type, said.message, text)


def _frame(told: JsonObject) -> str:
    line = told.get("line_number", told.get("lineno", "?"))
    where = f'  File "{string(told.get("filename"))}", line {line}, in {string(told.get("function_name")) or "?"}'
    return f"{where}\n    {string(told.get('text'))}" if told.get("text") else where


def _of_text(text: str) -> TraceFault:
    head, mark, tail = text.partition(_TRACEBACK)
    if mark:
        raised = _RAISED.findall(tail)
        kind, message = raised[-1] if raised else ("", "")
        said = _of_line(head.strip())
        return TraceFault(said.type or kind.rpartition(".")[2], said.message or message.strip(), mark + tail)
    return _of_line(text)


def _of_line(text: str) -> TraceFault:
    """`RefundError('no')`, `shop.RefundError: no`, or a message alone."""
    for form in (_REPR, _SAID):
        if (found := form.match(text)) and _CLASS.search(kind := found[1].rpartition(".")[2]):
            return TraceFault(kind, _plain(found[2] or ""))
    return TraceFault("", text)


def _plain(message: str) -> str:
    """The message in a repr's parentheses: the text between the quotes, where it is one text."""
    quote = message[:1]
    if quote in {"'", '"'} and len(message) > 1 and message.endswith(quote) and f"{quote}, " not in message:
        return message[1:-1].replace("\\n", "\n").replace(f"\\{quote}", quote)
    return message
