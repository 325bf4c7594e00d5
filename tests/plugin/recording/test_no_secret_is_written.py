"""Whatever is written, named or shown about a test holds no secret, in no encoding; other secrets replay it.

What pytest writes of a test's id is pytest's own (`-v`, JUnit's names, its cache): a secret does not belong into an id.
"""

import base64
import json
import re
import shutil
from urllib.parse import quote

import pytest

from tests.support.exhaustive import rare
from tests.support.model_script import Raw
from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

KEY = "sk-" + "proj-" + "Vq7Rt2Lw9Xz4Bn6Mk1Jh8Gf3Ds5A"
PARAMETER = 'tok"en/of+the=parameter\\99'
SAID = 's3cr"Tok/en+vä=99\\x'
"""As awkward as a password may be: JSON, URLs and UTF-8 all write it in another way."""
HEADER = "hdr-77aa-88bb-99cc-secret"
COOKIE = "c00kie-0123456789abcdef-value"
PASSWORD = "pa55-of-the-url-31337"
WIDE = "named-before-any-test-begins"
LATE = "named-when-all-was-over-0815"
SECRETS = (KEY, PARAMETER, SAID, HEADER, COOKIE, PASSWORD, WIDE, LATE)

AGENT = """
import base64, json, logging, os, sys, threading, warnings
from urllib.parse import quote
import httpx2, openai

BASE, WAY = os.environ["MODEL_URL"], os.environ.get("WAY", "")
GO, STRAGGLER = threading.Event(), []
HEADER, PASSWORD, SAID = os.environ["PLANT_A"], os.environ["PLANT_B"], os.environ["PLANT_C"]

def look_up(order: dict) -> dict:
    if WAY == "tool":
        raise LookupError(f"no order for {HEADER}")
    return {
        "order": order, HEADER: [PASSWORD, SAID.encode()], "late": "named-when-all-was-over-0815", "plain": f"<{SAID}>",
        "encoded": base64.b64encode(SAID.encode()).decode(), "percent": quote(SAID, safe=""), SAID: [SAID],
        "nested": json.dumps({"auth": json.dumps({"token": SAID})}),
    }

class Holder:
    def __init__(self, **held):
        self.__dict__.update(held)
    def __repr__(self):
        return f"Holder({self.__dict__})"

def answer(question):
    key = os.environ.get("OPENAI_API_KEY", "")
    jar = httpx2.Client(headers={"x-api-key": HEADER})
    jar.get(f"{BASE.replace('//', '//user:' + PASSWORD + '@')}/login")
    cookie = jar.cookies.get("PHPSESSID")
    jar.get(f"{BASE}/rest/orders?session={quote(cookie)}&q=1")
    client = openai.OpenAI(base_url=BASE + "/v1", api_key=key or "none")
    said = "never" if WAY == "diverge" else "please"
    messages = [{"role": "user", "content": f"{question} {said} {json.dumps({'k': key})} {cookie}"}]
    stream = client.chat.completions.create(model="m-1", messages=messages, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in stream if part.choices)
    found = look_up({HEADER: quote(PASSWORD), "said": SAID})
    held = Holder(key=key, header=HEADER, cookie=cookie, url=f"https://u:{PASSWORD}@db/", text=text)
    print("out", key, HEADER, json.dumps({"c": cookie}), quote(PASSWORD, safe=""))
    print("late", "named-when-all-was-over-0815")
    print("err", base64.b64encode(key.encode()).decode(), key.encode().hex(), file=sys.stderr)
    logging.getLogger("shop").warning("logged %s %s", key, SAID)
    warnings.warn(f"warned {key} {SAID}")
    if WAY == "unreachable":
        jar.get(f"http://127.0.0.1:9/{HEADER}")
    if WAY == "late":
        STRAGGLER[:] = [threading.Thread(target=lambda: GO.wait() and jar.get(f"{BASE}/late/{quote(HEADER)}"))]
        STRAGGLER[0].start()
    if WAY == "socket":
        import socket
        try:
            socket.create_connection((HEADER + ".example", 80))
        except BaseException:
            pass
    return text, held
"""

CONFTEST = """
import os, pytest_agentreplay
pytest_agentreplay.secret(os.environ["PLANT_D"])
"""

