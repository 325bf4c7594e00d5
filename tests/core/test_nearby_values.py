"""Keys without a form of their own, beside the name of their vendor. Each is put together from parts."""

from __future__ import annotations

import time

import pytest

from pytest_agentreplay.core.redaction.credentials import find_nearby

MIXED = "v9zs00ZE1MKZXggW" + "hJ5aQ2rT7uY4pL0x"
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"


def found(text):
    data = text.encode()
    return {data[start:end].decode() for start, end, _ in find_nearby(data)}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Mistral key: {}", MIXED),
        ("MistralClient('{}')", MIXED),
        ("MISTRAL={}", MIXED),
        ('{{"mistral": "{}"}}', MIXED),
        ("cohere.Client('{}')", MIXED + "Kd7xQm2L"),
        ("Here is the Cohere API key you asked for: {}", MIXED + "Kd7xQm2L"),
        ("Datadog API key: {}", HEX),
        ("the datadog app key {} is old", HEX + "04895722"),
        ("Deepgram token {}", HEX + "04895722"),
        ("assemblyai_key: {}", HEX),
    ],
)
def test_a_key_is_found_whole(text, key):
    assert found(text.format(key)) == {key}


@pytest.mark.parametrize(
    "text",
    [
        f"mistral commit {HEX}04895722", f"mistral: sha256:{HEX}{HEX}", f"mistral\n{MIXED}", f"cohere {MIXED}",
        f"cohere call_{MIXED}Kd7xQm2L", f"datadog.trace_id={HEX}", f"datadog dashboard {HEX}",
        f"the Datadog key {HEX}{HEX}", f"datadog key of {'a long sentence ' * 4}{HEX}",
        "mistral-large-latest and command-r-plus-08-2024 of Cohere",
    ],
)  # fmt: skip
def test_what_only_resembles_it_stays(text):
    assert found(text) == set()


@pytest.mark.parametrize("unit", ["mistral ", "cohere" + MIXED, "datadog key "])
def test_a_megabyte_of_near_misses_is_read(unit):
    begun = time.perf_counter()
    list(find_nearby((unit * (1_000_000 // len(unit))).encode()))
    assert time.perf_counter() - begun < 60
