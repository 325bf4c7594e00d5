"""axe-core finds nothing on the pages of runs and on the site, in both themes: rules of WCAG 2 A and AA, best practice."""

from importlib.metadata import distribution

import pytest

from pytest_agentreplay.report.finding import Finding, Line
from pytest_agentreplay.runs import pages
from tests.support.browser import Browser
from tests.support.shown_runs import trip_run, write_project, write_run

pytestmark = [pytest.mark.env("docs"), pytest.mark.process]
AXE = distribution("axe-playwright-python").locate_file("axe_playwright_python/axe.min.js")
SHOW_ALL = (
    "for (const node of document.querySelectorAll('main details, main .help')) node.open = !(node.hidden = false)"
)
RUN = """
axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "best-practice"], resultTypes: ["violations"] }).then(
  ({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id} at ${target.join(" ")}`)))
"""


@pytest.fixture
def addresses(tmp_path, address):
    """The addresses of the pages by their names."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write_project(tmp_path)
    recorded = tmp_path / "tests/__agent_snapshots__/test_shop/test_two_late_orders.snapshot.json"
    trip = write_run(recorded.with_name("test_trip.snapshot.json"), trip_run())
    (tmp_path / "pair.html").write_text(pages.render_pair(recorded, tmp_path / "now.snapshot.json"), encoding="utf-8")
    line = Line("detail", "assert 1 == 2", "report of pytest")
    failed = Finding("test_trip", "FAILED", "[FAILED] assert 1 == 2", (line,))
    new = Finding("test_new", "AR-NEW", "[AR-NEW] there is no snapshot")
    outcomes = (
        pages.TestOutcome("test_trip", "failed", trip, failed),
        pages.TestOutcome("test_new", "diverged", None, new),
    )
    index = pages.write_folder(tmp_path / "pages", tmp_path, outcomes=outcomes)
    run, failure = (next(index.parent.glob(f"test_{name}*.html")) for name in ("trip", "new"))
    files = {"run": run, "failure": failure, "pair": tmp_path / "pair.html", "index": index}
    site = {"home": address, "how-to": f"{address}how-to/pages/"}
    return {name: file.as_uri() for name, file in files.items()} | site


def test_axe_finds_nothing(addresses):
    axe = AXE.read_text(encoding="utf-8")
    browser = Browser()
    found = []
    try:
        for name, url in addresses.items():
            for theme in ("light", "dark"):
                browser.resize(1280, dark=theme == "dark")
                browser.go(url)
                browser.value(SHOW_ALL)
                browser.call("Runtime.evaluate", expression=axe)
                found += [f"{name}, {theme}: {violation}" for violation in browser.value(RUN)]
    finally:
        browser.close()
    assert not found, "\n".join(found)
