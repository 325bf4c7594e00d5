"""`git bisect run agentreplay replay CASE|SNAPSHOT`: the guilty commit of a real repository, a broken one skipped."""

import os
import subprocess

import pytest

from tests.support import forking
from tests.support.case_project import STRICT, opened
from tests.support.project import NOBODY
from tests.support.small_projects import passed, recorded

pytestmark = pytest.mark.process

BREAKS, REPAIRS = (
    ("import json, os", "import shop_ledger, json, os"),
    ("import shop_ledger, json, os", "import json, os"),
)


def git(project, *words):
    """Run git in the project, as nobody has configured it; gives what it printed."""
    environ = project.surroundings(MODEL_URL=NOBODY, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    environ["PYTEST_ADDOPTS"] = " ".join(project.options)
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid", *words]
    return passed(subprocess.run(command, cwd=project.root, env=environ, capture_output=True, text=True)).stdout


def searched(project, agent, guilty, *words):
    """Make eight commits: the fourth cannot be imported, the sixth is guilty. Gives what git says and its log."""
    git(project, "init", "-q")
    git(project, "add", ".")
    edits = {4: BREAKS, 5: REPAIRS, 6: guilty}
    commits = {}
    for number in range(1, 9):
        if number in edits:
            project.edit(agent, *edits[number])
        git(project, "commit", "-qam", f"commit {number}", "--allow-empty")
        commits[number] = git(project, "rev-parse", "HEAD").strip()
    git(project, "bisect", "start", commits[8], commits[1])
    said = git(project, "bisect", "run", *forking.command_of("pytest_agentreplay"), "replay", *words)
    log = git(project, "bisect", "log")
    git(project, "bisect", "reset")
    return said, log, commits


def check(said, log, commits):
    assert f"{commits[6]} is the first bad commit" in said
    assert f"git bisect skip {commits[4]}" in log
    assert f"git bisect good {commits[5]}" in log
    assert f"git bisect bad {commits[6]}" in log


def test_a_case_finds_the_commit_that_brought_its_failure_back(project):
    docket = opened(project)
    docket.case(expect="fixed", more=STRICT)
    docket.root.joinpath("shop.py").write_text(
        docket.root.joinpath("shop.py").read_text().replace('"AGENT", "broken"', '"AGENT", "fixed"')
    )
    check(*searched(project, "shop.py", ('"AGENT", "fixed"', '"AGENT", "broken"'), "cases/refund"))


def test_a_snapshot_finds_the_commit_that_changed_what_is_asked(project):
    recorded(project)
    guilty = ("Be brief.", "Be short.")
    check(*searched(project, "agent.py", guilty, project.files[0].relative_to(project.root)))
