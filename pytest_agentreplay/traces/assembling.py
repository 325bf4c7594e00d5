"""A whole run from its steps: what no record of a tool says, the request that follows it does.

The reply of a model is the authority for what the assistant said; the request after it for what the tools gave and the
user said. A result is joined to its call by id, and where the API has none by name and order. Nothing is invented: a
call of a tool that nobody answered stays without a result, and is named among what is missing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, string, unique
from pytest_agentreplay.traces.chains import arguments, links, parts, tool_calls
from pytest_agentreplay.traces.formats import group_by
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.chains import ChainLink
    from pytest_agentreplay.traces.trace import Fidelity, Step, Trace


def whole(trace: Trace) -> Trace:
    """Return the trace with all that its steps say of each other: results, arguments, input, output, gaps."""
    steps, missing = assemble_steps(trace.steps)
    calls = [step for step in steps if isinstance(step, ModelCall)]
    return replace(
        trace,
        steps=steps,
        input=_input(calls) if trace.input is None else trace.input,
        output=_output(calls) if trace.output is None else trace.output,
        limits=trace.limits or stopped_by(trace.fault),
        losses=(*trace.losses, *unique(loss for call in calls for loss in call.losses), *rewritten(steps)),
        missing=(*trace.missing, *missing),
    )


def assemble_steps(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Return the steps with what each tool was asked and gave as far as any of them says, and what none of them says.

    A call of a tool without a record of its own comes after the reply that asked for it. `steps` are in order.
    """
    calls = [(at, step) for at, step in enumerate(steps) if isinstance(step, ModelCall)]
    steps = [_strip_envelope(step) for step in steps]
    joined = links([call for _, call in calls])
    answers = _Answers([call for _, call in calls], joined)
    records = _Records(steps)
    filled: dict[int, ToolRun] = {}
    unseen: dict[int, list[ToolRun]] = {}
    for number, (at, call) in enumerate(calls):
        for request, answer in zip(tool_calls(call), answers.list_answers(number), strict=True):
            record = records.take(request, after=at)
            if record is not None:
                filled[record] = _fill_answer(_fill_arguments(steps[record], request), answer)
            else:
                unseen.setdefault(at, []).append(_fill_answer(_make_unrecorded_run(call, request), answer))
    assembled: list[Step] = []
    for at, step in enumerate(steps):
        assembled += [filled.get(at, step), *unseen.get(at, ())]
    return tuple(assembled), (*_missing(assembled), *answers.unasked)


def fidelity(steps: Iterable[Step]) -> Fidelity:
    """How near steps are to the wire, whose source has no bytes: the JSON of each model call, or the meaning alone."""
    calls = [step for step in steps if isinstance(step, ModelCall)]
    return "body-json" if calls and all(call.request is not None for call in calls) else "semantic"


def rewritten(steps: Iterable[Step]) -> tuple[str, ...]:
    """Sentences on the calls that resend a history which is not what was said."""
    calls = [step for step in steps if isinstance(step, ModelCall)]
    return tuple(
        f"model call {number} resends another history than what was said before it; both are kept"
        for number, link in enumerate(links(calls), 1)
        if link is not None and link.rewritten
    )


def conversations(calls: Sequence[ModelCall]) -> tuple[tuple[ModelCall, ...], ...]:
    """The calls of a log by run: each goes on from the one before it, in the order in which the runs begin."""
    roots: list[int] = []
    for index, link in enumerate(links(calls)):
        roots.append(index if link is None else roots[link.before])
    runs = group_by(range(len(calls)), roots.__getitem__)
    return tuple(tuple(calls[index] for index in run) for run in runs.values())


_UNASKED = "the tool call {}: its result is in the request of model call {}, and no message asks for it"


class _Answers:
    """What the model was told of each tool call that it asked for."""

    def __init__(self, calls: Sequence[ModelCall], joined: Sequence[ChainLink | None]) -> None:
        self._requests = [tool_calls(call) for call in calls]
        self._responses: dict[tuple[int, int], JsonObject] = {}
        self.unasked: list[str] = []
        """What is missing where a request has the result of a call that no message holds."""
        known_ids = {""}
        for number, (call, link) in enumerate(zip(calls, joined, strict=True)):
            added = [part for _, part in parts(call.messages)] if link is None else link.added
            requests = [part for part in (*added, *self._requests[number]) if part.get("type") == "tool_call"]
            known_ids |= {string(part.get(field)) for part in requests for field in ("id", "name")}
            if link is not None:
                left = self._take(link.before, (part for part in added if part.get("type") == "tool_call_response"))
                self.unasked += [_UNASKED.format(call_id, number + 1) for call_id in left if call_id not in known_ids]

    def list_answers(self, number: int) -> list[JsonObject | None]:
        """Return one answer, or None, for each tool call of the reply to call `number`."""
        return [self._responses.get((number, at)) for at in range(len(self._requests[number]))]

    def _take(self, number: int, responses: Iterable[JsonObject]) -> Iterator[str]:
        """Join the results to the tool calls of a reply, and yield the ids of those that belong to none."""
        for response in responses:
            call_id = string(response.get("id"))
            names = {string(response.get("name")), call_id} - {""}
            free = [at for at in range(len(self._requests[number])) if (number, at) not in self._responses]
            requests = self._requests[number]
            fitting = [at for at in free if call_id and string(requests[at].get("id")) == call_id]
            fitting = fitting or [at for at in free if string(requests[at].get("name")) in names]
            # Without ids the order is all there is: some clients of Gemini answer under a name of their own.
            fitting = fitting or ([] if names and any(requests[at].get("id") for at in free) else free)
            if fitting:
                self._responses[number, fitting[0]] = response
            else:
                yield call_id


