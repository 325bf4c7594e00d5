"""Every sample of requests, sessions and results, by the facts that it is known to hold; what cannot be read, by why."""

import gzip
from pathlib import Path

import pytest

from pytest_agentreplay.errors import TraceIncomplete, TraceUnknown
from pytest_agentreplay.interchange.reading import traces
from pytest_agentreplay.interchange.trace import ToolRun
from tests.interchange.neutral import ASKED, LOOK_UP, ORDER, PAY, REFUND, SYSTEM, refund_facts

HERE = Path(__file__).parent / "traces"
INSPECT_JSON = "generated/inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json"
INSPECT_EVAL = "generated/inspect-ai/2026-11-20T13-39-35-00-00_refund_8JVSA7n8EzNvfUwpa3jCpz.eval"
OURS = (
    *("generated/vcrpy/*", "generated/har/*", "generated/openai/*", "generated/anthropic/*", "generated/inspect-ai/*"),
    *("generated/openai-agents/*_list.json", "generated/openai-agents/raw_*", "generated/promptlayer/track_*"),
    *("generated/_synthesised/[bhv]*", "public/cagent/*", "public/claude-code/*", "public/waza/*"),
)


def read(name):
    return traces([(name, (HERE / name).read_bytes())])


def unsaid(*names):
    """What a source that does not carry these facts says of them."""
    return {name: () if name == "tags" else "" for name in names}


ROOTLESS = unsaid("name", "status", "user", "session", "tenant", "tags")
NO_ERROR_BIT = {"faults": [None, None]}
RESPONSES = {"knobs": [{"temperature": 0.2}] * 3, "finish": ["completed"] * 3, "fingerprints": {""}}
TOLD = "RefundError: amount 45990 exceeds order total 4599 for A-1001"
FIRST = [("system", SYSTEM), ("user", ASKED)]
LOOKED = [("lookup_order", LOOK_UP), ("result", ORDER)]
ANTHROPIC = {
    "model": {"claude-sonnet-4-5"},
    "response_model": {"claude-sonnet-4-5-20250929"},
    "knobs": [{"temperature": 0.2, "max_tokens": 512}] * 3,
    "finish": ["tool_use", "tool_use", "end_turn"],
    "fingerprints": {""},
    "asked": [FIRST, LOOKED, [("issue_refund", PAY), ("result", TOLD)]],
    "tools": [("lookup_order", LOOK_UP, "toolu_stub_00"), ("issue_refund", PAY, "toolu_stub_10")],
    "seen": [ORDER, TOLD],
}
BEDROCK = {
    "model": {"anthropic.claude-sonnet-4-5-20250929-v1:0"},
    "response_model": {""},
    "knobs": [{}] * 3,  # they stand in inferenceConfig
    "response_ids": False,
}
GEMINI = {
    "model": {"gemini-2.5-flash"},
    "response_model": {"gemini-2.5-flash"},
    "knobs": [{}] * 3,  # they stand in generationConfig
    "finish": ["STOP"] * 3,
    "fingerprints": {""},
    "tools": [("lookup_order", LOOK_UP, ""), ("issue_refund", PAY, "")],
}
HIDDEN = "An error occurred while running the tool. Please try again."
ITEMS = {
    "response_model": {""},
    "knobs": [{}] * 3,
    "usage": [(None, None)] * 3,
    "finish": [""] * 3,
    "fingerprints": {""},
    "tool_names": [[]] * 3,
    "asked": [[("user", ASKED)], LOOKED, [("issue_refund", PAY), ("result", HIDDEN)]],
    "seen": [ORDER, HIDDEN],
}
INSPECT = {
    "name": "refund",
    "asked": [FIRST, LOOKED, [("issue_refund", PAY), ("result", f"Error: {TOLD}")]],
    "seen": [ORDER, f"Error: {TOLD}"],
}

