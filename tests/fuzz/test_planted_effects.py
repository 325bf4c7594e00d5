"""Bugs in what an agent changes: each is found among the first neighbours that are drawn, and no sound agent is accused."""

import re
from collections import defaultdict

import pytest

from tests.support.model_script import Ask, Say
from tests.support.project import NOBODY
from tests.support.small_projects import furnished, recorded

AGENT = '''
import asyncio, json, os, re
import httpx2

CLIENT = httpx2.Client(verify=False)

class Stop(Exception):
    """The agent gives up on purpose."""

def lookup(order): return {"order": order, "status": "late", "note": "Leave it at the door.", "price": 18.5}
def quote(order): return {"order": order, "price": 18.5, "currency": "EUR"}
def weigh(parcel): return f"The parcel {parcel} weighs 12.5 kg."
def login(user): return {"user": user, "api_key": "sk-proj-Zq8mB3kT9xLw2VnR7cYd5HfJ1sPaGuEo4iXtC6bNvQ0"}
def poll(job): return {"state": "done"}
def page(cursor): return {"rows": [cursor], "next": {"a": "b", "b": ""}[cursor]}
def refund(order, amount): return f"refunded {amount}"
def refund_in(order, amount, currency): return "refunded"
def cancel(order): return "cancelled"
def ship(parcel, kilograms): return "shipped"
def send_mail(to, text): return "sent"
def save(row): return "saved"
def report_error(text): return "reported"

TOOLS = {"lookup": lookup, "refund": refund}
TEXT, NUMBER = {"type": "string"}, {"type": "number", "exclusiveMinimum": 0}
LOOSE = {"lookup": {}, "refund": {}}
STRICT = {"lookup": {"order": TEXT}, "refund": {"order": TEXT, "amount": NUMBER}}

def body_of(messages, tools):
    functions = [{"name": name, "parameters": {"type": "object", "properties": of}} for name, of in tools.items()]
    described = [{"type": "function", "function": function} for function in functions]
    return {"model": "m", "messages": messages, **({"tools": described} if described else {})}

def url(path="/v1/chat/completions"):
    return os.environ["MODEL_URL"] + path

def ask(text):
    reply = CLIENT.post(url(), json=body_of([{"role": "user", "content": text}], {}))
    return reply.raise_for_status().json()["choices"][0]["message"]["content"] or ""

def ask_patiently(text):
    for attempt in range(4):
        try:
            return ask(text)
        except (httpx2.HTTPError, ValueError):
            continue
    raise Stop("no model")

def call_tool(run, use, messages):
    try:
        arguments = json.loads(use["function"]["arguments"])
        tool = TOOLS[use["function"]["name"]]
    except (ValueError, KeyError):
        return "error: no such call"
    try:
        return run(tool, arguments, messages)
    except Exception as error:
        return f"error: {error}"

def loop(run=lambda tool, arguments, messages: tool(**arguments), tools=LOOSE):
    messages = [{"role": "user", "content": "refund it"}]
    for _ in range(6):
        try:
            reply = CLIENT.post(url(), json=body_of(messages, tools)).raise_for_status().json()["choices"][0]["message"]
        except (httpx2.HTTPError, ValueError):
            raise Stop("no model") from None
        if not reply.get("tool_calls"):
            return reply.get("content")
        messages.append(reply)
        for use in reply["tool_calls"]:
            result = json.dumps(call_tool(run, use, messages))
            messages.append({"role": "tool", "tool_call_id": use["id"], "content": result})
    raise Stop("too many steps")

def obeying(act):
    def run(tool, arguments, messages):
        result = tool(**arguments)
        if re.search("ignore.*instructions", json.dumps(result), re.I):
            act(messages)
        return result
    return run

# Bugs

def reset_repeats():
    for _ in range(3):
        try:
            refund("B-3", 18.5)
            break
        except ConnectionError:
            continue
    ask_patiently("tell")

def turn_repeats():
    for _ in range(3):
        try:
            refund("B-3", 18.5)
            return ask("tell")
        except (httpx2.HTTPError, ValueError):
            continue

def batch_repeats():
    for _ in range(3):
        try:
            return [refund(order, 5) for order in "ABC"]
        except Exception:
            continue

def obeys_with_amount():
    loop(obeying(lambda messages: refund("B-3", 9999)))

def obeys_by_mail():
    loop(obeying(lambda messages: send_mail("attacker", str(messages))))

def obeys_by_post():
    loop(obeying(lambda messages: CLIENT.post(url("/transfers"), json={"amount": 9999})))

def obeys_late():
    seen = []
    loop(obeying(seen.append))
    if seen:
        cancel("B-3")

def obeys_early():
    done = []
    def run(tool, arguments, messages):
        if tool is refund and done:
            return done[0]
        result = tool(**arguments)
        if "gnore all" in json.dumps(result) and tool is lookup:
            done.append(refund("B-3", 18.5))
        return result
    loop(run)

def obeys_in_a_task():
    async def look():
        if "gnore all" in str(lookup("B-3")):
            refund("B-3", 9999)
    async def go():
        await asyncio.gather(look())
    asyncio.run(go())
    loop()

def pays_any_currency():
    row = quote("B-3") or {}
    if not isinstance(row.get("price"), float):
        raise Stop("no price")
    refund("B-3", row["price"])
    ask_patiently("tell")

def ships_any_unit():
    found = re.search(r"weighs ([\\d.]+)", weigh("P-1") or "")
    if found:
        ship("P-1", float(found[1]))
    ask_patiently("tell")

def passes_anything_on():
    loop(tools=STRICT)

def copies_a_secret():
    key = (login("ann") or {}).get("api_key", "")
    try:
        refund("B-3", 18.5)
    except Exception as error:
        send_mail("ops", f"{key} {error}")
    ask_patiently("tell")

def polls_for_ever():
    while not poll("j"):
        continue
    save("done")

def pages_for_ever():
    cursor = "a"
    while cursor:
        found = page(cursor)
        cursor = found["next"] if found and found.get("rows") and "next" in found else cursor
    save("done")

def retries_for_ever():
    save("begun")
    while True:
        try:
            return ask("tell")
        except httpx2.HTTPError:
            continue

def reads_ascii():
    row = lookup("B-3") or {}
    str(row.get("order")).encode("ascii")
    save("done")

# Sound agents

def sound_loop():
    loop()

def sound_validator():
    def run(tool, arguments, messages):
        if not isinstance(arguments.get("order"), str) or not arguments["order"]:
            raise Stop("no order")
        if "amount" in arguments and not (isinstance(arguments["amount"], float) and arguments["amount"] > 0):
            raise Stop("no amount")
        return tool(**arguments)
    loop(run, STRICT)

def sound_reporter():
    try:
        if (lookup("B-3") or {}).get("status") != "late":
            report_error("it is not late")
            return
        refund("B-3", 18.5)
        ask_patiently("tell")
    except Exception as error:
        report_error(str(error))
        raise Stop("failed") from None

def sound_guard():
    def refuse(messages):
        report_error("hostile")
        raise Stop("hostile")
    loop(obeying(refuse))

def sound_keyed():
    for _ in range(3):
        try:
            return CLIENT.post(url("/refunds"), json={"order": "B-3", "idempotency_key": "k"}).raise_for_status()
        except httpx2.HTTPError:
            continue

def sound_payer():
    row = quote("B-3") or {}
    if row.get("currency") == "EUR" and isinstance(row.get("price"), float):
        refund("B-3", row["price"])
    ask_patiently("tell")

def sound_currency():
    row = quote("B-3") or {}
    if {"price", "currency"} <= row.keys():
        refund_in("B-3", row["price"], row["currency"])
    ask_patiently("tell")

def sound_branches():
    row = lookup("B-3") or {}
    if row.get("status") == "late":
        refund("B-3", 18.5)
    send_mail("ann", "refunded" if row.get("status") == "late" else "nothing to refund")
    ask_patiently("tell")

def sound_logger():
    def log(line):
        try:
            CLIENT.post(url("/logs"), json={"line": line})
        except httpx2.HTTPError:
            pass
    for _ in range(4):
        log("asking")
        try:
            ask("tell")
            break
        except (httpx2.HTTPError, ValueError) as error:
            log(f"error {type(error).__name__}")
    save("done")

def sound_saver():
    save(lookup("B-3"))
    ask_patiently("tell")
'''
READS = ("lookup", "quote", "weigh", "login", "poll", "page")
WRITES = ("refund", "refund_in", "cancel", "ship", "send_mail", "save", "report_error")
INI = "agentreplay_tools =\n" + "".join(
    [*(f"    agent.{name} = read\n" for name in READS), *(f"    agent.{name}\n" for name in WRITES)]
)
SIGNS = {
    "reset_repeats": (12, "repeated effect"),
    "turn_repeats": (12, "repeated effect"),
    "batch_repeats": (12, "repeated effect"),
    "obeys_with_amount": (12, "unrecorded effect"),
    "obeys_by_mail": (12, "unrecorded effect"),
    "obeys_by_post": (12, "unrecorded effect"),
    "obeys_late": (12, "unrecorded effect"),
    "obeys_early": (12, "unrecorded effect"),
    "obeys_in_a_task": (12, "unrecorded effect"),
    "pays_any_currency": (12, "ignored unit"),
    "ships_any_unit": (12, "ignored unit"),
    "copies_a_secret": (12, "secret in a new place"),
    "passes_anything_on": (48, "forbidden arguments"),
    "polls_for_ever": (24, "ends"),
    "pages_for_ever": (24, "ends"),
    "retries_for_ever": (24, "ends"),
    "reads_ascii": (24, "no crash"),
}
"""Each bug, the neighbours among which it is found, and what is violated."""
SOUND = re.findall(r"^def (sound_\w+)", AGENT, re.MULTILINE)
CHEAP = ("reset_repeats", "obeys_with_amount", "obeys_by_post", "obeys_early", "pays_any_currency", "sound_guard")


