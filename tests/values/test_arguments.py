"""Arguments as they are compared: other content is never equal, equal content is equal in every process."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys
import types
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import ToolCall
from pytest_agentreplay.values import freeze, freeze_arguments, load
from pytest_agentreplay.values.arguments import freeze_call
from pytest_agentreplay.values.deserializer import to_plain
from pytest_agentreplay.values.fitting import CLOSURE, fit_call
from tests.support.same_values import equals_whole


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Listed(list[Any]):
    pass


class Mapped(dict[str, Any]):
    pass


class Told(str):  # noqa: SLOT000  it takes attributes
    pass


class Moment(dt.datetime):
    pass


class Pair(collections.namedtuple("Pair", "a b")):  # noqa: PYI024, SLOT002  it takes attributes
    pass


@dataclasses.dataclass
class Row:
    value: Any


@dataclasses.dataclass
class Rows(list[Any]):
    name: str = "r"


class WideRow(Row):
    __slots__ = ("more",)


@attrs.define
class Defined:
    value: Any


class Counted(collections.Counter[str]):
    pass


def with_attribute(made: Any, value: Any, name: str = "value") -> Any:
    setattr(made, name, value)
    return made


def rows(value: Any) -> Rows:
    made = Rows()
    made.append(value)
    return made


MAKERS = {
    "listed": lambda value: Listed([value]),
    "mapped": lambda value: Mapped(value=value),
    "rows": rows,
    "wide": lambda value: with_attribute(WideRow(1), value, "more"),
    "told": lambda value: with_attribute(Told("t"), value),
    "pair": lambda value: with_attribute(Pair(1, 2), value),
    "set": lambda value: ({Plain(1), "b", "a", frozenset({"x", "y"}), 3}, value),
    "chain": lambda value: collections.ChainMap({"value": value}),
    "tuple": lambda value: (value,),
    "list": lambda value: [value],
    "plain": Plain,
    "slotted": Slotted,
    "row": Row,
    "defined": Defined,
    "namespace": lambda value: types.SimpleNamespace(value=value),
}
"""By name: an instance of some class that holds a value."""
KINDS = [*MAKERS]
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.binary(max_size=8)
)
VALUES = st.recursive(LEAVES.map(lambda leaf: ("leaf", leaf)), lambda inner: st.tuples(st.sampled_from(KINDS), inner))


def built(recipe: tuple[str, Any]) -> Any:
    kind, inner = recipe
    return inner if kind == "leaf" else MAKERS[kind](built(inner))


def key(value: Any) -> str:
    return canonical(freeze_arguments({"value": value}))


@given(VALUES, VALUES)
def test_two_values_have_one_key_only_if_they_were_made_alike(one, other):
    assert (key(built(one)) == key(built(other))) == (repr(one) == repr(other)), "1, True and 1.0 are three"


def test_of_two_equal_hours_in_autumn_each_has_its_key():
    assert key(Moment(2026, 10, 25, 2, 30)) != key(Moment(2026, 10, 25, 2, 30, fold=1))


def test_ten_thousand_objects_are_read_of_an_argument_and_of_each_attribute_of_a_receiver():
    def tuples(count: int) -> list[Any]:
        return [() for _ in range(count)]

    receiver = types.SimpleNamespace(a=tuples(6_000), b=tuples(6_000))
    frozen = freeze_call({"most": tuples(9_999), "more": tuples(10_000)}, receiver)
    assert frozen.arguments == {"most": [{"$tuple": []}] * 9_999, "more": {"$opaque": "list"}}
    assert [gap.path for gap in frozen.gaps] == ["$.more"]


SCRIPT = """
import sys
from tests.values.test_arguments import KINDS, built, key
for outer in KINDS:
    for inner in KINDS:
        print(key(built((outer, (inner, ("leaf", "text"))))))
