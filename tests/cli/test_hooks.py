"""The hooks for pre-commit: its own validator takes them, and each entry takes the files that its pattern chooses."""

import re
import shlex
import shutil

import pytest
import yaml

from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from tests.support.pages import ROOT

pytestmark = pytest.mark.env("main")
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS = {hook["id"]: hook for hook in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))}
KEY = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7dEf0hIj3kLm6nOp9qRs2tUv5wXy8z"


def chosen(hook, root):
    """The files below `root` that pre-commit hands to a hook, relative, as it does."""
    names = sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())
    return [name for name in names if re.search(hook["files"], name)]


@pytest.fixture
def committed(root, typed):
    """A project with 150 snapshots and two cases of this repository; returns what runs a hook over all of its files."""
    folder = root / "tests" / "__agent_snapshots__" / "test_a"
    folder.mkdir(parents=True)
    for number in range(150):
        run = Run(Header(f"tests/test_a.py::test_{number}"), (Exchange(ToolCall("lookup"), ToolReply("late"), 1, 2),))
        (folder / f"test_{number}.snapshot.json").write_text(codec.dumps(run), encoding="utf-8", newline="")
    for name in ("refund", "search-loop"):
        shutil.copytree(ROOT / "cases" / name, root / "cases" / name)

    def run(name):
        hook = HOOKS[name]
        command, *words = shlex.split(hook["entry"])
        assert (command, hook["language"], hook.get("pass_filenames", True)) == ("agentreplay", "python", True)
        return typed(*words, *chosen(hook, root))

    return run


def test_the_validator_of_pre_commit_takes_the_manifest():
    from pre_commit.commands.validate_manifest import validate_manifest

    assert validate_manifest([str(MANIFEST)]) == 0
    assert [*HOOKS] == ["agentreplay-scan", "agentreplay-verify", "agentreplay-lint"]


def test_each_hook_looks_at_its_own_files(committed, root):
    counts = {name: len(chosen(hook, root)) for name, hook in HOOKS.items()}
    assert counts["agentreplay-verify"] == 152
    assert counts["agentreplay-lint"] == 2
    assert counts["agentreplay-scan"] > 154
    for name, hook in HOOKS.items():
        assert not re.search(hook["files"], "src/shop.py"), name


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_passes_where_all_is_well(committed, name):
    told = committed(name)
    assert told.code == 0, told.out + told.err
    assert told.err == ""


def test_a_hook_fails_and_names_the_file(committed, root):
    snapshot = root / "tests" / "__agent_snapshots__" / "test_a" / "test_7.snapshot.json"
    text = snapshot.read_text(encoding="utf-8")
    snapshot.write_text(text.replace('"late"', f'"{KEY}"'), encoding="utf-8", newline="")
    case = root / "cases" / "refund" / "case.yaml"
    case.write_text(case.read_text(encoding="utf-8").replace("expect:", "expects:"), encoding="utf-8")
    for name, file in (
        ("agentreplay-verify", snapshot),
        ("agentreplay-scan", snapshot),
        ("agentreplay-lint", case),
    ):
        told = committed(name)
        assert told.code != 0, name
        assert file.relative_to(root).as_posix() in told.out + told.err


def test_cases_and_a_policy_are_checked_together_in_any_order(committed, root, typed):
    policy = root / "agentreplay-policy.yaml"
    policy.write_text("schemaVersion: '1.0'\n", encoding="utf-8")
    files = chosen(HOOKS["agentreplay-lint"], root)
    assert files[0] == policy.name
    assert typed("case", "lint", *files).code == typed("case", "lint", *reversed(files)).code == 0
    policy.write_text("no: policy\n", encoding="utf-8")
    told = typed("case", "lint", *reversed(files))
    assert told.code != 0
    assert policy.name in told.err
