"""`--vcr=audit` and `--vcr=strict` of a suite on the real cassetter, whose plugin cannot stand beside pytest-recording."""

import pytest

from tests.cassettes.conftest import APP, audit
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("cassetter")

APP = APP.replace("import aiohttp, httpx, openai, requests", "import httpx, openai")
TESTS = """
import os, re
import cassetter, pytest, app

SECRET = {"api_key": os.environ.get("SECRET", "hunter2-of-then")}

def ask(question, **more):
    url, headers = app.URL + "/chat/completions", {"x-api-key": SECRET["api_key"]}
    return app.httpx.post(url, json=app.body(question), params=SECRET | more, headers=headers).json()["id"]

@pytest.fixture(scope="module")
def vcr_config():
    return {"uri_normalizer": lambda uri: re.sub("run=[0-9a-f]+", "", uri), "filter_headers": ["x-api-key", "authorization"]}

@pytest.mark.vcr
def test_openai(vcr):
    first, second, third = (app.by_openai(question) for question in os.environ.get("ASKED", "one one two").split())
    assert first != second
    assert vcr.play_count in (0, 3)

@pytest.mark.vcr("two.toml")
def test_toml():
    assert ask("two", run=os.urandom(8).hex())

@pytest.mark.vcr
def test_orders():
    asked = ["four", "three"] if os.environ.get("SWAPPED") else ["three", "four"]
    found = {question: ask(question) for question in asked}
    assert len(set(found.values())) == 2

def test_opened():
    with cassetter.use_cassette("opened.yaml", record_mode="once"):
        assert ask("five")
"""


@pytest.fixture(scope="module")
def suite(shared_project):
    made = shared_project()
    made.plugins += ("cassetter.pytest_plugin",)
    (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    made.write(app=APP, test_agent=TESTS)
    done = made.run("--record-mode=once")
    assert done.returncode == 0, done.stdout + done.stderr
    made.tapes = {file: file.read_bytes() for file in made.root.rglob("*.yaml")}
    assert len(made.tapes) == 3
    return made


def test_an_unchanged_suite_is_equal_though_what_is_filtered_and_normalised_is_another(suite):
    found = audit(suite, SECRET="hunter2-of-now")
    assert found | {"tests": 4, "requests": 7, "equal": 7, "cassettes": 4, "plays": [], "unplayed": []} == found


CHANGES = {
    "prompt or history": ("Be brief.", "Be short."),
    "model": ('"m-1"', '"m-2"'),
    "parameter": ('{"temperature": 0}', '{"temperature": 1}'),
    "tool schema": ("Find it.", "Find an order."),
}


@pytest.mark.parametrize("cause", CHANGES)
def test_a_change_is_stale_and_fails_no_test(suite, cause):
    with edited(suite, "app.py", *CHANGES[cause]):
        found = audit(suite)
    assert (found["stale"], found["by_cause"]) == (7, {cause: 7})


def test_another_order_is_played_wrong_and_right_under_strict(suite):
    found = audit(suite, SWAPPED="1")
    assert (found["equal"], found["wrong_interaction"], found["stale"]) == (5, 2, 0)
    done = suite.run("--vcr=strict", SWAPPED="1")
    assert done.returncode == 0, done.stdout + done.stderr
    done = suite.run("--vcr=strict", "-k", "openai", ASKED="one one one")
    assert "turn 3/3" in done.stdout, "an interaction that was played is not played again while there is another"
    assert "play_count" not in done.stdout


def test_strict_fails_a_stale_request_and_asks_no_network(suite):
    hits = suite.server.hits
    with edited(suite, "app.py", "Be brief.", "Be short."):
        done = suite.run("--vcr=strict", "-k", "toml", SECRET="hunter2-of-now")
    assert done.returncode == 1
    assert "[AR-PROMPT]" in done.stdout
    assert 'recorded  "You help customers. Be brief."' in done.stdout
    assert "hunter2" not in done.stdout
    opened = suite.root / "opened.yaml"
    opened.unlink()
    try:
        done = suite.run("--vcr=strict", "--record-mode=verify", "-k", "opened or toml")
        assert not opened.exists()
    finally:
        opened.write_bytes(suite.tapes[opened])
    assert (done.returncode, suite.server.hits) == (1, hits)
    assert "NoMatchError" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_an_older_cassetter_and_a_conversion_are_refused_in_a_line(suite):
    done = suite.run("--vcr=convert")
    assert "--vcr=convert needs vcrpy" in done.stderr
    (suite.root / "sitecustomize.py").write_text(
        "import cassetter.cassette as c\ndel c.Cassette.match\n", encoding="utf-8"
    )
    try:
        done = suite.child("pytest", *suite.options, "--vcr=audit", PYTHONPATH=str(suite.root))
    finally:
        (suite.root / "sitecustomize.py").unlink()
    assert "--vcr needs cassetter 0.16 or later" in done.stderr
    assert "Traceback" not in done.stderr
