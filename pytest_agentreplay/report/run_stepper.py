"""A frozen run for people who walk it turn by turn, and as plain data for programs. No terminal is touched here.

Each turn shows what it added: the messages that are new since the last request, the answer, the tools that ran. Keys of
the data, which `agentreplay show --json` prints, are only ever added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.compare.diagnose.results import read_result
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import Failure, FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.reading import CallReading, ReplyReading, arguments_of
from pytest_agentreplay.model.turns import function_of, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.run_view import select_turns
from pytest_agentreplay.report.transcript import format_blocks
from pytest_agentreplay.report.transcript_writer import TranscriptWriter, count_kept, format_frame, get_tool_name
from pytest_agentreplay.snapshots.kit import list_unfrozen

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Body, Exchange, Headers, Json, JsonObject, Run
    from pytest_agentreplay.model.turns import Turn

HELP = """n, Enter, right   the next turn        g 7      go to turn 7
p, left           the turn before      /text    the next turn with that text
q                 leave                ?        this help"""
NEXT, BACK = frozenset({"", "n", " "}), frozenset({"p"})


class Stepper:
    """Walks a run. `obey` returns what a command shows, None for the command that ends."""

    def __init__(self, run: Run, *, width: int = 80) -> None:
        """Stand at the first turn."""
        self._facts, blocks = format_blocks(run, width)
        self._numbers = [number for number, _ in blocks]
        self._texts = [text for _, text in blocks]
        self._at = 0
        self._sought = ""

    @property
    def count(self) -> int:
        """How many turns there are."""
        return len(self._numbers)

    def show(self) -> str:
        """Return the turn where one stands, with the facts of the run above the first one."""
        above = f"{self._facts}\n\n" if self._at == 0 else ""
        return f"{above}[{self._at + 1}/{self.count}] {self._texts[self._at]}"

    def obey(self, command: str) -> str | None:
        """Return what a command shows: a turn, or why there is none."""
        word, _, rest = command.strip().partition(" ")
        if word == "q":
            return None
        if word == "?":
            return HELP
        if command.startswith("/"):
            return self._seek(command[1:].strip())
        if word == "g":
            return self._go(rest.strip())
        if word not in NEXT | BACK:
            return f"there is no command {word}; ? lists them"
        target = self._at + (1 if word in NEXT else -1)
        if not 0 <= target < self.count:
            return "this is the first turn" if target < 0 else "this is the last turn"
        self._at = target
        return self.show()

    def _go(self, number: str) -> str:
        if not number.isdecimal() or int(number) not in self._numbers:
            there = f"{self._numbers[0]} to {max(self._numbers)}"
            return f"there is no turn {number or '(g needs a number)'}; this run has {there}"
        self._at = self._numbers.index(int(number))
        return self.show()

    def _seek(self, text: str) -> str:
        self._sought = text or self._sought
        order = [(self._at + step) % self.count for step in range(1, self.count + 1)]
        place = next((each for each in order if self._sought.lower() in self._texts[each].lower()), None)
        if place is None or not self._sought:
            return f"no turn holds {self._sought!r}"
        self._at = place
        return self.show()


def describe_run(run: Run, number: int | None = None) -> dict[str, Any]:
    """Return the facts of the header and the turns, or those of a number, each with what it added to its lane.

    Raises LookupError where there is no such turn.
    """
    chosen = select_turns(run, number)
    header, writer = run.header, TranscriptWriter(run)
    numbers = {x.start: number for number, x in enumerate(run.exchanges, 1)}
    facts = {"test": header.test, "recorded": header.recorded, "outcome": header.outcome, "calls": len(run.exchanges)}
    facts |= {name: header.kit.get(name, default) for name, default in (("models", []), ("packages", {}))}
    facts["unfrozen"] = [*list_unfrozen(header.kit)]
    described = [(turn, describe_turn(run, turn, writer, numbers)) for turn in turns(run, READER)]
    return {"facts": facts, "turns": [data for turn, data in described if turn in chosen]}


def describe_turn(run: Run, turn: Turn, writer: TranscriptWriter, numbers: dict[int, int]) -> dict[str, Any]:
    """Return one turn; `writer` knows what its lane was told before. Every turn has every key."""
    reading, reply, added, model = CallReading("start", ""), ReplyReading(), 0, turn.model
    if model is not None:
        reading, reply = READER.read_call(model.call), READER.read_reply(model.call, model.outcome)
        context = writer.find_context(turn, model, reading)
        added, context.request = count_kept(context.request, reading), reading
    # What ran inside a call starts after it, so that its parent has been seen.
    inside, others = {x.start for x in turn.exchanges}, []
    for x in run.exchanges:
        if x.start in inside or x.parent in inside:
            inside.add(x.start)
            others += [] if model is not None and x.start == model.start else [describe_call(x, numbers)]
    return {
        "turn": turn.number,
        "lane": turn.lane,
        "agent": turn.agent,
        "kind": reading.kind if model is None else "model",
        "call": None if model is None else numbers[model.start],
        "model": reading.model or reading.name,
        "provider": reading.provider,
        "system": [*reading.system],
        "tools": [get_tool_name(tool) for tool in reading.tools],
        "messages": [*reading.messages[added:]],
        "text": reply.text,
        "tool_uses": [{"id": use.id, "name": use.name, "arguments": arguments_of(use)} for use in reply.tool_uses],
        "finish_reasons": [*reply.finish_reasons],
        "tokens": reply.usage,
        "error": reply.error,
        **describe_ending(model),
        "calls": others,
    }


def describe_call(x: Exchange, numbers: dict[int, int]) -> dict[str, Any]:
    """Return a call that is not the model call of its turn, with its result."""
    reading, function = READER.read_call(x.call), function_of(x.call, READER)
    arguments: Json = function.arguments if function is not None else None
    if arguments is None:
        arguments = x.call.arguments if isinstance(x.call, ToolCall) else read_body(x.call.headers, x.call.body)
    return {
        "call": numbers[x.start],
        "kind": x.call.boundary if isinstance(x.call, ToolCall) else reading.kind,
        "name": function.name if function is not None else reading.name,
        "lane": x.lane,
        "agent": x.agent,
        "attempt": x.attempt,
        "parent": None if x.parent is None else numbers.get(x.parent),
        "arguments": arguments,
        "result": read_answer(x),
        **describe_ending(x),
    }


def describe_ending(x: Exchange | None) -> JsonObject:
    """Return how a call ended, and when, in milliseconds since the run began; of no call nothing."""
    outcome, timing = (x.outcome, x.timing) if x is not None else (None, None)
    failure = outcome if isinstance(outcome, Failure) else getattr(outcome, "failure", None)
    start, first, end = (timing.start, timing.first, timing.end) if timing is not None else (None, None, None)
    took = end - start if end is not None and start is not None else None
    times = zip(("started_ms", "first_ms", "duration_ms"), (start, first, took), strict=True)
    return {
        "status": outcome.status if isinstance(outcome, HttpReply) else None,
        "raised": {"type": failure.type, "message": failure.message} if failure is not None else None,
        **{name: None if at is None else at / 1e6 for name, at in times},
        "chunks": len(outcome.cuts) if isinstance(outcome, HttpReply) else None,
    }


def read_answer(x: Exchange) -> Json:
    """Return what a call gave: a value, what a body holds as JSON or text, or the messages of a connection."""
    match x.outcome:
        case ToolReply():
            return read_result(x.outcome)
        case HttpReply(headers=headers, body=body):
            result = READER.read_reply(x.call, x.outcome).result
            return result if result is not None else read_body(headers, body)
        case FramesReply():
            return [format_frame(frame) for frame in x.outcome.frames()]
        case _:
            return None


def read_body(headers: Headers, body: Body) -> Json:
    """Return what a body holds: JSON or a form as data, else its text."""
    decoded = content(headers, body)
    return decoded.data.decode("utf-8", "replace") if decoded.kind == "bytes" else decoded.tree