TEST = """
import os, pytest, agent

@pytest.mark.parametrize("token", [os.environ["SHOP_TOKEN"]])
def test_leaky(request, agentreplay, token, record_property):
    request.addfinalizer(lambda: (agent.GO.set(), [one.join() for one in agent.STRAGGLER]))
    said = agentreplay.secret(os.environ["PLANT_C"])
    agentreplay.annotate(user=said, token=token)
    record_property("said", said)
    with agentreplay.agent(f"clerk of {token}"):
        text, held = agent.answer(f"My pin is {said}, my token {token}, {os.environ['PLANT_D']}.")
    agentreplay.secret("named-when-all-was-over-0815")
    way = agent.WAY
    if way == "raise":
        try:
            raise KeyError(f"{agent.HEADER} of {text}")
        except KeyError as error:
            raise ValueError(f"{token} and {held}") from error
    if way == "assert":
        assert {"key": os.environ.get("OPENAI_API_KEY"), "said": said} == {"key": token, "held": repr(held)}
    if way == "reply":
        assert text.partition(" You")[0] == "your key is what it was"
    if way == "own":
        assert len(token) == 1
    if way == "live":
        assert text.partition(" You")[0].endswith(os.environ["OPENAI_API_KEY"] + "!")
    if way == "interrupt":
        raise KeyboardInterrupt
    if way == "killed":
        os._exit(9)
"""

INI = "agentreplay_tools = agent.look_up\n"


def reply(body, number):
    """The other side: sets a cookie; streams the key one character an event, and repeats all that it was sent."""
    if body is None:
        cookie = f"PHPSESSID={COOKIE}; Path=/; HttpOnly"
        return Raw(headers=[("set-cookie", cookie), ("content-length", "2")], chunks=(b"{}",))
    deltas = [{"choices": [{"index": 0, "delta": {"content": letter}}]} for letter in f"your key is {KEY}!"]
    echo = json.dumps(body, ensure_ascii=False)
    deltas.append({"choices": [{"index": 0, "delta": {"content": f" You sent {echo}"}}]})
    events = [f"data: {json.dumps(delta)}\n\n".encode() for delta in deltas]
    return Raw(headers=[("content-type", "text/event-stream")], chunks=(*events, b"data: [DONE]\n\n"))


def guises(value):
    """A value as files and terminals write it."""
    raw = value.encode()
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value)[1:-1])[1:-1],
        quote(value, safe=""),
        base64.b64encode(raw).decode().rstrip("=")[:-1],
        base64.urlsafe_b64encode(raw).decode().rstrip("=")[:-1],
        raw.hex(),
    }


def searched(project, *done, but=()):
    """Fail where something that was written, named or shown holds a secret; gives the files that were looked at."""
    texts = [(text, "what was printed") for one in done for text in (one.stdout, one.stderr)]
    files = [file for file in project.root.rglob("*") if file.is_file() and file.suffix not in {".py", ".ini", ".pyc"}]
    files = [file for file in files if ".pytest_cache" not in file.parts]
    texts += [(file.read_bytes().decode(errors="replace"), file.name) for file in files]
    texts += [(str(file.relative_to(project.root)), "a file's name") for file in files]
    for text, where in texts:
        for own in guises(PARAMETER) | {PARAMETER.replace('"', "&quot;")}:
            text = text.replace(f"test_leaky[{own}]", "test_leaky[]")
        for secret in {*SECRETS} - {*but}:
            for guise in guises(secret):
                assert guise not in text, f"{guise} in {where}:\n{text[max(0, text.index(guise) - 600) :][:1200]}"
    return [file.name for file in files]


PROVED = ("--agentreplay-checks=unproved=warn",)
LONG = ("-vv", "-l", "--tb=long")


@pytest.fixture(scope="module")
def made(shared_project):
    project = furnished(shared_project(reply), INI, agent=AGENT, test_shop=TEST, conftest=CONFTEST)
    project.plugins = ("pytest_agentreplay.plugin",)
    planted = {f"PLANT_{name}": value for name, value in zip("ABCD", (HEADER, PASSWORD, SAID, WIDE), strict=True)}
    project.environ = planted | {"OPENAI_API_KEY": KEY, "SHOP_TOKEN": PARAMETER, "COLUMNS": "100"}
    project.words = ("-W", "default")
    return recorded(project, *project.words, *PROVED, "-v", "--junitxml=junit.xml", "-rA")


@pytest.fixture(autouse=True)
def swept(made):
    """What a failing recording has left as pending never heard of what is named late: it is looked at where it is made."""
    yield
    shutil.rmtree(made.root / ".pytest_agentreplay" / "pending", ignore_errors=True)


def test_a_recording_tells_none_and_replays_with_other_secrets(made):
    said = made.recording.stdout
    assert re.search(r"created, 4 calls, test passed\) +replays\n", said), said
    assert "junit.xml" in searched(made, made.recording)
    assert "out [[redacted:credential:" in said, "the captured output is shown, without secrets"
    assert "UserWarning: warned [[redacted:credential:" in said
    (file,) = made.files
    text = file.read_text(encoding="utf-8")
    assert made.snapshots[0].run.header.test == "test_shop.py::test_leaky[[[redacted:key:1]]#0]"
    assert "[[redacted:key:1]]#0]" in text
    assert "PHPSESSID=[[redacted:cookie:1]]; Path=/; HttpOnly" in text
    others = {"OPENAI_API_KEY": "another-key", "SHOP_TOKEN": "another-token-on-ci", "PLANT_C": "another-said-value"}
    passed(made.offline(*made.words, CI="1", **others))


