"""The import path that a report of an unseen tool prints: a line that works, also for tools that are no plain functions."""

import sys

from pytest_agentreplay.core.model import Exchange, ToolCall, ToolReply
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.runs import replay_kit
from tests.support import exchanges

MODULE = """
def look_up(order): ...

class Mail:
    def find_parcel(self): ...

class Shop:
    def find_parcel(self): ...

    @staticmethod
    def cancel(order): ...
"""
PATHS = {
    "look_up": "unseen_shop.look_up",
    "cancel": "unseen_shop.Shop.cancel",
    "Shop-find_parcel": "unseen_shop.Shop.find_parcel",
    "shop-find_parcel": "unseen_shop.Shop.find_parcel",
    "Mail-find_parcel": "unseen_shop.Mail.find_parcel",
    "orders-look_up": "unseen_shop.look_up",
    "search_tools": "your.module.search_tools",
    "Shop-unknown": "your.module.unknown",
}


def run(tool, *between):
    """A model asks for `tool`, and is told a result of it."""
    said = {"role": "assistant", "content": None, "tool_calls": [exchanges.chat_use("call_0001", tool, "{}")]}
    answer = {"id": "c", "model": "m", "choices": [{"message": said, "finish_reason": "tool_calls"}]}
    first = exchanges.call({"model": "m", "messages": [{"role": "user", "content": "Where?"}]})
    told = {"role": "tool", "tool_call_id": "call_0001", "content": "here"}
    last = exchanges.call({"model": "m", "messages": [said, told]})
    calls = [(first, exchanges.reply(answer)), *between, (last, None)]
    return tuple(Exchange(call, outcome, 2 * n, 2 * n + 1) for n, (call, outcome) in enumerate(calls))


def test_the_path_of_an_unseen_tool_can_be_imported(tmp_path, monkeypatch):
    (tmp_path / "unseen_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("unseen_shop")
    for tool, path in PATHS.items():
        assert replay_kit.unfrozen(run(tool), READER, str(tmp_path)) == [{"tool": tool, "path": path}]
    frozen = ToolCall("find_parcel", {}), ToolReply("here")
    assert replay_kit.unfrozen(run("Shop-find_parcel", frozen), READER, str(tmp_path)) == []
    del sys.modules["unseen_shop"]
