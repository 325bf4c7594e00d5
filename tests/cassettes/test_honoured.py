"""What a suite sets about its cassettes is honoured: under each mode its tests end as without, on the same bytes."""

import json
import re
import shutil

import pytest

pytestmark = [pytest.mark.env("main"), pytest.mark.proves]

CONFTEST = """
import json, os, pathlib
import httpx, pytest, yaml

CHAT = os.environ["MODEL_URL"] + "/v1/chat/completions"

def ask(question, url=CHAT, **fields):
    body = {"model": "m-1", "messages": [{"role": "user", "content": question}], **fields}
    return httpx.post(url, json=body, headers={"authorization": "Bearer " + os.environ.get("KEY", "k")})

@pytest.fixture(autouse=True)
def replies(request):
    replies = []
    yield replies
    if "LEDGER" in os.environ:
        file = pathlib.Path(os.environ["LEDGER"])
        ledger = json.loads(file.read_text()) if file.exists() else {}
        ledger[request.node.name] = [[reply.status_code, sorted(reply.headers.items()), reply.text] for reply in replies]
        file.write_text(json.dumps(ledger))

class ParsedBodies:
    @staticmethod
    def serialize(tape):
        for interaction in tape["interactions"]:
            interaction["request"]["parsed_body"] = json.loads(interaction["request"].pop("body"))
        return yaml.safe_dump(tape)

    @staticmethod
    def deserialize(text):
        tape = yaml.safe_load(text)
        for interaction in tape["interactions"]:
            interaction["request"]["body"] = json.dumps(interaction["request"].pop("parsed_body"))
        return tape

def pytest_recording_configure(config, vcr):
    vcr.register_serializer("parsed", ParsedBodies)
    vcr.register_matcher("question", lambda one, two: json.loads(one.body)["messages"] == json.loads(two.body)["messages"])

@pytest.fixture(scope="session")
def vcr_config():
    return {"filter_headers": [("authorization", "HIDDEN")]}
"""
SUITE = """
import os, threading
import httpx, pytest, vcr as vcrpy
from vcr.persisters.filesystem import FilesystemPersister
from conftest import CHAT, ask

MODE = os.environ.get("RECORD", "none")

@pytest.mark.vcr(match_on=["method", "path", "body"])
def test_match_on(replies):
    replies += ask("a"), ask("b")

@pytest.mark.vcr(match_on=["method", "path", "question"])
def test_registered_matcher(replies):
    replies += ask("a"), ask("b")

@pytest.mark.vcr(filter_query_parameters=["key"], filter_post_data_parameters=["token"])
def test_filters(replies):
    replies.append(ask("a", url=CHAT + "?key=" + os.environ.get("KEY", "k"), token=os.environ.get("KEY", "k")))

def without_user(request):
    request.body = request.body.replace(os.environ.get("KEY", "k").encode() + b"-user", b"user")
    return request

@pytest.mark.vcr(before_record_request=[without_user, lambda request: request])
def test_before_record_request(replies):
    replies.append(ask("a", user=os.environ.get("KEY", "k") + "-user"))

@pytest.mark.vcr(before_record_response=lambda response: {**response, "headers": {"Content-Type": ["application/json"]}})
def test_before_record_response(replies):
    replies.append(ask("a"))

@pytest.mark.vcr(filter_sensitive_data=[("<ORG>", "org-9f8e7d6c")])
def test_filter_sensitive_data(replies):
    replies.append(ask("I am org-9f8e7d6c"))

@pytest.mark.vcr(allow_playback_repeats=True)
def test_repeats(replies):
    replies += ask("a"), ask("a"), ask("a")

@pytest.mark.vcr
def test_identical_requests_in_their_order(replies):
    replies += ask("a"), ask("a"), ask("a")

@pytest.mark.vcr(serializer="parsed", decode_compressed_response=True)
def test_serializer(replies):
    replies.append(ask("a"))

@pytest.mark.vcr("first.yaml", "second.yaml")
@pytest.mark.default_cassette("named.yaml")
def test_several_cassettes(replies):
    replies += ask("a"), ask("b")

@pytest.mark.vcr(match_on=["method", "path", "body"])
def test_threads(replies):
    threads = [threading.Thread(target=lambda word=word: replies.append(ask(word))) for word in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    replies.sort(key=lambda reply: reply.request.content)

@pytest.mark.vcr
@pytest.mark.parametrize("word", ["red", "a/b:c"])
def test_parameters(replies, word):
    replies.append(ask(word))

@pytest.mark.vcr
def test_binary_body(replies):
    replies.append(httpx.post(CHAT.replace("/v1", "/plain"), content=bytes(range(256))))

@pytest.mark.vcr
def test_boundary(replies):
    replies.append(httpx.post(CHAT.replace("/v1", "/plain"), files={"file": ("a.txt", b"text")}))

@pytest.mark.block_network
def test_block_network():
    with pytest.raises(RuntimeError, match="Network is disabled"):
        httpx.get(CHAT)

@pytest.mark.block_network(allowed_hosts=["127"])
def test_allowed_hosts():
    assert httpx.get(CHAT).status_code

@pytest.mark.vcr(ignore_localhost=True)
def test_ignored_host():
    assert httpx.get(CHAT).status_code

@pytest.mark.vcr(before_record_request=lambda request: None)
def test_a_hook_that_drops():
    assert httpx.get(CHAT).status_code

@pytest.mark.vcr
def test_fixture(vcr, replies):
    replies += ask("a"), ask("b")
    if MODE == "none":
        assert (vcr.play_count, len(vcr.requests), len(vcr.responses), vcr.all_played) == (2, 2, 2, True)
        vcr.rewind()
        assert (vcr.play_count, vcr.write_protected) == (0, True)

class Tapes(FilesystemPersister):
    @staticmethod
    def load_cassette(path, serializer):
        return FilesystemPersister.load_cassette(path + ".tape", serializer)

    @staticmethod
    def save_cassette(path, tape, serializer):
        FilesystemPersister.save_cassette(path + ".tape", tape, serializer)

def test_persister_and_nested_cassettes(replies):
    recorder = vcrpy.VCR(record_mode=MODE, cassette_library_dir="tapes", path_transformer=vcrpy.VCR.ensure_suffix(".yml"))
    recorder.register_persister(Tapes)
    with recorder.use_cassette("outer"):
        replies.append(ask("a"))
        with recorder.use_cassette("inner", inject_cassette=True) as inner:
            replies.append(ask("b"))
        replies.append(ask("c"))
    assert MODE != "none" or inner.play_count == 1

@vcrpy.VCR(record_mode=MODE, func_path_generator=lambda function: f"tapes/{function.__name__}.yaml").use_cassette
def in_words(first, second):
    yield ask(first)
    yield ask(second)

def test_decorated_generator(replies):
    replies += in_words("a", "b")

@pytest.mark.vcr
@pytest.mark.xfail(strict=True)
def test_expected_failure(replies):
    replies.append(ask("a"))
    raise ValueError
"""
LIVE = ["test_a_hook_that_drops", "test_allowed_hosts", "test_ignored_host"]
"""What the suite itself lets through to the network."""