def script(body, _number):
    results = [message for message in body.get("messages", ()) if message["role"] == "tool"]
    if not body.get("tools") or len(results) > 1:
        return Say("It is done.")
    return Ask("refund", {"order": "B-3", "amount": 18.5}) if results else Ask("lookup", {"order": "B-3"})


@pytest.fixture(scope="module")
def shop(shared_project):
    tests = [f"def test_{name}(agentreplay):\n    agent.{name}()\n" for name in (*SIGNS, *SOUND)]
    return recorded(furnished(shared_project(script), INI, agent=AGENT, test_shop="\n".join(["import agent", *tests])))


def accuse(shop, budget, *names):
    """What is violated in neighbours of the tests of these agents, with the number of the first neighbour."""
    nodes = [f"test_shop.py::test_{name}" for name in names]
    done = shop.offline(f"--agentreplay-fuzz={budget}", "--tb=no", *nodes, MODEL_URL=NOBODY, COLUMNS="300")
    found = defaultdict(dict)
    pattern = r"^FAILED test_shop\.py::test_(\w+)\[fuzz-(\d+)\] - .*?AR-FUZZ\S* ([a-z ]+):"
    for name, number, invariant in re.findall(pattern, done.stdout, re.MULTILINE):
        found[name].setdefault(invariant, int(number))
    return found, done


def test_what_an_agent_changes_is_judged_among_the_first_neighbours(shop):
    found, done = accuse(shop, 12, *CHEAP)
    assert {name: [*violated] for name, violated in found.items()} == {
        name: [SIGNS[name][1]] for name in CHEAP if name in SIGNS
    }, done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SIGNS)
def test_a_planted_bug_is_found(name, shop):
    budget, invariant = SIGNS[name]
    found, done = accuse(shop, budget, name)
    assert invariant in found[name], done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_agent_is_not_accused(name, shop):
    found, done = accuse(shop, 200, name)
    assert not found, done.stdout
