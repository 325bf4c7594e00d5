"""The refund run, as every system tells it: three model calls, two tools, an error, and an answer that hides it.

`refund_facts` is what a trace says of it in plain values, `REFUND` what is true. A source that cannot carry a fact has
another value for its name; the tables of the tests hold these, and nothing else may differ:

    assert refund_facts(trace) == REFUND | {"fingerprints": {""}}
"""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from pytest_agentreplay.traces.reading import traces
from pytest_agentreplay.traces.trace import ModelCall, Trace

TRACES = Path(__file__).parent / "traces"
INSPECT_JSON = "inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json"
INSPECT_EVAL = "inspect-ai/2026-11-20T13-39-35-00-00_refund_8JVSA7n8EzNvfUwpa3jCpz.eval"

SYSTEM = "You are a support agent for Acme. Always look up an order before refunding it. Never refund more than the order total."
ASKED = "Please refund order A-1001, it arrived broken."
ORDER = {"order_id": "A-1001", "status": "delivered", "total_cents": 4599, "customer": "Zoë Müller"}
REFUSED = {"error": "RefundError: amount 45990 exceeds order total 4599 for A-1001"}
DONE = "Done! I have refunded $459.90 to Zoë Müller for order A-1001. ✅"
LOOK_UP = {"order_id": "A-1001"}
PAY = {"order_id": "A-1001", "amount_cents": 45990}
KNOBS = ("temperature", "max_tokens", "seed")

REFUND: dict[str, Any] = {
    "name": "refund-agent",
    "status": "ok",
    "user": "u-7",
    "session": "conv-42",
    "tenant": "acme",
    "tags": ("prod",),
    "input": ASKED,
    "output": DONE,
    "model": {"gpt-4o-mini"},
    "response_model": {"gpt-4o-mini-2024-07-18"},
    "knobs": [{"temperature": 0.2, "max_tokens": 256, "seed": 7}] * 3,
    "usage": [(120, 21), (160, 22), (200, 23)],
    "finish": ["tool_calls", "tool_calls", "stop"],
    "fingerprints": {"fp_44709d6fcb"},
    "response_ids": True,
    "tool_names": [["lookup_order", "issue_refund"]] * 3,
    "asked": [
        [("system", SYSTEM), ("user", ASKED)],
        [("lookup_order", LOOK_UP), ("result", ORDER)],
        [("issue_refund", PAY), ("result", REFUSED)],
    ],
    "replied": [[("lookup_order", LOOK_UP)], [("issue_refund", PAY)], [("assistant", DONE)]],
    "tools": [("lookup_order", LOOK_UP, "call_stub_00"), ("issue_refund", PAY, "call_stub_10")],
    "executed": [True, True],
    "seen": [ORDER, REFUSED],
    "faults": [None, "amount 45990 exceeds order total 4599 for A-1001"],
    "order": ["model", "lookup_order", "model", "issue_refund", "model"],
    "missing": (),
}


def imported(*names: str, wanted: str = "") -> list[Trace]:
    """The traces in files of the folder `traces`."""
    return traces([(name, (TRACES / name).read_bytes()) for name in names], wanted)


def lines(*rows: Any) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def packed(members: dict[str, str | bytes], **more: Any) -> bytes:
    """A zip archive."""
    held = BytesIO()
    with zipfile.ZipFile(held, "w", **more) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return held.getvalue()


def read(*rows: Any, name: str = "trace.jsonl") -> list[Trace]:
    """The traces in a file of these rows."""
    return traces([(name, lines(*rows))])


def one(*rows: Any) -> Trace:
    """The trace in a file of these rows, which hold one."""
    (trace,) = read(*rows)
    return trace


