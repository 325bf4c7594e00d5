"""Mutations of snapshots and journals, drawn from a seed, and the two outcomes that are legal."""

from __future__ import annotations

import copy
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from making import run_of, sealed

from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.kit_fields import make_kit
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.model.exchanges import Run
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report import run_stepper, run_view, terminal
from pytest_agentreplay.report import transcript as kits
from pytest_agentreplay.report.transcript import write_transcript
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import journal

SAMPLES = Path(__file__).parents[1] / "snapshots" / "samples"
TEXTS = [file.read_text(encoding="utf-8") for file in sorted(SAMPLES.glob("*.json"))]
TEXTS += [codec.dumps(run_of("hello\nworld")), codec.dumps(run_of("x" * 300))]
PATIENCE = 5.0
"""Seconds of processor time for one file; it takes milliseconds."""

ODD: list[Any] = [
    None, True, 0, -1, 1.5, 1e308, -(10**18), 2**63, 2**64, 10**400, "", "m1", "m1..m99999999", "m1..m99999999~", "m9..m1",
    "m1.999999999", "main", [], {}, [[]], [0, 0], [1, 0], [0, 10**9], [-5, 5], {"$item": "m1"}, {"$like": "m1", "edits": []},
    {"$like": "m2", "edits": [{"at": [], "lines": [[0, 10**9]]}]}, {"$text": [["a", "b"], "c"]}, {"$text": 1},
    {"$blob": "0" * 64}, {"$blob": "x", "prefix": 1}, {"$utf8": "7aCA"}, {"$utf8": "!"}, {"$float": "nan"}, {"$float": "x"},
    {"$int": "0x" + "f" * 5000}, {"$int": "12"}, {"$pairs": [["a", 1], ["a", 2]]}, {"$pairs": [1]}, {"$pairs": [[[], 1]]},
    {"$json": "[" * 5000}, {"$json": "NaN"}, {"$json": '{"a": 1}'}, {"$hole": 0}, {"$hole": 99}, {"$raw": "{"}, {"$list": [1]},
    {"json": {"messages": ["m1..m99999999"]}}, {"$reply_text": [1, "id"]}, {"$reply": [2]}, {"line": 0, "words": [[0, 10**9]]},
    {"text": "x"}, {"base64": ["!"]}, {"events": [["e1", "x"]]}, {"lines": [["e1"]]}, "\ud800", "\x00\x1b[2J", "a" * 10_000, "1.0", "i8",
]  # fmt: skip
"""What a value is put in the place of: other types, marks, ids, ranges and numbers that lead nowhere."""


def nodes(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Each container of a tree with each key or index of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((value, key))
        nodes(item, found)
    return found


def twisted(draw: random.Random, doc: Any) -> Any:
    """A document with some of its values, keys or places changed."""
    doc = copy.deepcopy(doc)
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = nodes(doc, [])
        if not places:
            break
        holder, key = draw.choice(places)
        match draw.randrange(7):
            case 0 | 1 | 2:
                holder[key] = copy.deepcopy(draw.choice(ODD))
            case 3:
                del holder[key]
            case 4:
                other, at = draw.choice(places)
                holder[key] = copy.deepcopy(other[at])
            case 5 if isinstance(holder, dict):
                holder[draw.choice(("$like", "$item", "$text", "", "json", "m1", "\ud800", "lines"))] = holder.pop(key)
            case 5:
                holder.insert(key, copy.deepcopy(holder[key]))
            case _:
                deep: Any = holder[key]
                for _ in range(draw.choice((3, 30, 300))):
                    deep = [deep] if draw.random() < 0.5 else {"a": deep}
                holder[key] = deep
    return doc


def torn(draw: random.Random, data: bytes) -> bytes:
    """Bytes with some of them flipped, cut away, doubled or taken from elsewhere."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at, end = sorted(draw.randrange(len(found) + 1) for _ in range(2))
        end = min(end, at + draw.choice((1, 1, 4, 64, 4096)))
        match draw.randrange(6):
            case 0:
                for n in range(at, end):
                    found[n] ^= 1 << draw.randrange(8)
            case 1:
                del found[at:end]
            case 2:
                found[at:at] = found[at:end]
            case 3:
                del found[max(at, 1) :]
            case 4:
                begin = draw.randrange(len(found) or 1)
                found[at:end] = found[begin : begin + end - at]
            case _:
                found[at:at] = draw.choice(
                    (b"\0", b'"', b"[", b"}", b"\xff", b"9" * 5000, b"NaN", b"\\ud800", b"<<<<<<< x\n")
                )
    return bytes(found)


def one(seed: int) -> bytes:
    """The snapshot that a seed draws: bytes torn, or a document twisted and sealed again."""
    draw = random.Random(seed)
    text = draw.choice(TEXTS)
    if draw.random() < 0.4:
        return torn(draw, text.encode())
    doc = twisted(draw, json.loads(text))
    if not isinstance(doc, dict):
        return json.dumps(doc).encode()
    try:
        return sealed(doc).encode() if draw.random() < 0.8 else json.dumps(doc).encode()
    except (KeyError, TypeError, ValueError, AttributeError):
        return json.dumps(doc).encode()


def legal(data: bytes) -> bool:
    """Whether a snapshot is read (then it comes back from its own text and can be shown); else it is refused, typed."""
    began = time.process_time()
    try:
        run = codec.loads(data, file="f").run
        for x in run.exchanges:
            for side in (x.call, x.outcome):
                if hasattr(side, "body"):
                    side.body.data  # noqa: B018  restoring it is what may fail
    except AgentReplayError as error:
        said = str(error)
        assert "\n" not in said
        assert len(said) < 600
        assert time.process_time() - began < PATIENCE
        return False
    back = codec.loads(codec.dumps(run), file="f").run
    assert spelled(back) == spelled(run)
    assert codec.dumps(back) == codec.dumps(run)
    looked_at(run)
    assert time.process_time() - began < PATIENCE
    return True


def spelled(run: Run) -> str:
    """A run in full; a number that is none is equal to itself here, and a number may have any length."""
    most = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return repr(run)
    finally:
        sys.set_int_max_str_digits(most)


def looked_at(run: Run) -> None:
    """What people do with a run."""
    write_transcript(run)
    run_view.format_run(run, terminal.open_console(width=80))
    list(run_view.spell_run(run))
    run_stepper.describe_run(run)
    kits.format_kit(make_kit(run, READER))
    divergences(run, run, READER, matching=Matching(READER, RULES))


def journal_of(seed: int) -> bytes:
    """A journal that a seed draws, its records well-formed and their content twisted, or bytes torn."""
    draw = random.Random(seed)
    text = journal.JournalWriter()
    run = codec.loads(draw.choice(TEXTS), file="f").run
    records = [text.begin(run.header), *map(text.exchange, run.exchanges)]
    if draw.random() < 0.3:
        return torn(draw, b"".join(records))
    at = draw.randrange(len(records))
    records[at] = journal.write_record(twisted(draw, json.loads(records[at].split(b" ", 2)[2])))
    return b"".join(records)


def journal_is_legal(data: bytes) -> None:
    """A journal gives a run that can be written, or none."""
    began = time.process_time()
    run, torn_off = journal.read_journal(data)
    assert 0 <= torn_off <= len(data)
    if run is not None:
        try:
            codec.dumps(run)
        except AgentReplayError as error:
            said = str(error)
            assert "\n" not in said
    assert time.process_time() - began < PATIENCE
