"""The official SDKs, every way people call them: recorded, proved, and replayed equal with the server gone."""

import json
import re

import pytest

from pytest_agentreplay.demo.script import Raw, Say, default_script

pytestmark = pytest.mark.env("main", "legacy", "lowest")

SDKS = """
import asyncio, json, os, pathlib, threading
from concurrent.futures import ThreadPoolExecutor
import anthropic, openai

URL = os.environ["MODEL_URL"]
LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
SYSTEM = "You help customers."
LAST = "And what about the refund of A-18, now?"
FIRST = "Look up order A-17."
FUNCTION = {
    "name": "lookup_order",
    "description": "Where an order is.",
    "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
}
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}]
RESPONSE_TOOLS = [{"type": "function", "strict": False, **FUNCTION}]
CLAUDE_TOOLS = [{**{k: FUNCTION[k] for k in ("name", "description")}, "input_schema": FUNCTION["parameters"]}]

def lookup_order(order_id: str) -> dict:
    with LEDGER.open("a") as ledger:
        ledger.write(order_id + "\\n")
    return {"order": order_id, "status": "late"}

def oai(**more):
    return openai.OpenAI(base_url=URL + "/v1", api_key="sk-live-0123456789abcdef", **more)

def aoai(**more):
    return openai.AsyncOpenAI(base_url=URL + "/v1", api_key="sk-live-0123456789abcdef", **more)

def claude(**more):
    return anthropic.Anthropic(base_url=URL, api_key="sk-live-0123456789abcdef", **more)

def aclaude(**more):
    return anthropic.AsyncAnthropic(base_url=URL, api_key="sk-live-0123456789abcdef", **more)

AT_IMPORT = oai(), claude()

def plain(model):
    return model.model_dump(mode="json")

def chat_start():
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": FIRST}]

def chat_feed(messages, message):
    messages.append({k: v for k, v in plain(message).items() if k in {"role", "content", "tool_calls"} and v})
    for call in message.tool_calls or []:
        result = lookup_order(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    if not message.tool_calls:
        messages.append({"role": "user", "content": LAST})

def chat(client):
    seen, messages = [], chat_start()
    for _ in range(4):
        reply = client.chat.completions.create(model="gpt-x", messages=messages, tools=CHAT_TOOLS)
        seen.append(plain(reply))
        chat_feed(messages, reply.choices[0].message)
    return seen

def chat_stream(client):
    seen, messages = [], chat_start()
    for _ in range(4):
        with client.chat.completions.stream(model="gpt-x", messages=messages, tools=CHAT_TOOLS) as stream:
            seen.append([event.type for event in stream])
            reply = stream.get_final_completion()
        seen.append(plain(reply))
        chat_feed(messages, reply.choices[0].message)
    return seen

async def achat(client):
    seen, messages = [], chat_start()
    for _ in range(4):
        reply = await client.chat.completions.create(model="gpt-x", messages=messages, tools=CHAT_TOOLS)
        seen.append(plain(reply))
        chat_feed(messages, reply.choices[0].message)
    return seen

async def achat_stream(client):
    seen, messages = [], chat_start()
    for _ in range(4):
        stream = await client.chat.completions.create(
            model="gpt-x", messages=messages, tools=CHAT_TOOLS, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
        seen.append([plain(chunk) for chunk in chunks])
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        calls = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or []]
        message = {"role": "assistant", "content": text}
        if calls:
            arguments = "".join(call.function.arguments or "" for call in calls)
            use = {"id": calls[0].id, "type": "function", "function": {"name": "lookup_order", "arguments": arguments}}
            message["tool_calls"] = [use]
        chat_feed(messages, openai.types.chat.ChatCompletionMessage(**message))
    return seen

def responses_feed(given, reply):
    given += [item.model_dump(mode="json", exclude_none=True) for item in reply.output]
    calls = [item for item in reply.output if item.type == "function_call"]
    for call in calls:
        result = lookup_order(**json.loads(call.arguments))
        given.append({"type": "function_call_output", "call_id": call.call_id, "output": json.dumps(result)})
    if not calls:
        given.append({"role": "user", "content": LAST})

def responses(client):
    seen, given = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        reply = client.responses.create(model="gpt-x", instructions=SYSTEM, input=given, tools=RESPONSE_TOOLS)
        seen.append(plain(reply))
        responses_feed(given, reply)
    return seen

def responses_chained(client):
    seen, given, before = [], [{"role": "user", "content": FIRST}], {}
    for _ in range(4):
        reply = client.responses.create(model="gpt-x", instructions=SYSTEM, input=given, tools=RESPONSE_TOOLS, **before)
        seen.append(plain(reply))
        given, before = [], {"previous_response_id": reply.id}
        responses_feed(given, reply)
        given = [item for item in given if item.get("type") in {None, "function_call_output"}]
    return seen

def responses_stream(client):
    seen, given = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        with client.responses.stream(model="gpt-x", instructions=SYSTEM, input=given, tools=RESPONSE_TOOLS) as stream:
            seen.append([event.type for event in stream])
            reply = stream.get_final_response()
        seen.append(plain(reply))
        responses_feed(given, reply)
    return seen

async def aresponses(client):
    seen, given = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        reply = await client.responses.create(model="gpt-x", instructions=SYSTEM, input=given, tools=RESPONSE_TOOLS)
        seen.append(plain(reply))
        responses_feed(given, reply)
    return seen

def claude_feed(messages, reply):
    messages.append({"role": "assistant", "content": [plain(block) for block in reply.content]})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": json.dumps(lookup_order(**block.input))}
        for block in reply.content if block.type == "tool_use"
    ]
    messages.append({"role": "user", "content": results or LAST})

def claude_request(messages):
    return {"model": "claude-x", "max_tokens": 500, "system": SYSTEM, "messages": messages, "tools": CLAUDE_TOOLS}

def messages(client):
    seen, said = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        reply = client.messages.create(**claude_request(said))
        seen.append(plain(reply))
        claude_feed(said, reply)
    return seen

def messages_stream(client):
    seen, said = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        with client.messages.stream(**claude_request(said)) as stream:
            seen.append([event.type for event in stream])
            reply = stream.get_final_message()
        seen.append(plain(reply))
        claude_feed(said, reply)
    return seen

async def amessages(client):
    seen, said = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        reply = await client.messages.create(**claude_request(said))
        seen.append(plain(reply))
        claude_feed(said, reply)
    return seen

async def amessages_stream(client):
    seen, said = [], [{"role": "user", "content": FIRST}]
    for _ in range(4):
        async with client.messages.stream(**claude_request(said)) as stream:
            seen.append([event.type async for event in stream])
            reply = await stream.get_final_message()
        seen.append(plain(reply))
        claude_feed(said, reply)
    return seen

def question(text):
    return {"model": "gpt-x", "messages": [{"role": "user", "content": f"{text} {LAST}"}]}

def texts(reply):
    return reply.choices[0].message.content

async def gathered(client):
    return [texts(r) for r in await asyncio.gather(*(client.chat.completions.create(**question(f"{n}.")) for n in range(5)))]

async def alook(order_id: str) -> str:
    await asyncio.sleep(0.02)
    return f"{order_id} is late"

async def in_the_background(client):
    # Two tasks that nobody awaits go on while the agent has its turns.
    def turn(n):
        return client.chat.completions.create(**question(f"{n}."))
    calls = asyncio.create_task(turn(0)), asyncio.create_task(alook("A-1"))
    found = [await alook("A-2"), await alook("A-3"), texts(await turn(1)), await alook("A-4"), await alook("A-5")]
    return [[call.done() for call in calls], found]

async def side_by_side(client):
    async with aclaude() as other:
        return await asyncio.gather(achat(client), amessages(other), achat_stream(client))

def pooled(client):
    with ThreadPoolExecutor(4) as pool:
        return [texts(r) for r in pool.map(lambda n: client.chat.completions.create(**question(f"{n}.")), range(5))]

def beside_its_job(client, job_first):
    go = threading.Event()
    def job():
        go.wait()
        return texts(client.chat.completions.create(**question("job.")))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(job)
        if job_first:
            go.set()
            future.result()
        mine = texts(client.chat.completions.create(**question("mine.")))
        go.set()
        return [mine, future.result()]

def retried(client):
    return texts(client.with_options(max_retries=3).chat.completions.create(**question("[429]")))

def retried_claude(client):
    said = [{"role": "user", "content": f"[429] {LAST}"}]
    return plain(client.with_options(max_retries=3).messages.create(model="claude-x", max_tokens=9, messages=said))

def refused(client):
    try:
        client.chat.completions.create(**question("[400]"))
    except openai.BadRequestError as error:
        return [error.status_code, error.body, str(error), dict(error.response.headers)["x-request-id"]]

def early_close(client):
    with client.chat.completions.create(**question("[long]"), stream=True) as stream:
        found = []
        for chunk in stream:
            found.append(plain(chunk))
            if len(found) == 3:
                return found

async def given_up(client):
    found = []
    async def read():
        async for chunk in await client.chat.completions.create(**question("[hang]"), stream=True):
            found.append(plain(chunk))
    try:
        await asyncio.wait_for(read(), 0.5)
    except TimeoutError:
        return found

async def given_up_before_an_answer(client):
    try:
        await asyncio.wait_for(client.chat.completions.create(**question("[silent]")), 0.5)
    except TimeoutError:
        return texts(await client.chat.completions.create(**question("after")))

def timed_out(client):
    try:
        client.with_options(timeout=0.3, max_retries=1).chat.completions.create(**question("[silent]"))
    except openai.APITimeoutError as error:
        # A run in which no model answers at all is an outage, and not recorded.
        answered = texts(client.chat.completions.create(**question("after")))
        return [str(error), type(error.__cause__).__name__, answered]

def broken_off(client):
    found = []
    try:
        for chunk in client.chat.completions.create(**question("[cut]"), stream=True):
            found.append(plain(chunk))
    except Exception as error:
        found.append([type(error).__module__, type(error).__name__, str(error)])
    return found
"""

