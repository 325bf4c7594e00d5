"""The official SDKs, every way people call them: recorded, proved, and replayed equal with the server gone."""

import json

import pytest

from tests.support.model_script import Raw, Say, default_script
from tests.support.small_projects import edited, furnished, passed, recorded, runs, summary

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
CHAT_TOOLS = [{"type": "function", "function": {**FUNCTION, "strict": True}}]
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

def conversation(given, feed, ask):
    # Four turns; `ask` gives the events of a stream, and the reply.
    seen = []
    for _ in range(4):
        events, reply = ask(given)
        seen += [events, plain(reply)]
        feed(given, reply)
    return seen

async def aconversation(given, feed, ask):
    seen = []
    for _ in range(4):
        events, reply = await ask(given)
        seen += [events, plain(reply)]
        feed(given, reply)
    return seen

def streamed(stream, final):
    with stream as events:
        return [event.type for event in events], getattr(events, final)()

async def astreamed(stream, final):
    async with stream as events:
        return [event.type async for event in events], await getattr(events, final)()

def asked():
    return [{"role": "user", "content": FIRST}]

def chat_request(messages):
    return {"model": "gpt-x", "messages": [{"role": "system", "content": SYSTEM}, *messages], "tools": CHAT_TOOLS}

def chat_feed(messages, reply):
    message = reply.choices[0].message
    messages.append({k: v for k, v in plain(message).items() if k in {"role", "content", "tool_calls"} and v})
    for call in message.tool_calls or []:
        result = lookup_order(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    if not message.tool_calls:
        messages.append({"role": "user", "content": LAST})

def chat(client):
    return conversation(asked(), chat_feed, lambda given: ([], client.chat.completions.create(**chat_request(given))))

async def achat(client):
    async def ask(given):
        return [], await client.chat.completions.create(**chat_request(given))
    return await aconversation(asked(), chat_feed, ask)

async def achat_stream(client):
    def ask(given):
        return astreamed(client.chat.completions.stream(**chat_request(given)), "get_final_completion")
    return await aconversation(asked(), chat_feed, ask)

def responses_request(given, **more):
    return {"model": "gpt-x", "instructions": SYSTEM, "input": given, "tools": RESPONSE_TOOLS, **more}

def responses_feed(given, reply):
    given += [item.model_dump(mode="json", exclude_none=True) for item in reply.output]
    calls = [item for item in reply.output if item.type == "function_call"]
    for call in calls:
        result = lookup_order(**json.loads(call.arguments))
        given.append({"type": "function_call_output", "call_id": call.call_id, "output": json.dumps(result)})
    if not calls:
        given.append({"role": "user", "content": LAST})

def responses_chained(client):
    before = {}
    def ask(given):
        reply = client.responses.create(**responses_request(given, **before))
        before["previous_response_id"] = reply.id
        return [], reply
    def feed(given, reply):
        given.clear()
        responses_feed(given, reply)
        given[:] = [item for item in given if item.get("type") in {None, "function_call_output"}]
    return conversation(asked(), feed, ask)

def responses_stream(client):
    def ask(given):
        return streamed(client.responses.stream(**responses_request(given)), "get_final_response")
    return conversation(asked(), responses_feed, ask)

def claude_request(messages):
    return {"model": "claude-x", "max_tokens": 500, "system": SYSTEM, "messages": messages, "tools": CLAUDE_TOOLS}

def claude_feed(messages, reply):
    messages.append({"role": "assistant", "content": [plain(block) for block in reply.content]})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": json.dumps(lookup_order(**block.input))}
        for block in reply.content if block.type == "tool_use"
    ]
    messages.append({"role": "user", "content": results or LAST})

def messages_stream(client):
    def ask(given):
        return streamed(client.messages.stream(**claude_request(given)), "get_final_message")
    return conversation(asked(), claude_feed, ask)

async def amessages_stream(client):
    def ask(given):
        return astreamed(client.messages.stream(**claude_request(given)), "get_final_message")
    return await aconversation(asked(), claude_feed, ask)

def question(text):
    return {"model": "gpt-x", "messages": [{"role": "user", "content": f"{text} {LAST}"}]}

def texts(reply):
    return reply.choices[0].message.content

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
    claude: [sdks.messages_stream],
    oai: [sdks.responses_chained, sdks.responses_stream, sdks.retried, sdks.refused, sdks.early_close, sdks.timed_out, sdks.broken_off],
}
ASYNC = {
    aclaude: [sdks.amessages_stream],
    aoai: [sdks.achat_stream, sdks.in_the_background, sdks.given_up, sdks.given_up_before_an_answer],
}

