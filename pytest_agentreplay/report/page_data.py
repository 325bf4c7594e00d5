"""A run as plain data: its turns with what each added, its calls with their times, its bodies to the byte.

This is what the pages of the viewer hold. Its size grows with what is new in each turn, not with what is sent again.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import Failure, FrameCall, FramesReply, HttpReply, ToolCall
from pytest_agentreplay.model.turns import is_model, label, outermost, tool_of, turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.changes import compare_values, plain_rows
from pytest_agentreplay.report.transcript import list_header_facts
from pytest_agentreplay.report.transcript_writer import (
    TranscriptWriter,
    format_end,
    format_frame,
    format_outcome,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Body, Exchange, Headers, Json, JsonObject, Run
    from pytest_agentreplay.model.turns import Turn
    from pytest_agentreplay.report.finding import Finding

LONGEST = 200_000
"""Characters of one text that a page holds twice, readable beside its bytes: a long one stands in the bytes alone."""


def describe_run(run: Run, costs: Mapping[int, float] | None = None) -> JsonObject:
    """Return a run as JSON; `costs` are those of its calls in dollars, by start, as far as they are known.

    "facts" are pairs of what the header says. "turns" have their number, lane, times in milliseconds, what the request
    "added" (pairs of label and text), the "answer", the "uses" of tools that it asks for, and the indexes of their
    "calls"; of a stream also when its "first" chunk had come, from the start of the call. "calls" have a label, times,
    rows of text for what went in and came back, their "cost", what went wrong as "error", and the index of the call
    that they are "inside" of. "raw" holds the bodies: base64 of a raw deflate stream of JSON (see `BodyTable`).
    """
    index = {x.start: number for number, x in enumerate(run.exchanges)}
    writer = TranscriptWriter(run)
    all_turns = turns(run, READER)
    lanes = list(dict.fromkeys(turn.lane for turn in all_turns))
    readings = {x.start: x.timing.start for x in run.exchanges}
    readings |= {x.finish: x.timing.end for x in run.exchanges if x.finish is not None and x.timing.end is not None}
    return {
        "test": run.header.test,
        "outcome": str(run.header.outcome.get("status") or ""),
        "recorded": run.header.recorded,
        "facts": [list(fact) for fact in list_header_facts(run)],
        "lanes": list(lanes),
        "turns": [_describe_turn(turn, writer, index, lanes.index(turn.lane)) for turn in all_turns],
        "calls": [_describe_call(x, index, costs or {}) for x in run.exchanges],
        "raw": BodyTable().pack(run, readings),
    }


def describe_finding(finding: Finding, run: Run) -> JsonObject:
    """Return a finding about `run` as JSON, with the index of its "turn" in `describe_run`, or None."""
    if "turn" not in finding.properties:
        return {**plain_finding(finding), "turn": None}
    number, lane = int(finding.properties["turn"]), finding.properties.get("lane", "")
    numbered = {at: turn.lane for at, turn in enumerate(turns(run, READER)) if turn.number == number}
    in_lane = [at for at, turn_lane in numbered.items() if turn_lane == lane]
    return {**plain_finding(finding), "turn": next(iter(in_lane or numbered), 0)}


def describe_pair(
    a: Run,
    b: Run,
    pairs: Iterable[tuple[Exchange | None, Exchange | None]],
    findings: Iterable[tuple[Divergence, Finding]],
    costs: Sequence[Mapping[int, float]] = ({}, {}),
) -> JsonObject:
    """Return two runs side by side as JSON; `costs` are those of `describe_run`, of each side.

    "runs" are the two, "pairs" the indexes of their turns, "changes" what differs in each pair (see `_compare_parts`),
    and "findings" are about pairs.
    """
    sides = turns(a, READER), turns(b, READER)
    turn_of = [{x.start: at for at, turn in enumerate(side) for x in turn.exchanges} for side in sides]
    rows: list[tuple[int | None, int | None]] = []
    for pair in pairs:
        # A turn stands where its model call does; turn 0, which has none, where its first call does.
        row = [_find_opened_turn(x, sides[side], turn_of[side]) for side, x in enumerate(pair)]
        if row != [None, None]:
            rows.append((row[0], row[1]))
    for side, turns_of_side in enumerate(sides):
        paired = {row[side] for row in rows}
        rows += [(at, None) if side == 0 else (None, at) for at in range(len(turns_of_side)) if at not in paired]
    descriptions: list[Json] = []
    for divergence, finding in findings:
        at = None if divergence.recorded is None else turn_of[0].get(outermost(a, divergence.recorded).start)
        if at is None:
            now = ((number, turn) for number, turn in enumerate(sides[1]) if turn.lane == divergence.lane)
            calls = {number for number, turn in now if any(x.call is divergence.now for x in turn.exchanges)}
            pair_at = next((number for number, row in enumerate(rows) if row[1] in calls), len(rows) - 1)
        else:
            pair_at = next(number for number, row in enumerate(rows) if row[0] == at)
        descriptions.append({**plain_finding(finding), "pair": pair_at})
    runs = describe_run(a, costs[0]), describe_run(b, costs[1])
    changes: list[Json] = [
        {} if x is None or y is None else _compare_parts(_list_parts(runs[0], x), _list_parts(runs[1], y))
        for x, y in rows
    ]
    return {
        "kind": "pair",
        "runs": list(runs),
        "pairs": [list(row) for row in rows],
        "changes": changes,
        "findings": descriptions,
    }


def _compare_parts(recorded: dict[str, str], now: dict[str, str]) -> JsonObject:
    """Return the parts in which two turns differ: the rows of the difference, or null where one has no such part.

    Parts of one name stand beside each other in their order; of the calls, those at the same place.
    """
    return {
        key: plain_rows(compare_values(recorded[key], now[key])) if key in recorded and key in now else None
        for key in recorded | now
        if recorded.get(key) != now.get(key)
    }


def _list_parts(run: Any, at: int) -> dict[str, str]:
    """Return the texts of a turn as the page shows them, by keys that say what a text is and which one of its kind."""
    turn = run["turns"][at]
    names: Counter[str] = Counter()
    parts = {name: turn[name] for name in ("model", "answer", "problem") if turn.get(name)}
    for name, text in turn.get("added", ()):
        parts[f"added {name} {names[name]}"] = text
        names[name] += 1
    for number, (name, text) in enumerate(turn.get("uses", ())):
        parts |= {f"name of use {number}": name, f"use {number}": text}
    for number, at_call in enumerate(call for call in turn["calls"] if call != turn.get("call")):
        call = run["calls"][at_call]
        parts |= {f"{what} {number}": call[what] for what in ("label", "input", "output") if call.get(what)}
    return parts


def _find_opened_turn(x: Exchange | None, all_turns: tuple[Turn, ...], turn_of: dict[int, int]) -> int | None:
    """Return the index of the turn that begins with `x`; None for any other call."""
    if x is None:
        return None
    at = turn_of[x.start]
    return at if (all_turns[at].model or all_turns[at].exchanges[0]).start == x.start else None


def plain_finding(finding: Finding) -> JsonObject:
    """Return what a page shows of a finding."""
    plain = finding.plain()
    return {name: plain[name] for name in ("test", "code", "headline", "lines")}


def _describe_turn(turn: Turn, writer: TranscriptWriter, index: dict[int, int], lane: int) -> JsonObject:
    starts = [x.timing.start for x in turn.exchanges]
    ends = [x.timing.end or x.timing.start for x in turn.exchanges]
    described: JsonObject = {
        "n": turn.number,
        "lane": lane,
        "title": turn.title,
        "start": _format_ms(min(starts)),
        "end": _format_ms(max(ends)),
        "calls": [index[x.start] for x in turn.exchanges],
    }
    if turn.agent:
        described["agent"] = turn.agent
    if (x := turn.model) is None:
        return described
    reading = READER.read_call(x.call)
    added, reply = writer.read_model(x, reading, writer.find_context(turn, x, reading))
    finding = [*format_outcome(x.outcome, reply.error)] if reply.error or not _is_plain(x) else []
    if x.timing.first is not None and isinstance(x.outcome, HttpReply) and len(x.outcome.cuts) > 1:
        described["first"] = _format_ms(x.timing.first - x.timing.start)
    return described | {
        "model": reading.name,
        "call": index[x.start],
        "added": [[name, _shorten(text)] for name, text in added],
        "answer": _shorten(reply.text),
        "uses": [[use.name, _shorten(format_value(use.arguments))] for use in reply.tool_uses],
        "stops": ", ".join(reply.finish_reasons),
        "tokens": dict(reply.usage),
        "problem": "\n".join(finding),
    }


def _is_plain(x: Exchange) -> bool:
    """Return whether a model call came back whole, so that its answer says it all."""
    match x.outcome:
        case HttpReply(status=status, failure=None, closed=False):
            return status < 400
        case FramesReply(failure=None):
            return True
        case None:
            return False
        case outcome:
            return getattr(outcome, "failure", outcome) is None


def _find_error(x: Exchange) -> str:
    """Return what went wrong in a call: a status, or the name of an exception; "" where nothing did."""
    if isinstance(x.outcome, HttpReply) and x.outcome.status >= 400:
        return f"{x.outcome.status} {x.outcome.reason}".rstrip()
    failure = x.outcome if isinstance(x.outcome, Failure) else getattr(x.outcome, "failure", None)
    return failure.type.rpartition(".")[2] if isinstance(failure, Failure) and not failure.cancelled else ""


def _describe_call(x: Exchange, index: dict[int, int], costs: Mapping[int, float]) -> JsonObject:
    tool = tool_of(x.call, READER)
    model = is_model(x.call, READER)
    described: JsonObject = {
        "kind": "model" if model else "tool" if tool is not None else "other",
        "label": tool.name if tool is not None else label(x.call, READER).removeprefix("model "),
        "lane": x.lane,
        "start": _format_ms(x.timing.start),
        "first": None if x.timing.first is None else _format_ms(x.timing.first),
        "end": None if x.timing.end is None else _format_ms(x.timing.end),
        "attempt": x.attempt,
        "inside": None if x.parent is None else index.get(x.parent),
    }
    if x.start in costs:
        described["cost"] = costs[x.start]
    if error := _find_error(x):
        described["error"] = error
    if model and x.parent is None:
        return described
    if tool is not None:
        described["input"] = _shorten(format_value(tool.arguments))
    elif isinstance(x.call, ToolCall):
        described["input"] = _shorten(format_value(x.call.arguments))
    if isinstance(x.call, FrameCall) and len(x.call.body):
        described["input"] = _shorten(x.call.body.data.decode("utf-8", "replace"))
    output = x.outcome
    if isinstance(output, HttpReply):
        text = READER.read_reply(x.call, output).text or output.body.data.decode("utf-8", "replace")
        rows = [*format_outcome(output), *([text] if text else [])]
    elif isinstance(output, FramesReply):
        rows = [format_frame(frame) for frame in output.frames()]
    else:
        rows = [*format_outcome(output)]
    return described | {"output": _shorten("\n".join(rows))}


def _format_ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 1)


def _shorten(text: str) -> str:
    left = len(text) - LONGEST
    return text if left <= 0 else f"{text[:LONGEST]}\n... {left:,} more characters: see the bytes"


class BodyTable:
    """The bytes of all calls of a run, each text once.

    A body is a list of pieces: a text, or `[first, last, separator]`, a range of the "texts", joined by it. Bytes that
    are no UTF-8 are `{"base64": text}`.
    """

    def __init__(self) -> None:
        """Begin without texts."""
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def pack(self, run: Run, readings: dict[int, int]) -> str:
        """Return "texts" and, by the index of the call, "sent" and "came" as base64 of a deflate stream.

        `readings` are times in nanoseconds by the readings of the run's counter.
        """
        sides: list[Json] = [[self._describe_sent(x), self._describe_came(x, readings)] for x in run.exchanges]
        data = json.dumps({"texts": self.texts, "calls": sides}, separators=(",", ":")).encode()
        packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        return base64.b64encode(packer.compress(data) + packer.flush()).decode()

    def _describe_sent(self, x: Exchange) -> Json:
        if isinstance(x.call, ToolCall):
            return {"head": f"{x.call.boundary} {x.call.name}", "body": [format_value(x.call.tree)]}
        return {
            "head": _format_head(f"{x.call.method} {x.call.url}", x.call.headers),
            "body": self._list_pieces(x.call.body),
        }

    def _describe_came(self, x: Exchange, readings: dict[int, int]) -> Json:
        described: JsonObject
        reply = x.outcome
        if isinstance(reply, FramesReply):
            # Each message is followed by a newline, as the file keeps them.
            head = _format_head("\n".join(format_end(reply)), reply.headers).strip()
            described = {"head": head, "body": self._list_pieces(reply.body)}
            return described | {"cuts": [*reply.sizes], "times": [None for _ in reply.sizes], "unit": "message"}
        if not isinstance(reply, HttpReply):
            return {"head": "", "body": ["\n".join(format_outcome(reply))]}
        head = _format_head(f"{reply.version} {reply.status} {reply.reason}".strip(), reply.headers)
        described = {"head": head, "body": self._list_pieces(reply.body)}
        if len(reply.cuts) > 1:
            described["cuts"] = list(reply.cuts)
            described["times"] = list(_list_chunk_times(x, len(reply.cuts), readings))
            described["unit"] = "chunk"
        return described

    def _list_pieces(self, body: Body) -> Json:
        if body.shared is None:
            try:
                return [body.data.decode()]
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(body.data).decode()}
        pieces: list[Json] = []
        for piece in body.shared.pieces():
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            places = [self._places.get(text, -1) for text in piece.texts]
            for at, place in enumerate(places):
                if place < 0:
                    places[at] = self._add(piece.texts[at])
            for number, (first, last) in enumerate(_list_ranges(places)):
                pieces += [*([piece.separator] if number else []), [first, last, piece.separator]]
        return pieces

    def _add(self, text: str) -> int:
        place = self._places.setdefault(text, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place


def _format_head(line: str, headers: Headers) -> str:
    return "\n".join([line, *(f"{name}: {value}" for name, value in headers)])


def _list_ranges(places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of numbers that follow one another."""
    begin = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] != places[at - 1] + 1:
            yield places[begin], places[at - 1]
            begin = at


def _list_chunk_times(x: Exchange, chunks: int, readings: dict[int, int]) -> Iterator[float | None]:
    """Yield until when each chunk had come, in milliseconds; None where nothing else happened that tells it.

    The time of the first byte and of the end are recorded. `parts` tell how many chunks had come when something else
    happened, by a reading of the run's counter.
    """
    times = {count: readings[reading] for reading, count in reversed(x.parts) if reading in readings}
    times |= {1: x.timing.first or 0} if x.timing.first is not None else {}
    times |= {chunks: x.timing.end} if x.timing.end is not None else {}
    for number in range(1, chunks + 1):
        yield _format_ms(times[number]) if number in times else None
