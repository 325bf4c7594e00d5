"""Every file of the tree of samples: its format, and what its runs say; the refund is one run, whoever tells of it."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any, NamedTuple

import pytest

from pytest_agentreplay.errors import TraceIncomplete, TraceUnknown
from pytest_agentreplay.traces import platforms
from pytest_agentreplay.traces.formats import choose, layers
from pytest_agentreplay.traces.opening import open_trace
from pytest_agentreplay.traces.reading import formats, traces
from pytest_agentreplay.traces.trace import UNKNOWN
from tests.traces.neutral import INSPECT_EVAL, INSPECT_JSON, REFUND, TRACES, imported, refund_facts

# What a source says otherwise than the refund's truth.
TOLD = "RefundError: amount 45990 exceeds order total 4599 for A-1001"
HIDDEN = "An error occurred while running the tool. Please try again."
FIRST, LOOKED, _ = REFUND["asked"]
ORDER, ASKED, DONE = REFUND["seen"][0], REFUND["input"], REFUND["output"]
LOOK_UP, PAY = (given for _, given, _ in REFUND["tools"])
NO_TAGS = {"tags": ()}
NOBODY = {"user": "", "session": "", "tenant": "", "tags": ()}
ROOTLESS = {"name": "", "status": ""} | NOBODY
NO_ERROR_BIT = {"faults": [None, None]}
NO_FINGERPRINT = {"fingerprints": {""}}
NO_IDS = NO_FINGERPRINT | {"response_ids": False}
NO_KNOBS = {"knobs": [{}] * 3}
ANSWERED = {"model": {"gpt-4o-mini-2024-07-18"}}
QUESTION = {"input": {"question": ASKED}}
STATE = {"input": {"messages": [{"role": "user", "content": ASKED}]}}
LANGCHAIN = STATE | {"knobs": [{"temperature": 0.2, "seed": 7}] * 3}  # it calls the third one max_completion_tokens
RESPONSES = {"knobs": [{"temperature": 0.2}] * 3, "finish": ["completed"] * 3} | NO_FINGERPRINT
REDACTED = "Error running tool (non-fatal): Tool execution failed. Error details are redacted."
ANTHROPIC = NO_FINGERPRINT | {
    "model": {"claude-sonnet-4-5"},
    "response_model": {"claude-sonnet-4-5-20250929"},
    "knobs": [{"temperature": 0.2, "max_tokens": 512}] * 3,
    "finish": ["tool_use", "tool_use", "end_turn"],
    "asked": [FIRST, LOOKED, [("issue_refund", PAY), ("result", TOLD)]],
    "tools": [("lookup_order", LOOK_UP, "toolu_stub_00"), ("issue_refund", PAY, "toolu_stub_10")],
    "seen": [ORDER, TOLD],
}
BEDROCK = ANTHROPIC | NO_KNOBS | {"model": {"anthropic.claude-sonnet-4-5-20250929-v1:0"}, "response_model": {""}}
GEMINI = NO_FINGERPRINT | NO_KNOBS | NO_ERROR_BIT | ROOTLESS
GEMINI |= {"model": {"gemini-2.5-flash"}, "response_model": {"gemini-2.5-flash"}, "finish": ["STOP"] * 3, "user": "u-7"}
GEMINI |= {"tools": [("lookup_order", LOOK_UP, ""), ("issue_refund", PAY, "")]}
SILENT = NO_FINGERPRINT | NO_KNOBS | {"response_model": {""}, "usage": [(None, None)] * 3, "tool_names": [[]] * 3}
ITEMS = ROOTLESS | NO_ERROR_BIT | SILENT | {"finish": [""] * 3, "seen": [ORDER, HIDDEN]}
ITEMS |= {"asked": [[("user", ASKED)], LOOKED, [("issue_refund", PAY), ("result", HIDDEN)]]}
AGENTS = NO_TAGS | NO_IDS | NO_KNOBS | {"name": "refund-workflow", "response_model": {""}, "finish": [""] * 3}
AGENTS |= {"tool_names": [[]] * 3, "asked": [FIRST, *ITEMS["asked"][1:]], "seen": [ORDER, HIDDEN]}
AGENTS |= {"faults": [None, REDACTED]}
INSPECT = ROOTLESS | {"name": "refund", "status": "ok", "user": "u-7", "seen": [ORDER, f"Error: {TOLD}"]}
INSPECT |= {"asked": [FIRST, LOOKED, [("issue_refund", PAY), ("result", f"Error: {TOLD}")]]}
LOGS_ALONE = ROOTLESS | NO_ERROR_BIT | {"session": "conv-42"}
OLD_LOGS = LOGS_ALONE | SILENT | {"session": "", "model": {""}, "response_ids": False}
BRAINTRUST = NO_IDS | {"response_model": {""}}
GALILEO = NO_IDS | ANSWERED | {"knobs": [{"temperature": 0.2}] * 3, "tenant": "", "status": ""}
LANGFUSE = NO_IDS | ANSWERED | {"finish": [""] * 3}
OPENLLMETRY = NO_TAGS | {"knobs": [{"temperature": 0.2, "max_tokens": 256}] * 3}
HELICONE = NO_ERROR_BIT | {"name": "refund", "status": "", "tags": ()}

REFUNDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "_synthesised/appinsights_dependencies.json": ("appinsights", "semantic", NO_TAGS | {"faults": [None, ""]}),
    "_synthesised/bedrock_converse_invocation_log.jsonl": ("bedrock-invocation-log", "body-json", ROOTLESS | BEDROCK | {"user": "u-7", "session": "conv-42", "response_ids": False}),
    "_synthesised/helicone_export.jsonl": ("helicone", "body-json", HELICONE),
    "_synthesised/vertex_request_response_bq_rows.jsonl": ("vertex-request-response", "body-json", GEMINI),
    "anthropic/messages_log.jsonl": ("anthropic-log", "body-json", ROOTLESS | ANTHROPIC | {"user": "u-7"}),
    "braintrust/logs3_ingest_bodies.json": ("braintrust", "semantic", BRAINTRUST),
    "braintrust/project_logs_events.jsonl": ("braintrust", "semantic", BRAINTRUST),
    "cassetteai/openai_refund.json": ("openai-chat-log", "body-json", ROOTLESS | NO_ERROR_BIT),
    "cassetter/httpx_refund_0.1.0.yaml": ("cassetter", "body-json", ROOTLESS | NO_ERROR_BIT),
    "cassetter/openai_refund.toml": ("cassetter", "body-json", ROOTLESS | NO_ERROR_BIT),
    "cassetter/openai_refund.yaml": ("cassetter", "body-json", ROOTLESS | NO_ERROR_BIT),
    "galileo/trace_schema_dump.json": ("galileo", "semantic", GALILEO),
    INSPECT_JSON: ("inspect", "body-json", INSPECT),
    INSPECT_EVAL: ("inspect-eval", "body-json", INSPECT),
    "langfuse/otlp_export.json": ("otlp-langfuse", "semantic", LANGFUSE),
    "langsmith/ingest_requests.jsonl": ("langsmith-runs", "body-json", QUESTION),
    "langsmith/langchain_agent_batch.jsonl": ("langsmith-runs", "semantic", LANGCHAIN),
    "langsmith/runs_export.jsonl": ("langsmith-runs", "body-json", QUESTION),
    "mlflow/trace_to_dict.json": ("mlflow", "body-json", QUESTION | NO_TAGS),
    "mlflow/trace_to_json.json": ("mlflow", "body-json", QUESTION | NO_TAGS),
    "openai-agents/chatmodel_to_input_list.json": ("openai-items", "semantic", ITEMS),
    "openai-agents/chatmodel_trace_processor_export.jsonl": ("openai-agents", "semantic", AGENTS),
    "openai-agents/run_items_to_input_list.json": ("openai-items", "semantic", ITEMS | {"model": {""}, "response_ids": False}),
    "openai/chat_completions_log.jsonl": ("openai-chat-log", "body-json", ROOTLESS | NO_ERROR_BIT),
    "openai/responses_log.jsonl": ("openai-responses-log", "body-json", ROOTLESS | NO_ERROR_BIT | RESPONSES),
    "openinference/otlp_langchain_refund.json": ("otlp-openinference", "semantic", LANGCHAIN | NO_IDS | {"tenant": "", "tags": ()}),
    "openinference/otlp_refund.jsonl": ("otlp-openinference", "body-json", {}),
    "openllmetry/otlp_refund.jsonl": ("otlp-openllmetry", "semantic", OPENLLMETRY),
    "opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json": ("opik", "semantic", QUESTION | ANSWERED),
    "otel-genai-legacy-events/otlp_logs_events.json": ("otlp-genai-events", "semantic", OLD_LOGS),
    "otel-genai/otlp_logs_refund_eventonly.jsonl": ("otlp-genai-events", "semantic", LOGS_ALONE),
    "otel-genai/otlp_refund_noargs_spanonly.jsonl": ("otlp-genai", "semantic", NO_TAGS),
    "otel-genai/otlp_refund_spanonly.jsonl": ("otlp-genai", "semantic", NO_TAGS),
    "phoenix/rest_spans.json": ("phoenix-spans", "body-json", {}),
    "promptlayer/track_request_bodies.jsonl": ("promptlayer", "body-json", ROOTLESS | NO_ERROR_BIT | {"tags": ("prod",)}),
    "vcrpy/httpx_refund_4.1.1.yaml": ("vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    "vcrpy/openai_refund.json": ("vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    "vcrpy/openai_refund.yaml": ("vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    "vcrpy/requests_refund_2.0.1.json": ("vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    "vcrpy/requests_refund_of_open_files.yaml": ("vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    "weave/calls.jsonl": ("weave", "body-json", QUESTION | NO_TAGS),
}  # fmt: skip
"""Files of the folder `generated` that hold the refund: format, nearness, and what they say otherwise."""


class Row(NamedTuple):
    """The format of a file, and over all its runs: model calls, tools in order, failed ones; the last output, a loss."""

    format: str
    calls: int
    tools: str = ""
    failed: int = 0
    output: str = ""
    loss: str = ""


WARMER = "Kraków is warmer (18°C) than Oslo (9°C)."
OTHERS = {
    "generated/cassetter/openai_stream_grpc_websocket.yaml": Row("cassetter", 1, "lookup_order", 0, "None", "WebSocket connections are left out: 1"),
    "generated/har/mitmproxy_openai_anthropic.har": Row("har", 10, "lookup_order issue_refund lookup_order" + " lookup_order issue_refund" * 2, 1, DONE),
    "generated/openai/response_input_items.json": Row("openai-items", 2, "lookup_order issue_refund", 0, "None", "ends before the model's last reply"),
    "generated/openinference/otlp_compare_anthropic_stream.json": Row("otlp-openinference", 2, "get_weather get_weather", 0, WARMER),
    "generated/openllmetry/otlp_compare_flattened.json": Row("otlp-openllmetry", 2, "get_weather get_weather", 0, WARMER),
    "generated/vcrpy/openai_stream.yaml": Row("vcrpy", 1, "lookup_order", 0, "None"),
    "public/cagent/TestExec_Anthropic_ToolCall.yaml": Row("go-vcr", 2, "list_directory", 0, "1"),
    "public/cagent/TestExec_Gemini_ToolCall.yaml": Row("go-vcr", 2, "list_directory", 0, "1"),
    "public/cagent/TestExec_OpenAI_ToolCall.yaml": Row("go-vcr", 2, "list_directory", 0, "1"),
    "public/claude-code/edge_cases.jsonl": Row("claude-code", 4, "FailingTool MultiEdit TodoWrite", 1, "", "5 rows are no messages and left out"),
    "public/claude-code/representative_messages.jsonl": Row("claude-code", 5, "Edit Bash", 0, "Perfect! As you can see"),
    "public/claude-code/simonw_sample_session.jsonl": Row("claude-code", 3, "Write Bash", 0, "Done! The hello function is ready."),
    "public/claude-code/todowrite_examples.jsonl": Row("claude-code", 6, "TodoWrite TodoWrite TodoWrite", 0, "Absolutely! Security review is crucial."),
    "public/langfuse/langgraph-python-2025-08-22.trace.json": Row("langfuse", 2, "Web-Search", 0, 'The search for "example"'),
    "public/langfuse/microsoft-agent-2025-12-17.trace.json": Row("langfuse", 2, "get_weather", 0, "Current conditions in Tokyo, Japan: stormy"),
    "public/langfuse/openai-agents-2025-09-30.trace.json": Row("langfuse", 2, "get_weather", 0, "The weather in Tokyo is currently sunny.", "top_p"),
    "public/langfuse/vertex-ai-2025-08-01.trace.json": Row("langfuse", 1, "", 0, "**Langfuse** is an **open-source observability"),
    "public/waza/azure-deploy-gpt4o.json": Row("waza", 0),
    "public/waza/copilot_events_using_skill.json": Row("copilot-events", 2, "report_intent skill", 0, "yes"),
    "public/waza/trigger-accuracy-claude.json": Row("waza", 0),
}  # fmt: skip
SPAN_ONLY = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only"
REFUSED = {
    "openai-agents/raw_response0_output.json": ("openai-items", ["nothing that was asked", "to_input_list()"]),
    "openai-agents/trace_processor_export.jsonl": ("openai-agents", ["no model call tells", "span_data.response.model_dump()", "/v1/responses/{id}"]),
    "openai/stored_completions_list.shape.json": ("openai-stored", ["replies without what was asked", "GET /v1/chat/completions/{id}/messages"]),
    "otel-genai-legacy-events/otlp_spans.json": ("otlp-genai", ["_CAPTURE_MESSAGE_CONTENT=true"]),
    "otel-genai/otlp_refund_eventonly.jsonl": ("otlp-genai", ["give the log records together with the spans"]),
    "otel-genai/otlp_refund_noargs_nocontent.jsonl": ("otlp-genai", [SPAN_ONLY]),
    "phoenix/rest_traces.json": ("phoenix-traces", ["/v1/projects/PROJECT/spans"]),
    "promptlayer/otlp_traces.json": ("otlp-promptlayer", ["/track-request"]),
}  # fmt: skip
"""Files without content: the format, and what brings it."""
FORMATS = {f"generated/{file}": row[0] for file, row in (REFUNDS | REFUSED).items()}
FORMATS |= {file: row.format for file, row in OTHERS.items()}
SCHEMAS = ("input-messages", "output-messages", "retrieval-documents", "system-instructions", "tool-definitions")
FORMATS |= {f"public/otel-genai-schemas/gen-ai-{name}.json": "" for name in SCHEMAS}
PLATFORMS = {one.name for one in platforms.FORMATS}
WHOLE = [f"generated/{file}" for file in REFUNDS] + [*OTHERS]
"""Files that hold a run."""


def read(name):
    return traces([(name, (TRACES / name).read_bytes())])


def test_every_file_has_its_row_and_every_format_a_name_of_its_own():
    found = {path for top in ("generated", "public") for path in (TRACES / top).rglob("*") if path.is_file()}
    assert {path.relative_to(TRACES).as_posix() for path in found} == set(FORMATS)
    names = [one.name for one in formats()]
    assert len(names) == len(set(names))
    ranks = [one.rank for one in platforms.FORMATS]
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize("file", REFUNDS)
def test_the_refund_is_the_same_run_everywhere_but_for_what_a_source_loses(file):
    form, fidelity, lost = REFUNDS[file]
    (trace,) = imported(f"generated/{file}")
    assert refund_facts(trace) == REFUND | lost
    assert (trace.source.format, trace.source.fidelity) == (form.removesuffix("-eval"), fidelity)
    assert trace.source.file == f"generated/{file}"
    assert trace.faults == tuple(run.fault for run in trace.tool_runs if run.fault), "the root is fine; the run is not"
    assert trace.losses
    assert UNKNOWN not in [run.seen for run in trace.tool_runs]
    starts = [step.started for step in trace.steps if step.started]
    assert starts == sorted(starts)
    assert form in {"galileo", "openai-items", "vcrpy"} or "cassett" in file or trace.started < trace.ended
    told = repr((trace.metadata, trace.tags, trace.losses, trace.source))
    secrets = ("LANGSMITH", "127.0.0.1", "stub") if form in PLATFORMS else ()
    assert not [word for word in secrets if word in told]


def test_spans_with_their_log_records_tell_the_same_run():
    otel, legacy = "generated/otel-genai/otlp_{}.jsonl", "generated/otel-genai-legacy-events/otlp_{}.json"
    files = otel.format("refund_eventonly"), otel.format("logs_refund_eventonly")
    (trace,) = imported(*files)
    assert refund_facts(trace) == REFUND | NO_TAGS
    assert (trace.source.file, trace.source.id) == (files[0], trace.id)
    (trace,) = imported(legacy.format("spans"), legacy.format("logs_events"))
    assert refund_facts(trace) == REFUND | NOBODY | NO_FINGERPRINT | {"tool_names": [[], [], []]}


@pytest.mark.parametrize("file", OTHERS)
def test_a_file_gives_its_facts(file):
    row, found = OTHERS[file], imported(file)
    runs = [run for trace in found for run in trace.tool_runs]
    assert {trace.source.format for trace in found} == {row.format}
    assert sum(len(trace.model_calls) for trace in found) == row.calls
    if row.tools:
        assert [run.name for run in runs] == row.tools.split()
        assert sum(run.fault is not None for run in runs) == row.failed
    assert str(found[-1].output).startswith(row.output)
    assert not row.loss or any(row.loss in loss for loss in found[0].losses)


@pytest.mark.parametrize("file", REFUSED)
def test_a_file_without_content_says_what_brings_it(file):
    with pytest.raises(TraceIncomplete) as refused:
        imported(f"generated/{file}")
    said = str(refused.value)
    assert said.startswith(f"generated/{file}: ")
    assert not [word for word in REFUSED[file][1] if word not in said]
    assert "sk-stub" not in said


def test_the_exception_of_a_tool_is_kept_beside_what_the_model_was_told():
    traceless = ("openai-agents", "galileo", "langsmith/langchain")
    for file in (*(file for file, row in REFUNDS.items() if row[0] in PLATFORMS), "openinference/otlp_refund.jsonl"):
        (trace,) = imported(f"generated/{file}")
        fault = trace.tool_runs[1].fault
        assert fault.type.rpartition(".")[2] == ("" if file.startswith("openai-agents") else "RefundError"), file
        assert bool(fault.traceback) is not file.startswith(traceless), file
    assert fault.type == "agent_common.RefundError"
    assert fault.traceback.startswith("Traceback")
    assert trace.tool_runs[1].replayable == {"error": TOLD}


WHOLE_BODIES = ["langsmith/runs_export.jsonl", "mlflow/trace_to_json.json", "weave/calls.jsonl"]


@pytest.mark.parametrize("file", [*WHOLE_BODIES, "openinference/otlp_refund.jsonl"])
def test_whole_bodies_are_kept_as_json(file):
    (trace,) = imported(f"generated/{file}")
    body, reply = (json.loads(x.body.data) for x in (trace.model_calls[0].request, trace.model_calls[-1].response))
    assert body["tools"][0]["function"]["strict"] is True
    assert set(body) == {"messages", "model", "tools", "temperature", "max_tokens", "seed"}
    assert reply["choices"][0]["message"]["content"] == DONE
    assert reply["usage"]["prompt_tokens"] == 200
    assert not {"usage_metadata", "request_id"} & set(reply)
    assert "Zoë".encode() in trace.model_calls[1].request.body.data


def zstandard(data):
    """A frame of blocks that are not packed, with one that nobody reads before it."""
    blocks = [data[at : at + 100_000] for at in range(0, len(data), 100_000)]
    heads = [(len(block) << 3 | (at == len(blocks))).to_bytes(3, "little") for at, block in enumerate(blocks, 1)]
    skipped = b"\x50\x2a\x4d\x18\x02\0\0\0no"
    frame = b"\x28\xb5\x2f\xfd\x00\x48" + b"".join(map(bytes.__add__, heads, blocks))
    return frame + skipped + frame[:6] + b"\x01\0\0"


PACKINGS = {
    "zstandard": zstandard,
    "gzip twice": lambda data: gzip.compress(gzip.compress(data)),
    "lines packed one by one": lambda data: b"".join(map(gzip.compress, data.splitlines(keepends=True))),
    "a byte order mark": lambda data: data if data[:2] == b"PK" else b"\xef\xbb\xbf" + data,
}


def test_a_file_is_known_by_what_it_holds_however_it_is_packed():
    wrong = []
    for name, wanted in FORMATS.items():
        data = (TRACES / name).read_bytes()
        plain = open_trace(data, file="x")
        try:
            inside = next((layer for layer in layers(plain) if any(form.fits(layer) for form in formats())), plain)
            found = choose(inside, formats()).name
        except TraceUnknown as refused:
            found = "" if "no format fits" in str(refused) else str(refused)
        wrong += [(name, found)] if found != wanted else []
        for packing, pack in PACKINGS.items():
            held = open_trace(pack(data), file="x")
            wrong += [(name, packing)] if (held.rows, held.members) != (plain.rows, plain.members) else []
    assert not wrong, wrong


ENVELOPES = (
    lambda rows: [{"object": "list", "data": rows, "next_cursor": None}],
    lambda rows: [{"runs": rows[:1]}, {"runs": rows[1:]}],
    lambda rows: [[rows]],
)


def test_what_stands_around_all_that_a_file_holds_is_taken_off_and_the_last_value_may_be_cut():
    for at, name in enumerate(name for name in WHOLE if not name.endswith(".eval")):
        rows = [*open_trace((TRACES / name).read_bytes(), file=name).rows]
        wrapped = "\n".join(map(json.dumps, ENVELOPES[at % len(ENVELOPES)](rows))).encode()
        found = traces([(name, wrapped)])
        assert found[0].source.format == FORMATS[name], name
        assert sum(len(trace.model_calls) for trace in found) == (OTHERS[name].calls if name in OTHERS else 3), name
    whole = (TRACES / "public/waza/copilot_events_using_skill.json").read_bytes()
    (trace,) = traces([("events", whole.rstrip()[:-40])])
    assert (trace.source.format, "1 lines are no events" in trace.losses) == ("copilot-events", True)


def test_lines_in_any_order_are_put_in_that_of_their_times():
    ordered = ("edge_cases", "representative", "simonw")  # sessions without times, or with the same
    wrong = []
    for name in (name for name in FORMATS if name.endswith(".jsonl")):
        lines = (TRACES / name).read_bytes().splitlines()
        for other in (lines[::-1], random.Random(1).sample(lines, len(lines))):
            held = open_trace(b"\n".join(other), file=name)
            wrong += [name] if choose(held, formats()).name != FORMATS[name] else []
            if name in WHOLE and not any(word in name for word in ordered):
                wrong += [name] if traces([(name, b"\n".join(other))]) != read(name) else []
    assert not wrong, wrong


def test_no_credential_of_a_recording_reaches_a_trace():
    for name in WHOLE:
        steps = [step for trace in read(name) for step in trace.steps]
        shown = repr(
            [(step, step.request and step.request.headers) if hasattr(step, "request") else step for step in steps]
        )
        assert not [word for word in ("sk-stub", "sk-ant-stub", "pl_stub", "ookie", "Bearer") if word in shown], name
    assert "KJGLKJGLJG" not in repr(imported("public/langfuse/langgraph-python-2025-08-22.trace.json")), "a public key"


# Beyond the table: what single files tell.


def test_a_har_of_four_runs_is_split_by_what_each_request_says_again():
    chat, streamed, responses, messages = read("generated/har/mitmproxy_openai_anthropic.har")
    assert refund_facts(chat) == REFUND | ROOTLESS | NO_ERROR_BIT
    assert refund_facts(responses) == REFUND | ROOTLESS | NO_ERROR_BIT | RESPONSES
    assert refund_facts(messages) == REFUND | ROOTLESS | ANTHROPIC
    assert streamed.model_calls[0].reply == chat.model_calls[0].reply
    assert streamed.model_calls[0].stream
    assert streamed.missing == ("result of lookup_order, call 1",)
    assert {run.source.fidelity for run in (chat, streamed, responses, messages)} == {"bytes"}
    assert chat.started == 1795182710559037000
    assert chat.started < chat.ended


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gcp.gemini"])
def test_go_records_three_providers_as_streams(provider):
    file = {"openai": "OpenAI", "anthropic": "Anthropic"}.get(provider, "Gemini")
    (trace,) = read(f"public/cagent/TestExec_{file}_ToolCall.yaml")
    assert (trace.source.version, trace.source.fidelity, trace.missing) == ("2", "body-json", ())
    assert [(call.provider, call.stream) for call in trace.model_calls] == [(provider, True)] * 2
    assert [run.executed for run in trace.tool_runs] == [True]
    assert "README.me" in str(trace.tool_runs[0].seen)


def test_sessions_of_claude_code_and_copilot_tell_tools_and_where_they_ran():
    (trace,) = read("public/claude-code/representative_messages.jsonl")
    assert [(run.executed, run.fault) for run in trace.tool_runs] == [(True, None)] * 2
    assert trace.tool_runs[1].seen == "Hello, Alice!\nHello, Alice!\nHello, Alice!"
    assert (trace.session, trace.metadata, trace.source.version) == ("test_session", {"cwd": "/tmp"}, "1.0.0")
    assert trace.model_calls[0].model == "claude-3-sonnet-20240229"
    (items,) = read("generated/openai/response_input_items.json")
    assert ([run.seen for run in items.tool_runs], items.missing) == (REFUND["seen"], ())
    (parentless,) = read("public/claude-code/simonw_sample_session.jsonl")
    written, committed = "File written successfully", "[main abc1234] Add hello function\n 1 file changed"
    assert [run.seen for run in parentless.tool_runs] == [written, committed]
    rubbish, _ = read("public/claude-code/edge_cases.jsonl")
    assert [run.call_id for run in rubbish.tool_runs if run.fault] == ["tool_edge_001"]
    assert str(rubbish.output).startswith("I see the long Lorem ipsum text wraps nicely! Long text hand")
    (copilot,) = read("public/waza/copilot_events_using_skill.json")
    assert [run.executed for run in copilot.tool_runs] == [True, True]
    assert (copilot.tool_runs[0].seen, copilot.input) == ("Intent logged", "use the example horn")


def test_results_of_waza_are_tool_level_runs_with_their_grades():
    runs = read("public/waza/azure-deploy-gpt4o.json")
    assert len({run.name for run in runs}) == 6
    assert {run.name for run in runs if run.grades["status"] == "failed"} == {"deploy-cosmos-private"}
    failed = next(run for run in runs if run.grades["status"] == "failed")
    assert [run.name for run in runs[0].tool_runs][:2] == ["read_file", "create_file"]
    warned = ("bash", "WARNING: Private DNS zone name mismatch detected")
    assert [(run.name, run.fault.message) for run in failed.tool_runs if run.fault] == [warned]
    assert all("requests to the model, and its replies" in run.missing for run in runs)
    untold = read("public/waza/trigger-accuracy-claude.json")
    assert len({run.name for run in untold}) == 8
    assert {run.name for run in untold if run.status != "ok"} == {"trigger-edge-cloud-host", "trigger-edge-migrate"}
    assert "1 calls of tools that the transcript does not tell" in untold[-1].missing


TOKYO = (
    "call_CwaJHuXTm9dmHFQPlVbqyzJ0",
    {"location": "Tokyo, Japan"},
    "The weather in Tokyo, Japan is stormy with a high of 23°C.",
)
LINKED = [{"url": "https://example.com", "title": "Example Result", "q": "example"}]
BEHIND_LANGFUSE = {
    "langgraph-python-2025-08-22": ("openai_chat", "demo-thread-1", [("call_1oGK863sxQHlPreFhDdEs3yl", {"query": "example"}, LINKED)]),
    "microsoft-agent-2025-12-17": ("openai_responses", "", [TOKYO]),
    "openai-agents-2025-09-30": ("openai_responses", "", [("call_Kud0j0DxWSmLzv9W5m6qVqXn", {"city": "Tokyo"}, "The weather in Tokyo is sunny.")]),
    "vertex-ai-2025-08-01": ("gemini", "", []),
}  # fmt: skip
"""Examples of Langfuse: the dialect, the session, and of each tool id, arguments and result."""


@pytest.mark.parametrize("name", BEHIND_LANGFUSE)
def test_frameworks_are_read_behind_langfuse(name):
    (trace,) = imported(f"public/langfuse/{name}.trace.json")
    dialect, session, ran = BEHIND_LANGFUSE[name]
    assert [(run.call_id, run.arguments, run.seen) for run in trace.tool_runs] == ran
    assert all(run.executed and run.fault is None and run.seen == run.result for run in trace.tool_runs)
    steps = [getattr(step, "name", "model") for step in trace.steps]
    declared = [tool["name"] for tool in trace.model_calls[0].tools]
    assert steps == (["model", *declared, "model"] if ran else ["model"])
    assert {call.dialect for call in trace.model_calls} == {dialect}
    assert (trace.session, trace.status, trace.missing) == (session, "ok", ())
    assert trace.grades
    assert trace.model_calls[0].parameters == {} or not name.startswith("openai"), "defaults that nobody sent"
