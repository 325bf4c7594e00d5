"""A trace of another tool as a run of ours: same exchanges, same order, nothing made up."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.core.model import Body, Failure, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.core.turns import turns
from pytest_agentreplay.dialects import READER, genai
from pytest_agentreplay.interchange.to_run import frozen_run
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault

SECOND = 1_000_000_000
BEGAN = 1_790_000_000 * SECOND


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def asks(*calls):
    parts = [{"type": "tool_call", "id": known, "name": name, "arguments": args} for known, name, args in calls]
    return {"role": "assistant", "parts": parts, "finish_reason": "tool_calls"}


def answers(*results):
    parts = [{"type": "tool_call_response", "id": known, "response": result} for known, result in results]
    return {"role": "tool", "parts": parts}


def unended(message):
    """A message without what only replies have."""
    return {"role": message["role"], "parts": message["parts"]}


QUESTION = text("user", "I want my money back for A-1001.")
LOOKUP = asks(("c-1", "lookup_order", {"order_id": "A-1001"}))
ORDER = {"order_id": "A-1001", "total_cents": 4599}
REFUND = asks(("c-2", "issue_refund", {"order_id": "A-1001", "amount_cents": 45990}))
FINAL = text("assistant", "Done! I have refunded $459.90.") | {"finish_reason": "stop"}
ASKED = (QUESTION, LOOKUP, answers(("c-1", ORDER)), REFUND, answers(("c-2", "RefundError: too much")))


def at(second, length=1.0):
    return {"started": BEGAN + int(second * SECOND), "ended": BEGAN + int((second + length) * SECOND)}


def said(reply, upto, when, **more):
    return ModelCall(
        provider="openai",
        dialect="openai_chat",
        model="gpt-4o-mini",
        parameters={"temperature": 0.2},
        messages=ASKED[:upto],
        reply=reply,
        response_model="gpt-4o-mini-2024-07-18",
        usage={"prompt_tokens": 120, "completion_tokens": 21},
        **when,
        **more,
    )


def traced(*steps, **more):
    more = {
        "input": "I want my money back for A-1001.",
        "output": "Done! I have refunded $459.90.",
        "status": "ok",
    } | more
    return Trace(
        source=Source(format="langsmith-runs", id="r-1"),
        id="r-1",
        name="refund-agent",
        started=BEGAN,
        steps=steps,
        **more,
    )


FAILED = TraceFault("RefundError", "amount 45990 exceeds order total 4599 for A-1001", "Traceback ...")
STEPS = (
    said(LOOKUP, 1, at(0)),
    ToolRun(name="lookup_order", call_id="c-1", arguments={"order_id": "A-1001"}, seen=ORDER, result=ORDER, **at(1)),
    said(REFUND, 3, at(2)),
    ToolRun(
        name="issue_refund",
        call_id="c-2",
        arguments='{"order_id": "A-1001", "amount_cents": 45990}',
        seen="RefundError: too much",
        fault=FAILED,
        **at(3),
    ),
    said(FINAL, 5, at(4)),
)


def stored(trace):
    """The run as it comes back from a file."""
    return codec.loads(codec.dumps(frozen_run(trace, test="cases/refund/case.yaml::observed")), file="run").run


def test_a_trace_comes_back_from_a_snapshot_with_its_turns_tools_and_facts():
    run = stored(traced(*STEPS, user="u-7", session="conv-42", losses=("no headers",)))

    told = turns(run, READER)
    assert [turn.number for turn in told] == [1, 2, 3]
    assert [[x.call.name for x in turn.exchanges[1:]] for turn in told] == [["lookup_order"], ["issue_refund"], []]
    replies = [READER.read_reply(turn.model.call, turn.model.outcome) for turn in told]
    assert replies[-1].text == "Done! I have refunded $459.90."
    assert replies[0].tool_uses[0].id == "c-1"
    assert replies[0].model == "gpt-4o-mini-2024-07-18"
    assert genai.conversation(READER.read_call(told[2].model.call)) == tuple(unended(message) for message in ASKED)
    assert READER.read_call(told[0].model.call).parameters == {"temperature": 0.2}
    lookup, refund = (x for x in run.exchanges if isinstance(x.call, ToolCall))
    assert (lookup.call.arguments, lookup.outcome) == ({"order_id": "A-1001"}, ToolReply(ORDER))
    assert refund.call.arguments == {"order_id": "A-1001", "amount_cents": 45990}
    assert refund.outcome == Failure("RefundError", FAILED.message, (FAILED.message,))
    case = run.header.kit["case"]
    assert case["input"] == "I want my money back for A-1001."
    assert case["output"] == "Done! I have refunded $459.90."
    assert (case["status"], case["user"], case["losses"]) == ("ok", "u-7", ["no headers"])
    assert "missing" not in case
    assert run.header.outcome == {"status": "passed"}
    assert run.header.clock == BEGAN


def test_bytes_that_the_trace_has_are_taken_as_they_are():
    request = HttpCall(
        "POST", "https://api.openai.com/v1/chat/completions", body=Body(b'{"model":"m",  "messages":[]}')
    )
    response = HttpReply(429, headers=(("retry-after", "1"),), body=Body(b'{"price": 12.5, "cur'), cuts=(20,))
    run = stored(traced(said(None, 1, at(0), request=request, response=response, status=429)))

    assert run.exchanges[0].call == request
    assert run.exchanges[0].outcome == response


def test_what_overlapped_overlaps_and_what_came_after_comes_after():
    both = asks(("c-1", "lookup_order", {"order_id": "A-1"}), ("c-2", "lookup_order", {"order_id": "A-2"}))
    run = stored(
        traced(
            said(both, 1, at(0)),
            ToolRun(name="lookup_order", call_id="c-1", arguments={"order_id": "A-1"}, seen="one", **at(1, 3)),
            ToolRun(name="lookup_order", call_id="c-2", arguments={"order_id": "A-2"}, seen="two", **at(2, 1)),
            said(FINAL, 1, at(4)),
        )
    )
    asked, first, second, last = run.exchanges

    assert asked.finish < first.start < second.start < second.finish < first.finish < last.start
    assert (asked.lane, last.lane) == ("main", "main")
    assert len({first.lane, second.lane}) == 2
    assert len(turns(run, READER)) == 2


def test_no_clock_makes_a_tool_run_before_it_was_asked_for():
    """Two machines, whose clocks are a second apart; and one source that has no times at all."""
    skewed = (STEPS[0], ToolRun(name="lookup_order", call_id="c-1", seen=ORDER, **at(0.2, 0.1)), STEPS[2])
    timeless = tuple(
        type(step)(**{n: getattr(step, n) for n in step.__slots__} | {"started": None, "ended": None}) for step in STEPS
    )

    for steps in (skewed, timeless):
        found = stored(traced(*steps)).exchanges
        assert all(a.finish < b.start for a, b in pairwise(found))
        assert [type(x.call).__name__ for x in found[:3]] == ["HttpCall", "ToolCall", "HttpCall"]


def test_what_happened_inside_a_tool_stands_inside_it():
    run = stored(
        traced(
            said(LOOKUP, 1, at(0)),
            ToolRun(name="lookup_order", call_id="c-1", seen="ok", id="t", **at(1, 5)),
            said(FINAL, 1, at(2), parent="t", agent="researcher"),
            said(FINAL, 3, at(7)),
        )
    )

    assert run.exchanges[2].parent == run.exchanges[1].start
    assert run.exchanges[2].agent == "researcher"
    assert len(turns(run, READER)) == 2


@pytest.mark.parametrize(
    ("steps", "more", "missing"),
    [
        ((said(None, 1, at(0)),), {}, ["reply of model call 1"]),
        ((STEPS[0], ToolRun(name="lookup_order", call_id="c-1", **at(1))), {}, ["result of lookup_order, call 1"]),
        (
            (STEPS[0], ToolRun(name="lookup_order", call_id="c-1", executed=False)),
            {},
            ["result of lookup_order, call 1"],
        ),
        ((STEPS[0], ToolRun(name="lookup_order", call_id="c-1", executed=False)), {"limits": "max_turns"}, []),
        ((), {"missing": ("messages of model call 1",)}, ["messages of model call 1"]),
    ],
)
def test_what_is_missing_is_listed_and_never_made_up(steps, more, missing):
    run = stored(traced(*steps, **more))

    assert run.header.kit["case"].get("missing", []) == missing
    assert all(x.finish is None for x in run.exchanges if x.outcome is None)
    assert not [x for x in run.exchanges if isinstance(x.call, ToolCall) and x.outcome is not None]


def test_an_unknown_api_is_written_as_the_usual_one_and_told():
    run = stored(traced(ModelCall(model="m", messages=(QUESTION,), reply=FINAL, **at(0))))

    assert READER.read_call(run.exchanges[0].call).dialect == "openai_chat"
    assert any("API that was spoken" in loss for loss in run.header.kit["case"]["losses"])


def test_a_failed_call_of_a_model_is_its_status_or_its_exception():
    broken = said(None, 1, at(0), fault=TraceFault("RateLimitError", "slow down"), status=429)
    lost = said(None, 1, at(2), fault=TraceFault("APIConnectionError", "connection reset"))
    first, second = stored(
        traced(broken, lost, status="error", fault=TraceFault("APIConnectionError", "reset"))
    ).exchanges

    assert (first.outcome.status, READER.read_reply(first.call, first.outcome).error) == (
        429,
        "429 RateLimitError: slow down",
    )
    assert second.outcome == Failure("APIConnectionError", "connection reset", ("connection reset",))


def test_the_model_saw_the_truth_and_the_tool_knows_its_type():
    def result(**told):
        run = stored(traced(STEPS[0], ToolRun(name="lookup_order", call_id="c-1", **told, **at(1))))
        return run.exchanges[1].outcome.value

    assert result(seen='{"a": 1}', result={"a": 1}) == {"a": 1}
    assert result(seen="no order", result={"a": 1}) == "no order"
    assert result(seen=UNKNOWN, result=None) is None
    assert result(seen={"$ref": 1}) == {"$$ref": 1}


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
def test_the_run_is_the_same_in_every_api(dialect):
    steps = tuple(
        ModelCall(
            dialect=dialect, model="m", messages=step.messages, reply=step.reply, started=step.started, ended=step.ended
        )
        if isinstance(step, ModelCall)
        else step
        for step in STEPS
    )
    told = turns(stored(traced(*steps)), READER)

    assert READER.read_reply(told[2].model.call, told[2].model.outcome).text == "Done! I have refunded $459.90."
    assert [use.name for turn in told for use in READER.read_reply(turn.model.call, turn.model.outcome).tool_uses] == [
        "lookup_order",
        "issue_refund",
    ]
    assert [message["role"] for message in genai.conversation(READER.read_call(told[2].model.call))][:2] == [
        "user",
        "assistant",
    ]
