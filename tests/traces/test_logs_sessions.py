"""Runs of ReplayKit, logs of Inspect, results of Waza, events of Copilot: references, limits, grades, faults."""

import json
import sys

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.traces.reading import traces
from pytest_agentreplay.traces.trace import TraceFault
from tests.traces.neutral import INSPECT_EVAL, INSPECT_JSON, TRACES, one, packed, read, rows_of, tools

KIT = {
    "run_id": "run-1",
    "status": "error",
    "events": [
        {"type": "input_message", "content": "Where is my order?"},
        {"type": "tool_call", "tool_name": "search", "tool_args": {"q": "order"}},
        {"type": "tool_result", "output": {"error": "nothing found"}},
        {"type": "tool_call", "tool_name": "search", "tool_args": {"q": "order"}},
        {"type": "error", "error": "max iterations exceeded"},
    ],
}


def test_traces_of_replaykit():
    trace = one(KIT)
    assert (trace.source.format, trace.id, trace.status) == ("replaykit", "run-1", "error")
    assert (trace.input, trace.output) == ("Where is my order?", None)
    ran = [(run.name, run.arguments, run.executed) for run in trace.tool_runs]
    assert ran == [("search", {"q": "order"}, True)] * 2
    assert trace.tool_runs[0].replayable == {"error": "nothing found"}
    assert (trace.fault.message, trace.limits) == ("max iterations exceeded", "max iterations")
    assert (trace.missing, trace.model_calls) == (("result of search, call 2",), ())
    with pytest.raises(TraceError, match=r"holds no run \(trace of ReplayKit\)"):
        read({"run_id": "r", "status": "ok", "events": []})
    events = [
        {"type": "tool_call", "tool_name": "a", "call_id": "1"},
        {"type": "tool_call", "tool_name": "b", "call_id": "2"},
        {"type": "tool_result", "call_id": "2", "output": "of b"},
        {"type": "tool_result", "call_id": "1", "error": {"type": "KeyError", "message": "of a"}},
        {"type": "output_message", "content": "done"},
    ]
    first, second = read(KIT, {"run_id": "run-2", "status": "success", "user_id": "u-7", "events": events})
    assert (first.id, second.status, second.user, second.output) == ("run-1", "ok", "u-7", "done")
    assert [(run.replayable if not run.fault else run.fault.type) for run in second.tool_runs] == ["KeyError", "of b"]
    assert stopped_by("shop.TimeoutError: late").fault == TraceFault("TimeoutError", "late")


def stopped_by(error):
    return one({**KIT, "events": [*KIT["events"][:3], {"type": "error", "error": error}]})


LIMITS = [
    ("MaxTurnsExceeded", "Max turns (10) exceeded", "MaxTurnsExceeded"),
    ("GraphRecursionError", "Recursion limit of 25 reached", "GraphRecursionError"),
    ("pydantic_ai.UsageLimitExceeded", "The next request would", "UsageLimitExceeded"),
    ("ValueError", "no such order", ""),
    ("RecursionError", "maximum recursion depth exceeded", ""),
    ("APIError", "Rate limit reached for gpt-4o on tokens per min", ""),
    ("HTTP 429", "request limit exceeded", ""),
]


def test_the_error_that_stopped_an_agent_is_known_by_its_words():
    found = [stopped_by({"type": kind, "message": words}).limits for kind, words, _ in LIMITS]
    assert found == [limits for *_, limits in LIMITS]
    assert stopped_by("tool call limit reached").limits == "tool call limit"


(LOG,) = rows_of(INSPECT_JSON)


def inspect(sample=None, **more):
    """The log with changes to it, and to its only sample."""
    changed = {"samples": [LOG["samples"][0] | sample]} if sample is not None else {}
    return one({**LOG, **changed, **more})


def test_a_log_of_inspect_has_whole_requests_and_each_sample_and_epoch_is_a_run():
    trace = inspect()
    *_, last = trace.model_calls
    assert [message["role"] for message in last.messages] == ["system", "user", *["assistant", "tool"] * 2]
    assert last.fingerprint == "fp_44709d6fcb"
    assert last.parameters == {"tool_choice": "auto", "max_tokens": 256, "seed": 7, "temperature": 0.2}
    assert trace.grades == {"includes": "I"}
    assert (trace.metadata["target"], trace.metadata["sample"]) == ("cannot refund", "refund-1")
    assert inspect({"limit": {"type": "message", "limit": 10}}).limits == "message limit 10"
    assert any("attachments are not in the log" in loss for loss in inspect({"attachments": {}}).losses)
    samples = [{**LOG["samples"][0], "epoch": epoch, "uuid": f"u{epoch}"} for epoch in (1, 2)]
    assert [(run.id, run.metadata["epoch"]) for run in read({**LOG, "samples": samples})] == [("u1", 1), ("u2", 2)]


