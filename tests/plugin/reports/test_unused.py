"""Snapshots that no test used: told after a full run, never after a part of one, and deleted by `prune` alone."""

import shutil

import pytest

from pytest_agentreplay.runs.unused_snapshots import FILTERS, find_limit
from tests.support.exhaustive import rare
from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

BESIDE = "__agent_snapshots__"
TOOLS = "def lookup(order):\n    return f'{order} is late'\n"
INI = "agentreplay_tools = tools.lookup = read\n"
FIRST = """
import tools

def test_one(agentreplay):
    tools.lookup("A-1")

def test_two(agentreplay):
    tools.lookup("B-2")
"""
SECOND = """
import tools

def test_three(agentreplay):
    tools.lookup("C-3")
"""
GONE = '\ndef test_two(agentreplay):\n    tools.lookup("B-2")\n'
WITHOUT_TWO = FIRST.replace(GONE, "")
TWO = f"tests/{BESIDE}/test_first/test_two.snapshot.json"
XDIST = ("-n", "2")


@pytest.fixture(scope="module")
def made(shared_project):
    project = furnished(shared_project(), INI, tools=TOOLS, tests__test_first=FIRST, tests__test_second=SECOND)
    project.plugins += ("xdist.plugin",)
    assert "no test of this full run used" not in recorded(project).recording.stdout
    shutil.copytree(project.root / "tests" / BESIDE, project.root.with_name(f"{project.root.name}-kept"))
    return project


@pytest.fixture
def suite(made):
    """Three recorded tests in two files of a folder; one of them is gone."""
    shutil.rmtree(made.root)
    shutil.copytree(made.root.with_name(f"{made.root.name}-kept"), made.root / "tests" / BESIDE)
    return furnished(made, INI, tools=TOOLS, tests__test_first=WITHOUT_TWO, tests__test_second=SECOND)


def footer(done):
    """The lines about unused snapshots, with slashes."""
    lines = done.stdout.replace("\\", "/").splitlines()
    at = next((n for n, line in enumerate(lines) if line.startswith("unused ")), None)
    if at is None:
        return []
    end = next(n for n, line in enumerate(lines) if n > at and not line.startswith(" "))
    return lines[at:end]


def claimed(done):
    return [line.strip() for line in footer(done) if line.endswith(".snapshot.json")]


UNUSED = [
    "unused    1 snapshot: no test of this full run used it",
    f"          {TWO}",
    "          to delete what is not needed:   agentreplay prune",
]


@pytest.mark.parametrize("words", [(), XDIST], ids=["here", "xdist"])
def test_a_deleted_test_is_told_and_a_green_suite_says_nothing(suite, words):
    if not words:
        assert footer(passed(suite.replay())) == UNUSED
    strict = (*words, "-o", "agentreplay_checks=unused=fail")
    failing = suite.replay(*strict)
    assert failing.returncode == 1
    assert footer(failing) == [*UNUSED, "          the session fails for it: agentreplay_checks: unused = fail"]
    assert "2 passed" in failing.stdout
    suite.write(tests__test_first=FIRST)
    assert footer(passed(suite.replay(*strict))) == []


def test_a_session_with_a_filter_or_over_some_of_the_testpaths_is_a_part(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_first.py").touch()

    def part(*words, testpaths=(), **options):
        return find_limit(options, words, tmp_path, tmp_path, testpaths)

    flags = {name: part(".", **{name: "x"}) for name in FILTERS}
    assert flags == {name: f"{flag} left tests out" for name, flag in FILTERS.items()}
    for words in (["."], ["tests/test_first.py", "tests", "."]):
        assert part(*words) == ""
        assert part(*words, testpaths=["tests"]) == ""
    assert part("tests", testpaths=["t*"]) == ""
    assert part("tests") == f"{tmp_path.name} was not run whole"
    for words in (["tests/test_first.py"], ["tests::test_one"], ["tests/test_first.py::test_one"]):
        assert part(*words, testpaths=["tests"]) == "tests was not run whole"


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "one"),
        ("tests/test_first.py", *XDIST),
        ("-o", "agentreplay_checks=unused=ignore"),
        *rare((("--deselect", "tests/test_second.py::test_three"),), (("-k", "one", *XDIST),)),
    ],
    ids=" ".join,
)
def test_a_part_of_the_tests_claims_nothing(suite, words):
    done = suite.replay(*words)
    assert done.returncode in {0, 5}, done.stdout + done.stderr
    assert footer(done) == []


def test_the_last_failures_are_a_part_and_the_failed_first_are_all(suite):
    suite.write(tests__test_second=SECOND.replace('"C-3"', '"C-4"'))
    words = ("-p", "pytest_agentreplay.plugin")
    assert suite.child("pytest", *words).returncode == 1
    assert claimed(suite.child("pytest", *words, "--ff")) == [TWO]
    assert claimed(suite.child("pytest", *words, "--lf")) == []


