"""YAML as people may write it for us: data and nothing else, as JSON has it.

No tags, anchors, aliases, merge keys or directives; one document in UTF-8, of bounded size, depth and number of
values; no key twice. Plain `true`, `false`, `null` and JSON's numbers are what they are, and every other scalar is
text: `no`, `1_000` and `12:30:45` stay as written.

What a policy and a case say of a wrong file is here as well: where it is, which version, the nearest word.

`load_foreign` reads YAML as other tools write it. There an alias stands for what it names, `!!binary` for its bytes,
`!!str` for a text; all else is refused as well. The bounds are wider, and hold for what the aliases amount to, so that
a few lines cannot name a billion values.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from pytest_agentreplay.model.paths import quote_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.model.json_paths import Place

LARGEST = 1 << 20
LONGEST_NUMBER = 40
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")
FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
HINTS = {
    "mapping values are not allowed in this context": "; a text with a colon and a space in it stands in quotes",
    "found character that cannot start any token": "; indent with spaces, and put what begins with @, ` or % in quotes",
    "found character '\\t' that cannot start any token": "; indent with spaces",  # in the words of the pure parser
    "did not find expected key": "; lines of one list or mapping begin in one column",
}
NO_TEXT = re.compile("[\0\ud800-\udfff]")
EMPTY = "is empty"
DAMAGES = (EMPTY, "is no YAML", "is not UTF-8")
"""How a refusal begins of a file that something has happened to; others say what to write instead."""
WORDS = {"true": True, "false": False, "null": None, "": None}


class Refusal(Protocol):
    """The error that a file of one kind is refused with."""

    def __call__(self, message: str, *, file: str, place: str = "") -> Exception:
        """The error; `place` is line:column."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says, and where: line:column of each key and item by its path. `()` is the whole."""

    value: Json
    places: Mapping[Place, str]

    def find_place(self, path: Place) -> str:
        """Return line:column of the value at `path`, else of what is nearest above it; "" for none."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, "")


def load(data: bytes, *, file: str, error: Refusal) -> Document:
    """Return the one document in `data`. Raises `error` for all else, with the line and column."""

    def refuse(message: str, *, file: str, place: str = "") -> Exception:
        if message.startswith(DAMAGES):
            repair = "" if message == EMPTY else "fix this line, or " if place else "fix it, or "
            message += f"; {repair}restore the file: git restore {quote_word(file)}"
        return error(message, file=file, place=place)

    parser = _Parser(file, refuse)
    return Document(parser.parse(_decode(data, file, refuse)), parser.places)


def _decode(data: bytes, file: str, error: Refusal) -> str:
    """Return the text of a file. Raises `error`."""
    if len(data) > LARGEST:
        raise error(f"is larger than {LARGEST:,} bytes", file=file)
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise error("begins with a byte order mark; save it as UTF-8 without one", file=file, place="1:1")
    try:
        text = data.decode()
    except UnicodeDecodeError as wrong:
        raise error("is not UTF-8", file=file, place=_format_end(data[: wrong.start].decode())) from None
    # PyYAML refuses most of these itself, and gives no line and column.
    if (hit := FORBIDDEN.search(text)) is not None:
        what = f"U+{ord(hit[0]):04X} is no character of a text; write it as an escape in quotes, or not at all"
        raise error(what, file=file, place=_format_end(text[: hit.start()]))
    return text


def _format_end(before: str) -> str:
    """Return line:column of what follows a text."""
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


# Events, and no nodes: of a node nobody can tell whether its tag stood in the file, and whether an alias named it.
class _Parser:
    """One pass over the events of one file: nothing is built that would be refused."""

    deepest = 32
    most = 100_000

    def __init__(self, file: str, error: Refusal) -> None:
        """`file` as errors show it."""
        self._file = file
        self._error = error
        self._events: Iterator[Any] = iter(())
        self._count = 0
        self.places: dict[Place, str] = {}

    def parse(self, text: str) -> Json:
        """Return the value of the document that `text` holds."""
        try:
            # Where PyYAML has libyaml, which reads some hundred times as fast: a foreign file may have 64 MB.
            self._events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            next(self._events)  # the stream begins
            first: Any = next(self._events)
            if isinstance(first, yaml.StreamEndEvent):
                raise self._make_error(EMPTY, first)
            if first.version or first.tags:
                raise self._make_error("directives (%YAML, %TAG) are not taken", first)
            value = self._read_value(next(self._events), ())
            next(self._events)  # the document ends
            if not isinstance(after := next(self._events), yaml.StreamEndEvent):
                raise self._make_error("holds more than one document", after)
        except yaml.MarkedYAMLError as wrong:
            mark = wrong.problem_mark or wrong.context_mark
            place = f"{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
            hint = HINTS.get(str(wrong.problem), "")
            raise self._error(f"is no YAML: {wrong.problem}{hint}", file=self._file, place=place) from None
        # A reader's error, or an escape beyond Unicode.
        except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
            raise self._error("is no YAML that can be read", file=self._file) from None
        return value

    def _read_value(self, event: Any, path: Place) -> Json:
        self._check(event)
        if len(path) >= self.deepest:
            raise self._make_error(f"is nested deeper than {self.deepest}", event)
        self._add_values(1, event)
        self._keep_place(path, event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._read_mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Json] = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                items.append(self._read_value(inner, (*path, len(items))))
            return items
        return self._read_scalar(event, self._read_text(event))

    def _read_mapping(self, path: Place) -> dict[str, Json]:
        mapping: dict[str, Json] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                raise self._make_error("a key must be text", event)
            self._check(event)
            key = self._read_text(event)
            if not event.style and key == "<<":
                raise self._make_error("merge keys (<<) are not taken; write what is meant", event)
            if not event.style and key == "":
                raise self._make_error("a key is missing", event)
            if key in mapping:
                raise self._make_error(f"the key {key!r:.60} stands here twice", event)
            self._keep_place((*path, key), event)
            mapping[key] = self._read_value(next(self._events), (*path, key))
        return mapping

    def _keep_place(self, path: Place, event: Any) -> None:
        """Keep where a key or an item stands; of an entry that is where its key stands, which comes first."""
        self.places.setdefault(path, _format_place(event))

    def _check(self, event: Any) -> None:
        """Refuse what gives a value another meaning than its text has."""
        if isinstance(event, yaml.AliasEvent):
            raise self._make_error("aliases (*name) are not taken; write what is meant", event)
        if event.anchor is not None:
            raise self._make_error("anchors (&name) are not taken; write what is meant where it is meant", event)
        if event.tag is not None:
            raise self._make_error(f"tags are not taken, and {event.tag!r:.60} is one", event)

    def _add_values(self, size: int, event: Any) -> None:
        self._count += size
        if self._count > self.most:
            raise self._make_error(f"holds more than {self.most:,} values, aliases spelled out", event)

    def _read_scalar(self, event: Any, text: str) -> Json:
        if event.style:
            return text
        if text in WORDS:
            return WORDS[text]
        if (number := NUMBER.fullmatch(text)) is None:
            return text
        if len(text) > LONGEST_NUMBER:  # the time that `int` takes grows with the square of the digits
            raise self._make_error("a number of so many digits is not taken; write it in quotes", event)
        if number["fraction"] is None and number["exponent"] is None:
            return int(text)
        if (value := float(text)) in {float("inf"), float("-inf")}:
            raise self._make_error(f"{text} is beyond any number; write it in quotes", event)
        return value

    def _read_text(self, event: Any) -> str:
        text = str(event.value)
        # An escape in quotes may name them; no file that we write can hold them.
        if (wrong := NO_TEXT.search(text)) is not None:
            raise self._make_error(f"U+{ord(wrong[0]):04X} is no character of a text", event)
        return text

    def _make_error(self, message: str, event: Any) -> Exception:
        return self._error(message, file=self._file, place=_format_place(event))


def _format_place(event: Any) -> str:
    """Return line:column of an event."""
    return f"{event.start_mark.line + 1}:{event.start_mark.column + 1}"


def find_scalars(text: str) -> list[tuple[int, int, str]]:
    """Return start, end and value of each scalar in a YAML text, in its order; none where it is no YAML."""
    try:
        scalars: list[Any] = [e for e in yaml.parse(text, Loader=yaml.SafeLoader) if isinstance(e, yaml.ScalarEvent)]
    except yaml.YAMLError:
        return []
    return [(scalar.start_mark.index, scalar.end_mark.index, scalar.value) for scalar in scalars]


def format_path(path: Iterable[str | int]) -> str:
    """Return a path as people write one: observed[2].output."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def find_version_fault(members: Mapping[str, object], what: str, release: str) -> tuple[Place, str] | None:
    """Return where the `schemaVersion` of a file is wrong, and how; None if its major version is that of `release`.

    `what` stands before the version in the message: "a policy of version".
    """
    version = members.get("schemaVersion")
    if version is None:
        return (), f'says no version: begin with schemaVersion: "{release}"'
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,6}\.[0-9]{1,6}", version, re.ASCII):
        return ("schemaVersion",), f'a version is text like "{release}", in quotes'
    ours, theirs = (int(text.partition(".")[0]) for text in (release, version))
    if ours == theirs:
        return None
    advice = "pip install --upgrade frozen-agentreplay" if theirs > ours else f'write schemaVersion: "{release}"'
    return ("schemaVersion",), f"is {what} {version}, and this release reads {ours}.x: {advice}"


