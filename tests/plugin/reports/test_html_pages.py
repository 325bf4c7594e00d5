"""`--agentreplay-html`: pages of what diverged, from one process and from several."""

import re

import pytest

from tests.support.small_projects import edited, recorded


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "xdist"])
def test_a_divergence_has_a_page_until_it_is_gone(project, words):
    recorded(project)
    pages = project.root / "pages"
    with edited(project, "agent.py", "Be brief", "Be curt"):
        done = project.replay("--agentreplay-html=pages", *words)
    assert "pages     pages/index.html   1 diverged" in done.stdout
    index, page = sorted(pages.glob("*.html"))
    assert "AR-PROMPT" in page.read_text(encoding="utf-8")
    assert f'"page":"{page.name}"' in index.read_text(encoding="utf-8")
    done = project.replay("--agentreplay-html=pages", *words)
    assert "pages     pages/index.html   0 diverged" in done.stdout
    assert list(pages.glob("*.html")) == [index]


def test_a_page_holds_no_secret_that_the_report_hides(project):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    recorded(project)
    with edited(project, "agent.py", "Be brief", f"Be brief {secret}"):
        assert secret not in project.replay("--agentreplay-html=pages").stdout
    for page in (project.root / "pages").glob("*.html"):
        assert secret not in page.read_text(encoding="utf-8")
    assert re.search("AR-PROMPT", page.read_text(encoding="utf-8"))
