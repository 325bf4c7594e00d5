"""A run that another tool has kept, replayed by its meaning: agents over two SDKs get to its end, and no further."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import normalize_conversation, normalize_tools
from pytest_agentreplay.traces.reading import traces
from pytest_agentreplay.traces.to_run import frozen_run
from tests.runs.shop import NOBODY, chat, claude, tried
from tests.support.sampling import sample
from tests.support.tables import words

pytestmark = [pytest.mark.env("main"), pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")]

TRACES = Path(__file__).parents[1] / "traces/traces/generated"
FILES = words("""
_synthesised/appinsights_dependencies.json _synthesised/bedrock_converse_invocation_log.jsonl
_synthesised/helicone_export.jsonl _synthesised/vertex_request_response_bq_rows.jsonl
anthropic/messages_log.jsonl braintrust/logs3_ingest_bodies.json braintrust/project_logs_events.jsonl
galileo/trace_schema_dump.json har/mitmproxy_openai_anthropic.har
inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json
inspect-ai/2026-11-20T13-39-35-00-00_refund_8JVSA7n8EzNvfUwpa3jCpz.eval
langfuse/otlp_export.json langsmith/ingest_requests.jsonl langsmith/langchain_agent_batch.jsonl
langsmith/runs_export.jsonl mlflow/trace_to_dict.json mlflow/trace_to_json.json openai/chat_completions_log.jsonl
openai/responses_log.jsonl openai-agents/chatmodel_to_input_list.json
openai-agents/chatmodel_trace_processor_export.jsonl openai-agents/run_items_to_input_list.json
openinference/otlp_langchain_refund.json openinference/otlp_refund.jsonl openllmetry/otlp_refund.jsonl
opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json otel-genai/otlp_logs_refund_eventonly.jsonl
otel-genai/otlp_refund_noargs_spanonly.jsonl otel-genai/otlp_refund_spanonly.jsonl
otel-genai-legacy-events/otlp_logs_events.json phoenix/rest_spans.json promptlayer/track_request_bodies.jsonl
vcrpy/openai_refund.json vcrpy/openai_refund.yaml weave/calls.jsonl
""")
"""The refund run as these tell it: three model calls, and what came of each."""


def lookup_order(order_id):
    raise AssertionError("a tool has really run")


def issue_refund(order_id, amount_cents, note=""):
    raise AssertionError("a tool has really run")


TOOLS = {one.__name__: one for one in (lookup_order, issue_refund)}
NAMED = {"tools": tuple((f"{__name__}.{name}", "write") for name in TOOLS)}


class TracedAgent:
    """An agent that makes of the results of its tools what the traced one made of them."""

    url, rounds = NOBODY, 99

    def __init__(self, models, more=""):
        reading = READER.read_call(models[0].call)
        self.model = reading.model or "m"
        self.functions = [
            {key: it for key, it in one.items() if key != "type"} for one in normalize_tools(reading.tools)
        ]
        messages = [
            {"role": one["role"], "content": "".join(part["content"] for part in one["parts"])}
            for one in normalize_conversation(reading)
        ]
        messages[-1] = {"role": "user", "content": messages[-1]["content"] + more}
        self.prompt = messages.pop(0)["content"] if messages[0]["role"] == "system" else ""
        self.messages = messages
        self.results = results_of(models)

    def call(self, name, arguments):
        try:
            TOOLS[name](**(json.loads(arguments) if isinstance(arguments, str) else arguments))
        except Exception:
            pass
        result = self.results[name][0]
        result = result["result"] if isinstance(result, dict) and result.keys() == {"result"} else result
        return result if isinstance(result, str) else json.dumps(result)


def results_of(models):
    """What the model was told of each tool, in the words of the agent that was traced; by the tool's name."""
    told = {}
    for message in normalize_conversation(READER.read_call(models[-1].call)):
        for part in message["parts"]:
            if part["type"] == "tool_call":
                told[part["id"]] = part["name"]
            elif part["type"] == "tool_call_response":
                told.setdefault(told.get(part["id"], part["id"]), []).append(part["response"])
    return told


@pytest.mark.parametrize("name", sample(sorted(FILES), key=lambda name: name.partition("/")[0]))
def test_a_traced_run_reproduces_by_its_meaning_and_another_word_is_the_first_to_part(name, tmp_path):
    file = TRACES / name
    run = frozen_run(traces([(file.name, file.read_bytes())])[0])
    models = [x for x in run.exchanges if READER.read_call(x.call).kind == "model"]
    try_it = partial(tried, tmp_path, run, fidelity="semantic", given=NAMED)
    for client in (chat, claude):
        same, other = TracedAgent(models), TracedAgent(models, more=" Please.")
        evidence = try_it(lambda _, client=client, same=same: client(same, same.messages))
        assert evidence.divergence is None, (client.__name__, evidence.divergence)
        assert evidence.output == READER.read_reply(models[-1].call, models[-1].outcome).text
        parted = try_it(lambda _, client=client, other=other: client(other, other.messages)).divergence
        assert (parted.kind, parted.turn, len(parted.differences)) == (Kind.HISTORY, 1, 1) or parted.kind is Kind.PROMPT
