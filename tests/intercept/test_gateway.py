"""Agents in another process: recorded and replayed through the gateway, as the calls that they would make themselves."""

import json
import re

import pytest

from pytest_agentreplay.intercept.gateway.forwarding import left_early
from pytest_agentreplay.model.exchanges import Body, Failure, HttpReply
from pytest_agentreplay.runs.fixture_handle import AgentReplay
from tests.support.model_server import Raw
from tests.support.small_projects import passed

INI = "[pytest]\nagentreplay_allow = program:python\n"
"""The children stand for programs in other languages: started with -S they do not load the plugin."""

CHILD = """
import http.client, json, os, sys, threading, time, urllib.error, urllib.parse, urllib.request

PROMPT = "You help customers. Be brief."
BASE = os.environ["OPENAI_BASE_URL"]
HEADERS = {"content-type": "application/json", "authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", "none")}

def body(question, **more):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    return json.dumps({"model": "m-1", "messages": messages} | more).encode()

def ask(question, **more):
    request = urllib.request.Request(BASE + "/chat/completions", body(question, **more), HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return type(error.reason if isinstance(error, urllib.error.URLError) else error).__name__

def connected(timeout=20):
    url = urllib.parse.urlsplit(BASE)
    return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout), url.path

def posted(question, timeout=20, **more):
    link, path = connected(timeout)
    link.request("POST", path + "/chat/completions", body(question, **more), HEADERS)
    return link

def on_one_connection():
    link, base = connected()
    said = []
    for method, path, sent in (
        ("GET", "/things?b=2&a=1", None), ("DELETE", "/things/7", None), ("HEAD", "/things", None),
        ("POST", "/things", iter([b'{"in":', b' "chunks"}'])), ("PUT", "/things", b""),
    ):
        link.request(method, base + path, sent, {"content-type": "application/json"}, encode_chunked=sent is not None)
        reply = link.getresponse()
        said.append([reply.status, reply.read().decode()])
    return said

def stream(question):
    reply, chunks, arrivals = posted(question, stream=True).getresponse(), [], []
    while chunk := reply.read1(65536):
        chunks.append(chunk.decode())
        arrivals.append(time.monotonic())
    with open("paced.txt", "a") as file:
        print(question, arrivals[-1] - arrivals[0], file=file)
    return chunks

def half(question):
    reply, got = posted(question).getresponse(), b""
    try:
        while chunk := reply.read1(65536):
            got += chunk
        return ["whole", got.decode()]
    except (OSError, http.client.HTTPException) as error:
        return [type(error).__name__, got.decode()]

def get_url(url):
    with urllib.request.urlopen(url, timeout=20) as reply:
        return reply.status

def side_by_side():
    said = {}
    gate = threading.Barrier(3)
    def one(name):
        said[name] = []
        for turn in range(2):
            gate.wait()
            said[name].append(ask(f"slow {name} {turn}"))
    threads = [threading.Thread(target=one, args=(name,)) for name in "abc"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return said

def impatient():
    link = posted("hang", timeout=0.5)
    try:
        return link.getresponse().status
    except OSError as error:
        link.close()
        return [type(error).__name__, ask("after the silence")]

def get(path, bare=False, provider=None):
    base = urllib.parse.urlsplit(BASE)
    place = base.path.removesuffix("/v1")
    if provider:
        place = place.rpartition("/")[0] + "/" + provider
    try:
        return get_url(f"http://{base.netloc}" + ("" if bare else place) + path)
    except urllib.error.HTTPError as error:
        return [error.code, json.load(error)["error"]["message"]]

def elsewhere():
    try:
        return get_url("https://api.example.com/v1/models")
    except OSError as error:
        return repr(error)

def socket():
    link, path = connected()
    link.request("GET", path + "/realtime", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
    return link.getresponse().status

if __name__ == "__main__":
    print(json.dumps(eval(sys.argv[1])))
"""

