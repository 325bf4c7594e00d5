"""Snapshots that no test used: told after a full run, never after a part of one, and deleted by `prune` alone."""

import shutil

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

BESIDE = "__agent_snapshots__"
TOOLS = "def lookup(order):\n    return f'{order} is late'\n"
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
CLAIM = "no test of this full run used"
HERE, XDIST = (), ("-n", "2")
RECORDED = {}


@pytest.fixture
def suite(project):
    """Three recorded tests in two files of a folder; recorded once for this module."""
    (project.root / "test_shop.py").unlink()
    (project.root / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nagentreplay_tools = tools.lookup = read\n", encoding="utf-8"
    )
    project.write(tools=TOOLS, tests__test_first=FIRST, tests__test_second=SECOND)
    if not RECORDED:
        done = project.record("--agentreplay-no-prove")
        assert done.returncode == 0, done.stdout
        assert CLAIM not in done.stdout
        RECORDED.update({file.relative_to(project.root): file.read_bytes() for file in project.files})
        assert len(RECORDED) == 3
        shutil.rmtree(project.root / ".pytest_agentreplay")
    for name, data in RECORDED.items():
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_bytes(data)
    project.plugins += ("xdist.plugin",)
    return project


def ini(project, line):
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


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


TWO = f"tests/{BESIDE}/test_first/test_two.snapshot.json"


@pytest.mark.parametrize("words", [HERE, XDIST], ids=["here", "xdist"])
def test_a_green_suite_says_nothing_and_a_deleted_test_is_told(suite, words):
    green = suite.replay(*words)
    assert green.returncode == 0, green.stdout
    assert footer(green) == []
    suite.edit("tests/test_first.py", GONE, "")
    done = suite.replay(*words)
    assert done.returncode == 0, done.stdout
    assert footer(done) == [
        "unused    1 snapshot: no test of this full run used it",
        f"          {TWO}",
        "          to delete what is not needed:   agentreplay prune",
    ]


@pytest.mark.parametrize("words", [HERE, XDIST], ids=["here", "xdist"])
def test_fail_fails_the_session_and_says_so(suite, words):
    ini(suite, "agentreplay_unused = fail")
    assert suite.replay(*words).returncode == 0
    suite.edit("tests/test_first.py", GONE, "")
    done = suite.replay(*words)
    assert done.returncode == 1
    assert footer(done)[-1] == "          the session fails for it: agentreplay_unused = fail"
    assert "2 passed" in done.stdout


def test_ignore_ignores_and_a_wrong_word_is_usage(suite):
    suite.edit("tests/test_first.py", GONE, "")
    ini(suite, "agentreplay_unused = ignore")
    assert footer(suite.replay()) == []
    suite.edit("pytest.ini", "unused = ignore", "unused = wran")
    done = suite.replay()
    assert done.returncode == 4
    assert "agentreplay_unused does not take 'wran': did you mean warn?" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "one"),
        ("-k", "test"),
        ("-m", "not slow"),
        ("--deselect", "tests/test_second.py::test_three"),
        ("--ignore", "tests/test_second.py"),
        ("--ignore-glob", "*second*"),
        ("--co",),
        ("--setup-only",),
        ("tests/test_first.py",),
        ("tests/test_first.py::test_one", "tests/test_second.py"),
        ("-k", "one", *XDIST),
        ("tests/test_first.py", *XDIST),
    ],
    ids=" ".join,
)
def test_a_part_of_the_tests_claims_nothing(suite, words):
    suite.edit("tests/test_first.py", GONE, "")
    done = suite.replay(*words)
    assert done.returncode in {0, 5}, done.stdout + done.stderr
    assert footer(done) == []


def test_the_last_failures_are_a_part(suite):
    suite.write(tests__test_second=SECOND.replace('"C-3"', '"C-4"'))
    words = ("-p", "pytest_agentreplay.plugin")
    assert suite.child("pytest", *words).returncode == 1
    suite.edit("tests/test_first.py", GONE, "")
    assert claimed(suite.child("pytest", *words, "--ff")) == [TWO]
    assert claimed(suite.child("pytest", *words, "--lf")) == []


@pytest.mark.parametrize(
    "words", [(".",), ("tests",), ("tests/test_first.py", "tests/test_second.py", "tests")], ids=" ".join
)
def test_words_that_cover_the_testpaths_are_a_full_run(suite, words):
    ini(suite, "testpaths = tests")
    suite.edit("tests/test_first.py", GONE, "")
    assert claimed(suite.replay(*words)) == [TWO]
    assert claimed(suite.replay()) == [TWO]


SPOILERS = {
    "a collection error": "import nothing_of_the_kind\n",
    "an early stop": "def test_bad():\n    assert 0\n",
    "an interrupt": "def test_bad():\n    raise KeyboardInterrupt\n",
    "an exit": "import pytest\n\ndef test_bad():\n    pytest.exit('done', returncode=0)\n",
}


@pytest.mark.parametrize("what", SPOILERS)
@pytest.mark.parametrize("words", [HERE, XDIST], ids=["here", "xdist"])
def test_what_did_not_end_claims_nothing(suite, what, words):
    suite.edit("tests/test_first.py", GONE, "")
    suite.write(tests__test_zzz=SPOILERS[what])
    more = ("--continue-on-collection-errors",) if "collection" in what else ("-x",)
    done = suite.replay(*words, *more)
    assert claimed(done) == [], done.stdout