def suggest_word(word: object, words: Iterable[str]) -> str:
    """Return the end of a message about a word that nobody knows: the most similar one, else all that there are."""
    choices = [*words]
    return suggest_similar(word, choices) or (f": it is one of {', '.join(choices)}" if choices else "")


def suggest_similar(word: object, words: Iterable[str]) -> str:
    """Return the end of a message about a word that nobody knows: the most similar one, "" if none is."""
    from difflib import get_close_matches

    close = get_close_matches(str(word), [*words], n=1)
    return f": did you mean {close[0]}?" if close else ""


FOREIGN_LARGEST = 64 << 20
"""Characters of a file; a recording of a day of calls has a tenth of it."""
_UNSIGNED = re.compile("-?[0-9.]+[eE][0-9]+")
"""Every writer signs the exponent of a number; PyYAML (6.0, `resolver.py`) writes the text "1e5" without quotes."""

_TAG = "tag:yaml.org,2002:"
_BINARY = f"{_TAG}binary"
_TEXT_TAGS = {f"{_TAG}str", f"{_TAG}python/unicode", f"{_TAG}python/str"}
# vcrpy writes the body of a request that was an open file as a BytesIO, with its bytes in a tuple, `state`.
_PLAIN_TAGS = {None, f"{_TAG}map", f"{_TAG}seq", "!", f"{_TAG}python/tuple", f"{_TAG}python/object/new:_io.BytesIO"}


