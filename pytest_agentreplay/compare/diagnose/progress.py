"""A recording as it stands in the middle of a replay: what was answered, what is due next, who said what.

It also finds the earlier reply or tool result from which a text of the recording came.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.classify import ORDER_CAUSE, STATE_CAUSE, ContentChange, classify_change
from pytest_agentreplay.compare.diagnose.sections import compare_calls, is_inserted, walk_strings
from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model import turns as turns_of
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Exchange, FrameCall, Json, Outcome, Run, ToolCall, ToolReply
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.model.reading import CallReading, Chunk, Reader, ReplyReading, ToolUse, arguments_of, ran_for
from pytest_agentreplay.model.rules import MATCHED_HEADERS
from pytest_agentreplay.model.turns import Turn, TurnPosition, function_of, label, seat, top_level

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


class ReplayProgress:
    """A run of which the exchanges whose `start` is in `served` were answered."""

    def __init__(self, run: Run, reader: Reader, served: Collection[int], matching: Matching | None = None) -> None:
        """Divide the run into turns; everything else is read when it is asked for."""
        reader = self.reader = CachingReader(reader)
        self.run = run
        self.served = served
        self._matching = matching
        self._top = top_level(run)
        self.turns, self.homes = turns_of.divide(self._top, reader)
        self.lanes = list(dict.fromkeys(turn.lane for turn in self.turns))

    def name(self, call: Call) -> str:
        """Return a call as reports show it."""
        return label(call, self.reader)

    def is_model_call(self, call: Call) -> bool:
        """Return whether a model is asked."""
        return turns_of.is_model(call, self.reader)

    def name_lane(self, exchange: Exchange) -> str:
        """Return the lane that reports name."""
        return self.homes[exchange.lane]

    def name_turn(self, exchange: Exchange) -> str:
        """Its turn, as reports show it."""
        return seat(self.turns, exchange).turn.title

    def find_unserved(self) -> list[Exchange]:
        """Return all top-level exchanges that were not answered."""
        return [x for x in self._top if x.start not in self.served]

    def list_pending(self, lane: str) -> list[Exchange]:
        """Those of one lane."""
        return [x for x in self.find_unserved() if self.name_lane(x) == lane]

    def find_lane(self, lane: str, agent: str) -> str:
        """Return the reported lane of a call that is made in `lane`, whatever number that has this time.

        That is the one in which `agent` is due, and for a lane that was never seen the one in which anybody is.
        """
        here = turns_of.home(self.homes, lane)
        due = {self.name_lane(x): None for x in self.find_unserved() if agent and x.agent == agent}
        if due and here not in due:
            return next(iter(due))
        return here if here in self.lanes else next((self.name_lane(x) for x in self.find_unserved()), here)

    def find_last(self, lane: str) -> Exchange | None:
        """Return the latest exchange of a lane that was answered."""
        return next((x for x in reversed(self._top) if x.start in self.served and self.name_lane(x) == lane), None)

    def compare(self, recorded: Call, now: Call) -> tuple[Difference, ...]:
        """Return where two calls differ, without what is not compared."""
        drift = self._matching.drift(recorded, now) if self._matching is not None else ()
        # Ids that the client makes itself differ in each run: matching renumbers them, and a report leaves them out.
        hidden = {difference.path for difference in drift} | self._find_made_ids(recorded) | self._find_made_ids(now)
        matched = MATCHED_HEADERS if self._matching is None else self._matching.headers
        return compare_calls(recorded, now, hidden=hidden, matched=matched)

    def _find_made_ids(self, call: Call) -> set[str]:
        """Return where the ids that the client made itself stand."""
        if isinstance(call, ToolCall) or not (paths := self.reader.read_call(call).client_ids):
            return set()
        tree = content(call.headers, call.body).tree
        return {show(place) for path in paths for place, _ in compile_path(path).find(tree)}

    def explain_change(self, recorded: Exchange, now: Call, differing: tuple[Difference, ...] = ()) -> ContentChange:
        """Return what made the recorded call another one; `differing` is all that differs unless given."""
        differing, explain = differing or self.compare(recorded.call, now), partial(self.explain_value, recorded)
        change = classify_change(recorded.call, now, self.reader, differing, frozen=self.is_frozen, explain=explain)
        if change.kind is Kind.PROMPT and change.cause != ORDER_CAUSE and self._may_be_state(change, recorded):
            return replace(change, cause=STATE_CAUSE + change.cause)
        return change

    def _may_be_state(self, change: ContentChange, target: Exchange) -> bool:
        """Whether a prompt may lack a state that a tool would have changed: one from the snapshot does not run."""
        earlier = [x for x in self._top if x.start in self.served and x.start < target.start]
        tools = [(x, tool) for x in earlier if (tool := self.find_tool(x.call)) is not None]
        kept = (text for x, tool in tools for text in (*walk_strings(tool.tree), *list_spoken_texts(x, self.reader)))
        replies, snippet = (self.reader.read_reply(x.call, x.outcome) for x in earlier), find_text_to_seek(change)
        # What a reply holds and no tool does is the same in a replay.
        is_replied = snippet and any(snippet in reply.text for reply in replies)
        return bool(tools) and (not is_replied or any(snippet in text for text in kept))

    def explain_value(self, target: Exchange, recorded: str, now: str) -> str:
        """Return why two values in which a call differs from `target` are not both new; "" where they are.

        What is not compared does not count: the values there may be new in each run.
        """
        if any(now in text for text in self._first_seen):
            return "your code sends another value of this run here: the recording has it elsewhere"
        if any(recorded in text and at < target.start for text, at in self._first_seen.items()):
            return "the recorded value occurs earlier in this run, and your code sends another one here"
        with suppress(ValueError):  # no date, or none of the calendar
            if abs(date.fromisoformat(recorded[:10]) - date.fromisoformat(self.run.header.recorded[:10])) > DAY:
                return "the recorded date is not the day of the recording, so it was written, and no clock gave it"
        return ""

    @cached_property
    def _first_seen(self) -> dict[str, int]:
        """The texts of calls and answers, each with its first place in the order of the run."""
        matching = self._matching or Matching(self.reader)
        first: dict[str, int] = {}
        for x in self.run.exchanges:
            reading = self.reader.read_call(x.call)
            sent = (
                walk_strings([*reading.system, *reading.messages])
                if self.is_model_call(x.call)
                else [matching.text(x.call)]
            )
            for at, texts_there in ((x.start, sent), (x.finish or 0, list_spoken_texts(x, self.reader))):
                for text in texts_there:
                    first[text] = min(at, first.get(text, at))
        return first

    def find_answered(self, call: Call, lane: str) -> Exchange | None:
        """Return the latest answered exchange of the lane that is this very call."""
        for x in reversed(self._top):
            mine = x.start in self.served and self.name_lane(x) == lane
            if mine and _is_comparable(x.call, call) and not self.compare(x.call, call):
                return x
        return None

    def is_alike(self, recorded: Call, now: Call) -> bool:
        """Whether one may stand for the other: both ask a model, use one connection, or ask one host for the like."""
        if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
            return recorded.boundary == now.boundary == "model"
        # A message over a connection stands for messages over the same one alone.
        if (wire := _find_connection(recorded)) != _find_connection(now) or wire:
            return wire == _find_connection(now)
        if self.is_model_call(recorded) and self.is_model_call(now):
            return True
        here, there = _split_host(recorded.url), _split_host(now.url)
        if recorded.method != now.method and (recorded.body != now.body or not len(now.body)):
            return False
        if here[1] == there[1] or here[0] != there[0]:
            return here[1] == there[1]
        kinds = {(reading.kind, reading.operation) for reading in map(self.reader.read_call, (recorded, now))}
        words, others = (
            [part for part in path.split("/") if not _VERSION.fullmatch(part)] for _, path in (here, there)
        )
        # An endpoint of another kind is another request, unless the way to it is all that has changed.
        return words[-1:] == others[-1:] if len(kinds) > 1 else words == others or not {*words}.isdisjoint(others)

    def is_foreign(self, call: Call, due: Exchange, lane: str) -> bool:
        """Whether a model call is none of the conversation that the due one goes on with, or not that call at all."""
        if not (self.is_model_call(call) and self.is_model_call(due.call)) or _find_connection(call):
            return False
        new, old = self.reader.read_call(call), self.reader.read_call(due.call)
        if is_inserted(new, old):
            return True
        contents = self._collect_contents(due.call)
        # The same instructions and tools are the same agent's, whose messages have changed.
        if contents & self._collect_contents(call) or (new.system == old.system and new.tools == old.tools):
            return False
        return any(
            contents & self._collect_contents(x.call)
            for x in self._top
            if x.start in self.served and self.name_lane(x) == lane
        )

    def find_nearest(self, targets: Sequence[Exchange], call: Call) -> Exchange:
        """Return the first target, unless a later one says all but the same as `call` and the first does not."""
        mine = self._collect_contents(call)
        far = [len(self._collect_contents(x.call) ^ mine) for x in targets]
        best = min(range(len(targets)), key=far.__getitem__)
        # One message of difference is a change of that call; more may be another call.
        return targets[best] if far[best] <= 1 < far[0] else targets[0]

    def list_tool_uses(self, exchange: Exchange) -> tuple[ToolUse, ...]:
        """Return the tool calls that the model asked for last before `exchange`, in its lane."""
        for x in reversed(self._top):
            before = x.start < exchange.start and self.name_lane(x) == self.name_lane(exchange)
            if before and self.is_model_call(x.call):
                return self.reader.read_reply(x.call, x.outcome).tool_uses
        return ()

    def find_source(self, change: ContentChange, target: Exchange) -> str:
        """Which earlier reply the old text of the first difference came from, as a line; "" when none holds it."""
        if not (snippet := find_text_to_seek(change)):
            return ""
        for x in self._top:
            is_earlier = x.finish is not None and x.finish < target.start
            if is_earlier and any(snippet in text for text in list_spoken_texts(x, self.reader)):
                quoted = json.dumps(texts.shorten(snippet, 30), ensure_ascii=False)
                place = seat(self.turns, x)
                where = f"{place.turn.title}, call {place.position}"
                return f"the recorded text {quoted} came from {self.name(x.call)} ({where})"
        return ""

    def make_divergence(
        self,
        kind: Kind,
        summary: str,
        recorded: Exchange | None,
        now: Call | None,
        differences: tuple[Difference, ...] | None = None,
        *,
        at: Exchange | None = None,
        lane: str = "main",
        cause: str = "",
        hints: tuple[str, ...] = (),
        detail: tuple[str, ...] = (),
    ) -> Divergence:
        """Return a divergence at the place of `at`, else of `recorded`, else in the empty `lane`.

        Where no `differences` are given, the two calls are the difference, in a line each.
        """
        if differences is None:
            if recorded is not None and now is not None:
                old, new = self.format_calls(recorded.call, now)
                differences = (Difference("call", old, new),)
            elif now is not None:
                differences = (Difference("call", ABSENT, self.format_call(now)),)
            else:
                differences = (Difference("call", self.format_call(recorded.call), ABSENT),) if recorded else ()
        at = at or recorded
        position = TurnPosition(Turn(0, lane, None, ()), 0, 0, 0) if at is None else seat(self.turns, at)
        turn = position.turn
        return Divergence(
            *(kind, summary, turn.number, position.turns, turn.lane, position.position, position.positions),
            *(turn.agent, turn.who, recorded, now, differences),
            cause=cause,
            hints=hints,
            detail=detail,
        )

    def format_call(self, call: Call) -> str:
        """Return a call on one line."""
        return format_line(call, self.reader)

    def format_calls(self, recorded: Call, now: Call) -> tuple[str, str]:
        """Return two calls on one line each; where these would be the same, with the first place that differs."""
        lines = self.format_call(recorded), self.format_call(now)
        if lines[0] != lines[1] or not (different := self.compare(recorded, now)):
            return lines
        first = different[0]
        values = ["absent" if side is ABSENT else canonical(side) for side in (first.recorded, first.now)]
        return f"{self.name(recorded)}, {first.path}: {values[0]}", f"{self.name(now)}, {first.path}: {values[1]}"

    def _collect_contents(self, call: Call) -> set[str]:
        """Return the messages of a model call, as comparable texts."""
        if not self.is_model_call(call):
            return set()
        reading = self.reader.read_call(call)
        return {canonical(message) for message in (*reading.system, *reading.messages)}

    def find_tool(self, call: Call) -> ToolCall | None:
        """Return the call of a tool, or of another function that is no model, that a call is or asks for."""
        return function_of(call, self.reader)

    def is_frozen(self, message: Json) -> bool:
        """Return whether the tool whose result a message tells was recorded; in doubt, whether any was."""
        tools = [tool for x in self._top if (tool := self.find_tool(x.call)) is not None]
        called = _find_answered_use(message)
        by_name = (use for use in self._uses.values() if use.name == called)
        use = self._uses.get(called) or next(by_name, None)
        return bool(tools) if use is None else any(tool.name == use.name or ran_for(use, tool) for tool in tools)

    @cached_property
    def _uses(self) -> dict[str, ToolUse]:
        """The tool call that each id stands for, by the replies that minted them."""
        return {
            use.id or use.name: use
            for x in self._top
            if self.is_model_call(x.call)
            for use in self.reader.read_reply(x.call, x.outcome).tool_uses
        }


def explain_arguments(progress: ReplayProgress, target: Exchange, call: Call) -> str:
    """Who changed the arguments of a tool call, as far as the model's frozen reply tells."""
    was, now = progress.find_tool(target.call), progress.find_tool(call)
    if now is None:
        return ""
    uses = [use for use in progress.list_tool_uses(target) if use.name == now.name]
    requested = {canonical(arguments_of(use)) for use in uses}
    if was is not None and canonical(was.arguments) in requested:
        return (
            "the model asked for the recorded arguments, and its reply is the recorded one: "
            "your code between that reply and this call changes them"
        )
    if canonical(now.arguments) in requested:
        return "the model asked for exactly these arguments: when recorded, your code changed them on the way"
    return "all replies up to here are the recorded ones, so your code makes other arguments of them"


