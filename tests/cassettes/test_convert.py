"""`pytest --vcr=convert`: snapshots of what tests play from vcrpy, proved, and the marks that go for them."""

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest

from pytest_agentreplay.plugin.proofs import prepare_options
from tests.support.finished import ended

pytestmark = pytest.mark.env("main")

CHAT = "https://api.openai.com/v1/chat/completions"
HELPERS = """
import httpx

def chat(question, **more):
    body = {"model": "m-1", "messages": [{"role": "user", "content": question}], **more}
    return httpx.post("https://api.openai.com/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
"""
TESTS = """
import asyncio, unittest
import httpx, pytest, vcr
import helpers

@pytest.fixture(scope="module")
def vcr_cassette_dir():
    return "cassettes"

@pytest.mark.vcr("hello.yaml")
@pytest.mark.parametrize("times", [1, 2])
def test_marked(times):
    assert "Hello" in helpers.chat("hello")

@pytest.mark.vcr("hello.yaml")
def test_once():
    assert "Hello" in helpers.chat("hello")

@pytest.mark.vcr("form.yaml")
def test_form():
    import aiohttp
    async def ask(form):
        async with aiohttp.ClientSession() as session, session.post("http://shop.invalid/", data=form) as reply:
            return await reply.text()
    assert asyncio.run(ask({"a": 1, "b": "é"})) == "mapping"
    assert asyncio.run(ask([("a", "1"), ("a", "2")])) == "pairs"

class TestShop:
    pytestmark = [pytest.mark.vcr("hello.yaml")]

    def test_fine(self):
        assert "Hello" in helpers.chat("hello")

    def test_asks_nothing(self):
        pass

class TestCase(unittest.TestCase):
    @vcr.use_cassette("cassettes/hello.yaml", record_mode="none")
    def test_decorated(self):
        assert "Hello" in helpers.chat("hello")

def test_block():
    with vcr.use_cassette("cassettes/hello.yaml"):
        assert "Hello" in helpers.chat("hello")

@pytest.mark.vcr
def test_stale():
    assert "Hello" in helpers.chat("good-bye")

@pytest.mark.vcr("hello.yaml", ignore_hosts=["127.0.0.1"])
def test_goes_past_it():
    helpers.chat("hello")
    with pytest.raises(httpx.ConnectError):
        httpx.get("http://127.0.0.1:9")

@pytest.mark.vcr("none.yaml", record_mode="new_episodes")
def test_would_record():
    with pytest.raises(vcr.errors.CannotOverwriteExistingCassetteException):
        helpers.chat("hello")

@pytest.mark.vcr("hello.yaml")
@pytest.mark.xfail(strict=True)
def test_fails():
    assert helpers.chat("hello") == "no"

def test_plain():
    assert 1
"""


