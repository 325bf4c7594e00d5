"""Records in what tools gave: objects that say whose they are, at any depth, also in texts.

In plain text they are lines of names and values, tables (Markdown, CSV), XML. Read is only a text in which the name of
the identity stands, and only for tools: what people write in prose is no list. Names are one whatever their case,
spaces and dashes look like: `User ID` is `user_id`.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.parsers import expat

from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.model.path_parsing import compile_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST_TRIES = 50
"""So many beginnings of JSON are tried in a text that is more than JSON."""
_BEGIN = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Record:
    """One object: whose it is (one identity, or several), and the fields below it that belong to no other record."""

    whose: frozenset[str]
    fields: list[tuple[str, Any]] = field(default_factory=list)
    origin: str = ""


@dataclass(slots=True)
class RecordMatch:
    """The records in a value, and the plain values that belong to none."""

    records: list[Record] = field(default_factory=list)
    loose: list[Any] = field(default_factory=list)


def tail(path: str) -> tuple[str, ...]:
    """The names at the end of a path, which lead from a record to whose it is: `$.orders[*].user.id` -> user, id."""
    names: list[str] = []
    for step in reversed(compile_path(path).steps):
        if not isinstance(step.want, str):
            break
        names.insert(0, step.want)
    return tuple(names)


def records(value: Any, way: tuple[str, ...], origin: str = "", *, lists: bool = False) -> RecordMatch:
    """Return the records in `value`: objects from which `way` leads to an identity.

    With `lists` those in plain texts too: lines of names and values, tables, XML.
    """
    match = RecordMatch()
    waiting: list[tuple[str, Any, Record | None]] = [("", value, None)]
    while waiting:
        name, node, owner = waiting.pop()
        match node:
            case dict():
                if whose := identities(node, way):
                    owner = Record(whose, origin=origin)
                    match.records.append(owner)
                waiting += [(str(key), it, owner) for key, it in reversed(node.items())]
            case list() | tuple() | set() | frozenset():
                waiting += [(name, it, owner) for it in reversed([*node])]
            case str() if "{" in node and (inner := objects_in(node)):
                waiting += [(name, it, owner) for it in reversed(inner)]
            case str() if lists and (rows := read_rows(node, way)):
                waiting += [(name, it, owner) for it in reversed(rows)]
            case None | bool():
                pass
            case _ if owner is not None:
                owner.fields.append((name, node))
            case _:
                match.loose.append(node)
    match.records.sort(key=lambda record: record.origin)
    return match


def identities(node: dict[Any, Any], way: Iterable[str]) -> frozenset[str]:
    """Whose an object is; empty where it does not say."""
    here: Any = node
    for name in way:
        here = here.get(name) if isinstance(here, dict) else None
    every = here if isinstance(here, list | tuple) else [here]
    return frozenset(
        fold_identity(identity)
        for identity in every
        if isinstance(identity, str | int) and not isinstance(identity, bool) and identity != ""
    )


def fold_identity(identity: object) -> str:
    """Return an identity as it is compared: 7 and "7" are one."""
    return str(identity).strip().casefold()


def objects_in(text: str) -> list[Any]:
    """Return the JSON objects and lists in a text: the text itself, or what stands among other words."""
    tree = parse(text)
    if not isinstance(tree, NotJson):
        return [tree] if isinstance(tree, dict | list) else []
    return [*_among(text)]


def _among(text: str) -> Iterator[Any]:
    at = tries = 0
    while tries < MOST_TRIES and (begin := _BEGIN.search(text, at)) is not None:
        tries += 1
        try:
            value, at = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            at = begin.end()
            continue
        if value:
            yield value


LARGEST, WIDEST = 1 << 18, 2000
"""Characters of a text that is looked at, and of a line of pairs."""
DEEPEST = 50
"""Elements that stand in each other."""
PAIR = re.compile(r"""[\s>*\u2022"'`-]*(?:([A-Za-z][\w .-]{0,40}?)["'*`]*\s*[:=]["'*`]*\s+(\S.*)|(\w+)=(\S.*))""")
NEXT = re.compile(r"[,;|]\s+(?=[A-Za-z][\w .-]{0,40}[:=])")
RULE = re.compile(r"\|?(?:\s*:?-+:?\s*[|+])*(?:\s*:?-+:?)?")
AROUND = " \t\"'`*,;"

Row: TypeAlias = "dict[str, Any]"


def read_rows(text: str, way: Sequence[str]) -> list[Row]:
    """Return the records in `text`, of which at least one says whose it is; none where that is no list that we know."""
    name = key("_".join(way))
    if len(text) > LARGEST or name not in key(text):
        return []
    if (root := marked_up(text, {name: way[-1]})) is not None:
        return [root]
    for rows in (tables(text, name), pairs(text)):
        named_rows = [place_identity(row, way, name) for row in rows]
        if any(way[0] in row for row in named_rows):
            return named_rows
    return []


def key(name: str) -> str:
    """Return a name as it is compared."""
    return re.sub(r"[\s.-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip(AROUND))).lower()


def place_identity(row: Row, way: Sequence[str], identity_name: str) -> Row:
    """Return a row in which the identity stands where `way` leads to."""
    if not (whose := row.get(identity_name)):
        return row
    whose = whose.partition(" (")[0].strip(f"{AROUND}.")
    for step in reversed(way[1:]):
        whose = {step: whose}
    return {way[0]: whose, **{name: it for name, it in row.items() if name != identity_name}}


def pairs(text: str) -> Iterator[Row]:
    """A record for each block of lines `name: value`; another begins at an empty line, and where a name comes again."""
    row: Row = {}
    for line in [*text.splitlines(), ""]:
        parts = NEXT.split(line) if len(line) <= WIDEST and (":" in line or "=" in line) else []
        matches = [pair for part in parts if (pair := PAIR.fullmatch(part.rstrip())) is not None]
        if row and not line.strip():
            yield row
            row = {}
        for pair in matches:
            name = key(pair[1] or pair[3])
            if name in row:
                yield row
                row = {}
            row[name] = (pair[2] or pair[4]).strip(AROUND)


def tables(text: str, name: str) -> Iterator[Row]:
    """Yield the rows of tables that have `name` in their head: cells between bars, or lines of CSV."""
    lines = [line.strip() for line in text.splitlines()]
    barred = [cells(line) for line in lines]
    for at in range(1, len(lines)):
        if "-" in lines[at] and name in map(key, barred[at - 1]) and RULE.fullmatch(lines[at]):
            yield from read_table_rows(barred[at - 1], (barred[row] for row in range(at + 1, len(lines))))
    for mark in ",\t;":
        try:
            cell_rows = [*csv.reader(text.splitlines(), delimiter=mark)] if mark in text else []
        except csv.Error:
            continue
        rows = iter(cell_rows)
        head: list[str] = next((row for row in rows if len(row) > 1 and name in map(key, row)), [])
        yield from read_table_rows(head, rows)


def cells(line: str) -> list[str]:
    """Return the cells of a line with bars."""
    return [cell.strip(AROUND) for cell in line.strip("|").split("|")] if "|" in line else []


def read_table_rows(head: list[str], rows: Iterable[list[str]]) -> Iterator[Row]:
    """Yield the rows that fit a head, up to the first that does not."""
    for row in rows:
        if len(row) != len(head):
            return
        yield dict(zip(map(key, head), (cell.strip() for cell in row), strict=True))


def marked_up(text: str, names: Mapping[str, str]) -> Row | None:
    """XML as an object, attributes and inner elements alike; None for what is none. `names` are told as they are."""
    begin, end = text.find("<"), text.rfind(">")
    if begin < 0 or end < 0:
        return None
    tree = Tree(names)
    try:
        tree.read(PROLOGUE.sub("", text[begin : end + 1]))
    except (expat.ExpatError, ValueError):
        return None
    return tree.root


PROLOGUE = re.compile(r"<\?xml[^>]*>")


class Tree:
    """Elements as they are read. `root` holds those at the top."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Nothing is read."""
        self.root: Row = {}
        self._names = names
        self._open: list[tuple[Row, list[str]]] = []

    def read(self, text: str) -> None:
        """Read a text with any number of elements at its top. Raises ValueError, ExpatError."""
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse  # what declares entities can grow without end
        parser.Parse(f"<all>{text}</all>", True)

    def _start(self, _: str, attributes: dict[str, str]) -> None:
        if len(self._open) > DEEPEST:
            self._refuse()
        self._open.append(({self._read_name(name): value for name, value in attributes.items()}, []))

    def _end(self, name: str) -> None:
        row, parts = self._open.pop()
        text = "".join(parts).strip()
        if not self._open:
            self.root = row
            return
        if row and text:
            row["text"] = text
        above, name = self._open[-1][0], self._read_name(name)
        values = above.get(name, [])
        above[name] = [*(values if isinstance(values, list) else [values]), row or text]

    def _text(self, data: str) -> None:
        self._open[-1][1].append(data)

    def _read_name(self, name: str) -> str:
        name = name.rpartition(":")[2]
        return self._names.get(key(name), name)

    def _refuse(self, *_: object) -> None:
        raise ValueError
