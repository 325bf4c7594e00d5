"""Values that differ by environment and are declared equal; everything around them is compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.exchanges import Body, FrameCall, ToolCall
from pytest_agentreplay.model.rules import Rule
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.settings.parsers import make_rules, parse_ignored
from tests.compare.test_matching import JSON_TYPE, http
from tests.compare.test_matching import same as matching_same

BEDROCK = "https://bedrock-runtime.{}.amazonaws.com/model/m/converse"
VERTEX = "https://{0}-aiplatform.googleapis.com/v1/projects/{1}/locations/{0}/publishers/google/models/{2}:{3}"
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True)


def matching(*lines):
    return Matching(READER, (*RULES, *(rule for line in lines for rule in make_rules(line, "differs by environment"))))


def call(url, body=None, headers=()):
    return http(body or {}, url, (JSON_TYPE, *headers))


def same(rules, one, other):
    return matching_same(one, other, rules)


@given(NAMES, NAMES)
def test_a_host_is_equal_where_the_star_stands(here, there):
    rules = matching("host: bedrock-runtime.*.amazonaws.com")
    assert same(rules, call(BEDROCK.format(here)), call(BEDROCK.format(there)))
    assert same(matching(), call(BEDROCK.format(here)), call(BEDROCK.format(there))) is (here == there)


OTHER_HOSTS = [
    "https://bedrock.us-east-1.amazonaws.com/model/m/converse",
    "https://bedrock-runtime.a.b.amazonaws.com/model/m/converse",
    "https://bedrock-runtime.us-east-1.amazonaws.com.evil.example/model/m/converse",
    "http://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse",
    "https://bedrock-runtime.us-east-1.amazonaws.com:444/model/m/converse",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/other/converse",
    "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse?x=1",
]


def test_what_the_host_pattern_does_not_match_is_compared():
    rules, one = matching("host: bedrock-runtime.*.amazonaws.com"), call(BEDROCK.format("eu-west-1"))
    assert [other for other in OTHER_HOSTS if same(rules, one, call(other))] == []


@given(st.tuples(NAMES, NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES, NAMES))
def test_a_path_is_equal_in_the_segments_of_the_stars_and_compared_after_them(one, other):
    rules = matching("host: *-aiplatform.googleapis.com", "path: /v1/projects/*/locations/*")
    equal = same(rules, call(VERTEX.format(*one)), call(VERTEX.format(*other)))
    assert equal is (one[2:] == other[2:])


def test_a_star_ends_at_the_method_of_a_path():
    rules = matching("path: /v1/models/*")
    url = "https://x.example/v1/models/{}"
    assert same(rules, call(url.format("a:generate")), call(url.format("b:generate")))
    assert not same(rules, call(url.format("a:generate")), call(url.format("a:delete")))
    assert not same(rules, call(url.format("a")), call("https://x.example/v2/models/a"))


ARN = "arn:aws:bedrock:{}:{}:inference-profile/{}"


@given(st.tuples(NAMES, st.integers(1), NAMES), st.tuples(NAMES, st.integers(1), NAMES))
def test_only_the_part_of_a_value_that_the_pattern_matches_is_equal(one, other):
    rules = matching(r"$.modelId ~ arn:aws:bedrock:[a-z0-9-]+:\d+:")
    bodies = [{"modelId": ARN.format(*values), "prompt": "hi"} for values in (one, other)]
    url = "https://x.example/converse"
    assert same(rules, call(url, bodies[0]), call(url, bodies[1])) is (one[2] == other[2])
    assert not same(rules, call(url, bodies[0]), call(url, bodies[0] | {"prompt": ARN.format(*other)}))


def test_patterns_for_the_url_headers_and_the_query():
    lines = (r"path ~ (?<=/)(us|eu)\.", r"host ~ ^[a-z]+\.", r"header:Accept ~ tenant-\d+", r"query:project ~ p\d+")
    rules = matching(*lines)
    url = "https://{}.example.com/model/{}.claude/converse?project={}"
    one = call(url.format("desk", "us", "p1"), headers=[("accept", "tenant-1/json")])
    assert same(rules, one, call(url.format("ci", "eu", "p22"), headers=[("accept", "tenant-2/json")]))
    assert not same(rules, one, call(url.format("ci", "eu", "p22"), headers=[("accept", "tenant-2/xml")]))
    assert not same(rules, one, call(url.format("ci", "eu", "q22"), headers=[("accept", "tenant-1/json")]))
    assert not same(rules, one, call(url.format("ci", "ap", "p1"), headers=[("accept", "tenant-1/json")]))


def test_arguments_of_tools_and_messages_of_websockets():
    rules = matching(r"$.account ~ \d{12}", "host: *.voice.example")
    tools = [ToolCall("pay", {"account": account}) for account in ("111111111111", "222222222222", "x")]
    assert same(rules, *tools[:2])
    assert not same(rules, tools[0], tools[2])
    frames = [FrameCall(f"wss://{region}.voice.example/v1", 1, (), Body(b"{}")) for region in "ab"]
    assert same(rules, *frames)


def test_values_that_are_equal_are_drift_and_not_watched():
    rules = matching("host: *.example.com", r"$.at ~ \d+")
    one, other = call("https://a.example.com/", {"at": "eu 1"}), call("https://b.example.com/", {"at": "eu 2"})
    assert {difference.path for difference in rules.drift(one, other)} == {"url", "$.at"}
    assert rules.list_reported(one, other) == ()
    changed = call("https://b.example.com/", {"at": "us 2"})
    assert {difference.path for difference in rules.drift(one, changed)} == {"url"}, "$.at differs beside its number"


INVALID = {
    "host: *": "every host", "host: api.example.com": "no *", "path: v1/*": "no / at the beginning",
    "path: /v1/projects": "no *", "$.x ~": "missing", "$.x ~ (": "a regular expression", "$.x ~ a*": "empty text",
    "user ~ a": "starts with $", "host: *.x.com ~ a": "starts with $",
}  # fmt: skip


def test_a_line_that_is_invalid_is_named_and_a_rule_that_cannot_be_equal_refused():
    for line, words in INVALID.items():
        with pytest.raises(SettingsError) as error:
            parse_ignored([f"{line}  # differs"], "pytest.ini: agentreplay_ignore")
        assert all(word in str(error.value) for word in (words, "pytest.ini: agentreplay_ignore", line)), line
    with pytest.raises(SettingsError, match="no pattern"):
        Rule("http", "body", "$.x", "equal", "why")
    with pytest.raises(SettingsError, match="equal, for a host"):
        Rule("http", "host", "*.x", "drop", "why")
