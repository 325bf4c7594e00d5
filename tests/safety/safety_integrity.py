"""Figures of tamper evidence: random single mutations that a seal misses, and what its check costs.

A mutation is one edit of a sealed file, at a random place of it, the seal included: another value, kind or key, another
order, something gone or twice, one character. It is missed when the file still counts as sealed and says something else.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import parsing, seal_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from figures import Figure

SAMPLE = Path(__file__).parents[1] / "snapshots" / "samples" / "v1.0.snapshot.json"
MUTATIONS = 10_000
MEGABYTES = (1, 3, 10)
BOUND = 5.0


def figures() -> Iterator[Figure]:
    """Both figures, measured now."""
    from figures import Figure

    missed = [text for text in mutations(subject(), MUTATIONS, seed=1) if not detected(text)]
    yield Figure(
        "single mutations missed", "-", f"0 of {MUTATIONS:,}", f"{len(missed)} of {MUTATIONS:,}", met=not missed
    )
    found = {size: milliseconds(large(size)) for size in MEGABYTES}
    told = ", ".join(f"{ms:.1f} at {size} MB" for size, ms in found.items())
    yield Figure("integrity check, ms per MB", "-", f"< {BOUND:g}", told, met=max(found.values()) < BOUND)


def subject() -> str:
    """A file that holds a bit of everything and was resealed twice."""
    text = codec.dumps(codec.loads(SAMPLE.read_bytes(), file="sample").run)
    for old, new in (("left the depot", "left the port"), ("Rate limit reached", "Rate limit met")):
        text = codec.reseal(text.replace(old, new), f"{new}, says the carrier", file="sample", at="2026-11-22")
    return text


def detected(text: str) -> bool:
    """Whether a mutated file is an unsealed one, or none at all."""
    try:
        return not codec.loads(text, file="mutated").sealed
    except SnapshotError:
        return True


def mutations(text: str, count: int, *, seed: int) -> Iterator[str]:
    """So many texts that say something else than `text`, by one edit each."""
    rng = random.Random(seed)
    told = plain(text)
    while count:
        new = in_the_text(rng, text) if rng.random() < 0.3 else in_the_tree(rng, json.loads(text))
        if plain(new) != told:
            count -= 1
            yield new


def plain(text: str) -> str:
    """What a file says, with the order of its keys and the kinds of its numbers; the text itself where it is no JSON."""
    try:
        return json.dumps(json.loads(text, object_pairs_hook=list))
    except ValueError:
        return text


def in_the_text(rng: random.Random, text: str) -> str:
    """One character gone, doubled, or another."""
    at = rng.randrange(len(text))
    return (
        text[:at] + rng.choice(["", text[at] * 2, rng.choice('{}[],:"0123456789.eE+-$\\ \nabcdefé')]) + text[at + 1 :]
    )


def in_the_tree(rng: random.Random, doc: Any) -> str:
    """One value, key or order is another one."""
    holder, key = rng.choice([*places(doc)])
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 1 | 2 if isinstance(holder, list):
            other = rng.randrange(len(holder))
            holder[key], holder[other] = holder[other], holder[key]
        case 1:
            holder[f"{key}."] = holder.pop(key)
        case 2:
            holder[key] = holder.pop(key)
        case _:
            holder[key] = another(rng, holder[key])
    return seal_digest.members(doc) + "\n}\n" if rng.random() < 0.5 else json.dumps(doc)


def another(rng: random.Random, value: Any) -> Any:
    """A value beside `value`: one letter, one step, another kind."""
    match value:
        case bool() | None:
            return rng.choice([None, True, False, 0, 1, "null"])
        case int() | float():
            return rng.choice([value + 1, -value, float(value), str(value), value * 10, None])
        case str() if value:
            at = rng.randrange(len(value))
            return value[:at] + rng.choice(["", "x", "é", value[at].swapcase(), " "]) + value[at + 1 :]
    return rng.choice([None, [], {}, "", 0, [value]])


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Each holder with each of its keys."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from places(value)


def large(megabytes: int) -> str:
    """A run of about that size: a conversation whose tools return tables and reports."""
    rng = random.Random(megabytes)
    words = [
        "order",
        "customer",
        "refund",
        "parcel",
        "carrier",
        "delay",
        "invoice",
        "broken",
        "shipped",
        "delivered",
        "zurück",
        "naïve",
    ]

    def prose(size: int) -> str:
        return " ".join(rng.choices(words, k=size))

    found: list[Exchange] = []
    for turn in range(60 * megabytes):
        ask = {"model": "m", "messages": [{"role": "user", "content": prose(60)}], "n": turn}
        answer = {"id": f"r-{turn}", "choices": [{"message": {"content": prose(80)}}], "usage": {"total_tokens": turn}}
        rows = [{"id": n, "name": prose(3), "price": n / 7, "open": n % 2 == 0} for n in range(50)]
        call = HttpCall("POST", "http://model/v1", (), Body(json.dumps(ask).encode()))
        report = "\n".join(prose(12) for _ in range(90))
        found += [
            Exchange(call, HttpReply(200, body=Body(json.dumps(answer).encode())), 4 * turn + 1, 4 * turn + 2),
            Exchange(
                ToolCall("report", {"n": turn}), ToolReply({"rows": rows, "text": report}), 4 * turn + 3, 4 * turn + 4
            ),
        ]
    return codec.dumps(Run(Header("tests/test_large.py::test_large"), tuple(found)))


def milliseconds(text: str) -> float:
    """What the check of a sealed file costs beside reading its JSON, for each MB."""
    data = text.encode()
    doc = parsing.parse_object(data, "large")
    best = min(_spent(doc, data) for _ in range(7))
    return best * 1e3 / (len(data) / 1e6)


def _spent(doc: dict[str, Any], data: bytes) -> float:
    began = time.process_time()
    sealed, _ = seal_digest.check_seal(doc, data, "large")
    assert sealed
    return time.process_time() - began
