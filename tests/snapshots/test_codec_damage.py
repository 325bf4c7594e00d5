"""Damaged, newer, foreign and hostile files: one typed error with file and place, never another traceback."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest

from pytest_agentreplay.errors import SnapshotError, SnapshotTooNew, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Exchange, Failure, Header, Run, Timing, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import parsing, seal_digest
from pytest_agentreplay.snapshots.codec import seal as sealing
from pytest_agentreplay.snapshots.codec.journal import JournalWriter, read_journal
from pytest_agentreplay.snapshots.codec.seal_digest import members
from tests.support import exchanges
from tests.support.stored_runs import bodies, post, reply, run_of


def pretty(doc):
    return members(doc) + "\n}\n"


def rich() -> Run:
    """A bit of everything that a file can hold."""
    prompt = "Rules:\n" + "\n".join(f"{n}. look the order up before you refund it" for n in range(9))

    def ask(n, *messages):
        system = {"role": "system", "content": f"{prompt}\nNow: 10:0{n}\nEnd."}
        body = {"messages": [system, *messages], "stop": ["\n"], "seed": 7, "instructions": prompt}
        return exchanges.call(body, "http://a/v1")

    events = "".join(f'data: {{"id":1,"t":"tok{n}"}}\n\n' for n in range(5)) + "data: [DONE]\n\n"
    small = reply(b'{"id":"x","text":"shipped"}', (10, 17), reason="OK", headers=(("Date", "today"),))
    cuts, broken = (20, len(events) - 20), Failure("a.B", "reset", (1,), ("E",))
    asked = {"role": "user", "content": "Where is my order? " * 9}
    told = {"role": "assistant", "content": "On its way. " * 12}
    image = {"role": "user", "content": [{"image": "QUJD" * 1200}]}
    log = "".join(f"line {n} of a log\n" for n in range(40)).encode()
    end, kit = {"status": "passed"}, {"python": "3.11"}
    lookup = ToolCall("lookup", {"id": "A-1", "$x": None}), ToolReply({"rows": [1, 2.5, True]})
    return Run(
        Header("tests/test_a.py::test_b", "2026-11-20T10:00:00Z", 1763632800 * 10**9, 42, end, kit),
        (
            Exchange(ask(1, asked), small, 1, 2, timing=Timing(0, 10**6, 2 * 10**6)),
            Exchange(*lookup, 3, 4, parent=1),
            Exchange(ask(2, asked, told), reply(events.encode(), cuts, failure=broken), 5, 8, suspended=True),
            Exchange(ask(3, asked, told, image), Failure("httpx2.ReadTimeout"), 6, 7, attempt=2),
            Exchange(post(log, "http://b/"), reply(b"\xff\xfe", ()), 9, 10),
            Exchange(post(log + b"more\n", "http://b/"), None, 11, None),
            Exchange(ToolCall("pages"), ToolReply("end", (1, "two"), Failure("a.B"), closed=True), 12, 13, "main.1"),
        ),
    )


TEXT = codec.dumps(rich())


def everything(text: str | bytes) -> codec.Snapshot:
    """Load and read all there is."""
    snapshot = codec.loads(text, file="snap.json")
    assert None not in bodies(snapshot.run)
    return snapshot


def refused(text: str | bytes) -> SnapshotError:
    with pytest.raises(SnapshotError) as caught:
        everything(text)
    error = caught.value
    assert error.file == "snap.json"
    assert str(error).startswith("snap.json")
    assert "\n" not in str(error)
    assert len(str(error)) < 400
    return error


def changed(path: str, value: object) -> str:
    """TEXT with another value at `path`, unsealed."""
    doc = json.loads(TEXT)
    *way, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    at = doc
    for key in way:
        at = at[key]
    if value is KeyError:
        del at[last]
    else:
        at[last] = value
    return pretty(doc)


def resealed(text: str) -> str:
    """`text` under a digest that fits, as a stranger would write it."""
    doc = json.loads(text)
    del doc["integrity"]
    return seal_digest.write_sealed(doc)


def test_the_rich_run_is_fine():
    snapshot = everything(TEXT)
    assert snapshot.run == rich()
    assert (snapshot.version, snapshot.notes, snapshot.sealed, snapshot.revisions) == ("1.0", (), True, ())
    assert snapshot.digest == json.loads(TEXT)["integrity"]["digest"]
    parts = (x.get(side, {}) for x in json.loads(TEXT)["exchanges"] for side in ("request", "response"))
    assert {key for part in parts for key in part.get("body", {})} >= {"json", "events", "text", "base64"}


def begun(rest):
    return f'{{"schemaVersion": "1.0", {rest}'


CONFLICTS = [TEXT.replace(' "header"', f'{mark}\n "header"', 1) for mark in ("<<<<<<< HEAD", "=======")]
DAMAGED = {
    ("", "empty"): [b"", b" \n\n"],
    ("1:1", "byte order mark"): [TEXT.encode("utf-8-sig")],
    ("offset 0", "UTF-16"): [TEXT.encode(name) for name in ("utf-16", "utf-16-le", "utf-32")],
    ("offset", "not UTF-8"): [TEXT.encode().replace(b"shipped", b"shi\xffped")],
    (":", "not JSON"): [TEXT.replace("shipped", "ship\0ped"), TEXT[: len(TEXT) // 2]],
    ("1:1", "git lfs pull"): ["version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n"],
    ("3:1", "unresolved merge conflict"): CONFLICTS,
    ("1:1", "JSON object"): ["[1]", '"x"'],
    ("1:65", "nested too deep"): ["[" * 100_000 + "]" * 100_000],
    ("1:", "nested too deep"): ['{"a":' * 100_000, begun('"header": ' + "[" * 250 + "]" * 250 + "}")],
    ("1:7", "NaN is not a JSON value"): ['{"a": NaN}'],
    ("1:7", "-Infinity is not"): ['{"a": -Infinity}'],
    ("1:7", "no such number"): ['{"a": 1e999999}', '{"a": ' + "1" * 5000 + "}", '{"a": -' + "9" * 4301 + "}"],
    ("2:2", "stands twice"): [begun('"header": {"a": 1,\n "a": 2}}')],
    ("1:26", "stands twice"): [begun('"schemaVersion": "1.0"}')],
    ("1:36", "surrogate"): [begun('"header": "\\ud800"}'), begun('"header": "\\uDC00x"}')],
    ("schemaVersion", "is this a snapshot"): ["{}", *(f'{{"schemaVersion": {it}}}' for it in (1, '"1"', '"1.0.0"'))],
    ("schemaVersion", "there is no format 0.9; this version reads 1.x"): ['{"schemaVersion": "0.9"}'],
    ("exchanges", "must be a list"): ['{"schemaVersion": "1.0"}'],
}


def test_a_damaged_file_is_named_with_its_place():
    for (place, says), texts in DAMAGED.items():
        for error in map(refused, texts):
            assert isinstance(error, SnapshotUnreadable)
            assert place in error.place
            assert says in str(error)


@pytest.mark.parametrize("text", ["", TEXT[:-40], TEXT.replace('"exchanges": [', '"exchanges": [1,', 1)], ids=len)
def test_the_run_of_a_case_is_restored_or_made_again_and_no_recording_writes_it(text):
    with pytest.raises(SnapshotUnreadable) as caught:
        bodies(codec.loads(text, file="cases/a b/run.snapshot.json").run)
    assert str(caught.value).endswith(
        'restore it: git restore "cases/a b/run.snapshot.json", or make the case again with agentreplay case new'
    )


def test_a_reader_that_runs_out_of_stack_says_so(monkeypatch):
    def exhausted(*_):
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(seal_digest, "members", exhausted)
        assert "nested too deep" in str(refused(TEXT.replace("shipped", "lost")))
        patch.undo()
        patch.setattr(sealing, "list_edits", exhausted)
        with pytest.raises(SnapshotUnreadable, match="nested too deep"):
            codec.list_edits(TEXT, file="f")
    monkeypatch.setattr(parsing, "decode", exhausted)
    assert "nested too deep" in str(refused(TEXT))


def test_the_strict_look_is_calm_about_any_text():
    for text in ("]", '{"a": 1}}', '{"a\nb": 1}', "1e", "-", '"\\x"'):
        parsing.strict(text.encode(), "f")


def test_a_newer_major_is_refused_with_what_reads_it():
    error = refused('{"schemaVersion": "2.1", "needs": "frozen-agentreplay >= 3.2"}')
    assert isinstance(error, SnapshotTooNew)
    assert "2.1" in str(error)
    assert "frozen-agentreplay >= 3.2" in str(error)
    assert "pip install --upgrade" in str(error)
    assert "a newer frozen-agentreplay" in str(refused('{"schemaVersion": "2.0"}'))


def test_a_newer_minor_is_read_and_what_is_unknown_is_kept_and_named():
    doc = json.loads(TEXT)
    doc["exchanges"][0]["mood"] = "good"
    rest = {key: doc[key] for key in ("header", "exchanges", "blobs", "volatile", "recording")}
    text = seal_digest.write_sealed({"schemaVersion": "1.7", "weather": "fine", **rest})
    snapshot = everything(text)
    assert snapshot.run == rich()
    assert snapshot.sealed
    assert snapshot.notes == ("written as format 1.7; kept without reading: weather",)
    again = codec.reseal(text.replace("shipped", "lost at sea"), "why", file="snap.json")
    assert json.loads(again)["weather"] == "fine"
    assert b"lost at sea" in everything(again).run.exchanges[0].outcome.body.data


def test_unknown_keys_of_this_version_are_refused_but_not_those_of_the_user():
    doc = json.loads(TEXT)
    assert refused(pretty({"wether": 1, **doc})).place == "wether"
    assert everything(pretty({"x-owner": "me", **doc})).sealed is False
    error = refused(changed("exchanges/1/mood", "good"))
    assert error.place == "exchange 2"
    assert "mood" in str(error)


ITEMS, VERSION = "exchanges/0/request/body/json", "exchanges/2/request/body/json/messages/0/m1.2"
WRONG = {
    "header": [1, KeyError],
    "header/test": [KeyError, 5],
    "recording": [5, [1]],
    "recording/kit": [3],
    "recording/clock": ["now"],
    "recording/recorded": [5, "yesterday"],
    "header/seed": [True],
    "header/outcome": [[]],
    "header/kit": ["x"],
    "exchanges": [{}],
    "exchanges/0": [None],
    "volatile/0": [1, {}],
    "volatile/0/mood": ["good"],
    "volatile/0/headers": [["today"]],
    "volatile/0/order": [1, [1], ["1", 2], [1, 2.5], [2, 1], KeyError],
    "volatile/0/ms": [[1, 2], [None, 1, 2], ["a", 1, 2], {}],
    "volatile/0/ns": [[1, 2, "x"]],
    "volatile/0/request": [5, [1], [10, "00"], KeyError],
    "volatile/0/response": [["x", "0" * 64], [-1, "0" * 64]],
    "volatile/2/cuts": [[1.5], 3],
    "exchanges/0/lane": [3],
    "exchanges/0/attempt": ["2"],
    "volatile/0/suspended": [1],
    "volatile/0/parent": ["x"],
    "exchanges/0/tool": [{"name": "x"}],
    "exchanges/0/result": [{}],
    "exchanges/0/request": [KeyError],
    "exchanges/0/request/method": [KeyError],
    "exchanges/0/request/url": [7],
    "exchanges/0/request/headers": ["x", ["nocolon"], [["a", 1]], {"h1": 5}, {}, ["a: ⟦⟧"], ["a: ⟦call:9⟧"]],
    "exchanges/0/request/body": ["x", {}],
    "exchanges/0/request/body/style": ["q", 3],
    ITEMS: [[]],
    f"{ITEMS}/messages": [[5], ["m9"], ["m1..m999999"], ["x..y"], [{}], [{"bad id": 1}], [{"m1": {"$nomark": 1}}]],
    f"{ITEMS}/messages/0": [{"m1": {"$raw": 1}}],
    f"{ITEMS}/stop": [{"$list": 5}],
    "exchanges/0/response/status": ["200"],
    "exchanges/0/response/failure": [3],
    "exchanges/0/response/closed": ["no"],
    "exchanges/0/response/version": [None],
    "exchanges/1/tool/name": [KeyError],
    "exchanges/1/tool/arguments": [[]],
    "exchanges/1/result/value": [{"$blob": "f" * 64}, {"$utf8": "%%"}, {"$float": "1"}, {"$": 5}],
    "exchanges/1/result/value/rows/0": [{"$text": "x"}, {"$text": [1]}, {"$text": [{"a": 1}]}],
    "exchanges/1/result/value/rows/1": [{"$int": "12"}, {"$int": "0xg"}, {"$pairs": [[1, 2]]}, {"$pairs": [1]}],
    "exchanges/1/result/value/rows/2": [{"$json": "{"}, {"$json": "[" * 5000}, {"$json": 5}],
    "exchanges/6/result/items": [{}],
    "exchanges/3/failure/type": [KeyError],
    "exchanges/3/failure/args": [{}],
    "exchanges/3/failure/bases": [[1]],
    f"{VERSION}/$like": ["m1.2", 5, "m7"],
    f"{VERSION}/edits": [5, [{}], [{"at": ["nowhere", "at all"], "now": 1}], [{"at": ["gone"], "gone": True}]],
    f"{VERSION}/edits/0": [{"at": [0], "now": 1}, {"at": ["content"], "why": 1}, {"at": ["content"], "lines": [5]}],
    "exchanges/2/request/body/json/messages/0": [{"m1": {"again": 1}}],
    "exchanges/2/response/body/events": [[["e9", 1]], [["e1"], []], [5], {}],
    "exchanges/2/response/body/rest": [5],
    "exchanges/2/response/body/templates": [5],
    "exchanges/2/response/body/templates/e1": [{"data": {"$hole": 5}}],
    "exchanges/4/response/body/base64": [5, "!", [1]],
    "blobs": [[]],
    "integrity": ["x"],
    "integrity/form": ["agentreplay-c0"],
    "integrity/revisions": [5, [5]],
}


@pytest.mark.parametrize("path", WRONG)
def test_wrong_types_are_refused_whether_sealed_or_not(path):
    for value in WRONG[path]:
        text = changed(path, value)
        error = refused(text)
        if path.startswith(("exchanges/", "volatile/0/")):
            assert error.place.startswith("exchange") or "/messages" in path
        if path.startswith(("exchanges/", "header/")) or (path == "header" and value is not KeyError):
            refused(resealed(text))


def test_an_item_that_is_missing_and_a_blob_that_is_not_what_its_name_says_are_refused():
    error = refused(changed("exchanges/2/request/body/json/messages/1", "m77"))
    assert error.place == "exchange 3, request"
    assert "m77" in str(error)
    (name,) = json.loads(TEXT)["blobs"]
    for lines in ([], ["QUJD"], "QUJD", [5]):
        assert "blob" in str(refused(resealed(changed(f"blobs/{name}", lines))))


def test_an_exchange_that_was_pasted_a_second_time_is_named():
    doc = json.loads(TEXT)
    doc["exchanges"].insert(2, doc["exchanges"][1])
    assert "number 3 of `exchanges` is a copy of number 2" in str(refused(pretty(doc)))
    doc["volatile"].insert(2, doc["volatile"][1])
    assert "exchanges 2 and 3 both begin at 3" in str(refused(pretty(doc)))


SENT = json.loads(TEXT)["exchanges"][0]["request"]["body"]["json"]["messages"]
LIES = {
    "exchanges/0/response/body/json/text": "lost",
    "exchanges/0/request/body/json/seed": 8,
    "exchanges/0/request/body/json/messages": [*SENT, "m1"],
    "exchanges/4/request/body/text": "other",
}


def test_content_that_does_not_fit_its_sha256_under_a_fitting_seal_is_refused_when_read():
    for path, value in LIES.items():
        text = resealed(changed(path, value))
        if "/request/" in path:
            assert codec.loads(text, file="f").sealed, "nothing but a small reply is restored before it is read"
        error = refused(text)
        assert error.place.startswith(f"exchange {int(path.split('/')[1]) + 1}, ")
        assert "does not come back as it was recorded" in str(error)
    sha256 = json.loads(TEXT)["volatile"][0]["response"][1]
    assert "says that it has" in str(refused(resealed(changed("volatile/0/response", [5, sha256]))))


def test_a_truncated_file_is_refused():
    for at in range(0, len(TEXT), 97):
        refused(TEXT[:at])


def lawful(data: bytes) -> None:
    """The law for any bytes: the run as recorded, a typed error, or an edit that is known to be one."""
    try:
        snapshot = everything(data)
        named = codec.list_edits(data, file="snap.json")
        assert bool(named) is not snapshot.sealed
        assert everything(codec.reseal(data, "so be it", file="snap.json")).sealed
    except SnapshotError:
        return
    assert not snapshot.sealed or snapshot.run == rich()


def test_flipped_bits_never_pass_for_the_recording():
    data = TEXT.encode()
    for number, at in enumerate(range(0, len(data), 61)):
        lawful(data[:at] + bytes([data[at] ^ (1 << number % 8)]) + data[at + 1 :])


def test_bombs_are_refused_before_they_unfold():
    huge = {"m1": "A" * 10**6}
    bomb = changed("exchanges/0/request/body/json/messages", [huge, *["m1"] * 400])
    assert "unfolds" in str(refused(bomb))
    blobs = json.loads(TEXT)["blobs"]
    (name,) = blobs
    refs = [{"$blob": name}] * 70_000
    assert "unfolds" in str(refused(changed("exchanges/1/result/value", refs)))
    rows = changed("exchanges/2/response/body/templates", {"e1": {"data": "A" * 10**6}})
    doc = json.loads(rows)
    doc["exchanges"][2]["response"]["body"]["events"] = [["e1", *[[]] * 400]]
    assert "unfolds" in str(refused(pretty(doc)))


def test_a_long_chain_of_versions_is_restored_without_recursion():
    doc = json.loads(TEXT)
    body = doc["exchanges"][0]["request"]["body"]["json"]
    versions = [{f"x9.{n + 1}": {"$like": f"x9.{n}" if n else "m1", "edits": []}} for n in range(3000)]
    body["messages"] += [*versions, "x9.3000"]
    assert len(everything(pretty(doc)).run.exchanges[0].call.body) > 1_000_000


def test_the_journal_refuses_no_byte():
    journal = JournalWriter()
    data = journal.begin(rich().header) + b"".join(map(journal.exchange, rich().exchanges))
    for at in range(0, len(data), 97):
        run, dropped = read_journal(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert dropped > 0
        assert run is None or run.exchanges == rich().exchanges[: len(run.exchanges)]
        assert 0 <= read_journal(data[:at])[1] <= at


def test_resealing_keeps_the_edit_and_says_why():
    edited = TEXT.replace("shipped", "lost at sea")
    outcome = everything(edited).run.exchanges[0].outcome
    assert list(outcome.chunks()) == [outcome.body.data] == [b'{"id":"x","text":"lost at sea"}'], "it is read as edited"
    text = codec.reseal(edited, "the carrier changed its words", file="f")
    snapshot = everything(text)
    assert snapshot.sealed
    assert snapshot.run.exchanges[0].outcome.body.data == b'{"id":"x","text":"lost at sea"}'
    assert snapshot.run.exchanges[0].outcome.cuts == (31,)
    (revision,) = snapshot.revisions
    digests = {"from": everything(TEXT).digest, "to": snapshot.digest}
    assert revision == {**digests, "reason": "the carrier changed its words"}
    again = codec.reseal(text.replace("lost at sea", "found"), "and again", file="f")
    assert [r["reason"] for r in everything(again).revisions] == ["the carrier changed its words", "and again"]
    changed_lines = [line for line in text.splitlines() if line not in set(TEXT.splitlines())]
    assert len(changed_lines) <= 14, "a reseal is a short diff"
    assert codec.reseal(text, "nothing", file="f") == text


def test_resealing_an_edited_message_brings_every_request_that_resends_it_up_to_date():
    edited = TEXT.replace("Where is my order? Where", "Where is my horse? Where", 1)
    run = everything(codec.reseal(edited, "why not", file="f")).run
    assert [b"my horse?" in run.exchanges[n].call.body.data for n in (0, 2, 3)] == [True, True, True]


def test_errors_never_show_what_the_file_holds_at_length():
    secret = "s" * 5000
    for path in ("volatile/0/order", "exchanges/1/result/value", "integrity/form", "schemaVersion"):
        assert len(str(refused(changed(path, {f"${secret}": secret})))) < 400
    assert not re.search(secret, str(refused(changed("exchanges/0/" + "k" * 5000, 1))))


def test_a_file_is_read_in_less_than_three_times_its_size_beside_it():
    text = "".join(f"{n} parcels went to the warehouse, and one was lost.\n" for n in range(30_000)).encode()
    data = codec.dumps(run_of((post(), reply(text)))).encode()
    tracemalloc.start()
    try:
        codec.loads(data, file="f")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(data)


SAMPLE = Path(__file__).parent / "samples" / "v1.0.snapshot.json"


@pytest.mark.parametrize("junk", [None, 7, "x", [7], {"x": 7}])
def test_junk_in_the_place_of_any_key_is_refused_or_noted_as_edited(junk):
    whole = json.loads(SAMPLE.read_text(encoding="utf-8"))
    for key in whole:
        document = whole | {key: junk}
        refused = None
        try:
            snapshot = codec.loads(json.dumps(document), file="v1.0")
        except SnapshotError as error:
            refused = error
        assert refused.file == "v1.0" if refused else not snapshot.sealed or document == whole
