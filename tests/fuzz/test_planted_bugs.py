"""Bugs that are planted in small agents: each is found within 60 trials and shrunk; no sound agent is accused in as many."""

import json
import re
import shutil
import time
from threading import Barrier

import pytest

from tests.support.exhaustive import rare
from tests.support.model_script import Ask, Say
from tests.support.project import NOBODY
from tests.support.small_projects import furnished, recorded

AGENT = '''
import asyncio, codecs, datetime, json, os, re, time
from concurrent.futures import ThreadPoolExecutor, as_completed
import httpx2

CLIENT = httpx2.Client(verify=False)  # to read the certificates takes longer than a trial
DONE = set()

def lookup(order):
    return {"order": order, "status": "refunded" if order in DONE else "paid", "amount": 20}

def refund(order, amount):
    DONE.add(order)
    return "refunded"

def close_day(first, last):
    return "closed"

async def forecast(city):
    await asyncio.sleep({"Rome": 0.01, "Oslo": 0.02}[city])
    return f"sunny in {city}"

def post(messages, **more):
    body = {"model": "m", "messages": messages, **more}
    return CLIENT.stream("POST", os.environ["MODEL_URL"] + "/v1/chat/completions", json=body)

def ask(text):
    with post([{"role": "user", "content": text}]) as reply:
        reply.raise_for_status()
        reply.read()
        return reply.json()["choices"][0]["message"]["content"] or ""

def ask_patiently(text):
    for attempt in range(5):
        try:
            return ask(text)
        except (httpx2.HTTPError, json.JSONDecodeError):
            if attempt == 4:
                raise

def read_chunks(text, decode, finish):
    """The events of a streamed answer."""
    buffer = ""
    with post([{"role": "user", "content": text}], stream=True) as reply:
        reply.raise_for_status()
        for data in reply.iter_bytes():
            buffer += decode(data)
    buffer += finish()
    for line in buffer.splitlines():
        if line.startswith("data:") and line[5:].strip() != "[DONE]":
            try:
                yield json.loads(line[5:])
            except json.JSONDecodeError:
                raise RuntimeError("the answer broke off") from None

def chunks(text):
    decoder = codecs.getincrementaldecoder("utf-8")()
    return read_chunks(text, decoder.decode, lambda: decoder.decode(b"", final=True))

# The sound agents, and the same with a bug.

def settle(order):
    ask_patiently(f"May {order} be refunded?")
    refund(order, 20)
    return ask_patiently(f"Tell about {order}")

def settle_twice(order):
    for attempt in range(3):
        try:
            ask(f"May {order} be refunded?")
            refund(order, 20)
            return ask(f"Tell about {order}")
        except httpx2.HTTPError:
            continue

def listen():
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks("greet") if c["choices"])

def listen_to_known_events():
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks("greet"))

def listen_by_pieces():
    found = read_chunks("greet", lambda data: data.decode(errors="replace"), str)
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in found if c["choices"])

def act(careful):
    arguments, end = "", None
    for chunk in chunks("act"):
        for choice in chunk["choices"]:
            end = choice["finish_reason"] or end
            for use in choice["delta"].get("tool_calls") or []:
                arguments += use["function"].get("arguments") or ""
    if careful:
        if end is None:
            raise RuntimeError("the answer broke off")
        try:
            given = json.loads(arguments)
            if not isinstance(given["order"], str) or type(given["amount"]) is not int:
                raise TypeError("these are no arguments")
        except (ValueError, KeyError, TypeError):
            raise RuntimeError("these are no arguments") from None
        refund(given["order"], given["amount"])
    else:
        order = re.search(r'"order": "([^"]*)', arguments)
        amount = re.search(r'"amount": ([0-9]+)', arguments)
        if order and amount:
            refund(order[1], int(amount[1]))

def act_on_whole_calls():
    act(careful=True)

def act_on_partial_calls():
    act(careful=False)

async def gather_weather(keep):
    notes = {}
    async def look(city):
        keep(notes, city, await forecast(city))
    await asyncio.gather(*map(look, ["Rome", "Oslo"]))
    return notes

def weather_by_city():
    return asyncio.run(gather_weather(lambda notes, city, text: notes.update({city: text})))["Oslo"]

def weather_that_came_last():
    return asyncio.run(gather_weather(lambda notes, city, text: notes.update(last=text)))["last"]

def ask_later(city):
    time.sleep(float(os.environ.get("LATER_" + city, 0)))
    return ask_patiently(city)

def gather_in_threads(cities, keep):
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(ask_later, city) for city in cities]
        for done in as_completed(asked):
            keep(done.result())

def city_named_last():
    named = []
    gather_in_threads(["Oslo", "Rome"], named.append)
    return max(named)

def city_that_came_last():
    named = []
    gather_in_threads(["Oslo", "Rome"], named.append)
    return named[-1]

def close_one_day():
    day = datetime.date.today().isoformat()
    ask_patiently("close the day?")
    close_day(day, day)

def close_two_days():
    day = datetime.date.today().isoformat()
    ask_patiently("close the day?")
    close_day(day, datetime.date.today().isoformat())

def refund_once():
    row = lookup("A-3")
    if row.get("status") == "paid":
        refund("A-3", 20)
    lookup("A-3")
    return ask_patiently("done")

def refund_until_seen():
    for attempt in range(2):
        if lookup("A-4")["status"] == "paid":
            refund("A-4", 20)
    return ask_patiently("done")
'''
INI = """agentreplay_tools =
    agent.lookup = read
    agent.refund
    agent.close_day
    agent.forecast = read
"""
BUDGET = "60"
"""Trials of each; 400 are allowed."""
SHRUNK = ["settle", "characters", "last finished wins in threads", "midnight"]
"""Those of which the command is run by default: one of each kind; of the others it is the flag of pytest."""
PROGRAMS = {
    "settle": ("settle", "settle_twice", "repeated effect: refund"),
    "unknown event": ("listen", "listen_to_known_events", "unknown-event"),
    "characters": ("listen", "listen_by_pieces", "split-stream"),
    "partial call": ("act_on_whole_calls", "act_on_partial_calls", "unrecorded effect: refund"),
    "last finished wins": ("weather_by_city", "weather_that_came_last", "completion-order"),
    "last finished wins in threads": ("city_named_last", "city_that_came_last", "completion-order"),
    "midnight": ("close_one_day", "close_two_days", "unrecorded effect: close_day"),
    "stale row": ("refund_once", "refund_until_seen", "repeated effect: refund"),
}
GIVEN = {"settle": "'A-1'", "settle_twice": "'A-1'"}
CHECKS = {
    "listen": "answer == 'Grüße aus Köln, größer als je'",
    "weather": "answer == 'sunny in Oslo'",
    "city": "answer == 'Rome'",
}


