"""docs/format.md shows a file that is one."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import dedup_writer, seal_digest, stored_exchange, volatile_reader
from pytest_agentreplay.snapshots.codec.styles import COLUMNS, LARGEST
from tests.support.tables import words

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")
EXAMPLE = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_example_is_sealed_and_exactly_what_would_be_written():
    snapshot = codec.loads(EXAMPLE, file="docs/format.md")
    assert snapshot.sealed
    assert codec.dumps(snapshot.run) == EXAMPLE
    ask, lookup, answer = snapshot.run.exchanges
    assert json.loads(answer.call.body.data)["messages"][1] == json.loads(ask.call.body.data)["messages"][1]
    assert len(list(answer.outcome.chunks())) == 8
    assert lookup.outcome.value == {"status": "shipped"}


def test_the_example_shows_ids_a_version_and_a_template():
    for mark in ('{"m1": ', '{"m1.2": ', '"$like"', '"$text"', '"templates"', '["e1", ', "⟦call:1⟧", "⟦created⟧", "⟦⟧"):
        assert mark in EXAMPLE


MARKS = words("$text $blob $utf8 $float $int $pairs $json $raw $list $item $like $hole $reply_text $reply $result")


def test_every_key_and_mark_is_on_the_page():
    keys = stored_exchange.KEYS | {
        *dedup_writer.LETTERS,
        *volatile_reader.OF_EXCHANGE,
        *volatile_reader.OF_KIT,
        volatile_reader.LINES,
        volatile_reader.RUN,
    }
    keys |= words("schemaVersion header exchanges blobs integrity request response cuts headers values")
    assert not [key for key in sorted(keys) if f"`{key}`" not in PAGE]
    assert not [mark for mark in MARKS if f'{{"{mark}"' not in PAGE]


def test_the_figures_on_the_page_are_those_of_the_code():
    assert f"lines of {COLUMNS} columns" in PAGE
    assert f"{LARGEST >> 20} MB" in PAGE
    assert f"{dedup_writer.LONG} characters" in PAGE
    assert f"{volatile_reader.LONG} characters" in PAGE
    assert seal_digest.FORM in PAGE


def test_the_digest_is_what_the_page_says_it_is():
    above, _, _ = EXAMPLE.rpartition(',\n "integrity"')
    seal = json.loads(EXAMPLE)["integrity"]
    assert hashlib.sha256(b"agentreplay/snapshot/v2\0" + above.encode()).hexdigest() == seal["digest"]
    rest = json.dumps({key: value for key, value in seal.items() if key != "self"}, separators=(",", ":"))
    assert hashlib.sha256(b"agentreplay/snapshot/v1\0" + rest.encode()).hexdigest()[:16] == seal["self"]
