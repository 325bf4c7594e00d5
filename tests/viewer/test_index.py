"""The index in a real browser: from what failed to its page and back, and how it looks on a narrow screen."""

import json
from dataclasses import replace

import pytest

from pytest_agentreplay.report.finding import Finding, Line
from pytest_agentreplay.runs import pages
from tests.support.shown_runs import bookshop_run, write_run

FOLDER = "__agent_snapshots__/test_shop"


@pytest.fixture
def index(tmp_path):
    """Four tests with snapshots, three of them failed, two by one change; and a test without a snapshot."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    outcomes = []
    for name in ("gift", "late", "refund", "returned_parcel_of_a_long_name"):
        test = f"test_shop.py::test_{name}"
        run = bookshop_run()
        run = replace(run, header=replace(run.header, test=test))
        file = write_run(tmp_path / FOLDER / f"test_{name}.snapshot.json", run)
        outcomes.append(pages.TestOutcome(test, "passed", file))
    for number in (1, 2):
        test = outcomes[number].test
        lines = (Line("difference", "messages[0]", recorded="kind", now="bold"),)
        finding = Finding(
            test, "AR-PROMPT", f"[AR-PROMPT] turn {number}/7: prompt changed", lines, {"turn": str(number)}
        )
        outcomes[number] = outcomes[number]._replace(status="diverged", finding=finding)
    own = Finding(
        outcomes[3].test, "FAILED", "[FAILED] assert 1 == 2", (Line("detail", "def test():\n    ...", "report"),)
    )
    outcomes[3] = outcomes[3]._replace(status="failed", finding=own)
    test = "test_shop.py::test_new"
    outcomes.append(pages.TestOutcome(test, "diverged", None, Finding(test, "AR-NEW", "[AR-NEW] there is no snapshot")))
    return pages.write_folder(tmp_path / "pages", tmp_path, outcomes=outcomes)


def leave(browser, script):
    """Have the page run what leads to another one; later, since no answer comes out of a page that is left."""
    browser.value(f"void setTimeout(() => {script})")
    browser._until(lambda told: told.get("method") == "Page.loadEventFired")


def follow(browser, selector):
    """Click a link; return the address of the page that has been loaded."""
    leave(browser, f"document.querySelector({json.dumps(selector)}).click()")
    return browser.value("location.pathname.split('/').pop()")


def test_what_failed_comes_first_and_each_link_opens_its_page(browser, index):
    browser.open(index)
    assert browser.text(".ended") == "3 diverged\n1 failed\n1 passed"
    failures = browser.value("[...document.querySelectorAll('.failures > li')].map((line) => line.innerText)")
    assert failures == [
        "AR-PROMPT turn 1/7: prompt changed\n\n2 tests, test_shop.py::test_late first",
        "AR-NEW there is no snapshot\n\ntest_shop.py::test_new",
        "FAILED assert 1 == 2\n\ntest_shop.py::test_returned_parcel_of_a_long_name",
    ]
    rows = browser.value(
        "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText.split('\\t').slice(0, 4))"
    )
    assert [row[1] for row in rows] == ["diverged", "diverged", "diverged", "failed", "passed"]
    assert rows[2] == ["test_shop.py::test_new", "diverged", "", "no snapshot"]
    assert (
        browser.value("getComputedStyle(document.querySelector('tbody tr td:nth-child(3)')).color") == "rgb(27, 31, 36)"
    )
    for selector, kind, shown in (
        (".failures li:nth-child(1) p a", "run", "[AR-PROMPT] turn 1/7: prompt changed"),
        (".failures li:nth-child(1) details li:nth-child(2) a", "run", "[AR-PROMPT] turn 2/7: prompt changed"),
        (".failures li:nth-child(2) p a", "failure", "[AR-NEW] there is no snapshot"),
        (".failures li:nth-child(3) p a", "run", "def test():\n    ..."),
        ("tbody tr:nth-child(3) a", "failure", "[AR-NEW] there is no snapshot"),
        ("tbody tr:nth-child(5) a", "run", "test_shop.py::test_gift"),
    ):
        assert follow(browser, selector) != "index.html"
        assert browser.value("data.kind") == kind
        assert shown in browser.text("main")
        leave(browser, "history.back()")
    assert (browser.value("location.pathname.split('/').pop()"), browser.errors) == ("index.html", [])


def test_a_page_of_an_index_leads_back_to_it_and_a_page_made_alone_does_not(browser, index, tmp_path):
    browser.open(index)
    page = follow(browser, "tbody tr:nth-child(5) a")
    browser.open(index.with_name(page), "#turn-2")
    assert follow(browser, ".back a") == "index.html"
    leave(browser, "history.back()")
    assert browser.value("location.hash") == "#turn-2"
    assert browser.text("article h2") == "turn 2 of lane main"
    alone = tmp_path / "alone.html"
    alone.write_text(pages.render_run(tmp_path / FOLDER / "test_gift.snapshot.json"), encoding="utf-8")
    browser.open(alone)
    assert browser.value("document.querySelectorAll('a[href*=index]').length") == 0


def test_headlines_show_every_blank(browser, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    file = write_run(tmp_path / FOLDER / "test_gift.snapshot.json", bookshop_run())
    finding = Finding("test_gift", "AR-PROMPT", "[AR-PROMPT] be  brief -> be brief", (), {"turn": "1"})
    outcome = pages.TestOutcome("test_gift", "diverged", file, finding)
    browser.open(pages.write_folder(tmp_path / "pages", tmp_path, outcomes=[outcome]))
    assert browser.text(".failures p a") == "be  brief -> be brief"
    follow(browser, ".failures p a")
    assert browser.text(".finding h2") == finding.headline


@pytest.mark.parametrize("width", [400, 1100, 1600])
def test_no_word_of_a_column_is_broken_and_the_page_is_not_wider_than_the_screen(browser, index, width):
    browser.resize(width)
    browser.open(index)
    assert browser.value("document.documentElement.scrollWidth") <= width
    # A word that is broken has more than one box.
    broken = """[...document.querySelectorAll('td:not(.name), th')].filter((cell) => {
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
      for (let node; (node = walker.nextNode());) for (const word of node.data.matchAll(/[^\\s-]+/g)) {
        range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) return true;
      }
      return false;
    }).map((cell) => cell.innerText)"""
    assert browser.value(broken) == []