REFUNDS = [
    ("generated/vcrpy/openai_refund.yaml", "vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    ("generated/vcrpy/openai_refund.json", "vcrpy", "bytes", ROOTLESS | NO_ERROR_BIT),
    ("generated/openai/chat_completions_log.jsonl", "openai-chat-log", "body-json", ROOTLESS | NO_ERROR_BIT),
    ("generated/openai/responses_log.jsonl", "openai-responses-log", "body-json", ROOTLESS | NO_ERROR_BIT | RESPONSES),
    ("generated/anthropic/messages_log.jsonl", "anthropic-log", "body-json", ROOTLESS | ANTHROPIC | {"user": "u-7"}),
    (
        "generated/_synthesised/bedrock_converse_invocation_log.jsonl",
        "bedrock-invocation-log",
        "body-json",
        unsaid("name", "status", "tenant", "tags") | ANTHROPIC | BEDROCK,
    ),
    (
        "generated/_synthesised/helicone_export.jsonl",
        "helicone",
        "body-json",
        {"name": "refund", "status": "", "tags": ()} | NO_ERROR_BIT,
    ),
    (
        "generated/_synthesised/vertex_request_response_bq_rows.jsonl",
        "vertex-request-response",
        "body-json",
        unsaid("name", "status", "session", "tenant", "tags") | GEMINI | NO_ERROR_BIT,
    ),
    (
        "generated/promptlayer/track_request_bodies.jsonl",
        "promptlayer",
        "body-json",
        ROOTLESS | NO_ERROR_BIT | {"tags": ("prod",)},
    ),
    (INSPECT_JSON, "inspect", "body-json", ROOTLESS | INSPECT | {"user": "u-7", "status": "ok"}),
    (INSPECT_EVAL, "inspect", "body-json", ROOTLESS | INSPECT | {"user": "u-7", "status": "ok"}),
    (
        "generated/openai-agents/chatmodel_to_input_list.json",
        "openai-items",
        "semantic",
        ROOTLESS | ITEMS | NO_ERROR_BIT,
    ),
    (
        "generated/openai-agents/run_items_to_input_list.json",
        "openai-items",
        "semantic",
        ROOTLESS | ITEMS | NO_ERROR_BIT | {"model": {""}, "response_ids": False},
    ),
]


@pytest.mark.parametrize(("name", "form", "fidelity", "lost"), REFUNDS, ids=[row[0] for row in REFUNDS])
def test_the_refund_is_the_same_run_everywhere_but_for_what_a_source_loses(name, form, fidelity, lost):
    (trace,) = read(name)

    assert refund_facts(trace) == REFUND | lost
    assert (trace.source.format, trace.source.fidelity, trace.source.file) == (form, fidelity, name)
    assert trace.losses


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
    assert chat.ended is not None
    assert chat.started < chat.ended


def test_a_stream_in_yaml_is_joined():
    (trace,) = read("generated/vcrpy/openai_stream.yaml")

    (call, run) = trace.steps
    assert (call.stream, call.finish_reasons, call.usage["input_tokens"]) == (True, ("tool_calls",), 120)
    assert isinstance(run, ToolRun)
    assert (run.name, run.arguments, run.executed) == ("lookup_order", LOOK_UP, False)
    assert trace.output is None


@pytest.mark.parametrize("provider", ["OpenAI", "Anthropic", "Gemini"])
def test_go_records_three_providers_as_streams(provider):
    (trace,) = read(f"public/cagent/TestExec_{provider}_ToolCall.yaml")

    assert (trace.source.format, trace.source.version, trace.source.fidelity) == ("go-vcr", "2", "body-json")
    assert [call.provider for call in trace.model_calls] == [
        {"Gemini": "gcp.gemini"}.get(provider, provider.lower())
    ] * 2
    assert all(call.stream for call in trace.model_calls)
    assert [(run.name, run.executed) for run in trace.tool_runs] == [("list_directory", True)]
    assert "README.me" in str(trace.tool_runs[0].seen)
    assert (trace.output, trace.missing) == ("1", ())


def test_a_session_of_claude_code():
    (trace,) = read("public/claude-code/representative_messages.jsonl")

    assert len(trace.model_calls) == 5
    assert [(run.name, run.executed, run.fault) for run in trace.tool_runs] == [
        ("Edit", True, None),
        ("Bash", True, None),
    ]
    assert trace.tool_runs[1].seen == "Hello, Alice!\nHello, Alice!\nHello, Alice!"
    assert str(trace.output).startswith("Perfect! As you can see, the `@repeat(3)` decorator successf")
    assert (trace.session, trace.metadata, trace.source.version) == ("test_session", {"cwd": "/tmp"}, "1.0.0")
    assert trace.model_calls[0].model == "claude-3-sonnet-20240229"


def test_a_session_that_uses_one_tool_three_times():
    (trace,) = read("public/claude-code/todowrite_examples.jsonl")

    assert len(trace.model_calls) == 6
    assert [run.name for run in trace.tool_runs] == ["TodoWrite"] * 3
    assert str(trace.output).startswith("Absolutely! Security review is crucial. Let me add that to o")


def test_a_session_without_ids_of_parents_and_replies():
    (trace,) = read("public/claude-code/simonw_sample_session.jsonl")

    assert len(trace.model_calls) == 3
    assert [(run.name, run.seen) for run in trace.tool_runs] == [
        ("Write", "File written successfully"),
        ("Bash", "[main abc1234] Add hello function\n 1 file changed"),
    ]
    assert trace.output == "Done! The hello function is ready."


def test_a_session_of_rubbish_keeps_what_is_none_and_counts_the_rest():
    first, other = read("public/claude-code/edge_cases.jsonl")

    assert len(first.model_calls) + len(other.model_calls) == 4
    assert [run.name for run in (*first.tool_runs, *other.tool_runs)] == ["FailingTool", "MultiEdit", "TodoWrite"]
    assert [run.call_id for run in first.tool_runs if run.fault] == ["tool_edge_001"]
    assert str(first.output).startswith("I see the long Lorem ipsum text wraps nicely! Long text hand")
    assert "5 rows are no messages and left out" in first.losses


def test_results_of_waza_are_tool_level_runs_with_their_grades():
    runs = read("public/waza/azure-deploy-gpt4o.json")

    assert len({run.name for run in runs}) == 6
    assert {run.name for run in runs if run.grades["status"] == "failed"} == {"deploy-cosmos-private"}
    assert [run.name for run in runs[0].tool_runs][:2] == ["read_file", "create_file"]
    failed = next(run for run in runs if run.grades["status"] == "failed")
    assert [(run.name, run.fault.message) for run in failed.tool_runs if run.fault] == [
        ("bash", "WARNING: Private DNS zone name mismatch detected")
    ]
    assert not any(run.model_calls for run in runs)
    assert all("requests to the model, and its replies" in run.missing for run in runs)


def test_results_of_waza_without_transcripts_say_what_they_do_not_tell():
    runs = read("public/waza/trigger-accuracy-claude.json")

    assert len({run.name for run in runs}) == 8
    assert {run.name for run in runs if run.status != "ok"} == {"trigger-edge-cloud-host", "trigger-edge-migrate"}
    assert "1 calls of tools that the transcript does not tell" in runs[-1].missing


def test_events_of_copilot():
    (trace,) = read("public/waza/copilot_events_using_skill.json")

    assert [(run.name, run.executed) for run in trace.tool_runs] == [("report_intent", True), ("skill", True)]
    assert trace.tool_runs[0].seen == "Intent logged"
    assert (len(trace.model_calls), trace.input, trace.output) == (2, "use the example horn", "yes")


def test_items_that_end_before_the_last_reply_keep_the_last_result():
    (trace,) = read("generated/openai/response_input_items.json")

    assert [run.seen for run in trace.tool_runs] == [ORDER, REFUND["seen"][1]]
    assert (len(trace.model_calls), trace.output, trace.missing) == (2, None, ())
    assert "ends before the model's last reply" in trace.losses


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generated/openai/stored_completions_list.shape.json", r"GET /v1/chat/completions/\{id\}/messages"),
        ("generated/openai-agents/raw_response0_output.json", r"to_input_list\(\)"),
    ],
)
def test_replies_alone_are_refused_with_what_brings_the_rest(name, said):
    with pytest.raises(TraceIncomplete, match=said):
        read(name)


