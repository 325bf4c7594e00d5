"""`pytest --vcr=audit`: what is compared, counted and kept, and that nothing else changes."""

import json
import re

import pytest

from tests.cassettes.conftest import OPENED, audit
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("main")

FOUR = {"tests": 4, "requests": 4, "cassettes": 4}


def counts(found, *names):
    return {name: found[name] for name in names}


def test_an_unchanged_suite_is_equal_in_one_line(marked):
    found = audit(marked)
    assert found | FOUR == found
    assert (found["equal"], found["by_cause"], found["plays"], found["unplayed"]) == (4, {}, [], [])
    done = marked.run("-q", "--vcr=audit")
    assert "--- agentreplay: vcrpy ---" in done.stdout
    section = done.stdout.partition("agentreplay: vcrpy")[2].splitlines()
    assert section[1] == "audit     4 tests, 4 requests, 4 cassettes: all equal"
    assert section[2].startswith("4 passed")


CHANGES = {
    "prompt or history": ("Be brief.", "Be short."),
    "model": ('"m-1"', '"m-2"'),
    "parameter": ('{"temperature": 0}', '{"temperature": 1}'),
    "tool schema": ("Find it.", "Find an order."),
}


@pytest.mark.parametrize("cause", CHANGES)
def test_a_change_is_stale_by_every_client_and_fails_no_test(marked, cause):
    with edited(marked, "app.py", *CHANGES[cause]):
        found = audit(marked)
    assert found | FOUR == found
    assert (found["stale"], found["by_cause"]) == (4, {cause: 4})
    assert found["by_file"] == {"test_marked.py": {cause: 4}}
    assert {play["test"] for play in found["plays"]} > {"test_marked.py::test_aiohttp", "test_marked.py::test_thread"}
    assert all(play["summary"].startswith("POST 127.0.0.1/v1/chat/completions: ") for play in found["plays"])


def test_an_added_field_is_a_parameter(marked):
    with edited(marked, "app.py", '"temperature": 0', '"temperature": 0, "seed": 3'):
        assert audit(marked)["by_cause"] == {"parameter": 4}


def test_clocks_ids_and_places_are_noise(make_suite):
    test = 'import app, pytest, datetime, uuid\n\n@pytest.mark.vcr\ndef test_noise():\n    app.by_httpx(f"{uuid.uuid4()} {datetime.datetime.now().isoformat()}")\n'
    suite = make_suite(test_noise=test)
    found = audit(suite)
    assert counts(found, "noise", "stale", "equal", "by_cause") == {"noise": 1, "stale": 0, "equal": 0, "by_cause": {}}


@pytest.fixture(scope="module")
def opened(make_suite):
    return make_suite(test_opened=OPENED)


def test_every_way_to_open_a_cassette_is_compared_fixtures_too(opened):
    found = audit(opened)
    assert counts(found, "tests", "requests", "equal") == {"tests": 4, "requests": 5, "equal": 5}
    with edited(opened, "app.py", "Be brief.", "Be short."):
        found = audit(opened)
    assert found["stale"] == 5
    names = [play["test"].removeprefix("test_opened.py::") for play in found["plays"]]
    assert names == ["test_fixture", "test_fixture", "test_decorated", "test_coroutine", "TestCase::test_inherited"]
    assert {play["cassette"] for play in found["plays"]} > {"tapes/fixture.yaml", "tapes/coroutine.yaml"}


ORDER = """
import pytest, app

@pytest.mark.vcr
def test_order():
    import os
    questions = os.environ.get("QUESTIONS", "a b c").split()
    assert [app.by_httpx(question) for question in questions]
"""


@pytest.fixture(scope="module")
def ordered(make_suite):
    return make_suite(test_order=ORDER)


def test_another_order_is_the_wrong_interaction_and_what_is_not_asked_for_was_never_played(ordered):
    found = audit(ordered, QUESTIONS="b a")
    assert counts(found, "wrong_interaction", "never_played") == {"wrong_interaction": 2, "never_played": 1}
    assert "this is interaction 2, and interaction 1 was played" in found["plays"][0]["summary"]
    cassette = "cassettes/test_order/test_order.yaml"
    assert found["unplayed"] == [{"cassette": cassette, "index": 2, "summary": "POST 127.0.0.1/v1/chat/completions"}]


