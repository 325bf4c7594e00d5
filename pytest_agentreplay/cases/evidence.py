"""What a run shows of itself: status, final output, tool calls, errors, seconds.

An imported run says the first two in its kit, under "case". Of our own recordings the test's end tells the status,
unless it was an assertion, which is the test's and not the agent's; the output is the last text of lane "main".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.cases import turn
from pytest_agentreplay.cases.turn import ToolCallView, parsed_arguments
from pytest_agentreplay.model.exchanges import Failure, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.lenient import objects
from pytest_agentreplay.providers.messages import normalize_conversation
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.cases.turn import TurnView
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Exchange, Header, Json, JsonObject, Run

ASSERTIONS = ("AssertionError", "Failed")
"""How a test says that it wanted something else; pytest's own `fail` raises the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvidence:
    """What there is to judge: the frozen run itself, or what today's agent did.

    `errors` are (class, text) of what went wrong; a runner that raised is there, and its status is "error". `run` are
    the exchanges, None where a runner of another process told only results. `divergence` is where today's run left the
    frozen one, None where it did not. `served` is the policy as `ServingPolicy.text`, "" for the frozen run. `input` is
    what the agent was given. `recorded` are tool calls of the frozen run, where this is of another. `unknown` names the
    fields that nobody told ("output", "tool_calls"): what they hold says nothing. `escapes` tell what went past the
    frozen world, or tried to, a line each: no expectation of a case covers that. `network` is how closed it was to an
    agent of this process ("L1", "L3"), `unheard` the libraries in C that it has loaded by hand, with its lines.
    `live` is what a live model took (`runs.replay_kit`), and "stopped": why the run proves nothing; empty for no such.
    """

    status: Literal["ok", "error"] = "ok"
    output: Json = None
    run: Run | None = None
    tool_calls: tuple[ToolCallView, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    seconds: float | None = None
    divergence: Divergence | None = None
    served: str = ""
    input: Json = None
    recorded: tuple[ToolCallView, ...] = ()
    unknown: frozenset[str] = frozenset()
    escapes: tuple[str, ...] = ()
    network: str = ""
    unheard: Mapping[str, str] = field(default_factory=dict)
    live: Mapping[str, Any] = field(default_factory=dict)


def frozen(run: Run, *, with_requested: bool = True) -> CaseEvidence:
    """Return what a recorded run shows; `with_requested` counts what the model asked for where no tool was called."""
    turns = turn.read_turns(run, READER)
    statement = read_statement(run)
    return CaseEvidence(
        status=status(run, turns),
        output=statement["output"] if "output" in statement else last_text(turns),
        run=run,
        tool_calls=tool_calls(turns, with_requested=with_requested),
        errors=errors(run),
        seconds=seconds(run),
        input=statement.get("input"),
    )


def read_statement(run: Run) -> JsonObject:
    """Return what is said of a run as a whole: by the source of an imported one, by the service of a captured one."""
    kit = run.header.kit
    captured = {name: kit[name] for name in ("input", "output") if "capture" in kit and name in kit}
    return captured | table(kit, "case")


def status(run: Run, turns: Sequence[TurnView]) -> Literal["ok", "error"]:
    """Return how the run ended: as its source says, as its test does, else as its last model call did."""
    if (stated_status := read_statement(run).get("status")) in ("ok", "error"):
        return "error" if stated_status == "error" else "ok"
    end = run.header.outcome
    if end.get("status") in ("passed", "failed"):
        return "ok" if end["status"] == "passed" or is_asserted(run.header) else "error"
    mine = [it.exchange for it in turns if it.lane == "main" and it.exchange is not None]
    return "error" if mine and next(find_errors(mine[-1]), None) is not None else "ok"


def is_asserted(header: Header) -> bool:
    """Return whether a run failed by what a test, or a service that raised nothing, thought of it."""
    kind = str(header.outcome.get("type", "")).rpartition(".")[2]
    return kind == "failed" if "capture" in header.kit else kind in ASSERTIONS


def last_text(turns: Iterable[TurnView]) -> Json:
    """The text of the last reply in lane main, None where that reply has none or asks for tools: it is not the end."""
    last = next((it for it in reversed([*turns]) if it.lane == "main" and it.exchange is not None), None)
    return last.text or None if last is not None and not last.tool_uses else None


def tool_calls(turns: Sequence[TurnView], *, with_requested: bool = True) -> tuple[ToolCallView, ...]:
    """The calls that were made. Where no boundary stood at any tool: those that the model asked for, as it was told."""
    made = tuple(call for it in turns for call in it.tool_calls)
    return made or (tuple(_asked_for(turns)) if with_requested else ())


def meets_tools(run: Run) -> bool:
    """Whether a boundary stood at the tools of a run: an agent that is asked for one there and calls none refuses."""
    return any(it.tool_calls for it in turn.read_turns(run, READER))


def _asked_for(turns: Sequence[TurnView]) -> Iterator[ToolCallView]:
    answers = {
        str(part.get("id", "")): part
        for it in turns
        if it.request is not None
        for message in normalize_conversation(it.request)
        for part in objects(message.get("parts"))
        if part.get("type") == "tool_call_response"
    }
    for it in turns:
        for use in it.tool_uses:
            answer = answers.get(use.id, {})
            yield ToolCallView(
                use.name,
                parsed_arguments(use.arguments),
                answer.get("response"),
                failed=answer.get("is_error") is True,
                turn=it.number,
                lane=it.lane,
            )


def errors(run: Run) -> tuple[tuple[str, str], ...]:
    """(class, text) of all that went wrong, in order; what ended the run comes last."""
    all_errors = [error for x in run.exchanges if x.parent is None for error in find_errors(x)]
    faults = objects(read_statement(run).get("faults"))
    all_errors += [(str(fault.get("type", "")), str(fault.get("message", ""))) for fault in faults]
    end = run.header.outcome
    if end.get("status") == "failed" and not is_asserted(run.header):
        all_errors.append((str(end.get("type", "")), str(end.get("message", ""))))
    return tuple(dict.fromkeys(all_errors))


def find_errors(x: Exchange) -> Iterator[tuple[str, str]]:
    """Yield what went wrong at one exchange: an exception, or a status of HTTP that is an error."""
    match x.outcome:
        case Failure() as failure:
            yield failure.type, failure.message
        case ToolReply(failure=Failure() as failure):
            yield failure.type, failure.message
        case HttpReply() as reply if not isinstance(x.call, ToolCall):
            if reply.status >= 400:
                message = READER.read_reply(x.call, reply).error or reply.body.data[:200].decode(errors="replace")
                yield f"HTTP {reply.status}", message or reply.reason
            if reply.failure is not None:
                yield reply.failure.type, reply.failure.message


def seconds(run: Run) -> float | None:
    """From the first call to the last answer; None where the recording tells no times."""
    ends = [x.timing.end for x in run.exchanges if x.timing.end]
    return (max(ends) - min(x.timing.start for x in run.exchanges)) / 1e9 if ends else None
