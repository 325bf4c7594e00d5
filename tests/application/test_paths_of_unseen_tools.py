"""The import path that a report of an unseen tool prints: a line that works, also for tools that are no plain functions."""

import json
import sys

import pytest

from pytest_agentreplay.core.model import Body, Exchange, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.runs import replay_kit

MODULE = """
def look_up(order): ...

class Mail:
    def find_parcel(self): ...

class Shop:
    def find_parcel(self): ...

    @staticmethod
    def cancel(order): ...
"""
URL = "https://api.openai.com/v1/chat/completions"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with one imported module."""
    (tmp_path / "unseen_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("unseen_shop")
    yield str(tmp_path)
    del sys.modules["unseen_shop"]


def run(tool, *between):
    """A model asks for `tool`, and is told a result of it."""
    use = {"id": "call_0001", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [use]}
    reply = json.dumps({"id": "c", "model": "m", "choices": [{"message": said, "finish_reason": "tool_calls"}]})
    headers = (("content-type", "application/json"),)
    asked = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
    told = {"model": "m", "messages": [said, {"role": "tool", "tool_call_id": "call_0001", "content": "here"}]}
    first, last = (HttpCall("POST", URL, headers, Body(json.dumps(body).encode())) for body in (asked, told))
    calls = [(first, HttpReply(200, "OK", headers=headers, body=Body(reply.encode()))), *between, (last, None)]
    return tuple(Exchange(call, outcome, 2 * n, 2 * n + 1) for n, (call, outcome) in enumerate(calls))


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("look_up", "unseen_shop.look_up"),
        ("cancel", "unseen_shop.Shop.cancel"),
        ("Shop-find_parcel", "unseen_shop.Shop.find_parcel"),
        ("shop-find_parcel", "unseen_shop.Shop.find_parcel"),
        ("Mail-find_parcel", "unseen_shop.Mail.find_parcel"),
        ("orders-look_up", "unseen_shop.look_up"),
        ("search_tools", "your.module.search_tools"),
        ("Shop-unknown", "your.module.unknown"),
    ],
)
def test_the_path_of_an_unseen_tool(root, tool, path):
    assert replay_kit.unfrozen(run(tool), READER, root) == [{"tool": tool, "path": path}]


def test_a_function_of_a_plugin_that_is_frozen_is_not_unseen(root):
    frozen = ToolCall("find_parcel", {}), ToolReply("here")
    assert replay_kit.unfrozen(run("Shop-find_parcel", frozen), READER, root) == []
