"""The examples of the documentation: their fixed agents hold on neighbours, and their checks depend on replies."""

import shutil
import tomllib

import pytest

from tests.support.pages import ROOT
from tests.support.project import NOBODY

RUNNERS = {
    "order-lookup-privacy": "orders-fixed",
    "price-at-three": "prices-fixed",
    "refund-claims-success": "refund-fixed",
    "sales-at-midnight": "sales-fixed",
    "search-loop": "search-fixed",
}


@pytest.fixture
def examples(project):
    """The cases of the documentation, each said to be fixed, beside the agents that are."""
    shutil.copytree(ROOT / "docs" / "examples", project.root / "examples")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    lines = ["[pytest]", "pythonpath = ."]
    for key in ("agentreplay_tools", "agentreplay_runners"):
        lines += [f"{key} =", *(f"    {row}" for row in settings[key])]
    (project.root / "pytest.ini").write_text("\n".join(lines), encoding="utf-8")
    for name, runner in RUNNERS.items():
        folder = project.root / "cases" / name
        shutil.copytree(ROOT / "cases" / name, folder)
        text = (folder / "case.yaml").read_text(encoding="utf-8").replace("expect: reproduces", "expect: fixed")
        rows = [f"runner: {runner}" if row.startswith("runner:") else row for row in text.splitlines()]
        (folder / "case.yaml").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return project


def test_the_fixed_agents_hold_on_their_neighbours_and_no_case_is_vacuous(examples):
    done = examples.run("cases", "-o", "agentreplay_neighbours=6", MODEL_URL=NOBODY)
    assert done.returncode == 0, done.stdout
    assert "30 neighbours of fixes, 30 hold" in done.stdout
    for name in RUNNERS:
        done = examples.command("check", "assertions", f"cases/{name}", MODEL_URL=NOBODY)
        assert done.returncode == 0, done.stdout + done.stderr
