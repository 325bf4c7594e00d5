"""`agentreplay redact --dry-run PATH...`: what the rules find in any file; by file, place and category, never the value."""

import json
import os

import pytest

from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.runs.case_files import case_linting as scanning
from pytest_agentreplay.snapshots import codec

CLEAN, FOUND, USAGE, NOTHING = 0, 1, 2, 5
CUSTOMER = "CUST-123456"
POLICY = 'schemaVersion: "1.0"\npatterns: [{category: customer, regex: "CUST-[0-9]{6}"}]\n'
SNAPSHOT = codec.dumps(
    Run(Header("t.py::test"), (Exchange(ToolCall("t", {"who": [CUSTOMER]}), ToolReply("fine"), 1, 2),))
)


@pytest.fixture
def data(root):
    """A folder of a project that has a policy of its own."""
    (root / "agentreplay-policy.yaml").write_text(POLICY, encoding="utf-8")
    (root / "data").mkdir()
    return root / "data"


@pytest.fixture
def scan(typed):
    """Gives the exit code, what was found as (file, place, category), and what was skipped."""

    def run(*words):
        said = typed("redact", "--dry-run", *words, "--json")
        assert CUSTOMER not in said.out + said.err
        told = json.loads(said.out)
        return said.code, [(row["file"], row["place"], row["category"]) for row in told["found"]], told["skipped"]

    return run


FILES = {
    "text": ("a.txt", f"é one\ntwo é {CUSTOMER}, {CUSTOMER}\n\n  {CUSTOMER}", ["2:7", "2:20", "4:3"]),
    "a snapshot": ("a.snapshot.json", SNAPSHOT, ["exchange 1, request: arguments.who[0]"]),
    "a damaged one": ("a.snapshot.json", f'{{"broken": "{CUSTOMER}', ["1:13"]),
    "nothing": ("a.txt", "nobody", []),
    "a placeholder": ("a.txt", "[[redacted:customer:1]]", []),
}


@pytest.mark.parametrize("kind", FILES)
def test_what_is_found_is_told_by_its_place(data, scan, kind):
    name, text, places = FILES[kind]
    (data / name).write_text(text, encoding="utf-8")
    found = [(f"data/{name}", place, "customer") for place in places]
    assert scan("data") == (FOUND if found else CLEAN, found, [])


def test_it_is_told_as_people_read_it_secrets_of_the_environment_too(data, typed, monkeypatch):
    (data / "a.log").write_text(f"x\n{CUSTOMER}", encoding="utf-8")
    assert typed("redact", "--dry-run", "data")[:2] == (FOUND, "data/a.log:2:1: customer\n1 found in 1 file\n")
    (data / "a.log").rename(data / "a\x1b[31m.txt")
    assert "\x1b" not in typed("redact", "--dry-run", "data").out
    value = "pepper-and-salt-77"
    monkeypatch.setenv("SHOP_PASSWORD", value)
    (data / "b.txt").write_text(f"it is {value}", encoding="utf-8")
    told = typed("redact", "--dry-run", "data/b.txt")
    assert (told.code, "data/b.txt:1:7:" in told.out, value in told.out) == (FOUND, True, False)


def test_a_policy_beside_the_projects_own_and_one_that_cannot_be_read(data, scan, typed):
    (data / "a.txt").write_text(f"{CUSTOMER} ORD-7", encoding="utf-8")
    more = POLICY.replace("CUST-[0-9]{6}", "ORD-[0-9]{1,4}").replace("customer", "order")
    (data.parent / "more.yaml").write_text(more, "utf-8")
    found = scan("data", "--policy", "more.yaml")[1]
    assert [category for _, _, category in found] == ["customer", "order"]
    (data.parent / "agentreplay-policy.yaml").write_text("pii: true", encoding="utf-8")
    told = typed("redact", "--dry-run", "data")
    assert (told.code, "agentreplay-policy.yaml:1:1" in told.err) == (USAGE, True)


def test_what_is_no_text_too_large_or_a_link_is_told_and_left(data, scan, monkeypatch):
    monkeypatch.setattr(scanning, "LARGEST", 1000)
    (data / "a.bin").write_bytes(b"\0" + CUSTOMER.encode())
    (data / "b.txt").write_text(CUSTOMER * 100, encoding="utf-8")
    (data / "c.txt").symlink_to(data.parent / "agentreplay-policy.yaml")
    (data / "d.txt").write_text("fine", encoding="utf-8")
    code, found, skipped = scan("data")
    assert (code, found) == (CLEAN, [])
    assert [row["file"].rpartition("/")[2] for row in skipped] == ["a.bin", "b.txt", "c.txt"]


def test_folders_of_other_tools_are_left(data, scan):
    for folder in (".git", "node_modules", ".pytest_agentreplay"):
        (data / folder).mkdir()
        (data / folder / "a.txt").write_text(CUSTOMER, encoding="utf-8")
    assert [file for file, _, _ in scan("data")[1]] == ["data/.pytest_agentreplay/a.txt"]


def test_where_there_is_nothing_to_scan_a_pipe_does_not_hang(data, typed):
    if hasattr(os, "mkfifo"):
        os.mkfifo(data / "pipe")
    for name in ("data", "missing.txt"):
        assert typed("redact", "--dry-run", name).code == NOTHING
