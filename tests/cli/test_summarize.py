"""`agentreplay summarize BASE..HEAD`: recorded runs of two revisions of a real repository, in words and as data."""

import json
import shlex

import pytest

from pytest_agentreplay.snapshots.store.git_revisions import UNSHALLOW, Repository
from tests.support.git_projects import commit, git

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

SAME, USAGE, DAMAGED = 0, 2, 4
FOLDER = "__agent_snapshots__/test_shop"
TESTS = """
import agent, pytest

@pytest.mark.parametrize("order", ["A-17", "A-18", "A-19"])
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is {order}?")

def test_old(agentreplay):
    assert "refund" in agent.answer("Where is B-1?")

def test_kept(agentreplay):
    assert agent.ask([{"role": "user", "content": "Hello"}], model="m-9", tools=[])["tool_calls"]
"""
CASE = "schemaVersion: '1.0'\nexpect: reproduces\n"
SCHEMA = '{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}'


@pytest.fixture(scope="module")
def shop(shared_project):
    """A repository of three commits: recorded; another prompt and tools, a new and a gone test; a file that moved."""
    project = shared_project()
    project.furnish(TESTS, ini="agentreplay_prices =\n    m-1 = 1000 in, 2000 out\n")
    (project.root / ".gitignore").write_text("ledger.txt\n__pycache__\n", encoding="utf-8")
    (project.root / "cases" / "a").mkdir(parents=True)
    project.put(project.root / "cases" / "a" / "case.yaml", CASE)
    assert project.record("test_shop.py").returncode == SAME
    git(project.root, "init", "-q")
    project.commits = [commit(project.root, "recorded")]
    project.edit("agent.py", "Be brief.", "Be short.")
    project.edit("agent.py", "\ndef ask(", 'SCHEMAS[0]["function"]["description"] = "Find it."\n'
                 'SCHEMAS.append({"type": "function", "function": {"name": "cancel"}})\n\ndef ask(')  # fmt: skip
    project.edit("test_shop.py", "test_old", "test_new")
    project.edit("test_shop.py", "Where is B-1?", "Where is C-2?")
    project.edit("cases/a/case.yaml", "reproduces", "fixed")
    (project.root / FOLDER / "test_old.snapshot.json").unlink()
    assert project.record("test_shop.py").returncode == SAME
    project.commits.append(commit(project.root, "another prompt"))
    git(project.root, "mv", f"{FOLDER}/test_kept.snapshot.json", f"{FOLDER}/test_moved.snapshot.json")
    project.commits.append(commit(project.root, "moved"))
    return project


@pytest.fixture
def summarize(shop, typed, monkeypatch):
    """Summarize revisions of the repository, given by number; nothing is checked out."""
    monkeypatch.chdir(shop.root)

    def run(words, *more):
        revisions = "..".join(shop.commits[int(number)] for number in words.split(".."))
        return typed("summarize", revisions, *more)

    return run


def test_a_prompt_that_changed_in_several_runs_is_told_once_and_the_verdict_comes_first(summarize):
    told = summarize("0..1")
    assert told.code == SAME, told.err
    lines = told.out.splitlines()
    assert lines[0] == (
        "**agentreplay: 4 recorded runs changed (prompt changed in 4, tool schema changed in 4, model reply changed in 4),"
        " 1 case changed.**"
    )
    assert [line for line in lines if line.startswith("**")][1:] == [
        "**Tool schema changed** in 4 tests", "**Model reply changed** in 4 tests", "**Run by run**",
    ]  # fmt: skip
    refunds = ", ".join(f"`test_shop.py::test_refund[A-{number}]`" for number in (17, 18, 19))
    every = f"{refunds}, `test_shop.py::test_new`"
    prompt = (
        f"`turn 1/3: $.messages[0].content` in {every}\n\n```diff\n@@ line 2 @@\n"
        "  You help customers.\n- Be brief.\n+ Be short.\n  Be kind.\n```\n"
    )
    assert told.out.count(prompt) == told.out.count("+ Be short.") == 1
    renamed = "`test_shop.py::test_new` (renamed from `test_shop.py::test_old`)"
    assert f"- {renamed}, {refunds}: prompt changed, tool schema changed, model reply changed\n" in told.out
    assert lines[2] == "Tokens of these runs: 1,370 -> 1,370 (+0), cost: USD 1.4140 -> USD 1.4140."
    assert '+ {"function":{"name":"cancel"},"type":"function"}' in told.out
    assert f'`turn 1/3: $.tools[0].function.description` in {every}\n\n```diff\n- (absent)\n+ "Find it."' in told.out
    assert '- Case `cases/a/case.yaml`: `expect` `"reproduces"` -> `"fixed"`' in told.out
    assert "test_kept" not in told.out, "what did not change is not named"


