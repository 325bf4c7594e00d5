"""Runs to look at: a bookshop's agent with two sub-agents beside each other, streams and tools; and a later recording."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from pytest_agentreplay.compare.live_result import LiveResult
from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    Header,
    HttpCall,
    HttpReply,
    Run,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.runs.live import history
from pytest_agentreplay.snapshots import codec

CASE = Path(__file__).parents[2] / "cases" / "refund-claims-success"
URL = "https://api.openai.com/v1/chat/completions"
JSON = (("Content-Type", "application/json"),)
STREAM = (("Content-Type", "text/event-stream; charset=utf-8"),)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]},
        },
    }
    for name, about, field in (
        ("lookup_order", "Find an order by its number.", "order_id"),
        ("carrier_status", "Ask the carrier where a parcel is.", "parcel"),
        ("refund", "Pay a customer back.", "order_id"),
    )
]
MS = 1_000_000


class RunBuilder:
    """Adds calls to a run, each from `at` for `took` milliseconds; calls of several lanes may overlap."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, float, str, object, object, int | None]] = []

    def model(self, at, took, messages, text="", *, uses=(), lane="main", model="gpt-5", stream=False, **body):
        """Add a model call; `uses` are pairs of the name of a tool and its arguments."""
        sent = {"model": model, "messages": messages, "tools": TOOLS, **body}
        calls = [
            {
                "id": f"call_{lane}_{at}_{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for number, (name, given) in enumerate(uses)
        ]
        message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        usage = {"prompt_tokens": len(json.dumps(messages)) // 4, "completion_tokens": 8 + len(text) // 4}
        if stream:
            sent["stream"] = True
            words = [f"{word} " for word in text.split()]
            deltas = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
            deltas += [
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {"choices": [], "usage": usage},
            ]
            chunks = [
                f"data: {json.dumps({'id': f'chat-{at}', 'model': model, **delta})}\n\n".encode() for delta in deltas
            ]
            chunks.append(b"data: [DONE]\n\n")
            reply = HttpReply(200, "OK", headers=STREAM, body=Body(b"".join(chunks)), cuts=tuple(map(len, chunks)))
        else:
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
            data = json.dumps({"id": f"chat-{at}", "model": model, "choices": [choice], "usage": usage}).encode()
            reply = HttpReply(200, "OK", headers=JSON, body=Body(data), cuts=(len(data),))
        call = HttpCall("POST", URL, JSON, Body(json.dumps(sent, separators=(",", ":")).encode()))
        self.calls.append((at, took, lane, call, reply, at + took / 4))
        return [*messages, message]

    def tool(self, at, took, messages, used, result, *, lane="main", number=-1):
        name, given = used
        """Add a tool call and return the messages with its result; an exception is what the tool raised."""
        raised = (
            Failure(type(result).__module__ + "." + type(result).__name__, str(result))
            if isinstance(result, Exception)
            else None
        )
        self.calls.append((at, took, lane, ToolCall(name, given), raised or ToolReply(result), None))
        asked = [
            call["id"]
            for message in messages
            if message["role"] == "assistant"
            for call in message.get("tool_calls", ())
        ]
        content = f"{raised.type}: {raised.message}" if raised else json.dumps(result)
        return [*messages, {"role": "tool", "tool_call_id": asked[number], "content": content}]

    def failed_model(self, at, took, messages, outcome, *, lane="main", model="gpt-5"):
        """Add a model call that got an exception, or the status of an error."""
        sent = {"model": model, "messages": messages, "tools": TOOLS}
        call = HttpCall("POST", URL, JSON, Body(json.dumps(sent, separators=(",", ":")).encode()))
        if not isinstance(outcome, int):
            outcome = Failure("httpx." + type(outcome).__name__, str(outcome))
        else:
            body = Body(json.dumps({"error": {"message": "Rate limit reached", "type": "requests"}}).encode())
            outcome = HttpReply(outcome, "Too Many Requests", headers=JSON, body=body, cuts=(len(body),))
        self.calls.append((at, took, lane, call, outcome, None))

    def run(self, test="tests/test_shop.py::test_two_late_orders", recorded="2026-11-20T10:00:00Z", **header):
        """Return the run, its readings in the order of the times."""
        times = sorted({time for at, took, *_ in self.calls for time in ((at, 1), (at + took, 0))})
        reading = {time: number for number, time in enumerate(times, 1)}
        exchanges = [
            Exchange(
                call, reply, reading[at, 1], reading[at + took, 0], lane,
                timing=Timing(int(at * MS), None if first is None else int(first * MS), int((at + took) * MS)),
            )
            for at, took, lane, call, reply, first in sorted(self.calls, key=lambda call: call[0])
        ]  # fmt: skip
        kit = {
            "python": "3.12.4",
            "packages": {"openai": "3.52.0"},
            "models": [{"provider": "openai", "model": "gpt-5"}],
        }
        return Run(Header(test, recorded, 1763632800 * 10**9, 7, {"status": "passed"}, kit | header), tuple(exchanges))


def bookshop_run(word="kind", parcel="P-2", recorded="2026-11-20T10:00:00Z"):
    """Return the run of an agent that looks two orders up with two sub-agents, and answers in a stream."""
    builder = RunBuilder()
    orders = [("lookup_order", {"order_id": name}) for name in ("A-17", "B-20")]
    found = [
        {"order_id": "A-17", "status": "late", "parcel": "P-1"},
        {"order_id": "B-20", "status": "shipped", "parcel": parcel},
    ]
    prompt = f"You help the customers of a bookshop.\nBe brief and {word}.\nRefund an order only when it is late."
    ask = "Where are A-17 and B-20? If one is late, I want my money back."
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": ask}]
    messages = builder.model(4, 820, messages, "Let me look at both.", uses=orders)
    messages = builder.tool(830, 60, messages, orders[0], found[0], number=-2)
    messages = builder.tool(831, 95, messages, orders[1], found[1])
    for lane, start, name, status in (
        ("main.1", 930, "P-1", "was lost at the depot"),
        ("main.2", 934, parcel, "arrives tomorrow"),
    ):
        use = "carrier_status", {"parcel": name}
        own = [
            {"role": "system", "content": "You ask carriers where parcels are."},
            {"role": "user", "content": f"Where is {name}?"},
        ]
        own = builder.model(start, 410 + start % 7 * 30, own, uses=[use], lane=lane, model="gpt-5-mini")
        result = ConnectionError("the carrier did not answer") if name == "P-9" else {"parcel": name, "status": status}
        own = builder.tool(start + 640, 120, own, use, result, lane=lane)
        builder.model(start + 770, 380, own, f"{name} {status}.", lane=lane, model="gpt-5-mini")
    repay = "refund", {"order_id": "A-17"}
    messages = [*messages, {"role": "user", "content": "P-1 is lost; see to it."}]
    messages = builder.model(2400, 700, messages, uses=[repay])
    messages = builder.tool(3110, 80, messages, repay, {"refunded": 18.5})
    answer = "I am sorry: A-17 was lost, so I paid you back 18.50. B-20 arrives tomorrow."
    builder.model(3200, 1250, messages, answer, stream=True)
    return builder.run(recorded=recorded)


PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAG0lEQVR4nGP8z8Dwn4EEwESK4lENoxqGlwYA7mMCHqJ3v2QAAAAASUVORK5CYII="
)
"""A PNG file of 16 by 16 pixels, as base64."""


class ReadTimeout(Exception):
    """As httpx calls it."""


def trip_run():
    """Return the run of a travel agent: specialists in lanes of their own, tools in threads, errors, a picture, scripts."""
    builder = RunBuilder()
    plan = {
        "city": "Kyoto",
        "days": [{"day": 1, "see": ["Fushimi Inari", "Nishiki"]}, {"day": 2, "see": ["Uji"]}],
        "id": 7,
    }
    content = [
        {"type": "text", "text": "Plan a trip to where this is."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    ]
    messages = [{"role": "system", "content": "You plan trips.\nAsk a specialist for what you do not know."}]
    messages += [{"role": "user", "content": content}]
    asked = [("ask_specialist", {"topic": topic}) for topic in ("visa", "hotel")]
    messages = builder.model(0, 900, messages, "Two specialists know more.", uses=asked)
    for lane, start, topic in (("main.1", 950, "visa"), ("main.2", 990, "hotel")):
        own = [{"role": "system", "content": f"You know all about: {topic}."}, {"role": "user", "content": "Kyoto?"}]
        use = "search", {"query": f"{topic} Kyoto"}
        own = builder.model(start, 500, own, uses=[use], lane=lane, model="gpt-5-mini")
        found = LookupError("no page about hotels") if topic == "hotel" else {"pages": 3}
        own = builder.tool(start + 520, 90, own, use, found, lane=f"{lane}.1")
        if topic == "hotel":
            builder.failed_model(start + 620, 80, own, 429, lane=lane, model="gpt-5-mini")
        builder.model(start + 720, 400, own, f"All about the {topic}.", lane=lane, model="gpt-5-mini")
    for identity, text in zip((-2, -1), ("No visa.", "An inn."), strict=True):
        calls = messages[-1 if identity == -2 else -2]["tool_calls"]
        messages = [*messages, {"role": "tool", "tool_call_id": calls[identity]["id"], "content": text}]
    at = 2300
    for number in range(8):  # each in a thread of its own
        use = "weather", {"day": number}
        messages = builder.model(at, 300, messages, uses=[use])
        messages = builder.tool(at + 310, 60, messages, use, {"degrees": number}, lane=f"main.{number + 3}")
        at += 400
    builder.failed_model(at, 700, messages, ReadTimeout("The read operation timed out"))
    use = "save_plan", plan
    messages = builder.model(at + 750, 600, messages, "كيوتو: 8 °C (EK 316)", uses=[use])
    messages = builder.tool(at + 1360, 30, messages, use, plan)
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    answer = f"{family} می\u200cشود to Kyoto in two days: shrines first, then tea."
    builder.model(at + 1400, 900, messages, answer, stream=True)
    return builder.run(test="tests/test_trip.py::test_a_trip_for_a_family")


def long_run(turns):
    """Return a run of so many turns, each with a tool; each request holds all messages before it."""
    builder = RunBuilder()
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look all orders up."}]
    for number in range(turns):
        use = "lookup_order", {"order_id": f"A-{number}"}
        messages = builder.model(number * 100, 80, messages, f"Now order {number}.", uses=[use])
        messages = builder.tool(
            number * 100 + 81, 9, messages, use, {"order_id": number, "note": f"fact {number} " * 20}
        )
    return builder.run()


def write_project(root: Path) -> None:
    """Write a project of snapshots, a case and live runs, and beside it `now.snapshot.json`, a later recording."""
    folder = root / "tests" / "__agent_snapshots__"
    for test, word, day in (
        ("test_shop/test_two_late_orders", "kind", "2026-11-20"),
        ("test_shop/test_a_curt_answer", "curt", "2026-10-02"),
        ("test_mail/test_a_long_letter", "warm", "2026-03-14"),
    ):
        module, name = test.split("/")
        run = bookshop_run(word, recorded=f"{day}T10:00:00Z")
        run = replace(run, header=replace(run.header, test=f"tests/{module}.py::{name}"))
        write_run(folder / f"{test}.snapshot.json", run)
    write_run(root / "now.snapshot.json", bookshop_run("cheerful", "P-9", "2026-11-26T10:00:00Z"))
    shutil.copytree(CASE, root / "cases" / CASE.name)
    with (root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_prices =\n    gpt-5 = 1.25 in, 10 out\n    gpt-5-mini = 0.25 in, 2 out\n")
    runs = []
    for week, passes in enumerate((10, 10, 9, 9, 6, 4)):
        for number in range(10):
            day = f"2026-{10 + week // 4}-{week % 4 * 7 + 1:02}T09:00:00Z"
            made = LiveResult("tests/test_shop.py::test_two_late_orders", "LF", at=day, model="gpt-5", session=day)
            tokens = {"input": 800 + 40 * week, "output": 90}
            runs.append(
                replace(
                    made,
                    run=number,
                    passed=number < passes,
                    tokens=tokens,
                    cost=0.002 + week / 4000,
                    seconds=4.5 - week / 5,
                )
            )
    history.append(root, runs)


def write_run(path: Path, run: Run) -> Path:
    """Write a snapshot and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(codec.dumps(run), encoding="utf-8", newline="\n")
    return path
