"""What a name tells that does not stand right before the value: forms, pairs, blocks, tables, keys in JSON."""

from __future__ import annotations

import json
import time

import pytest

from pytest_agentreplay.core.model import Body, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.places import Places

VALUE = "7Kd" + "x9Qm" + "2Lp4Tz"
LONG = VALUE + "-" + VALUE[::-1] + "_Ab12Cd34Ef56Gh78"
POST = HttpCall("POST", "https://api.test/v1/x")


def stored(text):
    data = text.encode()
    return Redaction(Places({})).outcome(POST, HttpReply(200, body=Body(data), cuts=(len(data),))).body.data.decode()


FOUND = [
    '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\n%s\r\n--b--\r\n',
    '--b\r\nContent-Disposition: form-data; name="api_key"\r\nContent-Type: text/plain\r\n\r\n%s\r\n--b--\r\n',
    '{"key": "db.password", "value": {"stringValue": "%s"}}',
    '{"attributes": [{"key": "a", "value": {"arrayValue": {}}}, {"key": "app.api_key", "value": {"stringValue": "%s"}}]}',
    '{"key": "x.api_key", "value": {"arrayValue": {"values": [{"stringValue": "none"}, {"stringValue": "%s"}]}}}',
    '{"value": "%s", "name": "X-Api-Key"}', '{"value": {"string_value": "%s"}, "key": "auth_token"}',
    '{"name": "DB_PASSWORD", "type": "string", "value": "%s"}',
    '{"Value": "%s", "Type": "text", "Key": "client_secret"}', "[{'value': '%s', 'name': 'Authorization'}]",
    "env:\n  - value: %s\n    name: DB_PASSWORD\n", '<add value="%s" key="ApiKey"/>',
    "password: |\n  %s\nuser: ada\n", "db:\n  client_secret: >-\n    %s\n  host: h\n", "- api_key: |-\n    %s\n",
    "const config = {password: `%s`, host: `h`}", "const apiKey = `%s`;",
    "const token: string = '%s-0123456789abcdef';", 'password: str = "%s"', 'password = f"%s"', "password = rb'%s'",
    "PASSWORD=$'%s'", 'var password = @"%s";', 'password = """\n%s\n"""', "secret_key = '''\n%s'''",
    'password = """%s"""\n', "name,password,city\nada,%s,Rome\nbob,[[redacted:key:9]],Oslo\n",
    "name;password\nada;%s\n", "user\tapi_key\nada\t%s\n", '"name","password"\n"ada","%s"\n',
    "password\tname\n%s\tada\n", "| name | password |\n|---|---|\n| ada | %s |\n",
    "| name | API key |\n| :--- | ---: |\n| ada | `%s` |\n",
    " id | client_secret | host\n----+---------------+------\n  1 | %s | h\n",
    "x\n\nname,password\nbob,none\nada,%s\n\nmore",
]  # fmt: skip


@pytest.mark.parametrize("form", FOUND)
def test_the_value_is_found_in_a_body_in_a_string_of_json_and_in_a_result(form):
    text = form % VALUE
    for written in (text, json.dumps({"out": text}), json.dumps({"in": json.dumps({"out": text})})):
        after = stored(written)
        assert VALUE not in after, written
        assert stored(after) == after
    result = Redaction(Places({})).outcome(ToolCall("t"), ToolReply({"out": text}))
    assert VALUE not in json.dumps(result.value)


JWKS = {"RSA": ("n", "e", "d", "p", "q", "dp", "dq", "qi"), "EC": ("x", "y", "d"), "OKP": ("x", "d"), "oct": ("k",)}


@pytest.mark.parametrize("kind", JWKS)
@pytest.mark.parametrize("last", [False, True])
def test_the_private_members_of_a_json_web_key_go_and_the_public_ones_stay(kind, last):
    members = {name: f"{name}{LONG}{name}" for name in JWKS[kind]}
    key = {**members, "kty": kind} if last else {"kty": kind, "kid": "1", **members}
    for text in (json.dumps({"keys": [key]}), json.dumps({"out": json.dumps(key)}), str(key)):
        after = stored(text)
        for name, value in members.items():
            assert (value in after) == (name in {"n", "e", "x", "y"}), (name, after)
    result = Redaction(Places({})).outcome(ToolCall("t"), ToolReply(key)).value
    assert {name for name in members if result[name] == members[name]} == {"n", "e", "x", "y"} & members.keys()


TREES = [
    {"key": "db.password", "value": {"stringValue": VALUE}},
    {"value": VALUE, "name": "X-Api-Key"},
    [{"name": "a", "value": "b"}, {"name": "DB_PASSWORD", "value": VALUE}],
]


@pytest.mark.parametrize("tree", TREES)
def test_members_of_a_result_and_of_arguments_tell_of_each_other(tree):
    made = Redaction(Places({}))
    assert VALUE not in json.dumps(made.outcome(ToolCall("t"), ToolReply(tree)).value)
    assert VALUE not in json.dumps(made.call(ToolCall("t", {"row": tree})).arguments)
    assert VALUE not in json.dumps(made.outcome(ToolCall("t"), ToolReply(items=(tree,))).items)


LEFT = [
    '--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nhello-world-12345678\r\n--b--\r\n',
    '{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12345678"}}',
    '{"key": "max_tokens", "value": {"stringValue": "4096-4096"}}',
    '{"value": "Rome-2025-11", "name": "city"}, {"name": "password", "required": true}',
    '{"name": "password", "description": "the value", "type": "string"}',
    "description: |\n  a text of two lines\n  and 12345678-abc\n", "password_policy: |\n  at least 12 characters\n",
    "password: |\n  Ask the owner of the shop for it.\n", "const greeting = `hello-12345678`;",
    'help_text = """\nSet the password first.\n"""',
    "def connect(user, password, token):\n    return open(user, password, token)\n",
    "name,city,token_count\nada,Rome,12345678\n",
    "The password, the token, and the key\nare given, to nobody, but you-1234567\n",
    "| field | meaning |\n|---|---|\n| password | must-be-set-1 |\n", "name,password\nada,\nbob,none\n",
    '{"d": "2025-11-20T10:00:00Z-abcdefgh", "k": "abcdefghijklmnopqrstuvwx"}',
    '{"kty": "RSA", "n": "' + LONG + '", "e": "AQAB", "kid": "' + VALUE + '0123456789"}',
]  # fmt: skip


@pytest.mark.parametrize("text", LEFT)
def test_what_no_name_gives_away_stays(text):
    for written in (text, json.dumps({"out": text})):
        assert stored(written) == written
    assert Redaction(Places({})).outcome(ToolCall("t"), ToolReply({"out": text})).value == {"out": text}


@pytest.mark.parametrize(
    "unit",
    [
        "password,token,secret,", '{"name": "password", ', '"value": "abcdefgh", ', "password: |\n  x\n",
        '"kty" "d": "', 'password = """\n', "| password ", 'form-data; name="password"\r\n', "\\\\\\\\",
        "a,password\n1,2\n", "password\\n",
    ],
)  # fmt: skip
def test_the_cost_is_that_of_the_length(unit):
    def seconds(size):
        body = (unit * (size // len(unit))).encode()
        begun = time.process_time()
        Redaction(Places({})).outcome(POST, HttpReply(200, body=Body(body), cuts=(len(body),)))
        return time.process_time() - begun

    seconds(1000)
    assert seconds(80_000) < 10 * seconds(20_000) + 0.2
