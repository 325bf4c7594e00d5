"""Cases for other tools: a pytest file, promptfoo, OpenAI Evals, OTLP. Pure: values in, texts out.

One module per target. What a target has no word for is told in `Exported.losses`, never left out in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.traces.exporting import openai_evals, otlp, promptfoo, pytest_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.traces.exporting.subject import Exported, Subject


class Target(NamedTuple):
    """Where a case can go: `title` is what people are told, `write` gives the texts of the files."""

    title: str
    write: Callable[[Subject], Exported]


TARGETS = {
    "pytest": Target("a pytest file", pytest_file.write),
    "promptfoo": Target("a configuration of promptfoo", promptfoo.write),
    "openai-evals": Target("rows for the Evals API of OpenAI, and samples for its registry", openai_evals.write),
    "otlp": Target("spans of OpenTelemetry, as OTLP JSON", otlp.write),
}
"""By the names that `--to` takes."""
