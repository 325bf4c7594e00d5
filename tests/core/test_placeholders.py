from __future__ import annotations

import base64
import json

import pytest

from pytest_agentreplay.core.backends.backend import Moment
from pytest_agentreplay.core.backends.replay import ReplayBackend
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.core.redaction import Redaction
from pytest_agentreplay.core.redaction.placeholders import Placeholders, tag_of, tags_in
from pytest_agentreplay.core.redaction.places import Places
from pytest_agentreplay.core.redaction.policy import Policy
from pytest_agentreplay.dialects import READER

PEOPLE = Policy(pii=True)
MATCHING = Matching(READER)


def b64(data):
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


TOKEN = f"{b64({'alg': 'HS256', 'typ': 'JWT'})}.{b64({'sub': 'ada', 'exp': 1})}.c2ln" + "bmF0dXJlLW9mLWl0"


def asked(text, redaction):
    body = Body(json.dumps({"model": "m", "input": text}).encode())
    return redaction.call(HttpCall("POST", "https://api.openai.com/v1/responses", body=body))


def test_the_same_value_has_the_same_placeholder_whatever_found_it():
    redaction = Redaction(Places({}))
    redaction.learn("key", "7Kdx9Qm2Lp4Tz")
    assert redaction.text("7Kdx9Qm2Lp4Tz") == "[[redacted:key:1]]"
    assert redaction.text('{"password": "7Kdx9Qm2Lp4Tz"}') == '{"password": "[[redacted:key:1]]"}'
    assert redaction.text('{"password": "other9Qm2Lp4"}') == '{"password": "[[redacted:key:2]]"}'


def test_a_token_that_clients_parse_stays_one():
    redaction = Redaction(Places({}))
    kept = redaction.text(f'{{"access_token": "{TOKEN}"}}')
    token = json.loads(kept)["access_token"]
    header, payload, signature = token.split(".")
    assert header == TOKEN.split(".", maxsplit=1)[0]
    assert json.loads(base64.urlsafe_b64decode(payload + "==")) == {"exp": 4102444800}
    base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    assert redaction.text(kept) == kept


def test_basic_credentials_stay_base64():
    redaction = Redaction(Places({}))
    secret = base64.b64encode(b"svc:" + b"MZUivik8iwFEDV").decode()
    kept = redaction.text(f"Authorization: Basic {secret}")
    assert base64.b64decode(kept.rpartition(" ")[2]) == b"redacted:000001"
    assert redaction.text(kept) == kept


def test_an_address_stays_an_address():
    redaction = Redaction(Places({}), policy=PEOPLE)
    kept = redaction.text("mail ada@example.org, bob@example.org and ada@example.org")
    assert kept == "mail user1@redacted.invalid, user2@redacted.invalid and user1@redacted.invalid"
    assert redaction.text(kept) == kept


def test_secrets_match_up_to_renaming_tokens_and_basic_too():
    one, other = Redaction(Places({})), Redaction(Places({}))
    other.text('{"password": "another9Qm2Lp4"}')
    other.text(f"Bearer {TOKEN.replace('bmF0', 'dmF2')}")
    ids = MATCHING.ids
    for here, there in (
        ('password="7Kdx9Qm2Lp4Tz"', 'password="ci9only4711key"'),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN.replace('bmF0', 'cmF1')}"),
    ):
        recorded, now = asked(here, one), asked(there, other)
        assert recorded.body != now.body
        assert MATCHING.key(recorded, ids()) == MATCHING.key(now, ids())


def replayed(recorded, *calls):
    run = Run(Header("t"), tuple(Exchange(call, HttpReply(200), 2 * n, 2 * n + 1) for n, call in enumerate(recorded)))
    backend = ReplayBackend(run, MATCHING, READER)
    return [type(backend.decide(call, Moment("main", n))).__name__ for n, call in enumerate(calls)]


@pytest.mark.parametrize("dummy", ["", "dummy", "test-key", "sk-test", "xxx", "not-set", "None"])
def test_a_dummy_key_or_none_matches_where_the_recording_held_one(dummy):
    recorded = [asked('{"api_key": "7Kdx9Qm2Lp4Tz", "q": 1}', Redaction(Places({})))]
    assert replayed(recorded, asked(f'{{"api_key": "{dummy}", "q": 1}}', Redaction(Places({})))) == ["Replayed"]
    assert replayed(recorded, asked(f'{{"api_key": "{dummy}", "q": 2}}', Redaction(Places({})))) == ["Refused"]