def format_line(call: Call, reader: Reader) -> str:
    """Return a call on one line: a tool with its arguments, a model with the last words that it is sent."""
    name = label(call, reader)
    if (tool := function_of(call, reader)) is not None:
        return f"{name} {canonical(tool.arguments)}" if tool.arguments else name
    messages = reader.read_call(call).messages
    words = " ".join(walk_strings(_get_content(messages[-1]))) if messages else ""
    return f"{name}, last message: {words}" if words else name


def _get_content(message: Json) -> Json:
    return message.get("content", message) if isinstance(message, dict) else message


def _find_answered_use(message: Json) -> str:
    """Return the id of the tool call whose result a message tells, or else the tool's name; "" when it says none."""
    if not isinstance(message, dict):
        return ""
    # As OpenAI Chat, Anthropic, OpenAI Responses, Bedrock and Ollama name the call that a message answers.
    for key in ("tool_call_id", "tool_use_id", "call_id", "toolUseId", "tool_name"):
        if isinstance(value := message.get(key), str):
            return value
    # Gemini and Bedrock put the result into a member of its own.
    for key in ("functionResponse", "toolResult"):
        if isinstance(content := message.get(key), dict):
            return _find_answered_use(content) or next(
                (str(content[name]) for name in ("id", "name") if content.get(name)), ""
            )
    blocks = message.get("content") or message.get("parts")
    return next(filter(None, map(_find_answered_use, blocks)), "") if isinstance(blocks, list) else ""


