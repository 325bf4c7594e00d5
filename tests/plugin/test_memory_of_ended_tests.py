"""What a test leaves in memory once it has ended: its place among the lines of the session, and none of our objects."""

import json

import pytest

TEST = """
import httpx2, os
import pytest

@pytest.mark.parametrize("number", range(int(os.environ["TESTS"])))
def test_answer(agentreplay, number):
    reply = httpx2.post(
        os.environ["MODEL_URL"] + "/v1/chat/completions",
        json={"model": "m-1", "messages": [{"role": "user", "content": f"hello {number}"}]},
    )
    assert reply.json()["choices"][0]["message"]["content"] == "fine"
"""

CONFTEST = """
import collections, gc, json, pathlib
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    gc.collect()
    kinds = (type(value) for value in gc.get_objects())
    ours = collections.Counter(
        f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if kind.__module__.startswith("pytest_agentreplay")
    )
    pathlib.Path(__file__).with_name("counted.json").write_text(json.dumps(ours), encoding="utf-8")
"""

FEW, MANY = 4, 24

CACHED = {"pytest_agentreplay.core.redaction.encodings.EncodedForm"}
"""Kept for the last 128 secrets, whichever tests they are of."""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(lambda body, number: "fine")
    made.write(test_answer=TEST, conftest=CONFTEST)
    (made.root / "pytest.ini").write_text("[pytest]\nagentreplay_prove = false\n", encoding="utf-8")
    return made


def left(project, run, count):
    """How many objects of each class of ours are left after a session of `count` tests."""
    done = run(TESTS=str(count))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((project.root / "counted.json").read_text(encoding="utf-8"))


def test_tests_that_have_ended_leave_none_of_our_objects(project):
    for run in (project.record, project.replay):
        many, few = left(project, run, MANY), left(project, run, FEW)
        more = {name: count - few.get(name, 0) for name, count in many.items() if name not in CACHED}
        assert not {name: count for name, count in more.items() if count >= MANY - FEW}, run.__name__
