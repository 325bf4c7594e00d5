"""Every verb of the command, as a person types it: what it does, what it says, its exit code."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from pytest_agentreplay import cli

SAME, DIVERGED, USAGE, DAMAGED, NOTHING, CANNOT = 0, 1, 2, 4, 5, 125
SNAPSHOT = "__agent_snapshots__/test_shop/test_refund.snapshot.json"
PENDING = f".pytest_agentreplay/pending/{SNAPSHOT}"
WHY = "the wording alone has changed"
VERBS = ("demo", "show", "diff", "bisect", "replay", "accept", "kit", "verify", "reseal", "recover", "rules")
RECORDED = {}


@pytest.fixture
def recorded(project):
    """The project with its snapshot, which is recorded once for this module."""
    project.home = project.root / SNAPSHOT
    if "text" not in RECORDED:
        assert project.record().returncode == 0
        RECORDED["text"] = project.home.read_bytes()
        shutil.rmtree(project.root / ".pytest_agentreplay")
    project.home.parent.mkdir(parents=True, exist_ok=True)
    project.home.write_bytes(RECORDED["text"])
    project.asked, project.told = project.server.hits, project.ledger
    return project


def ended(done, code):
    """What a command printed on each of its two ends, having ended with `code` and without a traceback."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout, done.stderr


def nothing_went_live(project):
    return project.server.hits == project.asked and project.ledger == project.told


def edited_copy(project, name, old, new):
    """A copy of the snapshot with one change, sealed again."""
    copy = project.root / name
    copy.write_text(project.home.read_text().replace(old, new))
    ended(project.command("reseal", name, "--reason", "made by a test"), SAME)
    return name


def all_of(project):
    """Every file of the project by name, with its content."""
    return {file: file.read_bytes() for file in project.root.rglob("*") if file.is_file()}


# The door itself.


def test_help_groups_the_verbs_and_each_has_its_own(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as left:
        cli.main(["--help"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert re.search(r"^everyday$", told, re.MULTILINE)
    assert re.search(r"^files$", told, re.MULTILINE)
    for verb in VERBS:
        assert re.search(rf"^  {verb} +\w", told, re.MULTILINE)
        with pytest.raises(SystemExit) as left:
            cli.main([verb, "--help"])
        assert left.value.code == 0
        assert f"agentreplay {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [[], ["shwo", "x"], ["show"], ["show", "x", "--colour"], ["bisect", "one"], ["reseal", "x"], ["verify"]]
)
def test_words_that_are_no_command_are_usage(words, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(words)
    assert left.value.code == USAGE
    assert "usage: agentreplay" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["show", "gone.json"],
        ["diff", "gone.json", "gone.json"],
        ["bisect", "gone.json", "gone.json"],
        ["replay", "gone.json"],
        ["accept", "gone.json"],
        ["accept", "gone.json", "--requests", "--reason", WHY],
        ["verify", "gone.json"],
        ["reseal", "gone.json", "--reason", WHY],
        ["recover", "gone.jsonl"],
    ],
)
def test_a_file_that_is_not_there_is_said_in_a_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"agentreplay: gone\.jsonl?: .+\n", told.err)


@pytest.mark.parametrize("verb", ["show", "replay", "accept", "verify"])
@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]", b'{"schemaVersion": "7.0"}'])
def test_a_damaged_file_is_said_in_a_line(tmp_path, monkeypatch, capsys, verb, data):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / PENDING
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    assert cli.main([verb, PENDING]) == DAMAGED
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(rf"agentreplay: {re.escape(PENDING)}: .+\n", told.err)
    assert place.read_bytes() == data


