"""Claude Code beside its own files: errors that the program words, what `claude -p` prints; and ReplayKit's errors."""

import json

import pytest

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.interchange.reading import traces


def read(*rows):
    return traces([("session.jsonl", "\n".join(map(json.dumps, rows)).encode())])


def said(number, *blocks, model="claude-opus", **more):
    message = {"id": f"m{number}", "type": "message", "role": "assistant", "model": model, "content": [*blocks]}
    return {"type": "assistant", "message": message, **more}


def asked(content, **more):
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def text(words):
    return {"type": "text", "text": words}


def in_session(*rows):
    return [
        {**row, "sessionId": "s", "uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None}
        for at, row in enumerate(rows)
    ]


def test_what_the_program_says_in_the_place_of_the_assistant_is_no_reply():
    failed = said(2, text("API Error: 529 overloaded"), model="<synthetic>", isApiErrorMessage=True)
    nothing = said(4, text("No response requested."), model="<synthetic>")

    (trace,) = read(*in_session(asked("mend"), failed, asked("again"), nothing, asked("go on"), said(5, text("done"))))

    first, second = trace.model_calls
    assert (first.reply, first.model, first.fault.message) == (None, "", "API Error: 529 overloaded")
    assert [message["parts"][0].get("content") for message in second.messages] == [
        "mend",
        "No response requested.",
        "go on",
    ]
    assert trace.output == "done"
    (broken,) = read(*in_session(asked("mend"), failed))
    assert (broken.output, len(broken.faults)) == (None, 1)


def test_what_claude_prints_in_a_script_is_a_session():
    use = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look"}}
    inner = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "ls"}}
    end = {"type": "result", "subtype": "error_max_turns", "is_error": True, "result": "stopped"}

    (trace,) = read(
        *(
            {**row, "session_id": "z"}
            for row in (
                {"type": "system", "subtype": "init", "tools": ["Bash"]},
                asked("mend"),
                said(1, use),
                said(2, inner, parent_tool_use_id="t1"),
                asked([{"type": "tool_result", "tool_use_id": "t2", "content": "a"}], parent_tool_use_id="t1"),
                asked([{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}]),
                end,
            )
        )
    )

    assert (trace.source.format, trace.id, trace.status, trace.input) == ("claude-code", "z", "error", "mend")
    assert (trace.fault.message, trace.limits) == ("stopped", "error_max_turns")
    assert sorted((run.name, run.seen, run.agent) for run in trace.tool_runs) == [
        ("Bash", "a", "t1"),
        ("Task", "seen", ""),
    ]
    assert not any("no messages" in loss for loss in trace.losses)


def test_an_error_of_replaykit_has_its_class():
    events = [{"type": "tool_call", "tool_name": "f"}, {"type": "error", "error": "shop.TimeoutError: late"}]
    (trace,) = read({"run_id": "r", "status": "error", "events": events})
    assert (trace.fault.type, trace.fault.message) == ("TimeoutError", "late")


def test_a_trace_of_replaykit_without_events_holds_no_run():
    with pytest.raises(TraceError, match=r"holds no run \(trace of ReplayKit\)"):
        read({"run_id": "r", "status": "ok", "events": []})
