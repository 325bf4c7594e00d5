"""The nouns of an imported trace, whatever wrote it: what was asked of the model and of the tools, and what came back.

Names are those of the OTel GenAI conventions. Messages are in the form of `providers.messages`. What a source does not
hold stays empty and is told in `losses`; nothing is invented.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Failure, HttpCall, HttpReply, Json, JsonObject

Fidelity: TypeAlias = Literal["bytes", "body-json", "semantic"]
"""How near a trace is to what was on the wire: the bytes, JSON that says the same, or the meaning alone."""

UNKNOWN = "\0unknown"
"""The result of a tool that nobody kept: its fixture is missing, and a case that needs it is cold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a trace comes from: format and its version, the file as shown, the run's own id there."""

    format: str
    version: str = ""
    file: str = ""
    id: str = ""
    fidelity: Fidelity = "semantic"


@dataclass(frozen=True, slots=True)
class TraceFault:
    """An error as the source tells it: class name or kind, message, traceback; any of them may be empty."""

    type: str = ""
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model.

    `messages` (instructions included, as the role "system") and `reply` (None where none came) are in the form of
    `providers.messages`, `tools` its tool definitions; `parameters` are all other fields of the request under the names
    of its API. `dialect` is the API that was spoken, by its name in `providers` ("" unknown). `finish_reasons` and
    `usage` are as the dialect reads them (`model.reading.ReplyReading`). `request` and `response` are what was on the
    wire, where the source holds the bytes or the whole JSON of them; `status` is that of HTTP, 0 unknown. Times are
    nanoseconds since the epoch, None unknown. `losses` are sentences for people: what of it could not be read.
    """

    provider: str = ""
    dialect: str = ""
    operation: str = "chat"
    model: str = ""
    parameters: JsonObject = field(default_factory=dict)
    messages: tuple[JsonObject, ...] = ()
    tools: tuple[JsonObject, ...] = ()
    reply: JsonObject | None = None
    response_model: str = ""
    response_id: str = ""
    fingerprint: str = ""
    finish_reasons: tuple[str, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    fault: TraceFault | None = None
    status: int = 0
    stream: bool = False
    request: HttpCall | None = None
    response: HttpReply | Failure | None = None
    started: int | None = None
    ended: int | None = None
    id: str = ""
    parent: str = ""
    agent: str = ""
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """One execution of a tool, or a request for one of which no execution is known (`executed` False).

    `call_id` is the id by which the model asked for it. `seen` is what the model was told of the result, `result`
    what the tool's own record says; UNKNOWN where there is none. `fault` is the exception.
    """

    name: str
    call_id: str = ""
    arguments: Json = None
    seen: Json = UNKNOWN
    result: Json = UNKNOWN
    fault: TraceFault | None = None
    executed: bool = True
    started: int | None = None
    ended: int | None = None
    id: str = ""
    parent: str = ""
    agent: str = ""

    @property
    def replayable(self) -> Json:
        """What a replay returns; UNKNOWN where nobody knows."""
        return self.seen if self.seen != UNKNOWN else self.result


Step: TypeAlias = ModelCall | ToolRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One run of an agent as another tool kept it.

    `status` is the root's own word as "ok", "error" or "" (unknown); an ok root does not mean success: `faults`
    are those of steps and root alike. `input` and `output` are what went into the agent and came out of it, None
    unknown. `steps` are in order of their start. `losses` are sentences for people: what this source does not hold.
    `missing` names what a replay needs and the trace lacks ("result of lookup_order, call 2"). `limits` is the error
    class or word by which the agent was stopped, "" when it was not. `grades` are verdicts of the source on the run
    ("accuracy": "I").
    """

    source: Source
    id: str = ""
    name: str = ""
    status: Literal["ok", "error", ""] = ""
    started: int | None = None
    ended: int | None = None
    user: str = ""
    session: str = ""
    tenant: str = ""
    tags: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    input: Json = None
    output: Json = None
    fault: TraceFault | None = None
    limits: str = ""
    grades: JsonObject = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    losses: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def model_calls(self) -> tuple[ModelCall, ...]:
        """The calls of models."""
        return tuple(step for step in self.steps if isinstance(step, ModelCall))

    @property
    def tool_runs(self) -> tuple[ToolRun, ...]:
        """The executions of tools, and the requests for those that nobody saw run."""
        return tuple(step for step in self.steps if isinstance(step, ToolRun))

    @property
    def faults(self) -> tuple[TraceFault, ...]:
        """Every error in the run, in order, the root's last."""
        faults = [step.fault for step in self.steps if step.fault is not None]
        return (*faults, self.fault) if self.fault is not None else tuple(faults)
