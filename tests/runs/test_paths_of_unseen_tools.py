"""The import path that a report of an unseen tool prints: a line that works, also for tools that are no plain functions."""

import importlib
import sys

from pytest_agentreplay.intercept.tools.tool import Tool, redirect
from pytest_agentreplay.model.exchanges import Exchange, ToolCall, ToolReply
from pytest_agentreplay.runs import replay_kit
from tests.support import exchanges

MODULE = """
def look_up(order): ...

class Unbuilt:
    __slots__ = ()

    def __getattr__(self, name):
        raise RuntimeError("not built")

UNBUILT = Unbuilt()

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


ANSWERS = """
class UserDetail: ...

class GetOrder: ...

def get_order(order): ...

def look_up(order): ...
"""


def run(tool, *between, arguments="{}", choices=({}, {})):
    """A model asks for `tool`, and is told a result of it; `choices` are fields of the two requests."""
    said = {"role": "assistant", "content": None, "tool_calls": [exchanges.chat_use("call_0001", tool, arguments)]}
    answer = {"id": "c", "model": "m", "choices": [{"message": said, "finish_reason": "tool_calls"}]}
    first = exchanges.call({"model": "m", "messages": [{"role": "user", "content": "Where?"}]} | choices[0])
    told = {"role": "tool", "tool_call_id": "call_0001", "content": "here"}
    last = exchanges.call({"model": "m", "messages": [said, told]} | choices[1])
    calls = [(first, exchanges.reply(answer)), *between, (last, None)]
    return tuple(Exchange(call, outcome, 2 * n, 2 * n + 1) for n, (call, outcome) in enumerate(calls))


def test_the_path_of_an_unseen_tool_can_be_imported(tmp_path, monkeypatch):
    (tmp_path / "unseen_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("unseen_shop")
    for tool, path in PATHS.items():
        assert replay_kit.find_unfrozen(run(tool), str(tmp_path)) == [{"tool": tool, "path": path}]
    frozen = ToolCall("find_parcel", {}), ToolReply("here")
    assert replay_kit.find_unfrozen(run("Shop-find_parcel", frozen), str(tmp_path)) == []
    del sys.modules["unseen_shop"]


REGISTRY = """
import functools

def _find(order_id, deep=False): ...

def find_by_phone(): ...

class Desk:
    TOOLS = {"cancel": (functools.partial(_find, deep=True), {"parameters": {}}), "phone": find_by_phone}

TOOLS = {"lookup_order": _find, "find_by_phone": find_by_phone, "made": lambda order_id: None}

def _send(): ...

def track(): ...

class Held:
    def __init__(self, name, function):
        self.name, self.handler = name, function
    def run(self): ...

track = Held("track", track)
mailer = Held("send_mail", _send)
"""


def test_a_tool_under_another_name_is_the_function_that_a_registry_has_under_it(tmp_path, monkeypatch):
    (tmp_path / "unseen_desk.py").write_text(REGISTRY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    desk = importlib.import_module("unseen_desk")

    def missed(tool, *between, arguments='{"order_id": "A-1"}'):
        return replay_kit.find_unfrozen(run(tool, *between, arguments=arguments), str(tmp_path))

    for tool, path in {
        "lookup_order": "unseen_desk._find = write as lookup_order",
        "cancel": "unseen_desk._find = write as cancel",
        "phone": "unseen_desk.find_by_phone = write as phone",
        "find_by_phone": "unseen_desk.find_by_phone",
        "made": "your.module.made",
        "track": "unseen_desk.track",
        "send_mail": "unseen_desk._send = write as send_mail",
    }.items():
        assert missed(tool) == [{"tool": tool, "path": path}]
    redirection = redirect(Tool("_find", desk._find))
    assert missed("lookup_order") == missed("cancel") == []
    redirection.restore()
    assert missed("lookup_order"), "it is frozen no more"
    del sys.modules["unseen_desk"]


def test_a_tool_that_no_registry_shows_is_the_frozen_call_that_had_its_arguments(tmp_path):
    def missed(*between, arguments='{"order_id": "A-1"}', tool="lookup_order"):
        return replay_kit.find_unfrozen(run(tool, *between, arguments=arguments), str(tmp_path))

    reply = ToolReply("late")
    for same in (
        {"order_id": "A-1"},
        {"number": "A-1", "limit": 10},
        {"arguments": {"order_id": "A-1"}},
        {"text": '{"order_id": "A-1"}'},
    ):
        assert missed((ToolCall("_find", same), reply)) == [], same
    assert missed((ToolCall("_find", {"order_id": "A-2"}), reply))
    assert missed((ToolCall("_find", {"limit": 3}), reply), arguments="{}")
    assert not missed((ToolCall("_find", {"limit": 3}, defaults=frozenset({"limit"})), reply), arguments="{}")


def test_an_answer_that_has_the_form_of_a_tool_is_none(tmp_path, monkeypatch):
    (tmp_path / "answers_shop.py").write_text(ANSWERS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("answers_shop")

    def unfrozen(tool, *choices):
        return [missed["tool"] for missed in replay_kit.find_unfrozen(run(tool, choices=choices), str(tmp_path))]

    def forced(name):
        return {"tool_choice": {"type": "function", "function": {"name": name}}}

    alone = {"tools": [{"type": "function", "function": {"name": "made_up"}}], "tool_choice": "required"}
    # Asked for again, as instructor does with an answer that is not valid; or a class, and the conversation goes on.
    for tool, again in (("UserDetail", forced("UserDetail")), ("made_up", forced("made_up")), ("UserDetail", {})):
        assert unfrozen(tool, forced(tool), again) == []
    assert unfrozen("made_up", alone, alone) == []
    for tool in ("look_up", "GetOrder"):
        assert unfrozen(tool, forced(tool), forced(tool)) == [tool], "a function does what the tool says"
    assert unfrozen("made_up", forced("made_up"), {}) == ["made_up"]
    assert unfrozen("UserDetail", {"tool_choice": "auto"}, {"tool_choice": "auto"}) == ["UserDetail"]
