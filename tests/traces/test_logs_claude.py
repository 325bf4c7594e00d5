"""Sessions of Claude Code: forks, pieces of one reply, sub-agents, errors that the program words, `claude -p`."""

from tests.traces.neutral import one, read, tools


def row(uuid, parent, message, *, at, **more):
    common = {"sessionId": "s-1", "timestamp": f"2026-11-20T10:00:{at:02}Z", "message": message}
    return {"type": message["role"], "uuid": uuid, "parentUuid": parent, **common, **more}


def user(uuid, parent, content, *, at, **more):
    return row(uuid, parent, {"role": "user", "content": content}, at=at, **more)


def said(uuid, parent, *blocks, at, reply="", model="claude-x", **more):
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    message = {"role": "assistant", "model": model, "content": content} | ({"id": reply} if reply else {})
    return row(uuid, parent, message, at=at, **more)


def use(number, name="Bash", **arguments):
    return {"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}


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
    trace = one(*SESSION)
    first, second = trace.model_calls
    assert [part["type"] for part in first.reply["parts"]] == ["text", "tool_call", "tool_call"]
    assert tools(trace) == [("Bash", {"command": "ls"}, "a.txt"), ("Bash", {"command": "pwd"}, "no")]
    assert [run.result for run in trace.tool_runs] == [{"stdout": "a.txt", "stderr": ""}, "no"]
    assert [run.fault and run.fault.message for run in trace.tool_runs] == [None, "no"]
    assert (second.model, second.provider, second.response_id) == ("claude-x", "anthropic", "m2")
    assert (trace.output, trace.missing) == ("One file.", ())
    assert not any("branches" in loss for loss in trace.losses)
    assert read(*reversed(SESSION)) == [trace], "rows are put in order by time"
    unasked = user("r9", "a4", result(9, "x"), at=7)
    assert len(one(*SESSION, unasked).tool_runs) == 2, "a result that nobody asked for is none"


def test_the_newest_branch_is_taken_and_the_rest_is_said():
    told = "{} rows are of branches that were gone back on: the newest branch is taken"
    trace = one(*SESSION, said("c1", "r2", "Another answer.", at=20, reply="m3"))
    assert (trace.output, len(trace.tool_runs)) == ("Another answer.", 2)
    assert told.format(1) in trace.losses
    again = user("u2", None, "list the files, hidden too", at=10)
    longer = one(*SESSION, again, said("b1", "u2", "None is hidden.", at=11, reply="m9"))
    assert (longer.output, len(longer.model_calls)) == ("None is hidden.", 1)
    assert told.format(7) in longer.losses
    assert [run.id for run in read(*SESSION, *({**row, "sessionId": "s-2"} for row in SESSION))] == ["s-1", "s-2"]
    lines = [{name: row[name] for name in row if name not in {"uuid", "parentUuid"}} for row in SESSION]
    web = one({"loglines": lines})
    assert (web.source.format, len(web.tool_runs), web.output) == ("claude-code", 2, "One file.")
    boundary = {"type": "system", "uuid": "cb", "parentUuid": None, "logicalParentUuid": "a4", "sessionId": "s-1"}
    summary = user("s1", "cb", "Summary: one file.", at=31, isCompactSummary=True)
    fork = said("c1", "r2", "Another answer.", at=7, reply="m3")
    trace = one(*SESSION, fork, boundary, summary, said("s2", "s1", "And on we go.", at=32, reply="m4"))
    assert [message["parts"][0]["content"] for message in trace.model_calls[-1].messages] == ["Summary: one file."]
    assert "Another answer." not in repr(trace.model_calls)
    assert "1 rows are of branches that were gone back on: the newest branch is taken" in trace.losses


def test_what_a_sub_agent_did_stands_beside_under_a_name_of_its_own():
    def beside(*rows, session=SESSION):
        return one(*session, *(row | {"isSidechain": True} for row in rows))

    found, end = user("x3", "x2", result(7, "found"), at=3), said("x4", "x3", "Found it.", at=4, reply="m8")
    searched = said("x2", "x1", use(7, command="grep"), at=3, reply="m7")
    trace = beside(user("x1", None, "search", at=2), searched, found, end)
    assert trace.output == "One file."
    assert {step.agent for step in trace.steps} == {"", "sub-agent 1"}
    assert [(run.name, run.seen) for run in trace.tool_runs if run.agent] == [("Bash", "found")]
    assert trace.model_calls[0].messages[0]["parts"][0]["content"] == "list the files"
    other = said("y1", None, "Another one.", at=5, reply="m9")
    trace = beside(searched | {"parentUuid": None}, found | {"agentId": "ab12"}, end, other)
    assert [step.agent for step in trace.steps if step.agent] == ["ab12", "ab12", "ab12", "sub-agent 2"]
    alone = beside(*(row | {"agentId": "ab12"} for row in SESSION), session=[])
    assert (len(alone.model_calls), alone.output) == (2, "One file."), "a file of one sub-agent is a run"


def test_what_the_program_says_in_the_place_of_the_assistant_is_no_reply():
    asked = user("u0", None, "mend", at=0)
    failed = said("u1", "u0", "API Error: 529 overloaded", at=1, model="<synthetic>", isApiErrorMessage=True)
    nothing = said("u3", "u2", "No response requested.", at=3, model="<synthetic>")
    later = [user("u4", "u3", "go on", at=4), said("u5", "u4", "done", at=5, reply="m5")]
    trace = one(asked, failed, user("u2", "u1", "again", at=2), nothing, *later)
    first, second = trace.model_calls
    assert (first.reply, first.model, first.fault.message) == (None, "", "API Error: 529 overloaded")
    texts = [message["parts"][0].get("content") for message in second.messages]
    assert texts == ["mend", "No response requested.", "go on"]
    assert trace.output == "done"
    broken = one(asked, failed)
    assert (broken.output, len(broken.faults)) == (None, 1)


def test_what_claude_prints_in_a_script_is_a_session():
    inside = {"parent_tool_use_id": "t1"}
    rows = [
        {"type": "system", "subtype": "init", "tools": ["Bash"]},
        user("", None, "mend", at=0),
        said("", None, use(1, "Task", prompt="look"), at=1, reply="m1"),
        said("", None, use(2, command="ls"), at=2, reply="m2") | inside,
        user("", None, result(2, "a"), at=3) | inside,
        user("", None, result(1, "seen"), at=4),
        {"type": "result", "subtype": "error_max_turns", "is_error": True, "result": "stopped"},
    ]
    ours = {"uuid", "parentUuid", "timestamp", "sessionId"}
    trace = one(*({name: row[name] for name in row if name not in ours} | {"session_id": "z"} for row in rows))
    assert (trace.source.format, trace.id, trace.status, trace.input) == ("claude-code", "z", "error", "mend")
    assert (trace.fault.message, trace.limits) == ("stopped", "error_max_turns")
    ran = sorted((run.name, run.seen, run.agent) for run in trace.tool_runs)
    assert ran == [("Bash", "a", "t1"), ("Task", "seen", "")]
    assert not any("no messages" in loss for loss in trace.losses)
