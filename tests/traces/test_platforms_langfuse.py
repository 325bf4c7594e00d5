"""Langfuse: the frameworks behind it, the ways to get a trace, and how often a text is decoded."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.traces.reading import traces
from tests.traces.neutral import AI_SDK, CONTENTS, TRACES, WEATHER, adk, imported, lines, one, text, tools

AGENTS = "public/langfuse/openai-agents-2025-09-30.trace.json"
ASKED = WEATHER


def held(file=AGENTS):
    return json.loads((TRACES / file).read_text(encoding="utf-8"))


def observed(kind, name, given, told, *, at=0, attributes=None, **more):
    times = {"startTime": f"2026-01-01T00:00:0{at}Z", "endTime": f"2026-01-01T00:00:0{at}.5Z"}
    held = {"id": f"{name}-{at}", "traceId": "t", "type": kind, "name": name, "input": given, "output": told}
    return held | times | {"level": "DEFAULT", "metadata": {"attributes": attributes or {}}, **more}


def trace_of(*observations, **more):
    """The run of a trace with these observations."""
    return one({"trace": {"id": "t", **more}, "observations": [*observations]})


SHAPES = {
    "trace of the API": lambda whole: [{**whole["trace"], "observations": whole["observations"]}],
    "observations of the API": lambda whole: [{"data": whole["observations"], "meta": {"page": 1}}],
    "a row each": lambda whole: whole["observations"][::-1],
    "twice": lambda whole: [whole, whole],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_trace_got_in_any_way_is_the_same_run(shape):
    known, found = imported(AGENTS)[0], one(*SHAPES[shape](held()))
    assert found.steps == known.steps
    assert (found.input, found.output, found.id) == (known.input, known.output, known.id)


def test_a_trace_without_what_was_said_is_refused():
    with pytest.raises(TraceIncomplete, match="/api/public/traces/ID"):
        one({**held()["trace"], "observations": ["a", "b"]})
    bare = [{**observation, "input": None, "output": None, "metadata": {}} for observation in held()["observations"]]
    with pytest.raises(TraceIncomplete, match="fields=core,basic,io"):
        one({"trace": held()["trace"], "observations": bare})


def test_what_a_user_wrote_is_never_decoded():
    said = '{"order": "A-17"}'
    asked, chat = [{"role": "user", "content": said}], {"role": "assistant", "content": said}
    for given, told in ((asked, chat), (said, said)):
        call, root = observed("GENERATION", "chat", given, told), observed("SPAN", "root", {"a": 1}, said)
        (call,) = trace_of(call, root).model_calls
        assert call.messages[0] == text("user", said)
        assert call.reply["parts"] == text("assistant", said)["parts"]
    call = observed("GENERATION", "chat", json.dumps(asked), json.dumps(chat))
    texts = trace_of(call, input=json.dumps(json.dumps(asked)))
    assert texts.model_calls[0].messages[0] == text("user", said)
    assert (texts.input, texts.output) == (said, said)
    number = trace_of(observed("GENERATION", "chat", "42", "42"), input='"42"', output="42")
    assert (number.input, number.output) == ("42", "42")
    assert number.model_calls[0].messages[0] == text("user", "42")


TOOL = {"gen_ai.tool.name": "get_weather", "gen_ai.tool.call.id": "call_1"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "gen_ai.provider.name": "openai"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Tokyo"}'}}
SCHEMA = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
SUNNY = {"sky": "sunny"}
PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": {"city": "Tokyo"}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "name": "get_weather", "result": SUNNY}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]},
]  # fmt: skip
EVENTS = [
    {"role": "user", "content": ASKED, "event.name": "gen_ai.user.message", "gen_ai.message.index": 0},
    {"role": "assistant", "tool_calls": [CALL], "event.name": "gen_ai.assistant.message"},
    {"role": "tool", "content": json.dumps(SUNNY), "id": "call_1", "name": "get_weather", "event.name": "gen_ai.tool.message"},
]  # fmt: skip
LANGCHAIN_CALL = {"name": "get_weather", "args": {"city": "Tokyo"}, "id": "call_1", "type": "tool_call"}
LANGCHAIN = [
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [CALL]}},
    {"role": "tool", "content": json.dumps(SUNNY), "tool_call_id": "call_1"},
    {"role": "tool", "content": SCHEMA},
]


FRAMEWORKS = {
    "pydantic-ai": [
        observed("AGENT", "invoke_agent weather", None, None, attributes={"gen_ai.agent.name": "weather", "gen_ai.operation.name": "invoke_agent"}),
        observed("GENERATION", "chat gpt-5", PARTS[:1], PARTS[1:2], at=1, attributes=CHAT | {"model_request_parameters": json.dumps({"function_tools": [{"name": "get_weather", "parameters_json_schema": {}}]})}),
        observed("SPAN", "execute_tool get_weather", {"city": "Tokyo"}, SUNNY, at=2, attributes=TOOL | {"gen_ai.operation.name": "execute_tool"}),
        observed("GENERATION", "chat gpt-5", PARTS[:3], PARTS[3:], at=3, attributes=CHAT),
    ],
    "pydantic-ai before": [
        observed("SPAN", "agent run", None, None, attributes={"agent_name": "weather"}),
        observed("GENERATION", "chat gpt-5", EVENTS[:1], {"index": 0, "message": EVENTS[1]}, at=1, attributes=CHAT),
        observed("SPAN", "running tool: get_weather", '{"city": "Tokyo"}', json.dumps(SUNNY), at=2, attributes={"logfire.msg": "running tool: get_weather"}),
        observed("GENERATION", "chat gpt-5", EVENTS, {"index": 0, "message": {"role": "assistant", "content": "Sunny."}}, at=3, attributes=CHAT),
    ],
    "adk": [
        observed("AGENT", "invoke_agent weather", None, None, attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}),
        observed("GENERATION", "call_llm", adk(CONTENTS[:1]), {"content": CONTENTS[1], "finish_reason": "STOP"}, at=1, model="gemini-2.5-flash"),
        observed("SPAN", "generate_content gemini-2.5-flash", None, None, at=1, attributes={"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "gemini-2.5-flash"}, parentObservationId="call_llm-1"),
        observed("SPAN", "execute_tool get_weather", {"city": "Tokyo"}, SUNNY, at=2, attributes=TOOL | {"gen_ai.operation.name": "execute_tool"}),
        observed("SPAN", "execute_tool (merged)", {}, SUNNY, at=2, attributes={"gen_ai.tool.name": "(merged tools)"}),
        observed("GENERATION", "call_llm", adk(CONTENTS[:3]), {"content": CONTENTS[3], "finish_reason": "STOP"}, at=3, model="gemini-2.5-flash"),
    ],
    "adk in attributes": [
        observed("SPAN", "call_llm", None, None, at=1, attributes={"gcp.vertex.agent.llm_request": json.dumps(adk(CONTENTS[:1])), "gcp.vertex.agent.llm_response": json.dumps({"content": CONTENTS[1]})}),
        observed("SPAN", "execute_tool get_weather", None, None, at=2, attributes={"gcp.vertex.agent.tool_call_args": '{"city": "Tokyo"}', "gcp.vertex.agent.tool_response": json.dumps(SUNNY)}),
        observed("SPAN", "call_llm", None, None, at=3, attributes={"gcp.vertex.agent.llm_request": json.dumps(adk(CONTENTS[:3])), "gcp.vertex.agent.llm_response": json.dumps({"content": CONTENTS[3]})}),
    ],
    "ai sdk": [
        observed("GENERATION", "ai.generateText", {"prompt": ASKED}, "Sunny.", model="gpt-5", endTime="2026-01-01T00:00:04Z"),
        observed("GENERATION", "ai.generateText.doGenerate", {"messages": AI_SDK[:1], "tools": [SCHEMA]}, [{"toolCallId": "call_1", "toolName": "get_weather", "input": '{"city": "Tokyo"}'}], at=1, model="gpt-5", parentObservationId="ai.generateText-0"),
        observed("TOOL", "ai.toolCall", {"city": "Tokyo"}, SUNNY, at=2, attributes={"ai.toolCall.name": "get_weather", "ai.toolCall.id": "call_1"}, parentObservationId="ai.generateText-0"),
        observed("GENERATION", "ai.generateText.doGenerate", {"messages": AI_SDK, "tools": [SCHEMA]}, "Sunny.", at=3, model="gpt-5", parentObservationId="ai.generateText-0"),
    ],
    "langgraph": [
        observed("CHAIN", "LangGraph", {"messages": [{"type": "human", "content": ASKED}]}, {"messages": [{"type": "ai", "content": "Sunny."}]}),
        observed("GENERATION", "ChatOpenAI", [LANGCHAIN[0], LANGCHAIN[3]], LANGCHAIN[1], at=1, model="gpt-5"),
        observed("SPAN", "get_weather", "{'city': 'Tokyo'}", {"type": "tool", "content": json.dumps(SUNNY), "tool_call_id": "call_1", "status": "success"}, at=2),
        observed("GENERATION", "ChatOpenAI", LANGCHAIN, {"role": "assistant", "content": "Sunny."}, at=3, model="gpt-5"),
    ],
    "langchain": [
        observed("GENERATION", "ChatOpenAI", [LANGCHAIN[0], LANGCHAIN[3]], {"role": "assistant", "content": "", "tool_calls": [LANGCHAIN_CALL]}, at=1, model="gpt-5"),
        observed("TOOL", "get_weather", {"args": [], "kwargs": {"city": "Tokyo"}}, SUNNY, at=2, metadata={"tool_call_id": "call_1"}),
        observed("GENERATION", "ChatOpenAI", [LANGCHAIN[0], {"role": "assistant", "content": "", "tool_calls": [LANGCHAIN_CALL]}, LANGCHAIN[2], LANGCHAIN[3]], {"role": "assistant", "content": "Sunny."}, at=3, model="gpt-5"),
    ],
    "the OpenAI wrapper": [
        observed("SPAN", "handle", {"args": [], "kwargs": {"question": ASKED}}, "Sunny."),
        observed("GENERATION", "OpenAI-generation", {"messages": [{"role": "user", "content": ASKED}], "tools": [SCHEMA]}, {"role": "assistant", "content": None, "tool_calls": [CALL]}, at=1, model="gpt-5", modelParameters={"temperature": 1, "top_p": 1, "frequency_penalty": 0, "max_tokens": "Infinity", "seed": 7}),
        observed("SPAN", "get_weather", {"args": [], "kwargs": {"city": "Tokyo"}}, SUNNY, at=2),
        observed("GENERATION", "OpenAI-generation", {"messages": [LANGCHAIN[0], {"role": "assistant", "content": None, "tool_calls": [CALL]}, LANGCHAIN[2]], "tools": [SCHEMA]}, {"role": "assistant", "content": "Sunny."}, at=3, model="gpt-5"),
    ],
}  # fmt: skip


def as_texts(observation):
    """An observation whose values are written as JSON."""
    sides = {side: observation[side] for side in ("input", "output", "metadata")}
    return observation | {side: json.dumps(it) for side, it in sides.items() if isinstance(it, dict | list)}


@pytest.mark.parametrize("form", [dict, as_texts], ids=["values", "texts"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_is_read_by_what_it_leaves(name, form):
    trace = trace_of(*map(form, FRAMEWORKS[name][::-1]), name="weather")
    assert [getattr(step, "name", "model") for step in trace.steps] == ["model", "get_weather", "model"]
    (run,), (first, last) = trace.tool_runs, trace.model_calls
    assert tools(trace) == [("get_weather", {"city": "Tokyo"}, SUNNY)]
    assert (run.result, run.executed) == (SUNNY, True)
    assert run.call_id == ("" if name.startswith("adk in") else "call_1")
    assert first.dialect == ("gemini" if name.startswith("adk") else "openai_chat")
    assert first.messages[-1] == text("user", ASKED)
    assert [(part["type"], part["name"]) for part in first.reply["parts"]] == [("tool_call", "get_weather")]
    assert first.model in {"gpt-5", "gemini-2.5-flash"}
    assert [tool["name"] for tool in first.tools] == ["get_weather"] * (name != "pydantic-ai before")
    assert last.reply["parts"] == text("assistant", "Sunny.")["parts"]
    assert (trace.output, trace.missing) == ("Sunny.", ())


def test_a_call_of_a_tool_that_a_call_asked_for_is_another_call_and_what_is_no_call_is_counted():
    asked, tool, last = FRAMEWORKS["langchain"]
    inside = observed("GENERATION", "translate", "translate", "heiter", at=2, parentObservationId=tool["id"])
    leaf = observed("RETRIEVER", "search", "x", [], at=4)
    trace = trace_of(asked, tool | {"parentObservationId": asked["id"]}, inside, last, leaf)
    assert [getattr(step, "name", "model") for step in trace.steps] == ["model", "get_weather", "model", "model"]
    assert trace.losses[-1] == "1 records of neither a model nor a tool are left out"
    around = observed("GENERATION", "ChatModel", asked["input"], asked["output"], endTime="2026-01-01T00:00:02Z")
    trace = trace_of(around, asked | {"parentObservationId": around["id"]}, tool, last)
    assert len(trace.model_calls) == 2
    assert trace.losses[-1] == "1 records repeat calls that other records hold: each call is kept once"


def test_an_error_of_an_observation_is_a_fault_and_parameters_that_a_wrapper_made_up_are_left_out():
    error = {"level": "ERROR", "statusMessage": "ValueError('no such city')", "output": None}
    root, asked, tool, answered = FRAMEWORKS["langgraph"]
    trace = trace_of(root, asked, tool | error, answered)
    assert trace.status == "ok"
    assert [(fault.type, fault.message) for fault in trace.faults] == [("ValueError", "no such city")]
    trace = trace_of(*FRAMEWORKS["the OpenAI wrapper"])
    assert trace.model_calls[0].parameters == {"seed": 7}
    assert trace.input == {"question": ASKED}
    root = observed("SPAN", "handle", {"args": [ASKED], "kwargs": {}}, "Sunny.")
    assert trace_of(root, *FRAMEWORKS["the OpenAI wrapper"][1:]).input == ASKED
    assert trace.losses[1].endswith("temperature, top_p, frequency_penalty, max_tokens")


def test_events_of_the_old_ingestion_and_files_of_a_bucket_are_joined():
    about = {"id": "t", "name": "weather", "userId": "u-7", "sessionId": "s", "tags": ["prod"]}
    began = {"id": "g", "traceId": "t", "name": "chat", "startTime": "2026-01-01T00:00:00Z", "model": "gpt-5"}
    asked = {"input": [{"role": "user", "content": ASKED}]}
    ended = {"id": "g", "traceId": "t", "endTime": "2026-01-01T00:00:01Z"}
    told = {"output": {"role": "assistant", "content": "Sunny."}}
    bodies = {"trace-create": about, "generation-create": began | asked, "generation-update": ended | told}
    trace = one({"batch": [{"id": kind, "type": kind, "body": body} for kind, body in bodies.items()]})
    assert (trace.user, trace.session, trace.tags, trace.output) == ("u-7", "s", ("prod",), "Sunny.")
    began, ended = "2026-11-20 10:00:00.000", "2026-11-20 10:00:01.000"
    ids = {"id": "o1", "trace_id": "t1", "project_id": "p", "parent_observation_id": None, "type": "GENERATION"}
    said = {"input": json.dumps([{"role": "user", "content": "hi"}])}
    said |= {"output": json.dumps({"role": "assistant", "content": "yo"})}
    used = {"provided_model_name": "gpt-4o", "usage_details": {"input": 1, "output": 2}, "level": "DEFAULT"}
    trace = {"id": "t1", "project_id": "p", "timestamp": began, "user_id": "u-7", "session_id": "s", "tags": ["prod"]}
    trace |= {"bookmarked": False, "input": json.dumps("hi"), "output": json.dumps("yo")}
    observation = ids | said | used | {"start_time": began, "end_time": ended}
    (found,) = traces([("observations.jsonl", lines(observation)), ("t.jsonl", lines(trace))])
    assert (found.source.format, found.id, found.user, found.session) == ("langfuse", "t1", "u-7", "s")
    assert (found.input, found.output, found.tags) == ("hi", "yo", ("prod",))
    assert (found.model_calls[0].model, found.model_calls[0].usage["output_tokens"]) == ("gpt-4o", 2)
