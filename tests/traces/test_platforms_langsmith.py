"""LangSmith: however its runs were got, whoever traced them, and what the real client sends."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.traces.trace import UNKNOWN
from tests.support.model_script import Ask
from tests.support.model_server import ModelServer
from tests.traces.neutral import imported, one, read, refund_facts, rows_of

EXPORT = "langsmith/runs_export.jsonl"
BATCH = "langsmith/langchain_agent_batch.jsonl"


def runs(file=EXPORT):
    return [run for row in rows_of(file) for run in (row["body"]["post"] if "body" in row else [row])]


def but(run, *names):
    return {name: value for name, value in run.items() if name not in names}


def nested(held):
    (root,) = (dict(run) for run in held if run.get("parent_run_id") is None)
    children = [run for run in held if run.get("parent_run_id") is not None]
    return root | {"child_runs": [but(run, "parent_run_id", "trace_id", "dotted_order") for run in children]}


def serialised(run):
    """A tool's run of LangChain whose output is an object, and whose input what Python prints."""
    if run["run_type"] != "tool":
        return run
    told = {"lc": 1, "type": "constructor", "id": ["x", "ToolMessage"], "kwargs": run["outputs"]["output"]}
    return run | {"outputs": {"output": told}, "inputs": {"input": str(run["inputs"])}}


def untyped(run):
    """A function with the name of a tool that nobody called one."""
    return run | ({"run_type": "chain"} if run["run_type"] == "tool" else {})


def framed(held):
    """The runs of a client that was traced inside a framework, which traces the same calls."""
    inner, outer = [], []
    for at, run in enumerate(held):
        if run["run_type"] == "llm":
            empty = {"inputs": {}, "outputs": {"generations": []}}
            outer.append({**run, "id": f"outer-{at}", "name": "ChatModel", **empty})
            run |= {"parent_run_id": f"outer-{at}"}
        inner.append(run)
    return [*inner, *outer]


