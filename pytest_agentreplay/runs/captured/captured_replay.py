"""One captured run against the code of today: what it does otherwise (effects), and what it asks otherwise (requests).

Effects are the calls that change something, with their arguments and in the order of their lane; what the function
returns or raises; and that it comes to its end. Requests are all other calls: a prompt, a read.

The backend looks for a call as any replay does: by its bytes, its key, in its lane before any other. One that is not
recorded takes the next recorded answer of its lane, model or tool, so that what the agent does next is seen. Where no
answer is left it is refused: nothing goes live.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.case_positions import Positions
from pytest_agentreplay.backends.replay import ReplayBackend, ReplayPolicy
from pytest_agentreplay.cases.case import Case, ServingPolicy
from pytest_agentreplay.compare.clusters import mask
from pytest_agentreplay.compare.diagnose.refusals import explain_dialect
from pytest_agentreplay.compare.diff import diff
from pytest_agentreplay.compare.matching.address import authority
from pytest_agentreplay.compare.matching.new_values import NewValues
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.intercept.session.callers import find_line
from pytest_agentreplay.model.divergence import Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Exchange, FrameCall, Json, JsonObject, RawValue, Run, ToolCall
from pytest_agentreplay.model.turns import function_of, label
from pytest_agentreplay.providers import READER
from pytest_agentreplay.redaction.policy import Policy, join_policies
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.captured.groups import conjugate
from pytest_agentreplay.runs.cases.case_backend import convert_reply
from pytest_agentreplay.runs.cases.in_process_run import InProcessRun, Runner, build_input, join_settings
from pytest_agentreplay.runs.replay_session import ReplaySession, strip_ports
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.snapshots.kit import table, text_of
from pytest_agentreplay.values.arguments import freeze_arguments
from pytest_agentreplay.values.tags import NotPlain, copy_plain

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
    from pytest_agentreplay.model.reading import Reader
    from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
    from pytest_agentreplay.settings import Settings

INDEX, PATH, LINE = re.compile(r"\[\d+\]"), re.compile(r" ?\$\S*(?: -> \S+)*$"), re.compile(r"line \d+")
SAID = "failed"
"""The type of a failure that no exception made: `capture.run(...).failed(reason)`, or a status of 500."""
OUTCOME = ("status", "type", "message")
Level: TypeAlias = Literal["same", "requests", "effects", "not replayed"]


class Change(NamedTuple):
    """What a run does otherwise. `group` says it of several runs, as in "differ in refund $.amount"."""

    group: str
    divergence: Divergence


@dataclass(frozen=True, slots=True)
class CapturedResult:
    """What the code of today made of a captured run.

    Attributes:
        effects: What it does otherwise.
        requests: What it asks otherwise.
        refused: Why it could not be replayed.
        fails: Whether what is refused fails its item; None where that fails only with `--agentreplay-runs-strict`.
        new: How many values are new in both runs.
    """

    effects: tuple[Change, ...] = ()
    requests: tuple[Change, ...] = ()
    refused: str = ""
    fails: bool | None = None
    new: int = 0

    @property
    def level(self) -> Level:
        """The level on which the run differs."""
        if self.refused:
            return "not replayed"
        return "effects" if self.effects else "requests" if self.requests else "same"

    @property
    def group(self) -> str:
        """The group that the run belongs to."""
        changes = self.effects or self.requests
        return self.refused or (changes[0].group if changes else "")


def replay_captured(run: Run, file: Path, evaluator: CaseEvaluator, other_ids: Collection[str] = ()) -> CapturedResult:
    """Return what the runner of the run's name does otherwise; `other_ids` are those of other runs of that name.

    Raises SettingsError where there is no such runner, RunnerError for one that cannot be loaded, or takes too long.
    """
    capture, run_input = table(run.header.kit, "capture"), run.header.kit.get("input")
    if cold := capture.get("cold"):
        return CapturedResult(refused=f"cannot be replayed: {cold}", fails=False)
    runner = evaluator.runners[text_of(capture, "name") or run.header.test.partition("/")[0]]
    if not isinstance(run_input, dict):
        return CapturedResult(refused="the service gave capture.run no input that names the runner's arguments")
    if "messages" not in run_input:
        run_input = run_input if "arguments" in run_input else {"arguments": run_input}
        try:
            inspect.signature(runner).bind(**table(run_input, "arguments"))
            build_input(runner, run_input, run)
        except (TypeError, RunnerError) as error:
            return CapturedResult(refused=f"the runner does not take what was captured: {error}")
    marks = find_places(evaluator.root) if evaluator.settings.places else {}
    place = Location(run.header.test, file, evaluator.root, marks, evaluator.environ, evaluator.redactors)
    session = CapturedReplay(place, evaluator.settings, run)
    assert session.new_values is not None
    session.new_values.others = other_ids
    session.open()
    try:
        if (undeclared := session.interception.ending.refused) is not None:
            reason = "; ".join([undeclared.summary, *undeclared.hints])
            return CapturedResult(refused=evaluator.settings.format_message(reason), fails=True)
        live = session.interception.tools.live
        for tool in replay_kit.find_unfrozen(session.list_recorded(), str(evaluator.root), live):
            words = f'{text_of(tool, "tool")}: name it to capture.start(tools=["{text_of(tool, "path")}"])'
            return CapturedResult(refused=f"the service did not capture the tool {words}")
        output, failure, _ = session.play(consume(runner), run_input, evaluator.despair)
        return session.compare(output, failure)
    finally:
        session.close()


def consume(runner: Runner) -> Runner:
    """Return a runner whose result is what a service would have had of it: of a generator all items."""

    @functools.wraps(runner)  # whose annotations are asked for
    def run(*args: Any, **kwargs: Any) -> Any:
        result = runner(*args, **kwargs)
        if isinstance(result, AsyncGenerator):
            return list_items(result)
        return [*result] if isinstance(result, Generator) else result

    return run


async def list_items(generator: AsyncGenerator[Any]) -> list[Any]:
    """Return the items of a generator."""
    return [item async for item in generator]


class CapturedReplay(InProcessRun):
    """One run of the code of today, answered from a captured one."""

    def __init__(self, place: Location, settings: Settings, run: Run) -> None:
        """`settings` are those of the session; what the service has redacted is redacted here too."""
        case = Case(file=place.test, folder=place.snapshot.parent, id=place.test)
        redacted = table(run.header.kit, "redactions")
        words = Policy(pii=redacted.get("pii") is True, strict=redacted.get("strict") is True)
        settings = join_settings(settings, case)._replace(policy=join_policies(settings.redacted, words))
        super().__init__(place, settings, run, case, serving=ServingPolicy(), fixtures=None)

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that answers a changed call too."""
        self.backend = CapturedBackend(recorded, matching, READER)
        self.casting = self.backend  # type: ignore[assignment]  # of a case's backend only what any replay has is asked
        return self.backend

    def make_order(self) -> ReleaseQueue | None:
        """Return what hands out the answers in the recorded order, as far as the calls of today allow."""
        return ReplaySession.make_order(self)

    def _unseen(self) -> list[JsonObject]:
        """Return the tools that ran for real; none in a run whose calls are all as recorded, of which that is known."""
        return super()._unseen() if self.backend.changed or self.backend.list_unserved() else []

    def compare(self, output: Any, failure: BaseException | None) -> CapturedResult:
        """Return what the run did otherwise, now that it is over."""
        request = self.backend.request_change
        changes = [] if request is None else [(False, Change(f"ask otherwise ({name_request(request)})", request))]
        changes += self._compare_calls()
        if (stopped := self._find_parting(self._unseen())) is not None:
            more = self.backend.exhausted
            group = f"stop at {stopped.kind.code}" if more is None else f"call {name_call(more)} once more"
            changes.append((True, Change(group, stopped)))
        elif (end := self._compare_failure(failure)) is not None:
            changes.append((True, end))  # what it did not do any more is the consequence
        else:
            # What was given up when recorded need not come.
            for x in (x for x in self.backend.list_unserved() if not x.abandoned):
                change = self._change(f"no longer call {name_call(x.call)}", Kind.MISSING, x)
                changes.append((self.tools.has_effects(x.call), change))
            changes += ((True, change) for change in self._compare_output(output))
        effects, requests = ([change for is_effect, change in changes if is_effect is kind] for kind in (True, False))
        new = self.backend.renewed + (self.new_values.taken.total() if self.new_values else 0)
        return CapturedResult((*effects,), (*requests,), new=new)

    def _compare_calls(self) -> Iterator[tuple[bool, Change]]:
        """Yield which writes have other arguments, and which calls come in another order in their lane."""
        recorded, has_effects = {x.start: x for x in self.list_recorded()}, self.tools.has_effects
        lanes: dict[str, list[Exchange]] = {}
        for start, call in self.backend.served.items():
            lanes.setdefault((x := recorded[start]).lane, []).append(x)
            if start in self.backend.changed and has_effects(call):
                differences = self.backend.make_progress().compare(x.call, call)
                path = f" {differences[0].path}" if differences else ""
                yield True, self._change(f"differ in {name_call(call)}{path}", Kind.ARGS, x, call, differences)
        for later, x in (pair for lane in lanes.values() for pair in pairwise(lane) if pair[1].start < pair[0].start):
            group = f"call {name_call(later.call)} before {name_call(x.call)}"
            yield has_effects(later.call) and has_effects(x.call), self._change(group, Kind.ORDER, x)

    def _change(
        self, group: str, kind: Kind, x: Exchange, now: Call | None = None, differences: tuple[Difference, ...] = ()
    ) -> Change:
        progress, summary = self.backend.make_progress(), conjugate(group, 1)
        return Change(group, progress.make_divergence(kind, summary, x, now, differences))

    def _compare_failure(self, failure: BaseException | None) -> Change | None:
        """Return how the function failed otherwise; None for a failure that recurs, and where neither failed."""
        kit, was = self.snapshot.run.header.kit, self.snapshot.run.header.outcome
        if was.get("type") == SAID:  # by the service, of a function that may have returned
            if "output" not in kit:
                return None
            was = {"status": "passed"}
        if failure is None and was.get("status") == "passed":
            return None
        was, now = map(strip_ports, (was, self.redact_outcome(EndedRun(failure))))
        if [was.get(name, "") for name in OUTCOME] == [now.get(name, "") for name in OUTCOME]:
            return None
        frames = reversed([frame for frame, _ in walk_tb(failure.__traceback__ if failure else None)])
        group = f"raise {now['type']}" if failure else f"no longer raise {was.get('type')}"
        if was.get("type") == now.get("type"):
            group += " with another message"
        difference = Difference("outcome", format_outcome(was), format_outcome(now))
        return make_end_change(group, [difference], origin=find_line(frames, str(self.place.root)))

    def _compare_output(self, output: Any) -> Iterator[Change]:
        """Yield what the function returned otherwise, where the service said what it had returned."""
        kit = self.snapshot.run.header.kit
        if "output" not in kit:
            return
        try:
            content = copy_plain(output)
        except (NotPlain, RecursionError):  # as `capture` keeps what is not JSON
            content = freeze_arguments({"output": output})["output"]
        now = self.redaction.redact_value(RawValue(content))
        differences = diff(kit["output"], now)
        if differences and not self.backend.is_renewed(kit["output"], now):
            yield make_end_change(f"answer otherwise ({differences[0].path})", differences)


