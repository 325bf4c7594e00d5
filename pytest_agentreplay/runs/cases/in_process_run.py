"""An agent of today tried on the world of a case, in this process: what it did there, as evidence.

The agent meets the frozen run of the case as a test meets its snapshot, but each sort of call is served as the case
says (`backends.case_backend`). Nothing is written, and nothing goes live unless the command line allows it.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from pytest_agentreplay import clocks
from pytest_agentreplay.cases.case import RUN
from pytest_agentreplay.cases.evidence import CaseEvidence, frozen, meets_tools
from pytest_agentreplay.errors import ReplayDiverged, RunnerError
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.intercept.ordering.overtime import Deadline, end_process
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Header, Run, ToolCall, ToolReply
from pytest_agentreplay.model.turns import top_level
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.cases.case_backend import gate_of, serving_of
from pytest_agentreplay.runs.redact.redaction_setup import choose_case_policy
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.runs.run_session import Location
from pytest_agentreplay.runs.snapshot_selection import read_changes
from pytest_agentreplay.settings.parsers import parse_order
from pytest_agentreplay.snapshots.codec import Snapshot
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.backends.replay import ReplayBackend
    from pytest_agentreplay.cases.case import Case, ListName, ServingPolicy
    from pytest_agentreplay.cases.fixtures import Fixtures
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.intercept.ordering.overtime import Despair
    from pytest_agentreplay.intercept.ordering.release import ReleaseQueue as Order
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.redaction.policy import Redactor
    from pytest_agentreplay.settings import Settings

Runner: TypeAlias = Callable[..., Any]
"""Calls an agent: with the messages of the case's input, or with its arguments by name; may give an awaitable."""

CLIENTS = {"anthropic": "anthropic", "google": "gcp"}
"""SDKs that call tools in loops of their own, with a word in the names of the providers whose API they ask."""
CALLS_TOOLS = re.compile(r"\.(?:tools|mcp)\.|^(?!pytest_agentreplay\.)")
"""The modules that patch what calls tools: ours for frameworks and MCP, and those of other plugins."""

ITS_OWN = (Exception, ReplayDiverged, SystemExit, asyncio.CancelledError)
"""What an agent raises; anything else comes from whoever runs it."""


def attempt(
    case: Case,
    list_name: ListName,
    run: Run,
    *,
    runner: Runner | None,
    fixtures: Fixtures | None = None,
    settings: Settings,
    root: Path,
    environ: Mapping[str, str],
    redactors: Mapping[str, Redactor | None] | None = None,
    allow_live: bool = False,
    despair: Despair = end_process,
) -> CaseEvidence:
    """What `runner` did on the frozen `run` of `case`, served as for that list of checks; that run where nobody runs.

    `fixtures` are those of the case's folder unless they are given. A refusal is in the evidence whatever the agent did
    with the exception. `despair` is given the last words about a runner that nothing can end, and ends the process.

    Raises CaseError for what cannot be served so, RunnerError for a runner that took longer than the settings allow;
    who interrupts the runner (KeyboardInterrupt, the outcomes of pytest) interrupts this too.
    """
    if runner is None:
        return frozen(run)
    serving = serving_of(case, list_name, allow_live=allow_live)
    marks = find_places(root) if settings.places else {}
    place = Location(f"{case.file}::{case.id}", case.folder / RUN, root, marks, environ, redactors or {})
    run_session = InProcessRun(place, join_settings(settings, case), run, case, serving=serving, fixtures=fixtures)
    run_session.open()
    try:
        return run_session.evidence(runner, case.input, despair)
    finally:
        run_session.close()


def join_settings(settings: Settings, case: Case) -> Settings:
    """Return the settings of the project and of the case, for a replay of it."""
    return settings._replace(
        mode="replay",
        model="frozen",
        replay_tools="frozen",
        ignore=(*settings.ignore, *((path, f"{case.file} ignores it") for path in case.ignore)),
        order=settings.order if case.order == "auto" else parse_order(case.order, case.file),
        adopt="",
        expect="",
        permutations=0,
        trial=None,
        policy=choose_case_policy(settings.redacted, case),
    )


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, or those of a group of them."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def build_input(runner: Runner, case_input: Json, run: Run) -> Any:
    """Return what `runner` is called with: arguments that were no JSON in a captured `run` are made by its annotations.

    Raises RunnerError for one that has no annotation, or does not fit it.
    """
    typed = table(table(run.header.kit, "input"), "typed")
    if not typed or not isinstance(case_input, dict) or "arguments" not in case_input:
        return case_input
    from pydantic import TypeAdapter

    arguments: dict[str, Any] = dict(table(case_input, "arguments"))
    for name, kind in ((name, kind) for name, kind in typed.items() if name in arguments):
        try:
            arguments[name] = TypeAdapter(get_type_hints(runner)[name]).validate_python(arguments[name])
        except Exception as error:  # whatever the annotation and its validators raise
            reason = str(error).partition("\n")[0] if isinstance(error, ValueError) else f"no type says how: {error}"
            raise RunnerError(
                f"the argument {name} was a {kind}, which the runner cannot make of its JSON ({reason}); "
                "annotate that parameter of the runner, or have the service give capture.run an input of plain JSON"
            ) from None
    return {"arguments": arguments}


