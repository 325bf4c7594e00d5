"""What part of a call a difference stands in: model, schemas, prompt, tool results, history, fields, or the wire.

`is_inserted` tells a changed model call from one that somebody has put in: a guard, a title, a summary. A changed call
differs in one respect and keeps the others: an agent whose prompt is edited has its tools, one whose tools are dropped
has its prompt and its messages. A call that was put in shares at most what the user has said.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff import diff
from pytest_agentreplay.compare.matching.address import content, header, is_this_host, split
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, INSIDE, Difference
from pytest_agentreplay.model.exchanges import SELF, Call, FrameCall, Headers, Json, JsonObject, ToolCall, WireCall
from pytest_agentreplay.model.rules import MATCHED_HEADERS
from pytest_agentreplay.values.fitting import fit_call

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pytest_agentreplay.model.reading import CallReading

Readings = tuple["CallReading", "CallReading"]
_KNOBS = """
model temperature top_p top_k max_tokens max_completion_tokens max_output_tokens stop stop_sequences seed n tool_choice
parallel_tool_calls response_format text reasoning reasoning_effort thinking verbosity frequency_penalty logit_bias
presence_penalty stream generationConfig toolConfig safetySettings inferenceConfig options format think output_config
previous_response_id conversation service_tier modalities logprobs top_logprobs truncation
"""
# Body fields that people set; any other one that comes or goes is likely the SDK's doing.
KNOBS = frozenset(_KNOBS.split())

# A value, marked by \0 and \1, is a setting behind such a name, as the date of a name ("gpt-4o-2024-08-06"), and as the
# host or the dated version in an address.
_SETTING = re.compile(
    r"(?:(?<![A-Za-z])|(?=[A-Z]))(?i:model|engine|deployment|v|ver|version|commit|revision|rev|release|sha\d*)s?"
    r"(?:[._-]?(?i:id|name|sha|hash))?[^\w\0]{1,6}[\w.:-]*\0"
    r"|\w[-@]\0\d{4}-\d\d-\d\d\x01(?![\w.])"
    r"|^url=(?:\w+://[^/]*\0|[^?]*/\0\d{4}-\d\d-\d\d\x01/)"
)
NEAR = 200  # characters before a value in which the name of a setting is looked for
_INDEX = re.compile(r"\[(\d+)(?:\.\.(\d+))?\]")


class ReportSection(IntEnum):
    """What part of a call a difference stands in, the most telling first."""

    MODEL = 1
    SCHEMA = 2
    PROMPT = 3
    RESULT = 4
    HISTORY = 5
    FIELD = 6
    WIRE = 7


def find_role(message: Json) -> str:
    """Whose words a message holds, whatever the provider calls it: "system", "user", "assistant" or "tool"."""
    if not isinstance(message, dict):
        return "user"
    kind, role_name = str(message.get("type", "")), str(message.get("role", ""))
    blocks = message.get("content") or message.get("parts")
    if isinstance(blocks, list) and any(_is_result(block) for block in blocks):
        return "tool"
    if role_name in {"tool", "function"} or kind.endswith(("_output", "tool_result")):
        return "tool"
    if role_name in {"assistant", "model"} or kind.endswith("_call") or kind == "reasoning":
        return "assistant"
    return "system" if role_name in {"system", "developer"} else "user"


def _is_result(block: Json) -> bool:
    if not isinstance(block, dict):
        return False
    return block.get("type") == "tool_result" or "functionResponse" in block or "toolResult" in block


def compare_calls(
    recorded: Call, now: Call, *, hidden: Collection[str] = (), matched: Collection[str] = MATCHED_HEADERS
) -> tuple[Difference, ...]:
    """Return every place where two calls differ, but those at or below a path in `hidden`.

    Paths are those of the rules: "$..." in the body or the arguments, "headers.NAME", "method", "url"; and "call..."
    for a function's name and what was said of it.
    """
    if isinstance(recorded, ToolCall) and isinstance(now, ToolCall):
        now = fit_call(recorded, now)
        differing = (*diff(_collect_facts(recorded), _collect_facts(now), path="call"), *diff(recorded.tree, now.tree))
    elif isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return ()
    elif isinstance(recorded, FrameCall) == isinstance(now, FrameCall):
        differing = _compare_wire(recorded, now, matched)
    else:
        return ()
    return tuple(difference for difference in differing if not any(is_below(difference.path, path) for path in hidden))


def _collect_facts(call: ToolCall) -> JsonObject:
    return {"name": call.name, **{name: fact for name, fact in call.facts.items() if name != SELF}}


def _compare_wire(recorded: WireCall, now: WireCall, matched: Collection[str]) -> tuple[Difference, ...]:
    differing = list(diff(recorded.method, now.method, path="method"))
    differing += diff(normalize_address(recorded.url), normalize_address(now.url), path="url")
    before, after = _select_matched_headers(recorded.headers, matched), _select_matched_headers(now.headers, matched)
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            differing.append(Difference(f"headers.{name}", before.get(name, ABSENT), after.get(name, ABSENT)))
    old, new = content(recorded.headers, recorded.body), content(now.headers, now.body)
    if old.kind == new.kind and old.kind != "bytes":
        differing += diff(media.mark_media(old.tree), media.mark_media(new.tree))
    elif old.data != new.data:
        differing += diff(_read_text(recorded, old.data), _read_text(now, new.data))
    return tuple(differing)


def normalize_address(url: str) -> str:
    """Return the URL without what may differ unseen: the port of this machine, the order of the query."""
    parts = split(url)
    port = f":{parts.port}" if parts.port is not None and not parts.loopback else ""
    query = "&".join(f"{name}={value}" for name, value in sorted(parts.query))
    host = "localhost" if is_this_host(parts.host) else parts.host
    return f"{parts.scheme}://{host}{port}{parts.path}{query and '?' + query}"


def _select_matched_headers(headers: Headers, matched: Collection[str]) -> dict[str, str]:
    return {name.lower(): value.partition("; boundary=")[0] for name, value in headers if name.lower() in matched}


def _read_text(call: WireCall, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return str(media.make_media(data, header(call.headers, "content-type")))


def find_section(difference: Difference, recorded: CallReading, now: CallReading) -> ReportSection:
    """Return the part of a model call that a difference stands in."""
    for reading in (recorded, now):
        if reading.messages_at and is_below(difference.path, reading.messages_at):
            return _find_message_section(difference, recorded, now)
        if reading.tools_at and is_below(difference.path, reading.tools_at):
            return ReportSection.SCHEMA
        if reading.system_at and is_below(difference.path, reading.system_at):
            return ReportSection.PROMPT
    if difference.path in {"url", "method"} or is_below(difference.path, "call") or is_setting(difference.path):
        return ReportSection.MODEL
    if not difference.path.startswith("$"):
        return ReportSection.WIRE
    name = re.split(r"[.\[]", difference.rule_path.lstrip("$."), maxsplit=1)[0]
    came_or_went = (difference.recorded is ABSENT or difference.now is ABSENT) and not difference.is_inside
    return ReportSection.FIELD if came_or_went and name not in KNOBS else ReportSection.MODEL


def _find_message_section(difference: Difference, recorded: CallReading, now: CallReading) -> ReportSection:
    who = find_owner(difference, (recorded, now))
    added = difference.recorded is ABSENT
    if (added or difference.now is ABSENT) and _is_whole_message(difference, recorded, now):
        return ReportSection.PROMPT if added and who in {"system", "user"} else ReportSection.HISTORY
    if who == "tool":
        return ReportSection.RESULT
    moved = difference.note.startswith(("reordered", "too different"))
    return ReportSection.HISTORY if who == "assistant" or moved else ReportSection.PROMPT


def is_setting(path: str, text: str = "", start: int = 0, end: int = 0) -> bool:
    """Whether what stands from `start` to `end` in the `text` of a place is a model's name, a version or a commit."""
    before = f"{_INDEX.sub('', path)}={text[max(0, start - NEAR) : start]}"
    return _SETTING.search(f"{before}\0{text[start:end]}\1{text[end : end + 1]}") is not None


