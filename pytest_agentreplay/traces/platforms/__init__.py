"""What platforms export: one module a format. `tree` makes a run of spans, `bodies` a model call of what was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.traces.platforms.braintrust import BRAINTRUST
from pytest_agentreplay.traces.platforms.galileo import GALILEO
from pytest_agentreplay.traces.platforms.langfuse import LANGFUSE
from pytest_agentreplay.traces.platforms.langsmith import LANGSMITH
from pytest_agentreplay.traces.platforms.mlflow import MLFLOW
from pytest_agentreplay.traces.platforms.openai_agents import AGENTS
from pytest_agentreplay.traces.platforms.opik import OPIK
from pytest_agentreplay.traces.platforms.weave import WEAVE

if TYPE_CHECKING:
    from pytest_agentreplay.traces.formats import Format

FORMATS: tuple[Format, ...] = (AGENTS, LANGSMITH, LANGFUSE, OPIK, BRAINTRUST, WEAVE, MLFLOW, GALILEO)
"""The formats of this package, by rank."""
