"""Which setting of an instrumentation brings what was said into its spans: most leave it out unless they are told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.interchange.spans.span import Span

GENAI = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_HIDDEN = ("INPUTS", "OUTPUTS", "INPUT_MESSAGES", "OUTPUT_MESSAGES")

_SETTINGS: tuple[tuple[str, str], ...] = (
    (
        r"opentelemetry\.instrumentation\.(?:openai_v2|vertexai|google_genai)$|@opentelemetry/instrumentation-openai",
        f"with {GENAI}=true, and give the log records (gen_ai.* events) together with the spans",
    ),
    (r"opentelemetry\.instrumentation\.(?!genai\.)[\w.]+|traceloop\.tracer", "with TRACELOOP_TRACE_CONTENT=true"),
    (r"openinference\.", f"with {', '.join(f'OPENINFERENCE_HIDE_{one}=false' for one in _HIDDEN)}"),
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
    f"with {GENAI}=span_only and OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental, or, where it "
    "was event_only, give the log records together with the spans"
)


def advice(spans: Iterable[Span]) -> str:
    """What to set so that spans like these hold messages, by the library that made them."""
    scopes = [span.scope for span in spans]
    how = next((how for scope in scopes for known, how in _SETTINGS if re.match(known, scope)), _ELSE)
    return f"record again {how}"
