"""The backend of a captured run: the recorded calls in any code's order, a changed one answered all the same.

A call is first looked for as in any replay: by its bytes, its key, in its lane before any other. One that is not
recorded takes the next recorded answer of its lane, model or tool, so that what the agent does next is seen. Where no
answer is left it is refused: nothing goes live.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.case_positions import Positions
from pytest_agentreplay.backends.replay import ReplayBackend, ReplayPolicy
from pytest_agentreplay.compare.diagnose.refusals import explain_dialect
from pytest_agentreplay.compare.matching.address import authority
from pytest_agentreplay.compare.matching.new_values import NewValues
from pytest_agentreplay.model.divergence import Divergence
from pytest_agentreplay.model.exchanges import Exchange, FrameCall, ToolCall
from pytest_agentreplay.runs.cases.case_backend import convert_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Json, Run
    from pytest_agentreplay.model.reading import Reader


class CapturedBackend(ReplayBackend):
    """Answers from a captured run.

    Attributes:
        changed: By `start`, the exchanges whose answer went to a call that is not recorded.
        asked: How the first of these that changes nothing differs; None where all are as recorded.
        exhausted: The call that no recorded answer is left for.
        renewed: How many values of the answer are new in both runs.
    """

    def __init__(self, run: Run, matching: Matching, reader: Reader) -> None:
        """Index `run`."""
        super().__init__(run, matching, reader, ReplayPolicy(any_order=True))
        self.changed: set[int] = set()
        self.asked: Divergence | None = None
        self.exhausted: Call | None = None
        self.renewed = 0

    def is_renewed(self, recorded: Json, now: Json) -> bool:
        """Return whether an answer differs from the recorded one in values alone that are new in both runs."""
        last = max((x.finish or x.start for x in self.run.exchanges), default=0) + 1
        answer = Exchange(ToolCall("answer", {"answer": recorded}), None, last, None)
        run = replace(self.run, exchanges=(*self.run.exchanges, answer))
        others, began = (values.others, values.began) if (values := self._index.new_values) is not None else ((), None)
        values = NewValues(run, self._matching, self._reader, others, began)
        since = 0 if began is None else int((clocks.wall() - began) * 1e9)
        found = values.find(ToolCall("answer", {"answer": now}), {answer.lane}, self.served, since)
        self.renewed = sum(values.taken.values()) if found is answer else 0
        return found is answer

    def finish(self, until: int | None = None, writes: Callable[[Call], bool] | None = None) -> Divergence | None:
        """Return what ended the run early: a recorded call that is not made is a difference, and refuses nothing."""
        del until, writes
        return self.find_divergence()

    def _answer_unrecorded(self, call: Call, moment: Moment) -> Exchange | Divergence:
        is_opening = isinstance(call, FrameCall) and call.connection is None
        match = None if is_opening else self._positions.take_next(call, moment, self.served)
        if match is None:
            self.exhausted = call
            return super()._answer_unrecorded(call, moment)
        outcome = None if match.outcome is None else convert_reply(call, match.call, match.outcome)
        if outcome is None and match.outcome is not None:
            return explain_dialect(self.make_progress(), call, match)
        if self.asked is None and not self.policy.writes(call):
            asked = super()._answer_unrecorded(call, moment)
            self.asked = asked if isinstance(asked, Divergence) else None
        self._index.services.bind(authority(call), authority(match.call))
        self.changed.add(match.start)
        return replace(match, outcome=outcome)

    def make_progress(self) -> ReplayProgress:
        """Return how far the run has come, which compares two calls and names their place."""
        return self._make_progress(self.served.keys(), self._matching)

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self._index.top, self._reader)
