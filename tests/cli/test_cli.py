"""Every verb of the command, as a person types it: what it does, what it says, its exit code."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from pytest_agentreplay.cli.casework import find_failure
from pytest_agentreplay.cli.mcp_tools import scaffold_case
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.runs.own_pytest import leave_out_flags, prepare_pytest
from tests.support.kept_files import contents, put_back

SAME, DIVERGED, USAGE, INCONCLUSIVE, DAMAGED, NOTHING, CANNOT = 0, 1, 2, 3, 4, 5, 125
SNAPSHOT = "__agent_snapshots__/test_shop/test_refund.snapshot.json"
PENDING = f".pytest_agentreplay/pending/{SNAPSHOT}"
WHY = "the wording alone has changed"
REQUESTS = ("accept", SNAPSHOT, "--requests", "--reason", WHY)


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.furnish()
    assert project.record().returncode == SAME
    shutil.rmtree(project.root / ".pytest_agentreplay")
    project.home = project.root / SNAPSHOT
    project.kept = contents(project.root)
    return project


@pytest.fixture
def recorded(shop, monkeypatch):
    """The project as it was recorded, in whose root commands are typed."""
    put_back(shop.root, shop.kept)
    monkeypatch.chdir(shop.root)
    shop.asked, shop.told = shop.server.hits, shop.ledger
    return shop


def test_a_coding_agent_keeps_no_case_of_a_test_that_passes_whatever_addopts_say(recorded, monkeypatch):
    recorded.edit("pytest.ini", "[pytest]", "[pytest]\naddopts = --snapshot-record")
    for name, value in recorded.surroundings(PYTEST_ADDOPTS="-p pytest_agentreplay.plugin").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        AgentReplayError, match=r"no failure to keep; .*: agentreplay case new test_shop\.py::test_refund"
    ):
        scaffold_case(recorded.root, "test_shop.py::test_refund")
    assert not (recorded.root / "cases").exists()


@pytest.fixture
def records_by_default(recorded, monkeypatch):
    """The project, in which a bare `pytest` records: so both addopts say. `--redact` holds for replays too."""
    recorded.edit("pytest.ini", "[pytest]", "[pytest]\naddopts = --snapshot-record --redact strict")
    addopts = "-p pytest_agentreplay.plugin --record-from 2 --agentreplay-html=pages"
    for name, value in recorded.surroundings(PYTEST_ADDOPTS=addopts).items():
        monkeypatch.setenv(name, value)
    return recorded


def test_a_pytest_of_ours_keeps_of_addopts_what_holds_for_replays(records_by_default):
    words = leave_out_flags(os.environ, records_by_default.root)["PYTEST_ADDOPTS"]
    assert shlex.split(words) == ["-p", "pytest_agentreplay.plugin", "-o", "addopts=--redact strict"]
    assert leave_out_flags({"PYTEST_ADDOPTS": "-q"}, records_by_default.root / "nowhere")["PYTEST_ADDOPTS"] == "-q"


def test_a_live_pytest_of_ours_keeps_of_addopts_what_holds_for_live_runs_too(records_by_default, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--replay=model --replay-budget calls=9 --record-from 2 -q")
    _, environ = prepare_pytest(records_by_default.root, ["--agentreplay-mode=live"])
    words = ["--replay-budget", "calls=9", "-q", "-o", "addopts=--redact strict"]
    assert shlex.split(environ["PYTEST_ADDOPTS"]) == words


VERBS_THAT_START_PYTEST = {
    "prune": ("prune", NOTHING),
    "check assertions": (f"check assertions {SNAPSHOT}", SAME),
    "check fuzz": (f"check fuzz {SNAPSHOT} --budget 1", SAME),
    "live lineup": (f"live lineup {SNAPSHOT} --runs 1", SAME),
    "live compare": ("live compare --set model=m-1 --runs 1 test_shop.py", INCONCLUSIVE),
    "replay --live": (f"replay {SNAPSHOT} --live", SAME),
}


@pytest.mark.parametrize(("words", "code"), VERBS_THAT_START_PYTEST.values(), ids=VERBS_THAT_START_PYTEST)
def test_no_pytest_of_ours_records_where_addopts_do(records_by_default, words, code):
    environ = {"PYTEST_ADDOPTS": os.environ["PYTEST_ADDOPTS"]}
    ended(records_by_default.command(*words.split(), **environ), code)
    assert untouched(records_by_default)


def test_replay_replays_where_addopts_record(records_by_default):
    environ = {"PYTEST_ADDOPTS": os.environ["PYTEST_ADDOPTS"]}
    told, _ = ended(records_by_default.command("replay", SNAPSHOT, **environ), SAME)
    assert "replayed 1 test" in told
    assert untouched(records_by_default)


def test_accept_takes_changed_requests_where_addopts_record(records_by_default):
    records_by_default.edit("agent.py", "Be brief.", "Be short.")
    environ = {"PYTEST_ADDOPTS": os.environ["PYTEST_ADDOPTS"]}
    told, _ = ended(records_by_default.command(*REQUESTS, **environ), SAME)
    assert f"accepted  {SNAPSHOT} (3 changed requests" in told


def test_case_new_finds_a_failure_where_addopts_record(records_by_default):
    records_by_default.edit("test_shop.py", "\n    assert ", "\n    assert not ")
    assert find_failure(records_by_default.home)["type"] == "AssertionError"


def ended(done, code):
    """What a command printed on each of its two ends, having ended with `code` and without a traceback."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout, done.stderr


