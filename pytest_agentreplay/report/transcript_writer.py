"""Writes turns down: what each adds to its lane, what the model answered, which tools ran. Safe to show as it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.exchanges import Failure, Frame, FrameCall, FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.model.turns import is_model, label, tool_of
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import find_tool_results, find_tool_uses
from pytest_agentreplay.providers.shown_messages import show_message
from pytest_agentreplay.report.escape import escape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Outcome, Run
    from pytest_agentreplay.model.reading import Chunk
    from pytest_agentreplay.model.turns import Turn

THOUGHTS = {"thinking", "redacted_thinking"}


@dataclass(slots=True)
class LaneContext:
    """What a lane has told its model so far, and what that answered last."""

    request: CallReading = field(default_factory=lambda: CallReading("model", ""))
    reply: ReplyReading = field(default_factory=ReplyReading)


class TranscriptWriter:
    """Writes the turns of one run down, in order: each turn says only what it adds to its lane.

    `note` is what stands behind an exchange's line, `inner` asks for what happened inside of tool calls, `review` for
    the schemas of tools and no counts of tokens.
    """

    def __init__(
        self, run: Run, note: Callable[[Exchange], str] = lambda _: "", *, inner: bool = False, review: bool = False
    ) -> None:
        """Begin with nothing told."""
        self._review = review
        self._note = note
        self._lanes: dict[str, LaneContext] = {}
        order = run.header.kit.get("order")
        apart = order.get("apart") if isinstance(order, dict) else None
        self._apart = [str(lane) for lane in apart] if isinstance(apart, list) else []
        self._contexts: dict[tuple[str, str], LaneContext] = {}
        self._names: dict[str, str] = {}
        self._inner: dict[int, list[Exchange]] = {}
        if inner:
            for x in run.exchanges:
                if x.parent is not None:
                    self._inner.setdefault(x.parent, []).append(x)

    def format_turn(self, turn: Turn) -> Iterator[str]:
        """Yield the lines of a turn; all but the first are indented."""
        return map(escape_row, self._format_unescaped(turn))

    def _format_unescaped(self, turn: Turn) -> Iterator[str]:
        whose = f"{turn.agent} " if turn.agent and turn.who else ""
        if turn.model is None:
            yield f"{whose}turn {turn.number}  before the first model call"
        for x in sort_settled(turn.exchanges):
            if turn.model is None or x.start != turn.model.start:
                yield from indent_rows(self.exchange_rows(x))
                continue
            reading = READER.read_call(x.call)
            yield f"{whose}turn {turn.number}  {reading.name}{self._note(x)}"
            yield from indent_rows(self.format_model(x, reading, self.find_context(turn, x, reading)))

    def find_context(self, turn: Turn, x: Exchange, now: CallReading) -> LaneContext:
        """Return what was said before a model call: a child process has its own, unless it goes on with another."""
        key = turn.lane, next((lane for lane in self._apart if f"{x.lane}.".startswith(f"{lane}.")), "")
        if (context := self._contexts.get(key)) is None:
            before = self._lanes.get(turn.lane, LaneContext())
            goes_on = not all(map(is_system, now.messages[: count_kept(before.request, now)]))
            self._contexts[key] = context = replace(before) if goes_on else LaneContext()
        self._lanes[turn.lane] = context
        return context

    def format_model(self, x: Exchange, reading: CallReading, context: LaneContext) -> Iterator[str]:
        """Yield a model call: what is new in its request, and the answer."""
        added, reply = self.read_model(x, reading, context)
        for name, text in added:
            yield from format_labelled(name, text)
        yield from format_answer(reply if not self._review else replace(reply, usage={}), x.outcome)

    def read_model(
        self, x: Exchange, reading: CallReading, context: LaneContext
    ) -> tuple[list[tuple[str, str]], ReplyReading]:
        """Return what a model call adds to its lane, each text with its label, and its reply; `context` moves on."""
        before, context.request = context.request, reading
        added = [*self._list_settings(before, reading), *self._list_messages(before, reading, context.reply)]
        context.reply = reply = READER.read_reply(x.call, x.outcome)
        self._names |= {use.id: use.name for use in reply.tool_uses}
        return added, reply

    def _list_settings(self, before: CallReading, now: CallReading) -> Iterator[tuple[str, str]]:
        """Yield what stands around the messages and is not as in the request before."""
        if now.system != before.system:
            yield "system", "\n".join(map(read_system_text, now.system)) or "(none)"
        if now.tools != before.tools:
            names = ", ".join(map(get_tool_name, now.tools)) or "(none)"
            same = {get_tool_name(tool) for tool in now.tools} == {get_tool_name(tool) for tool in before.tools}
            yield "tools", f"{names} (schemas changed)" if same else names
            for tool in now.tools if self._review else ():
                if tool not in before.tools:
                    yield f"schema of {get_tool_name(tool)}", format_value(tool)
        yield from list_parameters(before.parameters, now.parameters)

    def _list_messages(self, before: CallReading, now: CallReading, reply: ReplyReading) -> Iterator[tuple[str, str]]:
        """Yield the messages that a request adds to those of the one before it.

        What the model said itself is not said twice, and neither are system texts that stand among the messages.
        """
        same = count_kept(before, now)
        if same < (had := len(before.messages)):
            yield "history", f"{had - same} of {had} messages were rewritten or left out"
        system = [read_system_text(text) for text in now.system]
        for message in now.messages[same:]:
            self._names |= {use.id: use.name for use in find_tool_uses(message)}
            if is_echo(message, reply) or (is_system(message) and read_system_text(message) in system):
                continue
            text = show_message(message)
            for identity in find_tool_results(message):
                name = self._names.get(identity, "of a tool")
                text = text.replace(f"tool result {identity}:", f"tool result {name}:", 1)
            head, _, rest = text.partition(": ")
            yield (head, rest) if rest else ("", text)

    def exchange_rows(self, x: Exchange) -> Iterator[str]:
        """Yield any exchange but a turn's model call, with its outcome."""
        chunks: tuple[Chunk, ...] = ()
        tool = tool_of(x.call, READER)
        if is_model(x.call, READER) and x.parent is None:
            yield f"tried {label(x.call, READER).removeprefix('model ')}{self._note(x)}"
        elif tool is not None:
            yield f"ran {format_tool(tool.name, tool.arguments)}{self._note(x)}"
        elif isinstance(x.call, ToolCall) and x.call.boundary == "retrieval":
            yield f"retrieved {format_tool(x.call.name, x.call.arguments)}{self._note(x)}"
            chunks = READER.read_chunks(x.outcome)
        else:
            yield f"{label(x.call, READER)}{self._note(x)}"
        if isinstance(x.call, FrameCall) and len(x.call.body):
            yield from indent_rows(format_labelled("->", format_frame(Frame(x.call.body.data)), sign=""))
        for inner in self._inner.get(x.start, ()):
            yield from indent_rows(self.exchange_rows(inner))
        yield from indent_rows(format_chunks(chunks) if chunks else format_outcome(x.outcome))


