"""What each family of attributes tells beyond the refund run: older names, other providers, several observers of one call."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.reading import traces
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall
from tests.interchange.neutral import REFUND, TRACES, imported, refund_facts

FLATTENED = "generated/openllmetry/otlp_compare_flattened.json"
ANTHROPIC = "generated/openinference/otlp_compare_anthropic_stream.json"
OPENINFERENCE = "generated/openinference/otlp_refund.jsonl"
SECOND = 1_000_000_000


def value(held):
    match held:
        case bool():
            return {"boolValue": held}
        case int():
            return {"intValue": str(held)}
        case float():
            return {"doubleValue": held}
        case list():
            return {"arrayValue": {"values": [value(one) for one in held]}}
        case dict():
            return {"kvlistValue": {"values": pairs(held)}}
        case _:
            return {"stringValue": held}


def pairs(held):
    return [{"key": key, "value": value(one)} for key, one in held.items()]


def span(number, name, attributes, *, parent=0, trace=1, events=(), scope="acme", **more):
    made = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(number * SECOND),
        "endTimeUnixNano": str((number + 1) * SECOND),
        "attributes": pairs(attributes),
        "events": [
            {"name": one, "attributes": pairs(held), "timeUnixNano": str(number * SECOND)} for one, held in events
        ],
        **({"parentSpanId": f"{parent:016x}"} if parent else {}),
        **more,
    }
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [made]}]}]}


def record(number, event, body=None, attributes=None, *, trace=1):
    made = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "timeUnixNano": str(number * SECOND),
        **({"body": value(body)} if body is not None else {}),
        "attributes": pairs({"event.name": event} | (attributes or {})),
    }
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [made]}]}]}


def read(*rows, **files):
    whole = [("trace.jsonl", "\n".join(json.dumps(row) for row in rows).encode())]
    return traces(
        [*whole, *((name, "\n".join(json.dumps(row) for row in given).encode()) for name, given in files.items())]
    )


def one(*rows, **files):
    (trace,) = read(*rows, **files)
    return trace


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def chat(number, asked, told, **more):
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    held = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps([told])}
    return span(number, "chat m", attributes | held | more.pop("attributes", {}), **more)


ASKS = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"x": 1}}]}
ANSWER = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": '{"y": 2}'}]}


def test_attributes_that_openllmetry_spread_over_many_names():
    (trace,) = imported(FLATTENED)
    first = trace.model_calls[0]
    assert [(run.call_id, run.arguments, run.seen) for run in trace.tool_runs] == [
        ("call_0", {"city": "Oslo"}, {"c": 9}),
        ("call_1", {"city": "Kraków"}, {"c": 18}),
    ]
    assert (trace.name, trace.output) == ("compare", "Kraków is warmer (18°C) than Oslo (9°C).")
    assert (first.provider, first.dialect, first.fingerprint) == ("openai", "openai_chat", "fp_1")
    assert first.usage == {"input_tokens": 10, "output_tokens": 5}
    assert first.tools[0]["parameters"] == {"type": "object", "properties": {"city": {"type": "string"}}}
    assert [call.finish_reasons for call in trace.model_calls] == [("tool_calls",), ("stop",)]


def test_whole_bodies_of_another_provider():
    (trace,) = imported(ANTHROPIC)
    first = trace.model_calls[0]
    assert (first.dialect, first.stream, trace.source.fidelity) == ("anthropic", True, "body-json")
    assert json.loads(first.request.body.data)["system"] == "Be brief."
    assert [(run.call_id, run.seen) for run in trace.tool_runs] == [("toolu_0", {"c": 9}), ("toolu_1", {"c": 18})]
    assert first.reply["parts"][0] == {"type": "text", "content": "Let me see."}


@pytest.mark.parametrize("name", [OPENINFERENCE, ANTHROPIC])
def test_openinference_without_whole_bodies_says_the_same_but_less(name):
    (usual,) = imported(name)
    hidden = [b'"input.value"', b'"output.value"']
    data = (TRACES / name).read_bytes()
    for key in hidden:
        data = data.replace(key, b'"hidden"')
    (trace,) = traces([(name, data)])
    assert trace.source.fidelity == "semantic"
    for mine, whole in zip(trace.model_calls, usual.model_calls, strict=True):
        assert (mine.messages, mine.reply) == (whole.messages, whole.reply)
        assert (mine.model, mine.finish_reasons) == (whole.model, whole.finish_reasons)
        assert mine.usage.items() <= whole.usage.items()
        assert [tool["name"] for tool in mine.tools] == [tool["name"] for tool in whole.tools]
    assert [run.seen for run in trace.tool_runs] == [run.seen for run in usual.tool_runs]


def test_messages_that_openinference_hid_are_refused_with_its_settings():
    held = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m",
        "input.value": "__REDACTED__",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "__REDACTED__",
    }
    with pytest.raises(TraceIncomplete, match="OPENINFERENCE_HIDE_INPUTS=false"):
        read(span(1, "ChatCompletion", held, scope="openinference.instrumentation.openai"))


@pytest.mark.parametrize(
    ("scope", "setting"),
    [
        ("opentelemetry.instrumentation.openai.v1", "TRACELOOP_TRACE_CONTENT=true"),
        ("opentelemetry.instrumentation.openai_v2", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"),
        ("opentelemetry.instrumentation.genai.openai", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only"),
        ("langfuse-sdk", "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true"),
        ("pydantic-ai", "include_content=True"),
        ("agent_framework", "ENABLE_SENSITIVE_DATA=true"),
        ("ai", "recordInputs: true"),
        ("@opentelemetry/instrumentation-openai", "together with the spans"),
        ("Experimental.Microsoft.Extensions.AI", "EnableSensitiveData = true"),
        ("org.springframework.boot", "log-completion=true"),
        ("haystack.tracing.opentelemetry", "HAYSTACK_CONTENT_TRACING_ENABLED=true"),
        ("litellm", "turn_off_message_logging = False"),
        ("azure.ai.projects", "AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"),
        ("gcp.vertex.agent", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true"),
    ],
)
def test_the_setting_is_that_of_the_library(scope, setting):
    held = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system": "openai"}
    with pytest.raises(TraceIncomplete) as refused:
        read(span(1, "chat m", held, scope=scope))
    assert setting in str(refused.value)


def test_messages_are_texts_of_json_or_real_lists():
    held = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    asked = [text("user", "hi")]
    real = one(
        span(1, "chat", held | {"gen_ai.input.messages": asked, "gen_ai.output.messages": [text("assistant", "ho")]})
    )
    written = one(chat(1, asked, text("assistant", "ho")))
    assert real.model_calls[0].messages == written.model_calls[0].messages == (text("user", "hi"),)
    assert real.output == written.output == "ho"


def test_instructions_stand_apart_or_among_the_messages():
    apart = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": "be kind"}])}
    trace = one(chat(1, [text("user", "hi")], text("assistant", "ho"), attributes=apart))
    assert trace.model_calls[0].messages == (text("system", "be kind"), text("user", "hi"))
    assert trace.input == "hi"


def test_a_result_without_a_call_id_is_joined_by_order():
    """Foundry tells a tool's result as a text of the role "tool"."""
    told = {"role": "tool", "parts": [{"type": "text", "content": '{"y": 2}'}]}
    trace = one(
        chat(1, [text("user", "hi")], ASKS),
        chat(2, [text("user", "hi"), ASKS, told], text("assistant", "done")),
        span(9, "root", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
    )
    assert [(run.name, run.seen, run.executed) for run in trace.tool_runs] == [("look", {"y": 2}, True)]


def test_events_on_the_span_itself_tell_its_messages():
    held = {"gen_ai.system": "az.ai.inference", "gen_ai.request.model": "m", "gen_ai.operation.name": "chat"}
    events = [
        ("gen_ai.user.message", {"gen_ai.event.content": json.dumps({"role": "user", "content": "hi"})}),
        (
            "gen_ai.choice",
            {"gen_ai.event.content": json.dumps({"message": {"content": "ho"}, "finish_reason": "stop"})},
        ),
    ]
    trace = one(span(1, "chat m", held, events=events))
    assert (trace.input, trace.output) == ("hi", "ho")
    assert trace.model_calls[0].finish_reasons == ("stop",)
    assert trace.model_calls[0].provider == "azure.ai.inference"


def test_events_kept_in_an_attribute_of_the_span():
    kept = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "be kind"},
        {"event.name": "gen_ai.user.message", "role": "user", "content": "hi"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "ho"}},
    ]
    held = {"gen_ai.system": "openai", "gen_ai.request.model": "m", "events": json.dumps(kept)}
    trace = one(span(1, "chat m", held, scope="pydantic-ai"))
    assert trace.model_calls[0].messages == (text("system", "be kind"), text("user", "hi"))
    assert trace.output == "ho"


