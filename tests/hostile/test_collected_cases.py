"""Case files from strangers, collected by pytest: nothing of them breaks the collection, acts or reaches a log raw."""

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

from shown import forbidden, speaks_to_ci

CASE = Path(__file__).parents[2] / "cases" / "order-lookup-privacy"
LABELS = r'["_x", "__import__", skip, xfail, "usefixtures(x)", parametrize, "a b", "../x", agentreplay, "##vso[x]y"]'
COLD = r"""expect: cold
cold: {reason: "x\n::error::y \x1b[2J \u202e ##vso[task.setvariable variable=x]y [x](javascript:a)"}"""
ROWS = {
    "labels": ("[privacy, orders]", LABELS),
    "cold": ("expect: reproduces", COLD),
    "a value that is none": ("expect: reproduces", "expect: '##vso[task.setvariable variable=x]y'"),
    "a key that is none": ("labels:", '"a\\n::error::x \\x1b[2J": 1\nlabels:'),
    "a runner that is a command": (
        "{observed: orders-broken, desired: orders-fixed}",
        "python -c \"open('ran', 'w')\"",
    ),
    "a title": ("title: A customer", r'x-title: ""' + "\n" + r'title: "\u202e ::error::x ##[error]x"' + "\nx-more: A"),
}


def test_every_case_is_an_item_and_nothing_reaches_a_log_or_a_report_raw(shared_project):
    project = shared_project(environ={"GITHUB_ACTIONS": "true", "COLUMNS": "300"})
    text = (CASE / "case.yaml").read_text(encoding="utf-8")
    for number, (old, new) in enumerate(ROWS.values()):
        assert old in text
        folder = project.root / "cases" / f"c{number}"
        shutil.copytree(CASE, folder)
        (folder / "case.yaml").write_text(text.replace(old, new), encoding="utf-8")

    done = project.run("cases", "-rA", "-vv", "--junitxml", "junit.xml")

    report = (project.root / "junit.xml").read_text(encoding="utf-8")
    items = {case.get("classname", "") for case in ET.fromstring(report).iter("testcase")}
    assert items == {f"cases.c{number}.case.yaml" for number in range(len(ROWS))}, done.stdout
    assert "ERROR" not in done.stdout
    for shown in (done.stdout, done.stderr, report):
        assert not forbidden(shown)
        assert not speaks_to_ci(shown)
    assert not (project.root / "ran").exists()
