"""`agentreplay scan PATH...`: what the rules find in any file; by file, place and category, never the value."""

import json
import os

import pytest

from pytest_agentreplay import cli, codec
from pytest_agentreplay.case_files import file_scan as scanning
from pytest_agentreplay.core.model import Exchange, Header, Run, ToolCall, ToolReply

CLEAN, FOUND, USAGE, NOTHING = 0, 1, 2, 5
CUSTOMER = "CUST-123456"
POLICY = 'schemaVersion: "1.0"\npatterns: [{category: customer, regex: "CUST-[0-9]{6}"}]\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "agentreplay-policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(capsys, *words):
    """The exit code, what was found as (file, place, category), and what was skipped."""
    code = cli.main(["scan", *map(str, words), "--json"])
    said = capsys.readouterr()
    assert CUSTOMER not in said.out + said.err
    told = json.loads(said.out)
    return code, [(row["file"], row["place"], row["category"]) for row in told["found"]], told["skipped"]


def test_text_by_line_and_column(root, capsys):
    (root / "data" / "a.txt").write_text(f"é one\ntwo é {CUSTOMER}, {CUSTOMER}\n\n  {CUSTOMER}", encoding="utf-8")
    code, found, skipped = scan(capsys, "data")
    assert code == FOUND
    assert found == [("data/a.txt", place, "customer") for place in ("2:7", "2:20", "4:3")]
    assert skipped == []


def test_as_people_read_it(root, capsys):
    (root / "data" / "a.log").write_text(f"x\n{CUSTOMER}", encoding="utf-8")
    assert cli.main(["scan", "data"]) == FOUND
    said = capsys.readouterr().out
    assert said.splitlines() == ["data/a.log:2:1: customer", "1 found in 1 file"]


def test_snapshots_by_exchange_and_field(root, capsys):
    run = Run(Header("t.py::test"), (Exchange(ToolCall("t", {"who": [CUSTOMER]}), ToolReply("fine"), 1, 2),))
    (root / "data" / "a.snapshot.json").write_text(codec.dumps(run), encoding="utf-8")
    assert scan(capsys, "data")[:2] == (
        FOUND,
        [("data/a.snapshot.json", "exchange 1, request: arguments.who[0]", "customer")],
    )


def test_a_damaged_snapshot_is_a_text(root, capsys):
    (root / "data" / "a.snapshot.json").write_text(f'{{"broken": "{CUSTOMER}', encoding="utf-8")
    assert scan(capsys, "data")[1] == [("data/a.snapshot.json", "1:13", "customer")]


def test_secrets_of_the_environment(root, capsys, monkeypatch):
    value = "pepper-and-salt-77"
    monkeypatch.setenv("SHOP_PASSWORD", value)
    (root / "data" / "a.txt").write_text(f"it is {value}", encoding="utf-8")
    code = cli.main(["scan", "data"])
    said = capsys.readouterr().out
    assert code == FOUND
    assert "data/a.txt:1:7:" in said
    assert value not in said


def test_clean(root, capsys):
    (root / "data" / "a.txt").write_text("nobody", encoding="utf-8")
    assert scan(capsys, "data") == (CLEAN, [], [])


def test_placeholders_are_clean(root, capsys):
    (root / "data" / "a.txt").write_text("[[redacted:customer:1]]", encoding="utf-8")
    assert scan(capsys, "data")[0] == CLEAN


def test_a_policy_beside_the_projects_own(root, capsys):
    (root / "data" / "a.txt").write_text(f"{CUSTOMER} ORD-7", encoding="utf-8")
    (root / "more.yaml").write_text(
        POLICY.replace("CUST-[0-9]{6}", "ORD-[0-9]{1,4}").replace("customer", "order"), "utf-8"
    )
    found = scan(capsys, "data", "--policy", "more.yaml")[1]
    assert [category for _, _, category in found] == ["customer", "order"]


def test_what_is_no_text_too_large_or_a_link_is_told_and_left(root, capsys, monkeypatch):
    monkeypatch.setattr(scanning, "LARGEST", 1000)
    (root / "data" / "a.bin").write_bytes(b"\0" + CUSTOMER.encode())
    (root / "data" / "b.txt").write_text(CUSTOMER * 100, encoding="utf-8")
    (root / "data" / "c.txt").symlink_to(root / "agentreplay-policy.yaml")
    (root / "data" / "d.txt").write_text("fine", encoding="utf-8")
    code, found, skipped = scan(capsys, "data")
    assert (code, found) == (CLEAN, [])
    assert [row["file"].rpartition("/")[2] for row in skipped] == ["a.bin", "b.txt", "c.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_does_not_hang(root, capsys):
    os.mkfifo(root / "data" / "pipe")
    assert scan(capsys, "data")[0] == NOTHING


def test_folders_of_other_tools_are_left(root, capsys):
    for folder in (".git", "node_modules", ".pytest_agentreplay"):
        (root / "data" / folder).mkdir()
        (root / "data" / folder / "a.txt").write_text(CUSTOMER, encoding="utf-8")
    assert [file for file, _, _ in scan(capsys, "data")[1]] == ["data/.pytest_agentreplay/a.txt"]


@pytest.mark.parametrize("words", [["empty"], ["missing.txt"]])
def test_nothing_to_scan(root, words, capsys):
    (root / "empty").mkdir()
    assert cli.main(["scan", *words]) == NOTHING


def test_a_policy_that_cannot_be_read_is_usage(root, capsys):
    (root / "agentreplay-policy.yaml").write_text("pii: true", encoding="utf-8")
    assert cli.main(["scan", "data"]) == USAGE
    assert "agentreplay-policy.yaml:1:1" in capsys.readouterr().err


def test_names_of_files_cannot_act_on_the_terminal(root, capsys):
    (root / "data" / "a\x1b[31m.txt").write_text(CUSTOMER, encoding="utf-8")
    assert cli.main(["scan", "data"]) == FOUND
    assert "\x1b" not in capsys.readouterr().out
