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

Results are frozen values (`values`): JSON is itself. Where the same call came again and gave something else,
`then` holds what followed; the last one is given from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CaseError, SettingsError
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.codec.strict_yaml import suggest_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.json_paths import Place

KEYS = ("tool", "match", "answers")
OUTCOMES = ("result", "json", "items", "error")
ANSWER = ("arguments", *OUTCOMES, "then", "recorded", "written", "why")
ERROR = ("type", "message", "args", "bases")


@dataclass(frozen=True, slots=True)
class FixtureAnswer:
    """What a tool gives for arguments: `outcomes` one after another, the last for ever.

    `written` says that a person wrote it, and `why`; else it was recorded. `place` is line:column in `file`.
    """

    arguments: JsonObject
    outcomes: tuple[ToolReply | Failure, ...]
    written: bool = False
    why: str = ""
    file: str = ""
    place: str = ""

    def outcome(self, nth: int = 0) -> ToolReply | Failure:
        """Return what is given for the `nth` such call, counted from 0."""
        return self.outcomes[min(nth, len(self.outcomes) - 1)]


class FixtureParser:
    """One pass over a fixture file."""

    def __init__(self, data: bytes, file: str) -> None:
        """`file` as errors show it. Raises CaseError for what is no YAML that we take."""
        self._file = file
        self._document = strict_yaml.load(data, file=file, error=CaseError)

    def fixture(self) -> Fixture:
        """Return the fixture. Raises CaseError."""
        fields = self._keys((), self._document.value, KEYS, "a fixture")
        tool = fields.get("tool")
        if not isinstance(tool, str) or not tool:
            raise self._make_error(("tool",), "tool is the name of the tool")
        match = tuple(self._paths(fields.get("match", [])))
        answers = fields.get("answers")
        if not isinstance(answers, list) or not answers:
            raise self._make_error(("answers",), "answers is a list: one line with - for each")
        every = tuple(self._answer(("answers", at), it) for at, it in enumerate(answers))
        return Fixture(tool, every, match, self._file)

    def _paths(self, value: Any) -> Iterator[str]:
        if not isinstance(value, list):
            raise self._make_error(("match",), "match is a list of the arguments that count, like [$.order_id]")
        for at, path in enumerate(value):
            try:
                steps = compile_path(path).steps if isinstance(path, str) else ()
            except SettingsError as error:
                raise self._make_error(("match", at), str(error)) from None
            if not steps or any(step.deep for step in steps):
                raise self._make_error(("match", at), "is the path of an argument, like $.order_id, without `..`")
            yield path

    def _answer(self, place: Place, value: Any) -> FixtureAnswer:
        fields = self._keys(place, value, ANSWER, "an answer")
        arguments = fields.get("arguments", {})
        if not isinstance(arguments, dict):
            raise self._make_error((*place, "arguments"), "arguments are keys and values, by parameter name")
        kinds = [key for key in ("recorded", "written") if fields.get(key) is True]
        if len(kinds) != 1 or any(fields.get(key, True) is not True for key in ("recorded", "written")):
            raise self._make_error(place, "an answer is recorded: true or written: true")
        why = fields.get("why", "")
        if not isinstance(why, str) or (kinds == ["recorded"] and why):
            raise self._make_error((*place, "why"), "why is a text, of a written answer")
        then = fields.get("then", [])
        if not isinstance(then, list):
            raise self._make_error((*place, "then"), "then is a list of what followed: result, items or error each")
        outcomes = [self._outcome(place, fields)]
        for at, it in enumerate(then):
            where = (*place, "then", at)
            outcomes.append(self._outcome(where, self._keys(where, it, OUTCOMES, "then")))
        written = kinds == ["written"]
        return FixtureAnswer(arguments, tuple(outcomes), written, why, self._file, self._document.find_place(place))

    def _outcome(self, place: Place, fields: JsonObject) -> ToolReply | Failure:
        kinds = [key for key in OUTCOMES if key in fields]
        if kinds not in (["result"], ["json"], ["items"], ["error"], ["items", "error"]):
            what = f"here are {' and '.join(kinds)}" if kinds else "here is none"
            raise self._make_error(place, f"an answer has one of result, json, items and error; {what}")
        failure = self._failure((*place, "error"), fields["error"]) if "error" in fields else None
        if "items" in fields:
            items = fields["items"]
            if not isinstance(items, list):
                raise self._make_error((*place, "items"), "items is a list: what a generator gave")
            return ToolReply(None, tuple(items), failure)
        if failure is not None:
            return failure
        if "result" in fields:
            return ToolReply(fields["result"])
        text = fields["json"]
        tree = parse(text) if isinstance(text, str) else text
        if not isinstance(text, str) or isinstance(tree, NotJson):
            raise self._make_error((*place, "json"), "json is a text that is JSON")
        return ToolReply(tree)

    def _failure(self, place: Place, value: Any) -> Failure:
        if isinstance(value, str) and value:
            kind, _, message = value.partition(": ")
            return Failure(kind if "." in kind else f"builtins.{kind}", message, (message,) if message else ())
        fields = self._keys(place, value, ERROR, "error")
        name, about = fields.get("type"), fields.get("message", "")
        if not isinstance(name, str) or not name or not isinstance(about, str):
            raise self._make_error(place, "error is a text like KeyError: 7, or {type, message}")
        arguments, bases = fields.get("args", [about] if about else []), fields.get("bases", [])
        if not isinstance(arguments, list) or not isinstance(bases, list):
            raise self._make_error(place, "args and bases of an error are lists")
        return Failure(name, about, tuple(arguments), tuple(map(str, bases)))

    def _keys(self, place: Place, value: Any, allowed: tuple[str, ...], what: str) -> JsonObject:
        if not isinstance(value, dict):
            raise self._make_error(place, f"{what} is keys and values: {', '.join(allowed)}")
        for key in value:
            if key not in allowed:
                raise self._make_error((*place, key), f"{key!r:.60} is no key of {what}{suggest_word(key, allowed)}")
        return value

    def _make_error(self, path: Place, message: str) -> CaseError:
        return CaseError(message, file=self._file, place=self._document.find_place(path))


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
        """Return what of the arguments counts, as a text that is equal where they are."""
        if not self.match:
            return canonical(arguments)
        return canonical([compile_path(path).list_values(arguments) for path in self.match])


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
                first = mine.setdefault(fixture.key(answer.arguments), answer)
                if first is not answer:
                    raise _twice(answer, first)
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
        fitting = [
            answer
            for fixture, answers in self._answers.get(tool, ())
            if (answer := answers.get(fixture.key(arguments))) is not None
        ]
        if len(fitting) > 1:
            here, other = sorted(fitting, key=lambda candidate: candidate.file != file)[:2]
            raise _twice(here, other)
        return fitting[0] if fitting else None


