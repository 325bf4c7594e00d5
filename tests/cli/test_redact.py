"""`agentreplay redact FILE...`: today's rules on snapshots that are there; whole or not at all, once, and sealed."""

import json

import pytest

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, layout

DONE, FOUND, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
CUSTOMER, OTHER = "CUST-123456", "CUST-654321"
POLICY = 'schemaVersion: "1.0"\npatterns: [{category: customer, regex: "CUST-[0-9]{6}"}]\n'
UNDER = ("--policy", "p.yaml")


def run_of(test, say):
    answer = json.dumps({"text": f"you are {say}, not {OTHER}"}).encode()
    kind = (("content-type", "application/json"), ("content-length", str(len(answer))))
    call = HttpCall("POST", f"http://h/v1?who={say}", kind[:1], Body(json.dumps({"messages": [say]}).encode()))
    reply = HttpReply(200, headers=kind, body=Body(answer), cuts=(5, len(answer) - 5))
    tool = Exchange(ToolCall("t", {"who": say}), ToolReply([say]), 3, 4)
    return Run(Header(test, seed=7), (Exchange(call, reply, 1, 2), tool))


def put(root, name="a", say=CUSTOMER):
    test = f"tests/test_{name}.py::test_{name}"
    file = layout.snapshot_path(root, test.partition("::")[0], test)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(codec.dumps(run_of(test, say)), encoding="utf-8")
    return file


def read(file):
    return codec.loads(file.read_bytes(), file=str(file))


@pytest.fixture
def root(root):
    (root / "p.yaml").write_text(POLICY, encoding="utf-8")
    return root


def test_it_redacts_everywhere_and_seals_with_the_reason_and_twice_is_once(root, typed):
    file = put(root)
    before = read(file)
    would = typed("redact", file, *UNDER, "--dry-run")
    assert (would.code, read(file) == before) == (FOUND, True)
    assert ": customer\n" in would.out
    told = typed("redact", file, *UNDER, "--reason", f"{CUSTOMER} asked")
    assert (told.code, "customer" in told.out, OTHER in told.out, CUSTOMER in told.out) == (DONE, True, False, False)
    text = file.read_text(encoding="utf-8")
    assert (CUSTOMER in text, OTHER in text) == (False, False), "not in the reason, either"
    after = read(file)
    assert after.sealed
    reason = "[[redacted:customer:1]] asked"
    ((seen, said),) = [(one["from"], one["reason"]) for one in after.revisions]
    assert (seen, said, after.revisions[0]["to"]) == (before.digest, reason, after.digest)
    http, tool = after.run.exchanges
    assert http.outcome.body.data == b'{"text": "you are [[redacted:customer:1]], not [[redacted:customer:2]]"}'
    assert sum(http.outcome.cuts) == len(http.outcome.body.data)
    assert dict(http.outcome.headers)["content-length"] == str(len(http.outcome.body.data))
    assert tool.call.arguments == {"who": "[[redacted:customer:1]]"}, "the same value has the same placeholder"
    assert [x.start for x in after.run.exchanges] == [x.start for x in before.run.exchanges]
    record = after.run.header.kit["redactions"]
    assert (record["placeholders"]["customer"] >= 5, len(record["policy"])) == (True, 64)
    again = typed("redact", file, *UNDER)
    assert (again.code, "0 of 1 snapshot" in again.out) == (NOTHING, True)
    assert file.read_text(encoding="utf-8") == text


def test_numbers_go_on_where_the_recording_stopped(root, typed):
    """A new value must not be taken for the one that had the number already."""
    file = put(root, say=f"{CUSTOMER} and [[redacted:customer:3]]")
    assert typed("redact", file, *UNDER).code == DONE
    call = read(file).run.exchanges[1].call
    assert call.arguments == {"who": "[[redacted:customer:4]] and [[redacted:customer:3]]"}


def test_a_folder_is_all_its_snapshots_and_pending_runs(root, typed):
    kept = [put(root, "a"), put(root, "b")]
    pending = layout.pending_path(root, kept[0])
    pending.parent.mkdir(parents=True)
    pending.write_bytes(kept[0].read_bytes())
    clean = put(root, "c")
    clean.write_text(codec.dumps(Run(Header("tests/test_c.py::test_c"), ())), encoding="utf-8")
    before = clean.read_bytes()
    assert "3 of 4 snapshots redacted" in typed("redact", ".", *UNDER).out
    assert all(CUSTOMER not in file.read_text("utf-8") for file in (*kept, pending))
    assert clean.read_bytes() == before


def test_the_rules_are_those_of_the_project_of_its_ini_file_and_the_shipped_ones(root, typed, monkeypatch):
    key = "tok-" + "one-two-three-41"[::-1]
    monkeypatch.setenv("SHOP_API_KEY", key)
    file = put(root, say=key)
    assert (typed("redact", file).code, key in file.read_text("utf-8")) == (DONE, False)
    (root / "pytest.ini").write_text("[pytest]\nagentreplay_redact =\n    p.yaml\n", encoding="utf-8")
    file = put(root)
    assert (typed("redact", file).code, CUSTOMER in file.read_text("utf-8")) == (DONE, False)
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (root / "p.yaml").rename(root / "agentreplay-policy.yaml")
    file = put(root)
    assert (typed("redact", file).code, CUSTOMER in file.read_text("utf-8")) == (DONE, False)


def test_a_file_of_another_project_is_redacted_by_the_policy_of_that_one_too(root, typed, monkeypatch):
    file = put(root)
    (root / "p.yaml").rename(root / "agentreplay-policy.yaml")
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert (typed("redact", file).code, CUSTOMER in file.read_text("utf-8")) == (DONE, False)


def test_all_or_none(root, typed, monkeypatch):
    both = [put(root, "a"), put(root, "b")]
    before = [file.read_bytes() for file in both]
    write, count = files.write_unsynced, []

    def full(path, text):
        count.append(path)
        if len(count) == 2:
            raise CannotWrite(f"{path}: no space left on device")
        write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_unsynced", full)
        assert typed("redact", ".", *UNDER).code == USAGE
    assert [file.read_bytes() for file in both] == before
    text = both[0].read_text("utf-8").replace("tests/test_a.py::test_a", "tests/test_a.py::test_x")
    both[0].write_text(text, "utf-8")
    refused = typed("redact", ".", *UNDER)
    assert (refused.code, "agentreplay verify" in refused.err) == (DAMAGED, True)
    assert (both[0].read_text("utf-8"), both[1].read_bytes()) == (text, before[1])


def test_what_is_no_snapshot_is_a_line_and_an_empty_folder_nothing(root, typed):
    for name in ("nothing", "p.yaml"):
        told = typed("redact", name)
        assert (told.code, len(told.err.splitlines())) == (USAGE, 1)
    (root / "empty").mkdir()
    assert typed("redact", "empty").code == NOTHING
