"""`pytest --agentreplay-runs=STORE`: an item for each captured run, what it says of a changed agent, in groups."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from pytest_agentreplay.cli import main
from pytest_agentreplay.errors import SnapshotMissing
from pytest_agentreplay.plugin.captured_items import ITEM
from pytest_agentreplay.runs.captured.groups import RunGroups, read_latest, sample
from pytest_agentreplay.snapshots.store.run_store import RunStore
from tests.captured_runs.captured_store import Store, script
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer
from tests.support.project import NOBODY, Project

SAME = "12 runs: 12 same"
IN_CALL = "    return TOOLS[name]"
REFUNDS_MORE = IN_CALL.replace(
    "return", "arguments = {k: 19.5 if v == 18.5 else v for k, v in arguments.items()}; return"
)
NO_REFUND = IN_CALL.replace("TOOLS[name]", '{"refunded": 18.5} if name == "refund" else TOOLS[name]')
MAILS_FIRST = IN_CALL.replace("return", 'name == "refund" and TOOLS["mail"]("owner", "hi"); return')
SHOUTS = ('"answer": reply["content"]', '"answer": reply["content"].upper()')


TOML = """
[tool.pytest.ini_options]
pythonpath = ["."]
agentreplay_tools = ["shop.lookup_order = read", "shop.mail"]
agentreplay_runners = ["refund = shop:answer"]
"""
FAULT = """
from pytest_agentreplay.runs.captured import captured_replay

compare = captured_replay.diff

def fail(recorded, now):
    return 1 / ("A-3 " not in recorded["answer"]) and compare(recorded, now)

