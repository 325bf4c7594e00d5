"""Results of waza: graded runs with the calls of tools that an agent made, and no request to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import obj, objects, string
from pytest_agentreplay.interchange.assembling import whole
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs.pairs import known
from pytest_agentreplay.interchange.logs.tool_events import tool_runs
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import UNKNOWN, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.formats import Opened


def _results(opened: Opened) -> JsonObject:
    return obj(opened.rows[0]) if len(opened.rows) == 1 else {}


def _fits(opened: Opened) -> bool:
    found = _results(opened)
    return "eval_id" in found and isinstance(found.get("tasks"), list) and isinstance(found.get("summary"), dict)


def _read(opened: Opened) -> list[Trace]:
    results = _results(opened)
    return [
        _trace(opened, results, task, run, number)
        for task in objects(results.get("tasks"))
        for number, run in enumerate(objects(task.get("runs")), 1)
    ]


def _trace(opened: Opened, results: JsonObject, task: JsonObject, run: JsonObject, number: int) -> Trace:
    name, digest = known(task, "test_id", "display_name"), obj(run.get("session_digest"))
    here = f"{known(results, 'eval_id')}/{name}/{run.get('run_number', number)}"
    said = string(run.get("error_msg"))
    steps = tool_runs(objects(run.get("transcript"))) or [_tool(one) for one in objects(run.get("tool_events"))]
    counted = digest.get("tool_call_count")
    untold = counted - len(steps) if isinstance(counted, int) else 0
    missing = ["requests to the model, and its replies"]
    missing += [f"{untold} calls of tools that the transcript does not tell"] if untold > 0 else []
    broke = TraceFault(message=said) if said else None
    return whole(
        Trace(
            source=Source(format="waza", file=opened.file, id=here),
            id=here,
            name=name,
            status="error" if said or run.get("status") == "error" else "ok" if run.get("status") == "passed" else "",
            started=moment(results.get("timestamp")),
            session=string(digest.get("session_id")),
            tags=tuple(filter(None, (string(task.get("group")),))),
            metadata={
                "skill": results.get("skill"),
                "model": obj(results.get("config")).get("model_id"),
                "task": task.get("display_name"),
                "duration_ms": run.get("duration_ms"),
            },
            output=run.get("final_output") or None,
            fault=broke,
            grades=_grades(run),
            steps=tuple(steps),
            losses=("calls of tools only: waza keeps no request to a model", "no times of single calls"),
            missing=tuple(missing),
        )
    )


def _tool(event: JsonObject) -> ToolRun:
    """An execution as newer results list it."""
    failed = event.get("success") is False
    return ToolRun(
        name=string(event.get("tool_name")),
        call_id=string(event.get("tool_call_id")),
        arguments=event.get("args"),
        seen=genai.parsed(event["result"]) if "result" in event else UNKNOWN,
        fault=TraceFault(message=string(event.get("error")) or string(event.get("result"))) if failed else None,
    )


def _grades(run: JsonObject) -> JsonObject:
    """The run's own verdict, and the score of each check."""
    checks = obj(run.get("validations"))
    return {"status": run.get("status")} | {name: obj(check).get("score") for name, check in checks.items()}


FORMATS = (Format("waza", "results of waza", 22, _fits, _read),)
