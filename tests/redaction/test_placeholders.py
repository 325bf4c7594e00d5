from __future__ import annotations

import base64
import gzip
import hashlib
import json

import pytest

from pytest_agentreplay.backends.backend import Moment
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.providers import READER
from pytest_agentreplay.redaction.placeholders import Placeholders, claims_in, tag_of
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.redaction.redaction import Redaction

PEOPLE = Policy(pii=True)
CODED = (("content-encoding", "snappy"),)
MATCHING = Matching(READER)
KEY = "7Kdx9Qm2" + "Lp4Tz"


def b64(data):
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


TOKEN = f"{b64({'alg': 'HS256', 'typ': 'JWT'})}.{b64({'sub': 'ada', 'exp': 1})}.c2ln" + "bmF0dXJlLW9mLWl0"


def fresh(**options):
    return Redaction(Places({}), **options)


def asked(text, redaction=None):
    body = Body(json.dumps({"model": "m", "input": text}).encode())
    return (redaction or fresh()).redact_content(HttpCall("POST", "https://api.openai.com/v1/responses", body=body))


def test_the_same_value_has_the_same_placeholder_whatever_found_it():
    redaction = fresh()
    redaction.learn("key", KEY)
    assert redaction.redact_text(KEY) == "[[redacted:key:1]]"
    assert redaction.redact_text(f'{{"password": "{KEY}"}}') == '{"password": "[[redacted:key:1]]"}'
    assert redaction.redact_text('{"password": "other9Qm2Lp4"}') == '{"password": "[[redacted:key:2]]"}'
    redaction, body = fresh(), f'{{"session": {{"api_key": "{KEY}"}}}}'.encode()
    reply = HttpReply(200, headers=(("content-type", "application/json"),), body=Body(body), cuts=(len(body),))
    reply = redaction.redact_outcome(HttpCall("GET", "https://h.test/"), reply)
    assert b"[[redacted:key:1]]" in reply.body.data
    assert b"[[redacted:key:1]]" in asked(f"use {KEY}", redaction).body.data, "the request that echoes a reply agrees"


def test_what_programs_parse_stays_of_its_form_and_is_no_further_secret():
    kept = fresh().redact_text(f'{{"access_token": "{TOKEN}"}}')
    header, payload, signature = json.loads(kept)["access_token"].split(".")
    assert header == TOKEN.split(".", maxsplit=1)[0]
    assert json.loads(base64.urlsafe_b64decode(payload + "==")) == {"exp": 4102444800}
    base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    basic = fresh().redact_text(f"Authorization: Basic {base64.b64encode(b'svc:' + b'MZUivik8iwFEDV').decode()}")
    assert base64.b64decode(basic.rpartition(" ")[2]) == b"redacted:000001"
    mails = fresh(policy=PEOPLE).redact_text("mail ada@example.org, bob@example.org and ada@example.org")
    assert mails == "mail user1@redacted.invalid, user2@redacted.invalid and user1@redacted.invalid"
    own = Policy(names={"customer": "customer"}, placeholders={"customer": "CUST-{n}-X"})
    customer = fresh(policy=own).redact_text('{"customer": "Ada Lovelace"}')
    assert customer == '{"customer": "CUST-1-X"}'
    for text, policy in ((kept, None), (basic, None), (mails, PEOPLE), (customer, own)):
        assert fresh(policy=policy or Policy()).redact_text(text) == text


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_policy_keeps_claims_of_a_token_redacted_as_other_values_and_the_rest_is_noted_by_name():
    claims = {"sub": "ann", "exp": 1763000000, "roles": ["a", "b"], "mail": "ada@example.org", "iat": 1762000000}
    token = f"{part({'alg': 'HS256'})}.{part(claims)}.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
    redaction = fresh(policy=Policy(pii=True, keep_claims=frozenset({"sub", "roles", "mail", "exp", "tid"})))
    kept = redaction.redact_text(f"got {token}. Next")
    payload = kept.split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))) == {
        "exp": 4102444800, "sub": "ann", "roles": ["a", "b"], "mail": "user1@redacted.invalid",
    }  # fmt: skip
    assert redaction.redact_text(kept) == kept
    assert redaction.text.leaks(kept.encode()) == ()
    record = redaction.record
    assert (record["claims"], record["kept_claims"]) == ({"jwt:1": ["iat"]}, {"mail": 1, "roles": 1, "sub": 1})
    assert claims_in({"redactions": record}, kept) == {"iat": "jwt:1"}
    for encrypted in (
        f"{part({'alg': 'dir'})}..AAAAAAAAAAAA.BBBBBBBBBBBB.CCCCCCCCCCCC",
        f"{part({'alg': 'x'})}.eyJub3QgSlNPTg.y",
    ):
        assert ".redacted-jwt-1" in fresh(policy=Policy(keep_claims=frozenset({"sub"}))).redact_text(encrypted)


def test_no_placeholder_of_a_token_has_a_length_that_base64_has_not():
    places = Placeholders()
    for number in range(11):
        text = places.get_placeholder("jwt", f"eyJhbGciOiJIUzI1NiJ9.x{number}.y").decode()
        assert len(text.rpartition(".")[2]) % 4 != 1
        assert places.inside(text.encode()) == [(0, len(text))]


