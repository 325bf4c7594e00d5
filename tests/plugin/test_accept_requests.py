"""`accept --requests`: a changed request takes the reply of the recorded call that it stands for, or none."""

import json
import re

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = '''
import asyncio, os, threading, time
from concurrent.futures import ThreadPoolExecutor
import httpx2

NOW = os.environ.get("PROGRAM") == "changed"
SYSTEM = "Be calm, and cite the guide." if NOW else "Be brief."

def request(question, **more):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return {"model": "m-1", "messages": messages, **more}

def chat(question, **more):
    url = os.environ["MODEL_URL"] + "/v1/chat/completions"
    return httpx2.post(url, json=request(question, **more)).json()["choices"][0]["message"]["content"]

def ask(word):
    return word

async def ask_async(question):
    async with httpx2.AsyncClient() as client:
        url = os.environ["MODEL_URL"] + "/v1/chat/completions"
        return (await client.post(url, json=request(question))).json()["choices"][0]["message"]["content"]

def one_after_the_other(first, second):
    """Two threads at once. The first question is asked first, and in the changed program the second one."""
    turn = threading.Event()
    def early(question):
        turn.set()
        chat(question)
    def late(question):
        turn.wait()
        time.sleep(0.05)
        chat(question)
    jobs = [(late, first), (early, second)] if NOW else [(early, first), (late, second)]
    threads = [threading.Thread(target=job, args=(question,)) for job, question in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def other_thread_first():
    one_after_the_other("Paris?", "Rome?")

def pool():
    cities = ["Paris", "Rome", "Oslo", "Bern"]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(chat, [f"How warm is it in {city}?" for city in (reversed(cities) if NOW else cities)]))

def tasks():
    async def both():
        cities = ["Paris", "Rome"]
        await asyncio.gather(*(ask_async(f"{city}?") for city in (reversed(cities) if NOW else cities)))
    asyncio.run(both())

def template_too():
    words = "Tell me how warm {} is" if NOW else "{}?"
    one_after_the_other(words.format("Paris"), words.format("Rome"))

def three_turns_each():
    def talk(city):
        for hour in ("morning", "noon", "night"):
            chat(f"{city}, {hour}")
    cities = ["Paris", "Rome"]
    threads = [threading.Thread(target=talk, args=(city,)) for city in (reversed(cities) if NOW else cities)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def one_after_another():
    for city in ("Paris", "Rome", "Oslo"):
        chat(f"{city}?")

def wholly_reworded():
    for question in ("Where does it rain?", "And why there?") if NOW else ("Paris", "Rome"):
        chat(question)

def one_changed_of_two():
    chat("Paris?", user="me") if NOW else chat("Paris?")
    chat("Rome?")
'''

REFUSED = """
def in_one_lane():
    for city in ("Rome", "Paris") if NOW else ("Paris", "Rome"):
        chat(f"{city}?")

def unchanged_in_one_lane():
    global SYSTEM
    SYSTEM = "Be brief."
    for city in ("Rome", "Paris", "Osloer Fjord") if NOW else ("Paris", "Rome", "Oslo"):
        chat(f"{city}?")

def nothing_in_common():
    one, other = ("Capitale d'Italie", "Capitale de France") if NOW else ("Paris?", "Rome?")
    one_after_the_other(one, other)

def both_named():
    one, other = ("Rome, not Paris?", "Paris, not Rome?") if NOW else ("Paris?", "Rome?")
    one_after_the_other(one, other)

def in_front():
    global SYSTEM
    SYSTEM = "Be brief."
    for city in ("Oslo", "Paris", "Rome") if NOW else ("Paris", "Rome", "Bern"):
        chat(f"{city}?")

def asked_twice():
    for city in ("Paris", "Paris") if NOW else ("Paris", "Rome"):
        chat(f"{city}?")
"""

CITY = re.compile("Paris|Rome|Oslo|Bern")


def echo(body, number):
    """The model repeats the question, so that a file shows whose reply stands under which request."""
    return f"{body['messages'][-1]['content']} is answered, number {number}"


def pairs(programs, name):
    """What was asked and what was answered, of each exchange of a file."""
    for x in programs.exchanges(name):
        asked = json.loads(x.call.body.data)["messages"]
        yield asked[-1]["content"], json.loads(x.outcome.body.data)["choices"][0]["message"]["content"]


def accept_all(programs):
    """All programs run on their recorded replies, with changed requests."""
    return programs.project.run("--agentreplay-adopt=tone", PROGRAM="changed", COLUMNS="250")


@pytest.fixture(scope="module")
def accepted(programs):
    """The programs with what was said when their changed requests were taken, and what a replay then says of each."""
    made = programs(AGENT, script=echo)
    done = accept_all(made)
    assert done.returncode == 0, done.stdout + done.stderr
    return made, done.stdout, made.replayed(changed=True)


@pytest.mark.parametrize(
    "name", ["other_thread_first", "pool", "tasks", "template_too", "three_turns_each", "one_after_another"]
)
def test_a_reply_stays_with_its_question(accepted, name):
    programs, told, replayed = accepted
    found = list(pairs(programs, name))
    for asked, answered in found:
        assert CITY.search(asked)[0] == CITY.search(answered)[0], found
    alignment = told.rpartition(f"test_program-{name}-")[2].partition("accepted ")[0]
    assert alignment.count(" answers model m-1, last message: ") == len(found), "the alignment is shown"
    assert replayed[name] == [""]


def test_the_alignment_names_the_recorded_call_and_what_decided(accepted):
    told = accepted[1].rpartition("test_program-other_thread_first-")[2]
    assert re.search(r"call 2 \(turn 1[^)]*\) answers model m-1, last message: Rome\?   \[by 'Rome\?'\]", told)


def test_one_lane_without_a_word_in_common_keeps_its_order(accepted):
    programs, _, replayed = accepted
    assert [CITY.search(answer)[0] for _, answer in pairs(programs, "wholly_reworded")] == ["Paris", "Rome"]
    assert replayed["wholly_reworded"] == [""]


def test_what_stays_ambiguous_is_refused(programs):
    made = programs(AGENT.partition("def other_thread_first")[0] + REFUSED, script=echo)
    before = [file.read_bytes() for file in made.project.files]
    done = accept_all(made)
    codes = dict(re.findall(r"FAILED \S+\[(\w+)\] - \[(AR-\w+)\]", done.stdout))
    assert codes == {
        "in_one_lane": "AR-ORDER",
        "unchanged_in_one_lane": "AR-MISSING",
        "nothing_in_common": "AR-REQUEST",
        "both_named": "AR-REQUEST",
        "in_front": "AR-REQUEST",
        "asked_twice": "AR-EXTRA",
    }, done.stdout
    assert done.stdout.count("accepted  nothing") == len(codes)
    assert [file.read_bytes() for file in made.project.files] == before
