"""An open cassette of vcrpy beside a run of ours: the network of a recording, and inert in a replay."""

import importlib.util

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main", "clients")

CLIENTS = """
import asyncio, json, os, urllib.request
import pytest

URL = os.environ.get("MODEL_URL", "") + "/v1/chat/completions"
BODY = {"model": "m-1", "messages": [{"role": "user", "content": "Where is A-17?"}], "tools": []}
JSON = {"content-type": "application/json"}

def by_openai():
    import openai
    client = openai.OpenAI(api_key="k", base_url=os.environ["MODEL_URL"] + "/v1", max_retries=0)
    return client.chat.completions.create(model="m-1", messages=BODY["messages"]).to_dict()

def by_openai_stream():
    import openai
    client = openai.OpenAI(api_key="k", base_url=os.environ["MODEL_URL"] + "/v1", max_retries=0)
    return [part.to_dict() for part in client.chat.completions.create(stream=True, **BODY)]

def by_httpx():
    import httpx
    return httpx.post(URL, json=BODY).json()

def by_httpx2():
    import httpx2
    return httpx2.post(URL, json=BODY).json()

def by_httpx_gathered():
    import httpx
    async def ask():
        async with httpx.AsyncClient() as client:
            replies = await asyncio.gather(*(client.post(URL, json=BODY | {"n": n}) for n in range(3)))
            return [reply.json() for reply in replies]
    return asyncio.run(ask())

def by_aiohttp():
    import aiohttp
    async def ask():
        async with aiohttp.ClientSession() as session, session.post(URL, json=BODY) as reply:
            return await reply.json()
    return asyncio.run(ask())

def by_requests():
    import requests
    return requests.post(URL, json=BODY, timeout=5).json()

def by_urllib3():
    import urllib3
    return urllib3.PoolManager().request("POST", URL, body=json.dumps(BODY), headers=JSON, retries=False).json()

def by_urllib():
    return json.load(urllib.request.urlopen(urllib.request.Request(URL, json.dumps(BODY).encode(), JSON)))

def by_boto3():
    import boto3
    client = boto3.client("bedrock-runtime", region_name="us-east-1", aws_access_key_id="x",
                          aws_secret_access_key="y", endpoint_url=os.environ["MODEL_URL"])
    return client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "b"}]}])["stopReason"]

@pytest.mark.vcr
@pytest.mark.parametrize("client", CLIENTS)
def test_asks(client, agentreplay):
    assert globals()["by_" + client]()
"""
PRESENT = ["openai", "openai_stream", "httpx", "httpx2", "httpx_gathered", "aiohttp", "requests", "urllib3", "urllib"]
PRESENT = [name for name in PRESENT if name == "urllib" or importlib.util.find_spec(name.partition("_")[0])]


def test_each_client_is_recorded_through_its_cassette_and_replays_without_it(project, read_cassettes):
    project.plugins += ("recording",)
    project.write(test_shop=CLIENTS.replace("CLIENTS)", f"{PRESENT!r})"))
    ended(project.run("--agentreplay-mode=off", "--record-mode=once"))
    before = read_cassettes()
    assert len(before) == len(PRESENT)
    project.server.stop()
    recorded = ended(project.record())
    assert recorded.stdout.count("test passed)") == len(PRESENT)
    assert read_cassettes() == before
    for file in before:
        file.unlink()
    replayed = ended(project.offline())
    assert f"replayed {len(PRESENT)} tests" in replayed.stdout
    assert not read_cassettes()


WORDS = """
import asyncio, pytest

def by_httpx(method, url, **more):
    import httpx
    reply = httpx.request(method, url, follow_redirects=True, **more)
    return reply.status_code, reply.text

def by_requests(method, url, **more):
    import requests
    reply = requests.request(method, url, timeout=5, **more)
    return reply.status_code, reply.text

def by_urllib3(method, url, **more):
    import urllib3
    reply = urllib3.request(method, url, **more)
    return reply.status, reply.data.decode()

def by_urllib(method, url, json=None):
    import json as coder, urllib.request
    body = None if json is None else coder.dumps(json).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as reply:
        return reply.status, reply.read().decode()

def by_aiohttp(method, url, **more):
    import aiohttp
    async def ask():
        async with aiohttp.ClientSession() as session, session.request(method, url, **more) as reply:
            return reply.status, await reply.text()
    return asyncio.run(ask())

@pytest.fixture
def vcr_cassette_dir():
    return "cassettes"

@pytest.mark.vcr("words.yaml", match_on=["method", "uri", "body"])
@pytest.mark.parametrize("client", ["httpx", "requests", "urllib3", "urllib", "aiohttp"])
def test_reads(client, agentreplay):
    ask = globals()["by_" + client]
    if client not in ("aiohttp", "urllib"):  # vcrpy's stub of the one, and the other itself, decode nothing
        assert ask("GET", "http://shop.invalid/packed") == (200, "packed words")
    assert ask("GET", "http://shop.invalid/unpacked") == (200, "unpacked words")
    assert ask("GET", "http://shop.invalid/short") == (200, "longer than it says")
    assert ask("GET", "http://shop.invalid/chunked") == (200, "in one piece")
    assert ask("GET", "http://shop.invalid/moved") == (200, "moved here")
    assert ask("POST", "http://shop.invalid/json", json={"a": [1]})[1] == "json"
    assert ask("GET", "http://shop.invalid/empty") == (204, "")
"""


