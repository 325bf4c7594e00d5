"""The world of the benchmarks: the official openai SDK on a transport that answers from memory, as fast as can be.

The same client, requests and replies stand under the bare SDK, vcrpy and agentreplay, so that what differs is theirs.
"""

from __future__ import annotations

import base64
import json
import random

import httpcore2
import httpx2
import openai

KEY = "sk-live-Zk3v9Qw7Lr2Xc8Tn5Bm1"
WORDS = [
    "order",
    "parcel",
    "refund",
    "customer",
    "warehouse",
    "courier",
    "invoice",
    "delivery",
    "address",
    "weight",
    "label",
    "tracking",
    "damaged",
    "delayed",
    "returned",
    "express",
    "signature",
    "neighbour",
    "morning",
    "Tuesday",
    "status",
    "pending",
    "shipped",
    "lost",
    "found",
    "ticket",
    "agent",
    "reply",
    "asks",
    "please",
    "today",
    "because",
    "without",
    "number",
    "window",
    "policy",
    "amount",
    "credit",
]

HEADERS = [
    ("date", "Tue, 06 Oct 2026 15:04:05 GMT"),
    ("content-type", "application/json"),
    ("x-request-id", "req_2c1f0a5e9b7d4f68"),
    ("openai-organization", "acme"),
    ("openai-processing-ms", "412"),
    ("openai-version", "2020-10-01"),
    ("x-ratelimit-limit-requests", "10000"),
    ("x-ratelimit-remaining-requests", "9999"),
    ("x-ratelimit-remaining-tokens", "199721"),
    ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
    ("cf-ray", "8ce1f2a39d0e6b2d-FRA"),
    ("server", "cloudflare"),
]


def text(seed, size):
    """About `size` characters of prose, the same for the same seed."""
    chance = random.Random(seed)
    words = []
    length = 0
    while length < size:
        words.append(chance.choice(WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def completion(number, said):
    """The bytes of a chat completion."""
    return json.dumps(
        {
            "id": f"chatcmpl-{number:08d}",
            "object": "chat.completion",
            "created": 1_790_000_000 + number,
            "model": "gpt-5-mini",
            "system_fingerprint": "fp_1",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": said, "refusal": None},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
        }
    ).encode()


class World:
    """Answers the n-th request since `rewind` with the n-th reply; counts what reached it."""

    def __init__(self, replies):
        self.replies = replies
        self.hits = 0

    def rewind(self):
        self.hits = 0

    def handle_request(self, request):
        reply = self.replies[self.hits]
        self.hits += 1
        return httpcore2.Response(200, headers=HEADERS, content=reply)

    def close(self):
        pass

    def client(self):
        transport = httpx2.HTTPTransport()
        transport._pool = self  # in the place of its connections: what stays above them is not intercepted
        return openai.OpenAI(
            api_key=KEY,
            max_retries=0,
            http_client=httpx2.Client(transport=transport),
            base_url="https://api.openai.com/v1",
        )


class Script:
    """What an agent asks, call by call: `messages[n]` is the history that call n sends; and a client to ask with."""

    def __init__(self, messages, replies):
        self.messages = messages
        self.salt = (
            ""  # when set, each call sends a field that the rules watch and do not compare, another one each time
        )
        self.world = World(replies)
        self.client = self.world.client()

    def __len__(self):
        return len(self.messages)

    def ask(self, number):
        """Call `number` and the text that came back."""
        more = {"prompt_cache_key": f"{self.salt}-{number}"} if self.salt else {}
        reply = self.client.chat.completions.create(
            model="gpt-5-mini", temperature=0, messages=self.messages[number], **more
        )
        return reply.choices[0].message.content

    def asks(self, numbers=None):
        """Each call as a function."""
        return [lambda n=n: self.ask(n) for n in (range(len(self)) if numbers is None else numbers)]

    def run(self, numbers=None):
        """Make the calls, one after the other."""
        for n in range(len(self)) if numbers is None else numbers:
            self.ask(n)

    def body(self, number):
        """How many bytes call `number` sends, roughly: its messages as compact JSON."""
        return len(json.dumps(self.messages[number], separators=(",", ":"))) + 60


def look_up(order: str) -> dict[str, str]:
    """Return the state of an order: the tool of the benchmarks."""
    return {"order": order, "state": "shipped"}


def small(count):
    """Small, different calls: 200 bytes or so each way."""
    system = {"role": "system", "content": "You help customers with their orders. Be brief."}
    asked = [[system, {"role": "user", "content": f"Where is order A-{n:05d}?"}] for n in range(count)]
    return Script(asked, [completion(n, f"Order A-{n:05d} arrives on Tuesday.") for n in range(count)])


def conversation(turns, size=420):
    """A conversation that sends its whole history again with each turn; `size` characters from either side."""
    said = [text(f"reply {n}", size) for n in range(turns)]
    history = [{"role": "system", "content": "You help customers with their orders. Be brief."}]
    asked = []
    for n in range(turns):
        history = [*history, {"role": "user", "content": text(f"question {n}", size)}]
        asked.append(history)
        history = [*history, {"role": "assistant", "content": said[n]}]
    return Script(asked, [completion(n, said[n]) for n in range(turns)])


def documents(count, size=100_000):
    """One long text a call, another one each time: retrieval."""
    asked = [[{"role": "user", "content": text(f"document {n}", size)}] for n in range(count)]
    return Script(asked, [completion(n, "Read.") for n in range(count)])


def images(count, size=150_000):
    """One image a call, another one each time, `size` characters of base64."""
    asked = []
    for n in range(count):
        data = base64.b64encode(random.Random(n).randbytes(size * 3 // 4)).decode()
        parts = [
            {"type": "text", "text": "What is on the label?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        ]
        asked.append([{"role": "user", "content": parts}])
    return Script(asked, [completion(n, "A parcel.") for n in range(count)])
