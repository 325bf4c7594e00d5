"""What is promised runs somewhere: the workflow meets every Python, system, pytest and environment that we name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = {file.stem for file in (ROOT / "tests" / "envs").glob("*.txt")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SYSTEMS = {"ubuntu-latest", "macos-latest", "windows-latest"}
ROOMS = {"architecture", "core", "codec", "store", "plugin", "compatibility"}


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))


def words(job):
    """What a job runs, in one text."""
    return "\n".join(step.get("run", "") for step in job["steps"])


def matrix(job):
    return job.get("strategy", {}).get("matrix", {})


def test_every_python_that_we_name_runs_on_every_system(workflow):
    named = {found[1] for line in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))}
    job = workflow["jobs"]["systems"]
    assert named
    assert set(matrix(job)["python"]) == named
    assert set(matrix(job)["os"]) == SYSTEMS
    assert not {"exclude", "include"} & set(matrix(job)), "no system is left out by the back door"
    assert job["runs-on"] == "${{ matrix.os }}"
    rooms = set(re.findall(r"\btests/(\w+)(?=\s|$)", words(job).partition("pytest ")[2]))
    assert rooms >= ROOMS
    assert all((ROOT / "tests" / room).is_dir() for room in rooms)


def test_the_lowest_the_newest_and_the_coming_pytest_run(workflow):
    (lowest,) = (line.partition(">=")[2] for line in PROJECT["dependencies"] if line.startswith("pytest>="))
    job = workflow["jobs"]["pytests"]
    assert matrix(job)["pytest"] == [f"pytest=={lowest}.*", "pytest", "git+https://github.com/pytest-dev/pytest"]
    assert '"${{ matrix.pytest }}"' in words(job)


def test_every_environment_is_run_by_some_job(workflow):
    text = "\n".join(map(words, workflow["jobs"].values()))
    job = workflow["jobs"]["environments"]
    assert set(matrix(job)["env"]) | {"main"} == ENVIRONMENTS
    assert "pytest --env ${{ matrix.env }}" in words(job)
    assert "pip install -r tests/envs/${{ matrix.env }}.txt" in words(job)
    assert "pip install -r tests/envs/main.txt" in text


def test_both_ways_of_installing_run_on_every_system(workflow):
    job = workflow["jobs"]["installs"]
    assert set(matrix(job)["os"]) == SYSTEMS
    assert set(matrix(job)["install"]) == {"wheel", "editable"}
    assert {step["if"] for step in job["steps"] if "if" in step} == {
        "matrix.install == 'wheel'",
        "matrix.install == 'editable'",
    }
    assert "tests/smoke.py" in words(job)
    assert "agentreplay demo" in words(job)


def test_ci_run_is_run_and_no_job_is_soft(workflow):
    jobs = workflow["jobs"]
    assert "bash .ci/run" in words(jobs["suite"])
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    for name, job in jobs.items():
        assert 0 < job["timeout-minutes"] <= 60, name
        assert job.get("strategy", {}).get("fail-fast", False) is False, name
        assert "continue-on-error" not in str(job), name
        assert "permissions" not in job, name
        for step in job["steps"]:
            assert "|| true" not in step.get("run", ""), name
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), f"{name}: {step['uses']}"
