"""A trace of another tool as a run of ours: same exchanges, same order, nothing made up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import normalize_conversation
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.traces.to_run import frozen_run
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault
from tests.traces.neutral import asks, gives, text

SECOND = 1_000_000_000
BEGAN = 1_790_000_000 * SECOND
QUESTION = text("user", "I want my money back for A-1001.")
ORDER = {"order_id": "A-1001", "total_cents": 4599}
PAY = {"order_id": "A-1001", "amount_cents": 45990}
LOOKUP = asks(("c-1", "lookup_order", {"order_id": "A-1001"})) | {"finish_reason": "tool_calls"}
REFUND = asks(("c-2", "issue_refund", PAY)) | {"finish_reason": "tool_calls"}
DONE = "Done! I have refunded $459.90."
FINAL = text("assistant", DONE) | {"finish_reason": "stop"}
TOLD = "RefundError: too much"
ASKED = (QUESTION, LOOKUP, gives(("c-1", ORDER)), REFUND, gives(("c-2", TOLD)))
FAILED = TraceFault("RefundError", "amount 45990 exceeds order total 4599 for A-1001", "Traceback ...")


def at(second, length=1.0):
    return {"started": BEGAN + int(second * SECOND), "ended": BEGAN + int((second + length) * SECOND)}


def said(reply, upto, when, **more):
    facts = {"provider": "openai", "dialect": "openai_chat", "model": "gpt-4o-mini", "parameters": {"temperature": 0.2}}
    facts |= {"response_model": "gpt-4o-mini-2024-07-18", "usage": {"prompt_tokens": 120, "completion_tokens": 21}}
    return ModelCall(messages=ASKED[:upto], reply=reply, **facts, **at(when), **more)


def looked(when=None, length=1.0, **more):
    times = {} if when is None else at(when, length)
    return ToolRun(**{"name": "lookup_order", "call_id": "c-1"} | times | more)


ASK, ANSWER = said(LOOKUP, 1, 0), said(FINAL, 5, 4)
LOOKED = looked(1, arguments={"order_id": "A-1001"}, seen=ORDER, result=ORDER)
ARGUMENTS = '{"order_id": "A-1001", "amount_cents": 45990}'
PAID = ToolRun(name="issue_refund", call_id="c-2", arguments=ARGUMENTS, seen=TOLD, fault=FAILED, **at(3))
STEPS = (ASK, LOOKED, said(REFUND, 3, 2), PAID, ANSWER)


def stored(*steps, **more):
    """The run of a trace as it comes back from a file."""
    more = {"input": "I want my money back for A-1001.", "output": DONE, "status": "ok"} | more
    source = Source(format="langsmith-runs", id="r-1")
    trace = Trace(source=source, id="r-1", name="refund-agent", started=BEGAN, steps=steps, **more)
    return codec.loads(codec.dumps(frozen_run(trace, test="cases/refund/case.yaml::refund")), file="run").run


def test_a_trace_comes_back_from_a_snapshot_with_its_turns_tools_and_facts():
    run = stored(*STEPS, user="u-7", session="conv-42", losses=("no headers",))
    told = turns(run, READER)
    assert [turn.number for turn in told] == [1, 2, 3]
    assert [[x.call.name for x in turn.exchanges[1:]] for turn in told] == [["lookup_order"], ["issue_refund"], []]
    replies = [READER.read_reply(turn.model.call, turn.model.outcome) for turn in told]
    assert (replies[-1].text, replies[0].tool_uses[0].id, replies[0].model) == (DONE, "c-1", "gpt-4o-mini-2024-07-18")
    plain = tuple({"role": message["role"], "parts": message["parts"]} for message in ASKED)
    assert normalize_conversation(READER.read_call(told[2].model.call)) == plain
    assert READER.read_call(told[0].model.call).parameters == {"temperature": 0.2}
    lookup, refund = (x for x in run.exchanges if isinstance(x.call, ToolCall))
    assert (lookup.call.arguments, lookup.outcome) == ({"order_id": "A-1001"}, ToolReply(ORDER))
    assert (refund.call.arguments, refund.outcome) == (PAY, Failure("RefundError", FAILED.message, (FAILED.message,)))
    case = run.header.kit["case"]
    assert (case["input"], case["output"]) == ("I want my money back for A-1001.", DONE)
    assert (case["status"], case["user"], case["losses"]) == ("ok", "u-7", ["no headers"])
    assert "missing" not in case
    assert (run.header.outcome, run.header.clock) == ({"status": "passed"}, BEGAN)


def test_bytes_that_the_trace_has_are_taken_as_they_are():
    request = HttpCall(
        "POST", "https://api.openai.com/v1/chat/completions", body=Body(b'{"model":"m",  "messages":[]}')
    )
    response = HttpReply(429, headers=(("retry-after", "1"),), body=Body(b'{"price": 12.5, "cur'), cuts=(20,))
    (exchange,) = stored(said(None, 1, 0, request=request, response=response, status=429)).exchanges
    assert (exchange.call, exchange.outcome) == (request, response)


def test_what_overlapped_overlaps_and_what_came_after_comes_after():
    tools = [looked(1, 3, seen="one"), looked(2, 1, call_id="c-2", seen="two")]
    run = stored(said(asks(*((f"c-{n}", "lookup_order", {}) for n in (1, 2))), 1, 0), *tools, said(FINAL, 1, 4))
    asked, first, second, last = run.exchanges
    assert asked.finish < first.start < second.start < second.finish < first.finish < last.start
    assert (asked.lane, last.lane, len({first.lane, second.lane}), len(turns(run, READER))) == ("main", "main", 2, 2)
    inside = said(FINAL, 1, 2, parent="t", agent="researcher")
    run = stored(ASK, looked(1, 5, seen="ok", id="t"), inside, said(FINAL, 3, 7))
    assert (run.exchanges[2].parent, run.exchanges[2].agent) == (run.exchanges[1].start, "researcher")
    assert len(turns(run, READER)) == 2, "what happened inside a tool stands inside it"


def test_no_clock_makes_a_tool_run_before_it_was_asked_for():
    """Two machines, whose clocks are a second apart; and one source that has no times at all."""
    skewed = (ASK, looked(0.2, 0.1, seen=ORDER), STEPS[2])
    timeless = tuple(replace(step, started=None, ended=None) for step in STEPS)
    for steps in (skewed, timeless):
        found = stored(*steps).exchanges
        assert all(a.finish < b.start for a, b in pairwise(found))
        assert [type(x.call).__name__ for x in found[:3]] == ["HttpCall", "ToolCall", "HttpCall"]


MISSING = [
    ((said(None, 1, 0),), {}, ["reply of model call 1"]),
    ((ASK, looked(1)), {}, ["result of lookup_order, call 1"]),
    ((ASK, looked(executed=False)), {}, ["result of lookup_order, call 1"]),
    ((ASK, looked(executed=False)), {"limits": "max_turns"}, []),
    ((), {"missing": ("messages of model call 1",)}, ["messages of model call 1"]),
]


@pytest.mark.parametrize(("steps", "more", "missing"), MISSING)
def test_what_is_missing_is_listed_and_never_made_up(steps, more, missing):
    run = stored(*steps, **more)
    assert run.header.kit["case"].get("missing", []) == missing
    assert all(x.finish is None for x in run.exchanges if x.outcome is None)
    assert not [x for x in run.exchanges if isinstance(x.call, ToolCall) and x.outcome is not None]


def test_a_failed_call_of_a_model_is_its_status_or_its_exception():
    broken = said(None, 1, 0, fault=TraceFault("RateLimitError", "slow down"), status=429)
    lost = said(None, 1, 2, fault=TraceFault("APIConnectionError", "connection reset"))
    first, second = stored(broken, lost, status="error", fault=TraceFault("APIConnectionError", "reset")).exchanges
    assert first.outcome.status == 429
    assert READER.read_reply(first.call, first.outcome).error == "429 RateLimitError: slow down"
    assert second.outcome == Failure("APIConnectionError", "connection reset", ("connection reset",))


def test_the_model_saw_the_truth_and_the_tool_knows_its_type():
    for told, value in (
        ({"seen": '{"a": 1}', "result": {"a": 1}}, {"a": 1}),
        ({"seen": "no order", "result": {"a": 1}}, "no order"),
        ({"seen": UNKNOWN, "result": None}, None),
        ({"seen": {"$ref": 1}}, {"$$ref": 1}),
    ):
        assert stored(ASK, looked(1, **told)).exchanges[1].outcome.value == value


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
def test_the_run_is_the_same_in_every_api(dialect):
    plain = {"parameters": {}, "usage": {}, "provider": "", "response_model": ""}
    steps = (replace(step, dialect=dialect, **plain) if isinstance(step, ModelCall) else step for step in STEPS)
    told = [turn.model for turn in turns(stored(*steps), READER)]
    replies = [READER.read_reply(model.call, model.outcome) for model in told]
    assert replies[2].text == DONE
    assert [use.name for reply in replies for use in reply.tool_uses] == ["lookup_order", "issue_refund"]
    roles = [message["role"] for message in normalize_conversation(READER.read_call(told[2].call))]
    assert roles[:2] == ["user", "assistant"]
    unknown = stored(ModelCall(model="m", messages=(QUESTION,), reply=FINAL, **at(0)))
    assert READER.read_call(unknown.exchanges[0].call).dialect == "openai_chat"
    assert any("API that was spoken" in loss for loss in unknown.header.kit["case"]["losses"])