BOTH = Barrier(2, timeout=60)
"""Neither city is answered before both are asked: an answer that came earlier could not change places."""


def reply(body, _number):
    """The model of all of them."""
    text = body["messages"][-1]["content"]
    if text in {"Oslo", "Rome"}:
        BOTH.wait()
        time.sleep({"Oslo": 0, "Rome": 0.1}[text])
        return Say(text)
    if text == "act":
        return Ask("refund", {"amount": 1850, "order": "A-17 and A-18 and A-19"})
    return Say("Grüße aus Köln, größer als je")


def write_test(name):
    """The test of one program."""
    check = next((check for beginning, check in CHECKS.items() if name.startswith(beginning)), "True")
    return f"def test_{name}(agentreplay):\n    answer = agent.{name}({GIVEN.get(name, '')})\n    assert {check}\n"


def written(project, *names, model=reply):
    """The project in which each program has a test of its own, recorded."""
    project.server._replies = model
    tests = "\n".join(["import agent", *map(write_test, names)])
    return recorded(furnished(project, INI, agent=AGENT, test_shop=tests))


@pytest.fixture(scope="module")
def programs(shared_project):
    """All of them, each recorded once."""
    return written(
        shared_project(), *dict.fromkeys(name for sound, broken, _ in PROGRAMS.values() for name in (sound, broken))
    )


def fuzz(project, name, *words):
    """The command on the test of a program: its exit code, and what it found."""
    done = project.command("check", "fuzz", f"test_shop.py::test_{name}", "--json", *words, MODEL_URL=NOBODY)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("bugs", [SHRUNK, *rare([bug for bug in PROGRAMS if bug not in SHRUNK])], ids="-".join)
def test_planted_bugs_are_found_shrunk_and_kept_as_cases_that_reproduce(bugs, programs):
    shutil.rmtree(programs.root / "cases", ignore_errors=True)
    count = 0
    for bug in bugs:
        _, broken, sign = PROGRAMS[bug]
        code, found = fuzz(programs, broken, "--budget", BUDGET)
        texts = [
            f"{failure['invariant']}: {failure['text']} {' '.join(each['operator'] for each in failure['perturb'])}"
            for failure in found["failures"]
        ]
        assert code == 1, bug
        assert any(sign in text for text in texts), (bug, texts)
        assert all(len(failure["perturb"]) <= 2 for failure in found["failures"]), bug
        count += len(texts)
    loaded = " ".join(programs.options)
    kept = programs.run("cases", "-q", "-rx", MODEL_URL=NOBODY, PYTEST_ADDOPTS=loaded)
    assert re.search(rf"\({count} reproduces?\b", kept.stdout), kept.stdout


def test_the_other_bugs_are_found_too_and_no_sound_twin_is_accused(programs):
    signs = {broken: sign for bug, (_, broken, sign) in PROGRAMS.items() if bug not in SHRUNK}
    sound = {sound for sound, _, _ in PROGRAMS.values()}
    tests = sorted(f"test_shop.py::test_{name}" for name in sound | {*signs})
    done = programs.run(*tests, f"--agentreplay-fuzz={BUDGET}", "-q", MODEL_URL=NOBODY)
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 50 * len(sound), "some have less than 60 neighbours"
    accused = re.findall(r"^_{3,} test_(\w+)\[.*?(?=^_{3,} |^={3,})", done.stdout, re.MULTILINE | re.DOTALL)
    assert {*accused} == {*signs}, done.stdout
    for name, sign in signs.items():
        reports = re.findall(rf"^_{{3,}} test_{name}\[.*?(?=^_{{3,}} |^={{3,}})", done.stdout, re.MULTILINE | re.DOTALL)
        assert any(sign in " ".join(report.split()) for report in reports), (name, reports)


def test_threads_that_race_are_not_blamed_on_a_change_where_a_replay_holds_their_order(project):
    project.environ["LATER_Rome"] = "0.05"  # Oslo is answered before Rome is asked: no other order is legal
    written(project, "city_that_came_last", model=lambda body, _number: Say(body["messages"][-1]["content"]))
    del project.environ["LATER_Rome"]
    project.environ["LATER_Oslo"] = "0.05"  # and now Rome is asked first
    replayed = project.replay("-q", MODEL_URL=NOBODY)
    assert replayed.returncode == 0, replayed.stdout
    code, found = fuzz(project, "city_that_came_last", "--budget", "30")
    assert (code, found["failures"]) == (0, [])
