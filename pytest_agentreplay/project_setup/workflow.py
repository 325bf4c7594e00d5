"""The workflow of GitHub that installs what a project declares, from where it is declared, and replays its tests."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.project_setup.pytest_configuration import text_of
from pytest_agentreplay.store import files
from pytest_agentreplay.store.projects import read_toml

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.project_setup.project_modules import ProjectModules

DISTRIBUTION = "frozen-agentreplay"
TEXT = """\
name: agentreplay
on: [push, pull_request]
permissions:
  contents: read
jobs:
  replay:
    runs-on: ubuntu-latest{folder}{keys}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "{python}"
{steps}
"""
LOCKED = {
    "uv.lock": ("uv sync --locked --all-extras --all-groups", "uv run --no-sync ", "uv "),
    "poetry.lock": ("poetry install --all-extras --all-groups", "poetry run ", "poetry run "),
}
"""Lock -> what installs from it, what stands before a command of that environment, and before its `pip install`."""
REQUIREMENTS = re.compile(
    r"(?:dev-|test-)?requirements(?:[-_.](?:dev|tests?))?\.txt|requirements/(?:base|dev|tests?)\.txt"
)
GROUPS = ("test", "tests", "testing", "dev")
"""The usual names of what tests need, among extras and groups of dependencies."""
KEYS = {
    "ANTHROPIC_API_KEY": ("anthropic", "langchain_anthropic"),
    "AZURE_OPENAI_API_KEY": ("openai.AzureOpenAI", "openai.AsyncAzureOpenAI", "langchain_openai.AzureChatOpenAI"),
    "CO_API_KEY": ("cohere",),
    "GOOGLE_API_KEY": ("google.genai", "langchain_google_genai"),
    "GROQ_API_KEY": ("groq", "langchain_groq"),
    "MISTRAL_API_KEY": ("langchain_mistralai",),
    "OPENAI_API_KEY": ("openai", "agents", "crewai", "langchain_openai", "llama_index"),
    "TOGETHER_API_KEY": ("together", "langchain_together"),
}
"""Variable -> packages whose clients are not made without it."""


class Installation(NamedTuple):
    """The commands that install what a folder declares, its text, and what stands before a command and `pip` then."""

    commands: list[str]
    declared: str
    run: str = ""
    pip: str = ""


def workflow_text(top: Path, root: Path, project: ProjectModules) -> str:
    """Return a workflow for the tests of `project`, in the folder `root` of the repository at `top`.

    What no file names, pytest and the plugin, is installed beside the project.
    """
    above = [folder for folder in (root, *root.parents) if folder.is_relative_to(top)]
    declaring = ((folder, found) for folder in above if (found := installation(folder, top)).commands)
    place, installed = next(declaring, (root, Installation([], "")))
    commands = installed.commands
    if missing := [name for name in ("pytest", DISTRIBUTION) if not mentions(installed.declared, name)]:
        commands.append(f"{installed.pip}pip install {' '.join(missing)}")
    steps = [f"      - run: {command}" for command in (*commands, f"{installed.run}pytest --replay=model")]
    if place != root:
        steps.append(f"        working-directory: {below(root, top)}")
    folder = "" if place == top else f"\n    defaults:\n      run:\n        working-directory: {below(place, top)}"
    needed = "".join(f"\n      {key}: replayed-and-never-sent" for key in keys_of(project))
    keys = needed and f"\n    env:{needed}"
    python = ".".join(map(str, sys.version_info[:2]))
    return TEXT.format(folder=folder, keys=keys, python=python, steps="\n".join(steps))


def below(folder: Path, top: Path) -> str:
    """Return the path of a folder in its repository, quoted for YAML."""
    return "'" + folder.relative_to(top).as_posix().replace("'", "''") + "'"


def keys_of(project: ProjectModules) -> list[str]:
    """Return the variables without which a client cannot be made when its module is imported, before any test."""
    imported = [f"{path}." for path in project.imported if project.owner(path) is None]
    needed = {
        key for key, names in KEYS.items() if any(path.startswith(f"{name}.") for path in imported for name in names)
    }
    return sorted(needed | project.keys)


def installation(folder: Path, top: Path) -> Installation:
    """Return how the project in `folder`, and what its tests need, is installed; no commands where nothing says so."""
    pyproject = folder / "pyproject.toml"
    text = text_of(pyproject) or ""
    if lock := lock_of(folder, top):
        install, run, pip = LOCKED[lock.name]
        return Installation([f"pip install {lock.stem}", install], f"{text}\n{text_of(lock)}", run, pip)
    document = read_toml(pyproject, text)
    project, commands = document.get("project", {}), []
    if project or "poetry" in document.get("tool", {}) or files.exists(folder / "setup.py"):
        extras = ",".join(name for name in GROUPS if name in project.get("optional-dependencies", {}))
        commands.append(f'pip install -e ".[{extras}]"' if extras else "pip install -e .")
    commands += [f"pip install --group {name}" for name in GROUPS if name in document.get("dependency-groups", {})]
    names = [*files.names_in(folder), *(f"requirements/{name}" for name in files.names_in(folder / "requirements"))]
    requirements = [name for name in names if REQUIREMENTS.fullmatch(name)]
    commands += [f"pip install -r {name}" for name in requirements]
    return Installation(commands, "\n".join([text, *(text_of(folder / name) or "" for name in requirements)]))


def lock_of(folder: Path, top: Path) -> Path | None:
    """Return the lock from which the project in `folder` is installed; the members of a workspace of uv share one."""
    above = folder.parents if files.exists(folder / "pyproject.toml") else ()
    shared = [up / "uv.lock" for up in above if up.is_relative_to(top)]
    return next(filter(files.exists, [*(folder / name for name in LOCKED), *shared]), None)


def mentions(text: str, distribution: str) -> bool:
    """Whether a text names a requirement: `pytest>=8`, neither `pytest-cov` nor `[tool.pytest]`."""
    return bool(re.search(rf"(?m)(?:^|[\"'])\s*{re.escape(distribution)}\s*(?:[\[=<>~!;\"'@]|$)", text))