def name_call(call: Call) -> str:
    """Return what a call is put to: the name of a tool as models know it."""
    tool = function_of(call, READER)
    return label(call, READER) if tool is None else tool.name


def name_request(request: Divergence) -> str:
    """Return where a request differs, without the values, which are others in each run: "system text, line 2"."""
    if (call := request.now) is None or not request.differences:
        return mask(request.summary)
    first = request.differences[0]
    path = INDEX.sub("[*]", first.path)
    if function_of(call, READER) is not None:
        return f"{name_call(call)} {path}"
    compared = call if request.recorded is None else request.recorded.call
    what, changed, _ = request.summary.removeprefix(f"{label(compared, READER)}: ").partition(" changed, ")
    words = mask(PATH.sub("", what) if changed else what)
    line = LINE.match(first.note)
    return f"{words or path}{f', {line[0]}' if line else ''}"


def make_end_change(group: str, differences: Sequence[Difference], *, origin: str = "") -> Change:
    """Return the change of an end."""
    return Change(group, Divergence(Kind.OUTCOME, conjugate(group, 1), differences=(*differences,), origin=origin))


def format_outcome(outcome: JsonObject) -> str:
    """Return how a run ended, in a few words."""
    return ": ".join(str(outcome[name]) for name in ("type", "message") if outcome.get(name)) or "returns"


