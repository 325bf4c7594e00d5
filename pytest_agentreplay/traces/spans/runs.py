"""Runs out of spans: grouped by trace id over all that was given, in order of their start, each read by its family.

Most instrumentations leave out of their spans what was said unless they are told: an error names the setting that
brings it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.providers.lenient import unique
from pytest_agentreplay.traces.assembling import conversations, fidelity, whole
from pytest_agentreplay.traces.chains import merge_duplicates
from pytest_agentreplay.traces.formats import group_by
from pytest_agentreplay.traces.spans import content
from pytest_agentreplay.traces.spans.attributes import read_subject, text
from pytest_agentreplay.traces.spans.content import join_events, translate_names
from pytest_agentreplay.traces.spans.genai import GENAI, LANGFUSE, OPENLLMETRY
from pytest_agentreplay.traces.spans.openinference import OPENINFERENCE
from pytest_agentreplay.traces.spans.span import merge_exports
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.traces.spans.span import Family, Kind, Span, SpanEvent
    from pytest_agentreplay.traces.trace import Step

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_HIDDEN = ("INPUTS", "OUTPUTS", "INPUT_MESSAGES", "OUTPUT_MESSAGES")

_SETTINGS: tuple[tuple[str, str], ...] = (
    (
        r"opentelemetry\.instrumentation\.(?:openai_v2|vertexai|google_genai)$|@opentelemetry/instrumentation-openai",
        f"with {_CAPTURE}=true, and give the log records (gen_ai.* events) together with the spans",
    ),
    (r"opentelemetry\.instrumentation\.(?!genai\.)[\w.]+|traceloop\.tracer", "with TRACELOOP_TRACE_CONTENT=true"),
    (r"openinference\.", f"with {', '.join(f'OPENINFERENCE_HIDE_{name}=false' for name in _HIDDEN)}"),
    (r"langfuse", "without `mask`, and with LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true"),
    (r"pydantic[-_.]ai", "with InstrumentationSettings(include_content=True)"),
    (r"ai$", "with experimental_telemetry: { isEnabled: true, recordInputs: true, recordOutputs: true }"),
    (r"(?:Experimental\.)?Microsoft\.(?:Extensions|Agents)\.AI", "with EnableSensitiveData = true"),
    (r"org\.springframework|spring", "with log-prompt=true and log-completion=true under spring.ai.chat.observations"),
    (r"haystack", "with HAYSTACK_CONTENT_TRACING_ENABLED=true"),
    (r"litellm", "with litellm.turn_off_message_logging = False"),
    (r"agent_framework", "with ENABLE_SENSITIVE_DATA=true"),
    (r"gcp\.vertex\.agent", "with ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true"),
    (r"azure\.ai\.|azure\.", "with AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"),
    (r"semantic_kernel", "with SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true"),
)
_ELSE = (
    f"with {_CAPTURE}=span_only and OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental, or, where it "
    "was event_only, give the log records together with the spans"
)


def _advice(spans: Iterable[Span]) -> str:
    """What to set so that spans like these hold messages, by the library that made them."""
    scopes = [span.scope for span in spans]
    how = next((how for scope in scopes for pattern, how in _SETTINGS if re.match(pattern, scope)), _ELSE)
    return f"record again {how}"


FAMILIES = (LANGFUSE, OPENINFERENCE, OPENLLMETRY, GENAI)
"""In the order in which a span is asked whose it is: the one that holds more comes first."""

_NAMES = ("gen_ai.agent.name", "gen_ai.workflow.name", "traceloop.entity.name", "agent.name")


def runs(spans: Iterable[Span], events: Iterable[SpanEvent], *, called: str, file: str) -> list[Trace]:
    """Every run of an agent in the spans. Spans of other work are left out; TraceIncomplete where nothing was said."""
    translated = (replace(span, attributes=translate_names(span.attributes)) for span in join_events(spans, events))
    trees = [_SpanTree(group) for group in group_by(translated, lambda span: span.trace).values()]
    trees = [tree for tree in trees if tree.steps]
    if not trees:
        raise TraceError("holds no model call and no tool: none of its spans is of an agent", file=file)
    filled = [tree for tree in trees if tree.has_content]
    if not filled:
        raise TraceIncomplete(f"its spans hold no messages: {_advice(trees[0].modelling)}", file=file)
    traces = [tree.trace(called) for tree in filled if not tree.is_single_call] + _chain_runs(
        [tree for tree in filled if tree.is_single_call], called
    )
    if len(filled) < len(trees):
        lost = f"{len(trees) - len(filled)} further runs in the file hold no messages"
        traces[0] = replace(traces[0], losses=(*traces[0].losses, lost))
    return sorted(traces, key=lambda trace: trace.started or 0)


class _SpanTree:
    """The spans of one trace, with what each of them is."""

    def __init__(self, spans: Sequence[Span]) -> None:
        by_id: dict[str, Span] = {}
        for span in spans:
            by_id[span.id] = merge_exports(by_id[span.id], span) if span.id in by_id else span
        # Of two that began at once the longer is outside; what two clocks make one is put in order with the steps.
        self.spans = sorted(by_id.values(), key=lambda span: (span.started or 0, -(span.ended or 0)))
        self._by_id = {span.id: span for span in self.spans}
        self._kinds: dict[str, tuple[Family | None, Kind]] = {
            span.id: next(((family, kind) for family in FAMILIES if (kind := family.kind(span))), (None, ""))
            for span in self.spans
        }
        self._agents = self._nearest({"agent"})
        self.steps, self._merged = self._steps()
        self.modelling = [span for span in self.spans if self._kinds[span.id][1] == "model"] or self.spans

    @property
    def has_content(self) -> bool:
        """Whether any content of messages or tools was captured."""
        calls = [step for step in self.steps if isinstance(step, ModelCall)]
        if calls:
            return any(call.messages or (call.reply and call.reply["parts"]) for call in calls)
        return any(
            step.arguments is not None or step.result != UNKNOWN for step in self.steps if isinstance(step, ToolRun)
        )

    @property
    def is_single_call(self) -> bool:
        """Whether it is a model call alone: nothing was built around the calls, so each of them is a trace."""
        return len(self.spans) == 1 and isinstance(self.steps[0], ModelCall)

    def trace(self, called: str) -> Trace:
        """The run."""
        roots = [span for span in self.spans if span.parent not in self._by_id]
        agents = [span for kind in ("agent", "chain") for span in self.spans if self._kinds[span.id][1] == kind]
        root = next((span for span in roots if span in agents), roots[0]) if roots else self.spans[0]
        run_input, run_output = self._ends(root, agents)
        first = self.modelling[0]
        return whole(
            Trace(
                source=Source(
                    format=called,
                    version=f"{first.scope} {first.version}".strip(),
                    id=root.trace,
                    fidelity=fidelity(self.steps),
                ),
                id=root.trace or root.id,
                name=_name_span(root if root in agents or not agents else agents[0]),
                status=_status(root),
                started=min((span.started for span in self.spans if span.started), default=None),
                ended=max((span.ended for span in self.spans if span.ended), default=None),
                input=run_input,
                output=run_output,
                fault=root.fault if self._kinds[root.id][1] not in {"model", "tool"} else None,
                steps=tuple(self.steps),
                losses=self._losses(),
                **read_subject([root, *(span for span in self.spans if span is not root)]),
            )
        )

    def _ends(self, root: Span, agents: Sequence[Span]) -> tuple[Json, Json]:
        for span in (root, *agents[:1]):
            family, kind = self._kinds[span.id]
            if kind in {"agent", "chain"} and family is not None:
                run_input, run_output = family.ends(span)
                if run_input is not None or run_output is not None:
                    return run_input, run_output
        return None, None

    def _steps(self) -> tuple[list[Step], list[str]]:
        """The model calls and tools, each once, and what was merged for it."""
        steps: list[Step] = []
        for span in self.spans:
            family, kind = self._kinds[span.id]
            if family is not None and kind in {"model", "tool"}:
                step: Step = family.model_call(span) if kind == "model" else family.tool_run(span)
                steps.append(replace(step, agent=self._agent(span)))
        steps, merged = merge_duplicates(steps, self._nearest({"agent", "model", "tool"}))
        return sorted(steps, key=lambda step: (step.started or 0, step.ended or 0)), merged

    def _nearest(self, kinds: set[str]) -> dict[str, str]:
        """For each span the nearest around it of these kinds, "" for none; each span is passed once."""
        nearest: dict[str, str] = {}
        for span in self.spans:
            path, at = {span.id}, span.parent
            while at in self._by_id and self._kinds[at][1] not in kinds and at not in nearest and at not in path:
                path.add(at)
                at = self._by_id[at].parent
            inside = at if at in self._by_id and self._kinds[at][1] in kinds else nearest.get(at, "")
            nearest.update((span_id, inside) for span_id in path if span_id not in nearest)
        return nearest

    def _agent(self, span: Span) -> str:
        around = self._agents[span.id]
        return text(span.attributes, "gen_ai.agent.name") or (_name_span(self._by_id[around]) if around else "")

    def _losses(self) -> tuple[str, ...]:
        families = [family for family, kind in self._kinds.values() if family and kind in {"model", "tool"}]
        others = Counter(
            text(span.attributes, "openinference.span.kind", "gen_ai.operation.name", "langfuse.observation.type")
            for span in self.spans
            if self._kinds[span.id][1] == "other"
        )
        cut = [
            f"{name} of the span {span.name!r} is cut short: the exporter limits the length of a value"
            for span in self.spans
            for name, value in span.attributes.items()
            if name.startswith("gen_ai.") and content.cut_short(value)
        ]
        left = [f"{count} spans of the kind {kind} are left out" for kind, count in others.items() if kind]
        calls = any(isinstance(step, ModelCall) for step in self.steps)
        alone = () if calls else ("no span of a model call is in the file, only tools",)
        return unique([*alone, *(loss for family in families for loss in family.losses), *left, *cut, *self._merged])


def _status(root: Span) -> Any:
    """The root's own word: an ended span without an error is ok. Where the root is not in the file, nobody says."""
    if root.status == "error":
        return "error"
    return "ok" if root.ended and root.name and not root.parent else ""


def _name_span(span: Span) -> str:
    return text(span.attributes, *_NAMES) or span.name


def _chain_runs(trees: Sequence[_SpanTree], called: str) -> list[Trace]:
    """Return runs of model calls that nothing was built around: each goes on from the one whose messages it resends."""
    ordered = sorted(trees, key=lambda tree: tree.spans[0].started or 0)
    calls = [step for tree in ordered for step in tree.steps if isinstance(step, ModelCall)]
    homes = {id(step): tree for tree in ordered for step in tree.steps}
    return [_join_traces([homes[id(call)].trace(called) for call in chain]) for chain in conversations(calls)]


def _join_traces(traces: Sequence[Trace]) -> Trace:
    """Return the run that goes on over several traces, each of one call."""
    first, last = traces[0], traces[-1]
    steps = tuple(call for trace in traces for call in trace.model_calls)
    status: Any = "error" if any(trace.status == "error" for trace in traces) else first.status
    bare = replace(first, steps=steps, ended=last.ended, status=status, input=None, output=None, missing=())
    return whole(bare)