class Honoured:
    """The suite above with its cassettes; `run` gives its outcomes and its replies by test, and what it printed."""

    def __init__(self, project):
        self.project = project

    def run(self, *words, **environ):
        ledger = self.project.root.parent / f"{self.project.root.name}.json"
        ledger.unlink(missing_ok=True)
        hits = self.project.server.hits
        environ = {"LEDGER": str(ledger), "KEY": "another"} | environ
        done = self.project.run("-rA", "-W", "ignore", *words, **environ)
        assert "INTERNALERROR" not in done.stdout + done.stderr, done.stdout + done.stderr
        outcomes = {
            test: word for word, test in re.findall(r"^([A-Z]+) test_honoured\.py::(\S+)", done.stdout, re.MULTILINE)
        }
        return outcomes, json.loads(ledger.read_text(encoding="utf-8")), self.project.server.hits - hits, done.stdout

    def read_tapes(self):
        folders = [self.project.root / name for name in ("cassettes", "tapes")]
        return {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def honoured(shared_project):
    project = shared_project()
    project.plugins += ("recording",)
    project.proves = True
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    project.write(conftest=CONFTEST, test_honoured=SUITE)
    suite = Honoured(project)
    recorded, _, hits, printed = suite.run("--record-mode=once", RECORD="once", KEY="k")
    assert set(recorded.values()) == {"PASSED", "XFAIL"}, printed
    assert hits > 30
    return suite


@pytest.fixture(scope="module")
def without(honoured):
    """The suite as it runs without a mode of ours."""
    outcomes, replies, hits, printed = honoured.run()
    assert set(outcomes.values()) == {"PASSED", "XFAIL"}, printed
    assert hits == len(LIVE)
    return outcomes, replies, hits


@pytest.mark.parametrize("mode", ["audit", "strict"])
def test_a_mode_changes_no_outcome_no_byte_and_no_cassette(honoured, without, mode):
    tapes = honoured.read_tapes()
    *seen, printed = honoured.run(f"--vcr={mode}")
    assert tuple(seen) == without
    assert re.search(rf"^{mode} .*: all equal", printed.replace("\n            ", " "), re.MULTILINE), printed
    assert honoured.read_tapes() == tapes


@pytest.mark.exhaustive
def test_what_is_converted_replays_its_bytes_without_a_cassette_and_the_rest_says_why(honoured, without):
    outcomes, replies, _ = without
    tapes = honoured.read_tapes()
    try:
        converting, _, _, printed = honoured.run("--vcr=convert", "--apply")
        assert converting == outcomes
        assert honoured.read_tapes() == tapes
        kept = set(re.findall(r"^kept +test_honoured\.py::(\w+)", printed, re.MULTILINE))
        assert kept == {
            "test_a_hook_that_drops",
            "test_ignored_host",
            "test_fixture",
            "test_persister_and_nested_cassettes",
            "test_expected_failure",
        }, printed
        for file in tapes:
            file.unlink()
        offline, served, hits, printed = honoured.run("--replay=model", "-k", "not " + " and not ".join(kept))
        assert {test: outcomes[test] for test in offline} == offline, printed
        assert hits == 1, "test_allowed_hosts has no cassette"
        for test in offline:
            assert [reply[::2] for reply in served[test]] == [reply[::2] for reply in replies[test]], test
    finally:
        shutil.rmtree(honoured.project.root / "cassettes", ignore_errors=True)
