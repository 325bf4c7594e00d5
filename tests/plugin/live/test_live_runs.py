"""`--replay=live` and `--replay-tools=live`: what goes live, what stays frozen, and what a drifted run is told."""

import json
import re
import sys
from types import ModuleType

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.live.live_session import check_settings
from pytest_agentreplay.settings import read_settings
from tests.support.model_server import Ask, Raw
from tests.support.small_projects import flat, furnished, passed, recorded, sections

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio, concurrent.futures, json, os, pathlib

import anthropic, openai

HERE = pathlib.Path(__file__).parent
URL = os.environ["MODEL_URL"]
KEY = os.environ["MODEL_API_KEY"]

def note(line):
    with HERE.joinpath("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

def lookup(order: str) -> dict:
    note(f"lookup {order}")
    return {"order": order, "status": HERE.joinpath("world.txt").read_text()}

def search(text: str) -> list:
    note(f"search {text}")
    return [text]

def refund(order: str) -> str:
    note(f"refund {order}")
    return "refunded"

def summarise(order: str) -> str:
    note(f"summarise {order}")
    return f"{len(answer('inner')) > 9}"

TOOLS = {"lookup": lookup, "search": search, "refund": refund, "summarise": summarise}
SCHEMAS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in TOOLS
]

def results(message):
    for call in message.tool_calls or ():
        given = TOOLS[call.function.name](**json.loads(call.function.arguments))
        yield {"role": "tool", "tool_call_id": call.id, "content": json.dumps(given)}

def answer(name):
    messages = [{"role": "user", "content": name}]
    with openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0) as client:
        while True:
            reply = client.chat.completions.create(model="m-1", messages=messages, tools=SCHEMAS).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            messages += (added := list(results(reply)))
            if not added:
                return reply.content

async def answer_async(name):
    asked = [{"role": "user", "content": name}]
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0) as client:
        replies = await asyncio.gather(
            *(client.chat.completions.create(model="m-1", messages=asked, tools=SCHEMAS) for _ in range(3))
        )
    return [given["content"] for reply in replies for given in results(reply.choices[0].message)]

def answer_streamed(name):
    asked = [{"role": "user", "content": name}]
    with anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=2) as client:
        with client.messages.stream(model="c-1", max_tokens=64, messages=asked) as stream:
            return "".join(stream.text_stream)

def in_threads(name):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(answer, [f"{name} {number}" for number in range(3)]))
"""

TESTS = """
import asyncio

import pytest

import agent

pytestmark = pytest.mark.agentreplay

def test_plain():
    assert agent.answer("plain")

def test_wording():
    assert agent.answer("wording")

def test_arguments():
    agent.answer("arguments")

def test_tool():
    agent.answer("tool")

def test_refusal():
    agent.answer("refusal")

def test_again():
    agent.answer("again")

@pytest.mark.agentreplay(off_script={"refund": 'stub "not now"', "search": "live", "lookup": "live"})
def test_policies():
    assert agent.answer("policies")

def test_assertion():
    assert "shipped" in agent.answer("assertion")

def test_fingerprint():
    assert agent.answer("fingerprint")

def test_async():
    assert len(asyncio.run(agent.answer_async("async"))) == 3

def test_streamed():
    assert agent.answer_streamed("streamed")

def test_nested():
    assert agent.answer("nested")

def test_flaky():
    assert agent.answer("flaky")

@pytest.mark.xfail(strict=True)
def test_known():
    assert "refunded" in agent.answer("known")

def test_threads():
    assert len(agent.in_threads("threads")) == 3
"""

CONFTEST = """
import json, pathlib

def pytest_runtest_logreport(report):
    run = getattr(report, "agentreplay", {}).get("replay", {}).get("live_run")
    if run:
        with pathlib.Path(__file__).with_name("runs.jsonl").open("a") as file:
            file.write(json.dumps(run) + "\\n")
"""

INI = """agentreplay_tools =
    agent.lookup = read
    agent.search = read
    agent.summarise = read
    agent.refund