TESTS = '''
import json, pathlib
import anthropic, openai, pytest
import sdks
from sdks import aclaude, aoai, claude, oai

def check(agentreplay, name, digest):
    """What the agent got: written down while recording, the same ever after."""
    file = pathlib.Path(__file__).with_name(f"{name}.digest")
    if agentreplay.mode == "record":
        file.write_text(json.dumps(digest))
    assert json.loads(json.dumps(digest)) == json.loads(file.read_text())
    assert digest

SYNC = {
    "chat": (sdks.chat, oai),
    "chat_stream": (sdks.chat_stream, oai),
    "responses": (sdks.responses, oai),
    "responses_chained": (sdks.responses_chained, oai),
    "responses_stream": (sdks.responses_stream, oai),
    "messages": (sdks.messages, claude),
    "messages_stream": (sdks.messages_stream, claude),
    "pooled": (sdks.pooled, oai),
    "retried": (sdks.retried, oai),
    "retried_claude": (sdks.retried_claude, claude),
    "refused": (sdks.refused, oai),
    "early_close": (sdks.early_close, oai),
    "timed_out": (sdks.timed_out, oai),
    "broken_off": (sdks.broken_off, oai),
}
ASYNC = {
    "achat": (sdks.achat, aoai),
    "achat_stream": (sdks.achat_stream, aoai),
    "aresponses": (sdks.aresponses, aoai),
    "amessages": (sdks.amessages, aclaude),
    "amessages_stream": (sdks.amessages_stream, aclaude),
    "gathered": (sdks.gathered, aoai),
    "in_the_background": (sdks.in_the_background, aoai),
    "side_by_side": (sdks.side_by_side, aoai),
    "given_up": (sdks.given_up, aoai),
    "given_up_early": (sdks.given_up_before_an_answer, aoai),
}

async def run(name):
    agent, make = ASYNC[name]
    async with make() as client:
        return await agent(client)

@pytest.mark.parametrize("name", SYNC)
def test_sync(name, agentreplay):
    agent, make = SYNC[name]
    with make() as client:
        check(agentreplay, name, agent(client))

def test_clients_made_at_import(agentreplay):
    check(agentreplay, "import", [sdks.chat(sdks.AT_IMPORT[0]), sdks.messages(sdks.AT_IMPORT[1])])

def test_a_client_per_call(agentreplay):
    found = []
    for n in range(3):
        with oai() as client:
            found.append(sdks.plain(client.chat.completions.create(**sdks.question(f"{n}."))))
    check(agentreplay, "call", found)

@pytest.mark.asyncio
@pytest.mark.parametrize("name", ASYNC)
async def test_asyncio(name, agentreplay):
    check(agentreplay, name, await run(name))

@pytest.mark.anyio
@pytest.mark.parametrize("name", ["achat", "aresponses", "amessages", "amessages_stream"])
async def test_trio(name, agentreplay):
    check(agentreplay, "trio_" + name, await run(name))

@pytest.mark.agentreplay(order="free")
def test_a_job_may_come_before_what_ran_beside_it(agentreplay):
    with oai() as client:
        check(agentreplay, "job", sdks.beside_its_job(client, job_first=agentreplay.mode == "replay"))

@pytest.fixture
def client():
    with oai() as client:
        yield client

def test_client_of_a_fixture_older_than_ours(client, agentreplay):
    check(agentreplay, "fixture", sdks.chat(client))
'''