def test_calls_without_the_providers_bodies_are_read_in_the_words_of_inspect():
    events = [{name: event[name] for name in event if name != "call"} for event in LOG["samples"][0]["events"]]
    trace = inspect({"events": events})
    assert trace.source.fidelity == "semantic"
    told = [(call.model, len(call.messages), call.usage["input_tokens"]) for call in trace.model_calls]
    assert told == [("gpt-4o-mini", 2, 120), ("gpt-4o-mini", 4, 160), ("gpt-4o-mini", 6, 200)]
    assert [(run.name, run.executed) for run in trace.tool_runs] == [("lookup_order", True), ("issue_refund", True)]
    assert trace.missing == ()


def test_a_sample_that_broke_is_an_error_and_a_log_without_samples_says_why():
    event = next(one for one in LOG["samples"][0]["events"] if one["event"] == "model")
    waiting = event | {"pending": True, "output": {"choices": []}, "call": None}
    error = {"message": "APIConnectionError('no way')", "traceback": "Traceback ..."}
    broken = {"events": [waiting], "error": error, "output": {"choices": [], "completion": ""}}
    trace = inspect(broken, status="error")
    assert (trace.status, trace.output, trace.tool_runs) == ("error", None, ())
    assert (trace.fault.message, trace.fault.traceback) == ("APIConnectionError('no way')", "Traceback ...")
    assert trace.missing == ("reply of model call 1",)
    with pytest.raises(TraceIncomplete, match="no-log-samples"):
        inspect(samples=[])
    with pytest.raises(TraceIncomplete, match="no such model"):
        inspect(samples=None, status="error", error={"message": "no such model"})


def test_an_archive_that_was_not_finished_has_its_beginning_for_a_header_and_a_broken_member_is_named():
    header = json.dumps({name: LOG[name] for name in ("version", "eval", "plan")})
    held = {"_journal/start.json": header, "samples/refund-1_epoch_1.json": json.dumps(LOG["samples"][0])}
    (trace,) = traces([("log.eval", packed(held))])
    assert (trace.status, len(trace.model_calls), trace.name) == ("", 3, "refund")
    with pytest.raises(TraceError, match=r"samples/1\.json: is no JSON"):
        traces([("log.eval", packed({"header.json": '{"eval": {}}', "samples/1.json": "{"}))])


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself unpacks zstandard there")
def test_an_archive_packed_by_zstandard_names_the_package_where_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(TraceError, match=r"pip install \"frozen-agentreplay\[zstd\]\""):
        traces([("log.eval", (TRACES / "generated" / INSPECT_EVAL).read_bytes())])


def waza(**run):
    return one({"eval_id": "e", "summary": {}, "tasks": [{"test_id": "t", "runs": [{"run_number": 1, **run}]}]})


def test_an_unfinished_run_of_waza_tells_of_its_error_and_a_newer_one_of_whole_executions():
    trace = waza(status="error", error_msg="step limit reached", transcript=[])
    assert (trace.id, trace.status, trace.limits) == ("e/t/1", "error", "step limit")
    event = {"tool_call_id": "c", "tool_name": "read_file", "args": {"path": "a"}, "result": "ready", "success": True}
    failed = {**event, "success": False, "error": "no such file"}
    trace = waza(status="passed", tool_events=[event, failed], final_output="ready")
    assert tools(trace) == [("read_file", {"path": "a"}, "ready")] * 2
    assert [run.fault and run.fault.message for run in trace.tool_runs] == [None, "no such file"]


def test_a_copilot_session_names_its_model_and_its_error():
    events = {
        "session.start": {"sessionId": "s-1", "selectedModel": "gpt-5"},
        "user.message": {"content": "hi"},
        "assistant.message": {"content": "hello"},
        "session.error": {"errorType": "query", "message": "gone"},
    }
    common = {"timestamp": "2026-02-11T02:03:33Z"}
    trace = one(*({"type": kind, "data": data, "id": kind, **common} for kind, data in events.items()))
    assert (trace.session, trace.model_calls[0].model, trace.output) == ("s-1", "gpt-5", "hello")
    assert (trace.status, trace.fault.type, trace.fault.message) == ("error", "query", "gone")


@pytest.mark.parametrize("events", [[], None, [{"event": "sample_init"}]])
def test_a_sample_without_events_is_read_from_its_messages_and_one_without_both_is_cold(events):
    trace = inspect({"events": events})
    assert [len(call.messages) for call in trace.model_calls] == [2, 4, 6]
    assert [(run.name, run.fault and run.fault.message) for run in trace.tool_runs] == [
        ("lookup_order", None),
        ("issue_refund", "RefundError: amount 45990 exceeds order total 4599 for A-1001"),
    ]
    assert (trace.model_calls[0].model, trace.missing) == ("gpt-4o-mini", ())
    assert any("has no events of its model calls" in loss for loss in trace.losses)
    assert inspect({"events": events, "messages": []}).missing == ("messages of model calls",)