"""

LOOKUP = Ask("lookup", {"order": "A-17"})


def completion(text, fingerprint):
    message = {"role": "assistant", "content": text}
    body = {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": f"m-1-{fingerprint}",
        "system_fingerprint": fingerprint,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    return Raw(headers=[("content-type", "application/json")], chunks=(json.dumps(body).encode(),))


class World:
    """The model of these tests: by the first word of the user, and by what has drifted."""

    def __init__(self):
        self.drifted = False
        self.refuses = None
        self.busy = False
        self.flaky = lambda: False
        self.late = None

    def __call__(self, body, number):
        if self.refuses is not None:
            return self.refuses
        case, turn = body["messages"][0]["content"].split()[0], sum(m["role"] == "tool" for m in body["messages"])
        final = "It has shipped, and is on its way to you."
        if self.late is not None and turn == 1:
            return self.late
        if case == "fingerprint":
            return completion(final, "fp-2" if self.drifted else "fp-1")
        if case == "streamed" and self.drifted and not self.busy:
            self.busy = True
            return Raw(503, [], (b"{}",), "Service Unavailable")
        if case in {"streamed", "inner"}:
            return final
        if case == "flaky" and not turn and self.flaky():
            return "I cannot help with that."
        if case == "verdict":
            return "it leaves out the day"
        if case == "nested" and not turn:
            return Ask("summarise", {"order": "A-17"})
        if self.drifted:
            match case, turn:
                case "wording", 1:
                    return "It has shipped, and it is on its way to you."
                case "arguments", 0:
                    return Ask("lookup", {"order": "A-18"})
                case "tool", 0:
                    return Ask("refund", {"order": "A-17"})
                case "refusal", 0:
                    return "I cannot help with that."
                case "again", 1:
                    return LOOKUP
                case "policies", 0:
                    return [Ask("refund", {"order": "A-17"}), Ask("search", {"text": "shoes"}), LOOKUP]
                case "assertion", 1:
                    return "It has not left yet, and is still on its way to you."
        return final if turn else LOOKUP


@pytest.fixture(scope="module")
def shop(shared_project):
    world = World()
    project = furnished(shared_project(world), INI, agent=AGENT, test_shop=TESTS, conftest=CONFTEST)
    project.world = world
    (project.root / "world.txt").write_text("shipped", encoding="utf-8")
    recorded(project)
    project.sealed = {file: file.read_bytes() for file in project.root.rglob("*.snapshot.json")}
    return project


@pytest.fixture(autouse=True)
def nothing_is_written(shop):
    shop.world.drifted, shop.world.refuses = False, None
    (shop.root / "ledger.txt").write_text("", encoding="utf-8")
    (shop.root / "world.txt").write_text("shipped", encoding="utf-8")
    yield
    assert {file: file.read_bytes() for file in shop.root.rglob("*.snapshot.json")} == shop.sealed


def live(shop, *words, tests="test_shop.py", **environ):
    """The finished run, and what each test told of its live run."""
    runs = shop.root / "runs.jsonl"
    runs.unlink(missing_ok=True)
    done = shop.run(*words, tests, **environ)
    told = [json.loads(line) for line in runs.read_text(encoding="utf-8").splitlines()] if runs.exists() else []
    return done, {run["test"].partition("::test_")[2]: run for run in told}


def test_the_same_world_is_the_same_run_with_real_sdks_streams_tasks_and_threads(shop):
    hits = shop.server.hits
    done, runs = live(shop, "--replay=live")
    passed(done)
    assert shop.server.hits - hits == sum(run["calls"] for run in runs.values()) == 33
    assert "model LIVE, tools frozen" in done.stdout
    assert shop.ledger == [], "no tool runs"
    assert [name for name, run in runs.items() if run["drifts"] or run["off_script"] or not run["passed"]] == []
    assert {run["cell"] for run in runs.values()} == {"LF"}
    plain = runs["plain"]
    assert (plain["model"], plain["calls"], plain["stopped"]) == ("m-1", 2, "")
    assert plain["tokens"]["input"] > plain["tokens"]["output"] > 0


def test_what_the_model_does_otherwise_is_drift_and_nothing_that_writes_runs(shop):
    shop.world.drifted = True
    done, runs = live(shop, "--replay=live")
    found = {name.removesuffix("[live-1]"): text for name, text in sections(done).items()}
    assert sorted(found) == ["again", "arguments", "assertion", "policies", "refusal", "tool"]
    assert all(text.startswith("[AR-DRIFT] the model drifted: ") for text in found.values()), found
    assert shop.ledger == ["search shoes"], "off script, and declared to read"
    assert runs["arguments"]["off_script"] == ["lookup"]
    assert "agentreplay_off_script = lookup = live" in found["arguments"]
    assert "recorded A-17 now A-18" in found["arguments"]
    assert runs["tool"]["off_script"] == ["refund"]
    assert "agentreplay_off_script = refund = stub" in found["tool"]
    assert "refund = live" not in found["tool"], "it writes"
    assert runs["policies"]["off_script"] == ["refund", "search"]
    assert runs["again"]["off_script"] == [], "what reads gives its recorded answer again"
    assert "AssertionError" in runs["assertion"]["failure"]
    assert not runs["assertion"]["passed"]
    for name in ("plain", "wording", "fingerprint", "async", "streamed", "nested", "known", "threads"):
        assert (runs[name]["drifts"], runs[name]["passed"]) == ([], True), name
    assert runs["streamed"]["calls"] == 2, "the SDK tries again after an error, which is no drift"
    assert (runs["fingerprint"]["fingerprints"], runs["fingerprint"]["served_models"]) == (["fp-2"], ["m-1-fp-2"])
    assert all(len(text.splitlines()) <= 24 for text in found.values())
    assert "shipped default" in flat(done)


@pytest.mark.parametrize(
    ("refusal", "environ", "reason"),
    [
        (Raw(401, [], (b'{"error": {"message": "bad key"}}',), "Unauthorized"), {}, "the model answered 401"),
        (Raw(429, [], (b"{}",), "Too Many Requests"), {}, "the model answered 429 Too Many Requests"),
        (None, {"MODEL_URL": "http://127.0.0.1:9"}, "the model did not answer, ConnectError"),
    ],
)
def test_a_model_that_refuses_or_is_not_there_is_no_drift(shop, refusal, environ, reason):
    shop.world.refuses = refusal
    done, runs = live(shop, "--replay=live", "-k", "plain", **environ)
    assert f"[AR-LIVE] the live run proves nothing: {reason}" in flat(done)
    assert runs["plain"]["stopped"].startswith(reason)
    assert runs["plain"]["drifts"] == []


def test_tools_that_read_run_and_are_compared_and_the_agent_gets_what_they_return(shop):
    done, runs = live(shop, "--replay-tools=live", "-k", "plain or async or threads")
    passed(done)
    assert "model frozen, read tools LIVE" in done.stdout
    assert {run["cell"] for run in runs.values()} == {"FL"}
    assert shop.ledger == ["lookup A-17"] * 7
    (shop.root / "world.txt").write_text("lost", encoding="utf-8")
    hits = shop.server.hits
    done, runs = live(shop, "--replay-tools=live", "-k", "plain")
    assert shop.server.hits == hits
    assert "[AR-DRIFT] a tool drifted: turn 1/2: tool lookup: result changed, $.status shipped -> lost" in flat(done)
    assert "agentreplay_tolerances = lookup $.status = ignore" in done.stdout
    assert [drift["layer"] for drift in runs["plain"]["drifts"]] == ["tool"]
    for how, cell in (("checked", "LL"), ("live", "LL")):
        done, runs = live(shop, "--replay=live", f"--replay-tools={how}", "-k", "plain")
        assert "[AR-DRIFT] TOOL DRIFT in 1 of 1 live runs: " in flat(done)
        assert runs["plain"]["cell"] == cell
        sent = shop.server.requests[-1].json["messages"][-1]["content"]
        assert ("lost" in sent) == (how == "live"), "verified tools give the recorded result"


def test_the_model_that_a_running_tool_asks_is_as_frozen_or_live_as_the_agents(shop):
    for words, asked, calls in (
        (("--replay-tools=live",), 0, 0),
        (("--replay=live", "--replay-tools=live"), 5, 3),
    ):
        hits = shop.server.hits
        done, runs = live(shop, *words, "-k", "nested")
        passed(done)
        assert (shop.server.hits - hits, runs["nested"]["calls"]) == (asked, calls), "both cells, and the last one"
    assert shop.ledger == ["summarise A-17"] * 3


TOLERANCE, OFF_SCRIPT = "agentreplay_tolerances", "agentreplay_off_script"
IDLE = [
    (OFF_SCRIPT, "refund = live", "it writes, and a tool that writes never runs"),
    (OFF_SCRIPT, "refnd = stop", "no tool of the project has this name: did you mean refund?"),
    (OFF_SCRIPT, "serch* = live", "no tool of the project has this name: "),
    (TOLERANCE, "lookupp $.status = ignore", "no tool of the project has this name: did you mean lookup?"),
    (TOLERANCE, "$.tools = forbidden(refunds)", "no tool of the project has this name: did you mean refund?"),
    (TOLERANCE, "$.turns[0].nonsense = ignore", "no recording has nonsense there: it is one of agent, fingerprint, "),
    (TOLERANCE, "lookup $.statu = exact", "no recording has statu there: did you mean status?"),
    (TOLERANCE, "$.tools[*].arguments.ordr = exact", "no recording has ordr there: did you mean order?"),
    (TOLERANCE, "$.usage.cost = at most 2x", "no price of m-1 is known; add it to agentreplay_prices"),
    (TOLERANCE, "$.final = at most 5", "no recording has a number there"),
    (TOLERANCE, "$.final = judge(unfair, x)", "no judge unfair is declared"),
]


@pytest.mark.parametrize(("key", "line", "why"), IDLE, ids=[line for _, line, _ in IDLE])
def test_a_setting_that_has_no_effect_is_an_error(shop, key, line, why, monkeypatch):
    agent = ModuleType("agent")
    exec("def lookup(): ...\ndef search(): ...\ndef summarise(): ...\ndef refund(): ...\n", vars(agent))
    monkeypatch.setitem(sys.modules, "agent", agent)
    tools = [line.strip() for line in INI.splitlines()[1:]]
    settings = read_settings({"agentreplay_replay": "live"}, {"agentreplay_tools": tools, key: [line]}, {})
    with pytest.raises(SettingsError) as error:
        [*check_settings([settings], shop.root, ())]
    assert f"{key}: {line.partition(' = ')[0]}" in str(error.value)
    assert why in str(error.value)


@pytest.mark.parametrize(("key", "line", "why"), [IDLE[0], IDLE[-1]], ids=["tool", "place"])
def test_such_an_error_comes_before_any_model_is_asked(shop, key, line, why):
    hits = shop.server.hits
    done = shop.run("--replay=live", "-o", f"{key}={line}", "test_shop.py")
    assert (done.returncode, shop.server.hits) == (4, hits), done.stdout
    said = " ".join(done.stderr.split())
    assert f"{key}: {line.partition(' = ')[0]}" in said
    assert why in said


def test_a_setting_that_only_other_tests_or_runs_need_is_no_error(shop):
    lines = [
        "summarise $ = ignore",  # another test's
        "$.outcome.type = exact",  # of tests that fail
        "search $[*].score = 0.1",  # a tool that a model is shown, and no recording calls
        "lookup $.carrier = ignore",  # what is new in a live run
        "$.tools[*].arguments.order = exact",
        "$.turns[9].text = type",
        "$.usage.cost = at most 2x",
    ]
    given = "-o", "agentreplay_tolerances=" + "\n".join(lines), "-o", "agentreplay_prices=m-* = 1 in, 2 out"
    off_script = "-o", "agentreplay_off_script=search = live\nGET x.com/* = live"
    done, _ = live(shop, "--replay=live", *given, *off_script, "-k", "plain")
    passed(done)
    (note,) = re.findall(r"^live  (.*): no recording has this place", done.stdout, re.MULTILINE)
    assert note.endswith("agentreplay_tolerances: lookup $.carrier = ignore")


def test_another_served_model_is_a_line_of_a_run_that_is_the_same_and_a_place_of_tolerances(shop):
    shop.world.drifted = True
    line = "served by m-1-fp-2, recorded m-1-fp-1; fingerprint fp-2, recorded fp-1"
    done, _ = live(shop, "--replay=live", "-k", "fingerprint")
    passed(done)
    assert f"live  {line}" in done.stdout.splitlines()
    assert line in shop.command("live", "drift").stdout
    done, _ = live(shop, "--replay=live", "-k", "fingerprint", "-o", "agentreplay_tolerances=$.turns[*].model = exact")
    assert '[AR-DRIFT] the model drifted: $.turns[0].model "m-1-fp-1" -> "m-1-fp-2"' in flat(done)


def test_a_call_off_script_is_of_the_turn_that_asked_for_it_and_a_forbidden_one_is_named_so(shop):
    shop.world.late = Ask("refund", {"order": "A-17"})
    try:
        done, runs = live(shop, "--replay=live", "-k", "wording")
        assert "[AR-DRIFT] the model drifted: turn 2/2: refund was called off script" in flat(done)
        line = "$.tools = forbidden(refund)"
        done, runs = live(shop, "--replay=live", "-k", "wording", "-o", f"agentreplay_tolerances={line}")
    finally:
        shop.world.late = None
    assert f"[AR-DRIFT] the model drifted: {line}: refund was called at turn 2 (and 1 more)" in flat(done)
    assert runs["wording"]["drifts"][0]["tolerance"] == line


def test_one_snapshot_is_run_live_by_the_command_whose_code_says_what_that_proves(shop):
    folder = shop.root / "__agent_snapshots__" / "test_shop"

    def code(name, *words, drifted=False, refuses=None):
        shop.world.drifted, shop.world.refuses = drifted, refuses
        return shop.command("replay", folder / f"{name}.snapshot.json", "--live", *words).returncode

    assert code("test_plain") == 0
    assert code("test_refusal", drifted=True) == 1
    assert code("test_plain", refuses=Raw(401, [], (b"{}",), "Unauthorized")) == 125
    counted = iter(range(99))
    shop.world.flaky = lambda: next(counted) == 4
    assert code("test_flaky", "--replay-runs=10") == 3, "9 of 10 is neither 0.95 nor 0.80"
    file = folder / "test_plain.snapshot.json"
    file.write_bytes(shop.sealed[file][:-40])
    try:
        assert code("test_plain") == 4
    finally:
        file.write_bytes(shop.sealed[file])


def test_a_judge_is_asked_through_the_boundary(shop):
    (shop.root / "judges.py").write_text(
        "import agent\n\ndef judge(recorded, now, rubric):\n"
        "    return True if rubric == 'anything' else agent.answer(f'verdict on {now}')\n\n"
        "def broken(**_):\n    raise OSError('no quota')\n",
        encoding="utf-8",
    )
    shop.world.drifted = True
    keys = "-o", "agentreplay_judges=fair = judges:judge\nout = judges:broken", "-k", "wording"
    hits = shop.server.hits
    lines = "-o", 'agentreplay_tolerances=$.final = judge(fair, "says the same")'
    done, runs = live(shop, "--replay=live", *keys, *lines)
    assert shop.server.hits - hits == runs["wording"]["calls"] == 3, "two of the agent, one of the judge"
    (drift,) = runs["wording"]["drifts"]
    assert drift["tolerance"] == '$.final = judge(fair, "says the same")'
    assert drift["summary"].endswith("(it leaves out the day)")
    broken = "-o", "agentreplay_tolerances=$.final = judge(out, x)"
    file = shop.root / "agentreplay-tolerances.yaml"
    file.write_text("$.final: judge(fair, anything)\n", encoding="utf-8")
    done, runs = live(shop, "--replay=live", *keys, *broken)
    passed(done)  # the file is over the ini file
    file.write_text("$.usage.calls: at least 1\n", encoding="utf-8")
    done = shop.run("--replay=live", *keys)
    assert done.returncode == 4
    assert "agentreplay-tolerances.yaml:1:1: $.usage.calls = at least 1: write ignore" in done.stderr
    file.unlink()
    done, runs = live(shop, "--replay=live", *keys, *broken)
    assert "OSError('no quota')" in runs["wording"]["stopped"], "no verdict, and no drift"
