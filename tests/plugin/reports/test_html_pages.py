"""`--agentreplay-html`: pages of all runs and of what failed, from one process and from several."""

import json
import re
import shutil

import pytest

from tests.support.project import AGENT
from tests.support.small_projects import edited, recorded

TESTS = """
import agent

def test_order(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_other_order(agentreplay):
    assert "refund" in agent.answer("Where is B-20?")

def test_third_order(agentreplay):
    assert agent.answer("Where is C-3?", temperature=0)

def test_plain():
    assert 1 + 1 == 2
"""


@pytest.fixture(scope="module")
def made(shared_project):
    made = shared_project()
    made.furnish(TESTS)
    return recorded(made)


@pytest.fixture
def project(project, made):
    """Three tests with snapshots, and one that asks nobody."""
    project.write(agent=AGENT, test_shop=TESTS)
    shutil.copytree(made.root / "__agent_snapshots__", project.root / "__agent_snapshots__")
    return project


def read_data(page):
    """Return the data of a page."""
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])


def read_index(project):
    """Return the data of the index, whose every link leads to a page."""
    folder = project.root / "pages"
    index = read_data(folder / "index.html")
    pages = [row["page"] for row in index["entries"]]
    pages += [page for failure in index["failures"] for _, page in failure["tests"]]
    assert all((folder / page).is_file() for page in pages)
    return index


def states(index):
    return {row["name"].partition("::test_")[2]: row["now"] for row in index["entries"]}


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "xdist"])
def test_every_run_has_a_page_and_every_cause_one_line_until_it_is_gone(project, words):
    with edited(project, "agent.py", "Be brief", "Be curt"):
        done = project.replay("--agentreplay-html=pages", *words)
    assert "pages     pages/index.html   3 diverged" in done.stdout
    index = read_index(project)
    (failure,) = index["failures"]
    assert (failure["code"], len(failure["tests"])) == ("AR-PROMPT", 3)
    assert states(index) == dict.fromkeys(("order", "other_order", "third_order"), "diverged")
    page = read_data(project.root / "pages" / failure["tests"][0][1])
    assert (page["kind"], page["now"], page["findings"][0]["code"]) == ("run", "diverged", "AR-PROMPT")
    done = project.replay("--agentreplay-html=pages", *words)
    assert "pages     pages/index.html   none failed" in done.stdout
    index = read_index(project)
    assert (index["failures"], set(states(index).values())) == ([], {"passed"})
    assert len(list((project.root / "pages").glob("*.html"))) == 4


def test_each_test_that_fails_without_a_divergence_has_a_line_and_a_page(project):
    (project.files[1]).unlink()
    tests = TESTS.replace('"refund" in agent.answer("Where is A-17?")', '"lost" in agent.answer("Where is A-17?")')
    project.write(test_shop=tests.replace("1 + 1 == 2", "1 + 1 == 3"))
    done = project.replay("--agentreplay-html=pages")
    assert "1 diverged, 2 failed" in done.stdout
    index = read_index(project)
    lines = {
        failure["tests"][0][0].partition("::test_")[2]: (failure["code"], failure["tests"][0][1])
        for failure in index["failures"]
    }
    assert {name: code for name, (code, _) in lines.items()} == {
        "other_order": "AR-NEW", "order": "FAILED", "plain": "FAILED",
    }  # fmt: skip
    kinds = {name: read_data(project.root / "pages" / page)["kind"] for name, (_, page) in lines.items()}
    assert kinds == {"other_order": "failure", "order": "run", "plain": "failure"}
    page = read_data(project.root / "pages" / lines["order"][1])
    assert "'lost' in" in page["findings"][0]["headline"]
    assert "test_shop.py:5: AssertionError" in page["findings"][0]["lines"][0]["text"]
    assert states(index) == {"order": "failed", "third_order": "passed", "other_order": "diverged"}


def test_a_page_that_shows_the_same_is_not_written_again(project):
    project.replay("--agentreplay-html=pages")
    pages = [page for page in (project.root / "pages").glob("*.html") if page.name != "index.html"]
    before = {page: page.stat().st_ino for page in pages}
    with edited(project, "test_shop.py", '"refund" in agent.answer("Where is A', '"lost" in agent.answer("Where is A'):
        project.replay("--agentreplay-html=pages")
    changed = {page.name for page in pages if page.stat().st_ino != before[page]}
    assert [name.partition("-")[2].rpartition("-")[0] for name in changed] == ["test_order"]


def test_only_pages_of_a_folder_are_replaced_and_only_by_a_session_that_ran_tests(project):
    folder = project.root / "pages"
    folder.mkdir()
    (folder / "mine.html").write_text("mine", encoding="utf-8")
    project.command("html", project.files[0], "--out", folder / "kept.html")
    with edited(project, "test_shop.py", "1 + 1 == 2", "1 + 1 == 3"):
        project.replay("--agentreplay-html=pages")
    names = sorted(file.name for file in folder.glob("*.html"))
    assert len(names) == 7
    project.run("--collect-only", "--agentreplay-html=pages")
    assert sorted(file.name for file in folder.glob("*.html")) == names
    project.replay("--agentreplay-html=pages")
    assert {*names} - {file.name for file in folder.glob("*.html")} == {
        name for name in names if name.startswith("test_shop.py-test_plain")
    }
    (folder / "index.html").write_text("mine", encoding="utf-8")
    done = project.replay("--agentreplay-html=pages")
    assert "pages     not written: pages/index.html is there and no page of a folder; name another one" in done.stdout
    assert (folder / "index.html").read_text(encoding="utf-8") == "mine"


def test_a_damaged_history_and_a_damaged_snapshot_cost_their_part_of_the_page_alone(project):
    history = project.root / ".agentreplay" / "live"
    history.mkdir(parents=True)
    (history / "history.jsonl").write_text("{\n", encoding="utf-8")
    project.files[0].write_text("{", encoding="utf-8")
    done = project.replay("--agentreplay-html=pages")
    assert "pages     pages/index.html   1 diverged" in done.stdout
    index = read_data(project.root / "pages" / "index.html")
    assert index["failures"][0]["code"] == "AR-UNREADABLE"
    assert "history.jsonl" in index["notes"][0]
    assert [bool(row["problem"]) for row in index["entries"]].count(True) == 1
    assert read_data(project.root / "pages" / index["failures"][0]["tests"][0][1])["kind"] == "failure"


def test_pages_hold_no_secret_that_the_report_hides(project):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    project.environ["SHOP_TOKEN"] = secret
    tests = TESTS.replace('"refund" in agent.answer("Where is A-17?")', f'agent.answer("Where is A-17?") == "{secret}"')
    project.write(test_shop=tests.replace("1 + 1 == 2", f'"{secret}" == 2'))
    with edited(project, "agent.py", "Be brief", f"Be brief {secret}"):
        project.replay("--agentreplay-html=pages")
    project.replay("--agentreplay-html=own")
    pages = [*(project.root / "pages").glob("*.html"), *(project.root / "own").glob("*.html")]
    assert len(pages) == 10
    for page in pages:
        assert secret not in page.read_text(encoding="utf-8"), page
