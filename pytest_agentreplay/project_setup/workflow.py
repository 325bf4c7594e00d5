"""The workflow of GitHub that installs what a project declares, from where it is declared, and replays its tests."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.project_setup.pytest_configuration import read_table, text_of
from pytest_agentreplay.store import files

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
    "uv.lock": (("pip install uv", "uv sync --locked --all-extras --all-groups"), "uv run --no-sync ", "uv "),
    "poetry.lock": (("pip install poetry", "poetry install --all-extras --all-groups"), "poetry run ", "poetry run "),
    "Pipfile.lock": (("pip install pipenv", "pipenv sync --dev"), "pipenv run ", "pipenv run "),
}
"""Lock -> what installs from it, what stands before a command of that environment, and before its `pip install`."""
REQUIREMENTS = re.compile(
    r"(?:dev-|test-)?requirements(?:[-_.](?:dev|tests?))?\.txt|requirements/(?:base|dev|tests?)\.txt"
)
DECLARES = re.compile(r"^\[(?:project|dependency-groups|tool\.poetry)\b", re.MULTILINE)
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


def workflow_text(top: Path, root: Path, project: ProjectModules) -> str:
    """Return a workflow for the tests of `project`, in the folder `root` of the repository at `top`."""
    above = [folder for folder in (root, *root.parents) if folder.is_relative_to(top)]
    place = next((folder for folder in above if declared_in(folder)), root)
    workspace = (place / "pyproject.toml").is_file() and any(files.exists(folder / "uv.lock") for folder in above)
    commands, run = install_commands(place, "uv.lock" if workspace else "")
    steps = [f"      - run: {command}" for command in (*commands, f"{run}pytest --replay=model")]
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


def declared_in(folder: Path) -> list[str]:
    """Return the files of a folder that say what the project needs."""
    names = [*files.names_in(folder), *(f"requirements/{name}" for name in files.names_in(folder / "requirements"))]
    declares = bool(DECLARES.search(text_of(folder / "pyproject.toml") or ""))
    others = {"setup.py", *LOCKED, *(["pyproject.toml"] if declares else [])}
    return [name for name in names if name in others or REQUIREMENTS.fullmatch(name)]


def install_commands(place: Path, lock: str) -> tuple[list[str], str]:
    """Return the commands that install the project in a folder with what its tests need, and what runs a command then.

    `lock` is that of the folders above, for a folder without one. What no file names, pytest and the plugin, is
    installed beside it.
    """
    present = declared_in(place)
    pyproject = place / "pyproject.toml"
    text = text_of(pyproject) or ""
    known, commands, run, pip = [text], list[str](), "", ""
    if lock := next((name for name in LOCKED if name in present), lock):
        known.append(text_of(place / lock) or "")
        installs, run, pip = LOCKED[lock]
        commands += installs
    else:
        project: dict[str, Any] = read_table(pyproject, text, ("project",)) or {}
        groups: dict[str, Any] = read_table(pyproject, text, ("dependency-groups",)) or {}
        if project or "setup.py" in present or read_table(pyproject, text, ("tool", "poetry")):
            extras = ",".join(name for name in GROUPS if name in project.get("optional-dependencies", {}))
            commands.append(f'pip install -e ".[{extras}]"' if extras else "pip install -e .")
        commands += [f"pip install --group {name}" for name in GROUPS if name in groups]
        for name in filter(REQUIREMENTS.fullmatch, present):
            known.append(text_of(place / name) or "")
            commands.append(f"pip install -r {name}")
    missing = [name for name in ("pytest", DISTRIBUTION) if not any(mentions(each, name) for each in known)]
    return commands + [f"{pip}pip install {' '.join(missing)}"] * bool(missing), run


def mentions(text: str, distribution: str) -> bool:
    """Whether a text names a requirement: `pytest>=8`, neither `pytest-cov` nor `[tool.pytest]`."""
    return bool(re.search(rf"(?m)(?:^|[\"'])\s*{re.escape(distribution)}\s*(?:[\[=<>~!;\"'@]|$)", text))
