"""The frozen answers of a case's tools: one readable file for each, matched on the arguments that count.

    tool: lookup_order
    match: [$.order_id]              # the arguments that count; all of them unless said
    answers:
      - arguments: {order_id: A-1001}
        result: {status: shipped}
        recorded: true
      - arguments: {order_id: A-2002}
        error: {type: builtins.KeyError, message: A-2002}
        written: true
        why: nobody asked for it before

Results are frozen values (`core.serialize`): JSON is itself. Where the same call came again and gave something else,
`then` holds what followed; the last one is given from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.schema.fixtures import FixtureAnswer, FixtureParser
from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.rules import compile_path
from pytest_agentreplay.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.core.model import Failure, Json, JsonObject, ToolReply

__all__ = ["Fixture", "FixtureAnswer", "Fixtures", "of_answers", "one", "plain", "read"]

SUFFIX = ".yaml"
MOST_FILES = 2000


@dataclass(frozen=True, slots=True)
class Fixture:
    """One file: the answers of one tool, told apart by the paths of `match`; by all arguments where there are none."""

    tool: str
    answers: tuple[FixtureAnswer, ...]
    match: tuple[str, ...] = ()
    file: str = ""

    def key(self, arguments: JsonObject) -> str:
        """What of the arguments counts, as a text that is equal where they are."""
        if not self.match:
            return canonical(arguments)
        return canonical([[value for _, value in compile_path(path).find(arguments)] for path in self.match])


@dataclass(frozen=True, slots=True)
class Fixtures:
    """All fixtures of a case. Two answers that fit one call are refused when they are brought together."""

    fixtures: tuple[Fixture, ...] = ()
    _answers: dict[str, list[tuple[Fixture, dict[str, FixtureAnswer]]]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        for fixture in self.fixtures:
            mine: dict[str, FixtureAnswer] = {}
            for answer in fixture.answers:
                known = mine.setdefault(fixture.key(answer.arguments), answer)
                if known is not answer:
                    raise _twice(answer, known)
            self._answers.setdefault(fixture.tool, []).append((fixture, mine))
        for tool, several in self._answers.items():
            if len(several) > 1:
                for fixture, mine in several:
                    for answer in mine.values():
                        self._fitting(tool, answer.arguments, fixture.file)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that have answers."""
        return tuple(self._answers)

    def answer(self, tool: str, arguments: JsonObject) -> FixtureAnswer | None:
        """What `tool` gives for frozen `arguments`; None where no file says it. Raises CaseError where several do."""
        return self._fitting(tool, arguments, "")

    def _fitting(self, tool: str, arguments: JsonObject, file: str) -> FixtureAnswer | None:
        found = [
            answer
            for fixture, answers in self._answers.get(tool, ())
            if (answer := answers.get(fixture.key(arguments))) is not None
        ]
        if len(found) > 1:
            here, other = sorted(found, key=lambda one: one.file != file)[:2]
            raise _twice(here, other)
        return found[0] if found else None

    def fixture(self, answer: FixtureAnswer) -> Fixture | None:
        """The fixture that holds `answer`."""
        return next((one for one in self.fixtures if any(it is answer for it in one.answers)), None)


def _twice(here: FixtureAnswer, other: FixtureAnswer) -> CaseError:
    kinds = " and ".join("written" if one.written else "recorded" for one in (other, here))
    where = f"{other.file}:{other.place} has the other"
    what = f"two answers ({kinds}) fit the same call: {where}; let `match` tell them apart"
    return CaseError(what, file=here.file, place=here.place)


def read(files: Mapping[str, bytes]) -> Fixtures:
    """The fixtures in `files`, by name as shown to people. Raises CaseError."""
    if len(files) > MOST_FILES:
        raise CaseError(f"more than {MOST_FILES:,} fixtures are not read", file=min(files))
    return Fixtures(tuple(one(data, file=name) for name, data in sorted(files.items())))


def one(data: bytes, *, file: str) -> Fixture:
    """The fixture that a file holds. Raises CaseError with file, line and column."""
    tool, match, answers = FixtureParser(data, file).fixture()
    return Fixture(tool, answers, match, file)


def of_answers(tool: str, given: Iterable[tuple[JsonObject, ToolReply | Failure]]) -> Fixture:
    """The fixture of recorded calls of a tool, in order; calls that were made again give their outcomes in turn."""
    told: dict[str, tuple[JsonObject, list[Any]]] = {}
    for arguments, outcome in given:
        told.setdefault(canonical(arguments), (arguments, []))[1].append(outcome)
    return Fixture(tool, tuple(FixtureAnswer(arguments, _turns(outcomes)) for arguments, outcomes in told.values()))


def _turns(outcomes: list[Any]) -> tuple[Any, ...]:
    """Outcomes without repeats of the last one, which is given for ever."""
    while len(outcomes) > 1 and outcomes[-1] == outcomes[-2]:
        outcomes = outcomes[:-1]
    return tuple(outcomes)


def plain(value: Json) -> bool:
    """Whether a value is JSON all through, and no class of Python's."""
    match value:
        case dict():
            return not any(name.startswith("$") for name in value) and all(map(plain, value.values()))
        case list():
            return all(map(plain, value))
        case _:
            return True