def test_one_call_that_two_instrumentations_saw_is_one_step():
    held = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    spread = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hi"}
    root = span(1, "agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
    outer = span(2, "ChatOpenAI", held | spread, parent=1)
    inner = chat(3, [text("user", "hi")], text("assistant", "ho"), parent=2)
    tool = span(
        4, "look", {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": '{"x": 1}'}, parent=1
    )
    again = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c1"}
    nested = span(5, "execute_tool look", again | {"gen_ai.tool.call.result": "7"}, parent=4)
    trace = one(inner, outer, nested, tool, root)
    (call,), (run,) = trace.model_calls, trace.tool_runs
    assert (call.reply["parts"][0]["content"], call.agent) == ("ho", "a")
    assert (run.arguments, run.result, run.call_id) == ({"x": 1}, 7, "c1")


def test_a_tool_that_was_called_by_order_gets_the_arguments_that_the_model_asked_with():
    root = span(1, "w", {"traceloop.span.kind": "workflow", "traceloop.entity.name": "w"})
    by_order = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "look",
        "traceloop.entity.input": '{"args": [1], "kwargs": {}}',
    }
    trace = one(root, chat(2, [text("user", "hi")], ASKS, parent=1), span(3, "look.tool", by_order, parent=1))
    assert [(run.arguments, run.call_id, run.result) for run in trace.tool_runs] == [({"x": 1}, "c1", UNKNOWN)]
    assert trace.missing == ("result of look, call 1",)


def test_faults_of_tools_models_and_the_root():
    raised = [
        (
            "exception",
            {"exception.type": "openai.APITimeoutError", "exception.message": "late", "exception.stacktrace": "T"},
        )
    ]
    root = span(
        *(1, "agent", {"gen_ai.operation.name": "invoke_agent"}),
        events=[("exception", {"exception.type": "agents.MaxTurnsExceeded", "exception.message": "10"})],
        status={"code": 2},
    )
    asked = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    lost = asked | {"gen_ai.input.messages": json.dumps([text("user", "hi")])}
    call = span(2, "chat m", lost, parent=1, events=raised, status={"code": "STATUS_CODE_ERROR"})
    trace = one(root, call)
    assert (trace.status, trace.fault.type, trace.limits) == ("error", "agents.MaxTurnsExceeded", "MaxTurnsExceeded")
    fault = trace.model_calls[0].fault
    assert (fault.type, fault.message, fault.traceback) == ("openai.APITimeoutError", "late", "T")
    assert trace.model_calls[0].reply is None
    assert trace.missing == ()


def test_a_rate_limit_is_no_limit_of_the_agent():
    raised = [("exception", {"exception.type": "openai.RateLimitError", "exception.message": "429"})]
    root = span(1, "agent", {"gen_ai.operation.name": "invoke_agent"}, events=raised, status={"code": 2})
    assert one(root, chat(2, [text("user", "hi")], text("assistant", "ho"), parent=1)).limits == ""


def test_sub_agents_and_their_steps():
    root = span(1, "invoke_agent boss", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"})
    child = span(
        2, "invoke_agent clerk", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}, parent=1
    )
    trace = one(
        root,
        child,
        chat(3, [text("user", "a")], text("assistant", "b"), parent=2),
        chat(4, [text("user", "c")], text("assistant", "d"), parent=1),
    )
    assert (trace.name, [call.agent for call in trace.model_calls]) == ("boss", ["clerk", "boss"])


def test_spans_that_are_no_step_are_counted():
    root = span(1, "agent", {"openinference.span.kind": "AGENT"})
    retrieval = span(2, "retrieve", {"openinference.span.kind": "RETRIEVER"}, parent=1)
    trace = one(root, retrieval, chat(3, [text("user", "hi")], text("assistant", "ho"), parent=1))
    assert "1 spans of the kind RETRIEVER are left out" in trace.losses


def test_log_records_without_any_span_are_calls_of_their_own():
    held = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.operation.name": "chat"}
    asked, told = [text("user", "hi")], [text("assistant", "ho")]
    details = record(
        0,
        "gen_ai.client.inference.operation.details",
        None,
        held | {"gen_ai.input.messages": asked, "gen_ai.output.messages": told},
    )
    del details["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["spanId"]
    trace = one(details)
    assert [type(step) for step in trace.steps] == [ModelCall]
    assert trace.output == "ho"


def test_langfuse_without_its_own_spans_for_the_calls():
    """Another instrumentation's spans, sent through Langfuse, keep their own attributes."""
    marks = {"langfuse.trace.tags": ["prod"], "user.id": "u-7", "langfuse.trace.metadata.tenant": '"acme"'}
    trace = one(chat(1, [text("user", "hi")], text("assistant", "ho"), attributes=marks))
    assert trace.source.format == "otlp-langfuse"
    assert (trace.user, trace.tenant, trace.tags, trace.output) == ("u-7", "acme", ("prod",), "ho")


def test_the_first_word_of_a_mixed_file_is_the_richer_family():
    mixed = (TRACES / OPENINFERENCE).read_bytes() + json.dumps(
        chat(1, [text("user", "hi")], text("assistant", "ho"))
    ).encode()
    found = traces([("mixed.jsonl", mixed)])
    assert {trace.source.format for trace in found} == {"otlp-openinference"}
    assert refund_facts(found[-1]) == REFUND


def phoenix(number, name, kind, attributes, *, parent=None, **more):
    return {
        "name": name,
        "context": {"trace_id": "t-1", "span_id": number},
        "span_kind": kind,
        "parent_id": parent,
        "start_time": "2026-07-24T12:00:00+00:00",
        "end_time": "2026-07-24T12:00:01+00:00",
        "status_code": "OK",
        "attributes": attributes,
        **more,
    }


def test_spans_of_phoenix_in_lists_by_name_with_ids_of_any_form():
    """As projects keep them for tests: made-up ids, a root of nothing but zeros, schemas for parameters."""
    asked = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
        "llm.tools.0.tool.json_schema": "{}",
    }
    calls = "llm.output_messages.0.message.tool_calls.0.tool_call"
    told = {
        f"{calls}.id": "c1",
        f"{calls}.function.name": "list",
        f"{calls}.function.arguments": "",
        "input.value": "{}",
        "output.value": "{}",
    }
    tool = {
        "tool.name": "list",
        "tool.id": "c1",
        "tool.parameters.type": "object",
        "tool.parameters.properties.x.type": "string",
    }
    rows = [
        phoenix("0" * 16, "turn", "AGENT", {"input.value": "hi", "output.value": "ho", "user.id": "u@example.com"}),
        phoenix("s02", "m", "LLM", asked | told, parent="0" * 16),
        phoenix(
            "s03",
            "list",
            "TOOL",
            tool | {"output.value": "[1]", "output.mime_type": "application/json"},
            parent="0" * 16,
        ),
    ]
    (trace,) = traces([("by-name.json", json.dumps({"first": rows[:2], "second": rows[2:]}).encode())])
    assert (trace.source.format, trace.id, trace.name, trace.input, trace.output) == (
        "openinference-spans",
        "t-1",
        "turn",
        "hi",
        "ho",
    )
    assert [(run.call_id, run.arguments, run.result) for run in trace.tool_runs] == [("c1", {}, [1])]
    assert (trace.model_calls[0].tools, trace.missing, trace.user) == ((), (), "u@example.com")


def test_an_input_that_is_no_message_is_one():
    rows = [phoenix("s1", "m", "LLM", {"input.value": "hi", "output.value": "ho", "llm.model_name": "m"})]
    (trace,) = traces([("spans.json", json.dumps(rows).encode())])
    assert trace.model_calls[0].messages == (text("user", "hi"),)
    assert trace.output == "ho"


def test_what_google_adk_keeps_under_its_own_names():
    request = {
        "model": "gemini-2.5-flash",
        "config": {
            "system_instruction": "be kind",
            "tools": [{"function_declarations": [{"name": "look", "description": "d"}]}],
        },
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    asks = {"role": "model", "parts": [{"function_call": {"name": "look", "args": {"x": 1}}}]}
    gives = {"role": "user", "parts": [{"function_response": {"name": "look", "response": {"y": 2}}}]}
    model = {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gcp.vertex.agent.session_id": "s-1",
    }

    def call(number, contents, told):
        held = {
            "llm_request": json.dumps(request | {"contents": contents}),
            "llm_response": json.dumps({"content": told}),
        }
        return span(number, "call_llm", model | {f"gcp.vertex.agent.{key}": one for key, one in held.items()}, parent=1)

    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gcp.vertex.agent.tool_call_args": '{"x": 1}',
        "gcp.vertex.agent.tool_response": '{"y": 2}',
    }
    trace = one(
        span(1, "invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}),
        call(2, request["contents"], asks),
        span(3, "execute_tool look", tool, parent=1),
        call(4, [*request["contents"], asks, gives], {"role": "model", "parts": [{"text": "ho"}]}),
    )
    first = trace.model_calls[0]
    assert first.messages == (text("system", "be kind"), text("user", "hi"))
    assert (first.dialect, [tool["name"] for tool in first.tools]) == ("gemini", ["look"])
    assert [(run.arguments, run.seen, run.result) for run in trace.tool_runs] == [({"x": 1}, {"y": 2}, {"y": 2})]
    assert (trace.output, trace.session, trace.missing) == ("ho", "s-1", ())


def test_what_strands_tells_in_events_of_its_spans():
    uses = json.dumps([{"text": "yo"}, {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"a": 1}}}])
    gave = json.dumps([{"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"text": "42"}]}}])
    asked = ("gen_ai.user.message", {"content": '[{"text": "hi"}]'})
    chatting = {"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents", "gen_ai.request.model": "m"}
    running = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.id": "t1"}
    ran = [
        ("gen_ai.tool.message", {"content": '{"a": 1}', "id": "t1"}),
        ("gen_ai.choice", {"message": '[{"text": "42"}]'}),
    ]
    history = [asked, ("gen_ai.assistant.message", {"content": uses}), ("gen_ai.tool.message", {"content": gave})]
    trace = one(
        span(1, "chat", chatting, events=[asked, ("gen_ai.choice", {"message": uses, "finish_reason": "tool_use"})]),
        span(2, "execute_tool look", running, events=ran),
        span(3, "chat", chatting, events=[*history, ("gen_ai.choice", {"message": '[{"text": "it is 42"}]'})]),
    )
    assert (trace.input, trace.output, trace.missing) == ("hi", "it is 42", ())
    assert [(run.name, run.call_id, run.arguments, run.seen, run.result) for run in trace.tool_runs] == [
        ("look", "t1", {"a": 1}, 42, 42)
    ]


@pytest.mark.parametrize(
    ("told", "provider", "dialect"),
    [
        ("openai.responses", "openai", "openai_responses"),
        ("anthropic.messages", "anthropic", "anthropic"),
        ("amazon-bedrock", "aws.bedrock", "bedrock"),
        ("google.generative-ai", "google", "gemini"),
        ("azure-openai.chat", "azure.ai.openai", "openai_chat"),
    ],
)
def test_the_ai_sdk_names_provider_and_api_in_one(told, provider, dialect):
    held = {"ai.operationId": "ai.generateText.doGenerate", "ai.model.provider": told, "gen_ai.system": told}
    said = {"ai.prompt.messages": '[{"role": "user", "content": "hi"}]', "ai.response.text": "yo"}
    (call,) = one(span(1, "ai.generateText.doGenerate", held | said, scope="ai")).model_calls
    assert (call.provider, call.dialect) == (provider, dialect)


def test_what_the_ai_sdk_keeps_under_its_own_names():
    model = {
        "gen_ai.system": "openai.chat",
        "gen_ai.request.model": "m",
        "ai.operationId": "ai.generateText.doGenerate",
    }
    user = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    asks = {
        "role": "assistant",
        "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {"x": 1}}],
    }
    gives = {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "look",
                "output": {"type": "json", "value": {"y": 2}},
            }
        ],
    }
    tools = {"ai.prompt.tools": [json.dumps({"type": "function", "name": "look", "inputSchema": {"type": "object"}})]}
    calls = {"ai.response.toolCalls": json.dumps([{"toolCallId": "c1", "toolName": "look", "input": {"x": 1}}])}
    ran = {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "look",
        "ai.toolCall.id": "c1",
        "ai.toolCall.args": '{"x": 1}',
        "ai.toolCall.result": '{"y": 2}',
    }
    trace = one(
        span(
            1,
            "ai.generateText",
            {
                "ai.operationId": "ai.generateText",
                "ai.prompt": '{"prompt": "hi"}',
                "ai.response.text": "ho",
                "ai.telemetry.functionId": "desk",
            },
        ),
        span(
            2,
            "ai.generateText.doGenerate",
            model | tools | calls | {"ai.prompt.messages": json.dumps([user])},
            parent=1,
        ),
        span(3, "ai.toolCall", ran, parent=1),
        span(
            4,
            "ai.generateText.doGenerate",
            model | {"ai.prompt.messages": json.dumps([user, asks, gives]), "ai.response.text": "ho"},
            parent=1,
        ),
    )
    assert (trace.name, trace.input, trace.output, trace.missing) == ("desk", "hi", "ho", ())
    assert [(run.call_id, run.arguments, run.seen) for run in trace.tool_runs] == [("c1", {"x": 1}, {"y": 2})]
    assert trace.model_calls[0].tools[0]["parameters"] == {"type": "object"}
    assert len(trace.model_calls) == 2


def test_a_tool_that_calls_itself_through_an_agent_is_two_runs():
    def tool(number, parent):
        held = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "ask",
            "gen_ai.tool.call.arguments": f'{{"n": {number}}}',
        }
        return span(number, "execute_tool ask", held, parent=parent, endTimeUnixNano=str((20 - number) * SECOND))

    def agent(number, parent=0):
        held = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"a{number}"}
        return span(number, "invoke_agent", held, parent=parent, endTimeUnixNano=str((20 - number) * SECOND))

    trace = one(tool(4, 3), tool(2, 1), agent(3, 2), agent(1))
    assert [(run.arguments, run.agent) for run in trace.tool_runs] == [({"n": 2}, "a1"), ({"n": 4}, "a3")]


