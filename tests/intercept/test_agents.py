"""Who calls: what a test says itself, in its tasks and threads too, and what a library says that is loaded."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pytest_agentreplay import agent
from pytest_agentreplay.backends.backend import RecordBackend
from pytest_agentreplay.intercept.session import agents, interceptions
from pytest_agentreplay.intercept.session.agents import find_agent
from pytest_agentreplay.model.exchanges import RawCall, ToolCall, ToolReply
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from tests.support.tapes import Tape, running


def test_nobody_is_named_unless_somebody_says_a_name():
    assert find_agent() == ""
    with agent("researcher") as name:
        assert find_agent() == name == "researcher"
        with agent("writer"), agent("researcher"):
            assert find_agent() == "researcher"
        assert find_agent() == "researcher"
    researcher = agent("researcher")
    with researcher, agent("writer"), researcher:
        assert find_agent() == "researcher"
    with agent("the\n  researcher " + "x" * 99):
        assert find_agent() == ("the researcher " + "x" * 99)[:60]
    assert find_agent() == ""


def test_a_function_is_an_agents_own():
    @agent("researcher")
    def plain(text):
        """Looks up."""
        return text, find_agent()

    @agent("writer")
    async def coroutine(text):
        await asyncio.sleep(0)
        return text, find_agent()

    async def both():
        return await asyncio.gather(coroutine("a"), coroutine("b"))

    assert plain("x") == ("x", "researcher")
    assert plain.__doc__ == "Looks up."
    assert asyncio.run(both()) == [("a", "writer"), ("b", "writer")]
    assert asyncio.iscoroutinefunction(coroutine)
    assert find_agent() == ""


def test_tasks_threads_and_jobs_are_of_the_agent_that_began_them():
    found = []

    async def work(name):
        with agent(name):
            await asyncio.sleep(0)
            below = asyncio.create_task(asyncio.to_thread(find_agent))
            await asyncio.sleep(0)
            return find_agent(), await below

    async def both():
        return await asyncio.gather(work("researcher"), work("writer"))

    async def note():
        found.append(find_agent())

    async def nursery():
        async with trio.open_nursery() as nursery:
            with agent("researcher"):
                nursery.start_soon(note)

    assert asyncio.run(both()) == [("researcher", "researcher"), ("writer", "writer")]
    trio.run(nursery)
    with running(Tape()), ThreadPoolExecutor(1) as pool:
        with agent("researcher"):
            thread = threading.Thread(target=lambda: found.append(find_agent()))
            thread.start()
            thread.join()
            found.append(pool.submit(find_agent).result())
        found.append(pool.submit(find_agent).result())
    assert found == ["researcher"] * 3 + [""]


def test_the_open_span_may_say_the_name(monkeypatch):
    tracer = TracerProvider().get_tracer("t")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.agent.name": "researcher"}):
        assert find_agent() == "researcher"
        with agent("writer"):
            assert find_agent() == "writer", "who says it by hand is right"
    with tracer.start_as_current_span("other"):
        assert find_agent() == ""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    with trace.use_span(tracer.start_span("x", attributes={"gen_ai.agent.name": "researcher"})):
        assert find_agent() == "", "a library that is not loaded is not asked"


def test_a_library_that_has_changed_names_nobody(monkeypatch):
    for module, _ in agents._FRAMEWORKS:
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        assert find_agent() == "", module
        monkeypatch.delitem(sys.modules, module)


class Config(ModuleType):
    """LangChain's variable, as far as a name is read from it."""

    def __init__(self, **metadata):
        super().__init__("config")
        self.var_child_runnable_config = self
        self.metadata = metadata

    def get(self):
        return {"metadata": self.metadata}


PLACES = [
    ({"langgraph_node": "research", "langgraph_checkpoint_ns": "research:1-2"}, "research"),
    ({"langgraph_node": "research"}, "research"),
    ({"langgraph_node": "model", "langgraph_checkpoint_ns": "model:1-2"}, ""),
    ({"langgraph_node": "model", "langgraph_checkpoint_ns": "researcher:1-2|model:3-4"}, "researcher"),
    ({"langgraph_node": "x", "langgraph_checkpoint_ns": "team:1|researcher:1-2|1|model:3"}, "team/researcher"),
    ({"langgraph_node": "model", "lc_agent_name": "scout", "langgraph_checkpoint_ns": "a:1|model:2"}, "scout"),
    ({"user": "u-1"}, ""),
    ({}, ""),
]


def test_the_places_of_a_graph(monkeypatch):
    for metadata, name in PLACES:
        monkeypatch.setitem(sys.modules, "langchain_core.runnables.config", Config(**metadata))
        assert find_agent() == name, metadata


def test_the_crossing_keeps_the_name_without_its_secrets():
    redaction = Redaction(Places({}))
    redaction.learn("secret", "hunter2-hunter2")
    backend = RecordBackend()
    interception = interceptions.Interception(backend, redaction)
    for name in ("researcher", "researcher", "of hunter2-hunter2", ""):
        with agent(name):
            interception.enter(RawCall(ToolCall("look"))).settle(ToolReply("x"))
    first, second, third, last = [x.agent for x in backend.list_exchanges()]
    assert (first, second, last) == ("researcher", "researcher", "")
    assert third.startswith("of ")
    assert "hunter2" not in third