def nothing_went_live(project):
    return project.server.hits == project.asked and project.ledger == project.told


def untouched(project):
    return project.home.read_bytes() == project.kept[SNAPSHOT]


def edit_snapshot(project, old="Here is your refund", new="Here, a refund"):
    project.edit(SNAPSHOT, old, new)


# The command itself.


def test_the_version_is_that_of_the_distribution(typed):
    assert typed("--version") == (SAME, f"agentreplay {version('frozen-agentreplay')}\n", "")
    assert "--version" in typed("--help").out


def test_words_that_are_no_command_are_usage(typed):
    for words in (
        "show",
        "show x --colour",
        "show x --step --kit",
        "diff one",
        "ls --totals --stale",
        "case lint --colour",
    ):
        told = typed(*words.split())
        assert (told.code, "usage: agentreplay" in told.err) == (USAGE, True), words


def test_a_file_that_is_not_there_is_said_in_a_line(typed, root):
    for words in ("show", "show --kit", "diff gone.json", "diff --first gone.json", "replay", "accept", "verify"):
        told = typed(*words.split(), "gone.json")
        # At another commit it may be there: `git bisect run` skips this one.
        assert (told.code, told.out) == (CANNOT if words == "replay" else USAGE, ""), words
        assert re.fullmatch(r"agentreplay: gone\.json: .+\n", told.err)
    assert typed("accept", "gone.json", "--requests", "--reason", WHY).code == USAGE
    assert typed("verify", "--accept-edit", "gone.json", "--reason", WHY).code == USAGE
    assert re.fullmatch(r"agentreplay: gone\.jsonl: .+\n", typed("verify", "--recover", "gone.jsonl").err)


def test_a_damaged_file_is_said_in_a_line(typed, root):
    place = root / PENDING
    place.parent.mkdir(parents=True)
    for verb in ("show", "replay", "accept", "verify"):
        for data in (b"", b"{", b"\xff\xfe", b"[]", b'{"schemaVersion": "7.0"}'):
            place.write_bytes(data)
            told = typed(verb, PENDING)
            assert (told.code, told.out) == (DAMAGED, ""), (verb, data)
            assert re.fullmatch(rf"agentreplay: {re.escape(PENDING)}: .+\n", told.err)
            assert place.read_bytes() == data