def _is_comparable(recorded: Call, now: Call) -> bool:
    """Return whether it is worth comparing them."""
    if isinstance(recorded, ToolCall) and isinstance(now, ToolCall):
        return (recorded.boundary, recorded.name) == (now.boundary, now.name)
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return False
    # A comparison reads both bodies, so calls that cannot be the very same are ruled out by their size.
    return _find_connection(recorded) == _find_connection(now) and len(recorded.body) == len(now.body)


def _find_connection(call: Call) -> tuple[int | None, ...]:
    """Over which connection a message goes, `(None,)` for one that is opened; empty for a request of its own."""
    return (call.connection,) if isinstance(call, FrameCall) else ()


def _split_host(url: str) -> tuple[str, str]:
    host, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    return host, path


class CachingReader:
    """Remembers what `reader` read, for as long as it lives itself; a `core.reading.Reader`."""

    def __init__(self, reader: Reader, *runs: Run) -> None:
        """Read all of `runs` at once: a reader that has just read a request reads its reply faster."""
        self._reader = reader
        # By identity, and the key's owner is kept beside the value, so that no other object can take its place.
        self._calls: dict[int, tuple[Call, CallReading]] = {}
        self._replies: dict[int, tuple[Call, Outcome | None, ReplyReading]] = {}
        for run in runs:
            for exchange in run.exchanges:
                self.read_call(exchange.call)
                if exchange.call.boundary != "tool":
                    self.read_reply(exchange.call, exchange.outcome)

    def read_call(self, call: Call) -> CallReading:
        """As the reader reads it."""
        if id(call) not in self._calls:
            self._calls[id(call)] = call, self._reader.read_call(call)
        return self._calls[id(call)][1]

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """As the reader reads it."""
        entry = self._replies.get(id(call))
        if entry is None or entry[1] is not outcome:
            entry = self._replies[id(call)] = call, outcome, self._reader.read_reply(call, outcome)
        return entry[2]

    def read_chunks(self, outcome: Outcome | None) -> tuple[Chunk, ...]:
        """As the reader reads them."""
        return self._reader.read_chunks(outcome)


