"""The GitHub action `.github/actions/review`: its metadata, and its steps run here, by real git, pytest and jq.

GitHub runs the same steps; only `gh`, which speaks to its API, is a script of ours that keeps the comments in a file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.git_projects import NOBODYS, commit, git
from tests.support.package_sources import ROOT
from tests.support.project import NOBODY

pytestmark = [
    pytest.mark.env("main"),
    pytest.mark.skipif(sys.platform == "win32", reason="runs bash scripts, as the runners on Linux do"),
]

FOLDER = ROOT / ".github" / "actions" / "review"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
GH = r"""#!{python}
# `gh api`: comments of a pull request in a file; `--jq` is done by jq.
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
assert words.pop(0) == "api" and os.environ["GH_TOKEN"] == "the-token-of-the-workflow"
if os.environ.get("REFUSED"):
    sys.exit("HTTP 403: Resource not accessible by integration")
store = pathlib.Path(os.environ["COMMENTS"])
comments = json.loads(store.read_text())
path = next(word for word in words if word.startswith("repos/"))
method = words[words.index("--method") + 1] if "--method" in words else "GET"
if method == "GET":
    assert path == "repos/shop/agent/issues/7/comments" and "--paginate" in words
    print(subprocess.run(["jq", "-r", words[words.index("--jq") + 1]], input=json.dumps(comments), text=True,
                         capture_output=True, check=True).stdout, end="")
    sys.exit()
body = pathlib.Path(words[words.index("--field") + 1].removeprefix("body=@")).read_text(encoding="utf-8")
if method == "POST":
    assert path == "repos/shop/agent/issues/7/comments"
    comments.append({{"id": len(comments) + 1, "body": body, "user": {{"type": "Bot"}}, "edited": 0}})
else:
    (comment,) = [each for each in comments if path == f"repos/shop/agent/issues/comments/{{each['id']}}"]
    comment |= {{"body": body, "edited": comment["edited"] + 1}}
