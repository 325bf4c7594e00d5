"""`agentreplay accept --requests` is offered where it would succeed, and not again by the run that it has made."""

import pytest

from pytest_agentreplay.demo.server import Say

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

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


def reports(output):
    """The report of each failed test by its name."""
    _, *found = output.partition("short test summary info")[0].split(" test_")
    return {text.partition(" ")[0]: text for text in found if "[AR-" in text}


@pytest.fixture
def offers(project):
    """The recorded project, whose server is down."""
    (project.root / "test_shop.py").unlink()
    project.server._replies = lambda body, number: Say("It is on its way.")
    project.write(shop=SHOP, test_offers=TESTS)
    project.environ |= {"COLUMNS": "160"}
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    project.server.stop()
    return project


def test_it_is_offered_where_a_recorded_reply_can_answer_and_a_run_that_refuses_does_not_offer_it_again(offers):
    told = reports(offers.replay(CHANGED="yes").stdout)
    assert [name for name in NAMES if OFFER.format(name) in told[name].replace("\\", "/")] == ["wording"]
    assert "asks for a stream, and the recorded reply is none" in told["now_streamed"]
    assert "asks for a whole reply, and the recorded reply is none" in told["no_longer_streamed"]
    assert "goes to another address or API" in told["other_api"]
    done = offers.run("--agentreplay-adopt=tone", CHANGED="yes")
    assert "agentreplay accept" not in done.stdout.partition("short test summary info")[0].replace(
        "(agentreplay accept)", ""
    )
    assert done.stdout.count("accepted  nothing") == 3
    assert offers.replay("-k", "wording", CHANGED="yes").returncode == 0