def test_secrets_match_up_to_renaming_tokens_and_basic_too():
    one, other = fresh(), fresh()
    other.redact_text('{"password": "another9Qm2Lp4"}')
    other.redact_text(f"Bearer {TOKEN.replace('bmF0', 'dmF2')}")
    ids = MATCHING.ids
    for here, there in (
        (f'password="{KEY}"', 'password="ci9only4711key"'),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN.replace('bmF0', 'cmF1')}"),
    ):
        recorded, now = asked(here, one), asked(there, other)
        assert recorded.body != now.body
        assert MATCHING.key(recorded, ids()) == MATCHING.key(now, ids())


def replayed(recorded, now):
    backend = ReplayBackend(Run(Header("t"), (Exchange(recorded, HttpReply(200), 0, 1),)), MATCHING, READER)
    return type(backend.decide(now, Moment("main", 0))).__name__ == "Replayed"


@pytest.mark.parametrize("dummy", ["", "dummy", "test-key", "sk-test", "xxx", "not-set", "None"])
def test_a_dummy_key_or_none_matches_where_the_recording_held_one(dummy):
    recorded = asked(f'{{"api_key": "{KEY}", "q": 1}}')
    assert replayed(recorded, asked(f'{{"api_key": "{dummy}", "q": 1}}'))
    assert not replayed(recorded, asked(f'{{"api_key": "{dummy}", "q": 2}}'))


def test_a_secret_that_becomes_known_late_matches_before_it_is_and_a_word_in_its_place_does_not():
    recording = fresh()
    early = asked(f"try {KEY}", recording)
    recording.learn("key", KEY)
    (x,) = recording.rescan(Run(Header("t"), (Exchange(early, HttpReply(200), 0, 1),))).exchanges
    assert b"[[redacted:key:1]]" in x.call.body.data
    assert replayed(x.call, asked(f"try {KEY}"))
    assert not replayed(x.call, asked("try again"))
    two = '{{"password": "{}"}} {{"password": "{}"}}'
    for now in (("hello world", "hello world"), ("test", "dummy")):
        assert not replayed(asked(two.format(KEY, KEY)), asked(two.format(*now)))


def replaying(recording):
    redaction = fresh(policy=PEOPLE)
    redaction.run.recall({"redactions": recording.record})
    return redaction


def test_a_replay_knows_the_people_of_its_recording_and_another_person_never_takes_a_recorded_number():
    recording = fresh(policy=PEOPLE)
    first, second = (asked(f"I am {name}@example.org", recording) for name in ("ada", "bob"))
    replay = replaying(recording)
    assert asked("I am bob@example.org", replay).body == second.body, "in whatever order they come"
    assert asked("I am ada@example.org", replay).body == first.body
    recording = fresh(policy=PEOPLE)
    recorded = asked("I am ada@example.org", recording)
    for person in ("eve@example.org", "ada@example.com", "Ada@example.org"):
        now = asked(f"I am {person}", replaying(recording))
        assert MATCHING.key(now, MATCHING.ids()) != MATCHING.key(recorded, MATCHING.ids())
        assert b"user2@redacted.invalid" in now.body.data


def put(data, coding="snappy", redaction=None):
    headers = (("content-encoding", coding), ("content-type", "application/json"))
    redaction = redaction or fresh()
    kept = redaction.headers.redact_request(headers)
    return redaction.redact_content(HttpCall("PUT", "https://files.test/report", headers=kept, body=Body(data)))


def backend(recording, *calls):
    exchanges = (Exchange(call, HttpReply(204), n * 2, n * 2 + 1) for n, call in enumerate(calls))
    kit = {"redactions": recording.record}
    return ReplayBackend(Run(Header("t", kit=kit), tuple(exchanges)), Matching(READER), READER)


def served(replay, *calls):
    return [hasattr(replay.decide(call, Moment(lane="main", at=0, attempt=1)), "exchange") for call in calls]


PACKED = gzip.compress(b"green", mtime=0)
OPAQUE = {"snappy": b"green", "x-encrypted": b"green", "gzip": b"green", "gzip, snappy": PACKED, "gzip, gzip": PACKED}


@pytest.mark.parametrize("coding", OPAQUE)
def test_a_body_that_cannot_be_read_is_told_from_every_other_one_by_its_digest(coding):
    data = OPAQUE[coding]
    recording = fresh()
    answer = recording.redact_outcome(
        HttpCall("GET", "https://files.test/a"), HttpReply(200, headers=CODED, body=Body(b"a"))
    )
    call = put(data, coding, recording)
    assert call.body.data == b"[[redacted:opaque:2]]"
    assert answer.body.data == b"[[redacted:opaque:1]]"
    assert recording.record["tags"]["opaque:2"] == hashlib.sha256(data).hexdigest()
    for now, same in ((data, True), (data + b"r", False)):
        replay = fresh()
        replay.run.recall({"redactions": recording.record})
        assert served(backend(recording, call), put(now, coding, replay)) == [same]


def test_tags_are_kept_for_people_alone_and_tell_no_value():
    recording = fresh(policy=PEOPLE)
    recording.redact_text(f'{{"password": "{KEY}"}} ada@example.org')
    assert recording.record["tags"] == {"email:1": tag_of("email", "ada@example.org")}
    assert len(tag_of("email", "ada@example.org")) == 4
    assert "tags" not in fresh().record