def test_the_same_as_data_and_to_a_file(summarize, tmp_path):
    data = json.loads(summarize("0..1", "--json").out)
    assert {"verdict", "new", "removed", "renamed", "changed", "shared", "cases", "unreadable"} <= data.keys()
    assert len(data["changed"]) == 4
    request, _ = [shared for shared in data["shared"] if shared["finding"]["code"] == "AR-SCHEMA"]
    assert len(request["tests"]) == 3
    for finding, tests in ((shared["finding"], shared["tests"]) for shared in data["shared"]):
        assert finding["test"] in tests
        assert not [line for line in finding["lines"] if line["what"] == "next"], "no file of today is a revision's"
    file = tmp_path / "comment.md"
    told = summarize("0..1", "--out", file)
    assert (told.code, told.out.startswith(f"{file.as_posix()}: 4 recorded runs changed")) == (SAME, True)
    assert file.read_text(encoding="utf-8") == summarize("0..1").out


def test_a_file_that_moved_is_renamed_and_nothing_to_compare_is_said(summarize, shop):
    assert summarize("1..2").out == (
        "**agentreplay: 1 recorded run renamed.**\n\n**Run by run**\n\n- Renamed, with the same run: "
        f"`{FOLDER}/test_kept.snapshot.json` -> `{FOLDER}/test_moved.snapshot.json`\n"
    )
    assert summarize("2..2").out == "**agentreplay: no recorded run changed.**\n"
    assert summarize("2").out == "**agentreplay: no recorded run changed.**\n"


def test_one_revision_is_compared_with_the_files_here_those_that_git_does_not_know_too(summarize, shop):
    new = shop.root / FOLDER / "test_untracked.snapshot.json"
    new.write_bytes((shop.root / FOLDER / "test_new.snapshot.json").read_bytes())
    broken = shop.root / FOLDER / "test_new.snapshot.json"
    kept = broken.read_bytes()
    try:
        broken.write_bytes(kept[:-40])
        told = summarize("2")
    finally:
        broken.write_bytes(kept)
        new.unlink()
    assert told.code == DAMAGED
    assert told.out.startswith("**agentreplay: 1 recorded run new, 1 cannot be read.**")
    assert f"- cannot be read: `{FOLDER}/test_new.snapshot.json`" in told.out


def test_a_renamed_file_is_paired_before_git_knows_it_and_the_index_stays_as_it_is(tmp_path):
    old, new = tmp_path / "a.snapshot.json", tmp_path / "b.snapshot.json"
    old.write_text("".join(f"line {number}\n" for number in range(50)), encoding="utf-8")
    git(tmp_path, "init", "-q")
    base = commit(tmp_path, "recorded")
    text = old.read_text(encoding="utf-8").replace("line 7\n", "another\n")
    old.unlink()
    assert Repository(tmp_path).find_renamed(base) == {}
    new.write_text(text, encoding="utf-8")
    assert Repository(tmp_path).find_renamed(base) == {"b.snapshot.json": "a.snapshot.json"}
    assert git(tmp_path, "status", "--porcelain").split() == ["D", "a.snapshot.json", "??", "b.snapshot.json"]


def test_three_dots_compare_with_where_the_branches_forked(shop, typed, monkeypatch):
    monkeypatch.chdir(shop.root)
    git(shop.root, "branch", "-f", "side", shop.commits[1])
    told = typed("summarize", f"{shop.commits[2]}...side")
    assert told.out == "**agentreplay: no recorded run changed.**\n"


