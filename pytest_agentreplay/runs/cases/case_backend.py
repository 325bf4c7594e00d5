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
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.providers import READER, encode, json_rpc
from pytest_agentreplay.providers.meaning import ByBody, ByMeaning
from pytest_agentreplay.snapshots.codec.strict_yaml import LARGEST
from pytest_agentreplay.snapshots.store import files, format_path

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
        again = f"agentreplay replay {quote_word(case.file)} --live"
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
            retell=convert_reply,
            spell=json_rpc.write_answer,
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
        paths = [folder / name for name in files.list_names(folder, strict=True) if name.endswith(SUFFIX)]
        if len(paths) > MOST_FILES:
            raise CaseError(f"more than {MOST_FILES:,} fixtures are not read", file=case.file)
        for file in paths:
            files.refuse_links(file, case.folder.parent)
        return reading.read_fixtures({format_path(file): files.head(file, LARGEST + 1) for file in paths})
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
        fixture_answer = self._fixtures.answer(tool, arguments)
        if fixture_answer is None:
            return None
        self._times[id(fixture_answer)] += 1
        return fixture_answer.outcome(self._times[id(fixture_answer)] - 1), fixture_answer.written

    def recorded_arguments(self, tool: str) -> Iterator[JsonObject]:
        """Yield the arguments to which answers of the tool are known, in the order of its files."""
        return (
            answer.arguments
            for fixture in self._fixtures.fixtures
            if fixture.tool == tool
            for answer in fixture.answers
        )

    def advice(self, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Return the answer of the tool to the most similar arguments, and the line to write beside it."""
        theirs = [fixture for fixture in self._fixtures.fixtures if fixture.tool == tool]
        line = json.dumps({"arguments": arguments, "result": "...", "written": True, "why": "..."}, ensure_ascii=False)
        if not theirs:
            file = format_path(self._case.folder / fixture_name(tool, 1))
            other = get_close_matches(tool, self._fixtures.tools, n=1)
            renaming = (f"or call it {other[0]}, which has fixtures",) if other else ()
            return (f"write {file}: tool: {tool}, answers: [{line}]", *renaming)
        nearest = min(
            (answer for fixture in theirs for answer in fixture.answers),
            key=lambda answer: count_differences(answer, arguments),
        )
        kind = "written" if nearest.written else "recorded"
        arguments_text, file = json.dumps(nearest.arguments, ensure_ascii=False), nearest.file or theirs[0].file
        return (
            f"the nearest answer is {kind}, {file}:{nearest.place}, to {arguments_text}",
            f"add to answers in {file}: - {line}",
        )


def count_differences(answer: FixtureAnswer, arguments: JsonObject) -> int:
    """In how many arguments a call differs from that of an answer."""
    names = answer.arguments.keys() | arguments.keys()
    absent = object()
    return sum(answer.arguments.get(name, absent) != arguments.get(name, absent) for name in names)


def convert_reply(call: Call, recorded: Call, outcome: Outcome) -> Outcome | None:
    """Return a recorded reply in the form in which `call` asks for it; None where it cannot be told so."""
    reply = encode.retell(call, recorded, outcome)
    if reply is not outcome or not isinstance(outcome, HttpReply):
        return reply
    now, then = READER.read_call(call).dialect, READER.read_call(recorded).dialect
    return outcome if now == then or outcome.status >= 400 else None