def test_a_folder_and_a_link_are_no_snapshot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.json").symlink_to("/etc/hostname")
    for name in (".", "link.json"):
        assert cli.main(["show", name]) == DAMAGED
        assert "not a plain file" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error(recorded):
    for verb in (["rules"], ["show", SNAPSHOT]):
        child = subprocess.Popen(
            [sys.executable, "-m", "pytest_agentreplay", *verb],
            cwd=recorded.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        child.stdout.close()
        assert child.stderr.read() == b""
        child.stderr.close()
        assert child.wait(30) == SAME


# show


def test_show_prints_the_run_turn_by_turn(recorded):
    told, _ = ended(recorded.command("show", SNAPSHOT), SAME)
    assert "test_shop.py::test_refund" in told
    for number in (1, 2, 3):
        assert f"turn {number}" in told
    assert "lookup_order" in told
    assert "Here is your refund" in told
    assert "note:" not in told


def test_show_prints_one_turn_and_says_which_there_are(recorded):
    told, _ = ended(recorded.command("show", SNAPSHOT, "--turn", "2"), SAME)
    assert "refund" in told
    assert "turn 1" not in told
    assert "turn 3" not in told
    for number in ("0", "4", "-1"):
        told, said = ended(recorded.command("show", SNAPSHOT, f"--turn={number}"), USAGE)
        assert told == ""
        assert said == f"agentreplay: {SNAPSHOT}: there is no turn {number}; it has 1 to 3\n"


def test_show_says_that_a_file_was_edited(recorded):
    recorded.home.write_text(recorded.home.read_text().replace("Be kind", "Be rude"))
    told, _ = ended(recorded.command("show", SNAPSHOT), SAME)
    assert f"agentreplay verify {SNAPSHOT}" in told


def test_what_a_model_said_cannot_drive_the_terminal(recorded):
    edited_copy(recorded, "evil.json", "Here is your refund", "Here \\u001b]0;owned\\u0007 is \\u202eyours")
    for words in (["show", "evil.json"], ["diff", SNAPSHOT, "evil.json"], ["bisect", SNAPSHOT, "evil.json", "--json"]):
        told = recorded.command(*words).stdout
        assert not {"\x1b", "\x07", "\u202e"} & set(told)


# diff and bisect


def test_the_same_run_is_the_same(recorded):
    shutil.copy(recorded.home, recorded.root / "copy.json")
    for verb in ("diff", "bisect"):
        told, _ = ended(recorded.command(verb, SNAPSHOT, "copy.json"), SAME)
        assert told.startswith("same: ")
        told, _ = ended(recorded.command(verb, SNAPSHOT, "copy.json", "--json"), SAME)
        assert json.loads(told) == {"same": True, "divergences": []}


def test_bisect_tells_the_first_divergent_turn_and_diff_every_one(recorded):
    edited_copy(recorded, "other.json", "late", "lost")
    edited_copy(recorded, "third.json", "Here is your refund", "Here is nothing")
    told, _ = ended(recorded.command("bisect", SNAPSHOT, "other.json"), DIVERGED)
    assert re.match(r"\[AR-\w+\] turn 1/3", told)
    assert told.count("[AR-") == 1
    assert f"agentreplay show {SNAPSHOT} --turn 1" in told
    assert "agentreplay show other.json --turn 1" in told
    told, _ = ended(recorded.command("bisect", SNAPSHOT, "third.json"), DIVERGED)
    assert re.match(r"\[AR-\w+\] turn 3/3", told)
    told, _ = ended(recorded.command("diff", "third.json", "other.json"), DIVERGED)
    assert told.count("[AR-") >= 2


def test_bisect_gives_plain_data(recorded):
    edited_copy(recorded, "other.json", "late", "lost")
    told, _ = ended(recorded.command("bisect", SNAPSHOT, "other.json", "--json"), DIVERGED)
    data = json.loads(told)
    assert data["same"] is False
    (finding,) = data["divergences"]
    assert finding["code"].startswith("AR-")
    assert finding["properties"]["turn"] == "1"
    assert finding["headline"].startswith(f"[{finding['code']}]")


@pytest.mark.parametrize("verb", ["diff", "bisect"])
def test_a_damaged_side_is_named(recorded, verb):
    (recorded.root / "half.json").write_bytes(RECORDED["text"][:900])
    for words in ([SNAPSHOT, "half.json"], ["half.json", SNAPSHOT], ["half.json", SNAPSHOT, "--json"]):
        told, said = ended(recorded.command(verb, *words), DAMAGED)
        assert told == ""
        assert said.startswith("agentreplay: half.json: ")


# replay


def test_replay_runs_the_test_from_any_folder_of_the_project(recorded):
    for cwd in (recorded.root, recorded.home.parent, recorded.home.parent.parent):
        file = recorded.home if cwd == recorded.root else recorded.home.relative_to(cwd)
        told, _ = ended(recorded.command("replay", file, cwd=cwd), SAME)
        assert "1 passed" in told
        assert "model frozen" in told
    told, _ = ended(recorded.command("replay", SNAPSHOT, "-q", "--no-header"), SAME)
    assert "1 passed" in told
    assert nothing_went_live(recorded)


def test_replay_maps_what_pytest_ended_with(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    told, _ = ended(recorded.command("replay", SNAPSHOT), DIVERGED)
    assert "[AR-PROMPT]" in told
    _, said = ended(recorded.command("replay", SNAPSHOT, "--no-such-flag"), USAGE)
    assert "--no-such-flag" in said
    told, _ = ended(recorded.command("replay", SNAPSHOT, "-k", "nothing"), NOTHING)
    recorded.write(conftest="def pytest_runtest_call(item):\n    raise KeyboardInterrupt\n")
    _, said = ended(recorded.command("replay", SNAPSHOT), DIVERGED)
    assert said == "agentreplay: pytest was interrupted: test_shop.py::test_refund\n"
    recorded.write(conftest="import os\ndef pytest_runtest_call(item):\n    os.abort()\n")
    assert recorded.command("replay", SNAPSHOT).returncode == CANNOT


def test_replay_needs_no_word_of_the_environment(recorded):
    ended(recorded.command("replay", SNAPSHOT, AGENTREPLAY="record"), SAME)
    assert nothing_went_live(recorded)


def test_replay_of_an_edited_snapshot_fails(recorded):
    recorded.home.write_text(recorded.home.read_text().replace("Here is your refund", "Here, a refund"))
    told, _ = ended(recorded.command("replay", SNAPSHOT), DIVERGED)
    assert "[AR-UNREADABLE]" in told


def test_replay_of_a_test_that_is_gone_says_so(recorded):
    recorded.edit("test_shop.py", "test_refund", "test_other")
    _, said = ended(recorded.command("replay", SNAPSHOT), USAGE)
    assert "pytest knows no such test or flag: test_shop.py::test_refund" in said
    (recorded.root / "test_shop.py").unlink()
    told, said = ended(recorded.command("replay", SNAPSHOT), CANNOT)
    assert told == ""
    assert said == (
        f"agentreplay: {SNAPSHOT}: belongs to test_shop.py::test_refund, and test_shop.py is not there any more\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "-pevil::x",
        "--rootdir=/::x",
        "@evil::x",
        "../test_evil.py::x",
        "/tmp/test_evil.py::x",
        "a/../../b.py::x",
        "x.py",
    ],
)
def test_a_snapshot_cannot_choose_what_is_run(recorded, name):
    recorded.home.write_text(recorded.home.read_text().replace("test_shop.py::test_refund", name))
    for words in (["replay", SNAPSHOT], ["accept", SNAPSHOT, "--requests", "--reason", WHY]):
        told, said = ended(recorded.command(*words), DAMAGED)
        assert told == ""
        assert f"{name!r} is no test of this project" in said


def test_folders_may_be_called_otherwise_and_lie_deeper(project):
    (project.root / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nagentreplay_dir = frozen/runs\nagentreplay_tools = agent.lookup_order\n    agent.refund\n"
    )
    (project.root / "test_shop.py").unlink()
    folder = project.root / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "test_deep.py").write_text(
        "import agent\n"
        "class TestDeep:\n"
        "    def test_it(self, agentreplay):\n"
        "        assert 'refund' in agent.answer('Where is A-17?')\n"
    )
    assert project.record().returncode == 0
    (home,) = folder.rglob("*.snapshot.json")
    assert home.is_relative_to(folder / "frozen" / "runs")
    told, _ = ended(project.command("replay", home.relative_to(folder), cwd=folder), SAME)
    assert "1 passed" in told
    (folder / "test_deep.py").write_text((folder / "test_deep.py").read_text().replace("'refund' in", "'never' in"))
    assert project.record().returncode == 1
    told, _ = ended(project.command("accept", cwd=folder), SAME)
    before = home.read_bytes()
    ended(project.command(*shlex.split(told)[1:], cwd=folder), SAME)
    assert home.read_bytes() != before
    assert [file for file in project.root.rglob("*.snapshot.json") if ".pytest_agentreplay" not in file.parts] == [home]


