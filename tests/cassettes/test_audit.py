"""`pytest --vcr=audit`: what is compared, counted and kept, and that nothing else changes."""

import json
import re
import sys

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.plugin.cassette_session import check_options
from pytest_agentreplay.runs.cassettes.audit import Audit, read_baseline
from tests.cassettes.conftest import OPENED, UNCLOSED, audit
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("main")


def counts(found, *names):
    return {name: found[name] for name in names}


def test_an_unchanged_suite_is_equal_in_one_line(marked):
    hits = marked.server.hits
    done = marked.run("-q", "--vcr=audit", *UNCLOSED)
    section = done.stdout.partition("--- agentreplay: cassettes ---")[2].splitlines()
    assert section[1] == "audit     4 tests, 4 requests, 4 cassettes: all equal"
    assert section[2].startswith("4 passed")
    assert marked.server.hits == hits


def test_a_change_is_stale_by_every_client_by_its_cause_and_fails_no_test(marked):
    changes = '{"one": {"temperature": 1}, "two": {"model": "m-2"}, "three": {"tools": []}}'
    with edited(marked, "app.py", "**MORE}", "**MORE} | " + changes + "[question]"):
        found = audit(marked)
    causes = {"parameter": 2, "model": 1, "tool schema": 1}
    assert found | {"tests": 4, "requests": 4, "cassettes": 4, "stale": 4, "by_cause": causes} == found
    assert found["by_file"] == {"test_marked.py": causes}
    assert {play["test"] for play in found["plays"]} > {"test_marked.py::test_aiohttp", "test_marked.py::test_thread"}
    assert all(play["summary"].startswith("POST 127.0.0.1/v1/chat/completions: ") for play in found["plays"])


ORDER = """
import pytest, app

@pytest.mark.vcr
def test_order():
    import os
    questions = os.environ.get("QUESTIONS", "a b c").split()
    assert [app.by_httpx(question) for question in questions]
"""


@pytest.fixture(scope="module")
def opened(make_suite):
    return make_suite(test_opened=OPENED, test_order=ORDER)


def test_every_way_to_open_a_cassette_is_compared_fixtures_too(opened):
    with edited(opened, "app.py", "Be brief.", "Be short."):
        found = audit(opened, "test_opened.py")
    assert counts(found, "tests", "requests", "stale") == {"tests": 4, "requests": 5, "stale": 5}
    names = [play["test"].removeprefix("test_opened.py::") for play in found["plays"]]
    assert names == ["test_fixture", "test_fixture", "test_decorated", "test_coroutine", "TestCase::test_inherited"]
    assert {play["cassette"] for play in found["plays"]} > {"tapes/fixture.yaml", "tapes/coroutine.yaml"}


def test_another_order_is_the_wrong_interaction_and_what_is_not_asked_for_was_never_played(opened):
    found = audit(opened, QUESTIONS="b a")
    assert counts(found, "equal", "wrong_interaction", "never_played") == {
        "equal": 5,
        "wrong_interaction": 2,
        "never_played": 1,
    }
    assert "this is interaction 2, and interaction 1 was played" in found["plays"][0]["summary"]
    cassette = "cassettes/test_order/test_order.yaml"
    assert found["unplayed"] == [{"cassette": cassette, "index": 2, "summary": "POST 127.0.0.1/v1/chat/completions"}]


def test_the_report_names_causes_and_files_and_commands(marked):
    with edited(marked, "app.py", "Be brief.", "Be short."):
        said = marked.run("-v", "--vcr=audit").stdout.partition("agentreplay: cassettes")[2]
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
        audit(marked, "--accept-stale", "-k", "aiohttp or thread")
        rows = json.loads(baseline.read_text(encoding="utf-8"))["stale"]
        tape = "cassettes/test_marked/test_aiohttp.yaml"
        assert rows[0] == ["test_marked.py::test_aiohttp", tape, 0, "prompt or history"]
        assert baseline.read_text(encoding="utf-8").count("\n") == len(rows) + 2
        found = audit(marked, code=1)
    assert counts(found, "known", "new") == {"known": 2, "new": 2}


def make_audit(before, **causes):
    """Return the audit of a session in which each test has played one request, and passed unless its name says so."""
    made = Audit(before)
    for test, cause in causes.items():
        play = {"cassette": f"{test}.yaml", "index": 0, "verdict": "stale" if cause else "equal", "cause": cause}
        made.add_test(test, [play | {"summary": ""}], [(f"{test}.yaml", {})], is_complete="failed" not in test)
    return made


