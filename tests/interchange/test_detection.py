"""Every file of the tree of samples is known by what it holds, and gives the facts that its manifest tells of it."""

from __future__ import annotations

import gzip
import json
import random
from typing import NamedTuple

import pytest

from pytest_agentreplay.errors import TraceIncomplete, TraceUnknown
from pytest_agentreplay.interchange.formats import choose
from pytest_agentreplay.interchange.opening import opened
from pytest_agentreplay.interchange.reading import formats, traces
from tests.interchange.neutral import DONE, TRACES, imported

REFUND = "lookup_order issue_refund"
PAIRS = ("generated", "public")


class Row(NamedTuple):
    """The format of a file, and over all its runs: model calls, tools in order, how many of these failed, last output.

    `says` is a part of the refusal where a file is refused.
    """

    format: str
    calls: int = 0
    tools: str = ""
    failed: int = 0
    output: str | None = None
    says: str = ""


def refund(name, *, failed=1):
    return Row(name, 3, REFUND, failed, DONE)


ROWS = {
    "generated/_synthesised/appinsights_dependencies.json": refund("appinsights"),
    "generated/_synthesised/bedrock_converse_invocation_log.jsonl": refund("bedrock-invocation-log"),
    "generated/_synthesised/helicone_export.jsonl": refund("helicone", failed=0),
    "generated/_synthesised/vertex_request_response_bq_rows.jsonl": refund("vertex-request-response", failed=0),
    "generated/anthropic/messages_log.jsonl": refund("anthropic-log"),
    "generated/braintrust/logs3_ingest_bodies.json": refund("braintrust"),
    "generated/braintrust/project_logs_events.jsonl": refund("braintrust"),
    "generated/galileo/trace_schema_dump.json": refund("galileo"),
    "generated/har/mitmproxy_openai_anthropic.har": Row("har", 10, f"{REFUND} lookup_order {REFUND} {REFUND}", 1, DONE),
    "generated/inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json": refund("inspect"),
    "generated/inspect-ai/2026-11-20T13-39-35-00-00_refund_8JVSA7n8EzNvfUwpa3jCpz.eval": refund("inspect-eval"),
    "generated/langfuse/otlp_export.json": refund("otlp-langfuse"),
    "generated/langsmith/ingest_requests.jsonl": refund("langsmith-runs"),
    "generated/langsmith/langchain_agent_batch.jsonl": refund("langsmith-runs"),
    "generated/langsmith/runs_export.jsonl": refund("langsmith-runs"),
    "generated/mlflow/trace_to_dict.json": refund("mlflow"),
    "generated/mlflow/trace_to_json.json": refund("mlflow"),
    "generated/openai-agents/chatmodel_to_input_list.json": refund("openai-items", failed=0),
    "generated/openai-agents/chatmodel_trace_processor_export.jsonl": refund("openai-agents"),
    "generated/openai-agents/raw_response0_output.json": Row("openai-items", says="nothing that was asked"),
    "generated/openai-agents/run_items_to_input_list.json": refund("openai-items", failed=0),
    "generated/openai-agents/trace_processor_export.jsonl": Row("openai-agents", says="no model call tells"),
    "generated/openai/chat_completions_log.jsonl": refund("openai-chat-log", failed=0),
    "generated/openai/response_input_items.json": Row("openai-items", 2, REFUND),
    "generated/openai/responses_log.jsonl": refund("openai-responses-log", failed=0),
    "generated/openai/stored_completions_list.shape.json": Row("openai-stored", says="replies without what was asked"),
    "generated/openinference/otlp_compare_anthropic_stream.json": Row(
        *("otlp-openinference", 2, "get_weather get_weather", 0, "Kraków is warmer (18°C) than Oslo (9°C).")
    ),
    "generated/openinference/otlp_langchain_refund.json": refund("otlp-openinference"),
    "generated/openinference/otlp_refund.jsonl": refund("otlp-openinference"),
    "generated/openllmetry/otlp_compare_flattened.json": Row(
        *("otlp-openllmetry", 2, "get_weather get_weather", 0, "Kraków is warmer (18°C) than Oslo (9°C).")
    ),
    "generated/openllmetry/otlp_refund.jsonl": refund("otlp-openllmetry"),
    "generated/opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json": refund("opik"),
    "generated/otel-genai-legacy-events/otlp_logs_events.json": refund("otlp-genai-events", failed=0),
    "generated/otel-genai-legacy-events/otlp_spans.json": Row("otlp-genai", says="MESSAGE_CONTENT=true"),
    "generated/otel-genai/otlp_logs_refund_eventonly.jsonl": refund("otlp-genai-events", failed=0),
    "generated/otel-genai/otlp_refund_eventonly.jsonl": Row("otlp-genai", says="give the log records together"),
    "generated/otel-genai/otlp_refund_noargs_nocontent.jsonl": Row("otlp-genai", says="MESSAGE_CONTENT=span_only"),
    "generated/otel-genai/otlp_refund_noargs_spanonly.jsonl": refund("otlp-genai"),
    "generated/otel-genai/otlp_refund_spanonly.jsonl": refund("otlp-genai"),
    "generated/phoenix/rest_spans.json": refund("phoenix-spans"),
    "generated/phoenix/rest_traces.json": Row("phoenix-traces", says="/v1/projects/PROJECT/spans"),
    "generated/promptlayer/otlp_traces.json": Row("otlp-promptlayer", says="/track-request"),
    "generated/promptlayer/track_request_bodies.jsonl": refund("promptlayer", failed=0),
    "generated/vcrpy/openai_refund.json": refund("vcrpy", failed=0),
    "generated/vcrpy/openai_refund.yaml": refund("vcrpy", failed=0),
    "generated/vcrpy/openai_stream.yaml": Row("vcrpy", 1, "lookup_order"),
    "generated/weave/calls.jsonl": refund("weave"),
    "public/cagent/TestExec_Anthropic_ToolCall.yaml": Row("go-vcr", 2, "list_directory", 0, "1"),
    "public/cagent/TestExec_Gemini_ToolCall.yaml": Row("go-vcr", 2, "list_directory", 0, "1"),
    "public/cagent/TestExec_OpenAI_ToolCall.yaml": Row("go-vcr", 2, "list_directory", 0, "1"),
    "public/claude-code/edge_cases.jsonl": Row("claude-code", 4, "FailingTool MultiEdit TodoWrite", 1),
    "public/claude-code/representative_messages.jsonl": Row(
        "claude-code", 5, "Edit Bash", 0, "Perfect! As you can see"
    ),
    "public/claude-code/simonw_sample_session.jsonl": Row(
        "claude-code", 3, "Write Bash", 0, "Done! The hello function is ready."
    ),
    "public/claude-code/todowrite_examples.jsonl": Row(
        "claude-code", 6, "TodoWrite TodoWrite TodoWrite", 0, "Absolutely! Security review"
    ),
    "public/langfuse/langgraph-python-2025-08-22.trace.json": Row("langfuse", 2, "Web-Search"),
    "public/langfuse/microsoft-agent-2025-12-17.trace.json": Row("langfuse", 2, "get_weather"),
    "public/langfuse/openai-agents-2025-09-30.trace.json": Row("langfuse", 2, "get_weather"),
    "public/langfuse/vertex-ai-2025-08-01.trace.json": Row("langfuse", 1),
    "public/otel-genai-schemas/gen-ai-input-messages.json": Row(""),
    "public/otel-genai-schemas/gen-ai-output-messages.json": Row(""),
    "public/otel-genai-schemas/gen-ai-retrieval-documents.json": Row(""),
    "public/otel-genai-schemas/gen-ai-system-instructions.json": Row(""),
    "public/otel-genai-schemas/gen-ai-tool-definitions.json": Row(""),
    "public/waza/azure-deploy-gpt4o.json": Row("waza"),
    "public/waza/copilot_events_using_skill.json": Row("copilot-events", 2),
    "public/waza/trigger-accuracy-claude.json": Row("waza"),
}


