"""Two services on loopback, at other ports in each run: the replay of a call is that of its own service."""

import re
from contextlib import ExitStack

import pytest

from pytest_agentreplay.demo.server import ModelServer

AGENT = """
import os
import httpx2

SHOP, BANK = os.environ["SHOP_URL"], os.environ["BANK_URL"]
if os.environ.get("PROGRAM") == "one for both":
    BANK = SHOP

def ask(base, words):
    body = {"model": "m-1", "messages": [{"role": "user", "content": words}]}
    return httpx2.post(f"{base}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]

def alternate():
    return [ask(SHOP, "status"), ask(BANK, "status"), ask(SHOP, "status")]

def only_then_both():
    return [ask(BANK, "balance"), ask(BANK, "status"), ask(SHOP, "status")]

def shop_first():
    late = os.environ.get("PROGRAM") == "other order"
    first, second = (BANK, SHOP) if late else (SHOP, BANK)
    return [ask(first, "orders" if first is SHOP else "balance"), ask(second, "balance" if first is SHOP else "orders")]
"""

TEST = """
import pytest
import agent

@pytest.mark.parametrize("name", ["alternate", "only_then_both", "shop_first"])
def test_program(name, agentreplay):
    print("answers", name, getattr(agent, name)())
"""

ANSWERS = {
    "alternate": "['shop', 'bank', 'shop']",
    "only_then_both": "['bank', 'bank', 'shop']",
    "shop_first": "['shop', 'bank']",
}


def say(name):
    return lambda _body, _number: name


def answers(done):
    return dict(re.findall(r"answers (\w+) (\[.*?\])", done.stdout))


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project()
    made.write(agent=AGENT, test_shop=TEST)
    (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    with ExitStack() as stack:
        shop, bank = (stack.enter_context(ModelServer(say(name))) for name in ("shop", "bank"))
        done = made.record("-s", SHOP_URL=shop.url, BANK_URL=bank.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert answers(done) == ANSWERS
    return made


def replayed(project, **environ):
    """A replay beside two new servers, which must not be asked."""
    with ExitStack() as stack:
        shop, bank = (stack.enter_context(ModelServer(say("live"))) for _ in range(2))
        done = project.replay("-s", SHOP_URL=shop.url, BANK_URL=bank.url, **environ)
        assert (shop.hits, bank.hits) == (0, 0)
    assert "live'" not in done.stdout
    return done


def test_each_service_answers_for_itself_at_new_ports(project):
    done = replayed(project)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert answers(done) == ANSWERS


def test_a_call_to_the_other_service_is_a_divergence(project):
    done = replayed(project, PROGRAM="one for both")
    assert "3 failed" in done.stdout, done.stdout + done.stderr
    assert not answers(done)


def test_no_service_answers_for_another_where_the_order_changes(project):
    done = replayed(project, PROGRAM="other order")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert answers(done) == {name: told for name, told in ANSWERS.items() if name != "shop_first"}