def test_a_body_reads_as_through_vcrpy(suite, write_cassette):
    import gzip

    url = "http://shop.invalid/"
    packed = gzip.compress(b"packed words", mtime=0)
    json_rows = [("POST", f"{url}json", body, 200, {}, "json") for body in ('{"a":[1]}', '{"a": [1]}', {"a": [1]})]
    write_cassette(
        "words",
        ("GET", f"{url}packed", None, 200, {"Content-Encoding": ["gzip"]}, packed),
        ("GET", f"{url}unpacked", None, 200, {"content-encoding": ["gzip"], "content-length": ["9"]}, "unpacked words"),
        ("GET", f"{url}short", None, 200, {"Content-Length": ["4"]}, "longer than it says"),
        ("GET", f"{url}chunked", None, 200, {"transfer-encoding": ["chunked"]}, "in one piece"),
        ("GET", f"{url}moved", None, 302, {"Location": ["/here"]}, ""),
        ("GET", f"{url}here", None, 200, {}, "moved here"),
        ("GET", f"{url}empty", None, 204, {}, ""),
        *json_rows,
    )
    words = WORDS.replace('", "body"]', '", "body"], allow_playback_repeats=True')
    suite.write(test_words=words)
    recorded = ended(suite.record())
    assert recorded.stdout.count("test passed)") == 5
    ended(suite.offline())


ONE = """
import httpx, pytest, vcr

def ask(path="a"):
    return httpx.get(f"http://shop.invalid/{path}").text
"""


def test_a_request_that_the_cassette_has_not_raises_vcrpys_own_error_and_nothing_is_written(suite, write_cassette):
    write_cassette("a", ("GET", "http://shop.invalid/a", None, 200, {}, "words"))
    test = """
def test_more(agentreplay):
    with vcr.use_cassette("cassettes/a.yaml", record_mode="none"):
        assert ask() == "words"
        ask("b")

def test_swallows(agentreplay):
    with vcr.use_cassette("cassettes/a.yaml"):
        with pytest.raises(vcr.errors.CannotOverwriteExistingCassetteException):
            ask("b")
"""
    suite.write(test_a=ONE.replace("vcr\n", "vcr, vcr.errors\n") + test)
    refused = ended(suite.record(), 1)
    assert "CannotOverwriteExistingCassetteException" in refused.stdout
    assert refused.stdout.count("recorded  nothing of test_a.py::") == 2
    assert "vcrpy refused the call (" in refused.stdout
    assert suite.files == []


def test_what_vcrpy_would_record_a_recording_of_ours_asks_for_and_no_cassette_keeps(project):
    project.write(
        test_shop="""
import agent, httpx, pytest, vcr

@pytest.mark.parametrize("mode", ["once", "new_episodes", "all"])
def test_new(agentreplay, mode):
    with vcr.use_cassette(f"new-{mode}.yaml", record_mode=mode) as cassette:
        assert "refund" in agent.answer("Where is A-17?")
    assert (len(cassette), cassette.play_count) == (0, 0)

def test_ignored(agentreplay):
    with vcr.use_cassette("none.yaml", record_mode="none", ignore_localhost=True):
        assert "refund" in agent.answer("Where is A-17?")
"""
    )
    recorded = ended(project.record())
    assert recorded.stdout.count("(created, 3 calls, test passed)") == 0
    assert recorded.stdout.count("test passed)") == 4
    ended(project.offline())
    assert not [*project.root.glob("*.yaml")]


def test_a_cassette_of_a_wider_fixture_serves_theirs_and_ours(suite, write_cassette):
    file = write_cassette("a", ("GET", "http://shop.invalid/a", None, 200, {}, "words"))
    test = """
@pytest.fixture(scope="module", autouse=True)
def cassette():
    with vcr.use_cassette("cassettes/a.yaml", record_mode="none", allow_playback_repeats=True) as cassette:
        yield cassette

def test_theirs(cassette):
    assert ask() == "words"
    assert cassette.play_count == 1

def test_ours(agentreplay, cassette):
    assert ask() == "words"

def test_theirs_again(cassette):
    assert ask() == "words"
"""
    suite.write(test_a=ONE + test)
    ended(suite.record())
    assert [file.stem for file in suite.files] == ["test_ours.snapshot"]
    before = file.read_bytes()
    file.write_bytes(before.replace(b"words", b"other"))
    diverged = ended(suite.offline("-k", "ours"))
    assert "1 passed" in diverged.stdout, "the snapshot answers"
    suite.edit("test_a.py", "(agentreplay, cassette)", "(cassette)")
    assert "3 failed" in ended(suite.run(), 1).stdout, "the cassette answers all three"


