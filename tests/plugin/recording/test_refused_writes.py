"""A run that the last scan refuses: what leaked is cut out, the rest is kept, and `recover --policy` finishes it."""

import json
import re
import shutil

import pytest

from pytest_agentreplay.errors import Leak
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.redaction.regexes import compile_shape
from pytest_agentreplay.runs import accept
from pytest_agentreplay.snapshots import codec
from tests.support.small_projects import flat, passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

PIN = "pin-8471-of-the-customer"
NUMBER = "customer 0815-4711-0042"

TESTS = f"""
import agent

def charge(amount: float) -> dict:
    return {{"charged": amount, "for": "{NUMBER}"}}

def test_shop(agentreplay):
    agentreplay.secret("{PIN}")
    agentreplay.tool(charge, name="charge-{PIN}", effects="read")
    assert charge(3.5)["charged"] == 3.5
    assert "refund" in agent.answer("Where is A-17?")
"""

POLICY = """\
schemaVersion: "1.0"
patterns:
  - category: customer
    regex: '[0-9]{4}-[0-9]{4}-[0-9]{4}'
"""

CONFTEST = """
import re

def numbers(text):
    return [found.span() for found in re.finditer(r"[0-9]{4}-[0-9]{4}-[0-9]{4}", text)]

def without(text):
    return re.sub(r"[0-9]{4}-[0-9]{4}-[0-9]{4}", "", text)

def broken(text):
    if "0815" in text:
        raise LookupError(f"cannot read {text}")

def pytest_agentreplay_redactors():
    return {"customer-number": REDACTOR}
"""


PLAIN = TESTS.replace(f'name="charge-{PIN}", ', "")
"""Nothing of it is refused: the pin stands in no name."""


def left(project):
    """The pending runs, and that nothing of ours holds the pin."""
    for file in project.root.rglob("*"):
        if file.is_file() and file.suffix not in {".py", ".pyc"}:
            assert PIN not in file.name
            assert PIN not in file.read_text(encoding="utf-8"), file
    return sorted(project.root.rglob(".pytest_agentreplay/pending/**/*.snapshot.json"))


@pytest.fixture(scope="module")
def once(shared_project):
    """A recording that was refused, and its pending run."""
    project = shared_project()
    project.furnish(TESTS)
    project.done = project.record("-vv")
    (project.pending,) = left(project)
    project.kept = project.pending.read_bytes()
    return project


@pytest.fixture
def refused(once, monkeypatch):
    """The same, as it was left."""
    shutil.rmtree(once.root / "__agent_snapshots__", ignore_errors=True)
    once.pending.parent.mkdir(parents=True, exist_ok=True)
    once.pending.write_bytes(once.kept)
    monkeypatch.chdir(once.root)
    return once


def test_what_leaked_is_cut_out_and_the_rest_is_kept(refused):
    text = flat(refused.done)
    assert refused.done.returncode == 1
    assert "a known secret (key) would be in it" in text
    assert "key in the request of call 1" in text
    assert PIN not in text + refused.done.stderr
    assert refused.files == []
    assert f"agentreplay verify --recover --policy FILE {refused.pending.relative_to(refused.root).as_posix()}" in text
    run = codec.loads(refused.kept, file="pending").run
    assert run.header.kit["cut"] == ["key in the request of call 1"]
    assert run.exchanges[0].call.name == "[[redacted:opaque:1]]"
    assert run.exchanges[0].call.arguments == {}, "the request is cut out whole"
    assert run.exchanges[0].outcome.value == {"charged": 3.5, "for": NUMBER}
    assert [x.call.boundary for x in run.exchanges[1:]] == ["http", "tool", "http", "tool", "http"], "all else is whole"
    assert not list(refused.root.rglob("*.jsonl")), "the journal has nothing more to tell"


def test_it_is_not_accepted_as_if_it_were_whole_and_a_policy_file_finishes_it(refused):
    done = refused.command("accept", refused.pending)
    assert done.returncode == 2
    assert "agentreplay verify --recover --policy FILE" in done.stderr
    assert refused.pending.exists()
    listed = refused.command("verify", "--recover").stdout
    assert (
        f"agentreplay verify --recover --policy FILE {refused.pending.relative_to(refused.root).as_posix()}" in listed
    )
    (refused.root / "mine.yaml").write_text(POLICY, encoding="utf-8")
    done = passed(refused.command("verify", "--recover", "--policy", "mine.yaml"))
    written = "written for test_shop.py::test_shop; a placeholder stands for key in the request of call 1"
    assert written in " ".join((done.stdout + done.stderr).split())
    (snapshot,) = refused.snapshots
    assert snapshot.run.exchanges[0].outcome.value == {"charged": 3.5, "for": "customer [[redacted:customer:1]]"}
    assert snapshot.sealed
    assert not refused.pending.exists()