TESTS = """
import json, os, pathlib, re, subprocess, sys
import pytest
from changes import CHANGES

SAID = pathlib.Path(__file__).with_name("said.jsonl")
IN_TURN = "[ask('first'), ask('second'), ask('third')]"
TURNS = {
    "in turn": IN_TURN,
    "methods": "on_one_connection()",
    "stream": "stream('stream')",
    "paced": "stream('paced')",
    "half": "[half('half'), half('short'), ask('after')]",
    "reset": "[ask('reset'), ask('refused')]",
    "tried again": "[ask('busy'), ask('busy')]",
    "side by side": "side_by_side()",
    "impatient": "impatient()",
}

def started(env, code):
    words = [sys.executable, "-S", "agent_main.py", code]
    return subprocess.Popen(words, env={**os.environ, **env}, stdout=subprocess.PIPE, encoding="utf-8")

def child(gateway, code):
    process = started(gateway.env, code)
    said, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(said)

@pytest.mark.parametrize("what", CHANGES)
def test_changed(agentreplay, what):
    print("SAID", what, json.dumps(child(agentreplay.gateway, CHANGES[what][os.environ.get("NOW") == "1"])))

@pytest.mark.parametrize("what", TURNS)
def test_child(agentreplay, what):
    said = child(agentreplay.gateway, TURNS[what])
    with SAID.open("a") as file:
        file.write(json.dumps([what, said]) + "\\n")

def test_in_this_process_or_another(agentreplay):
    if os.environ.get("NOW") == "1":
        import agent_main
        assert "answer" in agent_main.ask("first")
    else:
        assert "answer" in child(agentreplay.gateway, "ask('first')")

@pytest.mark.agentreplay(children=["python -S agent_main.py *"])
def test_by_the_marker():
    done = subprocess.run([sys.executable, "-S", "agent_main.py", "ask('first')"], stdout=subprocess.PIPE, check=True)
    assert b"answer" in done.stdout

def test_the_gateway_itself(agentreplay):
    gateway = agentreplay.gateway
    assert gateway is agentreplay.gateway
    assert "mistralai" in gateway.unreachable
    assert "not by a variable: mistralai" in repr(gateway)
    one, two = gateway.env, gateway.env
    assert one["OPENAI_BASE_URL"] != two["OPENAI_BASE_URL"], "each reading is a child of its own"
    if agentreplay.mode == "replay":
        assert one["HTTPS_PROXY"].endswith(re.search("127.0.0.1:[0-9]+", gateway.url)[0])
        assert one["NO_PROXY"] == one["no_proxy"] == "127.0.0.1,localhost,::1"
        assert one["OPENAI_API_KEY"] == "agentreplay-no-key-is-needed"
    else:
        assert not one.keys() & {"HTTPS_PROXY", "OPENAI_API_KEY"}, "a recording is made with the real ones"
    assert gateway.through("https://api.mistral.ai/v1").startswith(gateway.url + "/p/api-mistral-ai/v1")
    code = f"get_url({gateway.through(os.environ['OPENAI_BASE_URL'])!r} + '/things')"
    assert child(gateway, code) == 200

def test_another_tests_child(agentreplay):
    mine = child(agentreplay.gateway, "ask('first')")
    env = agentreplay.gateway.env
    env["OPENAI_BASE_URL"] = re.sub("/t/[0-9a-f]+", "/t/" + "0" * 16, env["OPENAI_BASE_URL"])
    assert "this gateway is another test's" in started(env, "ask('first')").communicate()[0]

def test_two_children(agentreplay):
    running = [started(agentreplay.gateway.env, f"[ask('{name} one'), ask('{name} two')]") for name in ("left", "right")]
    for one in running:
        assert "answer" in one.communicate()[0]
"""

