"""What each family of attributes tells beyond the refund run: older names, other providers, several observers of one call."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.traces.reading import traces
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall
from tests.traces import neutral
from tests.traces.neutral import REFUND, TRACES, asks, gives, imported, lines, one, read, refund_facts, text, tools

FLATTENED = "generated/openllmetry/otlp_compare_flattened.json"
ANTHROPIC = "generated/openinference/otlp_compare_anthropic_stream.json"
OPENINFERENCE = "generated/openinference/otlp_refund.jsonl"
SECOND = 1_000_000_000


def value(held):
    if isinstance(held, list):
        return {"arrayValue": {"values": [value(one) for one in held]}}
    if isinstance(held, dict):
        return {"kvlistValue": {"values": pairs(held)}}
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue"}
    return {kinds.get(type(held), "stringValue"): str(held) if type(held) is int else held}


def pairs(held):
    return [{"key": key, "value": value(one)} for key, one in held.items()]


def span(number, name, attributes, *, parent=0, events=(), scope="acme", **more):
    at = str(number * SECOND)
    made = {"traceId": f"{1:032x}", "spanId": f"{number:016x}", "name": name, "attributes": pairs(attributes)}
    made |= {"startTimeUnixNano": at, "endTimeUnixNano": str((number + 1) * SECOND)}
    made["events"] = [{"name": event, "attributes": pairs(held), "timeUnixNano": at} for event, held in events]
    made |= ({"parentSpanId": f"{parent:016x}"} if parent else {}) | more
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [made]}]}]}


MODEL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
HI, HO, ASKS = text("user", "hi"), text("assistant", "ho"), asks(("c1", "look", {"x": 1}))


def chat(number, asked=(HI,), told=HO, **more):
    """A span of a call of a model; `attributes` are further ones."""
    held = {"gen_ai.input.messages": json.dumps([*asked]), "gen_ai.output.messages": json.dumps([told])}
    return span(number, "chat m", MODEL | held | more.pop("attributes", {}), **more)


def agent(number, name="", **more):
    named = {"gen_ai.agent.name": name} if name else {}
    return span(number, f"invoke_agent {name}", {"gen_ai.operation.name": "invoke_agent"} | named, **more)


def tool(number, name="look", **more):
    """A span of a tool, with attributes `gen_ai.tool.*`; what has no name there goes to the span."""
    inside = {f"gen_ai.tool.call.{key}": more.pop(key) for key in ("id", "arguments", "result") if key in more}
    held = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return span(number, f"execute_tool {name}", held | inside, **more)


def test_attributes_that_openllmetry_spread_over_many_names():
    (trace,) = imported(FLATTENED)
    first = trace.model_calls[0]
    assert [run.call_id for run in trace.tool_runs] == ["call_0", "call_1"]
    assert tools(trace) == [("get_weather", {"city": "Oslo"}, {"c": 9}), ("get_weather", {"city": "Kraków"}, {"c": 18})]
    assert (trace.name, first.provider, first.dialect) == ("compare", "openai", "openai_chat")
    assert (first.usage, first.fingerprint) == ({"input_tokens": 10, "output_tokens": 5}, "fp_1")
    assert first.tools[0]["parameters"] == {"type": "object", "properties": {"city": {"type": "string"}}}
    assert [call.finish_reasons for call in trace.model_calls] == [("tool_calls",), ("stop",)]


@pytest.mark.parametrize("name", [OPENINFERENCE, ANTHROPIC])
def test_openinference_without_whole_bodies_says_the_same_but_less(name):
    (usual,) = imported(name)
    data = (TRACES / name).read_bytes().replace(b'"input.value"', b'"hidden"').replace(b'"output.value"', b'"hidden"')
    (trace,) = traces([(name, data)])
    assert (usual.source.fidelity, trace.source.fidelity) == ("body-json", "semantic")
    for mine, whole in zip(trace.model_calls, usual.model_calls, strict=True):
        assert (mine.messages, mine.reply) == (whole.messages, whole.reply)
        assert (mine.model, mine.finish_reasons) == (whole.model, whole.finish_reasons)
        assert mine.usage.items() <= whole.usage.items()
        assert [tool["name"] for tool in mine.tools] == [tool["name"] for tool in whole.tools]
    assert [run.seen for run in trace.tool_runs] == [run.seen for run in usual.tool_runs]
    if name == ANTHROPIC:
        first = usual.model_calls[0]
        assert (first.dialect, first.stream) == ("anthropic", True)
        assert json.loads(first.request.body.data)["system"] == "Be brief."
        assert [(run.call_id, run.seen) for run in usual.tool_runs] == [("toolu_0", {"c": 9}), ("toolu_1", {"c": 18})]
        assert first.reply["parts"][0] == {"type": "text", "content": "Let me see."}


SAID = "llm.input_messages.0.message"


BARE = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system": "openai"}
REDACTED = {"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": "__REDACTED__"}
REDACTED |= {f"{SAID}.role": "user", f"{SAID}.content": "__REDACTED__"}
GENERATION = {"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m"}
SETTINGS = [
    ("opentelemetry.instrumentation.openai.v1", "TRACELOOP_TRACE_CONTENT=true", BARE),
    ("opentelemetry.instrumentation.openai_v2", "INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true", BARE),
    ("opentelemetry.instrumentation.genai.openai", "GENAI_CAPTURE_MESSAGE_CONTENT=span_only", BARE),
    ("langfuse-sdk", "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true", BARE),
    ("langfuse-sdk", "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true", GENERATION),
    ("pydantic-ai", "include_content=True", BARE),
    ("agent_framework", "ENABLE_SENSITIVE_DATA=true", BARE),
    ("ai", "recordInputs: true", BARE),
    ("@opentelemetry/instrumentation-openai", "together with the spans", BARE),
    ("Experimental.Microsoft.Extensions.AI", "EnableSensitiveData = true", BARE),
    ("org.springframework.boot", "log-completion=true", BARE),
    ("haystack.tracing.opentelemetry", "HAYSTACK_CONTENT_TRACING_ENABLED=true", BARE),
    ("litellm", "turn_off_message_logging = False", BARE),
    ("azure.ai.projects", "AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true", BARE),
    ("gcp.vertex.agent", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true", BARE),
    ("openinference.instrumentation.openai", "OPENINFERENCE_HIDE_INPUTS=false", REDACTED),
]


def test_spans_without_content_name_the_setting_of_their_library():
    for scope, setting, held in SETTINGS:
        with pytest.raises(TraceIncomplete, match=setting):
            read(span(1, "chat m", held, scope=scope))


def test_messages_are_texts_of_json_or_real_lists_and_instructions_stand_apart_or_among_them():
    real = one(span(1, "chat", MODEL | {"gen_ai.input.messages": [HI], "gen_ai.output.messages": [HO]}))
    written = one(chat(1))
    assert real.model_calls[0].messages == written.model_calls[0].messages == (HI,)
    assert real.output == written.output == "ho"
    trace = one(chat(1, attributes={"gen_ai.system_instructions": json.dumps(text("", "be kind")["parts"])}))
    assert (trace.model_calls[0].messages, trace.input) == ((text("system", "be kind"), HI), "hi")


def test_events_of_a_span_in_an_attribute_of_it_or_in_a_log_alone_tell_its_messages():
    held = {"gen_ai.system": "az.ai.inference", "gen_ai.request.model": "m", "gen_ai.operation.name": "chat"}
    told = {"message": {"content": "ho"}, "finish_reason": "stop"}
    bodies = {"gen_ai.user.message": {"role": "user", "content": "hi"}, "gen_ai.choice": told}
    events = [(name, {"gen_ai.event.content": json.dumps(body)}) for name, body in bodies.items()]
    trace = one(span(1, "chat m", held, events=events))
    (call,) = trace.model_calls
    assert (trace.input, trace.output, call.finish_reasons, call.provider) == (
        "hi",
        "ho",
        ("stop",),
        "azure.ai.inference",
    )
    asked = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]}
    gave = {"role": "tool", "tool_call_id": "c1", "content": "7"}
    turn = [("gen_ai.assistant.message", asked), ("gen_ai.tool.message", gave)]
    turn = [(name, {"gen_ai.event.content": json.dumps(body)}) for name, body in turn]
    (call,) = one(span(1, "chat m", held, events=[*events[:1], *turn, *events[1:]])).model_calls
    assert call.messages[-1] == gives(("c1", 7))
    kept = [{"event.name": name, **body} for name, body in bodies.items()]
    kept.insert(0, {"event.name": "gen_ai.system.message", "role": "system", "content": "be kind"})
    held = {"gen_ai.system": "openai", "gen_ai.request.model": "m", "events": json.dumps(kept)}
    trace = one(span(1, "chat m", held, scope="pydantic-ai"))
    assert (trace.model_calls[0].messages, trace.output) == ((text("system", "be kind"), HI), "ho")
    held = MODEL | {"event.name": "gen_ai.client.inference.operation.details"}
    held |= {"gen_ai.input.messages": [HI], "gen_ai.output.messages": [HO]}
    record = {"traceId": f"{1:032x}", "timeUnixNano": "0", "attributes": pairs(held)}
    trace = one({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    assert [type(step) for step in trace.steps] == [ModelCall]
    assert trace.output == "ho"


def test_one_call_that_two_instrumentations_saw_is_one_step():
    spread = {f"{SAID}.role": "user", f"{SAID}.content": "h...", "llm.output_messages.0.message.content": "ho"}
    until = {"endTimeUnixNano": str(9 * SECOND), "parent": 1}
    outer = span(2, "C", {"openinference.span.kind": "LLM", "llm.model_name": "m"} | spread, **until)
    held = {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": '{"x": 1}'}
    nested = tool(5, id="c1", result="7", parent=4)
    trace = one(
        chat(3, parent=2), outer, nested, span(4, "look", held, **until), agent(1, "a", **until | {"parent": 0})
    )
    (call,), (run,) = trace.model_calls, trace.tool_runs
    assert (call.messages, call.reply["parts"][0]["content"], call.agent) == ((HI,), "ho", "a"), "as the richer has it"
    assert (run.arguments, run.result, run.call_id) == ({"x": 1}, 7, "c1")


def test_calls_inside_each_other_are_calls_of_their_own():
    other = [text("user", "translate")], text("assistant", "no")
    ends = {"endTimeUnixNano": str(9 * SECOND)}
    sub_agent = chat(3, *other, parent=2)
    trace = one(agent(8), chat(1, told=ASKS), tool(2, id="c1", result='"no"', parent=1, **ends), sub_agent)
    assert [getattr(step, "name", "model") for step in trace.steps] == ["model", "look", "model"]
    assert trace.missing == ()
    held = {"openinference.span.kind": "LLM", f"{SAID}.role": "user", f"{SAID}.content": "hi"}
    for leaked in (chat(3, *other, parent=1), span(3, "llm", held, parent=1)):
        trace = one(agent(8), chat(1), leaked)
        assert (len(trace.model_calls), [loss for loss in trace.losses if "repeat" in loss]) == (2, [])


def test_spans_of_an_sdk_itself_are_the_calls_that_an_instrumentation_tells():
    """The client of Anthropic writes spans without content beside those of Traceloop."""
    answered = {"gen_ai.response.id": "msg_1"}
    own = span(3, "anthropic.messages.create", BARE | answered, parent=1, endTimeUnixNano=str(3 * SECOND + 1))
    trace = one(agent(1), own, chat(2, attributes=answered, parent=1, endTimeUnixNano=str(4 * SECOND)))
    assert (len(trace.model_calls), trace.output, trace.missing) == (1, "ho", ())
    assert "1 records repeat calls that other records hold: each call is kept once" in trace.losses


def test_what_llama_index_does_before_a_call_is_no_call():
    held = {"openinference.span.kind": "LLM", "llm.model_name": "m", "output.value": '{"tools": []}'}
    said = {f"{SAID}.role": "user", f"{SAID}.content": "hi", "llm.output_messages.0.message.content": "ho"}
    before = span(1, "OpenAI._prepare_chat_with_tools", held, parent=8)
    trace = one(before, span(2, "OpenAI.achat", held | said, parent=8), agent(8))
    assert (len(trace.model_calls), trace.missing) == (1, ())
    assert "1 spans of the kind LLM are left out" in trace.losses


def failed(kind, message, **more):
    """A status and an event that tell of an exception."""
    told = {"exception.type": kind, "exception.message": message} | more
    return {"events": [("exception", told)], "status": {"code": 2}}


def test_faults_of_models_and_the_root():
    asked = MODEL | {"gen_ai.input.messages": json.dumps([HI])}
    late = failed("openai.APITimeoutError", "late", **{"exception.stacktrace": "T"})
    call = span(2, "chat m", asked, parent=1, **late | {"status": {"code": "STATUS_CODE_ERROR"}})
    trace = one(agent(1, **failed("agents.MaxTurnsExceeded", "10")), call)
    assert (trace.status, trace.fault.type, trace.limits) == ("error", "agents.MaxTurnsExceeded", "MaxTurnsExceeded")
    fault = trace.model_calls[0].fault
    assert (fault.type, fault.message, fault.traceback) == ("openai.APITimeoutError", "late", "T")
    assert (trace.model_calls[0].reply, trace.missing) == (None, ())
    limited = one(agent(1, **failed("openai.RateLimitError", "429")), chat(2, parent=1))
    assert limited.limits == "", "a rate limit is no limit of the agent"


def test_steps_are_of_the_nearest_agent_and_spans_that_are_no_step_are_counted():
    other = [text("user", "c")], text("assistant", "d")
    retrieval = span(5, "retrieve", {"openinference.span.kind": "RETRIEVER"}, parent=1)
    trace = one(agent(1, "boss"), agent(2, "clerk", parent=1), chat(3, parent=2), chat(4, *other, parent=1), retrieval)
    assert (trace.name, [call.agent for call in trace.model_calls]) == ("boss", ["clerk", "boss"])
    assert "1 spans of the kind RETRIEVER are left out" in trace.losses

    def until(number):
        return {"endTimeUnixNano": str((20 - number) * SECOND)}

    inner, outer = (tool(n, "ask", arguments=f'{{"n": {n}}}', parent=n - 1, **until(n)) for n in (4, 2))
    trace = one(inner, outer, agent(3, "a3", parent=2, **until(3)), agent(1, "a1", **until(1)))
    assert [(run.arguments, run.agent) for run in trace.tool_runs] == [({"n": 2}, "a1"), ({"n": 4}, "a3")]


def test_langfuse_without_its_own_spans_for_the_calls_and_a_mixed_file():
    """Another instrumentation's spans, sent through Langfuse, keep their own attributes."""
    marks = {"langfuse.trace.tags": ["prod"], "user.id": "u-7", "langfuse.trace.metadata.tenant": '"acme"'}
    trace = one(chat(1, attributes=marks))
    assert trace.source.format == "otlp-langfuse"
    assert (trace.user, trace.tenant, trace.tags, trace.output) == ("u-7", "acme", ("prod",), "ho")
    found = traces([("mixed.jsonl", (TRACES / OPENINFERENCE).read_bytes() + lines(chat(1)))])
    assert {trace.source.format for trace in found} == {"otlp-openinference"}, "the richer family has the first word"
    assert refund_facts(found[-1]) == REFUND


