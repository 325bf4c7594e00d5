"""Reading `case.yaml`: data into a `Case`, or every complaint about it at once, each with its line and column.

    model                  the keys and their types, and the JSON Schema that is made of them
    judging.find_faults    what a word of the vocabulary cannot want

A case is data. Nothing of it is run, opened or looked up when it is read. Unknown keys are errors, but for those that
begin with "x-", and those of a newer minor form, which are left aside with a note.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.perturbation import OPERATORS, read_perturbation
from pytest_agentreplay.cases.case import DEFAULT_SERVING, LIST_NAMES, Case, CaseSource, Check, ServingPolicy
from pytest_agentreplay.cases.judging import WORDS, find_faults, no_word
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.compare import tolerance
from pytest_agentreplay.errors import CaseError, SettingsError
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.providers.lenient import arr, string
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.codec.strict_yaml import (
    find_version_fault,
    format_path,
    suggest_similar,
    suggest_word,
)
from pytest_agentreplay.snapshots.kit import texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from pytest_agentreplay.cases.case import ListName
    from pytest_agentreplay.model.json_paths import Place
    from pytest_agentreplay.snapshots.codec.strict_yaml import Document

MOST_TOLD = 8
MOST_LOOKED_AT = 100
"""Complaints of one kind; nobody reads more, and a stranger's file may hold a thousand times that."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What collection needs of a case: no more of the file is looked at. What is not of its type counts as not said."""

    id: str = ""
    expect: str = "reproduces"
    labels: tuple[str, ...] = ()
    title: str = ""
    reason: str = ""
    base: str = ""


def headline(data: bytes, *, file: str = "case.yaml") -> Headline:
    """Return the headline of a case file. Raises CaseError for what is no YAML, or not that of a case."""
    value = strict_yaml.load(data, file=file, error=CaseError).value
    if not isinstance(value, dict):
        raise CaseError(NO_CASE, file=file, place="1:1")
    return Headline(
        id=string(value.get("id")),
        expect=string(value.get("expect")) or "reproduces",
        labels=tuple(texts(value.get("labels"))),
        title=string(value.get("title")),
        base=string(value.get("base")),
        reason=string(keys(value.get("cold")).get("reason")),
    )


NO_CASE = 'a case is keys and values, the first of them schemaVersion: "1.0"'


def read_case(data: bytes, *, file: str, folder: Path, words: Collection[str] | None = ()) -> Case:
    """Return the case that a file holds. Raises CaseError with every complaint, the first one's place in front.

    `words` are those that other packages add to the vocabulary; None takes any, for whoever does not judge.
    """
    document = strict_yaml.load(data, file=file, error=CaseError)
    return CaseParser(document, file, words).case(folder)


