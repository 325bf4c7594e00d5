"""`accept --requests`: a changed request takes the reply of the recorded call that it stands for; offered where it can."""

import json
import re

import pytest

from tests.support.model_server import Say
from tests.support.small_projects import passed, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = '''
import os, threading, time
from concurrent.futures import ThreadPoolExecutor
import httpx2, trio  # which httpx2 imports in the first thread that asks

NOW = os.environ.get("PROGRAM") == "changed"
SYSTEM = "Be calm, and cite the guide." if NOW else "Be brief."

def chat(question, system=SYSTEM):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    reply = httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json={"model": "m-1", "messages": messages})
    return reply.json()["choices"][0]["message"]["content"]

def at_once(*threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def ask(word):
    return word

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
    at_once(*(threading.Thread(target=job, args=(question,)) for job, question in jobs))

def other_thread_first():
    one_after_the_other("Paris?", "Rome?")

def pool():
    cities = ["Paris", "Rome", "Oslo", "Bern"]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(chat, [f"How warm is it in {city}?" for city in (reversed(cities) if NOW else cities)]))

def template_too():
    words = "Tell me how warm {} is" if NOW else "{}?"
    one_after_the_other(words.format("Paris"), words.format("Rome"))

def three_turns_each():
    def talk(city):
        for hour in ("morning", "noon", "night"):
            chat(f"{city}, {hour}")
    cities = ["Paris", "Rome"]
    at_once(*(threading.Thread(target=talk, args=(city,)) for city in (reversed(cities) if NOW else cities)))

def one_after_another():
    for city in ("Paris", "Rome", "Oslo"):
        chat(f"{city}?")

def wholly_reworded():
    for question in ("Where does it rain?", "And why there?") if NOW else ("Paris", "Rome"):
        chat(question)

# What stays ambiguous.

def in_one_lane():
    for city in ("Rome", "Paris") if NOW else ("Paris", "Rome"):
        chat(f"{city}?")

def unchanged_in_one_lane():
    for city in ("Rome", "Paris", "Osloer Fjord") if NOW else ("Paris", "Rome", "Oslo"):
        chat(f"{city}?", "Be brief.")

def nothing_in_common():
    one, other = ("Capitale d'Italie", "Capitale de France") if NOW else ("Paris?", "Rome?")
    one_after_the_other(one, other)

def both_named():
    one, other = ("Rome, not Paris?", "Paris, not Rome?") if NOW else ("Paris?", "Rome?")
    one_after_the_other(one, other)

def in_front():
    for city in ("Oslo", "Paris", "Rome") if NOW else ("Paris", "Rome", "Bern"):
        chat(f"{city}?", "Be brief.")

def asked_twice():
    for city in ("Paris", "Paris") if NOW else ("Paris", "Rome"):
        chat(f"{city}?", "Be brief.")
'''

CITY = re.compile("Paris|Rome|Oslo|Bern")


def echo(body, number):
    """The model repeats the question, so that a file shows whose reply stands under which request."""
    return f"{body['messages'][-1]['content']} is answered, number {number}"


def pairs(programs, name):
    """What was asked and what was answered, of each exchange of a file."""
    for x in programs.exchanges(name):
        asked = json.loads(x.call.body.data)["messages"]
        yield asked[-1]["content"], json.loads(x.outcome.body.data)["choices"][0]["message"]["content"]


CITIES = ["other_thread_first", "pool", "template_too", "three_turns_each", "one_after_another"]
REFUSED = {
    "in_one_lane": "AR-ORDER",
    "unchanged_in_one_lane": "AR-MISSING",
    "nothing_in_common": "AR-REQUEST",
    "both_named": "AR-REQUEST",
    "in_front": "AR-REQUEST",
    "asked_twice": "AR-EXTRA",
}


