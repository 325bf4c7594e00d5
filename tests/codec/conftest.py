"""Real-looking runs for the tests of the codec."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run, Timing, ToolCall, ToolReply

WORDS = """order customer refund warehouse parcel carrier delay invoice broken shipped delivered pending support agent
policy window amount total currency address pickup courier status return label voucher stock shelf batch review""".split()  # noqa: SIM905  reads better

Dump = Callable[[object], bytes]


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def prose(rng: random.Random, size: int) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(rng.choice(WORDS))
        if rng.random() < 0.08:
            words[-1] += "."
    return " ".join(words)


def system_prompt(rng: random.Random) -> str:
    rules = "\n".join(f"{n}. {prose(rng, 120)}" for n in range(1, 40))
    return f"You are the support agent of Acme.\n\nRules:\n{rules}\n\nBe brief."


def tool_schemas(rng: random.Random) -> list[dict]:
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{n}",
                "description": prose(rng, 160),
                "parameters": {
                    "type": "object",
                    "properties": {
                        key: {"type": "string", "description": prose(rng, 60)} for key in ("id", "note", "day")
                    },
                    "required": ["id"],
                },
            },
        }
        for n in range(8)
    ]


def call_of(body: dict, dump: Dump) -> HttpCall:
    headers = (("content-type", "application/json"), ("accept", "application/json"))
    return HttpCall("POST", "https://api.openai.com/v1/chat/completions", headers, Body(dump(body)))


def reply_of(turn: int, message: dict, finish: str) -> HttpReply:
    body = {
        "id": f"chatcmpl-{turn:012d}",
        "object": "chat.completion",
        "created": 1763650000 + turn,
        "model": "gpt-5-2026-01-01",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100 * turn, "completion_tokens": 30, "total_tokens": 100 * turn + 30},
        "system_fingerprint": "fp_44709d6fcb",
    }
    data = compact(body)
    headers = (
        ("Content-Type", "application/json"),
        ("x-request-id", f"req_{turn:024x}"),
        ("openai-version", "2020-10-01"),
    )
    return HttpReply(200, "OK", "HTTP/1.1", headers, Body(data), (len(data),))


def conversation(
    turns: int,
    *,
    change: Callable[[int, list[dict]], list[dict]] = lambda turn, messages: messages,
    dump: Dump = compact,
    seed: int = 7,
) -> Run:
    """An openai chat agent that calls one tool a turn; `change` is what the framework does to the history it sends."""
    rng = random.Random(seed)
    messages: list[dict] = [
        {"role": "system", "content": system_prompt(rng)},
        {"role": "user", "content": prose(rng, 200)},
    ]
    tools = tool_schemas(rng)
    exchanges: list[Exchange] = []
    clock = 0
    order = 0
    for turn in range(1, turns + 1):
        sent = change(turn, [dict(message) for message in messages])
        call = call_of({"messages": sent, "model": "gpt-5", "temperature": 0.2, "tools": tools, "seed": 7}, dump)
        use = f"call_{rng.randrange(16**24):024x}"
        arguments = json.dumps({"id": f"A-{turn}", "note": prose(rng, 40)})
        message = {
            "role": "assistant",
            "content": prose(rng, 80),
            "tool_calls": [{"id": use, "type": "function", "function": {"name": "tool_1", "arguments": arguments}}],
        }
        exchanges.append(
            Exchange(
                call,
                reply_of(turn, message, "tool_calls"),
                order + 1,
                order + 2,
                timing=Timing(clock, clock + 700_123, clock + 812_345),
            )
        )
        result = {"id": f"A-{turn}", "rows": [prose(rng, 100) for _ in range(4)], "total": rng.randrange(10**6) / 100}
        exchanges.append(
            Exchange(
                ToolCall("tool_1", json.loads(arguments)),
                ToolReply(result),
                order + 3,
                order + 4,
                timing=Timing(clock + 900_000, None, clock + 950_001),
            )
        )
        messages += [message, {"role": "tool", "tool_call_id": use, "content": json.dumps(result)}]
        clock += 1_000_000
        order += 4
    header = Header(
        "tests/test_shop.py::test_refund", "2026-11-20T10:00:00Z", 1_763_632_800_000_000_000, 42, {"status": "passed"}
    )
    return Run(header, tuple(exchanges))


@pytest.fixture(name="conversation")
def _conversation() -> Callable[..., Run]:
    return conversation