class CapturedBackend(ReplayBackend):
    """Answers from a captured run.

    Attributes:
        changed: By `start`, the exchanges whose answer went to a call that is not recorded.
        request_change: How the first of these that changes nothing differs; None where all are as recorded.
        exhausted: The call that no recorded answer is left for.
        renewed: How many values of the answer are new in both runs.
    """

    def __init__(self, run: Run, matching: Matching, reader: Reader) -> None:
        """Index `run`."""
        super().__init__(run, matching, reader, ReplayPolicy(any_order=True))
        self.changed: set[int] = set()
        self.request_change: Divergence | None = None
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
        match = values.find(ToolCall("answer", {"answer": now}), {answer.lane}, self.served, since)
        self.renewed = sum(values.taken.values()) if match is answer else 0
        return match is answer

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
        if self.request_change is None and not self.policy.writes(call):
            answer = super()._answer_unrecorded(call, moment)
            self.request_change = answer if isinstance(answer, Divergence) else None
        self._index.services.bind(authority(call), authority(match.call))
        self.changed.add(match.start)
        return replace(match, outcome=outcome)

    def make_progress(self) -> ReplayProgress:
        """Return how far the run has come, which compares two calls and names their place."""
        return self._make_progress(self.served.keys(), self._matching)

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self._index.top, self._reader)