def phoenix(number, name, kind, attributes, parent=None):
    ids = {"context": {"trace_id": "t-1", "span_id": number}, "parent_id": parent, "span_kind": kind, "name": name}
    times = {"start_time": "2026-07-24T12:00:00+00:00", "end_time": "2026-07-24T12:00:01+00:00"}
    return ids | times | {"status_code": "OK", "attributes": attributes}


def test_spans_of_phoenix_in_lists_by_name_with_ids_of_any_form():
    """As projects keep them for tests: made-up ids, a root of nothing but zeros, schemas for parameters."""
    root, calls = "0" * 16, "llm.output_messages.0.message.tool_calls.0.tool_call"
    held = {f"{calls}.id": "c1", f"{calls}.function.name": "list", f"{calls}.function.arguments": ""}
    held |= {f"{SAID}.role": "user", f"{SAID}.content": "hi", "llm.tools.0.tool.json_schema": "{}"}
    ran = {"tool.parameters.type": "object", "tool.parameters.properties.x.type": "string", "tool.name": "list"}
    ran |= {"tool.id": "c1", "output.value": "[1]", "output.mime_type": "application/json"}
    turn = phoenix(root, "turn", "AGENT", {"input.value": "hi", "output.value": "ho", "user.id": "u@example.com"})
    call = phoenix("s02", "m", "LLM", held | {"input.value": "{}", "output.value": "{}"}, root)
    trace = one({"first": [turn, call], "second": [phoenix("s03", "list", "TOOL", ran, root)]})
    assert (trace.source.format, trace.id, trace.name) == ("openinference-spans", "t-1", "turn")
    assert (trace.input, trace.output) == ("hi", "ho")
    assert [(run.call_id, run.arguments, run.result) for run in trace.tool_runs] == [("c1", {}, [1])]
    assert (trace.model_calls[0].tools, trace.missing, trace.user) == ((), (), "u@example.com")
    trace = one([phoenix("s1", "m", "LLM", {"input.value": "hi", "output.value": "ho", "llm.model_name": "m"})])
    assert (trace.model_calls[0].messages, trace.output) == ((HI,), "ho")
    block = {f"{SAID}.role": "user", f"{SAID}.contents.0.message_content.type": ["text"], f"{SAID}.contents.1.x": 1}
    told = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "yo"}
    assert one(span(1, "llm", block | told)).output == "yo", "the kind of a block may be anything"