captured_replay.diff = fail
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Twelve captured runs of a service."""
    with ModelServer(script) as server:
        yield Store(Project(tmp_path_factory.mktemp("shop"), server)).capture(12)


@pytest.fixture(autouse=True)
def unchanged(store):
    """Put the agent and its settings back as they were."""
    yield
    store.furnish()


def test_unchanged_code_is_green_and_a_failure_that_recurs_is_the_same(store):
    said = store.replay("-v")
    assert "collecting ... collected 12 items" in said
    assert f"captured  {SAME}\n" in said
    assert "runs::refund/run-0007 PASSED" in said  # raised KeyError then, and does now
    assert said.count("PASSED") == 12
    assert not (store.project.root / "ledger.txt").exists(), "a tool ran for real"


def test_a_request_that_differs_fails_only_when_strict(store):  # not strict: the corpus below
    store.changed("Be brief.", "Be short.")
    said = store.replay("--agentreplay-runs-strict", code=1)
    assert "12 failed" in said
    assert "captured  12 runs: 0 same, 12 ask otherwise (system text, line 2)\n" in said


@pytest.mark.parametrize(
    ("old", "new", "group"),
    [
        *rare(
            (*SHOUTS, "1 same, 11 answer otherwise ($.answer)"),
            ('== "unknown"', '== "c-3"', "10 same, 1 no longer raises KeyError, 1 raises KeyError"),
            ("raise KeyError(customer)", 'raise KeyError("hm")', "11 same, 1 raises KeyError with another message"),
            (IN_CALL, MAILS_FIRST, "6 same, 3 call mail once more, 3 differ in mail $.text"),
        ),
    ],
)
def test_an_effect_that_differs_fails_its_item_and_names_its_group(store, old, new, group):
    assert store.changed(old, new).count(code=1) == f"12 runs: {group}"


def test_the_groups_reach_footer_junit_github_and_summarize_with_commands_that_work(store, tmp_path):
    step, root = tmp_path / "step.md", store.project.root
    xml = tmp_path / "junit.xml"
    said = store.changed(IN_CALL, REFUNDS_MORE).replay(f"--junitxml={xml}", code=1, GITHUB_STEP_SUMMARY=str(step))
    assert xml.read_text(encoding="utf-8").count('"agentreplay.group" value="differ in refund $.amount"') == 6
    command, run = re.search(r"6 differ in refund \$\.amount\n +the smallest:   pytest (.+::(.+))\n", said).groups()
    assert f"| `6` | `differ in refund $.amount` | `{run}` | `pytest {command}` |" in step.read_text(encoding="utf-8")
    assert read_latest(root)["markdown"] == step.read_text(encoding="utf-8")
    author = ["-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    data = json.loads(store.project.command("summarize", "HEAD..HEAD", "--captured", "--json").stdout)
    assert data["captured"]["verdict"] == "12 runs: 6 same, 6 differ in refund $.amount"
    (file,) = (file for file in store.files if file.name == f"{run.partition('/')[2]}.run.json")
    longer = shutil.copy(file, file.with_name(file.name.replace(".run", "0.run")))
    shown = store.project.run(*command.split(), MODEL_URL=NOBODY).stdout
    longer.unlink()
    assert "= 1 failed in " in shown
    assert f"runs::{run}" in shown
    assert re.search(r"recorded +18\.5\n +now +19\.5", shown)
    recorded = store.project.command(*re.search(r"agentreplay (show .+)", shown)[1].split())
    assert recorded.returncode == 0
    assert "18.5" in recorded.stdout


def test_without_a_session_there_is_nothing_to_summarize(tmp_path):
    with pytest.raises(SnapshotMissing, match="type pytest --agentreplay-runs=STORE"):
        read_latest(tmp_path)


def test_workers_of_xdist_share_the_runs_and_the_controller_groups_them(store):
    store.project.write(test_own="def test_own(): pass\n")  # no path is named: it stays out
    store.changed(IN_CALL, NO_REFUND)
    assert store.count("-p", "xdist", "-n", "1", code=1) == "12 runs: 6 same, 6 no longer call refund"


def test_a_sample_has_each_kind_before_a_second_of_one_and_is_the_same_each_time(store):
    names = re.findall(r"runs::(\S+)", store.replay("--agentreplay-sample=5", "-v"))
    kinds = {int(name[-4:]) % 4 if name != "refund/run-0007" else "fails" for name in names}
    assert kinds == {0, 1, 2, 3, "fails"}
    entries = [*RunStore(store.project.root / "runs").list_runs()]
    assert [f"{entry.name}/{entry.id}" for entry in sample(reversed(entries), 5)] == names
    assert sample(entries, 100) == entries


def test_a_recorded_tool_that_nobody_declares_today_is_refused_before_the_start(store):
    (store.project.root / "pytest.ini").unlink()
    toml = store.project.root / "pyproject.toml"
    toml.write_text(TOML, encoding="utf-8")
    said = store.replay(code=1)
    toml.unlink()
    assert "6 failed, 6 passed" in said
    assert "captured  12 runs: 6 same, 6 not replayed\n" in said
    line = (
        r'6 not replayed: tool refund was frozen when recorded, .*; freeze it, in agentreplay_tools: "shop\.refund"\n'
    )
    assert re.search(line, said)
    assert not (store.project.root / "ledger.txt").exists(), "a tool ran for real"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    refund = shop:answer", "    other = shop:answer", "no runner 'refund' is declared"),
        *rare(("shop:answer", "shop:read", "does not take what was captured: missing a required argument")),
    ],
)
def test_a_store_of_which_nothing_could_be_replayed_is_not_green(store, old, new, why):
    store.project.edit("pytest.ini", old, new)
    said = store.replay(code=4)
    assert "captured  12 runs: 0 same, 12 not replayed\n" in said
    assert why in said
    assert "no captured run could be replayed" in said


def test_a_runner_that_cannot_be_imported_is_one_usage_error(store):
    store.changed("import httpx2", "import httpx2, nosuch")
    done = store.project.run("--agentreplay-runs=runs")
    assert done.returncode == 4
    assert done.stderr.count("runner refund = shop:answer: shop cannot be imported") == 1


def test_a_fault_of_the_plugin_is_an_error_and_no_failure_of_the_code(store):
    store.project.write(conftest=FAULT)
    said = store.replay(code=1)
    (store.project.root / "conftest.py").unlink()
    assert "11 passed, 1 error" in said
    assert "ERROR at setup of refund/run-0003" in said
    why = "a fault of agentreplay, not of your code: ZeroDivisionError: division by zero at captured_replay.py:"
    assert f"captured  12 runs: 11 same, 1 not replayed\n          1 not replayed: {why}" in said


@pytest.mark.parametrize(
    ("typed", "selected"),
    [
        (r"C:\shop runs::refund/a", (r"C:\shop runs", "refund/a")),
        ("s3://bucket/runs::refund/2026-11-28/a", ("s3://bucket/runs", "refund/2026-11-28/a")),
        ("simplecache::s3://bucket/runs", None),
        ("sftp://[::1]/runs", None),
    ],
)
def test_a_run_is_selected_behind_its_store(typed, selected):
    match = ITEM.fullmatch(typed)
    assert (match and match.groups()) == selected
    if selected:
        groups = RunGroups(selected[0])
        groups.add(selected[1], "effects", "", 1, 3)
        assert groups.format_line().endswith("; 3 values are new in each run, and count as equal")
        assert shlex.split(groups.list_groups()[0].command) == ["pytest", f"--agentreplay-runs={typed}"]


@pytest.mark.exhaustive
def test_strict_fails_what_cannot_be_replayed_too(store):
    store.project.edit("pytest.ini", "    refund = shop:answer", "    other = shop:answer")
    assert "12 failed" in store.replay("--agentreplay-runs-strict", code=1)


def test_a_run_that_is_cold_newer_or_broken_fails_nothing(store):
    files, kept = store.files[:3], [file.read_text(encoding="utf-8") for file in store.files[:3]]
    try:
        files[0].write_text(
            kept[0].replace('"reason": "all"', '"reason": "all",\n    "cold": "too large"'), encoding="utf-8"
        )
        files[1].write_text(kept[1].replace('"schemaVersion": "1.0"', '"schemaVersion": "9.0"'), encoding="utf-8")
        files[2].write_text(kept[2][:3000], encoding="utf-8")
        said = store.replay("-rs")
    finally:
        for file, text in zip(files, kept, strict=True):
            file.write_text(text, encoding="utf-8")
    assert "captured  12 runs: 9 same, 3 not replayed" in said
    assert re.search(r"1 not replayed: .*format 9\.0", said)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--agentreplay-runs=nowhere"], "--agentreplay-runs=nowhere: there are no captured runs"),
        *rare(
            (["--agentreplay-runs=."], "there are no captured runs"),
            (["--agentreplay-runs=nosuch://x"], "--agentreplay-runs: nosuch://x"),
            (["--agentreplay-runs=runs", "--agentreplay-sample=few"], "takes a number of at least 1, not 'few'"),
            (["--agentreplay-sample=3"], "need --agentreplay-runs=STORE"),
            (["--agentreplay-runs=runs", "--agentreplay-sample=0"], "takes a number of at least 1"),
            (["--agentreplay-runs=runs::refund/run"], "--agentreplay-runs=runs: there is no run refund/run"),
        ),
    ],
)
def test_a_store_without_runs_is_a_usage_error(store, words, why):
    done = store.project.run(*words)
    assert done.returncode == 4
    assert why in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.exhaustive
def test_with_paths_the_runs_are_added_to_what_is_selected(store):
    store.project.write(test_own="def test_own(): pass\n")
    assert "13 passed" in store.replay("test_own.py")


def test_prune_like_keeps_of_each_kind_the_smallest_and_the_newest(store, tmp_path, capsys):
    shutil.copytree(store.project.root / "runs", runs := tmp_path / "runs")
    assert main(["prune", str(runs), "--like", "--dry-run"]) == 0
    assert len([*runs.rglob("*.json")]) == 12
    listed = capsys.readouterr().out
    assert main(["prune", str(runs), "--like"]) == 0
    assert capsys.readouterr().out == listed.replace("unused ", "deleted")
    names = {int(file.name[4:8]) for file in runs.rglob("*.json")}
    assert {7, 8, 9, 10, 11} <= names  # the newest of four kinds, and the one that failed
    assert len(names) <= 9
    assert main(["prune", str(runs), "--like"]) == 5
    assert main(["prune", str(runs)]) == 2


PLANTS = {
    "none": ("", "", 0, "{0} runs: {0} same"),
    "prompt": ("Be kind.", "Be nice.", 0, "{0} runs: 0 same, {0} ask otherwise (system text, line 3)"),
    "argument": (IN_CALL, REFUNDS_MORE, 1, "{0} runs: {1} same, {1} differ in refund $.amount"),
    "dropped write": (IN_CALL, NO_REFUND, 1, "{0} runs: {1} same, {1} no longer call refund"),
    "parsing": (*SHOUTS, 1, "{0} runs: {2} same, {3} answer otherwise ($.answer)"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [60, 1000])
def test_each_planted_change_of_a_corpus_is_named_by_its_group(tmp_path, number):
    with ModelServer(script) as server:
        corpus = Store(Project(tmp_path, server)).capture(number)
    fails = number // 10
    for old, new, code, line in PLANTS.values():
        corpus.furnish()
        expected = line.format(*(f"{each:,}" for each in (number, number // 2, fails, number - fails)))
        assert corpus.changed(old, new).count("-q", code=code) == expected