# accept: pending runs


def fail_and_record(project):
    project.edit("test_shop.py", '"refund" in', '"never" in')
    done = project.record()
    assert done.returncode == 1
    project.asked, project.told = project.server.hits, project.ledger
    return done


def test_a_pending_run_is_listed_and_taken(recorded):
    _, said = ended(recorded.command("accept"), NOTHING)
    assert "no run is pending" in said
    done = fail_and_record(recorded)
    assert recorded.home.read_bytes() == RECORDED["text"]
    assert f"agentreplay accept {PENDING}" in done.stdout
    told, _ = ended(recorded.command("accept"), SAME)
    assert told == f"agentreplay accept {PENDING}\n"
    told, _ = ended(recorded.command("accept", PENDING), SAME)
    assert told == f"{SNAPSHOT}: taken for test_shop.py::test_refund\n"
    assert not (recorded.root / PENDING).exists()
    assert recorded.snapshots[0].run.header.outcome["status"] == "failed"
    ended(recorded.command("accept"), NOTHING)
    assert nothing_went_live(recorded)


def test_a_pending_run_is_taken_by_the_name_of_its_snapshot_from_any_folder(recorded):
    fail_and_record(recorded)
    told, _ = ended(recorded.command("accept", cwd=recorded.home.parent), SAME)
    assert shlex.split(told)[2] == str(recorded.root / PENDING), "what does not lie below is named whole"
    ended(recorded.command("accept", recorded.home.name, cwd=recorded.home.parent), SAME)
    assert recorded.snapshots[0].run.header.outcome["status"] == "failed"
    told, said = ended(recorded.command("accept", SNAPSHOT), USAGE)
    assert "no run is pending for this snapshot" in said
    assert "pytest --snapshot-record" in said


