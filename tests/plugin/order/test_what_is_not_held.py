"""What differs in every run although nobody has changed anything: the report names the cause."""

import pytest

from tests.support.small_projects import flat, furnished, recorded, sections

AGENT = """
import getpass, os, secrets, tempfile
import httpx2

TEXTS = {
    "set": lambda: f"The tags are {set('abcdefgh')}.",
    "file": lambda: f"Read {tempfile.mkdtemp()} first.",
    "user": lambda: f"You work for {getpass.getuser()}.",
    # Long enough never to be all digits, which would be a number and no id.
    "token": lambda: f"Your session is {secrets.token_hex(32)}.",
    "object": lambda: f"Use {object()!r}.",
}

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()
"""

TESTS = """
import agent, pytest

@pytest.mark.parametrize("kind", agent.TEXTS)
def test_asks(agentreplay, kind):
    agent.ask(agent.TEXTS[kind]())
"""

CAUSES = {
    "set": "the order of a set: such values differ in every run. Sort it before it is sent, or run with PYTHONHASHSEED=0",
    "file": "a place: such values differ in every run. Places are put back only where they are known",
    "user": "a place: such values differ in every run.",
    "token": "a random id: such values differ in every run.",
    "object": "a random id: such values differ in every run.",
}


@pytest.mark.real_process
def test_its_cause_is_named(project):
    furnished(project, agent=AGENT, test_shop=TESTS)
    recorded(project, PYTHONHASHSEED="1", USER="annalena", LOGNAME="annalena")
    # The user is called root now: too common a word to be told from others, so that the prompt differs.
    done = project.offline(PYTHONHASHSEED="2", USER="root", LOGNAME="root")
    found = sections(done)
    for kind, cause in CAUSES.items():
        assert "[AR-NOISE]" in found[f"asks[{kind}]"], kind
        assert f"both sides look like {cause}" in found[f"asks[{kind}]"], found
    assert "no user or host name that is a common word" in flat(done)
    assert "changed since order of sets: PYTHONHASHSEED=1 -> PYTHONHASHSEED=2" in flat(done)