def test_numbers_of_placeholders_are_not_given_again_and_what_the_policy_still_finds_is_not_written(refused):
    with pytest.raises(Leak, match="would be in it"):
        accept.recover(refused.pending, {}, Policy(shapes=(compile_shape("word", "test_shop.py"),)))
    assert refused.pending.read_bytes() == refused.kept
    assert refused.files == []
    accept.recover(refused.pending, {}, Policy(shapes=(compile_shape("opaque", "[0-9]{4}-[0-9]{4}-[0-9]{4}"),)))
    (snapshot,) = refused.snapshots
    assert snapshot.run.exchanges[0].outcome.value["for"] == "customer [[redacted:opaque:2]]"


# Redactors of the project.


@pytest.mark.parametrize("redactor", ["numbers", "without"])
def test_a_redactor_of_the_project_is_asked_wherever_the_shipped_rules_are(project, redactor):
    project.write(test_shop=PLAIN, conftest=CONFTEST.replace("REDACTOR", redactor))
    (snapshot,) = recorded(project).snapshots
    assert snapshot.run.exchanges[0].outcome.value["for"] == "customer [[redacted:customer-number:1]]"
    passed(project.offline())


def test_a_redactor_that_raises_refuses_the_write_and_tells_no_text(project):
    project.write(test_shop=PLAIN, conftest=CONFTEST.replace("REDACTOR", "broken"))
    done = project.record("-vv")
    assert done.returncode == 1
    assert "the redactor customer-number raised LookupError" in flat(done)
    assert project.files == []
    (pending,) = left(project)
    text = pending.read_text(encoding="utf-8")
    assert not [word for word in ("0815-4711", "cannot read") if word in done.stdout + done.stderr + text]
    run = codec.loads(pending.read_bytes(), file="pending").run
    assert run.header.kit["cut"] == ["customer-number: the redactor raised LookupError"]
    assert "[[redacted:customer-number:" in json.dumps(run.exchanges[0].outcome.value)


def test_only_code_leaves_a_shipped_rule_out_and_a_hook_that_gives_no_redactors_is_told(project):
    token = "gh" + "p_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    project.write(test_shop=PLAIN.replace(NUMBER, token))
    (snapshot,) = recorded(project).snapshots
    rule = re.search(r"\[\[redacted:([a-z-]+):1\]\]", snapshot.run.exchanges[0].outcome.value["for"])[1]
    assert token not in project.files[0].read_text(encoding="utf-8")
    hook = "def pytest_agentreplay_redactors():\n    return "
    project.write(conftest=f"{hook}{{{rule!r}: None}}\n")
    (snapshot,) = recorded(project).snapshots
    assert snapshot.run.exchanges[0].outcome.value["for"] == token
    for given in ("{'Customer': len}", "[len]"):
        project.write(conftest=f"{hook}{given}\n")
        done = project.record()
        assert done.returncode == 1
        assert "pytest_agentreplay_redactors gives a dict of functions by category" in flat(done)
        assert "Traceback" not in done.stdout


PARAMETRIZED = f"""
import agent, pytest

@pytest.mark.parametrize("pin", ["{PIN}"])
def test_shop(agentreplay, pin):
    agentreplay.secret(pin)
    agent.answer("Where is A-17?")
"""


def test_the_id_of_a_test_that_becomes_a_secret_late_leaves_nothing(project):
    project.write(test_shop=PARAMETRIZED)
    done = project.record()
    assert done.returncode == 1
    assert 'pytest.param(..., id="a-name")' in flat(done)
    assert left(project) == []
    project.write(conftest=f"import pytest_agentreplay\npytest_agentreplay.secret('{PIN}')\n")
    (snapshot,) = recorded(project).snapshots
    assert snapshot.run.header.test == "test_shop.py::test_shop[[[redacted:key:1]]#0]"
    left(project)
    passed(project.command("replay", project.files[0]))