def _twice(here: FixtureAnswer, other: FixtureAnswer) -> CaseError:
    kinds = " and ".join("written" if answer.written else "recorded" for answer in (other, here))
    where = f"{other.file}:{other.place} has the other"
    what = f"two answers ({kinds}) fit the same call: {where}; let `match` tell them apart"
    return CaseError(what, file=here.file, place=here.place)


def read_fixtures(files: Mapping[str, bytes]) -> Fixtures:
    """Return the fixtures in `files`, by name as shown to people. Raises CaseError."""
    if len(files) > MOST_FILES:
        raise CaseError(f"more than {MOST_FILES:,} fixtures are not read", file=min(files))
    return Fixtures(tuple(read_fixture(data, file=name) for name, data in sorted(files.items())))


def read_fixture(data: bytes, *, file: str) -> Fixture:
    """Return the fixture that a file holds. Raises CaseError with file, line and column."""
    return FixtureParser(data, file).fixture()


def of_answers(tool: str, calls: Iterable[tuple[JsonObject, ToolReply | Failure]]) -> Fixture:
    """The fixture of recorded calls of a tool, in order; calls that were made again give their outcomes in turn."""
    groups: dict[str, tuple[JsonObject, list[Any]]] = {}
    for arguments, outcome in calls:
        groups.setdefault(canonical(arguments), (arguments, []))[1].append(outcome)
    return Fixture(tool, tuple(FixtureAnswer(arguments, _turns(outcomes)) for arguments, outcomes in groups.values()))


def _turns(outcomes: list[Any]) -> tuple[Any, ...]:
    """Outcomes without repeats of the last one, which is given for ever."""
    while len(outcomes) > 1 and outcomes[-1] == outcomes[-2]:
        outcomes = outcomes[:-1]
    return tuple(outcomes)