_VERSION = re.compile(r"(?:api|v\d[\w.]*)?")  # parts of a path that many endpoints of a host have

WORD = 6  # characters from which on a changed word is looked up by itself
AROUND = 10  # characters on both sides that a shorter one is looked up with
DAY = timedelta(days=2)  # around that of the recording in which a date may come from a clock, whatever its zone
SENTENCE = 24  # characters of a prompt's text that are looked up: a word of it that a reply says too is no news


def find_text_to_seek(change: ContentChange) -> str:
    """Return the old text of the first difference, as far as it is worth looking for; "" when it is not."""
    if not change.differences:
        return ""
    recorded, now = change.differences[0].recorded, change.differences[0].now
    if not isinstance(recorded, str):
        return ""
    snippet = recorded[:200].strip()
    if isinstance(now, str):
        start, old, _ = texts.hunk(recorded, now)
        snippet = old.strip()
        if snippet and len(old) < WORD:
            snippet = recorded[max(0, start - AROUND) : start + len(old) + AROUND].strip()
    return snippet if len(snippet) >= (SENTENCE if change.kind is Kind.PROMPT else 4) else ""


def list_spoken_texts(exchange: Exchange, reader: Reader) -> Iterator[str]:
    """Yield all that an exchange gave back, as texts to search in."""
    if exchange.call.boundary != "tool":
        reading = reader.read_reply(exchange.call, exchange.outcome)
        yield reading.text
        yield from reading.ids
        for use in reading.tool_uses:
            yield use.arguments if isinstance(use.arguments, str) else json.dumps(use.arguments, ensure_ascii=False)
    if isinstance(exchange.outcome, ToolReply):
        for value in (exchange.outcome.value, *(exchange.outcome.items or ())):
            yield from walk_strings(value)
            yield json.dumps(value, ensure_ascii=False)
