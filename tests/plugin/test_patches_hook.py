"""A framework that this package does not know is patched by a plugin through the hook `pytest_agentreplay_patches`."""

import pytest

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
    project.write(
        toykit__tools=FRAMEWORK, toykit_frozen__patch_module=PATCH, toykit_frozen__plugin=PLUGIN, test_shop=TESTS
    )
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    return project


@pytest.mark.parametrize("by", ["plugin", "conftest", "former names"])
def test_a_framework_is_patched_by_another_package(shop, by):
    if by == "former names":
        shop.write(
            conftest=PLUGIN.replace("_patches", "_seams"),
            toykit_frozen__patch_module=PATCH.replace("def patch(", "def meet("),
        )
    elif by == "plugin":
        (shop.root / "conftest.py").write_text('pytest_plugins = ["toykit_frozen.plugin"]\n', encoding="utf-8")
    else:
        shop.write(conftest=PLUGIN)
    recorded = shop.record()
    assert recorded.returncode == 0, recorded.stdout
    assert "   replays" in recorded.stdout
    assert shop.ledger == ["A-1", "Z-0", "A-2"]
    calls = [x.call for x in shop.snapshots[0].run.exchanges]
    assert [(call.name, call.arguments) for call in calls] == [
        ("lookup_order", {"order_id": "A-1", "urgent": False}),
        ("lookup_order", {"order_id": "Z-0", "urgent": False}),
        ("lookup_order", {"order_id": "A-2"}),
    ]
    assert shop.offline().returncode == 0


@pytest.mark.parametrize("hook", ["pytest_agentreplay_patches", "pytest_agentreplay_seams"])
def test_a_table_that_is_none_fails_the_test_and_says_so(shop, hook):
    shop.write(conftest=f"def {hook}():\n    return {{'toykit.tools': len}}\n")
    done = shop.record()
    assert done.returncode == 1
    assert f"{hook} returns a dict of two import paths" in done.stdout
    assert "Traceback" not in done.stdout


def test_without_the_hook_the_framework_is_not_patched(shop):
    done = shop.record()
    assert done.returncode == 1, "no call crossed"
    assert shop.ledger == ["A-1", "Z-0", "A-2"]
