"""What a project needs in its git repository: lines of two files. `workflow` has the one that replays its tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from pytest_agentreplay.cli.project_setup.pytest_configuration import text_of
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.layout import PRIVATE

IGNORED = f"{PRIVATE}/"
ATTRIBUTES = "*.snapshot.json text eol=lf diff=agentreplay"
WORKFLOW = Path(".github", "workflows", "agentreplay.yml")
OTHER_SERVICES = (
    ".gitlab-ci.yml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    ".circleci",
    "bitbucket-pipelines.yml",
    ".travis.yml",
)
RUNS_TESTS = re.compile(r"^(?!\s*#).*\b(?:pytest|tox|nox)\b", re.MULTILINE)


def repository_above(folder: Path) -> Path | None:
    """Return the top of the git repository that `folder` lies in; None where it lies in none."""
    return next((up for up in (folder, *folder.parents) if files.exists(up / ".git")), None)


def with_ignored(text: str) -> str:
    """Return a .gitignore that leaves out the plugin's own folder."""
    forms = {f"{before}{PRIVATE}{after}" for before in ("", "/", "**/") for after in ("", "/", "/*", "/**")}
    return text if forms & {line.strip() for line in text.splitlines()} else with_line(text, IGNORED)


def with_attributes(text: str) -> str:
    """Return a .gitattributes that shows snapshots as transcripts and keeps their line ends."""
    present = [line.split() for line in text.splitlines()]
    given = {
        word.lstrip("-!").partition("=")[0]
        for words in present
        if words[:1] == ["*.snapshot.json"]
        for word in words[1:]
    }
    pattern, *attributes = ATTRIBUTES.split()
    missing = [word for word in attributes if word.partition("=")[0] not in given]
    return with_line(text, " ".join([pattern, *missing])) if missing else text


def with_line(text: str, line: str) -> str:
    """Return `text` with a line at its end, with the line ends that it has."""
    end = "\r\n" if "\r\n" in text else "\n"
    return f"{text}{end if text and not text.endswith(chr(10)) else ''}{line}{end}"


def workflow_running_tests(top: Path) -> Path | None:
    """Return the file of the repository that has a service run its tests; None where there is none."""
    folder = top / WORKFLOW.parent
    workflows = [folder / name for name in sorted(files.names_in(folder)) if name.endswith((".yml", ".yaml"))]
    running = (file for file in workflows if RUNS_TESTS.search(text_of(file) or ""))
    others = (top / name for name in OTHER_SERVICES if files.exists(top / name))
    return next(running, None) or next(others, None)


def ignored_snapshots(root: Path, directory: str) -> str:
    """Return the rule of git that leaves snapshots out of commits; "" for none, or where git is not installed."""
    git = shutil.which("git")
    if git is None:
        return ""
    example = f"tests/{directory}/test_example/test_example.snapshot.json"
    command = [git, "check-ignore", "-v", "--no-index", "--", example]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  fixed words
    return done.stdout.partition("\t")[0] if done.returncode == 0 else ""
