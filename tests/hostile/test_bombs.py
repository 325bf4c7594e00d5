"""Small files that ask for much: each is refused soon, and in little memory."""

import json
import sys

import pytest
from hostile_rows import in_child, refused
from making import changed

from pytest_agentreplay.snapshots.codec import journal, parsing
from pytest_agentreplay.snapshots.codec.styles import LARGEST

pytestmark = pytest.mark.process
DOUBLINGS = 40


def with_body(content, number=1):
    def change(doc):
        body = {"size": 5, "sha256": "0" * 64, **content}
        doc["exchanges"][0]["request"]["body"] = body
        doc["exchanges"] = doc["exchanges"][:number]

    return changed(change)


def messages(*held):
    return with_body({"json": {"messages": [*held]}})


def likes():
    for n in range(2, DOUBLINGS):
        yield {f"m{n}": {"$like": f"m{n - 1}", "edits": [{"at": [], "lines": [[0, 10**9], [0, 10**9]]}]}}


EDITS = [{"at": [7], "now": 1}] * 100_000
TEMPLATE = {"e1": {"data": {"a": "x" * 100_000, "b": {"$hole": 0}}}}
BOMBS = {
    "likes of empty lines": lambda: messages({"m1": "\n" * 8}, *likes(), f"m{DOUBLINGS - 1}"),
    "runs of short items": lambda: messages(*({f"m{n}": 0} for n in range(1, 1001)), *["m1..m1000"] * 50_000),
    "a run without end": lambda: messages({"m1": 0}, "m1..m999999999"),
    "a run without end of newest": lambda: messages({"m1": 0}, "m1..m999999999~"),
    "edits of a long list": lambda: messages({"m1": [0] * 100_000}, {"m2": {"$like": "m1", "edits": EDITS}}),
    "indents": lambda: with_body({"style": "i8", "json": {"input": nested(40, [0] * 500_000)}}),
    "rows of a large template": lambda: with_body({"templates": TEMPLATE, "events": [["e1", *"x" * 100_000]]}),
    "a file of brackets": lambda: "[" + "[]," * 1_500_000 + "[]]",
    "a file of openings": lambda: "[" * 30_000_000,
    "backslashes": lambda: '"' + "\\" * 20_000_000,
}
HEAVIEST = {"a file of brackets", "a file of openings", "a run without end", "likes of empty lines"}


def nested(levels, value):
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.skipif(sys.platform == "win32", reason="the growth of a process is asked for as POSIX has it")
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_cannot_ask_for_much(name, tmp_path):
    text = BOMBS[name]()
    refused(text)
    if name in HEAVIEST:
        file = tmp_path / "one.snapshot.json"
        file.write_text(text, encoding="utf-8")
        statement = (
            "text = Path(sys.argv[1]).read_bytes(); before = now()\n"
            "try:\n"
            "    for x in codec.loads(text, file='f').run.exchanges: getattr(x.call, 'body', b'') and x.call.body.data\n"
            "except SnapshotError as error: print(error)"
        )
        assert "f: " in in_child(statement, file, ""), "nor for memory"


def test_a_journal_cannot_unfold_without_end():
    records = [journal.write_record({"header": {"test": "t.py::t"}})]
    for n in range(DOUBLINGS):
        body = {"parts": [[0, 10**12], [0, 10**12]] if n else ["xx"]}
        request = {"method": "GET", "url": "http://x/", "body": body}
        records.append(journal.write_record({"exchange": {"order": [2 * n, None], "request": request}}))
    run, torn = journal.read_journal(b"".join(records))
    assert torn
    assert sum(len(x.call.body) for x in run.exchanges) <= 8 * LARGEST


STRINGS = ['"]}"', '"\\\\"', '"\\"]"', '"' + "\\\\" * 7 + '\\""', '"' + "x" * (1 << 20) + ']\\\\"']


def test_depth_is_counted_outside_of_strings():
    for levels in (parsing.DEEPEST - 1, parsing.DEEPEST):
        for inside in STRINGS:
            text = "[" * levels + inside + ", 1" + "]" * levels
            json.loads(text)
            assert parsing.explain_excess(text.encode()) == ""
            assert parsing.explain_excess(f"[{inside}, {'[' * parsing.DEEPEST}".encode()) == "nested too deep"