CHANGES = {
    # recorded, now, and the first line of the report
    "prompt": ("[ask('a'), ask('b')]", "[ask('a'), ask('b!')]", r"\[AR-PROMPT\] turn 2/2: .* b -> b!"),
    "model": ("[ask('a'), ask('b')]", "[ask('a'), ask('b', top_p=1)]", r"\[AR-MODEL\] turn 2/2: .*top_p added"),
    "order": (
        "[ask('a'), ask('b')]",
        "[ask('b'), ask('a')]",
        r"\[AR-ORDER\] turn 2/2: .*: b came before .*: a, which is recorded first",
    ),
    "extra": ("[ask('a')]", "[ask('a'), ask('a')]", r"\[AR-EXTRA\] turn 1/1: model m-1 called once more than recorded"),
    "missing": ("[ask('a'), ask('b')]", "[ask('a')]", r"\[AR-MISSING\] turn 2/2: .*was not called"),
    "no token": (
        "get('/v1/x')",
        "get('/v1/x', bare=True)",
        r"\[AR-NET\] the gateway was asked without a test.s token.*",
    ),
    "provider": (
        "get('/v1/x')",
        "get('/v1/x', provider='nobody')",
        r"\[AR-NET\] the gateway knows no provider 'nobody'.*",
    ),
    "connect": ("ask('a')", "[ask('a'), elsewhere()]", r"\[AR-NET\] a child asked for api.example.com:443, .*"),
    "socket": ("ask('a')", "[ask('a'), socket()]", r"\[AR-NET\] a child asked for a WebSocket.*"),
}


def model(body, number):
    """What the upstream says to the last words of the user."""
    if not isinstance(body, dict) or "messages" not in body:
        return f"answer {number}"
    match body["messages"][-1]["content"]:
        case "half":
            return Raw(headers=[("content-type", "application/json")], chunks=[b'{"half":', b"1}"], break_after=1)
        case "short":
            return Raw(headers=[("content-length", "100")], chunks=[b"not a hundred"], break_after=1)
        case "reset":
            return Raw(status=0, break_after=0, reset=True)
        case "busy" if number % 2:
            return Raw(
                status=503, reason="Busy", headers=[("content-length", "4"), ("Retry-After", "0")], chunks=[b"busy"]
            )
        case "paced":
            return Raw(headers=[("content-type", "text/event-stream")], chunks=[b"data: 1\n\n"] * 3, delay=0.2)
        case "hang":
            return Raw(status=0, hang=True)
        case str(words) if words.startswith("slow"):
            return Raw(
                headers=[("content-type", "application/json")],
                chunks=[json.dumps({"choices": [{"message": {"content": f"{words}: {number}"}}]}).encode()],
                delay=0.05,
            )
    return f"answer {number}"


@pytest.fixture(scope="module")
def recorded(shared_project):
    """The project with its recordings, and what the children said then."""
    project = shared_project(model)
    project.write(agent_main=CHILD, test_children=TESTS, changes=f"CHANGES = {CHANGES!r}\n")
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    project.environ |= {"OPENAI_API_KEY": "sk-live-0123456789abcdef", "OPENAI_BASE_URL": project.server.url + "/v1"}
    passed(project.record())
    return project, said(project)


def said(project):
    file = project.root / "said.jsonl"
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.unlink()
    return dict(found)


def of(project, name):
    return next(one.run for one in project.snapshots if name in one.run.header.test)


def offline(project, *words, **environ):
    """A replay whose children find no key and no upstream."""
    hits = project.server.hits
    done = project.replay(*words, **{"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"} | environ)
    assert project.server.hits == hits, "a replay has asked the upstream"
    return done


def test_a_replay_serves_what_the_children_got(recorded):
    project, then = recorded
    done = passed(offline(project, "-k", "not changed"))
    now = said(project)
    assert now.keys() == then.keys()
    for what, words in then.items():
        assert now[what] == words, what
    told = "refused   at the gateway of test_children.py::test_another_tests_child: POST /v1/chat/completions, by the child of"
    assert told in done.stdout


