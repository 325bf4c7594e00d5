"""Files of spans from a stranger: they import, or raise a TraceError, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.interchange.reading import traces
from tests.interchange.neutral import TRACES

FILES = sorted(
    path.relative_to(TRACES).as_posix()
    for folder in (
        "otel-genai",
        "otel-genai-legacy-events",
        "openinference",
        "openllmetry",
        "langfuse",
        "promptlayer",
        "phoenix",
        "_synthesised",
    )
    for path in (TRACES / "generated" / folder).iterdir()
    if "otlp" in path.name or "rest" in path.name or "appinsights" in path.name
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def imports_or_says_why_not(name, data):
    """The traces, or the message of the error that there may be."""
    said = name
    try:
        found = traces([(name, data)])
    except TraceError as error:
        said = str(error)
    else:
        assert all(trace.steps for trace in found)
    assert name in said
    assert "\x1b" not in said
    return said


@st.composite
def places(draw, value):
    """A place in a JSON value, as the node and the key in it."""
    while True:
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        if not isinstance(value[key], dict | list) or not value[key] or draw(st.integers(0, 9)) == 0:
            return value, key
        value = value[key]


def rows(name):
    text = (TRACES / name).read_text(encoding="utf-8")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_changed_file_imports_or_says_why_not(name, data):
    held = rows(name)
    for _ in range(data.draw(st.integers(1, 4))):
        if held:
            node, key = data.draw(places(held))
            if data.draw(st.booleans()):
                node[key] = data.draw(JUNK)
            else:
                del node[key]
    imports_or_says_why_not(name, "\n".join(json.dumps(row) for row in held).encode())


@pytest.mark.parametrize("name", FILES[:4])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_torn_file_imports_or_says_why_not(name, data):
    whole = (TRACES / name).read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    torn = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 40)) :]
    imports_or_says_why_not(name, torn)


def attributes(**held):
    return {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "a" * 32,
                                "spanId": "b" * 16,
                                "attributes": [
                                    {"key": key, "value": {"stringValue": value}} for key, value in held.items()
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    }


HOSTILE = {
    "a list with one far place": attributes(
        **{
            f"gen_ai.prompt.{10**9 - 1}.role": "user",
            "gen_ai.request.model": "m",
            "gen_ai.system": "openai",
            f"gen_ai.prompt.{10**9 - 1}.content": "x",
        }
    ),
    "numbers that are no places": attributes(
        **{"gen_ai.prompt.²³.role": "user", "gen_ai.request.model": "m", "gen_ai.system": "x"}
    ),
    "a span that is its own parent": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "spanId": "b" * 16,
                                "parentSpanId": "b" * 16,
                                "attributes": [
                                    {"key": "gen_ai.tool.name", "value": {"stringValue": "t"}},
                                    {"key": "gen_ai.tool.call.result", "value": {"stringValue": "1"}},
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    },
    "two spans that are each other's parent": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "spanId": one * 16,
                                "parentSpanId": other * 16,
                                "attributes": [
                                    {"key": "gen_ai.tool.name", "value": {"stringValue": one}},
                                    {"key": "gen_ai.tool.call.result", "value": {"stringValue": "1"}},
                                ],
                            }
                            for one, other in ("ab", "ba")
                        ]
                    }
                ]
            }
        ]
    },
    "times beyond all bounds": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "spanId": "b" * 16,
                                "startTimeUnixNano": "9" * 400,
                                "endTimeUnixNano": -1,
                                "attributes": [
                                    {"key": "gen_ai.tool.name", "value": {"stringValue": "t"}},
                                    {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": "{}"}},
                                ],
                            }
                        ]
                    }
                ]
            }
        ]
    },
    "an escape in a name": attributes(**{"gen_ai.tool.name": "\x1b[2J", "gen_ai.tool.call.result": "1"}),
    "a number of thousands of digits": attributes(
        **{"gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": '{"a": ' + "9" * 5000 + "}"}
    ),
    "half a character": attributes(**{"gen_ai.tool.name": "\ud83d", "gen_ai.tool.call.result": "\ude00"}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_spans(what):
    imports_or_says_why_not("hostile.json", json.dumps(HOSTILE[what]).encode())


def deep(levels):
    value = '{"stringValue": "x"}'
    for _ in range(levels):
        value = '{"arrayValue": {"values": [' + value + "]}}"
    return json.dumps(attributes(**{"gen_ai.tool.name": "HERE"})).replace('{"stringValue": "HERE"}', value)


@pytest.mark.parametrize("levels", [100, 300, 5000])
def test_values_that_are_nested_without_end(levels):
    with pytest.raises(TraceError):
        traces([("deep.json", deep(levels).encode())])


def test_credentials_in_spans_of_a_client_never_leave_the_file():
    """PromptLayer writes the key of the client's constructor; nothing of the file is kept."""
    with pytest.raises(TraceError) as refused:
        traces([("p.json", (TRACES / "generated/promptlayer/otlp_traces.json").read_bytes())])
    assert "sk-stub" not in str(refused.value)