class InProcessRun(ReplaySession):
    """One go of an agent at a case."""

    def __init__(
        self,
        place: Location,
        settings: Settings,
        run: Run,
        case: Case,
        *,
        serving: ServingPolicy,
        fixtures: Fixtures | None,
    ) -> None:
        """`serving` says how the calls are served, `fixtures` what the tools give."""
        self.case = case
        self.serving = serving
        self._fixtures = fixtures
        super().__init__(place, settings, Snapshot(run, version=""))
        self.casting.budget = settings.ledger
        self.clock.live_inside = "live" in {serving.model, serving.other}
        self.interception.scope.changes = read_changes(
            settings.replay_set if serving.model == "live" else (), place.root
        )
        self.deadline = Deadline(self.interception, self.overtime, settings.timeout, f"{case.file}: its runner")

    def make_backend(self, recorded: Run, matching: Matching) -> ReplayBackend:
        """Return the backend that serves each sort of call as the case says."""
        self.casting = gate_of(self.case, self.serving, recorded, matching, fixtures=self._fixtures)
        return self.casting

    def make_order(self) -> Order | None:
        """Return the recorded order of answers, only where that is known, and kept."""
        return None if self.casting.policy.any_order else super().make_order()

    def list_functions(self) -> JsonObject:
        """Return the recorded tools that are functions: nobody gives a runner its tools.

        In a run that does not say which are functions, all are, unless a framework may call its own tools: where one is
        imported nothing is known, and where one is installed a tool is a function if the project has one of its name.
        """
        run, root = self.snapshot.run, str(self.place.root)
        if (functions := table(run.header.kit, "functions")) or self.settings.children:
            return functions
        if not sys.modules.keys().isdisjoint(frameworks := list_frameworks(run)):
            return functions
        from pytest_agentreplay.runs.replay_kit import find_candidates

        names = {x.call.name for x in top_level(run) if isinstance(x.call, ToolCall) and x.call.boundary == "tool"}
        installed = any(find_spec(library.partition(".")[0]) for library in frameworks)
        return {name: "" for name in sorted(names) if not installed or find_candidates(name, root)}

    def run(self) -> Run:
        """Return the run of now: the calls as they were made, with what was served."""
        return Run(Header(self.place.test), self.casting.list_made())

    def evidence(self, runner: Runner, case_input: Json, despair: Despair) -> CaseEvidence:
        """Have `runner` do its work on the case's input, and tell what came of it. Calls are refused from then on.

        Raises RunnerError for one that took too long.
        """
        output, failure, seconds = self.play(runner, case_input, despair)
        own = (
            [error for error in leaves(failure) if not isinstance(error, ReplayDiverged)] if failure is not None else []
        )
        divergence, live = self._find_parting(unseen := self._unseen()), {}
        if self.serving.model == "live":
            stopped = replay_kit.find_stop(divergence, self.run(), self.snapshot.run)
            divergence = divergence or (Divergence(Kind.LIVE, stopped) if stopped else None)
            live = replay_kit.sum_usage(self.run(), live=True) | {"stopped": stopped}
        seen = frozen(self.run(), with_requested=not meets_tools(self.snapshot.run))
        return replace(
            seen,
            status="ok" if failure is None else "error",
            output=self._redact_output(output),
            errors=(*seen.errors, *map(self._describe_failure, own)),
            seconds=seconds,
            input=case_input,
            recorded=frozen(self.snapshot.run).tool_calls,
            network=self.find_network_level(),
            unheard=self.list_unguarded_libraries(),
            divergence=divergence,
            live=live,
            escapes=(
                *(f"refused: {entry.line()}" for entry in self.watch.ledger),
                *(f"ran for real, and unseen: tool {tool['tool']}" for tool in unseen),
            ),
            served=f"{self.serving.text} ({self.casting.summary})" if self.casting.counts else self.serving.text,
        )

    def play(self, runner: Runner, case_input: Json, despair: Despair) -> tuple[Any, BaseException | None, float]:
        """Have `runner` do its work, and close the session; return what it returned, raised, and its seconds.

        Raises RunnerError for one that took too long, and as `build_input` does.
        """
        output: Any = None
        failure: BaseException | None = None
        runner_input = build_input(runner, copy.deepcopy(case_input), self.snapshot.run)
        began = clocks.perf_counter()
        self.enter_body()
        try:
            with self.deadline.watch_runner(despair):
                output = self._play(runner, runner_input)
        except BaseException as raised:
            if not all(isinstance(error, ITS_OWN) for error in leaves(raised)):
                raise
            failure = raised
        finally:
            self.leave_body()
        if self.deadline.passed:
            raise self.deadline.describe_overdue()
        seconds = clocks.perf_counter() - began
        if self.casting.find_divergence() is None and failure is None:
            self.casting.finish(self._body)
        self.close()
        return output, failure, seconds

    def _play(self, runner: Runner, case_input: Json) -> Any:
        fields = case_input if isinstance(case_input, dict) else {}
        arguments = fields.get("arguments")
        self.check_start()
        with self.overtime.call_from(sys._getframe()):
            if "messages" in fields:
                result = runner(fields["messages"])
            else:
                result = runner(**arguments) if isinstance(arguments, dict) else runner()
            return asyncio.run(self._await_result(result)) if inspect.isawaitable(result) else result

    async def _await_result(self, result: Awaitable[Any]) -> Any:
        """Return what a coroutine gives, in a task that is the test's own strand."""
        call_context = self.interception.main()
        token = lanes.CALL_CONTEXT.set(call_context)
        call_context.owner = lanes.find_runner()
        self.interception.call_context()
        try:
            with self.overtime.watch_task():
                return await result
        finally:
            lanes.CALL_CONTEXT.reset(token)

    def _unseen(self) -> list[JsonObject]:
        """Return the tools that ran for real, since no boundary has met them."""
        # A tool at which we stand was not run where it did not cross: the agent has answered for it.
        intercepted = self.interception.tools.seen | {redirection.tool.name for redirection in self.tools.redirections}
        tools = replay_kit.find_unfrozen(self.casting.list_made(), str(self.place.root), intercepted)
        return [tool for tool in tools if isinstance(tool, dict)]

    def _find_parting(self, unseen: list[JsonObject]) -> Divergence | None:
        """Return where the run left the frozen one; else a tool that ran unseen, else what came after the end."""
        if (divergence := self.casting.find_divergence()) is not None:
            return divergence
        if unseen:
            names = [str(tool["tool"]) for tool in unseen]
            paths = tuple(f"freeze it: {tool['path']} in agentreplay_tools" for tool in unseen)
            return Divergence(
                Kind.UNFROZEN,
                f"tool {names[0]} ran unseen" + (f", and {len(names) - 1} more" if len(names) > 1 else ""),
                cause="the model asked for it and a result went back, but no boundary met the call: it ran for real",
                hints=paths,
            )
        if late := self.interception.ending.late:
            return Divergence(Kind.LATE, f"{late[0].partition('   ')[0]} was called after the end", detail=(*late,))
        return None

    def _redact_output(self, output: Any) -> Json:
        """Return an output as plain JSON, without what nobody may read; what is none is its text."""
        from pydantic_core import from_json, to_json

        try:
            plain = finite(from_json(to_json(output, fallback=str, inf_nan_mode="constants")))
        except (ValueError, TypeError):
            plain = str(output)
        stored = self.redaction.redact_outcome(ToolCall("output"), ToolReply(plain))
        return stored.value if isinstance(stored, ToolReply) else None

    def _describe_failure(self, failure: BaseException) -> tuple[str, str]:
        kind = type(failure)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        return name, self.redaction.redact_text(str(failure))


def list_frameworks(run: Run) -> list[str]:
    """Return the modules of libraries that call tools themselves and are intercepted; of an SDK for its API alone."""
    providers = " ".join(READER.read_call(x.call).provider for x in run.exchanges)
    libraries = [library for library, module in registry.ACTIVE_PATCHES.items() if CALLS_TOOLS.search(module)]
    return [library for library in libraries if CLIENTS.get(library.partition(".")[0], "") in providers]


def finite(value: Any) -> Any:
    """JSON with its numbers that are none (old releases of pydantic cannot write them otherwise) as texts: "NaN"."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: finite(inner) for name, inner in value.items()}
        case list():
            return [finite(inner) for inner in value]
        case _:
            return value