def test_a_filter_of_a_conftest_claims_nothing(suite):
    suite.edit("tests/test_first.py", GONE, "")
    suite.write(conftest="def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n")
    done = suite.replay()
    assert "1 passed" in done.stdout
    assert footer(done) == []


def test_a_lost_worker_is_said_and_nothing_is_claimed(suite):
    suite.edit("tests/test_first.py", GONE, "")
    suite.write(tests__test_zzz="import os\n\ndef test_bad():\n    os._exit(3)\n")
    done = suite.replay("-n", "2")
    assert "crashed" in done.stdout
    assert footer(done) == ["unused    not looked for: a worker was lost"]


KEPT = {
    "skip": ("def test_two(agentreplay):", "import pytest\n@pytest.mark.skip\ndef test_two(agentreplay):"),
    "not run": ("def test_two(agentreplay):", "import pytest\n@pytest.mark.xfail(run=False)\ndef test_two(agentreplay):"),
    "skipped without the fixture": ("def test_two(agentreplay):", "import pytest\n@pytest.mark.skip\ndef test_two():"),
    "off": ("def test_two(agentreplay):", "import pytest\n@pytest.mark.agentreplay(mode='off')\ndef test_two(agentreplay):"),
    "module": ("import tools\n", "import tools, pytest\npytest.skip(allow_module_level=True)\n"),
    "on demand": (
        'def test_two(agentreplay):\n    tools.lookup("B-2")',
        'def test_two(request):\n    request.getfixturevalue("agentreplay")\n    tools.lookup("B-2")',
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", KEPT)
def test_a_test_that_is_not_run_keeps_its_own(suite, how):
    suite.edit("tests/test_first.py", *KEPT[how])
    done = suite.replay()
    assert done.returncode == 0, done.stdout
    assert footer(done) == []


@pytest.mark.parametrize("words", [HERE, XDIST], ids=["here", "xdist"])
def test_a_test_that_stopped_using_the_plugin_no_longer_needs_it(suite, words):
    suite.edit("tests/test_first.py", "def test_two(agentreplay):", "def test_two():")
    assert claimed(suite.replay(*words)) == [TWO]


def test_nobody_uses_the_plugin_any_more_and_the_snapshots_are_told(suite):
    for name in ("first", "second"):
        (suite.root / f"tests/test_{name}.py").write_text("def test_plain():\n    pass\n", encoding="utf-8")
    assert len(claimed(suite.run())) == 3


def test_a_file_that_was_not_collected_keeps_its_own_and_one_that_is_gone_does_not(suite):
    suite.write(tests__conftest="collect_ignore = ['test_second.py']\n")
    assert claimed(suite.replay()) == []
    (suite.root / "tests" / "test_second.py").unlink()
    assert claimed(suite.replay()) == [f"tests/{BESIDE}/test_second/test_three.snapshot.json"]


def test_a_folder_whose_tests_all_went_is_found(suite):
    suite.write(more__test_more=SECOND)
    assert suite.record("--agentreplay-no-prove", "more").returncode == 0
    (suite.root / "more" / "test_more.py").unlink()
    assert claimed(suite.replay()) == [f"more/{BESIDE}/test_more/test_three.snapshot.json"]


def test_a_renamed_test_is_offered_and_a_new_recording_leaves_the_old_one_unused(suite):
    suite.edit("tests/test_first.py", "def test_two", "def test_too")
    done = suite.replay()
    assert footer(done)[2:] == [
        "          if renamed:   agentreplay mv tests/test_first.py::test_two tests/test_first.py::test_too"
    ]
    recorded = suite.record("--agentreplay-no-prove")
    assert recorded.returncode == 0
    assert claimed(recorded) == [TWO]


def test_a_few_are_named_and_with_v_all(suite):
    many = "".join(f"\ndef test_{n}(agentreplay):\n    tools.lookup('{n}')\n" for n in range(8))
    suite.edit("tests/test_second.py", "import tools\n", f"import tools\n{many}")
    assert suite.record("--agentreplay-no-prove", "tests/test_second.py").returncode == 0
    suite.edit("tests/test_second.py", many, "")
    few = suite.replay()
    assert len(claimed(few)) == 5
    assert "          and 3 more: -v shows all" in footer(few)
    assert len(claimed(suite.replay("-v"))) == 8


def test_a_project_without_snapshots_loads_nothing_for_it(suite):
    shutil.rmtree(suite.root / "tests" / BESIDE)
    look = "import sys\n\ndef pytest_unconfigure():\n    print([m for m in sys.modules if m.endswith('runs.unused_snapshots')])\n"
    suite.write(conftest=look, tests__test_first="def test_plain():\n    pass\n", tests__test_second="")
    assert suite.run("-s").stdout.rstrip().endswith("[]")
    (suite.root / "tests" / BESIDE).mkdir()
    assert suite.run("-s").stdout.rstrip().endswith("['pytest_agentreplay.runs.unused_snapshots']")
