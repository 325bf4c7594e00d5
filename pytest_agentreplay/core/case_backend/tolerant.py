"""Near enough: the call of a tool by a live model, held against the calls whose answers are known.

A model says the same thing in other arguments. What a case tolerates of them is taken as it is known, and the answer is
the one to that; what is left differs, and is told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.case_backend.positions import said_as
from pytest_agentreplay.core.model import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.core.case_backend.case_backend import CaseFixtures
    from pytest_agentreplay.core.diagnose.progress import ReplayProgress
    from pytest_agentreplay.core.model import Call, Exchange, Failure, JsonObject, ToolReply
    from pytest_agentreplay.core.tolerance import TolerancePolicy


class Tolerant:
    """What a case tolerates of arguments. Without any rule nothing is near enough."""

    def __init__(self, tolerances: TolerancePolicy | None) -> None:
        """`tolerances` are those of the case, where its model is live."""
        self._rules = tolerances

    def answer(self, fixtures: CaseFixtures, tool: ToolCall) -> tuple[ToolReply | Failure, bool] | None:
        """What the fixtures say to the first arguments they know that are near enough; raises CaseError as they do."""
        for recorded in fixtures.recorded_arguments(tool.name) if self._rules is not None else ():
            for arguments in said_as(tool):
                if answer := fixtures.answer(tool.name, self._settled(tool.name, recorded, arguments)):
                    return answer
        return None

    def recorded(self, left: Iterable[tuple[Exchange, JsonObject]], tool: ToolCall | None) -> Exchange | None:
        """The first of the recorded calls that are left whose arguments are near enough."""
        rules = self._rules
        if rules is None or tool is None:
            return None
        pairs = ((x, recorded, arguments) for x, recorded in left for arguments in said_as(tool))
        return next(
            (x for x, recorded, arguments in pairs if rules.near(tool.name, recorded, arguments, "arguments")), None
        )

    def nearest_call(self, left: Sequence[tuple[Exchange, JsonObject]], call: Call, progress: ReplayProgress) -> Call:
        """`call` as people are told how it differs: what is tolerated of it as the nearest recorded call has it."""
        if self._rules is None or not isinstance(call, ToolCall):
            return call
        parted = [
            (x, replace(call, arguments=self._settled(call.name, recorded, arguments)))
            for x, recorded in left
            for arguments in said_as(call)
        ]
        return min(parted, key=lambda pair: len(progress.differences(pair[0].call, pair[1])), default=(None, call))[1]

    def _settled(self, tool: str, recorded: JsonObject, arguments: JsonObject) -> JsonObject:
        settled = self._rules.settled(tool, recorded, arguments, "arguments") if self._rules is not None else arguments
        assert isinstance(settled, dict)
        return settled
