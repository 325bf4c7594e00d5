"""What redaction finds, leaves and costs: the corpus through the redaction of a run, and a plain transcript."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Figure

from pytest_agentreplay.model.exchanges import Body, HttpCall
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

HARNESS = Path(__file__).resolve().parents[1] / "redaction" / "test_redaction_corpus.py"
SURE = {"pattern", "luhn", "checksum", "known-value", "opt-in"}
MEGABYTE = 1_000_000
TURNS = 40
FASTEST = 10.0
WORDS = re.findall(
    r"\w+",
    "the order of the customer was refunded because its carrier lost the parcel in transit yesterday please confirm that"
    " the amount has been credited to the account which the database returned with the following rows and a status",
)


def harness() -> ModuleType:
    """The tests of the corpus, as a module: what they hold is what is counted here."""
    spec = importlib.util.spec_from_file_location("redaction_corpus", HARNESS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def figures() -> Iterator[Figure]:
    """The rows of the issue's table that redaction has to answer for."""
    corpus = harness()
    sure = [row for row in corpus.POSITIVE if row["needs"] in SURE]
    yield counted("pattern, checksum, known values: whole span found", "gitleaks 64 of 134", sure, corpus.failures)
    context = [row for row in corpus.POSITIVE if row["needs"] == "context"]
    yield counted("context rows found", "45 of 64", context, corpus.failures, share=0.98)
    yield counted("negatives byte-identical", "0 to 41 wrong", corpus.NEGATIVE, corpus.changes)
    split = [row for row in corpus.POSITIVE if row["context"] == "sse-chunk-split"]
    yield counted("secrets split over stream chunks found", "0 of 25", split, corpus.failures)
    speed = megabytes_per_second()
    reach = f">= {FASTEST:.0f} MB/s"
    yield Figure("redaction of a plain transcript", "0.2-1.5 MB/s", reach, f"{speed:.1f} MB/s", speed >= FASTEST)


def counted(name: str, best: str, rows: list, wrong, share: float = 1.0) -> Figure:
    """How many rows have nothing wrong."""
    good = sum(not [*wrong(row)] for row in rows)
    reach = "all" if share == 1 else f">= {share:.0%}"
    return Figure(name, best, reach, f"{good} of {len(rows)}", good >= share * len(rows))


def transcript(chance: random.Random) -> Iterator[bytes]:
    """The requests of a conversation, each a turn longer than the one before, as agents send them: about 2 MB."""
    messages = [{"role": "system", "content": said(chance, 400)}]
    for turn in range(TURNS):
        messages.append({"role": "user", "content": said(chance, 60)})
        id_ = f"call_{chance.getrandbits(120):030x}"
        arguments = json.dumps({"order_id": f"ORD-2025-{chance.randrange(10**9):09}", "limit": 20})
        function = {"name": "lookup_order", "arguments": arguments}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": id_, "function": function}]})
        rows = [
            {"id": chance.randrange(10**9), "sha": f"{chance.getrandbits(160):040x}", "note": said(chance, 20)}
            for _ in range(6)
        ]
        messages.append({"role": "tool", "tool_call_id": id_, "content": json.dumps(rows)})
        messages.append({"role": "assistant", "content": said(chance, 80)})
        yield json.dumps({"model": "gpt-5-2025-08-07", "temperature": 0.2, "n": turn, "messages": messages}).encode()


def said(chance: random.Random, words: int) -> str:
    """So many words."""
    return " ".join(chance.choice(WORDS) for _ in range(words)) + "."


def megabytes_per_second() -> float:
    """How fast a conversation passes, none of it seen before: of five goes the fastest, so that neighbours count less."""
    return max(speed_of(list(transcript(random.Random(seed)))) for seed in range(5))


def speed_of(bodies: list[bytes]) -> float:
    """How fast the texts pass when nothing is remembered from one to the next."""
    redactions = [Redaction(Places({"root": "/home/ada/project", "tmp": "/tmp/pytest-of-ada"})) for _ in bodies]
    for redaction in redactions:
        redaction.learn("key", "tok" + "-a-key-of-the-environment")
    calls = [
        HttpCall("POST", "https://api.test/v1/chat", (("content-type", "application/json"),), Body(b)) for b in bodies
    ]
    begun = time.process_time()
    for redaction, call in zip(redactions, calls, strict=True):
        assert redaction.redact_content(call) is not None
    return sum(map(len, bodies)) / MEGABYTE / (time.process_time() - begun)
