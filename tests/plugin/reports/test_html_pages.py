"""`--agentreplay-html`: pages of what diverged, from one process and from several."""

import re
import shutil

import pytest

from tests.support.small_projects import edited, recorded


@pytest.fixture(scope="module")
def made(shared_project):
    made = shared_project()
    made.furnish()
    return recorded(made)


@pytest.fixture
def project(project, made):
    """The refund agent, recorded."""
    shutil.copytree(made.root / "__agent_snapshots__", project.root / "__agent_snapshots__")
    return project


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "xdist"])
def test_a_divergence_has_a_page_until_it_is_gone(project, words):
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


def test_only_pages_of_a_session_are_replaced_and_only_by_a_session_that_ran_tests(project):
    folder = project.root / "pages"
    folder.mkdir()
    (folder / "mine.html").write_text("mine", encoding="utf-8")
    project.command("html", project.files[0], "--out", folder / "kept.html")
    with edited(project, "agent.py", "Be brief", "Be curt"):
        project.replay("--agentreplay-html=pages")
    names = sorted(file.name for file in folder.glob("*.html"))
    assert len(names) == 4
    project.run("--collect-only", "--agentreplay-html=pages")
    assert sorted(file.name for file in folder.glob("*.html")) == names
    project.replay("--agentreplay-html=pages")
    assert sorted(file.name for file in folder.glob("*.html")) == ["index.html", "kept.html", "mine.html"]
    (folder / "index.html").write_text("mine", encoding="utf-8")
    done = project.replay("--agentreplay-html=pages")
    assert (
        "pages     not written: pages/index.html is there and no page of a session; name another folder" in done.stdout
    )
    assert (folder / "index.html").read_text(encoding="utf-8") == "mine"


def test_a_damaged_history_and_a_damaged_snapshot_cost_their_part_of_the_page_alone(project):
    history = project.root / ".agentreplay" / "live"
    history.mkdir(parents=True)
    (history / "history.jsonl").write_text("{\n", encoding="utf-8")
    project.files[0].write_text("{", encoding="utf-8")
    done = project.replay("--agentreplay-html=pages")
    assert "pages     pages/index.html   1 diverged" in done.stdout
    index = (project.root / "pages" / "index.html").read_text(encoding="utf-8")
    assert "AR-UNREADABLE" in index
    assert "history.jsonl" in index


def test_a_page_holds_no_secret_that_the_report_hides(project):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with edited(project, "agent.py", "Be brief", f"Be brief {secret}"):
        assert secret not in project.replay("--agentreplay-html=pages").stdout
    for page in (project.root / "pages").glob("*.html"):
        assert secret not in page.read_text(encoding="utf-8")
    assert re.search("AR-PROMPT", page.read_text(encoding="utf-8"))
