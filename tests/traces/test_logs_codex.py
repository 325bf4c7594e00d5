"""Sessions of the Codex CLI: items beside events, what ran and how it ended, what the model saw after a compaction."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from tests.traces.neutral import one, read


def session(*rows):
    """The rows, a second after each other."""
    times = [f"2026-11-20T10:00:{second:02}.000Z" for second in range(len(rows))]
    return [{"timestamp": at, "type": kind, "payload": held} for at, (kind, held) in zip(times, rows, strict=True)]


def item(kind, **more):
    return "response_item", {"type": kind, **more}


def said(role, text):
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def event(told, **more):
    return "event_msg", {"type": told, **more}


LOOK = item("function_call", name="shell", arguments='{"command": ["ls"]}', call_id="c1")


def spent(given, made):
    total = {"input_tokens": 90_000, "output_tokens": 9000}
    last = {"input_tokens": given, "cached_input_tokens": 4, "output_tokens": made, "reasoning_output_tokens": 2}
    return event("token_count", info={"total_token_usage": total, "last_token_usage": last})


META = {"id": "s-1", "cwd": "/shop", "cli_version": "0.65.0", "git": {"branch": "main"}, "instructions": "Be exact."}
ASKED = [
    *(("session_meta", META), said("user", "<environment_context/>"), said("user", "mend it")),
    *(event("user_message", message="mend it"), ("turn_context", {"model": "gpt-5-codex", "effort": "high"})),
]
LISTED = [
    item("reasoning", summary=[{"type": "summary_text", "text": "look"}], encrypted_content="gAAA"),
    *(LOOK, item("function_call", name="shell", arguments='{"command": ["cat", "x"]}', call_id="c2"), spent(100, 20)),
    item("function_call_output", call_id="c1", output=json.dumps({"output": "a b", "metadata": {"exit_code": 0}})),
]
MENDED = [
    item("function_call_output", call_id="c2", output="Exit code: 1\nOutput:\nno such file"),
    item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c3"),
    item("custom_tool_call_output", call_id="c3", output="Success"),
    item("web_search_call", status="completed", action={"type": "search"}),
    said("assistant", "mended ✅"),
    spent(170, 9),
    event("task_complete", last_agent_message="mended ✅"),
]
RUN = session(*ASKED, *LISTED, *MENDED)


def test_a_session_gives_its_calls_and_what_ran():
    trace = one(*RUN)
    assert (trace.source.format, trace.source.version, trace.id, trace.status) == ("codex", "0.65.0", "s-1", "ok")
    assert (trace.input, trace.output) == ("mend it", "mended ✅")
    assert trace.metadata == {"cwd": "/shop", "gitBranch": "main"}
    first, second, third = trace.model_calls
    assert (first.model, first.parameters) == ("gpt-5-codex", {"reasoning": {"effort": "high"}})
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert [part["type"] for part in first.reply["parts"]] == ["reasoning", "tool_call", "tool_call"]
    used = {"input_tokens": 100, "output_tokens": 20, "cache_read.input_tokens": 4, "reasoning.output_tokens": 2}
    assert first.usage == used
    assert (second.usage, third.usage["output_tokens"]) == ({}, 9)
    assert (first.ended - first.started) == 5 * 10**9
    assert [(run.name, run.seen, run.fault and run.fault.type) for run in trace.tool_runs] == [
        ("shell", {"output": "a b", "metadata": {"exit_code": 0}}, None),
        ("shell", "Exit code: 1\nOutput:\nno such file", "exit code 1"),
        ("apply_patch", "Success", None),
    ]
    assert trace.missing == ()


def test_a_session_that_was_cut_or_that_an_error_ended_and_a_fork():
    trace = one(*session(*ASKED, *LISTED))
    assert [run.executed for run in trace.tool_runs] == [True, False]
    assert (trace.status, trace.output, trace.missing) == ("", None, ("result of shell, call 2",))
    with pytest.raises(TraceIncomplete, match="holds no response_item"):
        read(*session(("session_meta", META)))
    broken = event("error", message="exceeded retry limit, last status: 429")
    forked = [("session_meta", {"id": "s-2", "forked_from_id": "s-1"}), *ASKED, *LISTED, *MENDED, broken]
    other = [("session_meta", {"id": "s-9"}), said("user", "hey"), said("assistant", "ho")]
    first, second = read(*session(*forked, *other))
    assert (first.id, first.status, first.fault.type, first.limits) == ("s-2", "error", "error", "")
    assert first.model_calls[0].messages[0]["role"] == "system"
    assert (second.id, second.output) == ("s-9", "ho")


def test_after_a_compaction_the_model_saw_the_summary():
    onward = [("compacted", {"message": "so far"}), said("user", "on"), said("assistant", "ok")]
    trace = one(*session(*ASKED, *LISTED, *MENDED, *onward))
    texts = [[part["content"] for part in message["parts"]] for message in trace.model_calls[-1].messages]
    assert texts == [["Be exact."], ["so far", "on"]]
    kept = ("compacted", {"message": "", "replacement_history": [said("user", "kept")[1]]})
    trace = one(*session(*ASKED, kept, said("assistant", "ok")))
    assert trace.model_calls[-1].messages[-1]["parts"] == [{"type": "text", "content": "kept"}]


def test_before_there_were_payloads_the_items_were_the_rows():
    named = {"id": "o-1", "timestamp": "2025-08-01T00:00:00.000Z", "instructions": None, "git": {}}
    shell = {"type": "local_shell_call", "call_id": "l1", "action": {"type": "exec", "command": ["ls"]}}
    told = {"type": "function_call_output", "call_id": "l1", "output": "a"}
    trace = one(named, {"record_type": "state"}, said("user", "hi")[1], shell, told, said("assistant", "ok")[1])
    assert (trace.source.format, trace.id, trace.output) == ("codex", "o-1", "ok")
    assert [(run.name, run.seen) for run in trace.tool_runs] == [("local_shell", "a")]