def test_a_folder_and_a_link_are_no_snapshot(typed, root):
    (root / "link.json").symlink_to("/etc/hostname")
    for name, code, why in ((".", USAGE, "is a folder"), ("link.json", DAMAGED, "not a plain file")):
        told = typed("show", name)
        assert (told.code, why in told.err) == (code, True)


@pytest.mark.process
def test_a_reader_that_leaves_is_no_error(root):
    command = [sys.executable, "-m", "pytest_agentreplay", "check", "audit", "--rules"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.close()
    with child.stderr as complaints:
        assert complaints.read() == b""
    assert child.wait(30) == SAME


# show, diff


def test_show_prints_the_run_turn_by_turn_or_one_turn_and_says_that_a_file_was_edited(typed, recorded):
    told = typed("show", SNAPSHOT)
    assert told.code == SAME
    for word in ("test_shop.py::test_refund", "turn 1", "turn 2", "turn 3", "lookup_order", "Here is your refund"):
        assert word in told.out
    assert "note:" not in told.out
    told = typed("show", SNAPSHOT, "--turn", "2").out
    assert [word in told for word in ("refund", "turn 1", "turn 3")] == [True, False, False]
    for number in ("0", "4", "-4"):
        said = f"agentreplay: {SNAPSHOT}: there is no turn {number}; it has 1 to 3\n"
        assert typed("show", SNAPSHOT, f"--turn={number}") == (USAGE, "", said)
    edit_snapshot(recorded)
    assert f"agentreplay verify {SNAPSHOT}" in typed("show", SNAPSHOT).out


@pytest.fixture
def edited_copy(typed, recorded):
    """Makes a copy of the snapshot with one change, sealed again."""

    def make(name, old, new):
        (recorded.root / name).write_text(recorded.home.read_text().replace(old, new))
        assert typed("verify", "--accept-edit", name, "--reason", "made by a test").code == SAME

    return make


def test_the_same_run_is_the_same_and_a_damaged_side_is_named(typed, recorded):
    shutil.copy(recorded.home, "copy.json")
    (recorded.root / "half.json").write_bytes(recorded.kept[SNAPSHOT][:900])
    for verb in (["diff"], ["diff", "--first"]):
        told = typed(*verb, SNAPSHOT, "copy.json")
        assert (told.code, told.out[:6]) == (SAME, "same: ")
        assert json.loads(typed(*verb, SNAPSHOT, "copy.json", "--json").out) == {"same": True, "divergences": []}
        for words in ([SNAPSHOT, "half.json"], ["half.json", SNAPSHOT], ["half.json", SNAPSHOT, "--json"]):
            told = typed(*verb, *words)
            assert (told.code, told.out) == (DAMAGED, "")
            assert told.err.startswith("agentreplay: half.json: ")


def test_bisect_tells_the_first_divergent_turn_also_as_plain_data_and_diff_every_one(typed, edited_copy):
    edited_copy("other.json", "late", "lost")
    edited_copy("third.json", "Here is your refund", "Here is nothing")
    told = typed("diff", "--first", SNAPSHOT, "other.json")
    assert told.code == DIVERGED
    assert re.match(r"\[AR-\w+\] turn 1/3", told.out)
    assert told.out.count("[AR-") == 1
    assert f"agentreplay show {SNAPSHOT} --turn 1" in told.out
    assert "agentreplay show other.json --turn 1" in told.out
    assert re.match(r"\[AR-\w+\] turn 3/3", typed("diff", "--first", SNAPSHOT, "third.json").out)
    told = typed("diff", "third.json", "other.json")
    assert (told.code, told.out.count("[AR-") >= 2) == (DIVERGED, True)
    assert typed("diff", "--first", "third.json", "other.json").out.count("[AR-") == 1
    told = typed("diff", "--first", SNAPSHOT, "other.json", "--json")
    data = json.loads(told.out)
    (finding,) = data["divergences"]
    assert (told.code, data["same"], finding["properties"]["turn"]) == (DIVERGED, False, "1")
    assert finding["headline"].startswith(f"[{finding['code']}]")


# replay


def test_replay_runs_the_test_from_any_folder_of_the_project_whatever_the_environment_says(recorded):
    told, _ = ended(recorded.command("replay", recorded.home.name, cwd=recorded.home.parent), SAME)
    assert "1 passed" in told
    assert "model frozen" in told
    told, _ = ended(recorded.command("replay", "test_shop.py::test_refund", "-q", AGENTREPLAY="record"), SAME)
    assert "1 passed" in told
    assert nothing_went_live(recorded)


def test_replay_ends_with_125_where_nothing_was_judged(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    told, _ = ended(recorded.command("replay", SNAPSHOT), DIVERGED)
    assert "[AR-PROMPT]" in told
    _, said = ended(recorded.command("replay", SNAPSHOT, "--no-such-flag"), CANNOT)
    assert "--no-such-flag" in said
    ended(recorded.command("replay", SNAPSHOT, "-k", "nothing"), CANNOT)
    recorded.write(conftest="def pytest_runtest_call(item):\n    raise KeyboardInterrupt\n")
    _, said = ended(recorded.command("replay", SNAPSHOT), CANNOT)
    assert said == "agentreplay: pytest was interrupted: test_shop.py::test_refund\n"
    recorded.write(conftest="import os\ndef pytest_runtest_call(item):\n    os.abort()\n")
    assert recorded.command("replay", SNAPSHOT).returncode == CANNOT


def test_replay_of_a_test_that_is_gone_says_so(typed, recorded):
    recorded.edit("test_shop.py", "test_refund", "test_other")
    _, said = ended(recorded.command("replay", SNAPSHOT), CANNOT)
    assert "pytest met a usage error: test_shop.py::test_refund" in said
    (recorded.root / "test_shop.py").unlink()
    belongs = "belongs to test_shop.py::test_refund, and test_shop.py is not there any more"
    assert typed("replay", SNAPSHOT) == (CANNOT, "", f"agentreplay: {SNAPSHOT}: {belongs}\n")


def test_a_snapshot_cannot_choose_what_is_run(typed, recorded):
    whole = recorded.home.read_text()
    names = "-pevil::x --rootdir=/::x @evil::x ../test_evil.py::x /tmp/test_evil.py::x a/../../b.py::x x.py"
    for name in names.split():
        recorded.home.write_text(whole.replace("test_shop.py::test_refund", name))
        for words in (["replay", SNAPSHOT], REQUESTS):
            told = typed(*words)
            assert (told.code, told.out) == (DAMAGED, "")
            assert f"{name!r} is no test of this project" in told.err


DEEP = """
import agent

class TestDeep:
    def test_it(self, agentreplay):
        assert "refund" in agent.answer("Where is A-17?")
"""


def test_folders_may_be_called_otherwise_and_lie_deeper(project, typed, monkeypatch):
    project.furnish(ini="agentreplay_dir = frozen/runs\n")
    (project.root / "test_shop.py").unlink()
    project.write(tests__unit__test_deep=DEEP)
    folder = project.root / "tests" / "unit"
    monkeypatch.chdir(folder)
    assert project.record().returncode == 0
    (home,) = folder.rglob("*.snapshot.json")
    assert home.is_relative_to(folder / "frozen" / "runs")
    told, _ = ended(project.command("replay", home.relative_to(folder), cwd=folder), SAME)
    assert "1 passed" in told
    project.edit("tests/unit/test_deep.py", '"refund" in', '"never" in')
    assert project.record().returncode == 1
    before = home.read_bytes()
    assert typed(*shlex.split(typed("accept").out)[1:]).code == SAME
    assert home.read_bytes() != before
    assert [file for file in project.root.rglob("*.snapshot.json") if ".pytest_agentreplay" not in file.parts] == [home]


# accept: pending runs


def test_a_pending_run_is_listed_and_taken_by_its_name_or_that_of_its_snapshot_from_any_folder(
    typed, recorded, monkeypatch
):
    none = typed("accept")
    assert (none.code, "no run is pending" in none.err) == (NOTHING, True)
    recorded.edit("test_shop.py", '"refund" in', '"never" in')
    done = recorded.record()
    assert (done.returncode, untouched(recorded)) == (1, True)
    assert f"agentreplay accept {PENDING}" in done.stdout
    pending = (recorded.root / PENDING).read_bytes()
    assert typed("accept") == (SAME, f"agentreplay accept {PENDING}\n", "")
    assert typed("accept", PENDING) == (SAME, f"{SNAPSHOT}: taken for test_shop.py::test_refund\n", "")
    assert not (recorded.root / PENDING).exists()
    assert recorded.snapshots[0].run.header.outcome["status"] == "failed"
    assert typed("accept").code == NOTHING
    none = typed("accept", SNAPSHOT)
    assert (none.code, "no run is pending" in none.err) == (USAGE, True)
    assert none.err.endswith('--requests --reason "why every reply still holds"\n')
    recorded.home.write_bytes(recorded.kept[SNAPSHOT])
    (recorded.root / PENDING).write_bytes(pending)
    monkeypatch.chdir(recorded.home.parent)
    listed = typed("accept").out
    assert shlex.split(listed)[2] == str(recorded.root / PENDING), "what does not lie below is named whole"
    assert typed("accept", recorded.home.name).code == SAME
    assert recorded.snapshots[0].run.header.outcome["status"] == "failed"


# accept: changed requests under old replies


def test_changed_requests_are_taken_under_the_recorded_replies(recorded):
    old = recorded.snapshots[0].run
    recorded.edit("agent.py", "Be brief.", "Be short.")
    finding = recorded.replay(COLUMNS="200")
    assert finding.returncode == 1
    command = shlex.split(re.search(r"agentreplay (accept \S+ --requests --reason .*)", finding.stdout)[1])
    assert command[:4] == ["accept", SNAPSHOT, "--requests", "--reason"]
    told, _ = ended(recorded.command(*REQUESTS), SAME)
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


MORE = ('return reply["content"]', 'return ask([]) and reply["content"]')
LESS = ("    while True:", "    if question:\n        return 'refund'\n    while True:")


@pytest.mark.parametrize(
    ("file", "edit", "said"),
    [
        ("agent.py", MORE, "[AR-EXTRA]"),
        ("agent.py", LESS, "[AR-MISSING]"),
        ("test_shop.py", ('"refund" in', '"never" in'), "accepted  nothing"),
        (SNAPSHOT, ("Here is your refund", "Here, a refund"), "agentreplay verify"),
    ],
    ids=["a call more", "a call less", "a test that fails", "an edited snapshot"],
)
def test_where_the_recorded_replies_do_not_fit_nothing_is_accepted(recorded, file, edit, said):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    recorded.edit("test_shop.py", "    agentreplay.run.assert_tool_calls", "    # agentreplay.run.assert_tool_calls")
    recorded.edit(file, *edit)
    before = recorded.home.read_bytes()
    told, _ = ended(recorded.command(*REQUESTS), DIVERGED)
    assert said in told
    assert ("accepted  nothing" in told) is (file != SNAPSHOT)
    assert recorded.home.read_bytes() == before
    assert nothing_went_live(recorded)


def test_the_test_sees_a_replay_and_where_nothing_has_changed_nothing_is_written(recorded):
    recorded.edit("test_shop.py", "    agentreplay.run", "    assert agentreplay.mode == 'replay'\n    agentreplay.run")
    told, _ = ended(recorded.command(*REQUESTS), SAME)
    assert "accepted  nothing: no request has changed" in told
    assert untouched(recorded)


def test_accepting_requests_needs_a_snapshot_and_a_reason_and_is_refused_on_ci(typed, recorded):
    for words in ([SNAPSHOT, "--requests"], [SNAPSHOT, "--requests", "--reason", " "], REQUESTS[2:]):
        told = typed("accept", *words)
        what = SNAPSHOT if SNAPSHOT in words else "FILE"
        assert (told.code, f"agentreplay accept {what} --requests --reason" in told.err) == (USAGE, True)
    _, said = ended(recorded.command(*REQUESTS, CI="true"), USAGE)
    assert "accepting changed requests is refused because CI is set" in said
    assert untouched(recorded)


# accept: one rule for all snapshots


def test_one_rule_takes_what_a_new_sdk_sends_everywhere(typed, recorded, monkeypatch):
    recorded.edit("agent.py", '"tools": SCHEMAS', '"tools": SCHEMAS, "store": False')
    finding = recorded.replay(COLUMNS="200")
    assert (finding.returncode, "[AR-SDK]" in finding.stdout) == (1, True)
    command = re.search(r"agentreplay (accept --rule .*)", finding.stdout)[1]
    assert typed(*shlex.split(command)).out.startswith("agentreplay-rules.json: $.store is told as drift")
    green = recorded.replay()
    assert green.returncode == 0, green.stdout
    assert re.search(r"\$\.store x\d+ \(\(absent\) -> false\); watch: ", green.stdout)
    assert "$.store" in typed("check", "audit", "--rules").out
    monkeypatch.chdir(recorded.home.parent)
    assert typed("accept", "--rule", "$.user = who asks").code == SAME
    assert typed("accept", "--rule", "$.tools[?(@.type == 'function')].x=a = b").code == SAME
    first, third, second = json.loads((recorded.root / "agentreplay-rules.json").read_text())
    assert (third["path"], third["reason"]) == ("$.tools[?(@.type == 'function')].x", "a = b")
    assert (first["path"], second["path"], second["reason"]) == ("$.store", "$.user", "who asks")
    assert not (recorded.home.parent / "agentreplay-rules.json").exists()


def test_a_rule_that_cannot_be_meant_is_usage_and_rules_that_cannot_be_read_are_refused_by_all(typed, recorded):
    rules = recorded.root / "agentreplay-rules.json"
    for rule in ("$.store", "$.store=", "store=why", "=why", "$.[=why"):
        told = typed("accept", "--rule", rule)
        assert (told.code, told.err[:13], rules.exists()) == (USAGE, "agentreplay: ", False), rule
    rules.write_text('{"path": "$.store"}')
    for words in (["check", "audit", "--rules"], ["accept", "--rule", "$.user=why"], ["diff", SNAPSHOT, SNAPSHOT]):
        told = typed(*words)
        assert told.code == USAGE
        assert told.err.startswith("agentreplay: agentreplay-rules.json: is not a list of rules like")
    told, _ = ended(recorded.run(), 1)
    assert "agentreplay-rules.json" in told


# files


def test_verify_looks_at_files_and_folders_and_names_what_was_edited(typed, recorded):
    for words in ([SNAPSHOT], ["."], ["__agent_snapshots__", SNAPSHOT]):
        told = typed("verify", *words)
        assert (told.code, f"{SNAPSHOT}: whole and unedited\n" in told.out) == (SAME, True)
    (recorded.root / "empty").mkdir()
    none = typed("verify", "empty")
    assert (none.code, "no *.snapshot.json below empty" in none.err) == (NOTHING, True)
    edit_snapshot(recorded)
    edited = f"agentreplay: {SNAPSHOT}: edited after it was recorded: exchange 5"
    how = f"if the edit is meant: agentreplay verify {SNAPSHOT} --accept-edit --reason WHY"
    assert typed("verify", SNAPSHOT) == (DAMAGED, "", f"{edited}; {how}\n")
    recorded.home.with_name("test_z.snapshot.json").write_bytes(recorded.kept[SNAPSHOT])
    recorded.home.write_bytes(recorded.kept[SNAPSHOT][:-200])
    told = typed("verify", ".")
    assert (told.code, "test_z.snapshot.json: whole and unedited" in told.out) == (DAMAGED, True)
    assert told.err.startswith(f"agentreplay: {SNAPSHOT}: ")


def test_reseal_keeps_the_reason_and_does_nothing_twice(typed, recorded):
    reseal = ("verify", SNAPSHOT, "--accept-edit", "--reason")
    again = typed(*reseal, WHY)
    assert (again.code, "was not edited after it was recorded" in again.err) == (NOTHING, True)
    edit_snapshot(recorded)
    unsaid = typed(*reseal, " ")
    assert (unsaid.code, "--reason" in unsaid.err) == (USAGE, True)
    assert typed("verify", SNAPSHOT).code == DAMAGED
    assert typed(*reseal, WHY) == (SAME, f"{SNAPSHOT}: sealed again: {WHY}\n", "")
    assert typed("verify", SNAPSHOT).code == SAME
    assert recorded.snapshots[0].revisions[0]["reason"] == WHY
    assert recorded.replay().returncode == 0


def test_an_accepted_edit_stays_to_be_seen_when_changed_requests_are_accepted_after_it(typed, recorded):
    edit_snapshot(recorded)
    assert typed("verify", SNAPSHOT, "--accept-edit", "--reason", "seen").code == SAME
    recorded.edit("agent.py", "Be brief.", "Be short.")
    ended(recorded.command("accept", SNAPSHOT, "--requests", "--reason", "the wording"), SAME)
    (snapshot,) = recorded.snapshots
    assert (snapshot.sealed, snapshot.broken) == (True, "")
    assert [revision["reason"] for revision in snapshot.revisions] == ["seen", "the wording"]


def test_recover_takes_journals_only(typed, recorded):
    none = typed("verify", "--recover")
    assert (none.code, "no recording was interrupted" in none.err) == (NOTHING, True)
    journal = recorded.root / ".pytest_agentreplay" / "journal" / "x.1-a.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_bytes(b"\x00nothing of ours")
    assert "nothing readable" in typed("verify", "--recover").out
    for name in (journal.relative_to(recorded.root), SNAPSHOT):
        told = typed("verify", "--recover", name)
        assert told.code == DAMAGED
        assert "holds no complete record" in told.err or "is no journal" in told.err
    assert journal.exists()


def test_rules_are_printed_with_their_reasons(typed, root):
    told = typed("check", "audit", "--rules").out
    assert all(word in told for word in ("idempotency-key", "watch", "drop"))
    rows = json.loads(typed("check", "audit", "--rules", "--json").out)
    assert len(rows) > 20
    assert all(row["path"] and row["reason"] and row["action"] in {"watch", "drop"} for row in rows)


def test_nothing_that_only_looks_writes(typed, recorded):
    shutil.copy(recorded.home, "copy.json")
    before = contents(recorded.root)
    for words in (["show"], ["diff", "copy.json"], ["diff", "--first", "copy.json"], ["verify"]):
        assert typed(*words, SNAPSHOT).code == SAME
    for words in (["verify", "--recover"], ["accept"], ["check", "audit", "--rules"]):
        assert typed(*words).code in {SAME, NOTHING}
    ended(recorded.command("replay", SNAPSHOT), SAME)
    assert contents(recorded.root) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.real_process
@pytest.mark.parametrize("words", [("show", "--json", SNAPSHOT), ("ls",), ("--help",)], ids=str)
def test_output_that_a_full_disk_does_not_take_is_one_line(recorded, words):
    command = [sys.executable, "-m", "pytest_agentreplay", *words]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == USAGE
    assert re.fullmatch(r"agentreplay: the output cannot be written: no space left on device; .*\n", done.stderr)
