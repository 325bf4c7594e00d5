from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.core.model import Body, HttpCall, HttpReply, ToolCall
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.credentials import find_paths, values
from pytest_agentreplay.core.redaction.places import Places
from pytest_agentreplay.core.redaction.policy import Policy
from pytest_agentreplay.core.rules import compile_path

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(TREES, max_size=3) | st.dictionaries(st.text(max_size=5), TREES, max_size=3), st.booleans())
def test_every_value_is_where_its_place_says(tree, pretty):
    data = json.dumps(tree, indent=2 if pretty else None, ensure_ascii=pretty).encode("utf-8", "surrogatepass")
    for place, start, end in values(data):
        there = tree
        for step in place:
            there = there[step]
        text = data[start:end] if data[start - 1 : start] != b'"' else b'"' + data[start:end] + b'"'
        assert json.loads(text) == there


def policy(*paths):
    return Policy(paths=tuple(("patient", compile_path(path)) for path in paths))


def stored(text, *paths, kind="application/json"):
    data = text.encode()
    reply = HttpReply(200, headers=(("content-type", kind),), body=Body(data), cuts=(len(data),))
    call = HttpCall("POST", "https://api.test/v1/x")
    return Redaction(Places({}), policy=policy(*paths)).outcome(call, reply).body.data.decode()


def test_values_go_by_their_path_and_nothing_else_does():
    text = '{"rows": [{"name": "Ada", "age": 36, "city": "Ada"}, {"name": "Bob"}], "total": 2}'
    kept = json.loads(stored(text, "$.rows[*].name", "$.rows[*].age"))
    assert [row["name"] for row in kept["rows"]] == ["[[redacted:patient:1]]", "[[redacted:patient:3]]"]
    assert kept["rows"][0]["age"] == "[[redacted:patient:2]]"
    assert kept["total"] == 2
    whole = json.loads(stored('{"who": {"first": "Ada", "tags": ["x1", true, null]}}', "$.who"))
    assert whole == {"who": {"first": "[[redacted:patient:1]]", "tags": ["[[redacted:patient:2]]", True, None]}}
    redaction = Redaction(Places({}), policy=policy("$.who.name"))
    arguments = redaction.call(ToolCall("t", {"who": {"name": "Ada"}, "name": "x"})).arguments
    assert arguments == {"who": {"name": "[[redacted:patient:1]]"}, "name": "x"}


def test_lines_of_a_stream_are_documents_and_what_is_no_json_has_no_paths():
    text = 'data: {"row": {"name": "Ada"}}\n\ndata: [DONE]\n\ndata: {"row": {"name": "Bob"}}\n\n'
    kept = stored(text, "$.row.name", kind="text/event-stream")
    assert kept.count("[[redacted:patient:") == 2
    assert "Ada" not in kept
    assert "Bob" not in kept
    assert "data: [DONE]" in kept
    assert [*find_paths(b"name: Ada", policy("$.name").paths)] == []
    assert [*find_paths(b'{"name": "Ada"', policy("$.name").paths)] == []
