"""The rows of a log as the runs that they belong to: by the run that a row names, else by what was said before.

A log tells of no root: no name, no status, no own input or output. What each run was asked and answered is taken from
its first and its last call.

A conversation that somebody kept without its requests is the calls that it amounts to. What the assistant said between
two turns of others was one reply; what stood before it was asked. Nothing else of a call is known: no instructions,
tools or parameters where the source has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import arr, objects, parse_text, string
from pytest_agentreplay.providers.messages import add_message, join_neighbours
from pytest_agentreplay.redaction.secret_names import looks_secret
from pytest_agentreplay.traces.assembling import conversations, whole
from pytest_agentreplay.traces.chains import links
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.trace import ModelCall, Source, ToolRun, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Step

LOOKED_AT = 50
"""The rows by which a log is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row of a log: its step, and what it says of the run around it. `run` is the run that it names, "" none."""

    step: Step
    run: str = ""
    name: str = ""
    user: str = ""
    session: str = ""
    tenant: str = ""
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)


def rows_of_calls(
    name: str,
    title: str,
    rank: float,
    fits: Callable[[JsonObject], object],
    read: Callable[[JsonObject], LogRow | None],
    *losses: str,
    refusal: str,
    left_out: str,
    rows: Callable[[Opened], list[JsonObject]] | None = None,
) -> Format:
    """The format of a log with a model call in each row; `read` makes it, or None of a row that holds none.

    `refusal` says what to do where no row holds one, `left_out` why some rows are not read.
    """
    rows = rows or objects_of

    def traces_of(opened: Opened) -> list[Trace]:
        every = rows(opened)
        calls = [row for row in map(read, every) if row is not None]
        if not calls:
            raise TraceIncomplete(refusal, file=opened.file)
        left = len(every) - len(calls) + opened.junk
        steps = [row.step for row in calls if isinstance(row.step, ModelCall)]
        worded = any(step.request is None or (step.reply and step.response is None) for step in steps)
        source = Source(format=name, file=opened.file, fidelity="semantic" if worded else "body-json")
        return traces(calls, source, *losses, *([f"{left} {left_out}"] if left else []))

    return Format(name, title, rank, holds_row(fits, rows), traces_of)


def holds_row(
    fits: Callable[[JsonObject], object], rows: Callable[[Opened], list[JsonObject]] | None = None
) -> Callable[[Opened], bool]:
    """Return a check of whether one of the first `rows` of a file, its objects, fits."""
    return lambda opened: any(map(fits, (rows or objects_of)(opened)[:LOOKED_AT]))


def objects_of(opened: Opened) -> list[JsonObject]:
    """The objects of a file."""
    return objects([*opened.rows])


def traces(
    rows: Iterable[LogRow], source: Source, *losses: str, together: bool = False, missing: Iterable[str] = ()
) -> list[Trace]:
    """The runs in `rows`, in the order in which they begin. With `together` the file is one run, whatever it holds."""
    ordered = timely(rows)
    runs = [ordered] if together else _split(ordered)
    return [_trace(run, source, losses, tuple(missing)) for run in runs if run]


def timely(rows: Iterable[LogRow]) -> list[LogRow]:
    """The rows by the time at which their calls began where each has one, else as they stand."""
    listed = list(rows)
    began = [row.step.started for row in listed]
    if any(moment is None for moment in began):
        return listed
    # Many logs count whole seconds: of two calls in one, the one with less history came first.
    return sorted(listed, key=lambda row: (row.step.started or 0, len(getattr(row.step, "messages", ()))))


def _split(rows: Sequence[LogRow]) -> list[list[LogRow]]:
    """The rows by run. A tool that ran without naming one belongs to the model call before it."""
    place: dict[int, object] = {}
    calls = [row.step for row in rows if not row.run and isinstance(row.step, ModelCall)]
    for number, run in enumerate(conversations(calls)):
        place.update({id(call): number for call in run})
    runs: dict[object, list[LogRow]] = {}
    last: object = 0
    for row in rows:
        last = row.run or place.get(id(row.step), last)
        runs.setdefault(last, []).append(row)
    return list(runs.values())


def _trace(rows: Sequence[LogRow], source: Source, losses: tuple[str, ...], missing: tuple[str, ...]) -> Trace:
    steps = tuple(row.step for row in rows)
    ends = [moment for step in steps if (moment := step.ended or step.started) is not None]
    first = next((step for step in steps if isinstance(step, ModelCall)), None)
    run_id = rows[0].run or (first.id or first.response_id if first else "")
    names = ("name", "user", "session", "tenant")
    subject: dict[str, Any] = {name: next(filter(None, (getattr(row, name) for row in rows)), "") for name in names}
    return whole(
        Trace(
            source=replace(source, id=source.id or run_id),
            id=run_id,
            started=steps[0].started,
            ended=max(ends, default=None),
            tags=tuple(dict.fromkeys(tag for row in rows for tag in row.tags)),
            metadata={
                name: value for row in reversed(rows) for name, value in row.metadata.items() if not looks_secret(name)
            },
            steps=steps,
            losses=losses,
            missing=(*missing, *_gaps(steps)),
            **subject,
        )
    )


def _gaps(steps: Iterable[Step]) -> Iterable[str]:
    """The calls that a log left out: a later request tells that they asked for tools."""
    calls = [step for step in steps if isinstance(step, ModelCall)]
    for number, link in enumerate(links(calls), 1):
        if link is not None and not link.rewritten and any(part.get("type") == "tool_call" for part in link.added):
            yield f"a call of the model before model call {number}, which tells of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMessage:
    """One message in the form of `providers.messages`. Those with one `reply` id are pieces of the same reply.

    `facts` are fields of the `ModelCall` that the message is a reply of.
    """

    message: JsonObject
    reply: str = ""
    facts: JsonObject = field(default_factory=dict)

    @property
    def by_model(self) -> bool:
        """Whether the model said it."""
        return self.message["role"] == "assistant"


def steps_of(messages: Iterable[LoggedMessage], **facts: object) -> list[Step]:
    """The calls of a conversation in order; `facts` are fields of each.

    Results of tools are told by the call that follows them; the last ones, which none follows, are steps_of.
    """
    before: list[JsonObject] = []
    steps: list[Step] = []
    names: dict[str, str] = {}
    turn: list[LoggedMessage] = []
    for turn in _turns(messages):
        first = turn[0]
        if not first.by_model:
            for message in turn:
                add_message(before, message.message)
            continue
        reply = join_neighbours(message.message for message in turn)
        turn_facts = {name: value for message in turn for name, value in message.facts.items()}
        if reply:
            steps.append(ModelCall(messages=tuple(before), reply=reply[0], **{**facts, **turn_facts}))  # type: ignore[arg-type]
            add_message(before, reply[0])
            names |= {string(part.get("id")): string(part.get("name")) for part in objects(reply[0]["parts"])}
    if turn and not turn[0].by_model:
        steps += _results(turn, names)
    return steps


def _results(turn: list[LoggedMessage], names: dict[str, str]) -> list[ToolRun]:
    parts = [part for message in turn for part in objects(message.message["parts"])]
    return [
        ToolRun(name=names[call_id], call_id=call_id, seen=parse_text(part.get("response")))
        for part in parts
        if part.get("type") == "tool_call_response" and (call_id := string(part.get("id"))) in names
    ]


def _turns(messages: Iterable[LoggedMessage]) -> list[list[LoggedMessage]]:
    """Neighbours by the model, or by others, together; replies of two ids apart."""
    turns: list[list[LoggedMessage]] = []
    for message in messages:
        if not arr(message.message.get("parts")):
            continue
        last = turns[-1][-1] if turns else None
        if (
            last is None
            or last.by_model != message.by_model
            or (message.reply and last.reply and message.reply != last.reply)
        ):
            turns.append([])
        turns[-1].append(message)
    return turns