def test_what_google_adk_keeps_under_its_own_names():
    system = "gcp.vertex.agent"
    model = {"gen_ai.system": system, "gen_ai.request.model": "gemini-2.5-flash", f"{system}.session_id": "s-1"}

    def call(number, contents, told):
        held = {"llm_request": neutral.adk(contents), "llm_response": {"content": told}}
        held = {f"{system}.{name}": json.dumps(one) for name, one in held.items()}
        return span(number, "call_llm", model | held, parent=1)

    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
    ran |= {f"{system}.tool_call_args": '{"city": "Tokyo"}', f"{system}.tool_response": '{"sky": "sunny"}'}
    steps = (
        call(2, neutral.CONTENTS[:1], neutral.CONTENTS[1]),
        span(3, "execute_tool", ran, parent=1),
        call(4, neutral.CONTENTS[:3], neutral.CONTENTS[3]),
    )
    trace = one(agent(1, "desk"), *steps)
    first = trace.model_calls[0]
    assert first.messages == (text("system", "Be brief."), text("user", neutral.WEATHER))
    assert (first.dialect, [tool["name"] for tool in first.tools]) == ("gemini", ["get_weather"])
    assert tools(trace) == [("get_weather", {"city": "Tokyo"}, {"sky": "sunny"})]
    assert (trace.tool_runs[0].result, trace.output, trace.session, trace.missing) == (
        {"sky": "sunny"},
        "Sunny.",
        "s-1",
        (),
    )


