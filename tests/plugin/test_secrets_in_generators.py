"""A secret that generator tools and in-process models yield in pieces: in no file, and the replay works."""

import json

import pytest

KNOWN = "Tr0ub4dor" + "-Kq7Zx9Lm2"
VENDOR = "sk-" + "proj-" + "aB3dE6gH9jK2mN5pQ8rT1vW4"

AGENT = """
import asyncio, os

TEXT = f"the token is {os.environ['SHOP_TOKEN']}, the key is sk-{'proj'}-aB3dE6gH9jK2mN5pQ8rT1vW4. Done."


def pieces(size):
    for at in range(0, len(TEXT), size):
        yield TEXT[at : at + size]


def read(order_id: str):
    yield from pieces(3)


async def follow(order_id: str):
    for piece in pieces(4):
        await asyncio.sleep(0)
        yield piece


def stream(prompt: str):
    yield from pieces(5)


async def chat(prompt: str):
    for piece in pieces(1):
        await asyncio.sleep(0)
        yield piece


async def joined(source):
    return "".join([piece async for piece in source])


def answers():
    return ["".join(read("A-17")), asyncio.run(joined(follow("A-17"))), "".join(stream("Hi")), asyncio.run(joined(chat("Hi")))]
"""

TEST = """
import agent

def test_answers(agentreplay):
    for answer in agent.answers():
        assert answer.startswith("the token is ") and answer.endswith(". Done.")
    agentreplay.run.assert_tool_calls(["read", "follow"])
    assert [turn.model for turn in agentreplay.run.model_calls] == ["stream", "chat"]
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools =
    agent.read
    agent.follow
agentreplay_models =
    agent.stream
    agent.chat
"""


def strings(tree):
    """All strings of a JSON value, in order."""
    if isinstance(tree, dict):
        return "".join(map(strings, tree.values()))
    if isinstance(tree, list):
        return "".join(map(strings, tree))
    return tree if isinstance(tree, str) else ""


@pytest.fixture
def shop(project):
    project.environ = {"SHOP_TOKEN": KNOWN}
    project.write(agent=AGENT, test_shop=TEST)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return project


def test_what_generators_yield_in_pieces_is_in_no_file(shop):
    done = shop.record()
    assert done.returncode == 0, done.stdout
    assert "replays" in done.stdout
    (file,) = shop.files
    text = file.read_text(encoding="utf-8")
    together = strings(json.loads(text))
    for secret in (KNOWN, VENDOR):
        assert secret not in text
        assert secret not in together
        assert secret[4:12] not in together
    assert together.count("[[redacted:") >= 8
    shop.environ = {"SHOP_TOKEN": "another-token-entirely"}
    again = shop.replay()
    assert again.returncode == 0, again.stdout
    assert "0 live" in again.stdout
