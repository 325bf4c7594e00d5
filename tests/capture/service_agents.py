"""Eight agents of a service, each with something that is new in every run, and six changes that may be planted in them.

`CHANGES` holds the names of the planted changes; a capture runs without any.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import random
import threading
import time
import uuid
from collections import Counter
from contextvars import ContextVar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai

CHANGES: set[str] = set()
PLANTS = ("customer", "amount", "order", "model", "prompt", "dropped write")
EFFECTS: Counter[str] = Counter()
"""What the tools have really done."""
URL: ContextVar[str] = ContextVar("url")


def lookup_order(order_id):
    EFFECTS["lookup"] += 1
    return {"order_id": order_id, "amount": 40 + len(order_id), "row": random.getrandbits(40)}


def refund(order_id, customer, amount, key=""):
    EFFECTS["refund"] += 1
    return {"refunded": order_id, "receipt": random.getrandbits(40)}


def changed(name, value, other):
    return other if name in CHANGES else value


async def ask(client, text, *, stream=False, **more):
    """Return what the model says to `text`."""
    system = f"You help {changed('prompt', 'customers', 'clients')} of a shop."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    model = changed("model", "gpt-x-2026-08-06", "gpt-x-2026-11-20")
    reply = await client.chat.completions.create(model=model, messages=messages, stream=stream, **more)
    if not stream:
        return reply.choices[0].message.content
    return "".join([chunk.choices[0].delta.content or "" async for chunk in reply if chunk.choices])


async def handle(order_id, customer, client, *, note="", key="", metadata=None):
    """The loop of two tools; return what the model says last."""
    more = {"metadata": metadata} if metadata else {}
    order_id = changed("order", order_id, f"{order_id}0")
    plan = await ask(client, f"{note}plan for {order_id}", **more)
    row = lookup_order(order_id)
    verdict = await ask(client, f"{note}{plan}: {json.dumps(row)}", **more)
    if "dropped write" not in CHANGES:
        amount = changed("amount", row["amount"], row["amount"] + 5)
        verdict += json.dumps(refund(order_id, changed("customer", customer, "c-1"), amount, key))
    return await ask(client, f"{note}say goodbye: {verdict}", **more)


async def plain(client, order_id, customer):
    return await handle(order_id, customer, client)


async def now_once(client, order_id, customer):
    return await handle(order_id, customer, client, note=f"It is {dt.datetime.now(dt.UTC).isoformat()}. ")


async def now_each_turn(client, order_id, customer):
    first = await ask(client, f"at {time.time()}: {order_id}?")
    second = await ask(client, f"at {dt.datetime.now():%Y-%m-%d %H:%M:%S.%f}: {first}")
    return await handle(order_id, customer, client, note=f"At {int(time.time() * 1000)}, {second}: ")


async def date(client, order_id, customer):
    return await handle(order_id, customer, client, note=f"Today is {dt.datetime.now(dt.UTC).date()}. ")


async def ids(client, order_id, customer):
    metadata = {"request_id": str(uuid.uuid4()), "session": f"s_{uuid.uuid4().hex}"}
    return await handle(order_id, customer, client, key=str(uuid.uuid4()), metadata=metadata)


async def gathered(client, order_id, customer):
    parts = await asyncio.gather(*(ask(client, f"part {part} of {order_id}, {uuid.uuid4()}") for part in "abc"))
    return await handle(order_id, customer, client, note=f"{' '.join(parts)}. ")


async def as_completed(client, order_id, customer):
    questions = [asyncio.ensure_future(ask(client, f"part {part} of {order_id}")) for part in "abc"]
    parts = [await answer for answer in asyncio.as_completed(questions)]
    return await handle(order_id, customer, client, note=f"{' '.join(parts)}. ")


async def retries(client, order_id, customer):
    key = str(uuid.uuid4())
    for _ in range(6):
        with contextlib.suppress(openai.RateLimitError):
            await ask(client, f"flaky {order_id}", stream=True, extra_headers={"idempotency-key": key}, user=key)
            break
        await asyncio.sleep(random.random() / 500)
    return await handle(order_id, customer, client, key=key)


AGENTS = {
    agent.__name__: agent for agent in (plain, now_once, now_each_turn, date, ids, gathered, as_completed, retries)
}


async def answer(agent, order_id, customer):
    """The entry of the service: one request. One in nineteen fails at its end."""
    async with openai.AsyncOpenAI(api_key="none", base_url=URL.get(), max_retries=0) as client:
        said = await AGENTS[agent](client, order_id, customer)
        if order_id.endswith("7"):
            raise ValueError(f"no receipt in {said}")
        return said


class Model(BaseHTTPRequestHandler):
    """Says something else on each call, after a while; turns every third "flaky" request away."""

    protocol_version = "HTTP/1.1"
    calls = Counter()

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(random.random() / 100)
        text = body["messages"][-1]["content"]
        made = {"id": f"chatcmpl-{random.getrandbits(60)}", "created": int(time.time()), "model": body["model"]}
        says = f"n{random.getrandbits(40)}"
        if "flaky" in text and random.random() < 0.4:
            self.send(429, json.dumps({"error": {"message": "slow down"}}), "application/json")
        elif body.get("stream"):
            made |= {"object": "chat.completion.chunk"}
            deltas = [{"content": part} for part in (says[:4], says[4:])]
            events = [made | {"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
            self.send(
                200,
                "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n",
                "text/event-stream",
            )
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": says}, "finish_reason": "stop"}
            self.send(200, json.dumps(made | {"object": "chat.completion", "choices": [choice]}), "application/json")

    def send(self, status, text, kind):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@contextlib.contextmanager
def serving():
    """Return the URL of a model that is served on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
