"""What is shown: no `repr` tells what a value holds, and halves of a shortened secret are hidden with it."""

from pathlib import Path

import pytest

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.gateway.routes import Routes
from pytest_agentreplay.intercept.http.stdlib import PendingRequest
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.model.exchanges import (
    Body,
    Closed,
    Exchange,
    Failure,
    Frame,
    FrameCall,
    FramesReply,
    Header,
    HttpCall,
    HttpReply,
    RawCall,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.redaction.encodings import secret_guises
from pytest_agentreplay.redaction.known import Known, SearchedText
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import make_shapes
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.runs.run_session import Location

SECRET = "s3cret-of-a-test-0815-4711"
HEADERS = ((SECRET, SECRET),)
BODY = Body(SECRET.encode())
FAILURE = Failure("x.E", SECRET, (SECRET,))
HTTP = HttpCall("POST", f"https://u:{SECRET}@h/", HEADERS, BODY)


def knowing():
    redaction = Redaction(Places({"tmp": f"/{SECRET}"}))
    redaction.learn("key", SECRET)
    return redaction


@pytest.mark.parametrize(
    "value",
    [
        BODY,
        HTTP,
        ToolCall("t", {SECRET: SECRET}, facts={"a": SECRET}),
        FrameCall(f"wss://h/{SECRET}", headers=HEADERS, body=BODY),
        FAILURE,
        HttpReply(200, SECRET, headers=HEADERS, body=BODY, failure=FAILURE),
        ToolReply(SECRET, (SECRET,), FAILURE),
        Frame(SECRET.encode()),
        Closed(1, SECRET),
        FramesReply.from_frames([Frame(SECRET.encode())], headers=HEADERS, failure=FAILURE),
        Exchange(HTTP, FAILURE, 0, 1),
        Header(SECRET, outcome={"message": SECRET}, kit={"a": SECRET}),
        Run(Header(SECRET), (Exchange(HTTP, FAILURE, 0, 1),)),
        Location("t", Path("p"), Path("r"), {"home": SECRET}, {"KEY": SECRET}),
        Routes({"a": SECRET}, {"b": SECRET}),
        PendingRequest(None, (SECRET.encode(),), held_back=[SECRET.encode()]),
        SearchedText(SECRET.encode(), [], 0),
        secret_guises(SECRET),
        knowing(),
        knowing().run.secrets.secrets,
        Known(),
        list(make_shapes({"a": lambda text: [(0, len(text))]})[0].find(SECRET.encode())),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_tells_nothing(value):
    for shown in (repr(value), str(value), f"{value!r:>5}"):
        assert SECRET not in shown
        assert SECRET.encode().hex()[:12] not in shown


HALVES = {
    "'s3cret-of-a...0815-4711'": "'[[redacted:key:1]]'", "'s3cret-of...'": "'[[redacted:key:1]]'",
    "'...test-0815-4711'": "'[[redacted:key:1]]'", f"{SECRET}... and so on": "[[redacted:key:1]]... and so on",
    "s3cret... 4711": "s3cret... 4711", "wait ... for it...": "wait ... for it...",
    "s3cret-of-a...4711 s3cret-of-b...0815-4711": "[[redacted:key:1]]4711 s3cret-of-b[[redacted:key:1]]",
}  # fmt: skip


def test_halves_of_a_shortened_secret_are_hidden():
    assert {text: knowing().hide(text) for text in HALVES} == HALVES


def test_what_is_shown_loses_what_is_known_and_keys_alone():
    key = "sk-" + "ant-api03-" + "aB3" * 31 + "AA"
    text = f"{SECRET} {key} token=abcdefghijkl /{SECRET[:3]}"
    assert knowing().hide(text).split()[2:] == ["token=abcdefghijkl", f"/{SECRET[:3]}"]
    assert SECRET not in knowing().hide(text)
    assert key not in knowing().hide(text)


def test_a_call_that_comes_too_late_is_told_without_its_secret():
    interception = Interception(None, knowing())
    interception.end()
    with pytest.raises(ReplayDiverged) as caught:
        interception.enter(RawCall(HttpCall("GET", f"https://h/{SECRET}")))
    assert "refused: GET h/[[redacted:key:1]] was called" in str(caught.value)
    assert interception.ending.late[0].startswith("GET h/[[redacted:key:1]]   called from")