INI = """
[pytest]
pythonpath = .
asyncio_default_fixture_loop_scope = function
agentreplay_tools =
    sdks.lookup_order = read
    sdks.alook
"""

# Which turn says the last word first. Loops ask, answer, and say it in the third.
FIRST_TURN = {
    "pooled",
    "retried",
    "retried_claude",
    "refused",
    "early_close",
    "timed_out",
    "broken_off",
    "test_a_client_per_call",
}
FIRST_TURN |= {"gathered", "given_up", "in_the_background", "test_a_job_may_come_before_what_ran_beside_it"}
SECOND_TURN = {"given_up_early"}  # the first need not come again, so what comes is held against the second


def faults():
    """The server's script: what its faults are by a word in the request, else the default one."""
    tries = {}

    def reply(body, number):
        said = json.dumps(body)
        fault = next((word for word in ("429", "400", "long", "hang", "silent", "cut") if f"[{word}]" in said), None)
        events = [("content-type", "text/event-stream")]
        match fault:
            case "429":
                tries[said] = tries.get(said, 0) + 1
                if tries[said] > 2:
                    return f"At last ({number})."
                half = (b'{"error": {"message": "slow do',)
                return Raw(
                    429, headers=[("retry-after-ms", "1"), ("x-try", str(tries[said]))], chunks=half, reason="Slow"
                )
            case "400":
                error = {
                    "error": {"message": f"bad {number}", "type": "invalid_request_error", "code": "c", "param": "p"}
                }
                headers = [("content-type", "application/json"), ("x-request-id", f"req_{number}")]
                return Raw(400, headers=headers, chunks=(json.dumps(error).encode(),), reason="Bad Request")
            case "long":
                return Say("word " * 200 + str(number))
            case "hang":
                return Raw(headers=events, chunks=(chunk("one", number), chunk("two", number)), hang=True)
            case "silent":
                return Raw(status=0, hang=True)
            case "cut":
                return Raw(
                    headers=events, chunks=tuple(chunk(word, number) for word in "abc"), break_after=2, delay=0.05
                )
        return default_script(body, number)

    return reply


