"""`agentreplay redact FILE...`: today's rules on snapshots that are there; whole or not at all, once, and sealed."""

import json

import pytest

from pytest_agentreplay import cli, codec
from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.store import files, layout

DONE, USAGE, DAMAGED, NOTHING = 0, 2, 4, 5
CUSTOMER, OTHER = "CUST-123456", "CUST-654321"
POLICY = 'schemaVersion: "1.0"\npatterns: [{category: customer, regex: "CUST-[0-9]{6}"}]\n'
PLAIN = {"test": "tests/test_a.py::test_a", "seed": 7}


def run_of(test="tests/test_a.py::test_a", say=CUSTOMER, kit=None):
    answer = json.dumps({"text": f"you are {say}, not {OTHER}"}).encode()
    kind = (("content-type", "application/json"), ("content-length", str(len(answer))))
    call = HttpCall("POST", f"http://h/v1?who={say}", kind[:1], Body(json.dumps({"messages": [say]}).encode()))
    reply = HttpReply(200, headers=kind, body=Body(answer), cuts=(5, len(answer) - 5))
    tool = Exchange(ToolCall("t", {"who": say}), ToolReply([say]), 3, 4)
    return Run(Header(test, seed=7, kit=kit or {}), (Exchange(call, reply, 1, 2), tool))