def find_message_indexes(difference: Difference, reading: CallReading) -> range | None:
    """Return the indexes of the messages that a difference stands in, None when that is all of them or none."""
    if not reading.messages_at or not is_below(difference.path, reading.messages_at):
        return None
    differing = _INDEX.match(difference.path, len(reading.messages_at))
    return range(int(differing[1]), int(differing[2] or differing[1]) + 1) if differing else None


def _is_whole_message(difference: Difference, recorded: CallReading, now: CallReading) -> bool:
    """Return whether whole messages came or went, not a part of one."""
    at = recorded.messages_at or now.messages_at
    differing = _INDEX.match(difference.path, len(at))
    return differing is not None and differing.end() == len(difference.path)


def find_message(difference: Difference, readings: Readings) -> Json:
    """Return the message that a difference stands in, on the side where it is; None when it is in no single one."""
    reading = _choose_side(difference, readings)
    at = find_message_indexes(difference, reading)
    return reading.messages[at[0]] if at is not None and at[0] < len(reading.messages) else None


def find_owner(difference: Difference, readings: Readings) -> str:
    """Return whose words a difference stands in; "prompt" where it is in no single message."""
    reading = _choose_side(difference, readings)
    if reading.system_at and is_below(difference.path, reading.system_at):
        return "system"
    message = find_message(difference, readings)
    return "prompt" if message is None else find_role(message)


