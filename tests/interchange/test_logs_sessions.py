"""Sessions and results: forks, pieces of one reply, sub-agents, references into tables, limits, grades."""

import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.reading import traces

HERE = Path(__file__).parent / "traces"
INSPECT_JSON = "generated/inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json"
INSPECT_EVAL = "generated/inspect-ai/2026-11-20T13-39-35-00-00_refund_8JVSA7n8EzNvfUwpa3jCpz.eval"


def read(*rows, name="session.jsonl"):
    return traces([(name, "\n".join(json.dumps(row) for row in rows).encode())])


def row(uuid, parent, message, *, at, **more):
    return {
        "type": message["role"],
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s-1",
        "timestamp": f"2026-11-20T10:00:{at:02}Z",
        "message": message,
        **more,
    }


def user(uuid, parent, content, *, at, **more):
    return row(uuid, parent, {"role": "user", "content": content}, at=at, **more)


def said(uuid, parent, *blocks, at, reply="", **more):
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    message = {
        "role": "assistant",
        "model": "claude-x",
        "content": content,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    return row(uuid, parent, message | ({"id": reply} if reply else {}), at=at, **more)


def use(number, **arguments):
    return {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": arguments}


def result(number, content, **more):
    return [{"type": "tool_result", "tool_use_id": f"t{number}", "content": content, **more}]


SESSION = [
    user("u1", None, "list the files", at=0),
    said("a1", "u1", "I look.", at=1, reply="m1"),
    said("a2", "a1", use(1, command="ls"), at=2, reply="m1"),
    said("a3", "a2", use(2, command="pwd"), at=3, reply="m1"),
    user("r1", "a2", result(1, "a.txt"), at=4, toolUseResult={"stdout": "a.txt", "stderr": ""}),
    user("r2", "a3", result(2, "no", is_error=True), at=5),
    said("a4", "r2", "One file.", at=6, reply="m2"),
]


def test_the_pieces_of_a_reply_are_one_call_and_parallel_results_are_kept():
    (trace,) = read(*SESSION)

    first, second = trace.model_calls
    assert [part["type"] for part in first.reply["parts"]] == ["text", "tool_call", "tool_call"]
    assert [(run.arguments["command"], run.seen, run.result) for run in trace.tool_runs] == [
        ("ls", "a.txt", {"stdout": "a.txt", "stderr": ""}),
        ("pwd", "no", "no"),
    ]
    assert [run.fault and run.fault.message for run in trace.tool_runs] == [None, "no"]
    assert (second.model, second.provider, second.response_id) == ("claude-x", "anthropic", "m2")
    assert (trace.output, trace.missing) == ("One file.", ())
    assert not any("branches" in loss for loss in trace.losses)


def test_rows_out_of_order_are_put_in_order_by_time():
    assert read(*reversed(SESSION)) == read(*SESSION)


def test_the_newest_branch_is_taken_and_the_rest_is_said():
    again = [
        user("u2", None, "list the files, hidden too", at=10),
        said("b1", "u2", "None is hidden.", at=11, reply="m9"),
    ]
    fork = [
        said("c1", "r2", "Another answer.", at=20, reply="m3"),
    ]

    (trace,) = read(*SESSION, *fork)
    (longer,) = read(*SESSION, *again)

    assert trace.output == "Another answer."
    assert "1 rows are of branches that were gone back on: the newest branch is taken" in trace.losses
    assert len(trace.tool_runs) == 2
    assert longer.output == "None is hidden."
    assert len(longer.model_calls) == 1
    assert "7 rows are of branches that were gone back on: the newest branch is taken" in longer.losses


def test_what_a_sub_agent_did_stands_beside_under_a_name_of_its_own():
    beside = [
        user("x1", None, "search", at=2, isSidechain=True),
        said("x2", "x1", use(7, command="grep"), at=3, reply="m7", isSidechain=True),
        user("x3", "x2", result(7, "found"), at=3, isSidechain=True),
        said("x4", "x3", "Found it.", at=4, reply="m8", isSidechain=True),
    ]

    (trace,) = read(*SESSION, *beside)

    assert trace.output == "One file."
    assert {step.agent for step in trace.steps} == {"", "sub-agent 1"}
    assert [(run.name, run.seen) for run in trace.tool_runs if run.agent] == [("Bash", "found")]
    assert trace.model_calls[0].messages[0]["parts"][0]["content"] == "list the files"


def test_the_rows_of_a_sub_agent_hang_together_though_only_some_name_it():
    beside = [
        said("x1", None, "I search.", use(7, command="grep"), at=2, reply="m7", isSidechain=True),
        user("x2", "x1", result(7, "found"), at=3, isSidechain=True, agentId="ab12"),
        said("x3", "x2", "Found it.", at=4, reply="m8", isSidechain=True),
        said("y1", None, "Another one.", at=5, reply="m9", isSidechain=True),
    ]

    (trace,) = read(*SESSION, *beside)

    assert [step.agent for step in trace.steps if step.agent] == ["ab12", "ab12", "ab12", "sub-agent 2"]


def test_the_tree_leads_through_rows_that_are_no_messages():
    boundary = {"type": "system", "uuid": "cb", "parentUuid": None, "logicalParentUuid": "a4", "sessionId": "s-1"}
    fork = said("c1", "r2", "Another answer.", at=7, reply="m3")
    after = [
        user("s1", "cb", "Summary: one file.", at=31, isCompactSummary=True),
        said("s2", "s1", "And on we go.", at=32, reply="m4"),
    ]

    (trace,) = read(*SESSION, fork, boundary, *after)

    *_, last = trace.model_calls
    assert [message["parts"][0]["content"] for message in last.messages] == ["Summary: one file."]
    assert "Another answer." not in repr(trace.model_calls)
    assert "1 rows are of branches that were gone back on: the newest branch is taken" in trace.losses


def test_a_file_of_one_sub_agent_is_a_run():
    (trace,) = read(*({**one, "isSidechain": True, "agentId": "ab12"} for one in SESSION))

    assert (len(trace.model_calls), trace.output) == (2, "One file.")


def test_several_sessions_in_a_file_are_several_runs():
    other = [{**one, "sessionId": "s-2"} for one in SESSION]

    assert [run.id for run in read(*SESSION, *other)] == ["s-1", "s-2"]


def test_the_export_of_a_web_session():
    lines = [{name: value for name, value in one.items() if name not in {"uuid", "parentUuid"}} for one in SESSION]

    (trace,) = traces([("web.json", json.dumps({"loglines": lines}).encode())])

    assert (trace.source.format, len(trace.tool_runs), trace.output) == ("claude-code", 2, "One file.")


def test_a_tool_call_that_nobody_answered_is_missing():
    (trace,) = read(*SESSION[:4])

    assert trace.missing == ("result of Bash, call 1", "result of Bash, call 2")
    assert [run.executed for run in trace.tool_runs] == [False, False]


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


def test_a_trace_of_replaykit():
    (trace,) = read(KIT, name="trace.json")

    assert (trace.source.format, trace.id, trace.status) == ("replaykit", "run-1", "error")
    assert (trace.input, trace.output) == ("Where is my order?", None)
    assert [(run.name, run.arguments, run.executed) for run in trace.tool_runs] == [
        ("search", {"q": "order"}, True)
    ] * 2
    assert trace.tool_runs[0].replayable == {"error": "nothing found"}
    assert (trace.fault.message, trace.limits) == ("max iterations exceeded", "max iterations")
    assert trace.missing == ("result of search, call 2",)
    assert not trace.model_calls


def test_several_traces_of_replaykit_in_lines_with_ids_and_failing_tools():
    events = [
        {"type": "tool_call", "tool_name": "a", "call_id": "1"},
        {"type": "tool_call", "tool_name": "b", "call_id": "2"},
        {"type": "tool_result", "call_id": "2", "output": "of b"},
        {"type": "tool_result", "call_id": "1", "error": {"type": "KeyError", "message": "of a"}},
        {"type": "output_message", "content": "done"},
    ]

    first, second = read(KIT, {"run_id": "run-2", "status": "success", "user_id": "u-7", "events": events})

    assert (second.status, second.user, second.output) == ("ok", "u-7", "done")
    assert [(run.replayable if not run.fault else run.fault.type) for run in second.tool_runs] == ["KeyError", "of b"]
    assert first.id == "run-1"


@pytest.mark.parametrize(
    ("error", "limits"),
    [
        ({"type": "MaxTurnsExceeded", "message": "Max turns (10) exceeded"}, "MaxTurnsExceeded"),
        ({"type": "GraphRecursionError", "message": "Recursion limit of 25 reached"}, "GraphRecursionError"),
        ("tool call limit reached", "tool call limit"),
        (
            {"type": "pydantic_ai.UsageLimitExceeded", "message": "The next request would exceed it"},
            "UsageLimitExceeded",
        ),
        ({"type": "ValueError", "message": "no such order"}, ""),
        ({"type": "RecursionError", "message": "maximum recursion depth exceeded"}, ""),
        ({"type": "APIError", "message": "Rate limit reached for gpt-4o on tokens per min"}, ""),
        ({"type": "HTTP 429", "message": "request limit exceeded"}, ""),
    ],
)
def test_the_error_that_stopped_an_agent_is_known_by_its_words(error, limits):
    (trace,) = read({**KIT, "events": [*KIT["events"][:3], {"type": "error", "error": error}]})

    assert trace.limits == limits


LOG = json.loads((HERE / INSPECT_JSON).read_text("utf-8"))


def inspect(**more):
    return traces([("log.json", json.dumps({**LOG, **more}).encode())])


def test_the_third_request_of_inspect_holds_all_six_messages():
    (trace,) = inspect()

    *_, last = trace.model_calls
    assert [message["role"] for message in last.messages] == ["system", "user", *["assistant", "tool"] * 2]
    assert last.fingerprint == "fp_44709d6fcb"
    assert last.parameters == {"tool_choice": "auto", "max_tokens": 256, "seed": 7, "temperature": 0.2}
    assert (trace.grades, trace.metadata["target"], trace.metadata["sample"]) == (
        {"includes": "I"},
        "cannot refund",
        "refund-1",
    )


def test_both_files_of_inspect_are_the_same_run():
    (one,), (other,) = (traces([(name, (HERE / name).read_bytes())]) for name in (INSPECT_JSON, INSPECT_EVAL))

    assert [step.messages for step in one.model_calls] == [step.messages for step in other.model_calls]
    assert [(run.name, run.seen, run.fault) for run in one.tool_runs] == [
        (run.name, run.seen, run.fault) for run in other.tool_runs
    ]


def test_calls_without_the_providers_bodies_are_read_in_the_words_of_inspect():
    sample = json.loads(json.dumps(LOG["samples"][0]))
    for event in sample["events"]:
        event.pop("call", None)

    (trace,) = inspect(samples=[sample])

    assert trace.source.fidelity == "semantic"
    assert [call.model for call in trace.model_calls] == ["gpt-4o-mini"] * 3
    assert [len(call.messages) for call in trace.model_calls] == [2, 4, 6]
    assert [(run.name, run.executed) for run in trace.tool_runs] == [("lookup_order", True), ("issue_refund", True)]
    assert [call.usage["input_tokens"] for call in trace.model_calls] == [120, 160, 200]
    assert trace.missing == ()


def test_every_sample_and_epoch_is_a_run():
    samples = [{**LOG["samples"][0], "epoch": epoch, "uuid": f"u{epoch}"} for epoch in (1, 2)]

    assert [(run.id, run.metadata["epoch"]) for run in inspect(samples=samples)] == [("u1", 1), ("u2", 2)]


def test_a_sample_that_broke_is_an_error_with_a_call_that_never_came_back():
    sample = json.loads(json.dumps(LOG["samples"][0]))
    event = next(one for one in sample["events"] if one["event"] == "model")
    event |= {"pending": True, "output": {"choices": []}, "call": None}
    sample |= {
        "events": [event],
        "error": {"message": "APIConnectionError('no way')", "traceback": "Traceback ..."},
        "output": {"choices": [], "completion": ""},
    }

    (trace,) = inspect(status="error", samples=[sample])

    assert (trace.status, trace.output, trace.tool_runs) == ("error", None, ())
    assert (trace.fault.message, trace.fault.traceback) == ("APIConnectionError('no way')", "Traceback ...")
    assert trace.missing == ("reply of model call 1",)


def test_a_limit_that_stopped_a_sample():
    (trace,) = inspect(samples=[{**LOG["samples"][0], "limit": {"type": "message", "limit": 10}}])

    assert trace.limits == "message limit 10"


def test_an_attachment_that_is_not_there_is_a_loss():
    (trace,) = inspect(samples=[{**LOG["samples"][0], "attachments": {}}])

    assert any("attachments are not in the log" in loss for loss in trace.losses)


def test_a_log_without_samples_says_why():
    with pytest.raises(TraceIncomplete, match="no-log-samples"):
        inspect(samples=[])
    with pytest.raises(TraceIncomplete, match="no such model"):
        inspect(samples=None, status="error", error={"message": "no such model"})


def archive(members, compression=zipfile.ZIP_DEFLATED):
    held = BytesIO()
    with zipfile.ZipFile(held, "w", compression) as file:
        for name, value in members.items():
            file.writestr(name, json.dumps(value))
    return held.getvalue()


def test_an_archive_that_was_not_finished_has_its_beginning_for_a_header():
    header = {name: LOG[name] for name in ("version", "eval", "plan")}
    data = archive({"_journal/start.json": header, "samples/refund-1_epoch_1.json": LOG["samples"][0]})

    (trace,) = traces([("log.eval", data)])

    assert (trace.status, len(trace.model_calls), trace.name) == ("", 3, "refund")


def test_a_broken_member_is_named():
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("header.json", json.dumps({"eval": {}}))
        file.writestr("samples/1.json", "{")

    with pytest.raises(TraceError, match=r"samples/1\.json: is no JSON"):
        traces([("log.eval", held.getvalue())])


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself unpacks zstandard there")
def test_an_archive_packed_by_zstandard_names_the_package_where_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(TraceError, match=r"pip install \"frozen-agentreplay\[zstd\]\""):
        traces([("log.eval", (HERE / INSPECT_EVAL).read_bytes())])


def test_an_unfinished_run_of_waza_tells_of_its_error():
    run = {"run_number": 1, "status": "error", "error_msg": "step limit reached", "transcript": []}
    results = {"eval_id": "e", "summary": {}, "tasks": [{"test_id": "t", "runs": [run]}]}

    (trace,) = read(results, name="results.json")

    assert (trace.id, trace.status, trace.limits) == ("e/t/1", "error", "step limit")


def test_newer_results_of_waza_list_whole_executions():
    event = {"tool_call_id": "c", "tool_name": "read_file", "args": {"path": "a"}, "result": "ready", "success": True}
    failed = {**event, "success": False, "error": "no such file"}
    run = {"run_number": 1, "status": "passed", "tool_events": [event, failed], "final_output": "ready"}

    (trace,) = read({"eval_id": "e", "summary": {}, "tasks": [{"test_id": "t", "runs": [run]}]}, name="results.json")

    assert [(one.name, one.arguments, one.seen) for one in trace.tool_runs] == [
        ("read_file", {"path": "a"}, "ready")
    ] * 2
    assert [one.fault and one.fault.message for one in trace.tool_runs] == [None, "no such file"]


def test_a_copilot_session_names_its_model_and_its_error():
    at = "2026-02-11T02:03:33Z"
    events = [
        {"type": "session.start", "data": {"sessionId": "s-1", "selectedModel": "gpt-5"}, "id": "1", "timestamp": at},
        {"type": "user.message", "data": {"content": "hi"}, "id": "2", "timestamp": at},
        {"type": "assistant.message", "data": {"content": "hello"}, "id": "3", "timestamp": at},
        {"type": "session.error", "data": {"errorType": "query", "message": "gone"}, "id": "4", "timestamp": at},
    ]

    (trace,) = read(*events)

    assert (trace.session, trace.model_calls[0].model, trace.output) == ("s-1", "gpt-5", "hello")
    assert (trace.status, trace.fault.type, trace.fault.message) == ("error", "query", "gone")