def test_three_dots_without_a_common_commit_say_what_to_type(shop, typed, monkeypatch, tmp_path):
    monkeypatch.chdir(shop.root)
    unrelated = git(shop.root, "commit-tree", "-m", "unrelated", f"{shop.commits[2]}^{{tree}}")
    told = typed("summarize", f"{unrelated}...HEAD")
    assert (told.code, told.out, "agentreplay summarize" in told.err) == (USAGE, "", True)
    assert typed("summarize", *told.err.split()[-1:]).out == "**agentreplay: no recorded run changed.**\n"
    git(tmp_path, "clone", "-q", "--depth", "1", shop.root.as_uri(), "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    unrelated = git(tmp_path / "shallow", "commit-tree", "-m", "unrelated", "HEAD^{tree}")
    assert typed("summarize", f"{unrelated}...HEAD").err.endswith(f": {UNSHALLOW}\n")


@pytest.fixture
def clone(shop, tmp_path, monkeypatch):
    """A clone, in which a branch began at the first commit and has the second; its default branch went on."""
    git(tmp_path, "clone", "-q", shop.root.as_uri(), "clone")
    root = tmp_path / "clone"
    git(root, "checkout", "-q", "-B", "work", shop.commits[1])
    git(root, "update-ref", "refs/remotes/origin/HEAD", shop.commits[2])
    git(root, "update-ref", "refs/remotes/origin/next", shop.commits[0])
    monkeypatch.chdir(root)
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)
    return root


def test_without_revisions_it_compares_with_where_the_branch_left_the_default_branch(clone, shop, typed, monkeypatch):
    since = f"Compared with `origin/HEAD` at `{shop.commits[1][:12]}`."
    assert typed("summarize").out == f"**agentreplay: no recorded run changed.**\n\n{since}\n"
    (clone / FOLDER / "test_new.snapshot.json").unlink()
    assert typed("summarize").out.startswith(
        "**agentreplay: 1 recorded run removed.**\n\nTokens of these runs: 341 -> 0"
    )
    monkeypatch.setenv("GITHUB_BASE_REF", "next")
    told = typed("summarize").out
    assert told.startswith("**agentreplay: 3 recorded runs changed")
    assert f"Compared with `origin/next` at `{shop.commits[0][:12]}`." in told


def test_without_a_default_branch_it_says_what_to_type(clone, shop, typed, monkeypatch, tmp_path):
    git(clone, "remote", "remove", "origin")
    for name in git(clone, "for-each-ref", "--format=%(refname)").splitlines():
        if name != "refs/heads/work":
            git(clone, "update-ref", "-d", name)
    told = typed("summarize")
    missing = "there is no origin/HEAD here, nor origin/main, origin/master, main, master"
    typed_next = "name what to compare with: agentreplay summarize BASE..HEAD"
    assert (told.code, told.err) == (USAGE, f"agentreplay: {missing}; {typed_next}\n")
    monkeypatch.setenv("GITHUB_BASE_REF", "next")
    assert "there is no origin/next here, nor next; name" in typed("summarize").err
    git(tmp_path, "clone", "-q", "--depth", "1", shop.root.as_uri(), "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    assert typed("summarize").err.endswith(f"; a shallow clone lacks older commits and other branches: {UNSHALLOW}\n")
    monkeypatch.delenv("GITHUB_BASE_REF")
    git(tmp_path / "shallow", *shlex.split(UNSHALLOW)[1:])
    assert typed("summarize").out.startswith("**agentreplay: ")


def test_what_is_no_revision_and_what_is_no_repository_is_usage(shop, typed, monkeypatch, tmp_path):
    monkeypatch.chdir(shop.root)
    for words in ("nope..HEAD", "HEAD..nope", "--output=x", "HEAD:agent.py"):
        told = typed("summarize", "--", words)
        assert (told.code, told.out) == (USAGE, "")
        assert told.err.endswith(": git knows no such revision here\n"), "this clone is not shallow"
    monkeypatch.chdir(tmp_path)
    told = typed("summarize", "HEAD")
    assert (told.code, "not a git repository" in told.err) == (USAGE, True)
