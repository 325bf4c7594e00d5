"""Providers of other packages: read as ours are, and left out by name when they fail."""

from __future__ import annotations

import json
import sys

import pytest

from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers import READER, encode, find_dialect, others
from tests.support.exchanges import JSON_TYPE, SSE_TYPE, call, reply, sse
from tests.support.installed_packages import install_package

MODULE = """
from pytest_agentreplay.plugins import CallReading, Dialect, ReplyReading, ToolUse, make_reading, read_request

def fits(body): return "turns" in body
def read_call(body, url): return read_request(body, model=body["engine"], messages_in="turns", region=url.host)
def read_reply(body): return make_reading(body, [ToolUse("c", "look", body["with"])], text=body["text"], finish=["done"])
def join(events): return {"text": "".join(event.value["text"] for event in events), "with": {}}

ACME = Dialect("acme", "/talk", "acme", fits, read_call, read_reply, join)
NONE, PATTERN, TAKEN = 3, ACME._replace(path="("), ACME._replace(name="gemini")
NO_READING = ACME._replace(read_call=lambda body, url: body)
NO_FIELD = ACME._replace(read_call=lambda body, url: CallReading("model", "m", messages=None))
NO_REPLY = ACME._replace(read_reply=lambda body: ReplyReading(text=None))
NO_FIT = ACME._replace(fits=lambda body: body["x"])
GREEDY = ACME._replace(path="/chat/completions", fits=lambda body: True)
"""
TALK = {"engine": "acme-2", "turns": [{"role": "user", "content": "hi"}], "heat": 1}
URL = "https://api.acme.example/v1/talk"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with providers among those that are installed."""

    def install(**entries):
        install_package(tmp_path, "acme_model", MODULE, "agentreplay.providers", entries)
        forget()

    def forget():
        others.load_dialects.cache_clear()
        others._reported.clear()
        sys.modules.pop("acme_model", None)

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    forget()


def test_a_provider_of_another_package_is_read(installed):
    installed(acme="ACME")
    reading = READER.read_call(call(TALK, URL))
    assert (reading.kind, reading.dialect, reading.provider, reading.model) == ("model", "acme", "acme", "acme-2")
    assert (reading.messages, reading.messages_at) == (tuple(TALK["turns"]), "$.turns")
    assert reading.parameters == {"engine": "acme-2", "heat": 1}
    plain = READER.read_reply(call(TALK, URL), reply({"id": "t-1", "text": "Hello", "with": {}}))
    assert (plain.text, plain.tool_uses, plain.ids) == ("Hello", (ToolUse("c", "look", {}),), ("t-1", "c"))
    stream = reply(sse({"text": "Hel"}, {"text": "lo"}), SSE_TYPE)
    assert READER.read_reply(call(TALK, URL), stream).text == "Hello"
    assert (
        READER.read_reply(call(TALK, URL), reply({"error": "no", "text": "", "with": {}}, JSON_TYPE, 500)).error
        == "500 no"
    )


def test_it_has_a_name_and_cannot_be_written(installed):
    installed(acme="ACME")
    assert find_dialect("acme").path == "/talk"
    assert encode.reply(call(TALK, URL), {"role": "assistant", "parts": []}) is None
    with pytest.raises(KeyError):
        encode.request("acme", model="m", messages=[])


def test_it_takes_no_call_of_ours(installed):
    installed(greedy="GREEDY")
    chat = {"model": "m", "messages": []}
    assert READER.read_call(call(chat)).dialect == "openai_chat"
    assert READER.read_call(call({"engine": "m"})).dialect == "acme", "which is none of ours by its shape"


@pytest.mark.parametrize("name", ["NOT_THERE", "NONE", "PATTERN", "TAKEN"])
def test_one_that_cannot_be_loaded_is_left_out(installed, name):
    installed(broken=name, acme="ACME")
    with pytest.warns(
        UserWarning, match="the provider broken of the package acme-model (cannot be loaded|is left out)"
    ):
        assert READER.read_call(call(TALK, URL)).dialect == "acme"


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("ACME", {"turns": []}, "KeyError in acme_model.py, line 5"),
        ("NO_READING", TALK, "TypeError: it returned dict, no CallReading"),
        ("NO_FIELD", TALK, "TypeError: messages is NoneType, not tuple"),
        ("NO_FIT", TALK, "KeyError in acme_model.py, line "),
    ],
)
def test_a_call_that_it_fails_to_read_is_one_of_nobody(installed, name, body, reason):
    installed(acme=name)
    message = (
        rf"the provider acme of the package acme-model failed, and what it failed to read is read as unknown: {reason}"
    )
    with pytest.warns(UserWarning, match=message) as warned:
        readings = [READER.read_call(call(body, URL)) for _ in range(2)]
    assert len(warned) == 1
    for reading in readings:
        assert (reading.kind, reading.dialect, reading.name) == ("http", "generic", "POST api.acme.example/v1/talk")
    assert json.loads(READER.read_reply(call(body, URL), reply({"text": "Hello"})).text) == {"text": "Hello"}


@pytest.mark.parametrize(("name", "answer"), [("ACME", {"text": "Hello"}), ("NO_REPLY", {"text": "Hello"})])
def test_a_reply_that_it_fails_to_read_is_one_of_nobody(installed, name, answer):
    installed(acme=name)
    with pytest.warns(UserWarning, match="the provider acme of the package acme-model failed"):
        assert json.loads(READER.read_reply(call(TALK, URL), reply(answer)).text) == answer


def test_a_failure_is_no_exception_under_w_error_and_no_print_in_a_captured_service(installed, monkeypatch, capsys):
    noted = []
    monkeypatch.setattr(others, "note_fault", noted.append)
    installed(acme="ACME")
    assert READER.read_call(call({"turns": []}, URL)).dialect == "generic"
    assert [type(error) for error in noted] == [KeyError]
    assert capsys.readouterr() == ("", "")
