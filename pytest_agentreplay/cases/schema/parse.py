"""Reading `case.yaml`: data into a `Case`, or every complaint about it at once, each with its line and column.

    form_model, form_checks   the keys and their types, and the JSON Schema that is made of them
    words.wanting             what a word of the vocabulary cannot want
    form_making               the case of a file that holds no mistake
    form_telling              what people are told

A case is data. Nothing of it is run, opened or looked up when it is read. Unknown keys are errors, but for those that
begin with "x-", and those of a newer minor form, which are left aside with a note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.case import HALVES, Check
from pytest_agentreplay.cases.checks import WORDS, invalid, no_word
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.cases.schema.build import keys, made
from pytest_agentreplay.cases.schema.errors import known_at, plain_path, said_of, shown, unknown
from pytest_agentreplay.codec import strict_yaml
from pytest_agentreplay.core import tolerance
from pytest_agentreplay.core.rules import compile_path
from pytest_agentreplay.errors import CaseError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case, Half
    from pytest_agentreplay.codec.strict_yaml import Document
    from pytest_agentreplay.core.rules import Place

MOST_TOLD = 8
MOST_LOOKED_AT = 100
"""Complaints of one kind; nobody reads more, and a stranger's file may hold a thousand times that."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What collection needs of a case: no more of the file is looked at. What is not of its type counts as not said."""

    id: str = ""
    expect: str = "reproduces"
    labels: tuple[str, ...] = ()
    halves: tuple[Half, ...] = ()
    title: str = ""
    reason: str = ""


def headline(data: bytes, *, file: str = "case.yaml") -> Headline:
    """The headline of a case file. Raises CaseError for what is no YAML, or not that of a case."""
    value = strict_yaml.load(data, file=file, error=CaseError).value
    if not isinstance(value, dict):
        raise CaseError(NO_CASE, file=file, place="1:1")
    labels, cold = value.get("labels"), value.get("cold")
    return Headline(
        id=_text(value.get("id")),
        expect=_text(value.get("expect")) or "reproduces",
        labels=tuple(one for one in labels if isinstance(one, str)) if isinstance(labels, list) else (),
        halves=tuple(half for half in HALVES if value.get(half) or (half == "desired" and value.get("semantic"))),
        title=_text(value.get("title")),
        reason=_text(cold.get("reason")) if isinstance(cold, dict) else "",
    )