def test_spans_that_began_at_once_come_in_the_order_of_their_ends():
    """Clocks of whole milliseconds: the model's call and the tool that it asked for begin at one time."""
    at = {"startTimeUnixNano": str(5 * SECOND)}
    root = span(1, "agent", {"gen_ai.operation.name": "invoke_agent"}, endTimeUnixNano=str(9 * SECOND))
    call = chat(2, [text("user", "hi")], ASKS, parent=1, **at, endTimeUnixNano=str(5 * SECOND))
    ran = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.result": "2"}
    trace = one(span(3, "execute_tool look", ran, parent=1, **at, endTimeUnixNano=str(6 * SECOND)), call, root)
    assert [type(step).__name__ for step in trace.steps] == ["ModelCall", "ToolRun"]
    assert trace.tool_runs[0].call_id == "c1"


def test_spans_that_stand_around_each_other_in_a_ring_come_to_an_end():
    rows = [
        span(number, "step", {"openinference.span.kind": "CHAIN"}, parent=number % 300 + 1) for number in range(1, 301)
    ]
    trace = one(*rows, chat(400, [text("user", "hi")], text("assistant", "ho"), parent=7))
    assert (trace.output, trace.model_calls[0].agent) == ("ho", "")


def test_a_chain_of_thousands_of_spans_is_passed_once():
    rows = [span(number, "step", {"openinference.span.kind": "CHAIN"}, parent=number - 1) for number in range(1, 3_001)]
    held = {
        "openinference.span.kind": "TOOL",
        "tool.name": "t",
        "input.value": "{}",
        "input.mime_type": "application/json",
    }
    trace = one(*rows, span(3_001, "t", held, parent=3_000))
    assert [run.name for run in trace.tool_runs] == ["t"]


def test_generations_of_langfuse_without_content_are_refused_with_its_setting():
    held = {"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m"}
    with pytest.raises(TraceIncomplete, match="LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true"):
        read(span(1, "OpenAI-generation", held, scope="langfuse-sdk"))


def test_a_kind_of_a_block_may_be_anything():
    said = "llm.input_messages.0.message"
    held = {f"{said}.role": "user", f"{said}.contents.0.message_content.type": ["text"], f"{said}.contents.1.x": 1}
    told = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "yo"}
    assert one(span(1, "llm", held | told)).output == "yo"
