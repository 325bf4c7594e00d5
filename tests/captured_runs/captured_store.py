"""A service's agent, a store of its captured runs, and pytest with `--agentreplay-runs` over it."""

import re

from tests.support.model_server import Ask
from tests.support.project import NOBODY

SHOP = """
import json, os
import httpx2

SYSTEM = "You help customers.\\nBe brief.\\nBe kind."
CLIENT = httpx2.Client()

def note(line):
    with open("ledger.txt", "a") as ledger:
        ledger.write(line + "\\n")

def lookup_order(order_id):
    note("lookup")
    return {"order": order_id, "status": "late"}

def mail(to, text):
    note("mail")
    return f"sent to {to}"

def refund(order_id, amount):
    note("refund")
    return {"refunded": amount}

TOOLS = {"lookup_order": lookup_order, "mail": mail, "refund": refund}
SCHEMAS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in TOOLS]

def call(name, arguments):
    return TOOLS[name](**arguments)

def read(reply, customer):
    if customer == "unknown":
        raise KeyError(customer)
    return {"answer": reply["content"], "customer": customer}

def answer(question, customer):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        body = {"model": "m-1", "messages": messages, "tools": SCHEMAS}
        url = os.environ["MODEL_URL"] + "/v1/chat/completions"
        reply = CLIENT.post(url, json=body).json()["choices"][0]["message"]
        if not reply.get("tool_calls"):
            return read(reply, customer)
        messages.append(reply)
        for each in reply["tool_calls"]:
            result = call(each["function"]["name"], json.loads(each["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": each["id"], "content": json.dumps(result)})
"""

CAPTURING = """
import sys
from pytest_agentreplay import capture
import shop

def work(number):
    question = ("refund", "where is", "refund and mail", "hello")[number % 4] + f" A-{number}"
    return {"question": question, "customer": "unknown" if number % 10 == 7 else f"c-{number}"}

capture.start("runs", keep="all", tools=["shop.lookup_order = read", "shop.mail", "shop.refund"])
for number in range(int(sys.argv[1])):
    try:
        with capture.run("refund", id=f"run-{number:04}", input={"arguments": work(number)}) as run:
            run.output(shop.answer(**work(number)))
    except KeyError:
        pass
capture.stop(120)
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools =
    shop.lookup_order = read
    shop.mail
    shop.refund
agentreplay_runners =
    refund = shop:answer
"""


def script(body, number):
    """The model: it looks up, refunds and mails, as far as the question says so, and answers."""
    question = body["messages"][1]["content"]
    order = question.split()[-1]
    steps = [Ask("lookup_order", {"order_id": order})] if "hello" not in question else []
    steps += [Ask("refund", {"order_id": order, "amount": 18.5})] if "refund" in question else []
    steps += [Ask("mail", {"to": "owner", "text": f"about {order}"})] if "mail" in question else []
    done = sum(message["role"] == "tool" for message in body["messages"])
    return steps[done] if done < len(steps) else f"Done with {order} (answer {number})."


class Store:
    """The project of a service with its captured runs in `runs`."""

    def __init__(self, project):
        self.project = project

    def furnish(self):
        """Write the agent and its settings as they were captured."""
        self.project.write(shop=SHOP)
        self.project.put(self.project.root / "pytest.ini", INI)

    def capture(self, number):
        self.furnish()
        self.project.write(capturing=CAPTURING)
        done = self.project.child("capturing", number)
        assert done.returncode == 0, done.stderr
        assert len(self.files) == number
        (self.project.root / "ledger.txt").unlink()
        return self

    def replay(self, *words, code=0, **environ):
        """pytest over the store, where no model is; what it printed."""
        done = self.project.run("--agentreplay-runs=runs", *words, **{"MODEL_URL": NOBODY, "COLUMNS": "200"} | environ)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout

    def count(self, *words, **more):
        """The line of the footer."""
        return re.search(r"^captured  (.*)$", self.replay(*words, **more), re.MULTILINE)[1]

    def changed(self, old, new):
        """The same with a changed agent."""
        self.project.edit("shop.py", old, new)
        return self

    @property
    def files(self):
        return sorted((self.project.root / "runs").rglob("*.run.json"))