def load_foreign(text: str, *, file: str, error: Refusal) -> Json:
    """Return the one document in `text`. Raises `error`.

    Bytes are texts whose surrogates stand for what is no UTF-8: `text.encode("utf-8", "surrogateescape")` has them
    back. No other text has any.
    """
    if len(text) > FOREIGN_LARGEST:
        raise error(f"is larger than {FOREIGN_LARGEST:,} characters", file=file)
    return _ForeignParser(file, error).parse(text)


class _ForeignParser(_Parser):
    """One pass over the events of a file that another tool wrote."""

    deepest = 64
    most = 500_000

    def __init__(self, file: str, error: Refusal) -> None:
        super().__init__(file, error)
        self._anchors: dict[str, tuple[Json, int]] = {}

    def _read_value(self, event: Any, path: Place) -> Json:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._make_error(f"*{event.anchor:.60} names nothing before it", event)
            value, size = self._anchors[event.anchor]
            self._add_values(size, event)
            return value
        before = self._count
        value = super()._read_value(event, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - before
        return value

    def _check(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise self._make_error("an alias is no key", event)
        if event.tag not in _TEXT_TAGS | _PLAIN_TAGS | {_BINARY}:
            raise self._make_error(f"holds the tag {event.tag!r:.60}, and only !!binary and !!str are taken", event)

    def _keep_place(self, path: Place, event: Any) -> None:
        """Keep nothing: no error names the place of a value in a file that another tool wrote."""

    def _read_scalar(self, event: Any, text: str) -> Json:
        if event.tag == _BINARY:
            try:
                return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "surrogateescape")
            except (binascii.Error, ValueError):
                raise self._make_error("this !!binary is no base64", event) from None
        if event.tag in _TEXT_TAGS or (not event.style and _UNSIGNED.fullmatch(text)):
            return text
        return None if text == "~" and not event.style else super()._read_scalar(event, text)