# accept: changed requests under old replies


def test_changed_requests_are_taken_under_the_recorded_replies(recorded):
    old = recorded.snapshots[0].run
    recorded.edit("agent.py", "Be brief.", "Be short.")
    finding = recorded.replay(COLUMNS="200")
    assert finding.returncode == 1
    command = re.search(r"agentreplay (accept \S+ --requests --reason .*)", finding.stdout)[1]
    assert shlex.split(command)[1] == SNAPSHOT
    told, _ = ended(recorded.command(*shlex.split(command)[:3], "--reason", WHY), SAME)
    assert f"accepted  {SNAPSHOT} (3 changed requests" in told
    (snapshot,) = recorded.snapshots
    assert snapshot.sealed
    (mark,) = snapshot.run.header.kit["adopted"]
    assert (mark["reason"], mark["requests"]) == (WHY, 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", mark["at"])
    assert [x.outcome for x in snapshot.run.exchanges] == [x.outcome for x in old.exchanges]
    assert b"Be short." in snapshot.run.exchanges[0].call.body.data
    assert recorded.replay().returncode == 0
    recorded.edit("agent.py", "Be kind.", "Be nice.")
    ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", "once more"), SAME)
    assert [mark["reason"] for mark in recorded.snapshots[0].run.header.kit["adopted"]] == [WHY, "once more"]
    assert nothing_went_live(recorded)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('return reply["content"]', 'return ask([]) and reply["content"]', "AR-EXTRA"),
        ("    while True:", "    if question:\n        return 'refund'\n    while True:", "AR-MISSING"),
    ],
    ids=["a call more", "a call less"],
)
def test_a_call_more_or_less_has_no_reply_and_nothing_is_written(recorded, old, new, code):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    recorded.edit("agent.py", old, new)
    recorded.edit("test_shop.py", "    agentreplay.run.assert_tool_calls", "    # agentreplay.run.assert_tool_calls")
    told, _ = ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", WHY), DIVERGED)
    assert f"[{code}]" in told
    assert "accepted  nothing" in told
    assert recorded.home.read_bytes() == RECORDED["text"]
    assert nothing_went_live(recorded)


