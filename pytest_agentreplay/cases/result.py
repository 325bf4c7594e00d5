"""What the runner of another process writes of its run: `result.schema.json`, read and checked.

The names are those of that contract (`run_id`, `status`, `final_output`, `tool_calls`, `errors`); what else a runner
writes is left alone. Whatever is invalid is one RunnerError that names the place.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Annotated, Any

from pytest_agentreplay.cases.evidence import CaseEvidence
from pytest_agentreplay.cases.turn import ToolCallView
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.snapshots.codec import parsing

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pytest_agentreplay.model.exchanges import Json, Run

SCHEMA = "result.schema.json"
LARGEST = 16 << 20
GOOD = ("ok", "success", "succeeded", "completed", "passed")
BAD = ("error", "failed", "failure", "timeout")
TOLD = {"final_output": "output", "tool_calls": "tool_calls"}
"""What a result may leave out, and what nobody knows of the run then."""
EXAMPLE = '{"status": "ok", "final_output": "..."}'


@functools.cache
def model() -> type[BaseModel]:
    """Return the model of a result."""
    from pydantic import AliasChoices, BaseModel, ConfigDict, Field
    from pydantic import JsonValue as Anything

    loose = ConfigDict(extra="allow", strict=True, frozen=True)
    # Types, by whose names pydantic finds them in the annotations below.
    how = Annotated[str, Field(pattern=f"^({'|'.join((*GOOD, *BAD))})$")]

    class ToolUse(BaseModel):
        """A tool call that the agent made."""

        model_config = loose
        name: str = Field(validation_alias=AliasChoices("name", "tool_name", "tool"))
        arguments: dict[str, Anything] = Field(
            default_factory=dict, validation_alias=AliasChoices("arguments", "tool_args", "args", "input")
        )
        result: Anything = Field(None, validation_alias=AliasChoices("result", "output"))
        error: str | None = None

    class Fault(BaseModel):
        """What went wrong."""

        model_config = loose
        type: str = Field("", validation_alias=AliasChoices("type", "class"))
        message: str = Field("", validation_alias=AliasChoices("message", "text", "error"))

    class Result(BaseModel):
        """What a runner of another process tells of its run."""

        model_config = loose | ConfigDict(title="result of a case's runner")
        run_id: str | None = Field(None, description="the run's own id, wherever it is known")
        status: how = Field(description=f"{', '.join(GOOD)}; or {', '.join(BAD)}")
        final_output: Anything = Field(None, description="what came out of the agent; null for nothing")
        tool_calls: list[ToolUse] = Field([], max_length=10_000, description="the tool calls that it made, in order")
        errors: list[str | Fault] = Field([], max_length=10_000, description="what went wrong: text, or type and text")

    return Result


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a result, as it is shipped."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model().model_json_schema()}


def parse_result(data: bytes, *, file: str) -> dict[str, Any]:
    """Return the JSON object in `data`. Raises RunnerError for all else."""
    if len(data) > LARGEST:
        raise RunnerError(f"{file}: the runner wrote more than {LARGEST:,} bytes as its result")
    if not data.strip():
        raise RunnerError(f"{file}: the runner wrote an empty file; its result looks like {EXAMPLE}")
    try:
        text = data.decode("utf-8-sig")
        if why := parsing.explain_excess(text.encode()):
            raise RunnerError(f"{file}: the runner's result is too much to be read: {why}")
        result = json.loads(text)
    except UnicodeDecodeError as wrong:
        raise RunnerError(f"{file}: offset {wrong.start}: the runner's result is not UTF-8") from None
    except json.JSONDecodeError as wrong:
        message = f"the runner wrote no JSON ({wrong.msg}); its result looks like {EXAMPLE}"
        raise RunnerError(f"{file}:{wrong.lineno}:{wrong.colno}: {message}") from None
    except (ValueError, RecursionError):
        raise RunnerError(f"{file}: the runner's result is no JSON that can be read") from None
    if not isinstance(result, dict):
        raise RunnerError(f"{file}: $: the runner wrote no JSON object; its result looks like {EXAMPLE}")
    return result


def read_result(fields: dict[str, Any], *, file: str, run: Run | None = None, **more: Any) -> CaseEvidence:
    """Return a result as evidence; `run` is what the gateway was asked for. Raises RunnerError with the place in it."""
    from pydantic import ValidationError

    try:
        result: Any = model().model_validate(fields)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        raise RunnerError(f"{file}: {place(first['loc'])}: {said_of(first)}") from None
    faults = tuple(("", error) if isinstance(error, str) else (error.type, error.message) for error in result.errors)
    return CaseEvidence(
        status="ok" if result.status in GOOD else "error",
        output=result.final_output,
        run=run,
        tool_calls=tuple(
            ToolCallView(
                call.name,
                dict(call.arguments),
                call.result if call.error is None else call.error,
                call.error is not None,
            )
            for call in result.tool_calls
        ),
        errors=faults,
        unknown=frozenset(name for key, name in TOLD.items() if key not in fields),
        **more,
    )


def place(path: tuple[int | str, ...]) -> str:
    """Return a place in the result as a JSON path."""
    parts = [part for part in path if isinstance(part, int) or part not in {"str", "Fault"}]
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def said_of(wrong: Any) -> str:
    """Return what pydantic has found, in our words where they are plainer."""
    words: dict[str, Json] = {
        "missing": "is missing in the runner's result",
        "string_type": "is text in the runner's result",
        "list_type": "is a list in the runner's result",
        "dict_type": "is an object in the runner's result",
        "model_type": "is an object in the runner's result",
        "string_pattern_mismatch": f"is one of {', '.join((*GOOD, *BAD))} in the runner's result",
        "too_long": "has too many items in the runner's result",
    }
    return str(words.get(wrong["type"], wrong["msg"]))