class CaseParser:
    """One pass over a case file."""

    def __init__(self, document: Document, file: str, words: Collection[str] | None) -> None:
        """`file` as errors show it."""
        self._document = document
        self._file = file
        self._words = words
        self._newer = False
        self._aside: list[str] = []

    def case(self, folder: Path) -> Case:
        """Return the case. Raises CaseError."""
        value = self._document.value
        if not isinstance(value, dict):
            raise self._error([((), NO_CASE)])
        self._check_version(value)
        kinds = (self._of_the_model(value), self._of_the_words(value), self._of_the_whole(value))
        complaints = [complaint for kind in kinds for complaint in islice(kind, MOST_LOOKED_AT)]
        if complaints:
            raise self._error(complaints)
        case = make_case(value, self._file, folder)
        places = {path: place for path, place in self._document.places.items() if len(path) < 4}
        note = f"is of form {value['schemaVersion']}, and this release reads {model.VERSION}"
        left = f"; left aside: {', '.join(sorted(self._aside))}" if self._aside else ""
        notes = (f"{self._file}: {note}{left}",) if self._newer else ()
        return replace(
            case,
            observed=self._checks(value, "observed"),
            desired=self._checks(value, "desired"),
            places=places,
            notes=notes,
        )

    def _check_version(self, value: dict[str, Any]) -> None:
        if (fault := find_version_fault(value, "a case of form", model.VERSION)) is not None:
            raise self._error([fault])
        minor, ours = (int(text.partition(".")[2]) for text in (value["schemaVersion"], model.VERSION))
        self._newer = minor > ours

    def _of_the_model(self, value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
        from pydantic import ValidationError

        try:
            model.model().model_validate({k: v for k, v in value.items() if not k.startswith(model.EXTRA)})
        except ValidationError as wrong:
            for error in islice(wrong.errors(include_url=False), MOST_LOOKED_AT):
                path = plain_path(error["loc"])
                if error["type"] != "extra_forbidden":
                    yield path[:-1] if error["type"] == "missing" else path, said_of(error, path)
                elif self._newer:
                    self._aside.append(format_path(path))
                else:
                    yield path, unknown(path, list_keys_at(path))

    def _of_the_words(self, value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
        for list_name in LIST_NAMES:
            for at, item in enumerate(arr(value.get(list_name))):
                if not isinstance(item, dict):
                    continue  # the model has said so
                if len(item) != 1:
                    yield (
                        (list_name, at),
                        f"a check is one word and what it wants, and here are {len(item)}: one line with - each",
                    )
                for word in item:
                    if word not in WORDS and self._words is not None and word not in self._words and not self._newer:
                        yield (list_name, at, word), no_word(word, self._words)

    def _of_the_whole(self, value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
        """Yield what no type says; asked of what is of its type alone."""
        for list_name in LIST_NAMES:
            for at, item in enumerate(arr(value.get(list_name))):
                for word, expectation in (item if isinstance(item, dict) else {}).items():
                    yield from _find_word_faults((list_name, at, word), word, expectation)
        expect, cold = value.get("expect", "reproduces"), value.get("cold")
        if (expect == "cold") != (cold is not None):
            yield (
                ("expect",) if cold is None else ("cold",),
                "expect: cold and cold: {reason, missing} stand together, or neither does",
            )
        if bool(value.get("base")) != bool(value.get("perturb")):
            yield ("base",) if value.get("base") else ("perturb",), "base and perturb stand together, or neither does"
        for at, item in enumerate(arr(value.get("perturb"))):
            operator = string(keys(item).get("operator"))
            if operator and operator not in OPERATORS:
                hint = suggest_word(operator, [*OPERATORS])
                yield ("perturb", at, "operator"), f"there is no operator {operator!r:.60}{hint}"
        if (file := string(keys(value.get("source")).get("file"))) in {".", ".."}:
            yield ("source", "file"), f"{file} is no file of the folder"
        for at, path in enumerate(arr(keys(value.get("matching")).get("ignore"))):
            yield from _find_refusal(("matching", "ignore", at), compile_path, path)
        for place, how in keys(value.get("tolerance")).items():
            if isinstance(how, str | int | float) and not isinstance(how, bool):
                yield from _find_refusal(("tolerance", place), tolerance.parse, place, str(how), "arguments")

    def _checks(self, value: dict[str, Any], list_name: ListName) -> tuple[Check, ...]:
        places = self._document.places
        return tuple(
            Check(word, expectation, places.get((list_name, at, word), ""))
            for at, item in enumerate(value.get(list_name) or ())
            for word, expectation in item.items()
        )

    def _error(self, complaints: list[tuple[Place, str]]) -> CaseError:
        """One error for all of them, in the order of the file."""
        placed = sorted(
            {(self._document.find_place(path), what) for path, what in complaints},
            key=lambda pair: ([*map(int, filter(None, pair[0].split(":")))], pair[1]),
        )
        (place, first), *others = placed
        lines = [f"{where}: {what}" if where else what for where, what in others[: MOST_TOLD - 1]]
        more = len(others) + 1 - MOST_TOLD
        message = "; ".join([first, *lines, *([f"and {more} more"] if more > 0 else [])])
        return CaseError(message, file=self._file, place=place)


def _find_word_faults(place: Place, word: str, expectation: Any) -> Iterator[tuple[Place, str]]:
    """Yield what a word cannot want; nothing where the model has refused its types already."""
    try:
        faults = [*find_faults(word, expectation)] if word in WORDS else []
    except (TypeError, AttributeError, KeyError):
        return
    for path, what in faults:
        yield (*place, *path), f"{format_path((word, *path))}: {what}"


def _find_refusal(place: Place, take: Any, *arguments: Any) -> Iterator[tuple[Place, str]]:
    if not all(isinstance(argument, str) for argument in arguments):
        return
    try:
        take(*arguments)
    except SettingsError as error:
        yield place, str(error)


def make_case(value: dict[str, Any], file: str, folder: Path) -> Case:
    """Return the case of a file that holds no mistake, without its checks."""
    source, matching, cold = (keys(value.get(key)) for key in ("source", "matching", "cold"))
    fields = {
        name: source[name] for name in ("format", "version", "file", "id", "fidelity", "imported") if name in source
    }
    runner = value.get("runner")
    return Case(
        file=file,
        folder=folder,
        id=value["id"],
        title=value.get("title", ""),
        source=CaseSource(**fields, losses=tuple(source.get("losses", ()))),
        input=value.get("input"),
        runners={name: it for name in LIST_NAMES if isinstance(it := keys(runner).get(name, runner), str)},
        semantic=tuple(value.get("semantic", ())),
        expect=value.get("expect", "reproduces"),
        serving={list_name: serving(list_name, keys(value.get("serve")).get(list_name)) for list_name in LIST_NAMES},
        ignore=tuple(matching.get("ignore", ())),
        order=matching.get("order", "auto"),
        tolerance={place: str(how) for place, how in keys(value.get("tolerance")).items()},
        labels=tuple(value.get("labels", ())),
        links=tuple(value.get("links", ())),
        base=value.get("base") or "",
        perturb=tuple(map(read_perturbation, value.get("perturb", ()))),
        missing=tuple(cold.get("missing", ())),
        reason=cold.get("reason", ""),
        extras={key: it for key, it in value.items() if key.startswith(model.EXTRA)},
    )


def serving(list_name: ListName, service: Any) -> ServingPolicy:
    """Return how the agent is served for a list of checks: a word for all calls or for each kind, else its default."""
    if isinstance(service, str):
        return ServingPolicy(service, service, service)  # type: ignore[arg-type]  # the model knows the words
    return replace(DEFAULT_SERVING[list_name], **keys(service))


def keys(value: Any) -> dict[str, Any]:
    """Return the keys and values of what should be a mapping; none of what is not."""
    return value if isinstance(value, dict) else {}


SAID = {
    "bool_type": "is true or false",
    "string_type": "is text; put it in quotes",
    "int_type": "is a whole number",
    "float_type": "is a number",
    "finite_number": "is a number",
    "list_type": "is a list: one line with - for each",
    "dict_type": "is keys and values",
    "model_type": "is keys and values",
    "model_attributes_type": "is keys and values",
    "too_long": "holds too many",
    "too_short": "is empty",
    "string_too_long": "is too long",
    "string_too_short": "is empty",
    "greater_than_equal": "is not less than 0",
}
PATTERNS = {
    model.LINE: "is one line, without control characters",
    model.ID: "is the name of the folder: letters, digits, . _ and -, at most 100",
    model.FILE_NAME: "is the name of a file beside this one, without a path",
    model.LINK: "is a link: https://...",
}


def plain_path(loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return a place as the file has it, without the marks of the model."""
    return tuple(part for part in loc if part not in model.TAGS and part != "[key]")


def said_of(wrong: Any, path: tuple[str | int, ...]) -> str:
    """Return what pydantic has found, in our words."""
    kind, context = wrong["type"], wrong.get("ctx", {})
    match kind:
        case "missing":
            return f"{format_path(path[:-1]) or 'a case'} needs {path[-1]}"
        case "literal_error":
            choices = str(context.get("expected", "")).replace("'", "")
            value = wrong["input"] if isinstance(wrong["input"], str | int | float | bool) else "something else"
            similar = suggest_similar(value, choices.replace(" or ", ", ").split(", "))
            return f"{format_path(path)} is {choices}, not {value!s:.60}{similar}"
        case "string_pattern_mismatch":
            return f"{format_path(path)} {PATTERNS.get(context.get('pattern', ''), 'is written another way')}"
        case "union_tag_invalid":
            words = {"(text)": "text", "(keys)": "keys and values", "(number)": "a number", "(list)": "a list"}
            tags = [words[tag] for tag in model.TAGS if f"'{tag}'" in str(context.get("expected_tags", ""))]
            return f"{format_path(path)} is {' or '.join(tags)}"
    return f"{format_path(path)} {SAID.get(kind, str(wrong['msg']))}"


def unknown(path: tuple[str | int, ...], keys_there: Sequence[str]) -> str:
    """Return the message about a key that nobody knows."""
    hint = suggest_word(path[-1], keys_there)
    if len(path) == 1:
        return f"{path[-1]!r:.60} is no key of a case{hint}; your own begin with {model.EXTRA}"
    return f"{path[-1]!r:.60} is no key of {format_path(path[:-1])}{hint}"


def list_keys_at(path: tuple[str | int, ...]) -> list[str]:
    """Return the keys that may stand where `path` leads, as the schema has them."""
    tree = model.schema()
    here: list[dict[str, Any]] = [tree]
    for part in path[:-1]:
        step = "items" if isinstance(part, int) else str(part)
        here = [
            inner
            for node in here
            for variant in _variants(node, tree)
            if (inner := variant.get("items") if step == "items" else _find_member(variant, step)) is not None
        ]
    return [key for node in here for variant in _variants(node, tree) for key in variant.get("properties", {})]


def _find_member(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    member = node.get("properties", {}).get(name, node.get("additionalProperties"))
    return member if isinstance(member, dict) else None


def _variants(node: dict[str, Any], tree: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema with what it refers to, or each of several."""
    if "$ref" in node:
        return _variants(tree["$defs"][node["$ref"].rpartition("/")[2]], tree)
    several = node.get("oneOf") or node.get("anyOf") or node.get("allOf")  # the last one by old releases of pydantic
    return [variant for part in several for variant in _variants(part, tree)] if several else [node]