def find_tool_name(difference: Difference, readings: Readings) -> str:
    """Return the name of the tool whose schema a difference stands in, with a colon."""
    reading = _choose_side(difference, readings)
    at = difference.path.startswith(reading.tools_at) and _INDEX.match(difference.path, len(reading.tools_at))
    if not at or int(at[1]) >= len(reading.tools):
        return ""
    name = name_of_tool(reading.tools[int(at[1])])
    return f"tool {name}: " if name else ""


def _choose_side(difference: Difference, readings: Readings) -> CallReading:
    """Return the reading of the call that has the place of a difference: the recorded one, unless it is added."""
    return readings[1 if difference.recorded is ABSENT else 0]


def name_of_tool(tool: Json) -> str:
    """Return the name in a tool's schema, "" for a tool that has none (of the provider's own, say)."""
    inner = tool.get("function", tool.get("toolSpec", tool)) if isinstance(tool, dict) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""


def is_below(path: str, above: str) -> bool:
    """Return whether `path` is `above` or a place in it."""
    return path.startswith(above) and path[len(above) : len(above) + 1] in {"", ".", "[", INSIDE[0]}


def walk_strings(value: Json) -> Iterator[str]:
    """Yield all strings in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from walk_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk_strings(inner)


# The share of its words that the longer of two system texts has in common with the other, if one became the other.
ALIKE = 1 / 3

_WORD = re.compile(r"\w+")


def is_inserted(now: CallReading, due: CallReading) -> bool:
    """Return whether the call `now` is not what became of the recorded call `due`."""
    system, tools = _is_system_alike(now, due), _are_tools_alike(now.tools, due.tools)
    if system or tools:
        return False
    shared = len(_collect_messages(now) & _collect_messages(due))
    if system is None and tools is None:
        return not shared and now.name != due.name
    return shared < 2 if system is False and tools is False else not shared


def _is_system_alike(now: CallReading, due: CallReading) -> bool | None:
    """Return whether two calls have much the same system text; None where neither has any."""
    words, others = _collect_system_words(now), _collect_system_words(due)
    if not words and not others:
        return None
    return len(words & others) >= ALIKE * max(len(words), len(others))


def _collect_system_words(reading: CallReading) -> set[str]:
    messages = [message for message in reading.messages if find_role(message) == "system"]
    texts = [text for part in (*reading.system, *messages) for text in walk_strings(part)]
    return {word for text in texts for word in _WORD.findall(text.casefold())} - {"system", "developer"}


def _are_tools_alike(now: Sequence[Json], due: Sequence[Json]) -> bool | None:
    """Return whether two calls offer a tool of the same name; None where neither offers any."""
    if not now and not due:
        return None
    return not {name_of_tool(tool) for tool in now}.isdisjoint(name_of_tool(tool) for tool in due)


def _collect_messages(reading: CallReading) -> set[str]:
    """Return the messages that are no system text, as comparable texts."""
    return {canonical(message) for message in reading.messages if find_role(message) != "system"}
