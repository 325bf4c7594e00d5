"""litellm's calls at once, by its own client on aiohttp and by openai's: replayed in the order in which they were recorded."""

import pytest

from tests.rehearsal import house, rehearsed

pytestmark = pytest.mark.env("litellm")

LITELLM = """
import asyncio
import litellm
import pytest

from notes import KEY, URL, done, known, note

WAYS = {
    "openai": {"model": "openai/gpt-x", "api_base": URL + "/v1"},
    "anthropic": {"model": "anthropic/claude-x", "api_base": URL},
}

async def ask(way, question):
    messages = [{"role": "user", "content": known(question)}]
    reply = await litellm.acompletion(**WAYS[way], api_key=KEY, messages=messages, max_retries=0)
    return note(reply.choices[0].message.content)

@pytest.mark.parametrize("way", WAYS)
def test_gather(agentreplay, way):
    async def one(name):
        return [await ask(way, f"{name}, question {number}.") for number in range(3)]
    async def agents():
        return await asyncio.gather(*map(one, "abcdef"))
    done(agentreplay, asyncio.run(agents()))
"""

THEIRS = ("-W", "ignore")
"""litellm warns of itself."""


def furnish(project):
    project.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else its import asks the network
    house(project, test_litellm=LITELLM)


def test_all_is_replayed_as_recorded(shared_project):
    project = shared_project()
    furnish(project)
    assert len(rehearsed(project, *THEIRS)) == 2