SHAPES = {
    "a row each": (EXPORT, lambda held: held),
    "a list": (EXPORT, lambda held: [held]),
    "runs": (EXPORT, lambda held: [{"trace_id": "t", "runs": held}]),
    "nested": (EXPORT, lambda held: [nested(held)]),
    "a batch": (EXPORT, lambda held: [{"post": held, "patch": [{"id": "elsewhere", "outputs": {}}]}]),
    "no trace id": (EXPORT, lambda held: [but(run, "trace_id") for run in held]),
    "untyped functions with the names of tools": (EXPORT, lambda held: [*map(untyped, held)]),
    "a client inside a framework": (EXPORT, framed),
    "serialised objects of LangChain": (BATCH, lambda held: [*map(serialised, held)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_in_any_shape_are_one_run(shape):
    file, shaped = SHAPES[shape]
    assert refund_facts(one(*shaped(runs(file)))) == refund_facts(imported(f"generated/{file}")[0])


def test_several_traces_in_a_file_are_split():
    other = json.loads(json.dumps(runs()).replace("01a1f92f", "02b2f92f"))
    found = read(*runs()[::-1], *other)
    assert [refund_facts(trace) for trace in found] == [refund_facts(one(*runs()))] * 2
    assert {trace.id[:8] for trace in found} == {"01a1f92f", "02b2f92f"}


def test_what_a_run_tells_of_itself_is_kept_but_for_secrets_and_the_environment():
    root, *rest = runs()
    deep = json.loads("[" * 99 + "1" + "]" * 99)
    told = {"team": {"names": ["a"], "api_key": "hidden-1"}, "LANGSMITH_PROJECT": "hidden-2", "deep": deep}
    metadata = one(root | {"extra": {"metadata": told}}, *rest).metadata
    assert metadata["team"] == {"names": ["a"]}
    assert "hidden" not in repr(metadata)
    assert "1" not in repr(metadata["deep"])
    assert one(*(run | {"extra": {}} for run in runs())).session == "", "the project is no session"


def test_hidden_inputs_are_refused_with_what_to_unset():
    hidden = [{**run, "inputs": {}, "outputs": {}, "error": None, "status": "success"} for run in runs()]
    with pytest.raises(TraceIncomplete, match="LANGSMITH_HIDE_INPUTS"):
        read(*hidden)
    with pytest.raises(TraceIncomplete, match="inputs_s3_urls"):
        read(*({**run, "inputs_s3_urls": {"ROOT": {"presigned_url": "https://x"}}} for run in hidden))
    outputless = [run | ({"outputs": {}} if run["run_type"] == "llm" else {}) for run in runs()]
    assert one(*outputless).missing == tuple(f"reply of model call {number}" for number in (1, 2, 3))


def test_a_call_that_was_refused_has_its_status_a_stopped_agent_its_limit_and_a_handled_error_is_one():
    root, call, *rest = runs()
    error = "RateLimitError(\"Error code: 429 - {'error': 1}\")Traceback (most recent call last):\n  x"
    (refused,) = one(root, call | {"outputs": None, "error": error}).model_calls
    assert (refused.status, refused.fault.type, refused.reply) == (429, "RateLimitError", None)
    assert refused.fault.traceback.startswith("Traceback")
    error = "GraphRecursionError('Recursion limit of 25 reached without hitting a stop condition.')"
    trace = one(root | {"status": "error", "error": error, "outputs": None}, call, *rest)
    assert (trace.status, trace.limits, trace.fault.type) == ("error", "GraphRecursionError", "GraphRecursionError")
    (told,) = (run for run in runs(BATCH) if run["name"] == "issue_refund")
    assert (told.get("error"), told["outputs"]["output"]["status"]) == (None, "error")
    trace = one(*runs(BATCH))
    assert trace.status == "ok"
    assert [fault.message for fault in trace.faults] == ["amount 45990 exceeds order total 4599 for A-1001"]
    assert {step.agent for step in trace.steps} == {"refund-agent"}


ITEM = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at": 1}'}
USE = {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": 1}}
SAID = [{"role": "user", "content": "Hi"}]


RESPONSE = {"object": "response", "id": "resp_1", "model": "gpt-5-1", "status": "completed", "output": [ITEM]}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "stop_reason": "tool_use", "content": [USE]}
CLIENTS = {
    "openai_responses": ({"model": "gpt-5", "instructions": "Be brief.", "input": "Hi"}, RESPONSE),
    "anthropic": ({"model": "claude", "max_tokens": 9, "system": "Be brief.", "messages": SAID}, MESSAGE),
}


@pytest.mark.parametrize("dialect", CLIENTS)
def test_responses_and_messages_of_other_clients_are_read_in_their_dialect(dialect):
    root, call = runs()[:2]
    asked, told = CLIENTS[dialect]
    told = told | {"usage_metadata": {"input_tokens": 5, "output_tokens": True}}
    trace = one(root, {**call, "extra": {}, "inputs": asked, "outputs": told})
    (call,), (run,) = trace.model_calls, trace.tool_runs
    assert (call.dialect, call.usage) == (dialect, {"input_tokens": 5})
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert (run.name, run.arguments, run.call_id, run.executed) == ("look", {"at": 1}, "call_1", False)
    assert (run.replayable, trace.missing) == (UNKNOWN, ("result of look, call 1",))
    assert trace.source.fidelity == "body-json"
    trace = one(*({**run, "inputs": run["inputs"] | {"stream": True}} for run in runs()))
    assert trace.source.fidelity == "semantic", "a stream is no body"
    assert all(call.stream and call.response is None for call in trace.model_calls)


@pytest.mark.filterwarnings("ignore:langsmith.wrappers._openai_agents:DeprecationWarning")
def test_what_the_real_client_and_its_wrappers_send_is_what_was_on_the_wire(monkeypatch):
    langsmith = pytest.importorskip("langsmith")
    from anthropic import Anthropic
    from langsmith.wrappers import wrap_anthropic, wrap_openai
    from openai import OpenAI

    monkeypatch.setenv("LANGSMITH_PROJECT", "acme")
    said = [{"role": "user", "content": "Refund A-17"}]
    script = [Ask("look_up", {"order": "A-17"}), "Two", "Three", "No refund."]
    with ModelServer(lambda *_: "taken") as sink, ModelServer(script) as model:
        traced = {"client": langsmith.Client(api_url=sink.url, api_key="ls-stub-key", auto_batch_tracing=False)}
        client = wrap_openai(OpenAI(base_url=f"{model.url}/v1", api_key="any"), tracing_extra=traced)
        claude = wrap_anthropic(Anthropic(base_url=model.url, api_key="any"), tracing_extra=traced)

        @langsmith.traceable(**traced, run_type="tool")
        def look_up(order):
            raise LookupError(f"no order {order}")

        @langsmith.traceable(**traced, name="agent", metadata={"user_id": "u-7"}, tags=["prod"])
        def agent(question):
            first = client.chat.completions.create(model="m-1", messages=said).choices[0].message
            (call,) = first.tool_calls
            with pytest.raises(LookupError):
                look_up(**json.loads(call.function.arguments))
            claude.messages.create(model="m-1", max_tokens=9, system="Be brief.", messages=said)
            client.responses.create(model="m-1", instructions="Be brief.", input="Hi", extra_headers={"x-a": "b"})
            told = {"role": "tool", "tool_call_id": call.id, "content": "gone"}
            messages = [*said, first.model_dump(exclude_none=True), told]
            chunks = client.chat.completions.create(model="m-1", messages=messages, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

        with langsmith.tracing_context(enabled=True):
            assert agent("Refund A-17") == "No refund."
        traced["client"].flush()
    trace = one(*({"method": each.method, "path": each.path, "body": each.json or {}} for each in sink.requests))
    steps = [getattr(step, "name", getattr(step, "dialect", "")) for step in trace.steps]
    assert steps == ["openai_chat", "look_up", "anthropic", "openai_responses", "openai_chat"]
    assert (trace.name, trace.user, trace.tags, trace.status) == ("agent", "u-7", ("prod",), "ok")
    assert (trace.input, trace.output) == ({"question": "Refund A-17"}, "No refund.")
    (run,) = trace.tool_runs
    assert (run.arguments, run.seen) == ({"order": "A-17"}, "gone")
    assert (run.fault.type, run.fault.message) == ("LookupError", "no order A-17")
    *whole, streamed = trace.model_calls
    assert [json.loads(call.request.body.data) for call in whole] == [one.json for one in model.requests[:3]]
    assert [call.reply["parts"][0].get("content") for call in trace.model_calls] == [None, "Two", "Three", "No refund."]
    for call in whole[1:]:
        assert (bool(call.response_id), call.response_model) == (True, "m-1")
        assert json.loads(call.response.body.data)["usage"]["output_tokens"] == call.usage["output_tokens"] > 0
    assert (streamed.stream, streamed.response, streamed.finish_reasons) == (True, None, ("stop",))
    assert "LANGSMITH" not in repr(trace.metadata)
    assert "ls-stub-key" not in repr(trace)