def test_a_json_schema_is_no_trace():
    schema = (
        b'{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array", "items": {"$ref": "#/$defs/M"}}'
    )

    with pytest.raises(TraceUnknown, match="no format fits"):
        traces([("gen-ai-input-messages.json", schema)])


@pytest.mark.parametrize("name", [row[0] for row in REFUNDS if not row[0].endswith(".eval")])
def test_neither_gzip_nor_a_byte_order_mark_nor_a_wrong_name_changes_a_run(name):
    data = (HERE / name).read_bytes()

    (trace,) = traces([("x", data)])

    assert traces([("x", gzip.compress(gzip.compress(data)))]) == [trace]
    assert traces([("x", b"\xef\xbb\xbf" + data)]) == [trace]


@pytest.mark.parametrize("name", [row[0] for row in REFUNDS if row[0].endswith(".jsonl")])
def test_files_that_were_packed_one_by_one_and_put_together_are_read_to_the_end(name):
    lines = (HERE / name).read_bytes().splitlines(keepends=True)

    assert traces([(name, b"".join(map(gzip.compress, lines)))]) == read(name)


@pytest.mark.parametrize("name", [row[0] for row in REFUNDS if row[0].endswith(".jsonl")])
def test_shuffled_lines_are_put_in_the_order_of_their_times(name):
    lines = (HERE / name).read_bytes().splitlines()

    assert traces([(name, b"\n".join(reversed(lines)))]) == read(name)


@pytest.mark.parametrize(
    "name", sorted(file.relative_to(HERE).as_posix() for pattern in OURS for file in HERE.glob(pattern))
)
def test_no_credential_of_a_recording_reaches_a_trace(name):
    try:
        shown = repr(
            [
                [(step, getattr(step, "request", None) and step.request.headers) for step in trace.steps]
                for trace in read(name)
            ]
        )
    except TraceIncomplete:
        return
    assert not [word for word in ("sk-stub", "sk-ant-stub", "pl_stub", "ookie", "Bearer") if word in shown]