def test_a_secret_that_becomes_known_late_matches_before_it_is():
    recording = Redaction(Places({}))
    early = asked("try 7Kdx9Qm2Lp4Tz", recording)
    recording.learn("key", "7Kdx9Qm2Lp4Tz")
    run = recording.rescan(Run(Header("t"), (Exchange(early, HttpReply(200), 0, 1),)))
    assert b"[[redacted:key:1]]" in run.exchanges[0].call.body.data
    assert replayed([run.exchanges[0].call], asked("try 7Kdx9Qm2Lp4Tz", Redaction(Places({})))) == ["Replayed"]
    assert replayed([run.exchanges[0].call], asked("try again", Redaction(Places({})))) == ["Refused"]


def test_a_word_where_the_recording_held_a_key_is_a_change():
    recorded = [asked('{"password": "7Kdx9Qm2Lp4Tz"} {"password": "7Kdx9Qm2Lp4Tz"}', Redaction(Places({})))]
    for now in (
        '{"password": "hello world"} {"password": "hello world"}',
        '{"password": "test"} {"password": "dummy"}',
    ):
        assert replayed(recorded, asked(now, Redaction(Places({})))) == ["Refused"]


def replaying(recording):
    redaction = Redaction(Places({}), policy=PEOPLE)
    redaction.recall(tags_in({"redactions": recording.record}))
    return redaction


def test_a_replay_knows_the_people_of_its_recording_in_whatever_order_they_come():
    recording = Redaction(Places({}), policy=PEOPLE)
    first, second = asked("I am ada@example.org", recording), asked("I am bob@example.org", recording)
    replay = replaying(recording)
    assert asked("I am bob@example.org", replay).body == second.body
    assert asked("I am ada@example.org", replay).body == first.body


def test_another_person_never_takes_a_recorded_number():
    recording = Redaction(Places({}), policy=PEOPLE)
    recorded = asked("I am ada@example.org", recording)
    for person in ("eve@example.org", "ada@example.com", "Ada@example.org"):
        now = asked(f"I am {person}", replaying(recording))
        assert MATCHING.key(now, MATCHING.ids()) != MATCHING.key(recorded, MATCHING.ids())
        assert b"user2@redacted.invalid" in now.body.data


def test_tags_are_kept_for_people_alone_and_tell_no_value():
    recording = Redaction(Places({}), policy=PEOPLE)
    recording.text('{"password": "7Kdx9Qm2Lp4Tz"} ada@example.org')
    assert recording.record["tags"] == {"email:1": tag_of("email", "ada@example.org")}
    assert len(tag_of("email", "ada@example.org")) == 4
    assert "tags" not in Redaction(Places({})).record


def test_a_projects_own_placeholders_are_fixed_points():
    policy = Policy(names={"customer": "customer"}, placeholders={"customer": "CUST-{n}-X"})
    redaction = Redaction(Places({}), policy=policy)
    kept = redaction.text('{"customer": "Ada Lovelace"}')
    assert kept == '{"customer": "CUST-1-X"}'
    assert redaction.text(kept) == kept


def test_a_reply_and_the_request_that_echoes_it_agree():
    redaction = Redaction(Places({}))
    body = b'{"session": {"api_key": "7Kdx9Qm2Lp4Tz"}}'
    reply = redaction.outcome(
        HttpCall("GET", "https://h.test/"),
        HttpReply(200, headers=(("content-type", "application/json"),), body=Body(body), cuts=(len(body),)),
    )
    assert b"[[redacted:key:1]]" in reply.body.data
    assert b"[[redacted:key:1]]" in asked("use 7Kdx9Qm2Lp4Tz", redaction).body.data


@pytest.mark.parametrize("number", range(1, 12))
def test_no_placeholder_has_a_length_that_base64_has_not(number):
    places = Placeholders()
    for nth in range(number):
        text = places.of("jwt", f"eyJhbGciOiJIUzI1NiJ9.x{nth}.y").decode()
    assert len(text.rpartition(".")[2]) % 4 != 1
    assert places.inside(text.encode()) == [(0, len(text))]
