"""Who answers for the world in a case: its frozen run and its fixtures, served as the case says."""

from __future__ import annotations

import json
from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.case_backend import AnswerPolicy, CaseBackend
from pytest_agentreplay.cases import fixtures as reading
from pytest_agentreplay.cases.case import DEFAULT_SERVING, FIXTURES
from pytest_agentreplay.cases.fixtures import MOST_FILES, SUFFIX
from pytest_agentreplay.cases.render import fixture_name
from pytest_agentreplay.compare.tolerance import Level, TolerancePolicy, parse
from pytest_agentreplay.errors import CaseError, LiveRefused, SnapshotError
from pytest_agentreplay.model.exchanges import HttpReply
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.providers import READER, encode, json_rpc
from pytest_agentreplay.providers.meaning import ByBody, ByMeaning
from pytest_agentreplay.snapshots.codec.strict_yaml import LARGEST
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.backends.case_backend import Meaning
    from pytest_agentreplay.cases.case import Case, ListName, ServingPolicy
    from pytest_agentreplay.cases.fixtures import FixtureAnswer, Fixtures
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call, Failure, JsonObject, Outcome, Run, ToolReply


def serving_of(case: Case, list_name: ListName, *, allow_live: bool = False) -> ServingPolicy:
    """How the agent is served for a list of checks. Raises CaseError for what is not served so, and LiveRefused."""
    serving = case.serving.get(list_name, DEFAULT_SERVING[list_name])
    if serving.tools == "live":
        raise CaseError("tools never go live: serve them strict, position or arguments", file=case.file)
    if "arguments" in {serving.model, serving.other}:
        raise CaseError("only tools are served by arguments: take strict, position or live", file=case.file)
    if "live" in {serving.model, serving.other} and not allow_live:
        again = f"agentreplay replay {quoted(case.file)} --live"
        raise LiveRefused(f"{case.file}: asks the real model, which the command line alone allows: {again}")
    return serving


def gate_of(
    case: Case, serving: ServingPolicy, run: Run, matching: Matching, *, fixtures: Fixtures | None = None
) -> CaseBackend:
    """The backend of a case. Without `fixtures` those beside it are read; raises CaseError for one that cannot be."""
    meaning: Meaning | None = None
    if case.source.fidelity != "bytes":
        meaning = ByBody(matching) if case.source.fidelity == "body-json" else ByMeaning(matching, run)
    if fixtures is None and serving.tools == "arguments":
        fixtures = fixtures_of(case)
    return CaseBackend(
        run,
        matching,
        READER,
        AnswerPolicy(
            model=serving.model,
            tools=serving.tools,
            other=serving.other,
            fixtures=CaseInputs(case, fixtures) if fixtures is not None else None,
            meaning=meaning,
            retell=told_again,
            spell=json_rpc.spelled,
            tolerances=tolerances_of(case) if serving.model == "live" else None,
        ),
    )


def tolerances_of(case: Case) -> TolerancePolicy | None:
    """How near the arguments of a tool's call must be where a live model makes them; None where they must be equal."""
    if not case.tolerance:
        return None
    return TolerancePolicy(
        parse(place, how, "arguments", level=Level.TEST, source=case.file) for place, how in case.tolerance.items()
    )


def fixtures_of(case: Case) -> Fixtures:
    """Return the fixtures in the folder of a case. Raises CaseError."""
    folder = case.folder / FIXTURES
    try:
        found = [folder / name for name in files.names_in(folder, strict=True) if name.endswith(SUFFIX)]
        if len(found) > MOST_FILES:
            raise CaseError(f"more than {MOST_FILES:,} fixtures are not read", file=case.file)
        for file in found:
            files.refuse_links(file, case.folder.parent)
        return reading.read({format_path(file): files.head(file, LARGEST + 1) for file in found})
    except SnapshotError as error:
        raise CaseError(str(error).removeprefix(f"{error.file}: "), file=error.file) from None


class CaseInputs:
    """What the tools of a case give in one go: `core.case_backend.Fixtures`, asked by one thread at a time."""

    def __init__(self, case: Case, fixtures: Fixtures) -> None:
        """Nothing was given yet."""
        self._case = case
        self._fixtures = fixtures
        self._times: Counter[int] = Counter()

    def answer(self, tool: str, arguments: JsonObject) -> tuple[ToolReply | Failure, bool] | None:
        """Return the answer to these arguments; where they come again, what followed it."""
        found = self._fixtures.answer(tool, arguments)
        if found is None:
            return None
        self._times[id(found)] += 1
        return found.outcome(self._times[id(found)] - 1), found.written

    def recorded_arguments(self, tool: str) -> Iterator[JsonObject]:
        """Yield the arguments to which answers of the tool are known, in the order of its files."""
        return (one.arguments for fixture in self._fixtures.fixtures if fixture.tool == tool for one in fixture.answers)

    def advice(self, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Return the answer of the tool to the most similar arguments, and the line to write beside it."""
        theirs = [fixture for fixture in self._fixtures.fixtures if fixture.tool == tool]
        line = json.dumps({"arguments": arguments, "result": "...", "written": True, "why": "..."}, ensure_ascii=False)
        if not theirs:
            file = format_path(self._case.folder / fixture_name(tool, 1))
            other = get_close_matches(tool, self._fixtures.tools, n=1)
            named = (f"or call it {other[0]}, which has fixtures",) if other else ()
            return (f"write {file}: tool: {tool}, answers: [{line}]", *named)
        known = min((one for fixture in theirs for one in fixture.answers), key=lambda one: apart(one, arguments))
        kind = "written" if known.written else "recorded"
        told, file = json.dumps(known.arguments, ensure_ascii=False), known.file or theirs[0].file
        return f"the nearest answer is {kind}, {file}:{known.place}, to {told}", f"add to answers in {file}: - {line}"


def apart(answer: FixtureAnswer, arguments: JsonObject) -> int:
    """In how many arguments a call differs from that of an answer."""
    names = answer.arguments.keys() | arguments.keys()
    absent = object()
    return sum(answer.arguments.get(name, absent) != arguments.get(name, absent) for name in names)


def told_again(call: Call, recorded: Call, outcome: Outcome) -> Outcome | None:
    """Return a recorded reply in the form in which `call` asks for it; None where it cannot be told so."""
    told = encode.retell(call, recorded, outcome)
    if told is not outcome or not isinstance(outcome, HttpReply):
        return told
    now, then = READER.read_call(call).dialect, READER.read_call(recorded).dialect
    return outcome if now == then or outcome.status >= 400 else None
