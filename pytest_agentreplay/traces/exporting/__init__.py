"""Cases for other tools: a pytest file, promptfoo, OpenAI Evals, OTLP. Pure: values in, texts out.

What a target has no word for is told in `Exported.losses`, never left out in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.traces.exporting import evals, otlp, pytest_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.traces.exporting.subject import Exported, Subject


class Target(NamedTuple):
    """Where a case can go: `title` is what people are told, `write` gives the texts of the files."""

    title: str
    write: Callable[[Subject], Exported]


TARGETS = {
    "pytest": Target("a pytest file", pytest_file.write),
    "promptfoo": Target("a configuration of promptfoo", evals.write_promptfoo),
    "openai-evals": Target("rows for the Evals API of OpenAI, and samples for its registry", evals.write_openai_evals),
    "otlp": Target("spans of OpenTelemetry, as OTLP JSON", otlp.write),
}
"""By the names that `--to` takes."""
