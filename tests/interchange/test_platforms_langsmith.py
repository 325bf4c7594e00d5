"""LangSmith: however its runs were got, whoever traced them, and what the real client sends."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pytest_agentreplay.demo.script import Ask
from pytest_agentreplay.demo.server import ModelServer
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.reading import traces
from pytest_agentreplay.interchange.trace import UNKNOWN
from tests.interchange.neutral import TRACES, imported, refund_facts

EXPORT = "generated/langsmith/runs_export.jsonl"
BATCH = "generated/langsmith/langchain_agent_batch.jsonl"


def runs(file=EXPORT):
    lines = [json.loads(line) for line in (TRACES / file).read_text(encoding="utf-8").splitlines()]
    return [run for line in lines for run in (line["body"]["post"] if "body" in line else [line])]


def read(*rows):
    (trace,) = traces([("trace.jsonl", "\n".join(map(json.dumps, rows)).encode())])
    return trace


def nested(held):
    root = dict(next(run for run in held if run.get("parent_run_id") is None))
    root["child_runs"] = [
        {name: value for name, value in run.items() if name not in {"parent_run_id", "trace_id", "dotted_order"}}
        for run in held
        if run.get("parent_run_id") is not None
    ]
    return root


@pytest.mark.parametrize("shape", [
    pytest.param(lambda held: held, id="a row each"),
    pytest.param(lambda held: [held], id="a list"),
    pytest.param(lambda held: [{"trace_id": "t", "runs": held}], id="runs"),
    pytest.param(lambda held: [nested(held)], id="nested"),
    pytest.param(lambda held: [{"post": held, "patch": []}], id="a batch"),
    pytest.param(lambda held: [{name: run[name] for name in run if name != "trace_id"} for run in held], id="no trace id"),
])  # fmt: skip
def test_runs_in_any_shape_are_one_run(shape):
    (known,) = imported(EXPORT)
    assert refund_facts(read(*shape(runs()))) == refund_facts(known)


def test_several_traces_in_a_file_are_split():
    other = json.loads(json.dumps(runs()).replace("01a1f92f", "02b2f92f"))
    both = "\n".join(map(json.dumps, [*runs()[::-1], *other])).encode()
    found = traces([("both.jsonl", both)])
    assert [refund_facts(one) for one in found] == [refund_facts(imported(EXPORT)[0])] * 2
    assert {one.id[:8] for one in found} == {"01a1f92f", "02b2f92f"}


def test_what_is_ingested_is_what_is_exported():
    (exported,), (ingested,) = imported(EXPORT), imported("generated/langsmith/ingest_requests.jsonl")
    assert exported.steps == ingested.steps
    assert (exported.id, exported.status, exported.started) == (ingested.id, ingested.status, ingested.started)


def test_the_project_is_no_session():
    (trace,) = imported(EXPORT)
    assert trace.session == "conv-42"
    bare = runs()
    for run in bare:
        run["extra"] = {}
    assert read(*bare).session == ""


def test_hidden_inputs_are_refused_with_what_to_unset():
    hidden = [{**run, "inputs": {}, "outputs": {}, "error": None, "status": "success"} for run in runs()]
    with pytest.raises(TraceIncomplete, match="LANGSMITH_HIDE_INPUTS"):
        read(*hidden)
    with pytest.raises(TraceIncomplete, match="inputs_s3_urls"):
        read(*({**run, "inputs_s3_urls": {"ROOT": {"presigned_url": "https://x"}}} for run in hidden))


def test_outputs_alone_that_are_hidden_are_missing_by_name():
    kept = [{**run, "outputs": {}} if run["run_type"] == "llm" else run for run in runs()]
    assert read(*kept).missing == tuple(f"reply of model call {number}" for number in (1, 2, 3))


def test_a_handled_error_of_a_tool_is_an_error():
    told = [run for run in runs(BATCH) if run["name"] == "issue_refund"]
    assert [(run.get("error"), run["outputs"]["output"]["status"]) for run in told] == [(None, "error")]
    (trace,) = imported(BATCH)
    assert trace.status == "ok"
    assert [fault.message for fault in trace.faults] == ["amount 45990 exceeds order total 4599 for A-1001"]
    assert {step.agent for step in trace.steps} == {"refund-agent"}


def test_serialised_objects_of_langchain_are_messages():
    serialised = json.loads(json.dumps(runs(BATCH)))
    for run in serialised:
        if run["run_type"] == "tool":
            told = run["outputs"]["output"]
            run["outputs"]["output"] = {"lc": 1, "type": "constructor", "id": ["x", "ToolMessage"], "kwargs": told}
            run["inputs"] = {"input": str(run["inputs"])}
    assert refund_facts(read(*serialised)) == refund_facts(imported(BATCH)[0])


def test_a_call_that_was_refused_has_its_status():
    failing = [run for run in runs() if run["run_type"] != "tool"][:2]
    failing[1] |= {
        "outputs": None,
        "error": "RateLimitError(\"Error code: 429 - {'error': 1}\")Traceback (most recent call last):\n  x",
    }
    (call,) = read(*failing).model_calls
    assert (call.status, call.fault.type, call.reply) == (429, "RateLimitError", None)
    assert call.fault.traceback.startswith("Traceback")


def test_an_agent_that_was_stopped_at_its_limit_says_so():
    stopped = runs()
    stopped[0] |= {
        "status": "error",
        "error": "GraphRecursionError('Recursion limit of 25 reached without hitting a stop condition.')",
        "outputs": None,
    }
    trace = read(*stopped)
    assert (trace.status, trace.limits, trace.fault.type) == ("error", "GraphRecursionError", "GraphRecursionError")


def test_an_untyped_function_with_the_name_of_a_tool_is_one():
    plain = [{**run, "run_type": "chain"} if run["run_type"] == "tool" else run for run in runs()]
    assert refund_facts(read(*plain)) == refund_facts(imported(EXPORT)[0])


def test_a_client_traced_inside_a_framework_is_one_call():
    inner = runs()
    outer = [
        {**run, "id": f"outer-{number}", "name": "ChatModel", "inputs": {"prompt": "?"}, "outputs": {"generations": []}}
        for number, run in enumerate(inner)
        if run["run_type"] == "llm"
    ]
    for one, run in zip(outer, [run for run in inner if run["run_type"] == "llm"], strict=True):
        run["parent_run_id"] = one["id"]
    assert refund_facts(read(*inner, *outer)) == refund_facts(imported(EXPORT)[0])


def test_responses_and_messages_of_other_clients_are_read_in_their_dialect():
    root, call = runs()[:2]
    replies = {
        "openai_responses": (
            {"model": "gpt-5", "instructions": "Be brief.", "input": "Hi"},
            {"object": "response", "id": "resp_1", "model": "gpt-5-1", "status": "completed", "output": [
                {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at": 1}'}
            ]},
        ),
        "anthropic": (
            {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5-1", "stop_reason": "tool_use", "content": [
                {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": 1}}
            ]},
        ),
    }  # fmt: skip
    for dialect, (asked, told) in replies.items():
        trace = read(
            root, {**call, "extra": {}, "inputs": asked, "outputs": told | {"usage_metadata": {"input_tokens": 5}}}
        )
        (read_call,), (run,) = trace.model_calls, trace.tool_runs
        assert read_call.dialect == dialect
        assert [message["role"] for message in read_call.messages] == ["system", "user"]
        assert (run.name, run.arguments, run.call_id, run.executed) == ("look", {"at": 1}, "call_1", False)
        assert run.replayable == UNKNOWN
        assert trace.missing == ("result of look, call 1",)
        assert read_call.usage["input_tokens"] == 5
        assert trace.source.fidelity == "body-json"


def test_a_stream_is_no_body():
    streamed = [{**run, "inputs": run["inputs"] | {"stream": True}} for run in runs()]
    trace = read(*streamed)
    assert trace.source.fidelity == "semantic"
    assert all(call.stream and call.response is None for call in trace.model_calls)


@pytest.fixture
def sink():
    """A server that takes runs; `taken` are the requests."""

    class Take(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            server.taken.append({"method": self.command, "path": self.path, "body": body})
            self.send_response(202)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_PATCH = do_POST

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
    server.taken = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.env("main")
@pytest.mark.filterwarnings("ignore:langsmith.wrappers._openai_agents:DeprecationWarning")
def test_what_the_real_client_sends_is_read(sink, monkeypatch):
    langsmith = pytest.importorskip("langsmith")
    from langsmith.wrappers import wrap_openai
    from openai import OpenAI

    monkeypatch.setenv("LANGSMITH_PROJECT", "acme")
    url = f"http://127.0.0.1:{sink.server_port}"
    client = langsmith.Client(api_url=url, api_key="ls-stub-key", auto_batch_tracing=False)
    with ModelServer([Ask("look_up", {"order": "A-17"}), "No refund."]) as model:
        asked = wrap_openai(OpenAI(base_url=f"{model.url}/v1", api_key="any"), tracing_extra={"client": client})

        @langsmith.traceable(client=client, run_type="tool")
        def look_up(order):
            raise LookupError(f"no order {order}")

        @langsmith.traceable(client=client, name="agent", metadata={"user_id": "u-7"}, tags=["prod"])
        def agent(question):
            messages = [{"role": "user", "content": question}]
            first = asked.chat.completions.create(model="m-1", messages=messages).choices[0].message
            (call,) = first.tool_calls
            with pytest.raises(LookupError):
                look_up(**json.loads(call.function.arguments))
            messages += [
                first.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": "gone"},
            ]
            return asked.chat.completions.create(model="m-1", messages=messages).choices[0].message.content

        with langsmith.tracing_context(enabled=True):
            assert agent("Refund A-17") == "No refund."
    client.flush()
    trace = read(*sink.taken)
    assert [getattr(step, "name", "model") for step in trace.steps] == ["model", "look_up", "model"]
    assert (trace.name, trace.user, trace.tags, trace.status) == ("agent", "u-7", ("prod",), "ok")
    assert (trace.input, trace.output) == ({"question": "Refund A-17"}, "No refund.")
    (run,) = trace.tool_runs
    assert (run.arguments, run.seen, run.fault.type, run.fault.message) == (
        *({"order": "A-17"}, "gone", "LookupError", "no order A-17"),
    )
    assert trace.source.fidelity == "body-json"
    assert json.loads(trace.model_calls[0].request.body.data) == json.loads(model.requests[0].body)
    assert "LANGSMITH" not in repr(trace.metadata)
    assert "ls-stub-key" not in repr(trace)


@pytest.mark.env("main")
@pytest.mark.filterwarnings("ignore:langsmith.wrappers._openai_agents:DeprecationWarning")
def test_what_the_real_wrappers_keep_is_what_was_on_the_wire(sink):
    langsmith = pytest.importorskip("langsmith")
    from anthropic import Anthropic
    from langsmith.wrappers import wrap_anthropic, wrap_openai
    from openai import OpenAI

    client = langsmith.Client(
        api_url=f"http://127.0.0.1:{sink.server_port}", api_key="ls-stub", auto_batch_tracing=False
    )
    said = [{"role": "user", "content": "Hi"}]
    with ModelServer(["One", "Two", "Three"]) as model, langsmith.tracing_context(enabled=True):
        openai = wrap_openai(OpenAI(base_url=f"{model.url}/v1", api_key="any"), tracing_extra={"client": client})
        claude = wrap_anthropic(Anthropic(base_url=model.url, api_key="any"), tracing_extra={"client": client})

        @langsmith.traceable(client=client)
        def agent():
            claude.messages.create(model="m-1", max_tokens=9, system="Be brief.", messages=said)
            openai.responses.create(model="m-1", instructions="Be brief.", input="Hi", extra_headers={"x-a": "b"})
            return "".join(
                chunk.choices[0].delta.content or ""
                for chunk in openai.chat.completions.create(model="m-1", messages=said, stream=True)
                if chunk.choices
            )

        assert agent() == "Three"
    first, second, third = read(*sink.taken).model_calls
    assert [json.loads(call.request.body.data) for call in (first, second)] == [one.json for one in model.requests[:2]]
    assert [call.dialect for call in (first, second, third)] == ["anthropic", "openai_responses", "openai_chat"]
    assert [call.reply["parts"][0]["content"] for call in (first, second, third)] == ["One", "Two", "Three"]
    for call in (first, second):
        assert call.response_id
        assert call.response_model == "m-1"
        assert json.loads(call.response.body.data)["usage"]["output_tokens"] == call.usage["output_tokens"] > 0
    assert (third.stream, third.response, third.finish_reasons) == (True, None, ("stop",))
