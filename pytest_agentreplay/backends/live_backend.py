"""The backend of a live run: what is live goes to the world, everything else is answered from the snapshot.

    model        live: every request goes to the real model; frozen: the recorded replies of each lane, in their order
    tools        by their arguments: each recorded answer once; a tool that reads gives its last one again, when it is
                 asked the very same once more. With "checked" what reads runs too and is compared, with "live" the
                 agent gets what it returns now. Over a connection (MCP) "live" is "checked"
    other calls  the recorded ones only

A call that the snapshot cannot answer is off script. It is counted, and the policy of its tool decides: "stop" refuses
it, "stub" answers it with what somebody wrote, "live" makes it, which is for calls that only read. What a tool asks for
while it runs goes to the world, but for tools that write and for a frozen model.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.backends.case_backend import CaseBackend, find_sort
from pytest_agentreplay.backends.case_positions import list_spellings
from pytest_agentreplay.backends.replay import is_only_reading
from pytest_agentreplay.backends.verify import VerifyBackend
from pytest_agentreplay.compare.tolerance import is_named
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Exchange, FrameCall, ToolCall, ToolReply
from pytest_agentreplay.model.turns import divide, function_of, has_effects, home, is_model, label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.backends.case_backend import AnswerPolicy
    from pytest_agentreplay.compare.live_result import Axes
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Outcome, Run
    from pytest_agentreplay.model.reading import Reader


class LiveBackend(CaseBackend, VerifyBackend):
    """Serves `run` as `axes` say. `off_script` holds the names of calls that the snapshot could not answer."""

    def __init__(self, run: Run, matching: Matching, reader: Reader, cast: AnswerPolicy, axes: Axes) -> None:
        """`cast` says how each sort of call is served, and which results and arguments are near enough."""
        super().__init__(run, matching, reader, cast)
        self.axes = axes
        self.off_script: list[str] = []
        self.policies: Sequence[tuple[str, str]] = ()
        """What is done about calls off script: a name of a tool, "stop", "live", or "stub" and JSON."""
        self._tolerances = cast.tolerances or self._tolerances
        self._answers: dict[str, Exchange] = {}

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Ask the world, answer from the snapshot, or do what the policy of an unrecorded call says."""
        root = self._running.get(moment.parent) if moment.parent is not None else None
        if root is not None and not (self.axes.model == "live" and is_model(call, self._reader)):
            return self._ask_within(root, call, moment)
        if self.divergence is None and self._runs(call, moment):
            with self._lock:
                recorded = self._positions.take_by_arguments(call, self.served)
                if recorded is not None:
                    self.served[recorded.start] = call
            return self._run_tool(call, moment, self._remember(call, recorded))
        is_tool = find_sort(call, self._reader) == "tools"
        verdict = super().decide(call, moment if is_tool else replace(moment, reads=False))
        if isinstance(verdict, Refused) and self.divergence is None and verdict.divergence.kind is not Kind.LIVE:
            verdict = self._leave_script(call, moment, verdict)
        compares = is_tool and moment.reads and (self.axes.tools == "checked" or self._is_released(call))
        if compares and isinstance(verdict, Replayed) and verdict.exchange.start >= 0:
            with self._guard:
                self.verified += 1
                self._running[verdict.ticket] = verdict.exchange
            return replace(verdict, compare=partial(self._compare, verdict.exchange, call))
        return verdict

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Keep what came of a live call, and compare what a tool gave with what is recorded for these arguments."""
        root, made = self._running.get(ticket), self._forwarded.get(ticket)
        super().settle(ticket, outcome, at=at, first=first, suspended=suspended)
        if root is not None and made is not None and root.start >= 0:
            self.verified += 1
            self._compare(root, made.call, outcome, "")

    def _runs(self, call: Call, moment: Moment) -> bool:
        """Return whether `call` is one of a function that only reads, and these are live."""
        function = isinstance(call, ToolCall) and call.boundary in {"tool", "retrieval"}
        return function and is_only_reading(call, moment) and self._is_released(call)

    def _is_released(self, call: Call) -> bool:
        function = function_of(call, self._reader)
        return function is not None and self.axes.releases(layer_of(function))

    def _run_tool(self, call: Call, moment: Moment, recorded: Exchange | None) -> PassThrough:
        with self._lock:
            verdict = self._forward(call, moment)
            self._running[verdict.ticket] = recorded or Exchange(call, None, -1, None)
        return verdict

    def _answer_by_arguments(self, call: Call, moment: Moment) -> tuple[Exchange | Divergence, str]:
        answer, how = super()._answer_by_arguments(call, moment)
        if isinstance(answer, Exchange):
            self._remember(call, answer)
        elif is_only_reading(call, moment) and (again := self._remember(call, None)) is not None:
            return again, "arguments (again)"
        return answer, how

    def _remember(self, call: Call, recorded: Exchange | None) -> Exchange | None:
        """Return `recorded`, the answer to `call`; where there is none, the last one to the very same call."""
        function = function_of(call, self._reader)
        name = f"{self._positions.part(call)} {canonical(list_spellings(function)[0]) if function is not None else ''}"
        if recorded is not None:
            self._answers[name] = recorded
        return self._answers.get(name)

    def _leave_script(self, call: Call, moment: Moment, refused: Refused) -> Verdict:
        """Return what is done about a call that the snapshot cannot answer."""
        function = function_of(call, self._reader)
        name = function.name if function is not None else label(call, self._reader)
        if is_model(call, self._reader):
            return Refused(replace(refused.divergence, summary=f"{name} was called more often than recorded", hints=()))
        policy = next((how for pattern, how in reversed(self.policies) if is_named(name, pattern)), "stop")
        with self._lock:
            self.off_script.append(name)
        reads = not isinstance(call, FrameCall) and not has_effects(call, self._reader, lambda _: moment.reads)
        if policy == "live" and reads:
            return self._run_tool(call, moment, None)
        if policy.startswith("stub") and isinstance(call, ToolCall):
            with self._lock:
                self._tickets += 1
            written = Exchange(call, ToolReply(json.loads(policy[4:])), -1, None, timing=self._latest)
            return self._note_served(Replayed(written, self._tickets), call, moment, "tools", "stub")
        line = f"agentreplay_off_script = {name}"
        stub, run = f'answer it: {line} = stub {{"status": "..."}}', f"or let it run: {line} = live"
        hints = (*[stub] * isinstance(call, ToolCall), *[run] * reads)
        why = "a tool that writes never runs" if policy == "live" else "no recorded call is the same"
        every, lanes = divide([x for x in self.list_made() if x.parent is None], self._reader)
        turn = next((turn.number for turn in reversed(every) if turn.lane == home(lanes, moment.lane)), 0)
        summary = f"{name} was called off script"  # by the turn that asked for it
        divergence = replace(refused.divergence, turn=turn, turns=max(turn, refused.divergence.turns))
        return Refused(replace(divergence, summary=summary, cause=why, hints=hints))


def layer_of(function: ToolCall) -> str:
    """Return the layer of a line-up that a tool or retrieval is."""
    return f"tool:{function.name}" if function.boundary == "tool" else function.boundary
