"""What is not stored of a request and compared all the same: which credential it sends, and other headers by a digest."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.backends.backend import Moment, Refused
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.matching.credentials import without_lone
from pytest_agentreplay.model.exchanges import BY_CONTENT, EMPTY, Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.providers.rules import is_declared
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction

MATCHING = Matching(READER, RULES)
RECORDED = {"arguments": BY_CONTENT}
ANN, BOB, EVE, CAT = "ann-7f3k9q2mz8w4x1b5", "bob-0p5d6t8hj3n7v2c6", "eve-9e1a7l5fw0o3i6d7", "cat-2b8r4y6cs1g9u3e8"
URL = "https://shop.test/orders"
PLACES = {
    "bearer": lambda token: (URL, (("Authorization", f"Bearer {token}"),), EMPTY),
    "basic": lambda token: (URL, (("authorization", f"Basic {token}"),), EMPTY),
    "no scheme": lambda token: (URL, (("Authorization", token),), EMPTY),
    "key": lambda token: (URL, (("X-Api-Key", token),), EMPTY),
    "any name": lambda token: (URL, (("x-shop-access-token", token),), EMPTY),
    "query": lambda token: (f"{URL}?access_token={token}", (), EMPTY),
    "query by its host": lambda token: (f"https://maps.googleapis.com/?key={token}", (), EMPTY),
    "user info": lambda token: (f"https://shop:{token}@shop.test/orders", (), EMPTY),
    "body": lambda token: (URL, (), Body(json.dumps({"session_token": token}).encode())),
}


class OneRun:
    """The redaction of a run, and its calls as they may be stored."""

    def __init__(self, place, kit=None, variables=None):
        self.place, self.redaction = PLACES[place], Redaction(Places({}), is_declared=is_declared)
        if variables:
            self.redaction.run.placeholders.name(variables)
        if kit is not None:
            self.redaction.run.recall(kit)

    def call(self, token):
        url, headers, body = self.place(token)
        if (url, body) == (URL, EMPTY) and not headers:
            raise AssertionError
        headers = self.redaction.headers.redact_request(headers, url)
        return self.redaction.redact_content(HttpCall("POST", url, headers, body))


def recorded(place, tokens, replies=(), repeats=False):
    run = OneRun(place)
    login = HttpCall("POST", "https://shop.test/login")
    exchanges = [
        Exchange(
            login, run.redaction.redact_outcome(login, HttpReply(200, body=Body(json.dumps(reply).encode()))), n, n + 1
        )
        for n, reply in enumerate(replies, 100)
    ]
    exchanges = [Exchange(x.call, x.outcome, n * 2, n * 2 + 1) for n, x in enumerate(exchanges)]
    for n, token in enumerate(tokens, len(exchanges)):
        call, data = run.call(token), json.dumps({"id": f"chatcmpl-{token}{n}"} if repeats else {}).encode()
        exchanges.append(
            Exchange(call, run.redaction.redact_outcome(call, HttpReply(200, body=Body(data))), n * 2, n * 2 + 1)
        )
    return Run(Header("t", kit={**RECORDED, "redactions": run.redaction.record}), without_lone(exchanges))


def replays(place, run, tokens, **options):
    """Whether each call of now is answered."""
    live = OneRun(place, run.header.kit, **options)
    backend = ReplayBackend(run, MATCHING, READER)
    backend.keep_apart(frozenset(), live.redaction.run.placeholders)
    for x in run.exchanges:
        if x.call.url.endswith("/login"):
            backend.decide(x.call, Moment("main", 0))
    answers = [backend.decide(live.call(token), Moment("main", n)) for n, token in enumerate(tokens)]
    if isinstance(answers[-1], Refused):
        return answers[-1].divergence
    assert not backend.drift
    return True


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("tokens", "now", "same"),
    [
        ((ANN,), (EVE,), True),
        ((ANN, BOB, ANN), (ANN, BOB, ANN), True),
        ((ANN, BOB, ANN), (EVE, CAT, EVE), True),
        ((ANN, BOB), (ANN, ANN), False),
        ((ANN, BOB, ANN), (EVE, CAT, CAT), False),
        ((ANN, ANN), (ANN, BOB), False),
        ((ANN, ANN), (EVE, CAT), False),
    ],
)
def test_the_first_credential_may_be_any_and_equal_ones_stay_equal(place, tokens, now, same):
    found = replays(place, recorded(place, tokens), now)
    assert (found is True) is same
    if not same:
        assert found.kind.code == "AR-REQUEST"
        assert "now (another token)" in found.summary


@pytest.mark.parametrize("place", PLACES)
def test_a_token_of_a_reply_is_told_from_another_one_at_once(place):
    run = recorded(place, [ANN], replies=({"access_token": ANN}, {"access_token": BOB}))
    mine, other = (json.loads(x.outcome.body.data)["access_token"] for x in run.exchanges[:2])
    assert replays(place, run, [mine]) is True
    found = replays(place, run, [other])
    assert found.summary.endswith(f"{mine} recorded, {other} now (another token)")
    where = {"body": "$.session_token", "user info": "url.userinfo"}.get(place)
    assert found.differences[0].path.startswith(where or ("headers." if "query" not in place else "query."))


@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_replies_repeat_is_one_credential_whatever_is_seen_first(place):
    run = recorded(place, [ANN, BOB, BOB, ANN], repeats=True)
    served = [x.outcome.body.data.decode().removeprefix('{"id": "chatcmpl-')[:-3] for x in run.exchanges]
    assert served[0] == served[3] != served[1] == served[2]
    for now in (
        [ANN, BOB, BOB, ANN],
        [EVE, CAT, CAT, EVE],
        [ANN, BOB, served[1], served[0]],
        [ANN, BOB, BOB, served[0]],
    ):
        assert replays(place, run, now) is True
    for now in ([ANN, BOB, ANN], [ANN, BOB, BOB, BOB], [ANN, BOB, served[0]]):
        assert replays(place, run, now) is not True


def test_a_key_of_a_header_is_the_same_credential_in_a_body_and_a_url():
    redaction = Redaction(Places({}))
    header = dict(redaction.headers.redact_request((("X-Api-Key", ANN),)))["X-Api-Key"]
    call = redaction.redact_content(HttpCall("POST", f"{URL}?access_token={ANN}", (), Body(f"as {ANN}".encode())))
    assert (call.url, call.body.data) == (f"{URL}?access_token={header}", f"as {header}".encode())
    kept = without_lone(
        [Exchange(HttpCall("GET", URL, (("X-Api-Key", header),)), HttpReply(204), 0, 1), Exchange(call, None, 2, None)]
    )
    assert kept[0].call.headers == (("X-Api-Key", header),)


@pytest.mark.parametrize("place", PLACES)
def test_two_keys_may_be_one_dummy_and_a_trace_tells_no_keys_apart(place):
    run = recorded(place, [ANN, BOB])
    assert replays(place, run, [EVE, EVE], variables={EVE: "SHOP_KEY"}) is True
    if place != "body":
        for now in ([ANN, "agentreplay-no-key-is-needed"], ["agentreplay-no-key-is-needed", ANN]):
            assert replays(place, recorded(place, [ANN, ANN]), now) is True
    assert replays(place, Run(Header("t"), run.exchanges), [EVE, EVE]) is True


def test_the_only_key_of_a_host_and_what_is_made_anew_are_not_stored():
    for headers in (
        (("authorization", f"Bearer {ANN}"),),
        (("authorization", f"AWS4-HMAC-SHA256 Credential={ANN}/20260101, Signature={BOB}"),),
        (("authorization", f'Digest username="ann", response="{ANN}"'),),
        (("x-hub-signature", ANN),),
        (("cookie", f"theme=dark; id={ANN}"),),
    ):
        redaction = Redaction(Places({}))
        calls = (HttpCall("GET", URL, redaction.headers.redact_request(headers)) for _ in range(2))
        kept = without_lone(Exchange(call, HttpReply(204), n * 2, n * 2 + 1) for n, call in enumerate(calls))
        assert [x.call.headers for x in kept] == [(), ()]


def test_the_only_keys_of_two_headers_are_two_credentials():
    """The metadata service of EC2 takes the lifetime of a token in one header and the token in another."""
    sent = [(("x-api-key", ANN),), (("authorization", f"Bearer {BOB}"),), (("x-api-key", ANN),)]
    now, before = (Redaction(Places({}), is_declared=is_declared) for _ in "12")
    calls = [HttpCall("GET", f"{URL}/{n}", before.headers.redact_request(headers)) for n, headers in enumerate(sent)]
    kept = without_lone(Exchange(call, HttpReply(204), n * 2, n * 2 + 1) for n, call in enumerate(calls))
    backend = ReplayBackend(Run(Header("t", kit=RECORDED), kept), MATCHING, READER)
    backend.keep_apart(frozenset(), now.run.placeholders)
    for n, headers in enumerate(sent):
        answer = backend.decide(HttpCall("GET", f"{URL}/{n}", now.headers.redact_request(headers)), Moment("main", n))
        assert not isinstance(answer, Refused), answer


TENANT = (("X-Tenant", "acme"), ("X-User-Id", "ann"), ("User-Agent", "me/1"), ("traceparent", "00-ab-cd-01"))


def watched(before, now, kit=RECORDED, also=()):
    """The headers that drifted from one request to another; "refused" where that is a divergence."""
    first, second = (Redaction(Places({"tmp": "/tmp/x1"}), is_declared=is_declared) for _ in "12")
    call = HttpCall("GET", URL, first.headers.redact_request(before))
    run = Run(Header("t", kit=kit), (Exchange(call, HttpReply(204), 1, 2),))
    backend = ReplayBackend(run, Matching(READER, RULES, also=also), READER)
    answer = backend.decide(HttpCall("GET", URL, second.headers.redact_request(now)), Moment("main", 0))
    return answer if isinstance(answer, Refused) else [one.path for _, found in backend.drift for one in found]


def test_a_header_that_is_not_stored_is_watched_by_sixteen_bits():
    kept = dict(Redaction(Places({}), is_declared=is_declared).headers.redact_request(TENANT))
    assert kept == {"X-Tenant": "[[digest:" + kept["X-Tenant"][9:13] + "]]", "X-User-Id": kept["X-User-Id"]}
    assert watched(TENANT, TENANT) == []
    assert watched(TENANT, (("X-Tenant", "other"), *TENANT[1:])) == ["headers.x-tenant"]
    assert watched(TENANT, TENANT[1:]) == ["headers.x-tenant"]
    assert watched(TENANT[1:], TENANT) == ["headers.x-tenant"]
    assert watched(TENANT, (*TENANT[:2], ("User-Agent", "me/2"), ("traceparent", "00-ef"))) == []
    assert watched((("X-Folder", "/tmp/x1/a"),), (("X-Folder", "/tmp/x1/a"),)) == []
    assert watched((("Origin", "http://127.0.0.1:8001"),), (("Origin", "http://127.0.0.1:9002"),)) == []
    assert watched(TENANT[2:], TENANT, kit={}) == [], "a trace holds none"


def test_a_header_that_is_declared_to_match_makes_another_call():
    assert watched(TENANT, TENANT, also=["x-tenant"]) == []
    refused = watched(TENANT, (("X-Tenant", "other"), *TENANT[1:]), also=["x-tenant"])
    assert "headers.x-tenant changed" in refused.divergence.summary
    assert watched((("traceparent", "a"),), (("traceparent", "b"),), also=["traceparent"]) == [], (
        "of it nothing is kept"
    )


def test_a_header_that_holds_a_credential_under_another_name_is_left_out():
    redaction = Redaction(Places({}), is_declared=is_declared)
    redaction.learn("key", ANN)
    assert redaction.headers.redact_request((("X-Vendor", f"v1 {ANN}"),)) == ()
