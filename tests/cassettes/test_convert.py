"""`pytest --vcr=convert`: snapshots of what tests play from vcrpy, proved, and the marks that go for them."""

import json

import pytest

from tests.support.finished import ended

pytestmark = [pytest.mark.env("main"), pytest.mark.proves]

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
async def test_async():
    assert "Hello" in helpers.chat("hello")

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
CONVERTED = ["TestCase::test_decorated", "TestShop::test_fine", "test_async", "test_block", "test_marked"]


@pytest.fixture
def chats(suite, write_cassette):
    """The suite above, on one cassette."""
    reply = {"id": "c-1", "object": "chat.completion", "model": "m-1"}
    reply["choices"] = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}]
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": "hello"}]}, separators=(",", ":"))
    rows = [("POST", CHAT, body, 200, {"content-type": ["application/json"]}, json.dumps(reply))]
    for name in ("hello", "test_stale"):
        write_cassette(name, *rows)
    suite.plugins += ("pytest_asyncio.plugin", "xdist.plugin")
    suite.write(helpers=HELPERS, test_chats=TESTS.replace("import httpx,", "import httpx, vcr.errors,"))
    (suite.root / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n",
        encoding="utf-8",
    )
    return suite


def convert(project, *words, code=0, **environ):
    done = ended(project.run("--vcr=convert", "-W", "ignore", *words, **environ), code)
    assert "Traceback" not in done.stdout
    return done.stdout.partition("agentreplay: vcrpy ")[2]


def list_converted(project):
    return sorted({file.stem.partition(".")[0] for file in project.files})


def test_a_suite_is_converted_and_what_is_not_says_why(chats, read_cassettes):
    before, source = read_cassettes(), (chats.root / "test_chats.py").read_text(encoding="utf-8")
    report = convert(chats)
    assert "convert   6 tests converted, 5 not" in report
    assert len(chats.files) == 6
    for why in (
        "test_stale: stale in 1 request: POST api.openai.com/v1/chat/completions: ",
        "test_goes_past_it: it made 1 request that no cassette answered",
        "test_would_record: vcrpy refused the call (",
        "test_fails: it failed",
        "test_asks_nothing: it played no request",
    ):
        assert f"::{why}" in report.replace("TestShop::", ""), report
    assert 'replace   test_chats.py:10: @pytest.mark.vcr("hello.yaml"), by pytest.mark.agentreplay' in report
    assert "delete    test_chats.py:" in report
    assert "with vcr.use_cassette" in report
    assert "unneeded" not in report, "five tests still play it"
    assert read_cassettes() == before
    assert (chats.root / "test_chats.py").read_text(encoding="utf-8") == source

    report = convert(chats, "--apply")
    assert "6 tests converted, 5 not" in report
    changed = (chats.root / "test_chats.py").read_text(encoding="utf-8")
    assert changed.count("mark.agentreplay") == 5
    assert 'pytestmark = [pytest.mark.vcr("hello.yaml")]' in changed, "it marks one that is not converted"
    snapshots = {file: file.read_bytes() for file in chats.files}

    replayed = ended(chats.replay("-W", "ignore", "-p", "no:recording", "-m", "not vcr"))
    assert "replayed 5 tests" in replayed.stdout
    again = convert(chats, "--apply")
    assert "convert   0 tests converted, 5 not" in again
    assert {file: file.read_bytes() for file in chats.files} == snapshots
    assert (chats.root / "test_chats.py").read_text(encoding="utf-8") == changed


@pytest.mark.exhaustive
def test_workers_of_xdist_convert_as_one_process_does(chats):
    assert "convert   6 tests converted, 5 not" in convert(chats, "--apply", "-n2")
    changed = (chats.root / "test_chats.py").read_text(encoding="utf-8")
    assert changed.count("mark.agentreplay") == 5


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
    report = convert(chats, "--accept-stale", "-k", "test_stale or test_plain")
    assert "convert   1 test converted, 0 not" in report
    kit = chats.snapshots[0].run.header.kit
    assert kit["vcrpy"] == ["cassettes/test_stale.yaml"]
    [adopted] = kit["adopted"]
    assert adopted["requests"] == 1
    assert "--accept-stale" in adopted["reason"]
    assert "cassettes/test_stale.yaml" in report.partition("unneeded  1 cassette that no other test")[2]


def test_a_mark_stays_over_what_did_not_run(chats):
    convert(chats, "--apply", "test_chats.py::test_marked[1]", "test_chats.py::test_async")
    changed = (chats.root / "test_chats.py").read_text(encoding="utf-8")
    assert changed == TESTS.replace("import httpx,", "import httpx, vcr.errors,").replace(
        '@pytest.mark.vcr("hello.yaml")\nasync', "@pytest.mark.agentreplay\nasync"
    )


def test_what_is_not_proved_is_not_converted(chats):
    test = """
import pytest, helpers

@pytest.fixture(scope="module")
def vcr_cassette_dir():
    return "cassettes"

@pytest.mark.vcr("hello.yaml")
def test_reads(vcr):
    helpers.chat("hello")
    assert vcr.play_count == 1
"""
    chats.write(test_chats=test)
    report = convert(chats, "--apply")
    assert "kept      test_chats.py::test_reads: its snapshot does not replay: " in report
    assert "; it reads the fixture vcr, so it keeps its cassette\nconvert   0 tests converted, 1 not" in report
    assert (chats.root / "test_chats.py").read_text(encoding="utf-8") == test
    assert not [*chats.root.rglob("*.snapshot.json")]


def test_the_encoding_of_a_source_stays(chats):
    test = TESTS.partition("@pytest.mark.vcr")[0].replace("\n", "\r\n") + (
        '@pytest.mark.vcr("hello.yaml")  # é\r\ndef test_a():\r\n    assert helpers.chat("hello") == "Hello"\r\n'
    )
    file = chats.root / "test_chats.py"
    file.write_bytes(b"\xef\xbb\xbf" + test.encode())
    convert(chats, "--apply")
    assert file.read_bytes() == b"\xef\xbb\xbf" + test.replace('vcr("hello.yaml")', "agentreplay").encode()


def test_converting_is_a_recording(chats):
    refused = ended(chats.run("--vcr=convert", CI="true"), 4)
    assert "recording is refused because CI is set" in refused.stderr
    refused = ended(chats.run("--vcr=convert", "--snapshot-record"), 4)
    assert "--vcr=convert and --snapshot-record ask for different things" in refused.stderr
    assert chats.files == []
