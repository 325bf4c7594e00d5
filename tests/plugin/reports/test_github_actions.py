"""GitHub Actions: an annotation for each test that diverged and a table of them, once, by the process that reports."""

import pytest

TESTS = """
import agent, pytest

@pytest.mark.parametrize("order", ["A-17", "A-18"])
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is {order}?")

@pytest.fixture
def asked(agentreplay):
    return agent.answer("Where is B-1?")

def test_set_up(asked):
    assert asked

def test_fine(agentreplay):
    assert agent.ask([{"role": "user", "content": "Hello"}], tools=[])
"""
ANNOTATES = "pytest_github_actions_annotate_failures"


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    assert project.record().returncode == 0
    return project


@pytest.fixture
def on_github(shop, tmp_path):
    """Replay under a changed prompt; return the lines that GitHub obeys, and the summary of the step."""
    summary = tmp_path / "summary.md"

    def run(*words, **environ):
        environ = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)} | environ
        _, done = shop.diverged("-q", *words, **environ)
        lines = [line for line in done.stdout.splitlines() if line.lstrip().startswith("::")]
        return lines, summary.read_text(encoding="utf-8") if summary.exists() else "", done.stdout

    return run


@pytest.mark.parametrize(
    "words", [(), ("-p", "xdist.plugin", "-n", "2", "-W", "default")], ids=["one process", "xdist"]
)
def test_each_diverged_test_is_annotated_at_the_call_site_and_stands_in_the_table(on_github, shop, words):
    lines, summary, _ = on_github(*words, GITHUB_WORKSPACE=str(shop.root.parent))
    file = f"{shop.root.name}/agent.py"
    assert sorted(lines) == [
        f"::error file={file},line=26,title=AR-PROMPT turn 1/3 test_shop.py%3A%3A{test}"
        "::[AR-PROMPT] turn 1/3: model m-1: system text $.messages[0].content changed, line 2: brief -> short"
        for test in ("test_refund[A-17]", "test_refund[A-18]", "test_set_up")
    ]
    assert summary.startswith("**agentreplay: 3 of 4 tests diverged**: 3 AR-PROMPT (prompt changed)\n")
    assert summary.count("\n| `test_shop.py::test_refund[A-1") == 2
    every = ("`test_shop.py::test_refund[A-17]`", "`test_shop.py::test_refund[A-18]`", "`test_shop.py::test_set_up`")
    changed = next(line for line in summary.splitlines() if line.startswith("`turn 1/3: $.messages[0].content` in "))
    assert all(test in changed for test in every)
    assert summary.count("- Be brief.\n+ Be short.\n") == 1


@pytest.mark.env("main")
def test_beside_the_plugin_that_annotates_failures_it_is_a_notice_where_that_one_speaks(shop):
    _, done = shop.diverged("-q", "-p", ANNOTATES, GITHUB_ACTIONS="true")
    assert done.stderr.count("::error file=test_shop.py,line=4::") == 2, "that plugin prints its own, at the test"
    assert done.stdout.count("\n::notice file=agent.py,line=26,") == 2
    assert done.stdout.count("\n::error file=agent.py,line=26,") == 1, "it prints none for what fails in a fixture"


def test_elsewhere_and_where_nothing_diverged_nothing_is_said(on_github, shop, tmp_path):
    assert on_github(GITHUB_ACTIONS="")[:2] == ([], "")
    file = tmp_path / "green.md"
    done = shop.offline("-q", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(file))
    assert ("::" in done.stdout, file.exists()) == (False, False)


def test_a_summary_that_cannot_be_written_is_a_line_and_steps_add_to_one(on_github, tmp_path):
    told = on_github(GITHUB_STEP_SUMMARY=str(tmp_path))[2]
    assert f"{tmp_path.as_posix()}: cannot be written" in told
    (tmp_path / "summary.md").write_text("of another tool\n", encoding="utf-8")
    assert on_github()[1].startswith("of another tool\n**agentreplay: 3 of 4")