def test_the_report_names_causes_and_files_and_commands(marked):
    with edited(marked, "app.py", "Be brief.", "Be short."):
        said = marked.run("-v", "--vcr=audit").stdout.partition("agentreplay: vcrpy")[2]
    assert "\naudit     4 tests, 4 requests, 4 cassettes: 4 stale\nby cause  4 prompt or history\n" in said
    assert "\n          4 in test_marked.py: 4 prompt or history\n" in said
    assert "test_marked.py::test_aiohttp: cassettes/test_marked/test_aiohttp.yaml" in said
    command = re.search(r"\nnext      see why:          pytest (--vcr=strict test_marked.py::test_aiohttp)\n", said)[1]
    assert "\n          take as known:    pytest --vcr=audit --accept-stale\n" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    with edited(marked, "app.py", "Be brief.", "Be short."):
        assert "1 failed" in marked.run(*command.split()).stdout


@pytest.fixture
def baseline(marked):
    file = marked.root / "agentreplay-vcr.json"
    yield file
    file.unlink(missing_ok=True)


def test_a_baseline_lets_known_ones_pass_and_fails_by_new_ones_alone(marked, baseline):
    with edited(marked, "app.py", "Be brief.", "Be short."):
        assert audit(marked)["new"] == 4
        assert not baseline.exists()
        audit(marked, "--accept-stale", "-k", "aiohttp or thread")
        rows = json.loads(baseline.read_text(encoding="utf-8"))["stale"]
        tape = "cassettes/test_marked/test_aiohttp.yaml"
        assert rows[0] == ["test_marked.py::test_aiohttp", tape, 0, "prompt or history"]
        assert baseline.read_text(encoding="utf-8").count("\n") == len(rows) + 2
        found = audit(marked, code=1)
        assert counts(found, "known", "new") == {"known": 2, "new": 2}
        audit(marked, "--accept-stale", "-k", "client")  # drops nothing of tests that did not run
    said = marked.run("-q", "--vcr=audit").stdout
    assert "baseline  agentreplay-vcr.json: 0 known, 0 new, 4 fixed" in said
    assert "forget the fixed: pytest --vcr=audit --accept-stale" in said
    audit(marked, "--accept-stale", "-k", "thread")
    assert len(json.loads(baseline.read_text(encoding="utf-8"))["stale"]) == 3
    with edited(marked, "app.py", '"m-1"', '"m-2"'):
        assert audit(marked, "-k", "aiohttp", code=1)["new"] == 1, "it is known for another cause"


@pytest.mark.parametrize("text", ["<<<<<<< ours", "[]", '{"stale": [["a"]]}', '{"version": 1}'])
def test_a_damaged_baseline_is_named(marked, baseline, text):
    baseline.write_text(text, encoding="utf-8")
    done = marked.run("--vcr=audit")
    assert done.returncode == 4
    assert "agentreplay-vcr.json is damaged (" in done.stderr
    assert "Traceback" not in done.stderr
    assert baseline.read_text(encoding="utf-8") == text


USAGE = {
    ("--vcr=audti",): "--vcr does not take 'audti': did you mean audit?",
    (
        "--vcr=audit",
        "--disable-recording",
    ): "--vcr=audit compares what is played, and --disable-recording plays nothing",
    ("--vcr=strict", "--record-mode=all"): "--vcr=strict compares what is played, and --record-mode=all plays nothing",
    ("--vcr=audit", "--record-mode=rewrite"): "and --record-mode=rewrite plays nothing: leave it out",
    ("--vcr=strict", "--json"): "--json goes with --vcr=audit",
    ("--vcr=strict", "--accept-stale"): "--accept-stale goes with --vcr=audit or --vcr=convert",
    ("--vcr=audit", "--apply"): "--apply goes with --vcr=convert",
    ("--accept-stale",): "--accept-stale goes with --vcr=audit or --vcr=convert",
    ("--json",): "--json goes with --vcr=audit",
}


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_what_means_nothing_is_a_usage_error_before_any_test(marked, words):
    done = marked.run(*words)
    assert (done.returncode, "Traceback" in done.stderr) == (4, False)
    assert USAGE[words] in " ".join(done.stderr.split())


def test_without_vcrpy_it_says_so(marked):
    (marked.root / "hiding.py").write_text("import sys\nsys.modules['vcr'] = None\n", encoding="utf-8")
    done = marked.child(
        "pytest", "-p", "pytest_agentreplay.plugin", "-p", "hiding", "--vcr=audit", PYTHONPATH=str(marked.root)
    )
    assert done.returncode == 4
    assert "--vcr=audit needs vcrpy, which is not installed: pip install vcrpy" in done.stderr


def test_workers_of_xdist_give_one_result_and_one_baseline(marked, baseline):
    with edited(marked, "app.py", "Be brief.", "Be short."):
        found = audit(marked, "-p", "xdist", "-n2", "--accept-stale")
        assert found | {"tests": 4, "stale": 4, "known": 4, "new": 0, "never_played": 0} == found
        assert audit(marked)["known"] == 4
        assert marked.run("--vcr=audit", "-p", "no:terminal", "-k", "thread").returncode == 0