"""


@pytest.mark.process
def test_the_hash_seed_of_a_process_changes_no_key():
    told = set()
    for seed in "12":
        environ = os.environ | {"PYTHONHASHSEED": seed}
        words = [sys.executable, "-c", SCRIPT]
        told.add(subprocess.run(words, env=environ, capture_output=True, check=True, text=True).stdout)
    (lines,) = told
    assert len(set(lines.splitlines())) == len(KINDS) ** 2


# What is not compared


def test_what_a_tool_has_changed_is_left_out_on_either_side():
    def call(*node: Any) -> ToolCall:
        return ToolCall("t", {"value": {"$state": ["shop.Account", *node]}})

    then = call({"owner": "ada"}, {"changed": ["balance"]})
    assert fit_call(then, call({"owner": "ada", "balance": 100})) == then
    assert fit_call(then, call({"owner": "eve", "balance": 100})) != then
    first = call({"owner": "ada", "balance": 100})
    assert fit_call(first, call({"owner": "ada"}, {"changed": ["balance"]})) == first
    assert fit_call(first, call({"owner": "ada", "balance": 90})) != first


def test_what_a_recorded_closure_does_not_hold_is_not_compared():
    def call(receiver: Any = None) -> ToolCall:
        return ToolCall("t", facts={} if receiver is None else {"self": receiver})

    def closure(**held: Any) -> Any:
        return {"$state": [CLOSURE, held]}

    desk = {"$state": ["shop.Desk", {"owner": "ada"}]}
    assert fit_call(call(), call(closure(user="ada"))) == call(), "nothing of it"
    assert fit_call(call(desk), call(closure(user="ada", self=desk))) == call(desk), "the receiver alone"
    assert fit_call(call(), call(closure(user="ada", self=desk))) == call(), "a variable that is called self"
    some = call(closure(currency="EUR"))
    assert fit_call(some, call(closure(currency="EUR", user="ada"))) == some, "what differed alone"
    for other in (closure(currency="USD"), closure(money="EUR"), None):
        assert fit_call(some, call(other)) != some


def test_the_port_of_a_local_service_is_another_one_in_each_process():
    def call(host: str, port: int, of: str = "port") -> ToolCall:
        held = {of: port, "url": f"http://{host}:{port}/orders", "address": {"$tuple": [host, port]}}
        return ToolCall("t", facts={"self": {"$state": ["shop.Desk", held]}})

    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert fit_call(call(host, 4000), call(host, 4001)) == call(host, 4000)
    assert fit_call(call("shop.example", 4000), call("shop.example", 4001)) != call("shop.example", 4000)
    assert fit_call(call("localhost", 4000, "support"), call("localhost", 4001, "support")) != call(
        "localhost", 4000, "support"
    )


# Results: what derives from a built-in class comes back with all that it has


RESULTS = [MAKERS[kind](1) for kind in ("rows", "wide", "told", "pair", "listed", "mapped")]
RESULTS += [Counted("aab"), Moment(2026, 11, 20, 9, 30, tzinfo=dt.UTC)]


@pytest.mark.parametrize("value", RESULTS, ids=lambda value: type(value).__name__)
def test_nothing_is_lost_of_a_result(value):
    data = json.loads(json.dumps(freeze(value, hint=type(value) | Listed)))
    back = load(data, hint=type(value) | Listed)
    assert equals_whole(value, back)
    assert (type(back), back) == (type(value), value)
    for held in ("__dict__", "more"):
        assert getattr(back, held, None) == getattr(value, held, None)


class Typed(list[Row]):
    pass


def test_the_items_of_a_class_have_the_hint_of_its_base_and_state_reads_as_plain_values():
    back = load(freeze(Typed([Row(1)]), hint=Typed), hint=Typed)
    assert back == [Row(1)]
    with pytest.raises(CannotFreeze, match="no annotation names its class"):
        freeze(Listed([Row(1)]), hint=Listed)
    frozen = freeze_arguments({"a": Plain(Slotted(1)), "b": Listed([1]), "c": MAKERS["rows"](2)})
    assert [to_plain(frozen[name]) for name in "abc"] == [{"value": {"value": 1}}, [1], {"name": "r", "__items__": [2]}]
