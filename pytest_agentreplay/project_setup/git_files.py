"""What a project needs in its git repository: lines of two files, and a workflow that replays its tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.project_setup.pytest_configuration import read_table, text_of
from pytest_agentreplay.store import files
from pytest_agentreplay.store.layout import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterator

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
DISTRIBUTION = "frozen-agentreplay"
TEXT = """\
name: agentreplay
on: [push, pull_request]
permissions:
  contents: read
jobs:
  replay:
    runs-on: ubuntu-latest{folder}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "{python}"
{install}
      - run: pytest --replay=model
"""


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


def workflow_text(top: Path, root: Path) -> str:
    """Return a workflow that installs the project in `root` and replays its tests."""
    inside = root.relative_to(top).as_posix()
    folder = "" if inside == "." else f"\n    defaults:\n      run:\n        working-directory: {yaml_text(inside)}"
    install = "\n".join(f"      - run: {command}" for command in install_commands(root))
    python = ".".join(map(str, sys.version_info[:2]))
    return TEXT.format(folder=folder, python=python, install=install)


def yaml_text(value: str) -> str:
    """Return `value` quoted for YAML."""
    return "'" + value.replace("'", "''") + "'"


def install_commands(root: Path) -> Iterator[str]:
    """Return the commands that install a project with what its tests need, as far as its files say."""
    pyproject = root / "pyproject.toml"
    text = text_of(pyproject) or ""
    project: dict[str, Any] = read_table(pyproject, text, ("project",)) or {}
    groups: dict[str, Any] = read_table(pyproject, text, ("dependency-groups",)) or {}
    known = [text]
    if project or files.exists(root / "setup.py"):
        extra = first_of(project.get("optional-dependencies", {}))
        yield f'pip install -e ".[{extra}]"' if extra else "pip install -e ."
    if group := first_of(groups):
        yield f"pip install --group {group}"
    for name in files.names_in(root):
        if re.fullmatch(r"(?:dev-|test-)?requirements(?:[-_](?:dev|tests?))?\.txt", name):
            known.append(text_of(root / name) or "")
            yield f"pip install -r {name}"
    missing = [name for name in ("pytest", DISTRIBUTION) if not any(mentions(each, name) for each in known)]
    if missing:
        yield f"pip install {' '.join(missing)}"


def mentions(text: str, distribution: str) -> bool:
    """Whether a text names a requirement: `pytest>=8`, neither `pytest-cov` nor `[tool.pytest]`."""
    return bool(re.search(rf"(?m)(?:^|[\"'])\s*{re.escape(distribution)}\s*(?:[\[=<>~!;\"'@]|$)", text))


def first_of(groups: object) -> str:
    """Return the group of requirements that tests need, by its usual names; "" for none."""
    names = ("test", "tests", "testing", "dev")
    return next((name for name in names if isinstance(groups, dict) and name in groups), "")


def ignored_snapshots(root: Path, directory: str) -> str:
    """Return the rule of git that leaves snapshots out of commits; "" for none, or where git is not installed."""
    git = shutil.which("git")
    if git is None:
        return ""
    example = f"tests/{directory}/test_example/test_example.snapshot.json"
    command = [git, "check-ignore", "-v", "--no-index", "--", example]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  fixed words
    return done.stdout.partition("\t")[0] if done.returncode == 0 else ""
