from __future__ import annotations

import json
import logging
import uuid

import pytest

from pytest_agentreplay.model.exchanges import Body, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.runs.capture.keeping import Keeper
from pytest_agentreplay.runs.capture.sealing import Sealer
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store.run_store import RunStore
from tests.support.ended_captures import CALLS, answer, ask, end

KEY = "sk-proj-" + "Zq8vT3mK1xWc7RbN5yLs0PdE9uHf2GjA6iQo4XnVtYwB"
VARIABLE = "Hk3-plan-b-Kp92-mzQ7"
MAIL = "ada.lovelace@mail.example.org"


def seal(ended, **options):
    sealed = Sealer(**options).seal(ended, "failed")
    return sealed, codec.loads(sealed.text, file="").run


def plant(text):
    """A run that has `text` in each place that a run has."""
    event = b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n'
    parts = [event % part.encode() for part in (text[:7], text[7:15], text[15:])] + [b"data: [DONE]\n\n"]
    stream = HttpReply(
        200, headers=(("content-type", "text/event-stream"),), body=Body(b"".join(parts)), cuts=(*map(len, parts),)
    )
    calls = (
        (
            ask("hello", headers=(("authorization", f"Bearer {text}"), ("x-note", text))),
            answer("hi", **{"set-cookie": f"s={text}"}),
        ),
        (ask(f"my key is {text}"), answer(f"your key is {text}")),
        (ask("again", stream=True), stream),
        (
            ToolCall("login", {"token": text, "deep": {"a": [json.dumps({"password": text})]}}),
            ToolReply({"said": f"ok {text}"}),
        ),
    )
    return end(
        f"id-{text}",
        f"name {text}",
        calls=calls,
        failure=f"no such key: {text}",
        input={"arguments": {"key": text}},
        output=[text],
        annotations={"user": text, text: 1},
        cold=f"a fault: {text}",
    )


@pytest.mark.parametrize("secret", [KEY, VARIABLE, MAIL])
def test_a_secret_reaches_no_place_of_the_store_and_no_log(tmp_path, caplog, capfd, monkeypatch, secret):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SHOP_API_KEY", VARIABLE)
    keeper = Keeper(tmp_path / "runs", keep="all", service=f"shop {secret}", version=secret)
    ended = plant(secret)
    assert secret not in repr(ended)
    keeper.take(ended)
    keeper.take(end("plain"))
    keeper.keep("plain", f"because {secret}")
    keeper.close(10)
    assert keeper.stats()["kept"] == 2, caplog.text
    assert keeper.stats()["refused"] == 0
    everything = [path.relative_to(tmp_path).as_posix().encode() for path in tmp_path.rglob("*")]
    everything += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    everything += [caplog.text.encode(), *map(str.encode, capfd.readouterr())]
    for form in (secret, secret[3:20], secret.encode().hex(), json.dumps(secret)[1:-1]):
        assert not [text for text in everything if form.encode() in text]
    store = RunStore(tmp_path / "runs")
    assert all(
        "[[redacted:" in store.read_run(entry).decode() for entry in store.list_runs() if entry.head["id"] != "plain"
    )


def test_a_value_that_is_learnt_late_goes_from_what_came_before(tmp_path):
    word = "correct-horse-battery-Staple9"
    calls = (
        (ask(f"use {word} please"), answer("ok")),
        (ask("x", headers=(("authorization", f"Bearer {word}"),)), answer("ok")),
    )
    sealed, run = seal(end(f"run-{word}", calls=calls))
    assert word not in sealed.text
    assert word not in sealed.id
    assert "[[redacted:" in json.loads(run.exchanges[0].call.body.data)["messages"][0]["content"]


def test_people_are_redacted_unless_a_policy_file_says_what_is(tmp_path):
    ended = end(input={"mail": MAIL, "order": "ORD-1234567"})
    assert MAIL not in seal(ended)[0].text
    (tmp_path / "policy.yaml").write_text(
        "schemaVersion: '1.0'\npatterns:\n  - {category: order, regex: 'ORD-[0-9]{7}'}\n", encoding="utf-8"
    )
    text = seal(ended, policy=tmp_path / "policy.yaml")[0].text
    assert (MAIL in text, "ORD-1234567" in text) == (True, False)