def rows_of(name: str) -> list[Any]:
    """The values in a file of the folder `generated`."""
    text = (TRACES / "generated" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else [json.loads(text)]


def text(role: str, content: str) -> dict[str, Any]:
    """A message in the words of the conventions."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def asks(*calls: tuple[str, str, Any], words: str = "") -> dict[str, Any]:
    """A reply that asks for tools, after some words: of each call the id, the name and the arguments."""
    parts = [{"type": "tool_call", "id": known, "name": name, "arguments": given} for known, name, given in calls]
    return {"role": "assistant", "parts": [*(text("assistant", words)["parts"] if words else ()), *parts]}


def gives(*results: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """A message with what tools gave, by the ids of their calls."""
    parts = [{"type": "tool_call_response", "id": known, "response": told} | more for known, told in results]
    return {"role": "tool", "parts": parts}


WEATHER = "What's the weather in Tokyo?"
CONTENTS = [
    {"role": "user", "parts": [{"text": WEATHER}]},
    {"role": "model", "parts": [{"function_call": {"name": "get_weather", "args": {"city": "Tokyo"}}}]},
    {"role": "user", "parts": [{"function_response": {"name": "get_weather", "response": {"sky": "sunny"}}}]},
    {"role": "model", "parts": [{"text": "Sunny."}]},
]
"""A question, a call of a tool, its result and the answer, as Google's ADK keeps them."""
AI_TOOL = {"toolCallId": "call_1", "toolName": "get_weather"}
AI_SDK = [
    {"role": "user", "content": [{"type": "text", "text": WEATHER}]},
    {"role": "assistant", "content": [{"type": "tool-call", **AI_TOOL, "input": {"city": "Tokyo"}}]},
    {"role": "tool", "content": [{"type": "tool-result", **AI_TOOL, "output": {"type": "json", "value": {"sky": "sunny"}}}]},
]  # fmt: skip
"""The same but for the answer, as the AI SDK keeps it."""


def adk(contents: list[Any]) -> dict[str, Any]:
    """A request of Google's ADK."""
    config = {"system_instruction": "Be brief.", "tools": [{"function_declarations": [{"name": "get_weather"}]}]}
    return {"model": "gemini-2.5-flash", "config": config, "contents": contents}


def tools(trace: Trace) -> list[tuple[str, Any, Any]]:
    """Name, arguments and what the model saw, of each tool that ran."""
    return [(run.name, run.arguments, run.seen) for run in trace.tool_runs]


def refund_facts(trace: Trace) -> dict[str, Any]:
    """What `trace` says of the run, under the names of `REFUND`."""
    calls = trace.model_calls
    before = [0, *(len(_said(call.messages)) for call in calls)]
    return {
        **{
            name: getattr(trace, name)
            for name in ("name", "status", "user", "session", "tenant", "tags", "input", "output")
        },
        "model": {call.model for call in calls},
        "response_model": {call.response_model for call in calls},
        "knobs": [{name: call.parameters[name] for name in KNOBS if name in call.parameters} for call in calls],
        "usage": [(call.usage.get("input_tokens"), call.usage.get("output_tokens")) for call in calls],
        "finish": [next(iter(call.finish_reasons), "") for call in calls],
        "fingerprints": {call.fingerprint for call in calls},
        "response_ids": len({call.response_id for call in calls} - {""}) == len(calls),
        "tool_names": [[tool["name"] for tool in call.tools] for call in calls],
        "asked": [_said(call.messages)[start:] for call, start in zip(calls, before, strict=False)],
        "replied": [_said([call.reply]) if call.reply else [] for call in calls],
        "tools": [(run.name, run.arguments, run.call_id) for run in trace.tool_runs],
        "executed": [run.executed for run in trace.tool_runs],
        "seen": [run.seen for run in trace.tool_runs],
        "faults": [_last_line(run.fault.message) if run.fault else None for run in trace.tool_runs],
        "order": ["model" if isinstance(step, ModelCall) else step.name for step in trace.steps],
        "missing": trace.missing,
    }


def _said(messages) -> list[tuple[str, Any]]:
    return [_part(message["role"], part) for message in messages for part in message["parts"]]


def _part(role: str, part: dict[str, Any]) -> tuple[str, Any]:
    match part["type"]:
        case "text":
            return role, part["content"]
        case "tool_call":
            return part["name"], part["arguments"]
        case "tool_call_response":
            return "result", part["response"]
        case kind:
            return kind, part


def _last_line(text: str) -> str:
    """The message of an error without its class, whatever traceback stands before it."""
    return text.strip().rpartition("\n")[2].rpartition("RefundError: ")[2]
