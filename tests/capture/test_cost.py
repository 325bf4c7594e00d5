"""What a run that is captured and not kept takes in memory, and that its bodies are restored."""

import gc
import json
import os
import subprocess
import sys
from types import FunctionType, ModuleType

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay import capture
from pytest_agentreplay.runs.capture.interception import RequestBodies
from tests.support.capturing import started

TURNS = 60
SERVER = """
import time
from tests.support.model_server import ModelServer
with ModelServer() as server:
    print(server.url, flush=True)
    time.sleep(600)
"""


def measure(*roots):
    """The bytes in memory of everything that can be reached from `roots`, but for code."""
    seen, todo, size = set(), [*roots], 0
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, type | ModuleType | FunctionType):
            continue
        seen.add(id(value))
        size += sys.getsizeof(value)
        todo += gc.get_referents(value)
    return size


@pytest.fixture
def url():
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    yield server.stdout.readline().strip()
    server.kill()
    server.wait()
    server.stdout.close()


def test_a_history_that_is_sent_with_each_turn_is_in_memory_once(url):
    messages, tools = [], [{"type": "function", "function": {"name": "look_up", "description": "d" * 1000}}]
    new = 0
    with started() as taken, capture.run("service"), httpx.Client() as client:
        for turn in range(TURNS):
            messages += [
                {"role": "user", "content": os.urandom(4000).hex()},
                {"role": "assistant", "content": f"{turn}"},
            ]
            body = {"messages": messages, "model": "m", "tools": tools}
            answer = client.post(f"{url}/v1/chat/completions", json=body)
            new += len(json.dumps(messages[-2:])) + len(answer.content) + len(str(answer.url))
            heads = (*answer.request.headers.raw, *answer.headers.raw)
            new += sum(len(name) + len(value) + 4 for name, value in heads)
    ended = taken[0]
    sent = [ended.calls[x.start].native.body for x in ended.exchanges]
    assert measure(ended.calls, ended.outcomes) <= 1.2 * new
    assert ended.size <= 1.2 * new
    assert json.loads(sent[-1].data)["messages"] == messages
    assert json.loads(sent[30].data)["messages"] == messages[:62]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.binary(max_size=6)), max_size=12))
def test_bodies_that_share_bytes_are_restored(changes):
    bodies, data, kept = RequestBodies(), b"", []
    for start, size, new in changes:
        data = data[:start] + new + data[start + size :]
        kept.append((data, bodies.add(data)))
    assert [body.data for _, body in kept] == [data for data, _ in kept]
