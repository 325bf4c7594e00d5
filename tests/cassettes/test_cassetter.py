"""`--vcr=audit` and `--vcr=strict` of a suite on the real cassetter, whose plugin cannot stand beside pytest-recording."""

import pytest

from tests.cassettes.conftest import APP, audit
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("cassetter")

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
def test_asked(vcr):
    first, second, third = (app.by_httpx(question) for question in os.environ.get("ASKED", "one one two").split())
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
    with cassetter.use_cassette("opened.yaml", record_mode=os.environ.get("MODE", "once")):
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


def test_a_change_is_stale_and_fails_no_test(suite):
    with edited(suite, "app.py", '"m-1"', '"m-2"'):
        found = audit(suite)
    assert (found["stale"], found["by_cause"]) == (7, {"model": 7})


def test_another_order_is_played_wrong_and_right_under_strict(suite):
    found = audit(suite, SWAPPED="1")
    assert (found["equal"], found["wrong_interaction"], found["stale"]) == (5, 2, 0)
    done = suite.run("--vcr=strict", SWAPPED="1", ASKED="one one one")
    assert "1 failed, 3 passed" in done.stdout
    assert "turn 3/3" in done.stdout, "an interaction that was played is not played again while there is another"
    assert "play_count" not in done.stdout


def test_strict_fails_a_stale_request_asks_no_network_and_keeps_cassettes(suite):
    hits, [toml] = suite.server.hits, suite.root.rglob("two.toml")
    kept = toml.read_bytes()
    toml.unlink()
    words = ("--vcr=strict", "--record-mode=new_episodes", "-k", "opened or toml")
    try:
        with edited(suite, "app.py", "Be brief.", "Be short."):
            done = suite.run(*words, MODE="rewrite", SECRET="hunter2-of-now")
        assert not toml.exists()
    finally:
        toml.write_bytes(kept)
    assert "2 failed" in done.stdout
    assert "NoMatchError" in done.stdout
    report = done.stdout.partition("_ test_opened _")[2].partition("short test summary")[0]
    assert "[AR-PROMPT]" in report
    assert 'recorded  "You help customers. Be brief."' in report
    assert "hunter2" not in report
    assert suite.server.hits == hits
    assert {file: file.read_bytes() for file in suite.root.rglob("*.yaml")} == suite.tapes


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