class _Records:
    """The records of tools that ran; each belongs to one tool call at most."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._runs = {at: step for at, step in enumerate(steps) if isinstance(step, ToolRun)}
        self._by_id: defaultdict[str, list[int]] = defaultdict(list)
        self._by_name: defaultdict[str, list[int]] = defaultdict(list)
        for at, run in self._runs.items():
            self._by_id[run.call_id].append(at)
            self._by_name[run.name].append(at)

    def take(self, request: JsonObject, *, after: int) -> int | None:
        """Where the record of a tool call stands: by id, else by name and arguments, else by name and order."""
        call_id, name = string(request.get("id")), string(request.get("name"))
        place = next((at for at in self._by_id[call_id] if call_id and at > after), None)
        if place is None:
            same_name = [at for at in self._by_name[name] if at > after and not (call_id and self._runs[at].call_id)]
            requested = canonical(arguments(request))
            equal = (at for at in same_name if canonical(self._runs[at].arguments) == requested)
            place = next(equal, next(iter(same_name), None))
        if place is not None:
            self._by_id[self._runs[place].call_id].remove(place)
            self._by_name[self._runs[place].name].remove(place)
        return place


def _strip_envelope(step: Step) -> Step:
    """Return the step with arguments by name without the envelope that a decorator put around them."""
    if not isinstance(step, ToolRun) or not _is_envelope(step.arguments) or arr(obj(step.arguments).get("args")):
        return step
    return replace(step, arguments=obj(step.arguments)["kwargs"])


def _is_envelope(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() <= {"args", "kwargs"} and isinstance(value.get("kwargs"), dict)


def _fill_arguments(step: Step, request: JsonObject) -> ToolRun:
    assert isinstance(step, ToolRun)
    recorded, requested = step.arguments, arguments(request)
    # A text is what a framework made of the only argument; a replay is asked with names.
    if not isinstance(recorded, dict | list) or _is_envelope(recorded) or _is_envelope(requested):
        recorded = requested
    return replace(step, call_id=step.call_id or string(request.get("id")), arguments=recorded)


def _make_unrecorded_run(call: ModelCall, request: JsonObject) -> ToolRun:
    return ToolRun(
        name=string(request.get("name")),
        call_id=string(request.get("id")),
        arguments=arguments(request),
        executed=False,
        parent=call.parent,
        agent=call.agent,
    )


def _fill_answer(run: ToolRun, answer: JsonObject | None) -> ToolRun:
    """Return the run with the result that the model saw. A result in a request means that the tool ran."""
    if answer is None:
        return run
    seen = parse_text(answer.get("response")) if run.seen == UNKNOWN else run.seen
    fault = run.fault
    if fault is None and answer.get("is_error") is True:
        fault = TraceFault(message=seen if isinstance(seen, str) else canonical(seen))
    return replace(run, seen=seen, fault=fault, executed=True)


def _missing(steps: Iterable[Step]) -> Iterable[str]:
    counted: Counter[str] = Counter()
    for step in steps:
        name = step.name if isinstance(step, ToolRun) else ""
        counted[name] += 1
        if isinstance(step, ToolRun):
            if step.replayable == UNKNOWN and step.fault is None:
                yield f"result of {name}, call {counted[name]}"
        elif not step.messages:
            yield f"messages of model call {counted[name]}"
        elif step.reply is None and step.fault is None:
            yield f"reply of model call {counted[name]}"


def _input(calls: Sequence[ModelCall]) -> Json:
    """What the first call was asked: the text where it is one, else its messages without instructions."""
    if not calls:
        return None
    messages = [message for message in calls[0].messages if message.get("role") != "system"]
    spoken = arr(messages[0].get("parts")) if len(messages) == 1 else []
    if len(spoken) == 1 and (text := objects(spoken)) and text[0].get("type") == "text":
        return text[0].get("content")
    return list(messages) or None


def _output(calls: Sequence[ModelCall]) -> Json:
    """What the last reply says, unless it asks for more."""
    if not calls or tool_calls(calls[-1]):
        return None
    texts = [string(part.get("content")) for _, part in parts([calls[-1].reply or {}]) if part.get("type") == "text"]
    return "\n".join(texts) or None


_GOOD = frozenset({"ok", "success", "succeeded", "completed", "complete", "passed", "finished", "done"})
_BAD = frozenset({"error", "errored", "failed", "failure", "fail", "crashed", "timeout", "timed_out"})
_LIMIT = re.compile(
    r"max(?:imum)?[ _-]?(?:number of )?(?:turn|iteration|iter|step|round|tool[ _-]?call)s?"
    r"|(?:recursion|step|turn|iteration|message|token|time|usage|tool[ _-]?call)s?[ _-]?limit"
    r"|limit[ _-]?(?:was )?(?:exceeded|reached)|limit_?error|graph_?recursion",
    re.IGNORECASE,
)
_OF_PROVIDER = re.compile(
    r"rate[ _-]?limit|quota|too[ _-]?many[ _-]?requests|\b429\b|per[ _-](?:min|hour|day)", re.IGNORECASE
)
_READ = 1000
"""Characters of a message that are looked at."""


def ending(status: Json) -> Literal["ok", "error", ""]:
    """A status as "ok", "error", or "" for any other."""
    word = string(status).strip().lower()
    return "ok" if word in _GOOD else "error" if word in _BAD else ""


def stopped_by(broke: TraceFault | None) -> str:
    """The class, or the words, of an error that says how far an agent may go; "" for any other error.

    What a provider allows in a minute is another thing.
    """
    text = f"{broke.type} {broke.message[:_READ]}" if broke is not None else ""
    if broke is None or _OF_PROVIDER.search(text) or not (match := _LIMIT.search(text)):
        return ""
    return broke.type.rpartition(".")[2] or match[0]