def test_a_reply_stays_with_its_question_and_what_stays_ambiguous_is_refused(programs):
    made = programs(AGENT, script=echo)
    before = {file: file.read_bytes() for file in made.project.files}
    done = made.project.run("--agentreplay-adopt=tone", PROGRAM="changed", COLUMNS="250")
    told = done.stdout
    assert dict(re.findall(r"FAILED \S+\[(\w+)\] - \[(AR-\w+)\]", told)) == REFUSED, told
    assert told.count("accepted  nothing") == len(REFUSED)
    unchanged = {file.name.split("-")[1] for file, data in before.items() if file.read_bytes() == data}
    assert unchanged == {name.replace("_", "-") for name in REFUSED} or unchanged == {*REFUSED}
    wrong = []
    for name in CITIES:
        found = list(pairs(made, name))
        wrong += [(name, asked, said) for asked, said in found if CITY.search(asked)[0] != CITY.search(said)[0]]
        alignment = told.rpartition(f"test_program-{name}-")[2].partition("accepted ")[0]
        assert alignment.count(" answers model m-1, last message: ") == len(found), "the alignment is shown"
    assert not wrong
    first = told.rpartition("test_program-other_thread_first-")[2]
    assert re.search(r"call \d \(turn [^)]*\) answers model m-1, last message: (\w+\?)   \[by '\1'\]", first), told
    reworded = [CITY.search(answer)[0] for _, answer in pairs(made, "wholly_reworded")]
    assert reworded == ["Paris", "Rome"], "one lane without a word in common keeps its order"
    replayed = made.replayed("-k", " or ".join([*CITIES, "wholly_reworded"]), changed=True)
    assert set(map(tuple, replayed.values())) == {("",)}


SHOP = """
import os
import openai

CHANGED = bool(os.environ.get("CHANGED"))
ASKED = {"model": "gpt-5", "messages": [{"role": "user", "content": "Where is A-17?"}]}

def client():
    return openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0)

def whole(**more):
    with client() as made:
        return made.chat.completions.create(**ASKED, **more).choices[0].message.content

def streamed():
    with client() as made:
        return "".join(part.choices[0].delta.content or "" for part in made.chat.completions.create(**ASKED, stream=True))

def responses():
    with client() as made:
        return made.responses.create(model="gpt-5", input="Where is A-17?").output_text

def wording():
    return whole(**({"temperature": 0} if CHANGED else {}))

def now_streamed():
    return streamed() if CHANGED else whole()

def no_longer_streamed():
    return whole() if CHANGED else streamed()

def other_api():
    return responses() if CHANGED else whole()
"""
NAMES = ("wording", "now_streamed", "no_longer_streamed", "other_api")
TESTS = "import shop\n" + "".join(f"\ndef test_{name}(agentreplay):\n    assert shop.{name}()\n" for name in NAMES)
OFFER = "agentreplay accept __agent_snapshots__/test_offers/test_{}.snapshot.json --requests"


@pytest.fixture
def offers(project):
    """The recorded project, whose server is down."""
    (project.root / "test_shop.py").unlink()
    project.server._replies = lambda body, number: Say("It is on its way.")
    project.write(shop=SHOP, test_offers=TESTS)
    project.environ |= {"COLUMNS": "160"}
    recorded(project)
    project.server.stop()
    return project


def test_it_is_offered_where_a_recorded_reply_can_answer_and_a_run_that_refuses_does_not_offer_it_again(offers):
    _, *found = offers.replay(CHANGED="yes").stdout.partition("short test summary info")[0].split(" test_")
    told = {text.partition(" ")[0]: text for text in found if "[AR-" in text}
    assert [name for name in NAMES if OFFER.format(name) in told[name].replace("\\", "/")] == ["wording"]
    assert "asks for a stream, and the recorded reply is none" in told["now_streamed"]
    assert "asks for a whole reply, and the recorded reply is none" in told["no_longer_streamed"]
    assert "goes to another address or API" in told["other_api"]
    done = offers.run("--agentreplay-adopt=tone", CHANGED="yes")
    reports = done.stdout.partition("short test summary info")[0]
    assert "agentreplay accept" not in reports.replace("(agentreplay accept)", "")
    assert done.stdout.count("accepted  nothing") == 3
    passed(offers.replay("-k", "wording", CHANGED="yes"))