def test_a_baseline_changes_by_what_the_tests_of_the_session_have_played(tmp_path):
    make_audit(None, a="model", b="model", c_failed="model").accept(tmp_path)
    before = read_baseline(tmp_path)
    assert len(before) == 3
    assert make_audit(before, a="model").compare()[1:] == ({}, {}), "it says nothing of tests that did not run"
    assert [*make_audit(before, a="parameter").compare()[1].values()] == ["parameter"], "it is known for another cause"
    now = make_audit(before, a="", c_failed="")
    assert [row[0] for row in now.compare()[2]] == ["a"], "a test that failed may not have come so far"
    lines = now.format_lines("audit", 80, 0)
    assert "baseline  agentreplay-vcr.json: 0 known, 0 new, 1 fixed" in lines
    assert "next      forget the fixed: pytest --vcr=audit --accept-stale" in lines
    now.accept(tmp_path)
    assert [row[0] for row in read_baseline(tmp_path)] == ["b", "c_failed"]


def test_of_a_test_that_is_tried_again_the_last_try_counts():
    tried = make_audit(None, a="model")
    tried.add_test("a", [], [("a.yaml", {0: "never"})], is_complete=True)
    assert counts(tried.count(), "requests", "stale") == {"requests": 0, "stale": 0}


def test_nothing_played_is_said():
    [line] = Audit().format_lines("audit", 80, 0)
    assert line == "audit     no test has played a request of a cassette, so nothing was compared"


@pytest.mark.parametrize("text", ["<<<<<<< ours", "[]", '{"stale": [["a"]]}', '{"version": 1}'])
def test_a_damaged_baseline_is_named(tmp_path, text):
    (tmp_path / "agentreplay-vcr.json").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"agentreplay-vcr\.json is damaged \("):
        read_baseline(tmp_path)


USAGE = {
    ("audti",): "--vcr does not take 'audti': did you mean audit?",
    ("audit", "disable_recording"): "--vcr=audit compares what is played, and --disable-recording plays nothing",
    ("strict", "record_mode=all"): "--vcr=strict compares what is played, and --record-mode=all plays nothing",
    ("audit", "record_mode=rewrite"): "and --record-mode=rewrite plays nothing: leave it out",
    ("strict", "agentreplay_json"): "--json goes with --vcr=audit",
    ("strict", "agentreplay_accept_stale"): "--accept-stale goes with --vcr=audit or --vcr=convert",
    ("audit", "agentreplay_apply"): "--apply goes with --vcr=convert",
    (None, "agentreplay_accept_stale"): "--accept-stale goes with --vcr=audit or --vcr=convert",
    (None, "agentreplay_json"): "--json goes with --vcr=audit",
}


@pytest.mark.parametrize("row", USAGE, ids=str)
def test_what_means_nothing_is_a_usage_error(row):
    mode, *options = row
    options = dict((option.split("=") if "=" in option else (option, True)) for option in options)
    with pytest.raises(SettingsError) as error:
        check_options(options, mode)
    assert USAGE[row] in str(error.value)


def test_without_vcrpy_it_says_so(monkeypatch):
    for name in ("vcr", "cassetter"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingsError, match="--vcr=audit needs vcrpy, which is not installed: pip install vcrpy"):
        check_options({}, "audit")


def test_a_usage_error_and_a_damaged_baseline_come_before_any_test(marked, baseline):
    baseline.write_text("[]", encoding="utf-8")
    for words, text in ((["--json"], "--json goes with --vcr=audit"), (["--vcr=audit"], "is damaged (")):
        done = marked.run(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (4, False)
        assert text in " ".join(done.stderr.split())
    assert baseline.read_text(encoding="utf-8") == "[]"


def test_workers_of_xdist_give_one_result_and_one_baseline(marked, baseline):
    with edited(marked, "app.py", "Be brief.", "Be short."):
        found = audit(marked, "-p", "xdist", "-n2", "--accept-stale")
    assert found | {"tests": 4, "stale": 4, "known": 4, "new": 0, "never_played": 0} == found
    assert len(json.loads(baseline.read_text(encoding="utf-8"))["stale"]) == 4


@pytest.mark.exhaustive
def test_a_session_without_a_terminal_is_audited(marked):
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


@pytest.mark.exhaustive
def test_a_test_that_a_plugin_tries_again_counts_once(make_suite):
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
        ["--vcr=audit", "--json", "--accept-stale"],
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
    with edited(suite, "app.py", "Be brief.", "Be short."):
        assert audit(suite, *words)["stale"] == 1


def test_a_suite_without_the_flag_loads_nothing_of_it(marked):
    conftest = "import sys\ndef pytest_unconfigure():\n    print([name for name in sys.modules if 'pytest_agentreplay.runs.cassettes' in name])\n"
    (marked.root / "conftest.py").write_text(conftest, encoding="utf-8")
    done = marked.run("-q", "-s")
    (marked.root / "conftest.py").unlink()
    assert done.stdout.rstrip().endswith("[]")
