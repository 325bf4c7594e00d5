"""What names, schemes and URLs give away. Values are put together here, so that no key stands in this file."""

from __future__ import annotations

import json
import time

import pytest

from pytest_agentreplay.core.model import Body, HttpCall, HttpReply, ToolCall
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.places import Places
from pytest_agentreplay.core.redaction.policy import Policy
from pytest_agentreplay.core.redaction.secret_names import is_stand_in, strength

VALUE = "7Kd" + "x9Qm" + "2Lp4Tz"
POST = HttpCall("POST", "https://api.test/v1/x")
JSON = (("Content-Type", "application/json"),)


def stored(text, policy=None):
    redaction = Redaction(Places({}), policy=policy or Policy())
    data = text.encode()
    return redaction.outcome(POST, HttpReply(200, headers=JSON, body=Body(data), cuts=(len(data),))).body.data.decode()


FOUND = [
    '{"password": "%s"}', '{"db_password":"%s"}', '{"apiKey": "%s", "n": 1}', '{"x-api-key": "%s"}',
    '{"client_secret": "%s"}', '{"access_token": "%s", "expires_in": 3600}', '{"Authorization": "Bearer %s"}',
    "{'password': '%s'}", "Client(api_key='%s', base_url='https://x.test')", 'password: "%s"',
    "db:\n  password: %s\n  host: h", "DB_PASSWORD=%s", "export API_KEY='%s'", "host=h user=u password=%s dbname=d",
    "AccountName=a;AccountKey=%s==;EndpointSuffix=core", "curl -H 'Authorization: Bearer %s' https://x.test",
    "X-Auth-Token: %s", "X-Hub-Signature: %s", '{"security_answer": "%s"}', "GET /cb?state=1&code=%s&x=1",
    "GET /b?sig=%s&sv=1", "postgresql://app:%s@db.test/prod", "Cookie: theme=dark; sessionid=%s0000; lang=de",
    "Set-Cookie: SID=%s0000; Path=/; HttpOnly", '{"cookie": "a=b; sid=%s0000"}', "Authorization: Basic %s00",
    "&lt;password=%s&gt;", "auth_token := %s",
    '{"headers": [{"name": "X-Api-Key", "value": "%s"}, {"name": "Accept", "value": "*/*"}]}',
    '{"headers": [{"name": "Authorization", "value": "Splunk %s"}]}',
    '{"headers": [["X-Auth-Token", "%s00000000"], ["accept", "*/*"]]}',
    "[(b'authorization', b'Bearer %s'), (b'accept', b'*/*')]", '{"X-Api-Key": ["%s"]}',
    "env:\n  - name: DB_PASSWORD\n    value: %s\n  - name: LOG", "Authorization: GenieKey %s",
    "Authorization: SSWS %s\nAccept: */*", 'oauth_signature="%s"', "Cookie: %s0000", '{"cookie": "%s0000"}',
    '{"headers": [{"name": "Set-Cookie", "value": "sid=%s0000; Path=/"}]}',
    "headers={'Cookie': 'sid=%s0000', 'Accept': '*/*'}", 'Set-Cookie: lb="%s0000"; Path=/',
    "> Cookie: sid=%s0000\r\n> Accept: */*", "https://x.test/reset?t=%s00000000",
    "<a href='/reset?key=%s00000000&amp;a=1'>", "https://x.test/?tok=%s", "sig=%s&sv=1",
    "https://%s00000000@github.com/acme/repo.git", "https://%s00000000:x-oauth-basic@github.com/acme/repo.git",
    "apitoken=%s", "secret_key_base: %s", "PHPSESSID=%s", "GITHUB_PAT=%s", "recovery_code: %s",
    "a=1&text=pwd%%3A+%s%%0Aand+more&b=2", "text=the+API+key%%3A+%s%%2E&b=2", "COOKIE=%s0000\nX=1",
    "<a href='?cookie=%s0000'>",
]  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
@pytest.mark.parametrize("wrapped", ["as it is", "in a string", "in a string in a string"])
def test_a_value_that_its_name_gives_away_goes_and_all_else_stays(text, wrapped):
    whole = text % VALUE
    for _ in range(["as it is", "in a string", "in a string in a string"].index(wrapped)):
        whole = json.dumps({"text": whole, "n": [1, 2.5, True]})
    kept = stored(whole)
    assert VALUE not in kept
    if wrapped != "as it is":
        json.loads(kept)
    before, _, after = whole.partition(VALUE)
    assert kept.startswith(before)
    assert kept.endswith(after.lstrip("=0"))
    assert stored(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        '{"max_tokens": 4096, "total_tokens": 230}', '{"token": " Warsaw", "logprob": -0.1, "bytes": [87]}',
        '{"token": "12345", "id": 7}', '{"next_page_token": "abc123abc123abc123"}',
        '{"sort_key": "created_at", "key": "PROJ-12345678"}', '{"password_policy": "at least 12 characters"}',
        '{"password": "your password here"}', '{"password": null, "secret": false}',
        '{"api_key": "$OPENAI_API_KEY", "secret": "<secret>"}',
        '{"api_key": "${env:KEY_12345}", "token": "{{ token1234567 }}"}',
        '{"type": "thinking", "signature": "EqQJ7gnXGyhQqBAiEHmG9HyCXelUHIUIvURs/b5q"}',
        '{"session_id": "0b5f2a1e77c94d0fa31c9a3be0c1de45"}', "password = getpass.getpass()",
        "api_key = os.environ['OPENAI_API_KEY']", "token = tokens[0]; key = lambda row: row.id",
        "def login(user: str, password: str) -> Token1: ...", "the key: value pairs, the author: someone",
        "Your password: must hold eight characters", "http://localhost:8080/a@b and http://h.test:443/x",
        "Bearer of good news, basic understanding, token economy", "cookie: yes", "Cookie: theme=dark",
        "the cookie: a small text file", '{"cookies": "none", "cookie_policy": "strict-2025-policy"}',
        "?code=US&state=open", "https://x.test/?t=1763645340&key=created_at&k=20",
        "https://x.test/?t=2025-11-20T10:00:00Z&ticket=INC-2025-000123456789",
        "https://x.test/?key=9e107d9d372bb6826bd81d3542a4196e&t=9E107D9D-372b-6826-bd81-d3542a4196e0",
        "https://deploy-user-2025@host.test/path and ssh://git@github.com/acme/repo.git",
        '["id", "name", "api_key", "created_at_2025"]', '{"required": ["password", "username"]}',
        '{"name": "api_key", "value": "$API_KEY"}', '{"name": "password", "type": "string", "value": null}',
        "Authorization: this is how a request says who it is from",
        '{"thoughtSignature": "EqQJ7gnXGyhQqBAiEHmG9HyCXelUHIUIvURs"}', "primary_key=id_of_row_1234",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays_to_the_byte(text):
    assert stored(text) == text
    assert stored(json.dumps({"text": text})) == json.dumps({"text": text})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("password", "digits"),
        ("DB_PASSWORD_2", "digits"),
        ("apiKey", "strong"),
        ("openai_api_key", "strong"),
        ("private_token", "strong"),
        ("token", "weak"),
        ("sig", "parameter"),
        ("tokenizer", ""),
        ("max_token", ""),
        ("api_key_id", ""),
        ("key", ""),
        ("compass", ""),
        ("page_token", ""),
        ("password_hash", ""),
    ],
)
def test_how_much_a_name_says(name, said):
    assert strength(name) == said