@pytest.fixture
def chats(suite, write_cassette):
    """The suite above, on one cassette."""
    reply = {"id": "c-1", "object": "chat.completion", "model": "m-1"}
    reply["choices"] = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}]
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": "hello"}]}, separators=(",", ":"))
    rows = [("POST", CHAT, body, 200, {"content-type": ["application/json"]}, json.dumps(reply))]
    for name in ("hello", "test_stale"):
        write_cassette(name, *rows)
    forms = {"mapping": {"a": 1, "b": "é"}, "pairs": [["a", "1"], ["a", "2"]]}
    write_cassette("form", *[("POST", "http://shop.invalid/", body, 200, {}, name) for name, body in forms.items()])
    suite.write(helpers=HELPERS, test_chats=TESTS.replace("import httpx,", "import httpx, vcr.errors,"))
    (suite.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    return suite


def convert(project, *words, code=0, **environ):
    done = ended(project.run("--vcr=convert", "-W", "ignore", *words, **environ), code)
    assert "Traceback" not in done.stdout
    return done.stdout.partition("agentreplay: cassettes ")[2].partition("\n===")[0]


@pytest.mark.proves
def test_a_suite_is_converted_and_what_is_not_says_why(chats, read_cassettes):
    before = read_cassettes()
    report = convert(chats, "--apply")
    assert 'replaced  test_chats.py:10: @pytest.mark.vcr("hello.yaml"), by pytest.mark.agentreplay' in report
    assert "with vcr.use_cassette" in report
    assert "convert   7 tests converted, 5 not" in report, report
    assert len(chats.files) == 7
    for why in (
        "test_stale: stale in 1 request: POST api.openai.com/v1/chat/completions: ",
        "test_goes_past_it: it made 1 request that no cassette answered",
        "test_would_record: vcrpy refused the call (",
        "test_fails: it failed",
        "test_asks_nothing: it played no request",
    ):
        assert f"::{why}" in report.replace("TestShop::", ""), report
    assert "unneeded  1 cassette that no other test of this session plays:\n          cassettes/form.yaml\n" in report
    assert "next      convert the stale ones as they ask today: pytest --vcr=convert --accept-stale\n" in report
    assert report.rstrip().endswith("next      replay what was converted: pytest --replay=model")
    changed = (chats.root / "test_chats.py").read_text(encoding="utf-8")
    assert changed.count("mark.agentreplay") == 6
    assert 'pytestmark = [pytest.mark.vcr("hello.yaml")]' in changed, "it marks one that is not converted"
    assert read_cassettes() == before
    (chats.root / "cassettes" / "form.yaml").unlink()
    assert "replayed 6 tests" in ended(chats.replay("-W", "ignore", "-p", "no:recording", "-m", "not vcr")).stdout


@pytest.mark.exhaustive
@pytest.mark.proves
def test_workers_of_xdist_convert_as_one_process_does_and_once_more_changes_nothing(chats):
    chats.plugins += ("xdist.plugin",)
    assert "convert   7 tests converted, 5 not" in convert(chats, "--apply", "-n2")
    changed = (chats.root / "test_chats.py").read_text(encoding="utf-8")
    assert changed.count("mark.agentreplay") == 6
    snapshots = {file: file.read_bytes() for file in chats.files}
    assert "convert   0 tests converted, 5 not" in convert(chats, "--apply")
    assert {file: file.read_bytes() for file in chats.files} == snapshots
    assert (chats.root / "test_chats.py").read_text(encoding="utf-8") == changed


def test_the_calls_of_a_wider_fixture_are_converted_with_a_test_that_needs_them(chats):
    test = """
import pytest, vcr, helpers

@pytest.fixture(scope="module")
def greeting():
    with vcr.use_cassette("cassettes/hello.yaml", record_mode="none"):
        return helpers.chat("hello")

@pytest.fixture(scope="module")
def other_greeting():
    with vcr.use_cassette("cassettes/hello.yaml", record_mode="none"):
        return helpers.chat("hello")

def test_a(greeting):
    with vcr.use_cassette("cassettes/hello.yaml", record_mode="none"):
        assert greeting == helpers.chat("hello")

def test_b(other_greeting):
    assert other_greeting
"""
    chats.write(test_chats=test)
    report = convert(chats, "--apply")
    assert "test_b: it played no request\nconvert   1 test converted, 1 not" in report
    assert sorted(file.stem.partition("-")[0] for file in chats.files) == ["greeting", "test_a.snapshot"]
    (chats.root / "cassettes" / "hello.yaml").unlink()
    assert "replayed 1 test and 1 fixture" in ended(chats.replay("-W", "ignore", "-k", "test_a")).stdout


def test_a_stale_test_is_converted_as_it_asks_today_where_somebody_says_so(chats):
    source = (chats.root / "test_chats.py").read_text(encoding="utf-8")
    report = convert(chats, "--accept-stale", "-k", "test_stale or test_plain")
    assert "convert   1 test converted, 0 not" in report
    kit = chats.snapshots[0].run.header.kit
    assert kit["vcrpy"] == ["cassettes/test_stale.yaml"]
    [adopted] = kit["adopted"]
    assert adopted["requests"] == 1
    assert "--accept-stale" in adopted["reason"]
    what = "unneeded  1 cassette that no other test of this session plays, once the marks are replaced:\n"
    assert f"{what}          cassettes/test_stale.yaml\n" in report
    assert "replace   test_chats.py:" in report
    assert report.rstrip().endswith("next      replace the marks: pytest --vcr=convert --accept-stale --apply")
    assert (chats.root / "test_chats.py").read_text(encoding="utf-8") == source


READS = """
import pytest, helpers

@pytest.fixture(scope="module")
def vcr_cassette_dir():
    return "cassettes"

@pytest.mark.vcr("hello.yaml")
def test_reads(vcr):
    helpers.chat("hello")
    assert len(vcr.requests) == 1
"""


@pytest.mark.exhaustive
@pytest.mark.proves
def test_what_reads_the_cassette_of_its_mark_is_kept(chats):
    chats.write(test_chats=READS)
    report = convert(chats, "--apply")
    assert "kept      test_chats.py::test_reads: it does not replay without its cassette: " in report
    assert "AttributeError: 'NoneType' object has no attribute 'requests'" in report
    assert "convert   0 tests converted, 1 not" in report
    assert (chats.root / "test_chats.py").read_text(encoding="utf-8") == READS
    assert chats.files == []


def test_the_proof_of_a_conversion_opens_no_cassette_of_a_mark(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text('{"tests": []}', encoding="utf-8")
    for mode, is_disabled in {"convert": True, None: False}.items():
        option = Namespace(agentreplay_vcr=mode, disable_recording=False, agentreplay_proof=plan)
        prepare_options(SimpleNamespace(option=option, rootpath=tmp_path, args=[]))
        assert option.disable_recording is is_disabled


def test_a_mark_stays_over_what_did_not_run_and_the_encoding_of_a_source_too(chats):
    file = chats.root / "test_chats.py"
    text = "# é\n" + file.read_text(encoding="utf-8")
    before = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    file.write_bytes(before)
    convert(chats, "--apply", "test_chats.py::test_marked[1]", "test_chats.py::test_once")
    old, new = b'@pytest.mark.vcr("hello.yaml")\r\ndef test_once', b"@pytest.mark.agentreplay\r\ndef test_once"
    assert file.read_bytes() == before.replace(old, new)
    assert old in before


def test_converting_is_a_recording(chats):
    refused = ended(chats.run("--vcr=convert", CI="true"), 4)
    assert "recording is refused because CI is set" in refused.stderr
    refused = ended(chats.run("--vcr=convert", "--snapshot-record"), 4)
    assert "--snapshot-record and --vcr=convert ask for different things" in refused.stderr
    assert chats.files == []