RERUN = """
import os, pathlib
import pytest, app

@pytest.mark.vcr
@pytest.mark.flaky(reruns=1)
def test_again():
    first = not pathlib.Path("tried").exists()
    pathlib.Path("tried").touch()
    app.by_httpx("once" if first and "FLAKY" in os.environ else "more")
    assert not (first and "FLAKY" in os.environ)
"""


def test_of_a_test_that_is_tried_again_the_last_try_counts(make_suite):
    suite = make_suite("-p", "pytest_rerunfailures", test_again=RERUN)
    (suite.root / "tried").unlink()
    done = suite.run("-q", "--vcr=audit", "--json", "-p", "pytest_rerunfailures", FLAKY="1")
    assert "1 passed, 1 rerun" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    assert counts(json.loads(line), "requests", "equal", "stale") == {"requests": 1, "equal": 1, "stale": 0}


SECRET = "sk-proj-Zx9fQ2mLk81TnVbR4wYc7HdJ0sEaGuP5"
SECRETS = f"""
import os
import pytest, httpx, app

@pytest.mark.vcr
def test_secret():
    key = "{SECRET}" if "LEAK" in os.environ else "none"
    headers = {{"authorization": "Bearer " + key, "openai-beta": key}}
    body = app.body("The key is " + key) | {{"api_key": key}}
    httpx.post(app.URL + "/chat/completions?api_key=" + key, json=body, headers=headers)
"""


def test_no_secret_of_a_url_header_or_body_is_shown_or_kept(make_suite):
    suite = make_suite(test_secret=SECRETS)
    tape = next(suite.root.rglob("*.yaml"))
    match = "\n@pytest.fixture\ndef vcr_config():\n    return {'match_on': ['method', 'path']}\n"
    suite.edit("test_secret.py", "import pytest, httpx, app\n", f"import pytest, httpx, app\n{match}")
    for words in (
        ["--vcr=audit", "--json"],
        ["--vcr=audit", "-vv", "--accept-stale"],
        ["--vcr=strict", "-vv"],
    ):
        done = suite.run(*words, LEAK="1")
        assert "1 stale" in done.stdout or '"stale": 1' in done.stdout
        assert SECRET not in done.stdout + done.stderr
        assert SECRET[8:24] not in done.stdout + done.stderr
    assert SECRET not in (suite.root / "agentreplay-vcr.json").read_text(encoding="utf-8")
    assert tape.exists()


BLOCKING = """
import pytest, app
from blockbuster import blockbuster_ctx

@pytest.mark.vcr
@pytest.mark.asyncio
async def test_in_loop():
    with blockbuster_ctx():
        await app.by_httpx_async("one")
"""


def test_nothing_of_ours_blocks_the_event_loop(make_suite):
    pytest.importorskip("blockbuster")
    suite = make_suite(
        "-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function", test_loop=BLOCKING
    )
    words = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
    assert audit(suite, *words)["equal"] == 1
    with edited(suite, "app.py", "Be brief.", "Be short."):
        assert audit(suite, *words)["stale"] == 1


TWICE = """
import vcr.cassette
pytest_plugins = ["pytester"]

def test_inside(pytester):
    before = dict(vars(vcr.cassette.Cassette))
    pytester.makepyfile("def test(): pass")
    pytester.runpytest_inprocess("--vcr=audit", "-p", "pytest_agentreplay.plugin")
    assert dict(vars(vcr.cassette.Cassette)) == before
"""


def test_a_session_restores_what_it_has_wrapped(make_suite):
    suite = make_suite(test_twice=TWICE)
    for words in ([], ["--vcr=audit"], ["--vcr=strict"]):
        done = suite.run(*words)
        assert "1 passed" in done.stdout, done.stdout


def test_a_suite_without_the_flag_loads_nothing_of_it(marked):
    conftest = "import sys\ndef pytest_unconfigure():\n    print([name for name in sys.modules if 'pytest_agentreplay.cassettes' in name])\n"
    (marked.root / "conftest.py").write_text(conftest, encoding="utf-8")
    done = marked.run("-q", "-s")
    (marked.root / "conftest.py").unlink()
    assert done.stdout.rstrip().endswith("[]")


def test_nothing_played_is_said(make_suite):
    suite = make_suite(test_plain="def test_plain(): pass\n")
    assert "audit     no test has played a request of vcrpy, so nothing was compared" in suite.run("--vcr=audit").stdout
