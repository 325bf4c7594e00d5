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
    """Where a trace comes from.

    Attributes:
        format: The name of the format.
        version: That of the format, where the file says it.
        file: The name of the file as shown; filled in where it is empty.
        id: The run's own id there.
        fidelity: How near the trace is to what was on the wire.
    """

    format: str
    version: str = ""
    file: str = ""
    id: str = ""
    fidelity: Fidelity = "semantic"


@dataclass(frozen=True, slots=True)
class TraceFault:
    """An error as the source tells it; any field may be empty.

    Attributes:
        type: The name of the class, or a kind.
        message: The text.
        traceback: The text of the traceback.
    """

    type: str = ""
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model. What is empty is unknown.

    Attributes:
        provider: The provider, by its OTel GenAI name ("openai").
        dialect: The API that was spoken, by its name in the table of model APIs.
        operation: The OTel GenAI operation: "chat", "embeddings" and so on.
        model: The model that was asked for.
        parameters: All other fields of the request, under the names of its API.
        messages: The messages in the form of the OTel GenAI conventions, instructions included, as the role "system".
        tools: The tool definitions, in that form.
        reply: The answer as a message in that form; None where none came.
        response_model: The model that answered.
        response_id: The id of the response.
        fingerprint: The provider's `system_fingerprint`.
        finish_reasons: Why the model stopped, in the words of its API.
        usage: Numbers of tokens, by their OTel GenAI name without `gen_ai.usage.` ("input_tokens").
        fault: The error that came instead of an answer.
        status: The status of HTTP; 0 unknown.
        stream: Whether the answer was streamed.
        request: What was on the wire, where the source holds the bytes or the whole JSON.
        response: What came back, likewise.
        started: When the call began, in nanoseconds since the epoch; None unknown.
        ended: When it ended, likewise.
        id: The id of the step in the source.
        parent: The id of the step around it.
        agent: The name of the agent that made the call.
        losses: Sentences for people: what of the call could not be read.
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
    """One execution of a tool, or a request for one of which no execution is known.

    Attributes:
        name: The name that the model knows.
        call_id: The id by which the model asked for it.
        arguments: What the model gave, as JSON.
        seen: What the model was told of the result; UNKNOWN where nobody knows.
        result: What the tool's own record says of it, likewise.
        fault: The exception.
        executed: Whether an execution is known.
        started: When it began, in nanoseconds since the epoch; None unknown.
        ended: When it ended, likewise.
        id: The id of the step in the source.
        parent: The id of the step around it.
        agent: The name of the agent that called the tool.
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

    Attributes:
        source: Where it comes from.
        id: The id of the trace.
        name: The name of the run.
        status: The root's own word: "ok", "error" or "" (unknown). An ok root does not mean success: `faults` are those
            of steps and root alike.
        started: When the run began, in nanoseconds since the epoch; None unknown.
        ended: When it ended, likewise.
        user: The user.
        session: The session or conversation.
        tenant: The tenant.
        tags: The tags.
        metadata: What else the source keeps of the run.
        input: What went into the agent; None unknown.
        output: What came out of it; None unknown.
        fault: The error that ended the run.
        limits: The error class or word by which the agent was stopped; "" when it was not.
        grades: Verdicts of the source on the run, such as `{"accuracy": "I"}`.
        steps: The calls and executions, in order of their start.
        losses: Sentences for people: what this source does not hold.
        missing: What a replay needs and the trace lacks ("result of lookup_order, call 2").
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