@pytest.mark.parametrize("way", ["raise", "assert", "late", "socket", "diverge"])
def test_a_failure_in_a_replay_tells_none(made, way):
    done = made.offline(*made.words, *LONG, "-rA", "--junitxml=junit.xml", WAY=way)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    searched(made, done)
    if way == "diverge":
        assert "[AR-PROMPT]" in done.stdout
        assert "[AR-PROMPT]" in (made.root / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [["--tb=native"], ["--full-trace", "-l"], *rare(["--tb=short"], ["-q", "--tb=line"])])
def test_a_failure_while_recording_tells_none_and_keeps_none(made, words):
    done = made.record(*made.words, *words, WAY="raise")
    assert done.returncode == 1
    assert "[[redacted:" in done.stdout
    assert searched(made, done).count(made.files[0].name) == 2, "the snapshot and the pending run"
    (pending,) = made.root.rglob(".pytest_agentreplay/pending/**/*.snapshot.json")
    outcome = json.loads(pending.read_text(encoding="utf-8"))["header"]["outcome"]
    assert outcome["type"] == "ValueError"
    assert "[[redacted:" in str(outcome["message"])


@pytest.mark.parametrize("way", ["tool", "socket", "unreachable"])
def test_a_recording_in_which_something_goes_wrong_tells_none(made, way):
    done = made.record(*made.words, *LONG, WAY=way)
    assert (done.returncode == 1) == (way != "socket"), done.stdout
    assert "pytest_agentreplay/intercept/" not in done.stdout, "no frame of ours, whose locals are what was sent"
    searched(made, done, but=() if way == "socket" else (LATE,))  # it ends before that is named
    if way == "socket":
        assert "not recorded: 1 look-up of [[redacted:credential:" in done.stdout


def test_a_run_that_was_cut_short_or_killed_tells_none(made):
    stopped = made.record(*made.words, WAY="interrupt")
    assert stopped.returncode == 2
    assert any(name.endswith(".jsonl") for name in searched(made, stopped))
    listed = made.command("verify", "--recover")
    taken = passed(made.command(*re.search(r"agentreplay (verify --recover \S+)", listed.stdout)[1].split()))
    searched(made, listed, taken)
    made.record(*made.words, WAY="killed")
    journals = [*made.root.rglob("*.jsonl")]
    assert journals
    searched(made, but=(LATE,))  # it was named after the kill
    for file in journals:
        file.unlink()


def test_the_command_line_tells_none(made):
    for words in (["show"], ["show", "--kit"], ["show", "--kit", "--json"], ["verify"]):
        searched(made, passed(made.command(*words, made.files[0])))


def test_a_test_that_looks_at_a_secret_of_the_reply_is_told_so(made):
    done = made.offline(*made.words, WAY="reply")
    assert done.returncode == 1
    assert re.search(r"\[AR-REDACTED\] the test looks at \[\[redacted:credential:\d\]\], which", done.stdout), (
        done.stdout
    )
    assert "docs/reference/codes.md#ar-redacted" in done.stdout
    assert "[AR-REDACTED]" not in made.offline(*made.words, WAY="own").stdout
    made.files[0].rename(aside := made.files[0].with_suffix(".aside"))
    done = made.record(*made.words, *PROVED, WAY="live")
    assert "does not replay: redacted: its calls replay, but the test looks at a secret" in done.stdout, done.stdout
    searched(made, done)
    made.files[0].unlink()
    aside.rename(aside.with_suffix(".json"))


TOKEN_TESTS = """
import base64, json

def login(user):
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": user, "tid": "t-7", "iat": 1762000000}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return {"access_token": ".".join([*coded, "c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"])}

def test_claims(agentreplay):
    payload = agentreplay.tool(login)("ann")["access_token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["sub"] == "ann"

def test_another_error(agentreplay):
    agentreplay.tool(login)("ann")
    {}["other"]
"""


def test_a_test_that_reads_a_claim_of_a_redacted_token_is_told_so_and_a_policy_keeps_the_claim(shared_project):
    project = furnished(shared_project(), test_token=TOKEN_TESTS)
    project.forked_proofs = True
    test = "test_token.py::test_claims"
    done = project.record(test, *PROVED)
    assert "does not replay: redacted: its calls replay, but the test looks at a secret: KeyError: 'sub'" in done.stdout
    told = "[AR-REDACTED] the claim 'sub' is not in the recording: jwt:1 in the reply of call 1, tool login"
    assert told in project.offline(test).stdout
    project.record("test_token.py::test_another_error")
    assert "AR-REDACTED" not in project.offline("test_token.py::test_another_error").stdout
    (project.root / "agentreplay-policy.yaml").write_text(
        'schemaVersion: "1.0"\nkeep_claims: [sub]\n', encoding="utf-8"
    )
    assert "does not replay" not in project.record(test, *PROVED).stdout
    assert project.offline(test).returncode == 0
