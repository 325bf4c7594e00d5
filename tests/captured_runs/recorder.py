"""A small recorder of runs outside pytest, with the names of `pytest_agentreplay.capture`: it redacts and writes at once."""

import contextlib
import importlib
import os
import time
from datetime import UTC, datetime

from pytest_agentreplay.core.backends.backend import RecordBackend
from pytest_agentreplay.core.model import BY_CONTENT, Header, Run, ToolCall
from pytest_agentreplay.core.renumber import thinned
from pytest_agentreplay.dialects.rules import is_declared
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.session import interceptions, lanes, thread_starts
from pytest_agentreplay.intercept.tools.tool import Tool, redirect
from pytest_agentreplay.redact.final_scan import checked
from pytest_agentreplay.redact.redaction_factory import redaction_for
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.store.run_store import RunStore


class Noted(dict):
    """What the code of a run says of it."""

    def output(self, value):
        self["output"] = value


def start(store, *, keep, tools):
    global STORE, PATHS
    del keep
    STORE, PATHS = RunStore(store), {}
    registry.install()
    thread_starts.stamp_threads()
    for line in tools:
        path, _, effects = line.partition(" = ")
        module, _, name = path.rpartition(".")
        PATHS[name] = path
        redirect(Tool(name, getattr(importlib.import_module(module), name), effects or "write"))


def stop():
    pass


@contextlib.contextmanager
def run(name, *, id, input):
    began, recorder, noted, failure = time.time_ns(), RecordBackend(), Noted(), None
    redaction = redaction_for(os.environ, {}, is_declared=is_declared)
    interception = interceptions.Interception(recorder, redaction, root=os.getcwd(), count=recorder.count)
    token = lanes.CALL_CONTEXT.set(interception.main())
    try:
        yield noted
    except Exception as error:
        failure = error
        raise
    finally:
        lanes.CALL_CONTEXT.reset(token)
        interception.end()
        exchanges, _ = thinned(recorder.list_exchanges())
        models = replay_kit.describe_models(exchanges)
        tools = [x.call.name for x in exchanges if isinstance(x.call, ToolCall)]
        outcome = {"status": "passed"}
        if failure is not None:
            outcome = {"status": "failed", "type": type(failure).__qualname__, "message": str(failure)}
        facts = {"id": id, "name": name, "reason": "all", "models": [model["model"] for model in models]}
        facts |= {"tools": tools, "calls": len(exchanges), "turns": len(exchanges) - len(tools), "length": 900}
        kit = {"capture": facts, "input": input, **noted, "clock": {"mode": "real"}, "arguments": BY_CONTENT}
        kit["functions"] = {tool: PATHS[tool] for tool in sorted({*tools})}
        recorded = datetime.fromtimestamp(began / 1e9, UTC).isoformat(timespec="seconds")
        header = Header(f"{name}/{id}", recorded, began, seed=0, outcome=outcome, kit=kit)
        text = checked(redaction, Run(header, exchanges), id)
        STORE.write(name, recorded[:10], id, text.encode())
