"""A run that another tool has kept, replayed by its meaning: agents over two SDKs get to its end, and no further."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.dialects import READER, genai
from pytest_agentreplay.interchange.reading import traces
from pytest_agentreplay.interchange.to_run import frozen_run
from tests.application.shop import tried

pytestmark = [pytest.mark.env("main"), pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")]

TRACES = Path(__file__).parents[1] / "interchange/traces/generated"
URL = "http://127.0.0.1:9"
FILES = (
    "_synthesised/appinsights_dependencies.json",
    "_synthesised/bedrock_converse_invocation_log.jsonl",
    "_synthesised/helicone_export.jsonl",
    "_synthesised/vertex_request_response_bq_rows.jsonl",
    "anthropic/messages_log.jsonl",
    "braintrust/logs3_ingest_bodies.json",
    "braintrust/project_logs_events.jsonl",
    "galileo/trace_schema_dump.json",
    "har/mitmproxy_openai_anthropic.har",
    "inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json",
    "inspect-ai/2026-11-20T13-39-35-00-00_refund_8JVSA7n8EzNvfUwpa3jCpz.eval",
    "langfuse/otlp_export.json",
    "langsmith/ingest_requests.jsonl",
    "langsmith/langchain_agent_batch.jsonl",
    "langsmith/runs_export.jsonl",
    "mlflow/trace_to_dict.json",
    "mlflow/trace_to_json.json",
    "openai/chat_completions_log.jsonl",
    "openai/responses_log.jsonl",
    "openai-agents/chatmodel_to_input_list.json",
    "openai-agents/chatmodel_trace_processor_export.jsonl",
    "openai-agents/run_items_to_input_list.json",
    "openinference/otlp_langchain_refund.json",
    "openinference/otlp_refund.jsonl",
    "openllmetry/otlp_refund.jsonl",
    "opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json",
    "otel-genai/otlp_logs_refund_eventonly.jsonl",
    "otel-genai/otlp_refund_noargs_spanonly.jsonl",
    "otel-genai/otlp_refund_spanonly.jsonl",
    "otel-genai-legacy-events/otlp_logs_events.json",
    "phoenix/rest_spans.json",
    "promptlayer/track_request_bodies.jsonl",
    "vcrpy/openai_refund.json",
    "vcrpy/openai_refund.yaml",
    "weave/calls.jsonl",
)
"""The refund run as these tell it: three model calls, and what came of each."""


def lookup_order(order_id):
    raise AssertionError("a tool has really run")


def issue_refund(order_id, amount_cents, note=""):
    raise AssertionError("a tool has really run")


TOOLS = {one.__name__: one for one in (lookup_order, issue_refund)}


def run_of(name):
    """The frozen run of a file, and its model calls."""
    file = TRACES / name
    run = frozen_run(traces([(file.name, file.read_bytes())])[0])
    return run, [x for x in run.exchanges if READER.read_call(x.call).kind == "model"]


def words(message):
    return "".join(part["content"] for part in message["parts"])


def results_of(models):
    """What the model was told of each tool, in the words of the agent that was traced; by the tool's name."""
    told = {}
    for message in genai.conversation(READER.read_call(models[-1].call)):
        for part in message["parts"]:
            if part["type"] == "tool_call":
                told[part["id"]] = part["name"]
            elif part["type"] == "tool_call_response":
                told.setdefault(told.get(part["id"], part["id"]), []).append(part["response"])
    return told


class Told:
    """An agent that makes of the results of its tools what the traced one made of them."""

    def __init__(self, models, prompt=""):
        reading = READER.read_call(models[0].call)
        self.model, self.tools = reading.model or "m", genai.tools(reading.tools)
        self.messages = [(one["role"], words(one)) for one in genai.conversation(reading)]
        self.messages[-1] = ("user", self.messages[-1][1] + prompt)
        self.results = results_of(models)

    def call(self, name, arguments):
        try:
            TOOLS[name](**arguments)
        except Exception:
            pass
        result = self.results[name][0]
        result = result["result"] if isinstance(result, dict) and result.keys() == {"result"} else result
        return result if isinstance(result, str) else json.dumps(result)


def chat(agent):
    from openai import OpenAI

    said = [{"role": role, "content": text} for role, text in agent.messages]
    tools = [{"type": "function", "function": {k: v for k, v in one.items() if k != "type"}} for one in agent.tools]
    with OpenAI(base_url=f"{URL}/v1", api_key="any", max_retries=0) as client:
        while True:
            more = {"tools": tools} if tools else {}
            reply = client.chat.completions.create(model=agent.model, messages=said, **more).choices[0].message
            if not reply.tool_calls:
                return reply.content
            said.append(reply.model_dump(mode="json", include={"role", "content", "tool_calls"}))
            for use in reply.tool_calls:
                result = agent.call(use.function.name, json.loads(use.function.arguments))
                said.append({"role": "tool", "tool_call_id": use.id, "content": result})


def claude(agent):
    from anthropic import Anthropic

    said = [{"role": role, "content": text} for role, text in agent.messages if role != "system"]
    more = {"system": agent.messages[0][1]} if agent.messages[0][0] == "system" else {}
    if agent.tools:
        more["tools"] = [
            {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
            for one in agent.tools
        ]
    with Anthropic(base_url=URL, api_key="any", max_retries=0) as client:
        while True:
            reply = client.messages.create(model=agent.model, max_tokens=99, messages=said, **more)
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return "".join(block.text for block in reply.content)
            said.append({"role": "assistant", "content": [block.model_dump(mode="json") for block in reply.content]})
            results = [
                {"type": "tool_result", "tool_use_id": use.id, "content": agent.call(use.name, use.input)}
                for use in uses
            ]
            said.append({"role": "user", "content": results})


def named():
    return tuple((f"{__name__}.{name}", "write") for name in TOOLS)


@pytest.mark.parametrize("file", FILES)
def test_a_traced_run_reproduces_by_its_meaning_and_another_word_is_the_first_to_part(file, tmp_path):
    run, models = run_of(file)
    for client in (chat, claude):
        frozen = functools.partial(client, Told(models))
        evidence = tried(tmp_path, run, lambda _, frozen=frozen: frozen(), fidelity="semantic", tools=named())
        assert evidence.divergence is None, (client.__name__, evidence.divergence)
        assert evidence.output == READER.read_reply(models[-1].call, models[-1].outcome).text
        other = functools.partial(client, Told(models, prompt=" Please."))
        parted = tried(tmp_path, run, lambda _, other=other: other(), fidelity="semantic", tools=named()).divergence
        assert (parted.kind, parted.turn, len(parted.differences)) == (Kind.HISTORY, 1, 1) or parted.kind is Kind.PROMPT
