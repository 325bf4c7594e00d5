"""What is promised runs somewhere: the workflow meets every Python, system, pytest and environment that we name."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

from tests.support.package_sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def workflow(name):
    """Return a workflow of GitHub's, as it is written."""
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))


WORKFLOW = workflow("ci")
JOBS = WORKFLOW["jobs"]
SYSTEMS = {"ubuntu-latest", "macos-latest", "windows-latest"}
ROOMS = {"architecture", "model", "values", "redaction", "compare", "backends", "snapshots", "plugin", "compatibility"}


def job(name):
    """(the matrix, all that is run in one text) of a job."""
    return JOBS[name].get("strategy", {}).get("matrix", {}), "\n".join(s.get("run", "") for s in JOBS[name]["steps"])


def test_every_python_that_we_name_runs_on_every_system():
    named = {found[1] for line in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))}
    matrix, words = job("systems")
    assert named
    assert (set(matrix["python"]), set(matrix["os"])) == (named, SYSTEMS)
    assert not {"exclude", "include"} & set(matrix), "no system is left out by the back door"
    assert JOBS["systems"]["runs-on"] == "${{ matrix.os }}"
    rooms = set(re.findall(r"\btests/(\w+)(?=\s|$)", words.partition("pytest ")[2]))
    assert rooms >= ROOMS
    assert all((ROOT / "tests" / room).is_dir() for room in rooms)


def test_the_lowest_the_newest_and_the_coming_pytest_run():
    (lowest,) = (line.partition(">=")[2] for line in PROJECT["dependencies"] if line.startswith("pytest>="))
    matrix, words = job("pytests")
    assert matrix["pytest"] == [f"pytest=={lowest}.*", "pytest", "git+https://github.com/pytest-dev/pytest"]
    assert '"${{ matrix.pytest }}"' in words


def test_every_environment_is_run_each_night():
    (nightly,) = workflow("nightly")["jobs"].values()
    assert nightly["steps"][-1]["run"] == "bash .ci/run --all"
    assert 0 < nightly["timeout-minutes"] <= 180
    assert "for list in tests/envs/*.txt; do" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert any("pip install -r tests/envs/main.txt" in job(name)[1] for name in JOBS)


def test_both_ways_of_installing_run_on_every_system():
    matrix, words = job("installs")
    assert (set(matrix["os"]), set(matrix["install"])) == (SYSTEMS, {"wheel", "editable"})
    conditions = {step["if"] for step in JOBS["installs"]["steps"] if "if" in step}
    assert conditions == {"matrix.install == 'wheel'", "matrix.install == 'editable'"}
    assert "tests/smoke.py" in words
    assert "agentreplay demo" in words


def test_ci_run_is_run():
    assert "bash .ci/run" in job("suite")[1]
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["concurrency"]["cancel-in-progress"] is True


@pytest.mark.parametrize("name", JOBS)
def test_no_job_is_soft(name):
    told = JOBS[name]
    assert 0 < told["timeout-minutes"] <= 60
    assert told.get("strategy", {}).get("fail-fast", False) is False
    assert not any(word in str(told) for word in ("continue-on-error", "permissions", "|| true"))
    uses = [step["uses"] for step in told["steps"] if "uses" in step]
    assert not [action for action in uses if not re.fullmatch(r"actions/[\w-]+@v\d+", action)]
