"""A call as lines for people: whole but bounded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay.core import media
from pytest_agentreplay.core.diff import texts
from pytest_agentreplay.core.matching.address import content, header
from pytest_agentreplay.core.model import ToolCall

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Call, Json, WireCall

LINES = 80  # of one call
WIDE = 400  # characters of one line of it


def spread(call: Call) -> list[str]:
    """A call as indented JSON, its middle left out when it is long."""
    if isinstance(call, ToolCall):
        return _middle(_json(media.told({**call.facts, **call.arguments} if call.facts else call.arguments)))
    lines = [f"{call.method} {call.url}", *(f"{name}: {value}" for name, value in call.headers)]
    return _middle([*lines, *_body(call)])


def _body(call: WireCall) -> list[str]:
    body_content = content(call.headers, call.body)
    if body_content.kind != "bytes":
        return _json(media.told(body_content.tree))
    if not body_content.data:
        return []
    try:
        return body_content.data.decode().splitlines()
    except UnicodeDecodeError:
        return [str(media.of(body_content.data, header(call.headers, "content-type")))]


def _json(value: Json) -> list[str]:
    return [texts.shorten(line, WIDE) for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines()]


def _middle(lines: list[str]) -> list[str]:
    """The head and the longer tail of many lines: what is new stands at the end."""
    if len(lines) <= LINES:
        return lines
    head = LINES // 4
    tail = LINES - head - 1
    return [*lines[:head], f"... {len(lines) - head - tail} lines ...", *lines[-tail:]]