def test_what_the_last_scan_refuses_is_cut_out_and_the_rest_is_cold(tmp_path, monkeypatch, caplog):
    from pytest_agentreplay.redaction.text_search import TextSearch

    monkeypatch.setattr(TextSearch, "leaks", lambda self, data: ("canary",) if b"CANARY" in data else ())
    keeper = Keeper(tmp_path, keep="all")
    keeper.take(end("a", calls=(*CALLS, (ask("CANARY"), answer("ok")))))
    keeper.take(end("CANARY"))
    keeper.close(10)
    assert {"kept": 1, "refused": 2, "dropped": 0}.items() <= keeper.stats().items()
    [entry] = RunStore(tmp_path).list_runs()
    assert entry.head["cold"] == "what the last scan refused of it was cut out"
    text = RunStore(tmp_path).read_run(entry).decode()
    assert "CANARY" not in text
    assert len(codec.loads(text, file="").run.exchanges) == 4
    assert len(caplog.records) == 1
    assert "canary" in caplog.text


def test_the_head_ends_in_its_bytes_however_long_all_else_is():
    word = "größe\n\x1b[1m \\ " * 40
    calls = tuple((ToolCall(f"{'a very long name of a tool ' * 4}{n}", {}), ToolReply(None)) for n in range(200))
    plain = end(input={"q": "x " * 50_000}, output="y" * 100_000, annotations={"a" * 1_000: "z"}, failure="no " * 5_000)
    hostile = end(word, word, calls=calls, failure=word, cold=word, input={"q": word})
    for ended in (plain, hostile):
        sealed, run = seal(ended, service=word, version=word)
        head = codec.read_head(sealed.text.encode()[: codec.HEAD], file="")["capture"]
        assert head == run.header.kit["capture"]
        assert head["outcome"]["status"] == run.header.outcome["status"] == "failed"
        assert next(iter(run.header.kit)) == "capture"
        assert "\x1b" not in json.dumps(head, ensure_ascii=False)
    assert seal(plain)[1].header.outcome["message"] == "no " * 5_000
    assert len(head["tools"]) == 5
    assert head["calls"] == 200


def test_what_is_kept_is_what_a_recording_keeps(tmp_path):
    ended = end(
        input={"arguments": {"question": "where?"}},
        output="It is shipped.",
        annotations={"tenant": "acme"},
        kit={"trace": {"trace_id": "1"}},
    )
    sealed, run = seal(ended, service="shop", version="1.2")
    assert (sealed.name, sealed.day, sealed.id, run.header.test) == ("refund", "2026-11-28", "a1", "refund/a1")
    kit = run.header.kit
    assert kit["capture"] == {
        "id": "a1",
        "name": "refund",
        "service": "shop",
        "version": "1.2",
        "reason": "failed",
        "outcome": {"status": "passed"},
        "models": ["gpt-5"],
        "tools": ["lookup_order"],
        "turns": 2,
        "calls": 3,
        "length": 1_000,
    }
    assert (kit["input"], kit["output"]) == ({"arguments": {"question": "where?"}}, "It is shipped.")
    assert (kit["annotations"], kit["trace"], kit["clock"]) == ({"tenant": "acme"}, {"trace_id": "1"}, {"mode": "real"})
    assert kit["models"] == [{"model": "gpt-5", "provider": "openai"}]
    assert [x.call for x in run.exchanges] == [call for call, _ in CALLS]
    assert [x.outcome for x in run.exchanges] == [reply for _, reply in CALLS]


def test_ids_and_names_stay_as_they_are():
    for text in (
        *(str(uuid.UUID(int=n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)) for n in range(30)),
        "01J9ZK3M7Q4X8V2B6N5T1R0WYC",
        "req_011CTy8d2kq",
    ):
        redaction_id = seal(end(text, text.replace("-", ""), calls=()))[0]
        assert (redaction_id.id, redaction_id.name) == (text, text.replace("-", ""))
