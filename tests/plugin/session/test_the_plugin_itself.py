"""What the plugin leaves in memory, and how another package patches a framework that it does not know."""

import json

import pytest

from tests.support.exhaustive import rare
from tests.support.small_projects import furnished, passed, recorded

ASKS = """
import httpx2, os
import pytest

@pytest.mark.parametrize("number", range(int(os.environ.get("TESTS", "1"))))
def test_answer(agentreplay, number):
    reply = httpx2.post(
        os.environ["MODEL_URL"] + "/v1/chat/completions",
        json={"model": "m-1", "messages": [{"role": "user", "content": f"hello {number}"}]},
    )
    assert reply.json()["choices"][0]["message"]["content"] == "fine"
"""

LOOKS = """
import collections, gc, json, pathlib
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    gc.collect()
    kinds = (type(value) for value in gc.get_objects())
    objects = collections.Counter(
        f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if kind.__module__.startswith("pytest_agentreplay")
    )
    pathlib.Path(__file__).with_name("found.json").write_text(json.dumps(objects), encoding="utf-8")
"""

FEW, MANY = 4, 24
CACHED = {
    "pytest_agentreplay.redaction.encodings.EncodedForm",
    "pytest_agentreplay.report.summary.SessionSummary",
    "pytest_agentreplay.report.summary.RecordingSummary",
    "pytest_agentreplay.report.summary.ReplaySummary",
}
"""Kept for the last 128 secrets, whichever tests they are of; and for the footer, until the session ends."""


@pytest.fixture(scope="module")
def asking(shared_project):
    return furnished(shared_project(lambda body, number: "fine"), test_answer=ASKS, conftest=LOOKS)


def test_tests_that_have_ended_leave_none_of_our_objects(asking):
    for run in (asking.record, asking.replay):
        left = []
        for tests in (MANY, FEW):
            passed(run(TESTS=str(tests)))
            left.append(json.loads((asking.root / "found.json").read_text(encoding="utf-8")))
        many, few = left
        more = {name: count - few.get(name, 0) for name, count in many.items() if name not in CACHED}
        assert not {name: count for name, count in more.items() if count >= MANY - FEW}, run.__name__


# The hook `pytest_agentreplay_patches`.

FRAMEWORK = '''
class Tool:
    """A tool of the framework: its own handling of errors around the function."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def invoke(self, arguments, context):
        try:
            return {"content": self.function(**arguments)}
        except LookupError as error:
            return {"error": str(error)}

    async def ainvoke(self, arguments, context):
        try:
            return {"content": await self.function(**arguments)}
        except LookupError as error:
            return {"error": str(error)}
'''

PATCH = """
from pytest_agentreplay import plugins

def patch(library):
    plugins.wrap(library.Tool, "invoke", invoke)
    plugins.wrap(library.Tool, "ainvoke", invoke)

def invoke(interception, original, tool, arguments, context):
    framework_tool = plugins.FrameworkTool(tool.name, tool.function)
    function = plugins.intercept_tool(interception, framework_tool, tool.function)
    return original(plugins.copy_tool(tool, function=function), arguments, context)
"""

PLUGIN = """
def pytest_agentreplay_patches():
    return {"toykit.tools": "toykit_frozen.patch_module"}
"""

TESTS = """
import asyncio, pathlib, sys
import pytest
from toykit.tools import Tool

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

def lookup(order_id, urgent=False):
    note(order_id)
    if order_id == "Z-0":
        raise LookupError("no such order: Z-0")
    return f"order {order_id} is late"

async def later(order_id):
    return lookup(order_id)

LOOKUP, LATER = Tool("lookup_order", lookup), Tool("lookup_order", later)

def test_tool(agentreplay):
    assert LOOKUP.invoke({"order_id": "A-1"}, object()) == {"content": "order A-1 is late"}
    assert LOOKUP.invoke({"order_id": "Z-0"}, object()) == {"error": "no such order: Z-0"}
    assert asyncio.run(LATER.ainvoke({"order_id": "A-2"}, object())) == {"content": "order A-2 is late"}
    agentreplay.run.assert_tool_calls(["lookup_order"] * 3)
"""


@pytest.fixture
def shop(project):
    files = {"toykit__tools": FRAMEWORK, "toykit_frozen__patch_module": PATCH, "toykit_frozen__plugin": PLUGIN}
    return furnished(project, test_shop=TESTS, **files)


BY = {
    "plugin": {"conftest": 'pytest_plugins = ["toykit_frozen.plugin"]\n'},
    "conftest": {"conftest": PLUGIN},
}


@pytest.mark.parametrize("by", ["plugin", *rare("conftest")])
def test_a_framework_is_patched_by_another_package(shop, by):
    shop.write(**BY[by])
    recorded(shop)
    assert shop.ledger == ["A-1", "Z-0", "A-2"]
    calls = [x.call for x in shop.snapshots[0].run.exchanges]
    assert [(call.name, call.arguments) for call in calls] == [
        ("lookup_order", {"order_id": "A-1", "urgent": False}),
        ("lookup_order", {"order_id": "Z-0", "urgent": False}),
        ("lookup_order", {"order_id": "A-2"}),
    ]
    passed(shop.offline())


def test_without_the_hook_the_framework_is_not_patched_and_a_table_that_is_none_fails_the_test(shop):
    assert shop.record().returncode == 1, "no call crossed"
    assert shop.ledger == ["A-1", "Z-0", "A-2"]
    shop.write(conftest="def pytest_agentreplay_patches():\n    return {'toykit.tools': len}\n")
    done = shop.record()
    assert done.returncode == 1
    assert "pytest_agentreplay_patches returns a dict of two import paths" in done.stdout
    assert "Traceback" not in done.stdout
    shop.write(conftest="def pytest_agentreplay_patches():\n    return {'json': 'no_such_patch'}\n")
    done = shop.record()
    problem = "pytest_agentreplay_patches names a patch that fails: {'json': 'no_such_patch'}: ModuleNotFoundError"
    assert f"\n{problem}" in done.stdout
    assert "KeyError" not in done.stdout, "the teardown has nothing to add"
