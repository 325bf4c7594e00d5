"""`agentreplay check audit`: what it reports and its exit codes, what a second audit reads, rules without a reason."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.snapshots import codec

SAME, FLAGGED, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
HERE = "tests/__agent_snapshots__/test_a"
URL = "https://api.openai.com/v1/chat/completions"
JSON = (("content-type", "application/json"),)
IGNORES = "agentreplay_ignore =\n    $.metadata.tenant = one for each desk\n    $.user = whoever asks\n"


def ask(number, says, **fields):
    """An exchange whose reply has an id and a date of its own."""
    body = {"model": "m", "messages": [{"role": "user", "content": "What is the limit?"}], **fields}
    message = {"role": "assistant", "content": says}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    reply = {"id": f"chatcmpl-{number}", "created": number, "choices": [choice], "usage": {"total_tokens": number}}
    call = HttpCall("POST", URL, JSON, Body(json.dumps(body).encode()))
    answer = HttpReply(200, "OK", headers=JSON, body=Body(json.dumps(reply).encode()))
    return Exchange(call, answer, 2 * number + 1, 2 * number + 2)


def tenant_run(says, count=12):
    asks = []
    for number in range(count):
        tenant = ("acme", "globex")[number % 2]
        asks.append(ask(number, says(number, tenant), metadata={"tenant": tenant}, user=f"u{number // 2 % 3}"))
    return asks


def put(root, name, exchanges):
    folder = root / HERE
    folder.mkdir(parents=True, exist_ok=True)
    text = codec.dumps(Run(Header(f"tests/test_a.py::{name}"), tuple(exchanges)))
    (folder / f"{name}.snapshot.json").write_text(text, encoding="utf-8", newline="")


@pytest.fixture
def ignoring(root):
    (root / "pytest.ini").write_text(f"[pytest]\n{IGNORES}", encoding="utf-8")
    return root


def test_an_ignored_tenant_that_decides_on_the_replies_of_several_snapshots_is_flagged(ignoring, typed):
    for name in ("test_one", "test_two"):
        put(ignoring, name, tenant_run(lambda _, tenant: f"limit of {tenant}"))
    told = typed("check", "audit")
    assert (told.code, told.err) == (FLAGGED, "")
    assert "flagged: $.metadata.tenant separates the replies to calls that are otherwise the same\n" in told.out
    assert "purity 1.00, p = 0.002 (limit 0.025), 24 calls\n  values: acme (12), globex (12)\n" in told.out
    assert "to compare it, take out of agentreplay_ignore: $.metadata.tenant = one for each desk\n" in told.out
    assert "$.user separates" not in told.out
    assert "hidden by rule http body $.user (reason: whoever asks)" in told.out
    data = json.loads(typed("check", "audit", "--json").out)
    assert {row["path"]: row["verdict"] for row in data["separators"]} == {
        "$.metadata.tenant": "flagged",
        "$.user": "noise",
    }
    assert data["seen"] == data["tried"] - sum(data["hidden"].values()) > 0


def test_sampling_noise_and_few_calls_do_not_fail_an_audit(ignoring, typed):
    put(ignoring, "test_noise", tenant_run(lambda number, _: f"words {number * 7 % 5}", 24))
    told = typed("check", "audit")
    assert (told.code, "separates" in told.out) == (SAME, False)
    put(ignoring, "test_noise", tenant_run(lambda _, tenant: tenant, 4))
    told = typed("check", "audit", HERE)
    assert (told.code, "suspect: $.metadata.tenant separates" in told.out) == (SAME, True)


def test_an_accepted_rule_is_named_with_what_takes_it_back(root, typed):
    put(root, "test_one", tenant_run(lambda _, tenant: tenant, 24))
    assert typed("check", "audit").code == SAME, "calls with other tenants are other calls"
    typed("accept", "--rule", "$.metadata=set by the desk")
    told = typed("check", "audit")
    assert (told.code, "unchanged" in told.out) == (FLAGGED, False), "under other rules all is read again"
    assert "to compare it, take out of agentreplay-rules.json: $.metadata\n" in told.out


def test_a_second_audit_reads_only_what_has_changed(ignoring, typed, monkeypatch):
    for name in ("test_one", "test_two"):
        put(ignoring, name, tenant_run(lambda number, _: f"words {number % 5}"))
    first = typed("check", "audit")
    assert first.out.startswith("2 snapshots\n")
    read = []
    loads = codec.loads
    monkeypatch.setattr(codec, "loads", lambda data, file: read.append(file) or loads(data, file=file))
    again = typed("check", "audit")
    assert (again.code, read) == (first.code, [])
    assert again.out == first.out.replace("2 snapshots", "2 snapshots, 2 unchanged since an earlier audit")
    put(ignoring, "test_two", tenant_run(lambda *_: "other words", 2))
    assert typed("check", "audit", HERE).code == SAME
    assert read == [f"{HERE}/test_two.snapshot.json"]
    (ignoring / HERE / "test_two.snapshot.json").unlink()
    (ignoring / ".pytest_agentreplay" / "audit.json").write_text("{", encoding="utf-8")
    assert typed("check", "audit").code == SAME
    assert read[1:] == [f"{HERE}/test_one.snapshot.json"], "what is kept and damaged is made anew"


def test_a_change_that_is_hidden_without_a_rule_fails_and_is_named_with_its_file(root, typed, monkeypatch):
    put(root, "test_one", [ask(1, "hi", user="ann")])
    text = Matching.text
    overlooking = lambda *given: text(*given).replace('"user":"ann~"', '"user":"ann"')  # noqa: E731
    monkeypatch.setattr(Matching, "text", overlooking)
    for told in (typed("check", "audit"), typed("check", "audit")):
        assert told.code == FLAGGED
        assert f"{HERE}/test_one.snapshot.json: $.user: changed: the key does not show it, and no rule" in told.out


def test_damaged_missing_and_no_snapshots(root, typed):
    assert typed("check", "audit") == (NOTHING, "", "agentreplay: there is no *.snapshot.json below .\n")
    told = typed("check", "audit", "nowhere")
    assert (told.code, told.err) == (USAGE, "agentreplay: there is no nowhere\n")
    put(root, "test_one", [ask(1, "hi")])
    (root / HERE / "test_two.snapshot.json").write_text("{", encoding="utf-8")
    told = typed("check", "audit")
    assert (told.code, f"{HERE}/test_two.snapshot.json" in told.err) == (DAMAGED, True)
    assert told.out.startswith("1 snapshot\nkey sensitivity ")
    assert "hidden" not in told.out


def test_a_rule_without_a_reason_is_refused_by_every_verb_that_reads_it(root, typed):
    put(root, "test_one", [ask(1, "hi")])
    (root / "pytest.ini").write_text("[pytest]\nagentreplay_ignore =\n    $.user\n", encoding="utf-8")
    why = "agentreplay: pytest.ini: agentreplay_ignore: say why $.user may differ: $.user = the reason\n"
    assert typed("check", "audit") == typed("check", "audit", "--rules") == (USAGE, "", why)
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (root / "agentreplay-rules.json").write_text('[{"path": "$.user", "reason": " "}]', encoding="utf-8")
    told = typed("check", "audit")
    assert (told.code, "no reason; give a few words" in told.err) == (USAGE, True)