NO_CASE = 'a case is keys and values, the first of them schemaVersion: "1.0"'


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read(data: bytes, *, file: str, folder: Path, words: Collection[str] | None = ()) -> Case:
    """The case that a file holds. Raises CaseError with every complaint, the first one's place in front.

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
        """The case. Raises CaseError."""
        value = self._document.value
        if not isinstance(value, dict):
            raise self._error([((), NO_CASE)])
        self._check_version(value)
        kinds = (self._of_the_model(value), self._of_the_words(value), self._of_the_whole(value))
        complaints = [one for kind in kinds for one in islice(kind, MOST_LOOKED_AT)]
        if complaints:
            raise self._error(complaints)
        case = made(value, self._file, folder)
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
        version = value.get("schemaVersion")
        if version is None:
            raise self._error([((), 'says no version: begin with schemaVersion: "1.0"')])
        if not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,6}\.[0-9]{1,6}", version, re.ASCII):
            raise self._error([(("schemaVersion",), 'a version is text like "1.0", in quotes')])
        major, minor = map(int, version.split("."))
        if major != 1:
            newer = major > 1
            what = "pip install --upgrade frozen-agentreplay" if newer else f'write schemaVersion: "{model.VERSION}"'
            raise self._error(
                [(("schemaVersion",), f"is a case of form {version}, and this release reads 1.x: {what}")]
            )
        self._newer = minor > int(model.VERSION.partition(".")[2])

    def _of_the_model(self, value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
        from pydantic import ValidationError

        try:
            model.model().model_validate({k: v for k, v in value.items() if not k.startswith(model.EXTRA)})
        except ValidationError as wrong:
            for one in islice(wrong.errors(include_url=False), MOST_LOOKED_AT):
                path = plain_path(one["loc"])
                if one["type"] != "extra_forbidden":
                    yield path[:-1] if one["type"] == "missing" else path, said_of(one, path)
                elif self._newer:
                    self._aside.append(shown(path))
                else:
                    yield path, unknown(path, known_at(path))

    def _of_the_words(self, value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
        for half in HALVES:
            items = value.get(half)
            for at, item in enumerate(items if isinstance(items, list) else ()):
                if not isinstance(item, dict):
                    continue  # the model has said so
                if len(item) != 1:
                    yield (
                        (half, at),
                        f"a check is one word and what it wants, and here are {len(item)}: one line with - each",
                    )
                for word in item:
                    if word not in WORDS and self._words is not None and word not in self._words and not self._newer:
                        yield (half, at, word), no_word(word, self._words)

    def _of_the_whole(self, value: dict[str, Any]) -> Iterator[tuple[Place, str]]:
        """What no type says; asked of what is of its type alone."""
        for half in HALVES:
            for at, item in enumerate(_items(value.get(half))):
                for word, wanted in (item if isinstance(item, dict) else {}).items():
                    yield from _asked((half, at, word), word, wanted)
        expect, cold = value.get("expect", "reproduces"), value.get("cold")
        if (expect == "cold") != (cold is not None):
            yield (
                ("expect",) if cold is None else ("cold",),
                "expect: cold and cold: {reason, missing} stand together, or neither does",
            )
        if (file := _text(keys(value.get("source")).get("file"))) in {".", ".."}:
            yield ("source", "file"), f"{file} is no file of the folder"
        for at, path in enumerate(_items(keys(value.get("matching")).get("ignore"))):
            yield from _refused(("matching", "ignore", at), compile_path, path)
        for place, how in keys(value.get("tolerance")).items():
            if isinstance(how, str | int | float) and not isinstance(how, bool):
                yield from _refused(("tolerance", place), tolerance.parse, place, str(how), "arguments")

    def _checks(self, value: dict[str, Any], half: Half) -> tuple[Check, ...]:
        places = self._document.places
        return tuple(
            Check(word, wanted, places.get((half, at, word), ""))
            for at, item in enumerate(value.get(half) or ())
            for word, wanted in item.items()
        )

    def _error(self, complaints: list[tuple[Place, str]]) -> CaseError:
        """One error for all of them, in the order of the file."""
        placed = sorted(
            {(self._place(path), what) for path, what in complaints}, key=lambda one: (_order(one[0]), one[1])
        )
        (place, first), *others = placed
        told = [f"{where}: {what}" if where else what for where, what in others[: MOST_TOLD - 1]]
        more = len(others) + 1 - MOST_TOLD
        message = "; ".join([first, *told, *([f"and {more} more"] if more > 0 else [])])
        return CaseError(message, file=self._file, place=place)

    def _place(self, path: Place) -> str:
        while path and path not in self._document.places:
            path = path[:-1]
        return self._document.places.get(path, "")


def _asked(place: Place, word: str, wanted: Any) -> Iterator[tuple[Place, str]]:
    """What a word cannot want; nothing where the model has refused its types already."""
    try:
        found = [*invalid.wrong(word, wanted)] if word in WORDS else []
    except (TypeError, AttributeError, KeyError):
        return
    for path, what in found:
        yield (*place, *path), f"{shown((word, *path))}: {what}"


def _refused(place: Place, take: Any, *given: Any) -> Iterator[tuple[Place, str]]:
    if not all(isinstance(one, str) for one in given):
        return
    try:
        take(*given)
    except SettingsError as error:
        yield place, str(error)


def _order(place: str) -> tuple[int, ...]:
    return tuple(map(int, place.split(":"))) if place else ()


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
