"""What a snapshot holds of all that a full replay needs, and the grade that follows."""

from dataclasses import replace

import pytest

from pytest_agentreplay.compare.kit_fields import Grade, Status, make_kit
from pytest_agentreplay.model.exchanges import Header
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.kit import find_region

KIT = {
    "clock": {"mode": "stepped", "ran_on": False},
    "zone": {"name": "Europe/Berlin", "offset": 7200},
    "locale": {"now": {"LC_TIME": "de_DE.UTF-8"}},
    "generators": ["numpy"],
    "hash": {"seed": 0},
    "environment": {"SHOP_REGION": "eu"},
    "fixtures": {"data/rates.json": "ab12" * 16},
    "redactions": {"placeholders": {"openai-key": 2}, "places": {"home": 1}},
    "annotations": {"tenant": "acme", "new_prompt": False},
    "git": {"commit": "c0ffee" * 6, "dirty": True},
    "python": "3.13.1",
    "platform": "linux",
    "packages": {"openai": "3.52.0"},
    "locks": {"uv.lock": "cd34" * 16},
    "trace": {"trace_id": "t" * 32, "span_id": "s" * 16},
    "models": [{"model": "gpt-x", "region": "eu-central-1"}],
}
PASSED = {"status": "passed"}


@pytest.fixture
def run(writing):
    book = writing.Book()
    tools = [{"type": "function", "function": {"name": "lookup"}}]
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Where is\nit?"}]
    book.model(messages, tools=tools, temperature=0.5, seed=7)
    book.tool("lookup", order_id="7")
    header = Header("tests/t.py::t", "2026-11-20T10:00:00+00:00", 1_763_653_219_123_456_000, 42, PASSED, KIT)
    return replace(book.run(), header=header)


def fields(run, **options):
    return {field.name: field for field in make_kit(run, READER, digest="9" * 64, **options).fields}


TOLD = {
    "model asked": "gpt-x", "region": "eu-central-1", "sampling seed": "7", "the run's input": "Where is it?",
    "clock": "stepped, from 2026-11-20T10:00:00+00:00", "time zone": "Europe/Berlin +02:00", "locale": "de_DE.UTF-8",
    "random numbers, ids": "seed 42: random, numpy, uuid", "order of sets": "PYTHONHASHSEED=0",
    "environment": "SHOP_REGION=eu", "kept files": "data/rates.json ab12ab12", "places": "as marks: home",
    "commit": "c0ffeec0ffee, and changes that are not in it", "pinned by": "uv.lock cd34cd34",
    "ids and flags": "tenant=acme, new_prompt=false", "trace": f"{'t' * 32}, span {'s' * 16}",
    "redacted": "openai-key 2", "digest": "sha256 999999999999", "tool schemas": "1 schema",
    "tool calls": "1 call with arguments and result",
}  # fmt: skip


def test_every_field_is_captured_with_its_value_and_a_kit_that_holds_nothing_says_absent(run):
    values = {name: field.value for name, field in fields(run).items() if field.status is Status.CAPTURED}
    assert {name: values[name] for name in TOLD} == TOLD
    assert "temperature 0.5" in values["parameters"]
    assert (make_kit(run, READER).grade, make_kit(run, READER).reasons) == (Grade.A, ())
    bare = fields(replace(run, header=Header("t", outcome=PASSED)))
    absent = {name for name, field in bare.items() if field.status is Status.ABSENT}
    assert {"clock", "time zone", "locale", "random numbers, ids", "commit", "python", "packages", "region"} <= absent
    assert bare["environment"].status is bare["trace"].status is Status.NOT_APPLICABLE


GAPS = [
    ({"unfrozen": [{"tool": "refund", "path": "shop.refund"}]}, "tool refund ran unseen"),
    ({"gaps": ["3 connects to db:5432"]}, "no boundary took 3 connects to db:5432"),
    ({"clock": {"mode": "real", "ran_on": False}}, "the clock was real"),
    ({"clock": {"mode": "stepped", "ran_on": True}}, "the clock ran on"),
    ({"clock": None}, "it says nothing of the clock"),
]


def with_kit(run, kit):
    return make_kit(replace(run, header=replace(run.header, kit=kit)), READER)


def test_a_known_gap_or_an_edit_makes_it_b_an_unknown_end_c_and_what_never_came_back_cold(run):
    for changes, reason in GAPS:
        kit = with_kit(run, KIT | changes)
        assert kit.grade is Grade.B
        assert [one for one in kit.reasons if one.startswith(reason)]
    assert make_kit(run, READER, digest="9", sealed=False).grade is Grade.B
    assert fields(run, sealed=False)["digest"].status is Status.ABSENT
    assert make_kit(replace(run, header=replace(run.header, outcome={})), READER).grade is Grade.C
    for exchanges in ((), tuple(replace(x, outcome=None, finish=None) for x in run.exchanges)):
        kit = make_kit(replace(run, exchanges=exchanges), READER)
        assert (kit.grade, kit.grade.replays) == (Grade.COLD, False)


@pytest.mark.parametrize("stored", [None, 7, "x", ["x"], {"a": ["b"]}, [{"tool": 3}], [None]])
def test_whatever_a_file_holds_can_be_told(run, stored):
    assert with_kit(run, dict.fromkeys([*KIT, "unfrozen", "gaps"], stored)).grade in Grade


REGIONS = {
    "https://bedrock-runtime.eu-central-1.amazonaws.com/model/x": "eu-central-1",
    "https://us-central1-aiplatform.googleapis.com/v1": "us-central1",
    "https://bedrock-runtime.us-gov-west-1.amazonaws.com": "us-gov-west-1",
    "https://api.openai.com/v1/us-east-1": "",
    "https://plus-east-1x.example.com": "",
}


def test_the_region_is_read_from_the_host():
    assert {url: find_region(url) for url in REGIONS} == REGIONS