def test_what_strands_tells_in_events_of_its_spans():
    uses = json.dumps([{"text": "yo"}, {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"a": 1}}}])
    gave = json.dumps([{"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"text": "42"}]}}])
    asked = ("gen_ai.user.message", {"content": '[{"text": "hi"}]'})
    chatting = {"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents", "gen_ai.request.model": "m"}
    ran = [("gen_ai.tool.message", {"content": '{"a": 1}', "id": "t1"})]
    ran += [("gen_ai.choice", {"message": '[{"text": "42"}]'})]
    history = [asked, ("gen_ai.assistant.message", {"content": uses}), ("gen_ai.tool.message", {"content": gave})]
    trace = one(
        span(1, "chat", chatting, events=[asked, ("gen_ai.choice", {"message": uses, "finish_reason": "tool_use"})]),
        tool(2, id="t1", events=ran),
        span(3, "chat", chatting, events=[*history, ("gen_ai.choice", {"message": '[{"text": "it is 42"}]'})]),
    )
    assert (trace.input, trace.output, trace.missing) == ("hi", "it is 42", ())
    assert tools(trace) == [("look", {"a": 1}, 42)]
    assert [(run.call_id, run.result) for run in trace.tool_runs] == [("t1", 42)]


def test_what_the_ai_sdk_keeps_under_its_own_names():
    def ai(number, operation, **held):
        told = {"ai.operationId": operation} | {f"ai.{key.replace('_', '.')}": one for key, one in held.items()}
        model = {"gen_ai.system": "openai.chat", "gen_ai.request.model": "m"} if "do" in operation else {}
        return span(number, operation, told | model, parent=int(number > 1))

    generate = "ai.generateText.doGenerate"
    schema = json.dumps({"type": "function", "name": "get_weather", "inputSchema": {"type": "object"}})
    calls = {"prompt_tools": [schema], "response_toolCalls": json.dumps([neutral.AI_SDK[1]["content"][0]])}
    ran = {"toolCall_name": "get_weather", "toolCall_id": "call_1", "toolCall_args": '{"city": "Tokyo"}'}
    root = {"prompt": '{"prompt": "hi"}', "response_text": "ho", "telemetry_functionId": "desk"}
    trace = one(
        ai(1, "ai.generateText", **root),
        ai(2, generate, prompt_messages=json.dumps(neutral.AI_SDK[:1]), **calls),
        ai(3, "ai.toolCall", **ran, toolCall_result='{"sky": "sunny"}'),
        ai(4, generate, prompt_messages=json.dumps(neutral.AI_SDK), response_text="ho"),
    )
    assert (trace.name, trace.input, trace.output, trace.missing) == ("desk", "hi", "ho", ())
    assert [(run.call_id, run.arguments, run.seen) for run in trace.tool_runs] == [
        ("call_1", {"city": "Tokyo"}, {"sky": "sunny"})
    ]
    assert trace.model_calls[0].tools[0]["parameters"] == {"type": "object"}
    assert len(trace.model_calls) == 2
    providers = {
        "openai.responses": ("openai", "openai_responses"), "anthropic.messages": ("anthropic", "anthropic"),
        "amazon-bedrock": ("aws.bedrock", "bedrock"), "google.generative-ai": ("google", "gemini"),
        "azure-openai.chat": ("azure.ai.openai", "openai_chat"),
    }  # fmt: skip
    for told, named in providers.items():
        held = {"ai.operationId": generate, "ai.model.provider": told, "gen_ai.system": told}
        said = {"ai.prompt.messages": '[{"role": "user", "content": "hi"}]', "ai.response.text": "yo"}
        (call,) = one(span(1, generate, held | said, scope="ai")).model_calls
        assert (call.provider, call.dialect) == named


def test_runs_and_results_without_the_id_of_a_call_are_joined_by_order():
    """Foundry tells a tool's result as a text of the role "tool"; clocks of whole milliseconds begin all at one time."""
    told = {"role": "tool", "parts": [{"type": "text", "content": '{"y": 2}'}]}
    trace = one(chat(1, told=ASKS), chat(2, [HI, ASKS, told]), agent(9, "a"))
    assert [(run.name, run.seen, run.executed) for run in trace.tool_runs] == [("look", {"y": 2}, True)]
    root = span(1, "w", {"traceloop.span.kind": "workflow", "traceloop.entity.name": "w"})
    by_order = {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}
    by_order |= {"traceloop.entity.input": '{"args": [1], "kwargs": {}}'}
    trace = one(root, chat(2, told=ASKS, parent=1), span(3, "look.tool", by_order, parent=1))
    assert [(run.arguments, run.call_id, run.result) for run in trace.tool_runs] == [({"x": 1}, "c1", UNKNOWN)]
    assert trace.missing == ("result of look, call 1",)
    at = {"startTimeUnixNano": str(5 * SECOND), "parent": 1}
    call = chat(2, told=ASKS, **at, endTimeUnixNano=str(5 * SECOND))
    ran = tool(3, result="2", **at, endTimeUnixNano=str(6 * SECOND))
    trace = one(ran, call, agent(1, endTimeUnixNano=str(9 * SECOND)))
    assert [type(step).__name__ for step in trace.steps] == ["ModelCall", "ToolRun"]
    assert trace.tool_runs[0].call_id == "c1"


def chain(number, parent):
    return span(number, "step", {"openinference.span.kind": "CHAIN"}, parent=parent)


def test_spans_around_each_other_in_a_ring_or_in_a_long_chain_come_to_an_end():
    trace = one(*(chain(number, number % 300 + 1) for number in range(1, 301)), chat(400, parent=7))
    assert (trace.output, trace.model_calls[0].agent) == ("ho", "")
    held = {"openinference.span.kind": "TOOL", "tool.name": "t", "input.value": "{}"}
    rows = [chain(number, number - 1) for number in range(1, 1_201)]
    trace = one(*rows, span(1_201, "t", held | {"input.mime_type": "application/json"}, parent=1_200))
    assert [run.name for run in trace.tool_runs] == ["t"]
