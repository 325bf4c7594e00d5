"""What a project needs in its git repository: lines of two files, and the workflow that replays its tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.project_setup.pytest_configuration import text_of
from pytest_agentreplay.intercept.gateway.routes import VARIABLES, bases_in
from pytest_agentreplay.snapshots.store import files, projects, reading, snapshots
from pytest_agentreplay.snapshots.store.layout import DIRECTORY, PRIVATE

if TYPE_CHECKING:
    from pytest_agentreplay.cli.project_setup.project_modules import ProjectModules


IGNORED = f"{PRIVATE}/"
# A merge line by line would mix two recordings, and leave marks in the file. `-merge` keeps this branch's file whole,
# and has git report a conflict; unlike a driver of our own it needs no configuration, which each clone would lack.
# https://git-scm.com/docs/gitattributes#_performing_a_three_way_merge
ATTRIBUTES = "*.snapshot.json text eol=lf diff=agentreplay -merge"
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
    """Return a .gitattributes that shows snapshots as transcripts, keeps their line ends and merges none by lines."""
    pattern, *attributes = ATTRIBUTES.split()
    present = [words[1:] for line in text.splitlines() if (words := line.split())[:1] == [pattern]]
    names = {name_attribute(word) for words in present for word in words}
    missing = [word for word in attributes if name_attribute(word) not in names]
    return with_line(text, " ".join([pattern, *missing])) if missing else text


def name_attribute(word: str) -> str:
    """Return the name of an attribute that is set, unset (`-merge`) or given a value (`eol=lf`)."""
    return word.lstrip("-!").partition("=")[0]


def with_line(text: str, line: str) -> str:
    """Return `text` with a line at its end, with the line ends that it has."""
    end = "\r\n" if "\r\n" in text else "\n"
    return f"{text}{end if text and not text.endswith(chr(10)) else ''}{line}{end}"


def workflow_running_tests(top: Path) -> Path | None:
    """Return the file of the repository that has a service run its tests; None where there is none."""
    folder = top / WORKFLOW.parent
    workflows = [folder / name for name in sorted(files.list_names(folder)) if name.endswith((".yml", ".yaml"))]
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
    "uv.lock": ("uv", "uv sync --locked --all-extras --all-groups", "uv run --no-sync ", "uv "),
    "poetry.lock": ("poetry", "poetry install --all-extras --all-groups", "poetry run ", "poetry run "),
    "Pipfile": ("pipenv", "pipenv install --dev", "pipenv run ", "pipenv run "),
}
"""File -> its program, what installs from it, and what stands before a command of that environment and before `pip`."""
REQUIREMENTS = re.compile(r"(?!.*(?:constr|doc|lint))(?:(?:ci|dev|tests?)[-_.])?requirements(?:[-_./][\w.-]+)?\.txt")
"""Files of requirements; those of documentation and style are left out."""
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
BASE_URLS = ("ANTHROPIC_BASE_URL", "AZURE_OPENAI_ENDPOINT", "GOOGLE_GEMINI_BASE_URL", "OPENAI_BASE_URL")
"""The variables from which the SDKs have the address of another server than their own."""


def workflow_text(top: Path, root: Path, project: ProjectModules) -> str:
    """Return a workflow for the tests of `project`, in the folder `root` of the repository at `top`.

    What no file names, pytest and the plugin, is installed beside the project.
    """
    folders = ((up, *installation(up, top)) for up in (root, *root.parents) if up.is_relative_to(top))
    place, commands, declared, run, pip = next((row for row in folders if row[1]), (root, [], "", "", ""))
    packages = dict.fromkeys((*([] if commands else imported_packages(project)), "pytest", DISTRIBUTION))
    if missing := [name for name in packages if not mentions(declared, name)]:
        commands.append(f"{pip}pip install {' '.join(missing)}")
    steps = [f"      - run: {command}" for command in (*commands, f"{run}pytest --replay=model")]
    if place != root:
        steps.append(f"        working-directory: {quote_path(root, top)}")
    folder = "" if place == top else f"\n    defaults:\n      run:\n        working-directory: {quote_path(place, top)}"
    variables = dict.fromkeys(keys_of(project), "replayed-and-never-sent") | base_urls(root)
    needed = "".join(f"\n      {name}: {value}" for name, value in sorted(variables.items()))
    keys = needed and f"\n    env:{needed}"
    return TEXT.format(folder=folder, keys=keys, python="{}.{}".format(*sys.version_info), steps="\n".join(steps))


def quote_path(folder: Path, top: Path) -> str:
    """Return the path of a folder in its repository, quoted for YAML."""
    return "'" + folder.relative_to(top).as_posix().replace("'", "''") + "'"


def keys_of(project: ProjectModules) -> set[str]:
    """Return the variables without which a client cannot be made when its module is imported, before any test."""
    imported = [f"{path}." for path in project.imported if project.owner(path) is None]
    return project.keys | {
        key for key, names in KEYS.items() if any(path.startswith(f"{name}.") for path in imported for name in names)
    }


def base_urls(root: Path) -> dict[str, str]:
    """Return the variables that send SDKs to the servers that the project at `root` was recorded with.

    A snapshot may be a stranger's: a value that YAML or GitHub would read as more than a URL is left out.
    """
    recorded = snapshots.everywhere(root, projects.ini_value(root, "agentreplay_dir") or DIRECTORY)
    bases = bases_in([exchange.call for file in recorded for exchange in reading.load(file).run.exchanges])
    urls = {name: bases[provider] for name, provider, _ in VARIABLES if name in BASE_URLS and provider in bases}
    return {name: url for name, url in urls.items() if re.fullmatch(r"https?://[\w.:/-]+", url)}


def imported_packages(project: ProjectModules) -> list[str]:
    """Return the installed distributions that a project imports, also one that another needs (`agno.models.openai`)."""
    imported = {part for path in project.imported if project.owner(path) is None for part in path.split(".")}
    return sorted({name for top, names in packages_distributions().items() if top in imported for name in names})


def installation(folder: Path, top: Path) -> tuple[list[str], str, str, str]:
    """Return how the project in `folder`, and what its tests need, is installed; no commands where nothing says so.

    The commands, the text that declares what they install, and what stands before a command and before `pip` then.
    """
    text = text_of(folder / "pyproject.toml") or ""
    document = projects.read_toml(folder / "pyproject.toml", text)
    lock = lock_of(folder, top) or ("poetry" in document.get("tool", {}) and folder / "poetry.lock")
    if lock and (text or lock.name == "Pipfile"):
        program, install, run, pip = LOCKED[lock.name]
        return [f"pip install {program}", install], f"{text}\n{text_of(lock)}", run, pip
    project, commands = document.get("project", {}), []
    extras, groups = map(for_tests, (project.get("optional-dependencies", {}), document.get("dependency-groups", {})))
    if document.keys() & {"build-system", "project"} or files.exists(folder / "setup.py"):
        commands.append(f'pip install -e ".[{",".join(extras)}]"' if extras else "pip install -e .")
    commands += [f"pip install --group {name}" for name in groups]
    names = [*files.list_names(folder), *(f"requirements/{name}" for name in files.list_names(folder / "requirements"))]
    requirements = [name for name in names if REQUIREMENTS.fullmatch(name)]
    commands += [f"pip install -r {name}" for name in requirements]
    declared = f"{[project.get('dependencies'), extras, groups]}"
    return commands, "\n".join([declared, *(text_of(folder / name) or "" for name in requirements)]), "", ""


def for_tests(groups: dict[str, object]) -> dict[str, object]:
    """Return the extras or groups of dependencies that tests need: by their name, or because pytest is among them."""
    return {name: value for name, value in groups.items() if name in GROUPS or mentions(str(value), "pytest")}


def lock_of(folder: Path, top: Path) -> Path | None:
    """Return the lock, or the Pipfile, that `folder` is installed from; the members of a workspace of uv share one."""
    shared = [up / "uv.lock" for up in folder.parents if up.is_relative_to(top)]
    return next(filter(files.exists, [*(folder / name for name in LOCKED), *shared]), None)


def mentions(text: str, distribution: str) -> bool:
    """Return whether a text names a requirement: `pytest>=8`, neither `pytest-cov` nor `[tool.pytest]`."""
    return bool(re.search(rf"(?m)(?:^|[\"'])\s*{re.escape(distribution)}\s*(?:[\[=<>~!;\"'@]|$)", text))
