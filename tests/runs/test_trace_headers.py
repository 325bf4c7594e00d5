"""Credentials in the headers of imported traces: every value, in every shape, and found again by `scan`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.redaction.policy import PLAIN
from pytest_agentreplay.runs.case_files.case_linting import scan_file
from pytest_agentreplay.runs.case_files.trace_import import clean, find_hits
from pytest_agentreplay.runs.redact.redaction_setup import redaction_for
from pytest_agentreplay.runs.redact.trace_headers import find_credentials
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.traces.opening import rows_of

OTLP = '{"attributes": [{"key": "http.request.header.x-api-key", "value": {"arrayValue": {"values": %s}}}]}'
SHAPES = {
    "a list of values": '{"headers": {"Authorization": ["Bearer tok-a", "Bearer tok-b"]}}',
    "a short value": '{"headers": {"authorization": ["Bearer tok-a"], "x-api-key": "k1"}}',
    "a second Set-Cookie": '{"headers": {"Set-Cookie": ["sid=tok-a; Path=/; HttpOnly", "x=tok-b; Path=/"]}}',
    "HAR, value first": '{"headers": [{"value": "tok-a", "name": "X-Api-Key"}, {"name": "Cookie", "value": "tok-b"}]}',
    "HAR, more members": '{"headers": [{"name": "Cookie", "comment": "c", "value": "sid=tok-a"}]}',
    "the id of a session": '{"headers": {"Mcp-Session-Id": ["tok-a"]}, "more": [{"name": "mcp-session-id", "value": "tok-b"}]}',
    "pairs": '{"request": {"headers": [["X-Foo-Token", "tok-a"], ["Cookie", "tok-b"]]}}',
    "a pair elsewhere": '[["authorization", "Bearer tok-a"]]',
    "Node's raw headers": '{"rawHeaders": ["Host", "example.org", "X-Api-Key", "tok-a", "cookie", "tok-b"]}',
    "OTLP": OTLP % '[{"stringValue": "tok-a"}, {"stringValue": "tok-b"}]',
    "OTLP, value first": '{"attributes": [{"value": {"stringValue": "tok-a"}, "key": "http.response.header.set_cookie"}]}',
    "flat attributes": '{"http.request.header.authorization": ["Basic tok-a"], "http.request.headers.x_api_key": "tok-b"}',
    "WSGI": '{"environ": {"HTTP_AUTHORIZATION": "tok-a", "HTTP_X_API_KEY": "tok-b"}}',
    "a number": '{"headers": {"x-api-key": 1234567, "x-auth-token": "tok-b"}}',
    "a key twice": '{"headers": {"cookie": "tok-a", "cookie": "tok-b"}}',
    "JSON in a string": json.dumps({"body": json.dumps({"headers": {"Cookie": ["tok-a", "tok-b é"]}})}),
    "JSON Lines with a line that is none": '{"headers": {"cookie": ["a", "tok-a"]}}\nstarted\n{"headers": {"cookie": "tok-b"}}\n',
    "YAML lists": "headers:\n  Set-Cookie:\n  - a=tok-a; Path=/\n  - b=tok-b\n  Host:\n  - example.org\n",
    "YAML folded": "headers:\n  Authorization:\n  - Bearer tok-a\n    tok-b\n  Host: example.org\n",
    "YAML blocks": "headers:\n  Cookie: >-\n    sid=tok-a;\n    other=tok-b\n  X-Api-Key: |\n    tok-c\n  Host: example.org\n",
    "YAML flow": "headers: {Cookie: [tok-a, tok-b], x-api-key: 'tok-c'}\n",
    "YAML alias": "first: &shared\n  Cookie: [tok-a, tok-b]\nsecond: *shared\n",
    "YAML binary": "headers:\n  x-api-key: !!binary dG9rLWE=\n",
}


def test_every_credential_of_every_header_is_redacted_and_one_that_was_kept_is_reported(tmp_path):
    file = tmp_path / "source-trace.json"
    for what, text in SHAPES.items():
        done = clean(text, redaction_for({}))
        assert not any(secret in done for secret in ("tok-", '"k1"', "1234567", "dG9rLWE")), what
        assert shape(data_of(done)) == shape(data_of(text)), what
        assert clean(done, redaction_for({})) == done, what
        assert "example.org" in done or "example.org" not in text, what
        file.write_text(text, encoding="utf-8")
        assert {hit.category for hit in scan_file(file, PLAIN, {})} >= {"header"}, what
        assert find_hits(file.name, done.encode(), redaction_for({})) == [], what


def test_what_is_no_credential_stays_byte_for_byte():
    for text in (
        '{"headers": {"Content-Type": ["a/b"], "Host": "h"}, "usage": {"input_tokens": 3}, "n": 1e400}',
        '{"table": {"headers": ["Token", "Cost"], "rows": [["key", "12"]]}}',
        '{"name": "lookup", "value": "v"}',
        "title: >\n  a folded\n  text\nheaders:\n  Accept: text/plain\n",
    ):
        assert clean(text, redaction_for({})) == text


NAMES = st.sampled_from(["Authorization", "cookie", "Set-Cookie", "X-Api-Key", "proxy-authorization"])
VALUES = st.text(st.characters(codec="ascii", min_codepoint=48, max_codepoint=122), min_size=3, max_size=12)


@given(NAMES, st.lists(VALUES, min_size=1, max_size=4), st.integers(0, 3), st.booleans())
def test_however_deep_in_strings_of_json_a_header_stands(name, values, depth, ascii_only):
    text = json.dumps({"é": 1, "headers": {name: [f"zz{value}zz" for value in values]}}, ensure_ascii=ascii_only)
    for _ in range(depth):
        text = json.dumps([text], ensure_ascii=ascii_only)
    done = clean(text, redaction_for({}))
    assert not any(f"zz{value}zz" in done.replace("\\", "") for value in values)
    assert shape(data_of(done)) == shape(data_of(text))


def test_a_document_with_a_credential_is_written_anew_and_all_else_stays():
    lines = ['{"a":1,  "n": 1.50}', "started", '{"headers":{"Cookie":"tok-a"},"big":123456789012345678901,"big":2.5}']
    done = clean("\n".join(lines), redaction_for({})).split("\n")
    assert done[:2] == lines[:2]
    assert done[2] == '{"headers": {"Cookie": "[[redacted:header:1]]"}, "big": 123456789012345678901, "big": 2.5}'
    assert clean('{\n"headers": {"cookie": "tok-a"}}', redaction_for({})).startswith('{\n  "headers": {\n')
    done = clean("headers:\n  Cookie: tok-a\nbytes: !!binary /w==\n", redaction_for({}))
    assert done == '{\n  "headers": {\n    "Cookie": "[[redacted:header:1]]"\n  },\n  "bytes": "\\udcff"\n}'


def test_places_are_those_of_documents_and_the_paths_in_them():
    text = (
        '{"a": 1}\n {"log": [{"headers": [{"name": "Cookie", "value": "tok-a"}]}, "[{\\"x-api-key\\": \\"tok-b\\"}]"]}'
    )
    places = find_credentials(text, lambda _, value: f"{value}!")
    assert places == ["2:2 $.log[0].headers[0].value", "2:2 $.log[1][0]['x-api-key']"]


def test_aliases_that_are_a_bomb_are_not_written_out():
    text = f"headers:\n  cookie: tok-a\na: &a {'x' * 600_000}\nb: [{', '.join(['*a'] * 500)}]\n"
    with pytest.raises(TraceError, match="aliases, written out"):
        clean(text, redaction_for({}))


def test_a_broken_file_is_searched_once():
    for text in ('[\n{"a": 1,\n' * 20_000, '{"a": [\n' * 20_000, '"\n' * 200_000):
        assert find_credentials(text, lambda _, value: value) == []


def data_of(text):
    rows, _ = rows_of(text)
    return [strict_yaml.load_foreign(text, file="x", error=TraceError)] if rows is None else rows


def shape(value):
    """A value without its texts and numbers; a string of JSON is what it holds."""
    match value:
        case dict():
            return {name: shape(member) for name, member in value.items()}
        case list():
            return [shape(item) for item in value]
        case str() if value[:1] in {"{", "["} and value[:2] != "[[":
            return shape(json.loads(value))
    return "scalar"