def put(root, name="a", **said):
    file = layout.snapshot_path(root, f"tests/test_{name}.py", f"tests/test_{name}.py::test_{name}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(codec.dumps(run_of(f"tests/test_{name}.py::test_{name}", **said)), encoding="utf-8")
    return file


def read(file):
    return codec.loads(file.read_bytes(), file=str(file))


@pytest.fixture
def root(tmp_path, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "p.yaml").write_text(POLICY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_redacts_everywhere_and_seals_with_the_reason(root, capsys):
    file = put(root)
    before = read(file)
    assert cli.main(["redact", str(file), "--policy", "p.yaml", "--reason", "customers asked"]) == DONE
    text = file.read_text(encoding="utf-8")
    assert CUSTOMER not in text
    assert OTHER not in text
    after = read(file)
    assert after.sealed
    assert [(one["from"], one["reason"]) for one in after.revisions] == [(before.digest, "customers asked")]
    assert after.revisions[0]["to"] == after.digest
    http, tool = after.run.exchanges
    assert http.outcome.body.data == b'{"text": "you are [[redacted:customer:1]], not [[redacted:customer:2]]"}'
    assert sum(http.outcome.cuts) == len(http.outcome.body.data)
    assert dict(http.outcome.headers)["content-length"] == str(len(http.outcome.body.data))
    assert tool.call.arguments == {"who": "[[redacted:customer:1]]"}, "the same value has the same placeholder"
    assert [x.start for x in after.run.exchanges] == [x.start for x in before.run.exchanges]
    record = after.run.header.kit["redactions"]
    assert record["placeholders"]["customer"] >= 5
    assert len(record["policy"]) == 64
    said = capsys.readouterr().out
    assert "customer" in said
    assert CUSTOMER not in said


def test_twice_is_once(root, capsys):
    file = put(root)
    assert cli.main(["redact", str(file), "--policy", "p.yaml"]) == DONE
    once = file.read_bytes()
    assert cli.main(["redact", str(file), "--policy", "p.yaml"]) == NOTHING
    assert file.read_bytes() == once
    assert "0 of 1 snapshot" in capsys.readouterr().out


def test_a_dry_run_only_tells(root, capsys):
    file = put(root)
    before = file.read_bytes()
    assert cli.main(["redact", str(file), "--policy", "p.yaml", "--dry-run"]) == DONE
    assert file.read_bytes() == before
    assert "1 of 1 snapshot would be redacted" in capsys.readouterr().out


def test_numbers_go_on_where_the_recording_stopped(root):
    """A new value must not be taken for the one that had the number already."""
    file = put(root, say=f"{CUSTOMER} and [[redacted:customer:3]]")
    assert cli.main(["redact", str(file), "--policy", "p.yaml"]) == DONE
    call = read(file).run.exchanges[1].call
    assert call.arguments == {"who": "[[redacted:customer:4]] and [[redacted:customer:3]]"}


def test_a_folder_is_all_its_snapshots_and_pending_runs(root, capsys):
    kept = [put(root, "a"), put(root, "b")]
    pending = layout.pending_path(root, kept[0])
    pending.parent.mkdir(parents=True)
    pending.write_bytes(kept[0].read_bytes())
    clean = put(root, "c", say="nobody")
    clean.write_text(codec.dumps(Run(Header("tests/test_c.py::test_c"), ())), encoding="utf-8")
    before = clean.read_bytes()
    assert cli.main(["redact", ".", "--policy", "p.yaml"]) == DONE
    assert "3 of 4 snapshots redacted" in capsys.readouterr().out
    assert all(CUSTOMER not in file.read_text("utf-8") for file in (*kept, pending))
    assert clean.read_bytes() == before


def test_the_projects_own_policy_counts_without_being_named(root):
    (root / "p.yaml").rename(root / "agentreplay-policy.yaml")
    file = put(root)
    assert cli.main(["redact", str(file)]) == DONE
    assert CUSTOMER not in file.read_text("utf-8")


def test_the_ini_counts_too(root):
    (root / "pytest.ini").write_text("[pytest]\nagentreplay_redact =\n    p.yaml\n", encoding="utf-8")
    file = put(root)
    assert cli.main(["redact", str(file)]) == DONE


def test_shipped_rules_need_no_policy(root, monkeypatch):
    key = "tok-" + "one-two-three-41"[::-1]
    monkeypatch.setenv("SHOP_API_KEY", key)
    file = put(root, say=key)
    assert cli.main(["redact", str(file)]) == DONE
    assert key not in file.read_text("utf-8")


def test_all_or_none(root, monkeypatch):
    both = [put(root, "a"), put(root, "b")]
    before = [file.read_bytes() for file in both]
    write, count = files.write_whole, []

    def full(path, text):
        count.append(path)
        if len(count) == 2:
            raise CannotWrite(f"{path}: no space left on device")
        write(path, text)

    monkeypatch.setattr(files, "write_whole", full)
    assert cli.main(["redact", ".", "--policy", "p.yaml"]) == USAGE
    assert [file.read_bytes() for file in both] == before


def test_an_edited_snapshot_is_refused_and_nothing_is_written(root, capsys):
    edited, other = put(root, "a"), put(root, "b")
    edited.write_text(edited.read_text("utf-8").replace("tests/test_a.py::test_a", "tests/test_a.py::test_x"), "utf-8")
    before = [edited.read_bytes(), other.read_bytes()]
    assert cli.main(["redact", ".", "--policy", "p.yaml"]) == DAMAGED
    assert "agentreplay reseal" in capsys.readouterr().err
    assert [edited.read_bytes(), other.read_bytes()] == before


def test_a_reason_is_redacted_too(root):
    file = put(root)
    assert cli.main(["redact", str(file), "--policy", "p.yaml", "--reason", f"{CUSTOMER} asked"]) == DONE
    assert CUSTOMER not in file.read_text("utf-8")


@pytest.mark.parametrize("words", [["nothing"], ["p.yaml"]])
def test_what_is_no_snapshot(root, words, capsys):
    assert cli.main(["redact", *words]) in {USAGE, DAMAGED}
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_empty_folder_is_nothing_to_do(root):
    (root / "empty").mkdir()
    assert cli.main(["redact", "empty"]) == NOTHING


def test_a_redacted_recording_replays(project):
    """Record plainly, redact with a policy, replay under it: nothing live, and green."""
    (project.root / "p.yaml").write_text(
        'schemaVersion: "1.0"\npatterns: [{category: order, regex: "A-[0-9]{2}"}]\n', encoding="utf-8"
    )
    assert project.record().returncode == 0
    done = project.command("redact", project.root, "--policy", "p.yaml", "--reason", "orders are people's")
    assert done.returncode == 0, done.stderr
    assert "A-17" not in project.files[0].read_text("utf-8")
    done = project.offline("--redact", "p.yaml")
    assert done.returncode == 0, done.stdout