@pytest.mark.parametrize(
    "value",
    [
        *(
            "None", "your-key-here", "xxxxxxxx", "****", "%KEY%", "<token>", "fetch_key()", "a.b", "sk-ant-...",
            "(hidden)",
        ),
        *("sk-proj-********", "not-needed", "lm-studio", "op://vault/item/field", "change-this-in-production"),
    ],
)  # fmt: skip
def test_stand_ins(value):
    assert is_stand_in(value.encode())
    assert not is_stand_in(VALUE.encode())


def test_members_of_a_tools_arguments_go_by_their_names():
    redaction = Redaction(Places({}))
    kept = redaction.call(
        ToolCall("login", {"user": "ada", "password": VALUE, "pin": 123456, "tries": [{"otp": 987654}]})
    )
    assert kept.arguments == {
        "user": "ada",
        "password": "[[redacted:key:1]]",
        "pin": "[[redacted:key:2]]",
        "tries": [{"otp": "[[redacted:key:3]]"}],
    }
    assert redaction.call(ToolCall("say", {"text": f"I used {VALUE}."})).arguments == {
        "text": "I used [[redacted:key:1]]."
    }


def test_what_a_rule_found_once_is_known_in_every_guise_from_then_on():
    redaction = Redaction(Places({}))
    redaction.call(ToolCall("login", {"password": VALUE}))
    assert VALUE.encode().hex() not in redaction.text(f"spelled {VALUE.encode().hex()}")
    assert redaction.leaks(f"<{VALUE}>".encode()) == ("key",)


def test_a_projects_own_names_and_paths():
    policy = Policy(names={"patient": "patient"})
    assert (
        stored('{"patient": "Ada", "doctor": "Bob"}', policy)
        == '{"patient": "[[redacted:patient:1]]", "doctor": "Bob"}'
    )
    assert stored('{"patient": 17}', policy) == '{"patient": "[[redacted:patient:1]]"}'


def test_the_signature_of_a_header_goes_with_all_its_parts():
    line = f"Stripe-Signature: t=1763645340,v1={VALUE}"
    assert stored(line) == "Stripe-Signature: [[redacted:key:1]]"
    assert (
        stored(json.dumps({"Stripe-Signature": line.partition(": ")[2]}))
        == '{"Stripe-Signature": "[[redacted:key:1]]"}'
    )


@pytest.mark.parametrize("key", ["9f86d081884c7d65" + "9a2feaa0c55ad015", "04895722b47d4d79" + "bf17cd89b61c3a62"])
def test_the_key_of_a_dsn_without_a_password(key):
    assert (
        stored(f"SENTRY_DSN=https://{key}@o1.ingest.test/42")
        == "SENTRY_DSN=https://[[redacted:key:1]]@o1.ingest.test/42"
    )


@pytest.mark.parametrize(
    "unit", ["cookie: ", 'cookie="', "cookie,", 'cookie: a="', "://", "://a", "token, ", "token\n"]
)
def test_a_megabyte_of_near_misses_is_read(unit):
    begun = time.perf_counter()
    stored(unit * (1_000_000 // len(unit)))
    assert time.perf_counter() - begun < 60