def chunk(text, number):
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    data = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


@pytest.fixture(scope="module")
def recorded(shared_project):
    """The project recorded and proved, and its server gone."""
    project = shared_project(faults())
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin")
    project.write(sdks=SDKS, test_sdks=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    (project.root / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'trio'\n", encoding="utf-8"
    )
    project.recording = project.record("-vv")
    project.hits, project.entries = project.server.hits, project.ledger
    project.server.stop()
    return project


def names(stdout, verdict):
    return set(re.findall(rf"^test_sdks\.py::(\S+) {verdict}", stdout, re.MULTILINE))


def test_every_way_is_recorded(recorded):
    done = recorded.recording
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(names(done.stdout, "PASSED")) == 32
    assert "does not replay" not in done.stdout
    assert done.stdout.count(", test passed)") == 32
    assert "not recorded" not in done.stdout


def test_every_way_replays_equal_with_the_server_gone(recorded):
    done = recorded.replay("-vv")
    assert done.returncode == 0, done.stdout
    assert len(names(done.stdout, "PASSED")) == 32
    assert recorded.server.hits == recorded.hits
    assert recorded.ledger == recorded.entries


def test_no_key_is_in_any_file(recorded):
    for file in recorded.files:
        assert "sk-live-0123456789abcdef" not in file.read_text(encoding="utf-8")


def test_retries_are_attempts_of_their_own(recorded):
    runs = {snapshot.run.header.test: snapshot.run for snapshot in recorded.snapshots}
    for name in ("retried", "retried_claude"):
        run = runs[f"test_sdks.py::test_sync[{name}]"]
        assert [x.attempt for x in run.exchanges] == [1, 2, 3]
        assert [x.outcome.status for x in run.exchanges] == [429, 429, 200]
    timed_out = runs["test_sdks.py::test_sync[timed_out]"].exchanges
    assert [x.outcome.type.rpartition(".")[2] for x in timed_out[:2]] == ["ReadTimeout", "ReadTimeout"]


def test_one_exchange_is_kept_for_each_request_that_came(recorded):
    kept = [x for snapshot in recorded.snapshots for x in snapshot.run.exchanges if x.call.boundary == "http"]
    assert len(kept) == recorded.hits


def test_one_changed_word_is_named_at_its_turn(recorded):
    recorded.edit("sdks.py", "of A-18, now?", "of A-18, please?")
    try:
        done = recorded.replay("-rA", COLUMNS="300")
    finally:
        recorded.edit("sdks.py", "of A-18, please?", "of A-18, now?")
    assert "32 failed" in done.stdout.splitlines()[-1]
    told = dict(re.findall(r"^FAILED test_sdks\.py::(\S+) - (.*)$", done.stdout, re.MULTILINE))
    assert len(told) == 32
    for test, line in told.items():
        name = test.partition("[")[2].rstrip("]") or test
        turn = 1 if name in FIRST_TURN else 2 if name in SECOND_TURN else 3
        assert re.match(rf"\[AR-PROMPT\] turn {turn}/", line), f"{test}: {line}"
    assert "Traceback" not in done.stdout
    assert (recorded.server.hits, recorded.ledger) == (recorded.hits, recorded.entries)