store.write_text(json.dumps(comments))
"""


def test_the_metadata_is_that_of_a_composite_action():
    assert {"name", "description", "inputs", "runs"} <= ACTION.keys() <= {
        "name", "description", "inputs", "outputs", "runs", "branding",
    }  # fmt: skip
    assert len(ACTION["description"]) <= 125 + 40
    assert all(set(field) == {"description", "default"} for field in ACTION["inputs"].values())
    assert ACTION["runs"].keys() == {"using", "steps"}
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert ("uses" in step) != ("run" in step)
        assert step.get("shell") == ("bash" if "run" in step else None)
        assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
        assert step.keys() <= {"name", "id", "if", "uses", "with", "run", "shell", "env", "working-directory"}
    text = (FOLDER / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == ACTION["inputs"].keys()
    assert "secrets." not in text
    for script in re.findall(r"\$GITHUB_ACTION_PATH/([\w.]+)", text):
        assert subprocess.run(["bash", "-n", FOLDER / script], check=False).returncode == 0


class Runner:
    """Runs the steps of the action that are commands, as a job for a pull request does."""

    def __init__(self, project, base, folder):
        self.project, self.folder = project, folder
        self.inputs = {name: field["default"] for name, field in ACTION["inputs"].items()}
        self.inputs |= {"install": "true", "pytest-args": "-q -k 'refund or kept'"}
        self.github = {"event_name": "pull_request", "base_ref": base, "event.number": "7"}
        self.github["token"] = "the-token-of-the-workflow"
        self.comments = folder / "comments.json"
        self.comments.write_text("[]")
        programs = folder / "bin"
        programs.mkdir()
        (programs / "gh").write_text(GH.format(python=sys.executable))
        (programs / "gh").chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environ = project.surroundings(
            PATH=path, CI="true", GITHUB_ACTIONS="true", GITHUB_REPOSITORY="shop/agent", GITHUB_RUN_ID="99",
            GITHUB_ACTION_PATH=str(FOLDER), RUNNER_TEMP=str(folder), COMMENTS=str(self.comments), MODEL_URL=NOBODY,
            PYTEST_ADDOPTS=" ".join(project.options), **NOBODYS,
        )  # fmt: skip

    def run(self, **environ):
        """Return what each step ended with, by its name, and the summary of the job."""
        codes, outputs, summary = {}, {}, self.folder / "summary.md"
        summary.write_text("")
        for step in STEPS:
            if "uses" in step:
                continue
            written = self.folder / "output"
            written.write_text("")
            own = {name: self.fill(value, outputs) for name, value in step.get("env", {}).items()}
            own |= {"GITHUB_OUTPUT": str(written), "GITHUB_STEP_SUMMARY": str(summary)}
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.fill(step["run"], outputs)]
            done = subprocess.run(
                command, cwd=self.project.root, env=self.environ | own | environ, capture_output=True, text=True, check=False
            )  # fmt: skip
            self.log = done.stdout + done.stderr
            codes[step["name"]] = done.returncode
            for line in written.read_text().splitlines():
                name, _, value = line.partition("=")
                outputs[f"steps.{step.get('id')}.outputs.{name}"] = value
            if step["name"] == "Replay":
                assert done.returncode == 0, self.log
                self.pages = Path(outputs["steps.replay.outputs.pages"])
            if step["name"] == "Comment":
                self.comment_log = self.log
        return codes, summary.read_text(encoding="utf-8")

    def fill(self, text, outputs):
        """Return a text with its expressions evaluated: names, and the first of several that is not empty."""
        known = {f"inputs.{name}": value for name, value in self.inputs.items()}
        known |= {f"github.{name}": value for name, value in self.github.items()} | outputs
        return re.sub(
            r"\$\{\{ (.+?) \}\}", lambda match: next(filter(None, (known[word] for word in match[1].split(" || "))), ""), text
        )  # fmt: skip


@pytest.fixture
def runner(project, tmp_path_factory):
    """A clone with one commit of history: a branch whose prompt was changed and recorded again, to be merged into main."""
    folder = tmp_path_factory.mktemp("runner")
    (project.root / ".gitignore").write_text("ledger.txt\n__pycache__\n", encoding="utf-8")
    assert project.record("-q").returncode == 0
    git(project.root, "init", "-q", "-b", "main")
    commit(project.root, "recorded")
    git(project.root, "checkout", "-q", "-b", "work")
    project.edit("agent.py", "Be brief.", "Be short.")
    assert project.record("-q").returncode == 0
    commit(project.root, "another prompt")
    git(folder, "clone", "-q", "--depth", "1", "--branch", "work", project.root.as_uri(), "clone")
    project.root = folder / "clone"
    return Runner(project, "main", folder)


def test_one_comment_is_created_then_updated_and_the_job_ends_as_the_replay_did(runner):
    codes, summary = runner.run()
    assert codes == {"Install": 0, "Replay": 0, "Comment": 0, "End as the replay did": 0}
    (first,) = json.loads(runner.comments.read_text())
    assert first["body"].startswith("<!-- agentreplay review: agentreplay-pages -->\n### Replay passed\n")
    assert "[this run](https://github.com/shop/agent/actions/runs/99)" in first["body"]
    assert first["body"].count("- Be brief.\n+ Be short.\n") == summary.count("- Be brief.\n+ Be short.\n") == 1
    assert "Compared with `origin/main` at `" in first["body"]
    assert len([*runner.pages.glob("*.html")]) == 2
    runner.project.edit("agent.py", "Be kind.", "Be curt.")
    codes, summary = runner.run()
    assert codes == {"Install": 0, "Replay": 0, "Comment": 0, "End as the replay did": 1}
    (second,) = json.loads(runner.comments.read_text())
    assert (second["id"], second["edited"]) == (first["id"], 1)
    assert "### Replay failed (exit code 1)\n" in second["body"]
    for text in (second["body"], summary):
        assert "**agentreplay: 1 of 1 tests diverged**" in text
        assert "- Be kind.\n+ Be curt.\n" in text


def test_a_comment_of_a_person_with_the_same_first_line_is_left_alone(runner):
    mark = "<!-- agentreplay review: agentreplay-pages -->\nmine"
    runner.comments.write_text(json.dumps([{"id": 1, "body": mark, "user": {"type": "User"}, "edited": 0}]))
    runner.run()
    person, ours = json.loads(runner.comments.read_text())
    assert (person["body"], ours["id"]) == (mark, 2)


def test_without_the_permission_to_comment_the_summary_has_it_and_no_step_fails(runner):
    codes, summary = runner.run(REFUSED="1")
    assert set(codes.values()) == {0}
    assert json.loads(runner.comments.read_text()) == []
    assert "::notice::This token may not comment" in runner.comment_log
    assert "+ Be short." in summary


def test_what_stands_in_the_way_of_a_comparison_is_said(runner):
    shutil.rmtree(runner.project.root / ".git")
    git(runner.project.root, "init", "-q", "-b", "work")
    runner.run()
    (comment,) = json.loads(runner.comments.read_text())
    assert (
        "Recorded runs were not compared:\n\n    agentreplay: there is no origin/main here, nor main;"
        in comment["body"]
    )
