"""Damaged and hostile exports of platforms: they import, or one TraceError says why not."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.interchange import platforms
from pytest_agentreplay.interchange.formats import Opened
from pytest_agentreplay.interchange.opening import opened
from pytest_agentreplay.interchange.trace import Trace
from tests.interchange.neutral import TRACES

FILES = sorted(
    str(path.relative_to(TRACES))
    for kind in (
        *("generated/langsmith", "generated/mlflow", "generated/opik", "generated/braintrust", "generated/weave"),
        *("generated/galileo", "generated/openai-agents", "public/langfuse"),
    )
    for path in (TRACES / kind).iterdir()
)
ODD = (
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "\x00",
    "\ud800",
    "weave:///x",
    [],
    {},
    [[]],
    [{}],
)
ODD += ({"": None}, "2026-13-45T99:99:99", "{", '"', "{'a': 1}", [None, [None]], {"role": []}, {"lc": 1, "id": 7})


@cache
def rows(file: str) -> str:
    return json.dumps(opened((TRACES / file).read_bytes(), file=file).rows)


def places(value):
    """Every container in a tree, with each of its keys."""
    waiting, found = [value], []
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        found += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    return found


def mutated(file: str, seed: int, odd):
    tree, odd = json.loads(rows(file)), json.dumps(odd)
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 12)):
        if held := places(tree):
            container, key = chance.choice(held)
            match chance.randint(0, 4):
                case 0 if isinstance(container, dict):
                    del container[key]
                case 1:
                    container[key] = [container[key]]
                case 2:
                    container[key] = json.dumps(container[key])
                case 3:
                    other, at = chance.choice(held)
                    container[key] = json.loads(
                        json.dumps(other[at]) if isinstance(other, list) or at in other else odd
                    )
                case _:
                    container[key] = json.loads(odd)
    return tree if isinstance(tree, list) else [tree]


def checked(held: Opened) -> None:
    for one in platforms.FORMATS:
        assert isinstance(one.fits(held), bool)
        try:
            found = list(one.read(held))
        except TraceError as refused:
            found, said = [], str(refused)
        else:
            said = ""
        assert "\n" not in said
        assert all(isinstance(trace, Trace) for trace in found)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FILES), st.integers(0, 2**32), st.sampled_from(ODD))
def test_a_mutated_export_is_read_or_refused(file, seed, odd):
    checked(Opened(file, b"", tuple(mutated(file, seed, odd))))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["llm", "tool", "trace"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "id",
                        "trace_id",
                        "run_type",
                        "inputs",
                        "outputs",
                        "messages",
                        "body",
                        "type",
                        "spans",
                        "trace",
                        "data",
                    ),
                    *(
                        "observations",
                        "op_name",
                        "output",
                        "input",
                        "span_id",
                        "root_span_id",
                        "info",
                        "object",
                        "kwargs",
                    ),
                    *(
                        "span_attributes",
                        "span_data",
                        "metadata",
                        "attributes",
                        "choices",
                        "generations",
                        "role",
                        "content",
                    ),
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=4))
def test_rows_of_anything_are_read_or_refused(found):
    checked(Opened("any.json", b"", tuple(found)))


def ring(*names: str) -> tuple:
    """Runs that are each other's parents."""
    held = list(zip(names, (*names[1:], names[0]), strict=True))
    common = {
        "inputs": {"messages": [{"role": "user", "content": "Hi"}]},
        "outputs": {"role": "assistant", "content": "Hi"},
    }
    return tuple({"id": one, "parent_run_id": other, "run_type": "llm", **common} for one, other in held)


def nest(key: str, inner: dict, depth: int) -> dict:
    for _ in range(depth):
        inner = {key: [inner], "type": "trace", "spans": [], "run_type": "chain", "id": "x", "trace_id": "t"} | {
            key: [inner]
        }
    return inner


HOSTILE = {
    "a ring of parents": ring("a", "b", "c"),
    "its own parent": ring("a"),
    "many children": (nest("child_runs", {"id": "z", "run_type": "tool", "inputs": {"a": 1}, "trace_id": "t"}, 150),),
    "many spans": (nest("spans", {"type": "llm", "input": "Hi", "output": "Hi"}, 150),),
    "many outputs": ({**ring("a")[0], "outputs": nest("output", {}, 150)},),
    "many exceptions": (
        {
            "op_name": "weave:///a/b/op/c:1",
            "id": "1",
            "trace_id": "t",
            "exception": '{"error":' * 100 + "1" + "}" * 100,
        },
    ),
    "a long repr": (
        {"id": "1", "run_type": "tool", "trace_id": "t", "inputs": {"input": "[" * 90_000}, "outputs": {"output": 1}},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_are_read_or_refused(name):
    checked(Opened("hostile.json", b"", HOSTILE[name]))


def test_a_repr_is_read_and_never_run(tmp_path):
    ran = tmp_path / "ran"
    text = f"__import__('pathlib').Path({str(ran)!r}).write_text('x')"
    row = {"id": "1", "run_type": "tool", "trace_id": "t", "name": "t", "outputs": {"output": 1}}
    for written in (text, f"{{'a': {text}}}", f"[{text}]"):
        checked(Opened("repr.json", b"", ({**row, "inputs": {"input": written}},)))
    assert not ran.exists()
