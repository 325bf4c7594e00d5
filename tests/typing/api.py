"""Type-checked, never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type
from unittest.mock import ANY

import pytest_agentreplay
from pytest_agentreplay import (
    AgentReplayError,
    Codec,
    Difference,
    Divergence,
    Exchange,
    Failure,
    Frame,
    FrameCall,
    FramesReply,
    HttpCall,
    HttpReply,
    Kind,
    ReplayDiverged,
    Run,
    RunView,
    Snapshot,
    SnapshotError,
    ToolCall,
    ToolReply,
    assert_same_run,
    first_divergence,
    load,
)

if TYPE_CHECKING:
    from decimal import Decimal
    from pathlib import Path


def a_test_reads_its_run(run: RunView) -> None:
    """What `agentreplay.run` gives."""
    assert_type(run.final_text, str)
    assert_type(run.usage, dict[str, int])
    assert_type(len(run), int)
    assert_type(run.run, Run)
    for turn in run.turns:
        assert_type(turn.number, int)
        assert_type(turn.text, str)
        for use in turn.tool_uses:
            assert_type(use.name, str)
    for call in run.tool_calls:
        assert_type(call.arguments, dict[str, object])
        assert_type(call.turn, int)


def a_test_asserts(run: RunView) -> None:
    """The vocabulary of assertions."""
    run.assert_tool_calls(["lookup_order", ("refund", {"order_id": 7, "reason": ANY})])
    run.assert_tool_calls(["refund"], order="subsequence")
    run.assert_tool_calls((), order="multiset")
    run.assert_turn(2, tool="refund")
    run.assert_turn(-1, tool=("refund", {"order_id": 7}), text_contains="refunded", lane="main.1")
    run.assert_turn(1, jsonpath="$.messages[0].content", equals="hi")
    run.assert_turn(1, jsonpath="$.tools", equals=None)
    run.assert_tool_calls(["refund"], order="any")  # type: ignore[arg-type]
    run.assert_tool_calls([7])  # type: ignore[list-item]


def a_test_compares(a: Run, b: RunView, c: Snapshot) -> None:
    """Runs, views and snapshots compare with each other."""
    divergence = first_divergence(a, b)
    assert_type(divergence, Divergence | None)
    if divergence is not None:
        assert_type(divergence.kind, Kind)
        assert_type(divergence.differences, tuple[Difference, ...])
    assert_same_run(b, c)
    first_divergence("a run", b)  # type: ignore[arg-type]


def a_file_holds_a_run(path: Path) -> Run:
    """A snapshot by its path."""
    assert_type(load(path), Snapshot)
    return load("a.snapshot.json").run


def a_run_is_data(exchange: Exchange) -> str:
    """The nouns are closed unions."""
    match exchange.call:
        case HttpCall(method):
            return method
        case ToolCall(name):
            return name
        case FrameCall(url):
            return url


def an_outcome_is_one_of_four(exchange: Exchange) -> None:
    """So is what came back."""
    match exchange.outcome:
        case HttpReply(status):
            assert_type(status, int)
        case FramesReply():
            assert_type([*exchange.outcome.frames()], list[Frame])
        case ToolReply() | Failure() | None:
            pass


def errors_are_a_family(error: SnapshotError) -> AgentReplayError:
    """A snapshot error knows its file."""
    assert_type(error.file, str)
    return error


def the_brake_is_no_exception(signal: ReplayDiverged) -> BaseException:
    """`except Exception` does not see it."""
    wrong: Exception = signal  # type: ignore[assignment]
    return wrong


def a_codec(kind: type[Decimal]) -> Codec:
    """How values of a class are frozen."""
    return Codec(kind, str, kind)


assert_type(pytest_agentreplay.__version__, str)
