"""Fixtures wider than a test: each has a snapshot of its own, whichever test needs it first, in whichever process."""

import pytest

from tests.support.asking_tool import AGENT, INI, asked
from tests.support.exhaustive import rare
from tests.support.small_projects import edited, furnished, passed, recorded

pytestmark = pytest.mark.env("main")

CONFTEST = """
import os, pytest, agent

@pytest.fixture(scope="session")
def answers():
    yield [agent.ask("one"), agent.ask("two")]
    agent.ask("after all")

@pytest.fixture(scope="package")
def of_package(answers):
    return agent.ask("package after " + answers[0])

@pytest.fixture(scope="module", params=["a", "b"])
def model(request):
    return request.param

@pytest.fixture(scope="module")
def by_model(model):
    return agent.ask("model " + model)

@pytest.fixture(scope="session")
def quiet(tmp_path_factory):
    import socket, subprocess, sys
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        subprocess.run([sys.executable, "-c", ""], check=True)
    return tmp_path_factory.mktemp("quiet")

def pytest_collection_modifyitems(items):
    if os.environ.get("REVERSED"):
        items.reverse()
"""

SHARED = """
import random
import pytest, agent

def setup_module():
    agent.ask("setup_module")

def teardown_module():
    agent.ask("teardown_module")

def test_not_opted_in(answers):
    assert answers == ["one: 3", "two: 3"]

def test_opted_in(answers, of_package, quiet, agentreplay):
    assert answers == ["one: 3", "two: 3"]
    agent.ask("its own " + answers[1])

def test_by_model(by_model, agentreplay):
    assert by_model.startswith("model ")

def test_asks_late(request, agentreplay):
    before = random.random()
    request.getfixturevalue("answers")
    agent.ask(f"drawn {before} {random.random()}")

def test_neighbour(agentreplay):
    agent.ask("alone")
"""

CLASSES = """
import unittest
import pytest, agent

@pytest.fixture(scope="class")
def answers(answers):
    return [*answers, agent.ask("three")]

class TestClass:
    @classmethod
    def setup_class(cls):
        cls.answer = agent.ask("setup_class")

    def test_class(self, answers, agentreplay):
        assert self.answer == "setup_class: 11"
        assert answers == ["one: 3", "two: 3", "three: 5"]

@pytest.mark.agentreplay
class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.answer = agent.ask("setUpClass")
        cls.addClassCleanup(agent.ask, "cleanup")

    def test_case(self):
        self.assertEqual(self.answer, "setUpClass: 10")
"""

ASYNC = """
import pytest, pytest_asyncio, agent

@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def by_asyncio():
    yield agent.ask("asyncio")
    agent.ask("asyncio after")

@pytest.mark.asyncio(loop_scope="module")
async def test_asyncio(by_asyncio, agentreplay):
    assert by_asyncio == "asyncio: 7"
    agent.ask("asyncio body")

@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="module")
async def by_anyio(anyio_backend):
    yield agent.ask("anyio")
    agent.ask("anyio after")

@pytest.mark.anyio
async def test_anyio(by_anyio, agentreplay):
    assert by_anyio == "anyio: 5"
"""

PACKAGE = """
import agent

def setup_module():
    agent.ask("package")

def teardown_module():
    agent.ask("package after")
"""

CALLS = {
    "package/__init__.py::@setup_module": ["package", "package after"],
    "conftest.py::@answers": ["one", "two", "after all"],
    "conftest.py::@of_package": ["package after one: 3"],
    "test_shared.py::@setup_module": ["setup_module", "teardown_module"],
    "test_shared.py::@by_model[a]": ["model a"],
    "test_shared.py::@by_model[b]": ["model b"],
    "test_classes.py::TestClass::@setup_class": ["setup_class"],
    "test_classes.py::TestClass::@answers": ["three"],
    "test_classes.py::TestCase::@setUpClass": ["setUpClass", "cleanup"],
    "test_async.py::@by_asyncio": ["asyncio", "asyncio after"],
    "test_async.py::@by_anyio": ["anyio", "anyio after"],
}

PROVED = ("--agentreplay-checks=unproved=warn",)


def of_fixtures(made):
    return {s.run.header.test: asked(s) for s in made.snapshots if "::@" in s.run.header.test}


@pytest.fixture(scope="module")
def made(shared_project):
    project = furnished(
        shared_project(),
        INI,
        agent=AGENT,
        conftest=CONFTEST,
        test_shared=SHARED,
        test_classes=CLASSES,
        test_async=ASYNC,
    )
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin")
    project.write(package__test_a="def test_plain():\n    pass\n")
    project.write(package__test_b="def test_it(agentreplay):\n    pass\n")
    (project.root / "package" / "__init__.py").write_text(PACKAGE, encoding="utf-8")
    return recorded(project, *PROVED)


def test_each_fixture_is_recorded_once_and_proved(made):
    said = made.recording.stdout
    assert of_fixtures(made) == CALLS
    assert said.count("fixture passed)   replays") == len(CALLS), said
    assert "quiet" not in said
    assert "does not replay" not in said
    assert made.ledger.count("one") == 1, "its proof is a replay"


@pytest.mark.parametrize(
    "words",
    [
        ("-k", "not_opted_in"),
        ("-k", "asks_late"),
        ("-n2", "-p", "xdist.plugin", "--dist=loadscope", "test_shared.py", "test_classes.py"),
        (),
        *rare(
            (("-k", "by_model and b or TestClass"),),
            (("-p", "xdist.plugin", "-n2"),),
            (("test_async.py", "test_shared.py::test_opted_in"),),
        ),
    ],
    ids=" ".join,
)
def test_it_is_served_to_whichever_test_needs_it_first(made, words):
    done = passed(made.offline(*words, REVERSED="" if words else "yes"))
    assert " 0 live" in done.stdout or "not_opted_in" in words