def test_words_that_cover_the_testpaths_are_a_full_run(suite):
    assert claimed(suite.replay("-o", "testpaths=tests", "tests")) == [TWO]


SPOILERS = {
    "a collection error": ("tests__test_zzz", "import nothing_of_the_kind\n"),
    "an early stop": ("tests__test_zzz", "def test_bad():\n    assert 0\n"),
    "an interrupt": ("tests__test_zzz", "def test_bad():\n    raise KeyboardInterrupt\n"),
    "an exit": ("tests__test_zzz", "import pytest\n\ndef test_bad():\n    pytest.exit('done', returncode=0)\n"),
    "a filter": ("conftest", "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n"),
}


@pytest.mark.parametrize(
    ("what", "words"), [*((what, ()) for what in SPOILERS), *rare(*((x, XDIST) for x in SPOILERS))]
)
def test_what_did_not_run_to_its_end_claims_nothing(suite, what, words):
    name, text = SPOILERS[what]
    suite.write(**{name: text})
    more = ("--continue-on-collection-errors",) if "collection" in what else ("-x",)
    done = suite.replay(*words, *more)
    assert claimed(done) == [], done.stdout


def test_a_lost_worker_is_said_and_nothing_is_claimed(suite):
    suite.write(tests__test_zzz="import os\n\ndef test_bad():\n    os._exit(3)\n")
    done = suite.replay(*XDIST)
    assert "crashed" in done.stdout
    assert footer(done) == ["unused    not looked for: a worker was lost"]


KEPT = """
import pytest, tools

@pytest.mark.skip
def test_skipped(agentreplay):
    tools.lookup("1")

@pytest.mark.xfail(run=False)
def test_not_run(agentreplay):
    tools.lookup("2")

@pytest.mark.skip
def test_skipped_without_the_fixture(agentreplay):
    tools.lookup("3")

@pytest.mark.agentreplay(mode="off")
def test_off(agentreplay):
    tools.lookup("4")

@pytest.fixture
def demanding(request):
    return request.getfixturevalue("agentreplay")

def test_on_demand(demanding):
    tools.lookup("5")
"""


def test_a_test_that_is_not_run_keeps_its_own_and_one_without_the_plugin_does_not(suite):
    suite.write(tests__test_first=FIRST, tests__test_more=KEPT.replace("@pytest.mark", "# pytest.mark"))
    passed(suite.record("tests/test_more.py"))
    suite.write(
        tests__test_first=FIRST.replace("test_two(agentreplay)", "test_two()"),
        tests__test_second=f"import pytest\npytest.skip(allow_module_level=True)\n{SECOND}",
        tests__test_more=KEPT.replace("without_the_fixture(agentreplay)", "without_the_fixture()"),
    )
    done = passed(suite.replay())
    assert len(suite.files) == 8
    assert claimed(done) == [TWO]


def test_snapshots_of_files_that_are_gone_are_told_and_of_those_that_were_not_collected_kept(suite):
    suite.write(
        tests__conftest="collect_ignore = ['test_second.py']\n", tests__test_first="def test_plain():\n    pass\n"
    )
    first = [f"tests/{BESIDE}/test_first/test_{name}.snapshot.json" for name in ("one", "two")]
    assert claimed(suite.run()) == first, "nobody uses the plugin any more"
    shutil.move(suite.root / "tests" / BESIDE, suite.root / "more" / BESIDE)
    (suite.root / "tests" / "test_second.py").unlink()
    three = f"more/{BESIDE}/test_second/test_three.snapshot.json"
    assert claimed(suite.run()) == [*(path.replace("tests", "more", 1) for path in first), three]


def test_a_renamed_test_is_offered_and_a_new_recording_leaves_the_old_one_unused(suite):
    suite.write(tests__test_first=FIRST.replace("def test_two", "def test_too"))
    assert footer(suite.replay())[2:] == [
        "          if renamed:   agentreplay mv tests/test_first.py::test_two tests/test_first.py::test_too"
    ]
    assert claimed(passed(suite.record())) == [TWO]


def test_a_few_are_named_and_with_v_all(suite):
    many = "".join(f"\ndef test_{n}(agentreplay):\n    tools.lookup('{n}')\n" for n in range(7))
    suite.write(tests__test_second=SECOND + many)
    passed(suite.record("tests/test_second.py"))
    suite.write(tests__test_second=SECOND)
    few = suite.replay()
    assert len(claimed(few)) == 5
    assert "          and 3 more: -v shows all" in footer(few)
    assert len(claimed(suite.replay("-v"))) == 8
