"""Agents at once on other ways out than httpx: aiohttp's protocols, requests and boto3 in threads."""

import pytest

from tests.rehearsal import house, rehearsed

pytestmark = pytest.mark.env("clients")

GOOGLE = """
import asyncio
import aiohttp
from google import genai

from notes import KEY, NOTES, URL, done, known, note

def client():
    return genai.Client(api_key=KEY, vertexai=False, http_options={"base_url": URL}).aio.models

async def ask(models, question):
    reply = await models.generate_content(model="gemini-x", contents=known(question))
    return note(reply.text)

async def tell(models, name):
    async for part in await models.generate_content_stream(model="gemini-x", contents=known(name)):
        note(f"{name}: {part.text}")

def test_gather(agentreplay):
    async def agents():
        models = client()
        async def one(name):
            return [await ask(models, f"{name}, question {number}.") for number in range(3)]
        return await asyncio.gather(*map(one, "abcdef"))
    done(agentreplay, asyncio.run(agents()))

def test_streams_side_by_side(agentreplay):
    async def agents():
        models = client()
        await asyncio.gather(*[tell(models, name) for name in "abc"])
        return await ask(models, "And now?")
    done(agentreplay, asyncio.run(agents()))

def test_aiohttp_itself(agentreplay):
    async def agents():
        async with aiohttp.ClientSession() as session:
            async def one(name):
                for number in range(4):
                    async with session.post(URL + "/ask", json={"text": known(f"{name}, question {number}.")}) as reply:
                        note((await reply.json())["text"])
            await asyncio.gather(*map(one, "abcdef"))
    done(agentreplay, asyncio.run(agents()))
"""

THREADS = """
from concurrent.futures import ThreadPoolExecutor
import boto3, requests

from notes import KEY, NOTES, URL, done, known, note

def both(name, ask):
    return [note(ask(known(f"{name}, question {number}."))) for number in range(3)]

def in_eight_threads(ask):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda name: both(name, ask), "abcdefgh"))

def test_requests(agentreplay):
    with requests.Session() as session:
        done(agentreplay, in_eight_threads(lambda text: session.post(URL + "/ask", json={"text": text}).json()["text"]))

def test_boto3(agentreplay):
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "eu-west-1"}
    model = boto3.client("bedrock-runtime", endpoint_url=URL, **keys)
    def ask(text):
        reply = model.converse(modelId="claude-x", messages=[{"role": "user", "content": [{"text": text}]}])
        return reply["output"]["message"]["content"][0]["text"]
    done(agentreplay, in_eight_threads(ask))

"""


def test_all_is_replayed_as_recorded(shared_project):
    project = shared_project()
    house(project, test_google=GOOGLE, test_threads=THREADS)
    assert len(rehearsed(project, "-W", "ignore")) == 5