def test_the_fixture_of_pytest_recording_counts_and_the_file_stays(suite, write_cassette):
    rows = [("GET", f"http://shop.invalid/{path}", None, 200, {}, f"words of {path}") for path in "ab"]
    file = write_cassette("test_a/test_counts", *rows)
    test = """
@pytest.mark.vcr(drop_unused_requests=True)
def test_counts(agentreplay, vcr):
    assert ask() == "words of a"
    if agentreplay.mode == "record":
        assert (vcr.play_count, len(vcr.requests), vcr.all_played) == (1, 2, False)
"""
    before = file.read_bytes()
    suite.write(test_a=ONE.replace(", vcr", "") + test)
    ended(suite.record())
    assert "replayed 1 test" in ended(suite.offline("--block-network")).stdout
    assert file.read_bytes() == before


def test_rewriting_keeps_the_cassette_of_a_test_of_ours(suite, write_cassette):
    file = write_cassette("test_a/test_a", ("GET", "http://shop.invalid/a", None, 200, {}, "words"))
    suite.write(test_a=ONE + '@pytest.mark.vcr\ndef test_a(agentreplay):\n    assert ask() == "words"\n')
    ended(suite.record())
    refused = ended(suite.record("--record-mode=rewrite"), 4)
    assert "rewriting deletes the recordings of vcrpy" in refused.stderr
    refused = ended(suite.replay("--record-mode=rewrite"), 1)
    assert "\nrewriting deletes the recordings of vcrpy" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert file.exists()
    ended(suite.replay("--record-mode=rewrite", "--disable-recording"))
    assert file.exists()


HIDDEN = """
import json
import httpx, pytest, vcr
from vcr.request import Request

def hide_path(request):
    request.uri = request.uri.replace("acme-4711-secret", "customer")
    return request

ROWS = {
    "query": ({"filter_query_parameters": ["customer"]}, "GET", "?customer=acme-4711-secret&q=caf%C3%A9%20hello", {}),
    "form": ({"filter_post_data_parameters": [("customer", "x")]}, "POST", "", {"data": {"customer": "acme 4711secret"}}),
    "json": ({"filter_post_data_parameters": ["customer"]}, "POST", "", {"json": {"customer": "acme-4711-secret"}}),
    "path": ({"before_record_request": hide_path}, "GET", "acme-4711-secret", {}),
    "saved": ({"filter_sensitive_data": {"WORDS": "words-4711-secret"}}, "GET", "", {}),
    "header": ({"filter_headers": ["x-customer"]}, "GET", "", {"headers": {"x-customer": "acme-4711-secret"}}),
    "redacted": ({"filter_query_parameters": ["api_key"]}, "GET", "?api_key=sk-proj-4711secret4711secret4711", {}),
    "form encoding": ({"filter_post_data_parameters": ["b"]}, "POST", "?q=caf%C3%A9%20hello", {"json": {"a": "caf\u00e9", "n": 1.50}}),
}

@pytest.mark.parametrize("row", ROWS)
def test_asks(agentreplay, row):
    options, method, rest, more = ROWS[row]
    with vcr.use_cassette("cassettes/a.yaml", record_mode="none", match_on=["method", "host"], **options):
        assert "words" in httpx.request(method, f"http://shop.invalid/{rest}", **more).text
"""
POLICY = """
schemaVersion: "1.0"
names:
  customer: [customer]
patterns:
  - category: account
    regex: (acme|words)-4711-secret
"""


def test_what_a_filter_of_the_suite_hides_is_not_written_unless_it_is_redacted(suite, write_cassette):
    rows = [(method, "http://shop.invalid/", None, 200, {}, "the WORDS words") for method in ("GET", "POST")]
    write_cassette("a", *rows)
    suite.write(test_a=HIDDEN)
    refused = ended(suite.record(), 1)
    assert "4711" not in "\n".join(line for line in refused.stdout.splitlines() if "hides a value" in line)
    for row, address in {
        "query": "GET shop.invalid/",
        "form": "POST shop.invalid/",
        "path": "GET shop.invalid/customer",
    }.items():
        assert f"a filter of the suite hides a value of {address} that the snapshot would show" in refused.stdout, row
    assert "5 failed, 3 passed" in refused.stdout, refused.stdout
    assert not any(b"secret" in file.read_bytes() for file in suite.files)
    (suite.root / "agentreplay-policy.yaml").write_text(POLICY, encoding="utf-8")
    assert "8 passed" in ended(suite.record()).stdout
    assert not any(b"secret" in file.read_bytes() for file in suite.files)
    ended(suite.offline())