SWALLOWING = """
def refused(ask):
    try:
        ask("another")
    except BaseException:
        return "two: 3"
"""


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ('"two: 3"', "AR-MISSING"),
        ("refused(agent.ask)", "AR-ARGS"),
        *rare(('agent.ask("another")', "AR-ARGS"), ('agent.ask("two"), agent.ask("another")', "AR-ARGS")),
    ],
    ids=["fewer", "swallowed", "other", "more"],
)
def test_a_divergence_fails_every_test_that_shares_the_fixture_and_no_other(made, new, code):
    with edited(made, "conftest.py", CONFTEST, CONFTEST.replace('agent.ask("two")', new) + SWALLOWING):
        done = made.offline("test_shared.py", "test_classes.py", "-rA", COLUMNS="200")
    after = done.stdout.partition("short test summary info")[2]
    names = {line.rpartition("::")[2] for line in after.splitlines() if line.startswith("PASSED")}
    assert names == {"test_by_model[a]", "test_by_model[b]", "test_neighbour", "test_case"}
    assert after.count(f"[{code}] fixture answers: ") == 4, done.stdout
    shared = "conftest.py::@answers, shared by test_shared.py::test_not_opted_in, test_shared.py::test_opted_in"
    assert done.stdout.count(shared) == 1, "one cause, one report"
    assert done.stdout.count("] the same change as in ") == 3
    assert f"shared    [{code}] fixture answers: " in done.stdout
    assert "INTERNALERROR" not in done.stdout + done.stderr


def test_a_finalizer_that_diverges_fails_the_last_test_once(made):
    with edited(made, "conftest.py", '"after all"', '"after nothing"'):
        done = made.offline("test_shared.py", COLUMNS="200")
    assert done.stdout.count("ERROR at teardown of") == 1
    assert "[AR-ARGS] fixture answers: call 3/3" in done.stdout
    assert "ExceptionGroup" not in done.stdout
    assert "7 passed, 1 error" not in done.stdout
    assert done.returncode == 1


@pytest.fixture
def small(shared_project):
    """Makes projects of a few files."""

    def make(tests):
        project = furnished(shared_project(), INI, agent=AGENT, test_small=tests)
        project.plugins += ("pytest_asyncio.plugin", "xdist.plugin")
        return project

    return make


FAILING = """
import pytest, agent

@pytest.fixture(scope="module")
def answers():
    yield agent.ask("one")
    agent.ask("two")

def test_first(answers, agentreplay):
    pass

def test_second(answers, agentreplay):
    pass
"""


def test_a_fixture_without_a_snapshot_is_refused_and_a_failed_set_up_never_replaces_one_that_passed(small):
    project = small(FAILING)
    done = project.offline()
    assert "[AR-NEW] fixture answers: no snapshot is recorded for this fixture" in done.stdout, done.stdout
    assert "pytest --snapshot-record test_small.py\n" in done.stdout
    recorded(project)
    project.edit("test_small.py", 'yield agent.ask("one")', 'assert not agent.ask("zero")')
    failed = project.record().stdout
    assert "pending   test_small.py::@answers: this run failed, the recorded one passed" in failed
    assert of_fixtures(project) == {"test_small.py::@answers": ["one", "two"]}
    (pending,) = (project.root / ".pytest_agentreplay" / "pending").rglob("*.json")
    passed(project.command("accept", pending))
    assert of_fixtures(project) == {"test_small.py::@answers": ["zero"]}


def test_the_commands_know_it(small):
    project = recorded(small(FAILING))
    project.edit("test_small.py", '"one"', '"first"')
    (file,) = project.files
    passed(project.command("accept", file, "--requests", "--reason", "the same question"))
    assert of_fixtures(project) == {"test_small.py::@answers": ["first", "two"]}
    passed(project.command("replay", file))
    project.write(test_small=FAILING.replace("answers", "replies").replace("one", "first"))
    moved = ("mv", "test_small.py::@answers", "test_small.py::@replies")
    assert 'agentreplay {} "{}" "{}"'.format(*moved) in project.offline("-rE", COLUMNS="200").stdout
    passed(project.command(*moved))
    passed(project.offline())
    project.write(test_small="def test_it(agentreplay):\n    pass\n")
    passed(project.command("prune"))
    assert not project.files


CHANCE = """
import pytest, agent

@pytest.fixture(scope="session")
def answers():
    return agent.ask("by chance")

@pytest.mark.parametrize("number", range(6))
def test_it(number, answers, agentreplay):
    agent.ask(f"{number} on {answers}")
"""


def test_of_several_processes_that_record_it_the_first_is_kept_and_who_built_on_another_is_reported(small):
    project = small(CHANCE)
    done = passed(project.record("-n2"))
    assert project.ledger.count("by chance") == 2
    assert "differs   test_small.py::@answers was recorded by several processes" in done.stdout, done.stdout
    recorded(project)
    passed(project.offline("-n2"))


NOT_INTERCEPTED = """
import pytest, agent

@pytest.fixture(scope="module")
def plain():
    agent.ask("plain set-up")
    yield
    agent.ask("plain teardown")

def test_plain(plain):
    pass

def test_last(agentreplay):
    agent.ask("frozen")
"""


def test_a_fixture_of_other_tests_that_this_test_tears_down_is_not_recorded(small):
    project = recorded(small(NOT_INTERCEPTED))
    assert [asked(snapshot) for snapshot in project.snapshots] == [["frozen"]]
    for words, live in (((), ["plain set-up", "plain teardown"]), (("-k", "test_last"), [])):
        before = project.ledger
        passed(project.replay(*words))
        assert project.ledger[len(before) :] == live