@pytest.mark.parametrize(("body", "early"), [(b"bu", True), (b"busy", False)])
def test_a_child_that_left_with_all_of_an_answer_did_not_leave_early(body, early):
    headers = (("Content-Length", "4"),)
    assert left_early(HttpReply(503, "Busy", "HTTP/1.1", headers, Body(body), (len(body),), closed=True)) is early


def test_in_mode_off_children_are_left_alone():
    gateway = AgentReplay(None).gateway
    assert gateway.env == {}
    assert gateway.through("https://api.mistral.ai") == "https://api.mistral.ai"
    assert "mistralai" in gateway.unreachable


def test_an_answer_flows_while_it_is_recorded(recorded):
    project, _ = recorded
    spread = re.search(r"^paced (.*)$", (project.root / "paced.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert float(spread) > 0.3, "the child had its first bytes together with its last"


def test_what_a_child_asks_is_recorded_as_the_call_to_its_upstream(recorded):
    project, _ = recorded
    run = of(project, "[in turn]")
    assert [(x.lane, x.call.url) for x in run.exchanges] == [
        ("main.1", project.server.url + "/v1/chat/completions")
    ] * 3
    assert [x.call.method for x in of(project, "[methods]").exchanges] == ["GET", "DELETE", "HEAD", "POST", "PUT"]
    assert of(project, "[methods]").exchanges[3].call.body.data == b'{"in": "chunks"}'
    texts = "".join(file.read_text(encoding="utf-8") for file in project.files)
    assert "sk-live" not in texts
    assert "/t/" not in texts
    assert "gaps" not in run.header.kit, "a child of the gateway is no gap in the recording"


def test_failures_and_half_answers_are_kept(recorded):
    project, then = recorded
    half, short, after = of(project, "[half]").exchanges
    assert (half.outcome.body.data, half.outcome.failure.type) == (b'{"half":', "http.client.IncompleteRead")
    assert (short.outcome.body.data, short.outcome.failure.type) == (b"not a hundred", "http.client.IncompleteRead")
    assert after.outcome.status == 200
    assert [one[0] for one in then["half"][:2]] == ["ConnectionResetError"] * 2
    broken = of(project, "[reset]").exchanges[0].outcome
    assert isinstance(broken, Failure)
    silent, later = of(project, "[impatient]").exchanges
    assert silent.abandoned
    assert not later.abandoned


def test_only_a_child_that_asks_in_turn_is_held_to_an_order(recorded):
    project, _ = recorded
    assert {x.lane for x in of(project, "[side by side]").exchanges} == {f"main.1.{number}" for number in range(1, 7)}
    two = of(project, "test_two_children").exchanges
    assert sorted(x.lane for x in two) == ["main.1", "main.1", "main.2", "main.2"]


@pytest.fixture(scope="module")
def changed(recorded):
    """What pytest says of each test whose child does something else than it did, and its output."""
    project, _ = recorded
    done = offline(project, "-k", "changed or in_this_process", NOW="1", COLUMNS="200")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_a_child_that_does_something_else_is_told(changed):
    told = dict(re.findall(r"^FAILED \S+test_changed\[(.+)\] - (.*)$", changed, re.MULTILINE))
    assert told.keys() == CHANGES.keys()
    for what, (_, _, expected) in CHANGES.items():
        assert re.fullmatch(expected, told[what]), told[what]


def test_a_child_and_a_client_in_this_process_make_the_same_calls(changed):
    assert f"{len(CHANGES)} failed, 1 passed" in changed


def test_a_refused_child_is_told_why_in_its_own_words(changed):
    said = re.search(r"^SAID prompt (.*)$", changed, re.MULTILINE)[1]
    answered, refused = json.loads(said)
    assert answered.startswith("answer")
    status, _, body = refused.partition(" ")
    error = json.loads(body)
    assert status == "400"
    assert error["error"]["code"] == "AR-PROMPT"
    assert error["error"]["message"].startswith("agentreplay: [AR-PROMPT] ")
    assert error["type"] == "error"