def files():
    return {
        path.relative_to(TRACES).as_posix() for top in PAIRS for path in (TRACES / top).rglob("*") if path.is_file()
    }


def test_every_file_has_its_row():
    assert files() == set(ROWS)


def test_no_two_formats_have_one_name():
    names = [one.name for one in formats()]
    assert len(names) == len(set(names))


def shuffled(data):
    lines = data.splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    return b"".join(lines)


def zstandard(data):
    """A frame of blocks that are not packed, with one that nobody reads before it."""
    blocks = [data[at : at + 100_000] for at in range(0, len(data), 100_000)]
    heads = [(len(block) << 3 | (at == len(blocks))).to_bytes(3, "little") for at, block in enumerate(blocks, 1)]
    skipped = b"\x50\x2a\x4d\x18\x02\0\0\0no"
    frame = b"\x28\xb5\x2f\xfd\x00\x48" + b"".join(map(bytes.__add__, heads, blocks))
    return frame + skipped + frame[:6] + b"\x01\0\0"


PACKINGS = {
    "as it is": lambda data: data,
    "zstandard": zstandard,
    "gzip": gzip.compress,
    "a byte order mark": lambda data: data if data[:2] == b"PK" else b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", ROWS)
def test_a_file_is_known_by_what_it_holds(name, packing):
    data = PACKINGS[packing]((TRACES / name).read_bytes())
    held = opened(data, file="no-extension")
    if ROWS[name].format:
        assert choose(held, formats()).name == ROWS[name].format
    else:
        with pytest.raises(TraceUnknown, match="no format fits"):
            choose(held, formats())


ENVELOPES = (
    lambda rows: [{"object": "list", "data": rows, "next_cursor": None}],
    lambda rows: [{"runs": rows[:1]}, {"runs": rows[1:]}],
    lambda rows: [[rows]],
)


def test_what_stands_around_all_that_a_file_holds_is_taken_off():
    whole = [name for name, row in ROWS.items() if row.format and not row.says and not name.endswith(".eval")]
    for at, name in enumerate(whole):
        rows = [*opened((TRACES / name).read_bytes(), file=name).rows]
        wrapped = "\n".join(map(json.dumps, ENVELOPES[at % len(ENVELOPES)](rows))).encode()
        found = traces([(name, wrapped)])
        assert found[0].source.format == ROWS[name].format, name
        assert sum(len(trace.model_calls) for trace in found) == ROWS[name].calls or found[0].source.format == "waza"


def test_of_values_behind_each_other_the_last_may_be_cut():
    whole = (TRACES / "public/waza/copilot_events_using_skill.json").read_bytes()
    (trace,) = traces([("events", whole.rstrip()[:-40])])
    assert trace.source.format == "copilot-events"
    assert "1 lines are no events" in trace.losses


@pytest.mark.parametrize("name", [name for name in ROWS if name.endswith(".jsonl")])
def test_the_order_of_lines_is_no_mark(name):
    held = opened(shuffled((TRACES / name).read_bytes()), file=name)
    assert choose(held, formats()).name == ROWS[name].format


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.format and not row.says])
def test_a_file_gives_its_facts(name):
    row, found = ROWS[name], imported(name)
    runs = [run for trace in found for run in trace.tool_runs]
    if row.format != "waza":
        assert sum(len(trace.model_calls) for trace in found) == row.calls
    if row.tools:
        assert [run.name for run in runs] == row.tools.split()
        assert sum(run.fault is not None for run in runs) == row.failed
    if row.output:
        assert str(found[-1].output).startswith(row.output)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.says])
def test_a_file_without_content_says_what_brings_it(name):
    with pytest.raises(TraceIncomplete) as refused:
        imported(name)
    assert ROWS[name].says in str(refused.value)