def every(table):
    ways = [pytest.param(make, agent, id=agent.__name__) for make, agents in table.items() for agent in agents]
    return pytest.mark.parametrize(("make", "agent"), ways)

async def run(make, agent):
    async with make() as client:
        return await agent(client)

@every(SYNC)
def test_sync(make, agent, agentreplay):
    with make() as client:
        check(agentreplay, agent.__name__, agent(client))

def test_clients_made_at_import(agentreplay):
    check(agentreplay, "import", [sdks.chat(sdks.AT_IMPORT[0]), sdks.messages_stream(sdks.AT_IMPORT[1])])

@pytest.mark.asyncio
@every(ASYNC)
async def test_asyncio(make, agent, agentreplay):
    check(agentreplay, agent.__name__, await run(make, agent))

@pytest.mark.anyio
@every({aoai: [sdks.achat], aclaude: [sdks.amessages_stream]})
async def test_trio(make, agent, agentreplay):
    check(agentreplay, "trio_" + agent.__name__, await run(make, agent))

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

INI = """asyncio_default_fixture_loop_scope = function
agentreplay_tools =
    sdks.lookup_order = read
    sdks.alook
"""

# Which turn says the last word first. Loops ask, answer, and say it in the third.
FIRST_TURN = {"retried", "refused", "early_close", "timed_out", "broken_off"}
FIRST_TURN |= {"given_up", "in_the_background", "a_job_may_come_before_what_ran_beside_it"}
SECOND_TURN = {"given_up_before_an_answer"}  # the first need not come again: what comes is held against the second
WAYS = 18


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
                headers = [("retry-after-ms", "1"), ("x-try", str(tries[said]))]
                return Raw(429, headers=headers, chunks=(b'{"error": {"message": "slow do',), reason="Slow")
            case "400":
                error = {"message": f"bad {number}", "type": "invalid_request_error", "code": "c", "param": "p"}
                headers = [("content-type", "application/json"), ("x-request-id", f"req_{number}")]
                return Raw(400, headers=headers, chunks=(json.dumps({"error": error}).encode(),), reason="Bad Request")
            case "long":
                return Say("word " * 200 + str(number))
            case "hang":
                return Raw(headers=events, chunks=(chunk("one", number), chunk("two", number)), hang=True)
            case "silent":
                return Raw(status=0, hang=True)
            case "cut":
                chunks = tuple(chunk(word, number) for word in "abc")
                return Raw(headers=events, chunks=chunks, break_after=2, delay=0.05)
        return default_script(body, number)

    return reply


def chunk(text, number):
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    data = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [delta]}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


@pytest.fixture(scope="module")
def project(shared_project):
    """The project recorded, and its server gone."""
    made = shared_project(faults())
    made.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin")
    conftest = "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'trio'\n"
    recorded(furnished(made, INI, sdks=SDKS, test_sdks=TESTS, conftest=conftest), "-vv")
    made.hits, made.entries = made.server.hits, made.ledger
    made.server.stop()
    return made


def test_every_way_is_recorded_without_its_key_and_replays_equal_with_the_server_gone(project):
    assert project.recording.stdout.count(", test passed)") == WAYS
    assert "not recorded" not in project.recording.stdout
    assert not [file for file in project.files if "sk-live-0123456789abcdef" in file.read_text(encoding="utf-8")]
    assert f"{WAYS} passed" in passed(project.replay()).stdout
    assert (project.server.hits, project.ledger) == (project.hits, project.entries)


def test_one_exchange_is_kept_for_each_request_that_came_and_retries_are_attempts_of_their_own(project):
    kept = runs(project)
    assert sum(x.call.boundary == "http" for run in kept.values() for x in run.exchanges) == project.hits
    attempts = kept["sync[retried]"].exchanges
    assert [(x.attempt, x.outcome.status) for x in attempts] == [(1, 429), (2, 429), (3, 200)]
    timed_out = kept["sync[timed_out]"].exchanges
    assert [x.outcome.type.rpartition(".")[2] for x in timed_out[:2]] == ["ReadTimeout", "ReadTimeout"]


def test_one_changed_word_is_named_at_its_turn(project):
    with edited(project, "sdks.py", "of A-18, now?", "of A-18, please?"):
        done = project.replay(COLUMNS="300")
    told = summary(done)
    assert len(told) == WAYS
    for test, line in told.items():
        name = test.partition("[")[2].rstrip("]") or test
        turn = 1 if name in FIRST_TURN else 2 if name in SECOND_TURN else 3
        assert line.startswith(f"[AR-PROMPT] turn {turn}/"), f"{test}: {line}"
    assert "Traceback" not in done.stdout
    assert (project.server.hits, project.ledger) == (project.hits, project.entries)