def test_a_test_that_fails_on_the_recorded_replies_is_not_accepted(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    recorded.edit("test_shop.py", '"refund" in', '"never" in')
    told, _ = ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", WHY), DIVERGED)
    assert "accepted  nothing" in told
    assert recorded.home.read_bytes() == RECORDED["text"]


def test_the_test_itself_sees_a_replay(recorded):
    recorded.edit("test_shop.py", "    agentreplay.run", "    assert agentreplay.mode == 'replay'\n    agentreplay.run")
    ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", WHY), SAME)


def test_where_nothing_has_changed_nothing_is_written(recorded):
    told, _ = ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", WHY), SAME)
    assert "accepted  nothing: no request has changed" in told
    assert recorded.home.read_bytes() == RECORDED["text"]


def test_an_edited_snapshot_is_sealed_before_more_is_accepted(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    recorded.home.write_text(recorded.home.read_text().replace("Here is your refund", "Here, a refund"))
    before = recorded.home.read_bytes()
    told, _ = ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", WHY), DIVERGED)
    assert "agentreplay reseal" in told
    assert recorded.home.read_bytes() == before


@pytest.mark.parametrize(
    "words", [[SNAPSHOT, "--requests"], [SNAPSHOT, "--requests", "--reason", " "], ["--requests", "--reason", WHY]]
)
def test_accepting_requests_needs_a_snapshot_and_a_reason(recorded, words):
    _, said = ended(recorded.command("accept", *words), USAGE)
    assert "agentreplay accept FILE --requests --reason" in said
    assert recorded.home.read_bytes() == RECORDED["text"]


def test_ci_accepts_and_records_nothing(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    _, said = ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", WHY, CI="true"), USAGE)
    assert "accepting changed requests is refused because CI is set" in said
    assert recorded.record(CI="true").returncode == 4
    assert recorded.home.read_bytes() == RECORDED["text"]
    assert nothing_went_live(recorded)


# accept: one rule for all snapshots


def test_one_rule_takes_what_a_new_sdk_sends_everywhere(recorded):
    recorded.edit("agent.py", '"tools": SCHEMAS', '"tools": SCHEMAS, "store": False')
    finding = recorded.replay(COLUMNS="200")
    assert finding.returncode == 1
    assert "[AR-SDK]" in finding.stdout
    command = re.search(r"agentreplay (accept --rule .*)", finding.stdout)[1]
    told, _ = ended(recorded.command(*shlex.split(command)), SAME)
    assert told.startswith("agentreplay-rules.json: $.store is told as drift")
    rows = json.loads((recorded.root / "agentreplay-rules.json").read_text())
    assert [row["path"] for row in rows] == ["$.store"]
    green = recorded.replay()
    assert green.returncode == 0, green.stdout
    assert "drift     $.store differs in 1 test" in green.stdout
    told, _ = ended(recorded.command("rules"), SAME)
    assert "$.store" in told
    ended(recorded.command("accept", "--rule", "$.user = who asks", cwd=recorded.home.parent), SAME)
    rows = json.loads((recorded.root / "agentreplay-rules.json").read_text())
    assert [(row["path"], row["reason"]) for row in rows][1] == ("$.user", "who asks")
    assert not (recorded.home.parent / "agentreplay-rules.json").exists()


@pytest.mark.parametrize("rule", ["$.store", "$.store=", "store=why", "=why", "$.[=why"])
def test_a_rule_that_cannot_be_meant_is_usage(recorded, rule):
    _, said = ended(recorded.command("accept", "--rule", rule), USAGE)
    assert said.startswith("agentreplay: ")
    assert not (recorded.root / "agentreplay-rules.json").exists()


def test_rules_that_cannot_be_read_are_refused_by_all(recorded):
    (recorded.root / "agentreplay-rules.json").write_text('{"path": "$.store"}')
    for words in (["rules"], ["accept", "--rule", "$.user=why"], ["diff", SNAPSHOT, SNAPSHOT]):
        _, said = ended(recorded.command(*words), USAGE)
        assert said.startswith("agentreplay: agentreplay-rules.json: is not a list of rules like")
    done = recorded.run()
    assert done.returncode == 1
    assert "agentreplay-rules.json" in done.stdout
    assert "Traceback" not in done.stdout


# files


def test_verify_looks_at_files_and_folders(recorded):
    for words in ([SNAPSHOT], ["."], ["__agent_snapshots__", SNAPSHOT]):
        told, _ = ended(recorded.command("verify", *words), SAME)
        assert f"{SNAPSHOT}: whole and sealed\n" in told
    (recorded.root / "empty").mkdir()
    _, said = ended(recorded.command("verify", "empty"), NOTHING)
    assert "no *.snapshot.json below empty" in said
    good = recorded.home.with_name("test_z.snapshot.json")
    shutil.copy(recorded.home, good)
    recorded.home.write_bytes(RECORDED["text"][:-200])
    told, said = ended(recorded.command("verify", "."), DAMAGED)
    assert "test_z.snapshot.json: whole and sealed" in told
    assert said.startswith(f"agentreplay: {SNAPSHOT}: ")


def test_verify_names_what_was_edited_and_restores_every_body(recorded):
    recorded.home.write_text(recorded.home.read_text().replace("Here is your refund", "Here, a refund"))
    _, said = ended(recorded.command("verify", SNAPSHOT), DAMAGED)
    assert said == f"agentreplay: {SNAPSHOT}: edited after it was sealed: exchange 5\n"


def test_reseal_keeps_the_reason_and_does_nothing_twice(recorded):
    _, said = ended(recorded.command("reseal", SNAPSHOT, "--reason", WHY), NOTHING)
    assert "is sealed as it stands" in said
    recorded.home.write_text(recorded.home.read_text().replace("Here is your refund", "Here, a refund"))
    _, said = ended(recorded.command("reseal", SNAPSHOT, "--reason", " "), USAGE)
    assert "--reason" in said
    ended(recorded.command("verify", SNAPSHOT), DAMAGED)
    told, _ = ended(recorded.command("reseal", SNAPSHOT, "--reason", WHY), SAME)
    assert told == f"{SNAPSHOT}: sealed again: {WHY}\n"
    ended(recorded.command("verify", SNAPSHOT), SAME)
    assert recorded.snapshots[0].revisions[0]["reason"] == WHY
    assert recorded.replay().returncode == 0


def test_recover_takes_journals_only(recorded):
    _, said = ended(recorded.command("recover"), NOTHING)
    assert "no recording was interrupted" in said
    journal = recorded.root / ".pytest_agentreplay" / "journal" / "x.1-a.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_bytes(b"\x00nothing of ours")
    told, _ = ended(recorded.command("recover"), SAME)
    assert "nothing readable" in told
    for words in ([journal.relative_to(recorded.root)], [SNAPSHOT]):
        _, said = ended(recorded.command("recover", *words), DAMAGED)
        assert "holds no complete record" in said or "is no journal" in said
    assert journal.exists()


def test_rules_are_printed_with_their_reasons(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["rules"]) == SAME
    told = capsys.readouterr().out
    assert "idempotency-key" in told
    assert "watch" in told
    assert "drop" in told
    assert cli.main(["rules", "--json"]) == SAME
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) > 20
    assert all(row["path"] and row["reason"] and row["action"] in {"watch", "drop"} for row in rows)


def test_nothing_that_only_looks_writes(recorded):
    (recorded.root / "copy.json").write_bytes(RECORDED["text"])
    before = all_of(recorded)
    for words in (
        ["show", SNAPSHOT],
        ["diff", SNAPSHOT, "copy.json"],
        ["bisect", SNAPSHOT, "copy.json"],
        ["verify", "."],
        ["recover"],
        ["accept"],
        ["rules"],
        ["replay", SNAPSHOT],
    ):
        recorded.command(*words)
    assert all_of(recorded) == before