def count_kept(before: CallReading, now: CallReading) -> int:
    """Return how many messages a request begins with as the one before it did."""
    if before.messages == now.messages[: len(before.messages)]:  # the usual case, compared without Python's loop
        return len(before.messages)
    both = zip(before.messages, now.messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))


def sort_settled(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Exchanges in order of start; those that overlapped stand in order of what they are, since the rest is chance."""
    groups: list[list[Exchange]] = []
    latest = -1
    for x in exchanges:
        if not groups or x.start > latest or not isinstance(x.call, ToolCall):
            groups.append([])
        groups[-1].append(x)
        latest = max(latest, x.finish if x.finish is not None else x.start)
    return [x for group in groups for x in sorted(group, key=lambda x: identify_call(x) if len(group) > 1 else "")]


def identify_call(x: Exchange) -> str:
    """Return what a tool call is: its name and arguments."""
    return f"{x.call.name}{canonical(x.call.arguments)}" if isinstance(x.call, ToolCall) else ""


def list_parameters(before: JsonObject, now: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the plain parameters that are new or other than before; whatever is an id says nothing about behaviour."""
    for name in sorted({*before, *now}):
        value, old = now.get(name), before.get(name)
        if value != old and not name.endswith(("_id", "_key", "user")) and not isinstance(value, dict | list):
            yield name, "(left out)" if name not in now else format_value(value)


def format_chunks(chunks: Iterable[Chunk]) -> Iterator[str]:
    """Yield what a retrieval gave, best first: "1. doc-17 (0.81): Orders ship ..."."""
    for place, chunk in enumerate(chunks, 1):
        score = "" if chunk.score is None else f" ({chunk.score:g})"
        name = f"{place}. {chunk.id}{score}"
        yield from format_labelled(name, chunk.content) if chunk.content else (name,)


def format_answer(reply: ReplyReading, result: Outcome | None) -> Iterator[str]:
    """Yield a model's reply: text, tools that it asks for, why it stopped, tokens."""
    if reply.text:
        yield from format_labelled("answers", reply.text)
    for use in reply.tool_uses:
        yield from format_labelled("asks for", f"{use.name}({format_value(use.arguments)})", sign="")
    match result:
        case FramesReply():
            yield from format_end(result)
        case HttpReply(status=status, failure=None, closed=False) if status < 400 and not reply.error:
            pass
        case ToolReply(failure=None, closed=False) if reply.text or reply.tool_uses:
            pass
        case _:
            yield from format_outcome(result, reply.error)
    if reply.finish_reasons:
        yield from format_labelled("stops", ", ".join(reply.finish_reasons))
    if reply.usage:
        yield from format_labelled(
            "tokens", ", ".join(f"{name} {count}" for name, count in sorted(reply.usage.items()))
        )


def format_outcome(result: Outcome | None, error: str = "") -> Iterator[str]:
    """Yield what came of a call."""
    match result:
        case None:
            yield "did not end"
        case Failure():
            yield from format_raised(result)
        case HttpReply():
            status = f"{result.status} {result.reason}".rstrip()
            is_said = error in {"", status, result.reason}
            yield f"status {status}" if is_said else f"status {status}: {error.removeprefix(f'{result.status} ')}"
            yield from format_raised(result.failure) if result.failure else ()
        case FramesReply():
            for frame in result.frames():
                yield from format_labelled("<-", format_frame(frame), sign="")
            yield from format_end(result)
        case ToolReply(value, items):
            if items is None:
                yield from format_labelled("", value if isinstance(value, str) else format_value(value))
            for item in items or ():
                yield from format_labelled("-", format_value(item), sign="")
            yield from format_raised(result.failure) if result.failure else ()
    if isinstance(result, HttpReply | ToolReply) and result.closed:
        yield "(the agent stopped reading here)"


def format_tool(name: str, arguments: Json) -> str:
    """Return a call of a tool, without braces where it has no arguments."""
    return f"{name}({format_value(arguments) if arguments else ''})"


def format_frame(frame: Frame) -> str:
    """Return a frame as people read it: what it says where it is JSON or text, else its size."""
    value = parse(frame.data)
    if not isinstance(value, NotJson):
        return canonical(media.mark_media(value))
    try:
        return frame.data.decode()
    except UnicodeDecodeError:
        return f"{len(frame.data)} bytes"


def format_end(reply: FramesReply) -> Iterator[str]:
    """Yield how a connection ended after these frames, when it did."""
    if reply.failure:
        yield from format_raised(reply.failure)
    if reply.closed:
        whose = "the agent" if reply.closed.by_agent else "the other side"
        code = "" if reply.closed.code is None else f" ({reply.closed.code})"
        yield from format_labelled(
            f"{whose} closed{code}", reply.closed.reason, sign=":" if reply.closed.reason else ""
        )


def format_raised(failure: Failure) -> Iterator[str]:
    """Yield an exception by its class and message."""
    name = failure.type.rpartition(".")[2]
    yield from format_labelled(f"raised {name}", failure.message) if failure.message else (f"raised {name}",)


def is_echo(message: Json, reply: ReplyReading) -> bool:
    """Return whether a message only sends back what the model said last: its text, its tool calls, its reasoning."""
    if not isinstance(message, dict):
        return False
    if message.get("type") == "reasoning":
        return True
    if str(message.get("role", "assistant")) not in {"assistant", "model"} or find_tool_results(message):
        return False
    for name in ("content", "parts"):
        content = message.get(name)
        if isinstance(content, list):
            message = {**message, name: [block for block in content if not is_thought(block)]}
    messages = [f"assistant: {reply.text}"] if reply.text else []
    messages += [f"assistant calls {use.name}({format_value(use.arguments)})" for use in reply.tool_uses]
    return show_message(message) in "\n".join(messages)


def is_thought(block: Json) -> bool:
    """Return whether a block is a thought of the model's."""
    if not isinstance(block, dict):
        return False
    return str(block.get("type")) in THOUGHTS or block.get("thought") is True or "reasoningContent" in block


def read_system_text(text: Json) -> str:
    """Return a system text, given as a string, a block or a message."""
    if isinstance(text, dict) and isinstance(content := text.get("text", text.get("content")), str):
        return content
    return text if isinstance(text, str) else show_message(text)


def is_system(message: Json) -> bool:
    """Return whether a message is a system text."""
    return isinstance(message, dict) and str(message.get("role")) in {"system", "developer"}


def get_tool_name(tool: Json) -> str:
    """Return the name of an offered tool."""
    if not isinstance(tool, dict):
        return format_value(tool)
    inner = tool.get("function", tool.get("toolSpec"))
    name = tool.get("name") or (inner.get("name") if isinstance(inner, dict) else None) or tool.get("type")
    return str(name or next(iter(tool), "tool"))


def format_value(value: Json) -> str:
    """Return a value as people read it: a text as it is, a picture or file by its type, size and digest, else JSON."""
    value_shown = media.mark_media(value)
    return value_shown if isinstance(value_shown, str) else canonical(value_shown)


def format_labelled(name: str, text: str, sign: str = ":") -> Iterator[str]:
    """Yield the lines of `name: text`; a text of several lines begins behind the name and goes on indented."""
    head, *rest = [row.rstrip() for row in text.splitlines()] or ['""']
    yield f"{name}{sign} {head}".rstrip() if name else head
    yield from (f"  {row}" for row in rest)


def indent_rows(rows: Iterable[str]) -> Iterator[str]:
    """Yield lines two columns further in."""
    return (f"  {row}" for row in rows)


def escape_row(row: str) -> str:
    """Return a line as it may be shown: one line, whatever stands in it."""
    return escape_text(row).replace("\n", "\\n")
