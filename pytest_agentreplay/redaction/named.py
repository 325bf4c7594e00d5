r"""Named values: what stands beside a name that says it is a secret, in JSON, YAML, .env files, headers, forms, URLs.

Names are found by the few words they are made of, since looking at every pair of a large body would cost too much; and
parameters by their `=`. Quotes may be escaped, any number of times: `\"password\": \"...\"` is read where it stands.
A name and its value may be two members as well, or two items: `{"name": "X-Api-Key", "value": "..."}`, `["X-Api-Key",
"..."]`.

Blocks are the lines below a name, in a block of YAML (`password: |`) or between three quotes. In tables values stand
below the name of their column: in CSV, with tabs or semicolons, in Markdown. Of arranged values the name does not stand
right before the value:

    Content-Disposition: form-data; name="password"      a field of a form, a blank line before the value
    {"key": "db.password", "value": {"stringValue": ...}}      two members of one object, in any order
    ("password", ...)      two items of a list or a tuple that has no others
    {"kty": "RSA", ..., "d": ...}      the private members of a JSON Web Key

Lines may end in escapes (`\n`) and quotes be escaped, as in JSON strings, any number of times.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.redaction.secret_names import (
    CATEGORY,
    SHORTEST_VALUE,
    VAGUE,
    get_strength,
    is_believed,
    is_drawn,
    is_generated,
    looks_random,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.redaction.secret_names import Strength

    Hit = tuple[int, int, str]

_HEAD = re.compile(rb"(?:![\w!]{1,16}[ \t]{1,4})?[|>][0-9+-]{0,2}[ \t]{0,8}(?:\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)")
_LINE = re.compile(rb"(?P<indent>[ \t]*)(?P<line>[^\r\n\\]*)(?P<end>\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)?")
_MOST = 64
"""So many lines of one block are looked at."""


def find_block(text: bytes, at: int, name_strength: Strength, opened: bytes | None) -> Iterator[tuple[int, int]]:
    """Yield the lines that look like a secret of a block that begins at `at`.

    Behind an `opened` quote, two more make one.
    """
    if opened is not None:
        if text.startswith(opened * 2, at):
            yield from find_secret_lines(text, at + 2 * len(opened), name_strength, opened * 3)
    elif (head := _HEAD.match(text, at)) is not None:
        yield from find_secret_lines(text, head.end(), name_strength, None)


def find_secret_lines(
    text: bytes, at: int, name_strength: Strength, closing: bytes | None
) -> Iterator[tuple[int, int]]:
    """Yield lines that look like a secret: up to `closing`, or as long as they are indented."""
    for _ in range(_MOST):
        line = _LINE.match(text, at)
        assert line is not None
        if closing is None and not line["indent"]:
            return
        start, stop = line.span("line")
        # An escaped quote begins with a backslash, at which the line has ended.
        end = text.find(closing, start, stop + len(closing)) if closing is not None else -1
        value = text[start : stop if end < 0 else end].rstrip()
        if closing is None:
            value = value.split(b'"')[0]
        if is_believed(name_strength, value, quoted=True):
            yield start, start + len(value)
        if end >= 0 or line["end"] is None:
            return
        at = line.end()


_LINE_END = re.compile(rb"\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n")
_CELL_END = re.compile(rb"[\w ()\[\]-]{0,40}\\{0,16}[\"'`*]{0,3}[ \t]{0,40}(?P<end>[,;|\t]|\\{1,16}[tnr]|[\r\n])")
_CELL = re.compile(rb"[ \t]*(?:\\{0,16}[\"'`*]{1,3})?(?P<text>[\w .#()/%:\[\]-]{0,48}?)(?:\\{0,16}[\"'`*]{1,3})?[ \t]*")
_RULE = re.compile(rb"[ \t|:+-]*")
_OPENING = re.compile(rb"[:\[({,=][ \t]{0,8}\\{0,16}[\"']")
_CLOSING = re.compile(rb"\\{0,16}[\"'][ \t]{0,8}[,}\])]")
_TAB = re.compile(rb"\\{1,16}t")
_WIDEST = 2000
_ROWS = 10_000
_COLUMNS = 64
"""So many kinds of tables of one text are looked at."""


class TextTable(NamedTuple):
    """A table: what parts its cells, where its line of names begins, the names, and the number of the line below."""

    mark: bytes
    begin: int
    names: list[bytes]
    below: int


class Columns:
    """The columns of one text whose names say that they hold secrets."""

    def __init__(self, text: bytes) -> None:
        """Nothing is looked at before the first name that could be the head of a column."""
        self._text = text
        self._ends: list[tuple[int, int]] = []
        self._tables: dict[int, TextTable | None] = {}
        self._read_columns: set[tuple[int, int]] = set()
        self._within: dict[tuple[bytes, int], int] = {}
        """By sign and width, up to which line the tables reach that were read: a line of values is no line of names."""

    def find_below(self, word: int) -> Iterator[tuple[int, int, str]]:
        """Yield the values below the name in which a word stands at `word`, where that is the head of a column."""
        text = self._text
        if _CELL_END.match(text, word) is None:
            return
        self._ends = self._ends or [hit.span() for hit in _LINE_END.finditer(text)] or [(len(text), len(text))]
        line = bisect_left(self._ends, (word, 0))
        if line not in self._tables:
            self._tables[line] = self._table(line, word)
        table = self._tables[line]
        if table is None or word < table.begin:
            return
        nth = text.count(table.mark, table.begin, word)
        if (line, nth) in self._read_columns or nth >= len(table.names):
            return
        self._read_columns.add((line, nth))
        name_strength = get_strength(table.names[nth].decode("utf-8", "replace"))
        if name_strength in {"", "parameter"} or len(self._within) > _COLUMNS:
            return
        for start, end in self._values(table, nth):
            if is_believed(name_strength, text[start:end], quoted=True):
                yield start, end, CATEGORY

    def _table(self, line: int, word: int) -> TextTable | None:
        """Return the table of which a line is the line of names."""
        text = self._text
        first = self._ends[line - 1][1] if line else 0
        last = self._ends[line][0] if line < len(self._ends) else len(text)
        if line >= len(self._ends) or last - max(first, word) > _WIDEST:
            return None
        for begin in list_beginnings(text, max(first, word - _WIDEST), word):
            head = text[begin:last]
            for mark in (b"|", b"\t", *set(_TAB.findall(head)), b";", b","):
                cells = head.split(mark) if mark in head and head.count(mark) < _WIDEST // 4 else []
                names = [cell["text"] for cell in map(_CELL.fullmatch, cells) if cell]
                if cells and len(names) == len(cells):
                    last_line = self._within.get((mark, len(cells)), -1)
                    return None if line < last_line else TextTable(mark, begin, names, line + 1)
        return None

    def _values(self, table: TextTable, nth: int) -> Iterator[tuple[int, int]]:
        """Yield where the values of a column stand, without their quotes, as long as lines have as many cells."""
        text, last = self._text, len(table.names) - 1
        line_end = text[slice(*self._ends[table.below - 1])]
        for line in range(table.below, min(table.below + _ROWS, len(self._ends) + 1)):
            at = self._ends[line - 1][1]
            stop, _ = self._ends[line] if line < len(self._ends) else (len(text), 0)
            row = text[at : min(stop, at + 2 * _WIDEST)]
            self._within[table.mark, last + 1] = line + 1
            cells = row.split(table.mark)
            if row and _RULE.fullmatch(row) is not None:
                continue
            if len(cells) <= last:
                return
            if cells[nth]:
                cell = _CLOSING.split(cells[nth], maxsplit=1)[0] if nth == last else cells[nth]
                if bare := cell.strip(b" \t\\\"'`*\r"):
                    start = at + sum(len(cell) + len(table.mark) for cell in cells[:nth]) + cell.find(bare)
                    yield start, start + len(bare)
            if line < len(self._ends) and text[slice(*self._ends[line])] != line_end:
                return


def list_beginnings(text: bytes, first: int, at: int) -> list[int]:
    """Return where the line of `at` may begin: at `first`, or behind one of the last quotes that open a string."""
    return [first, *[hit.end() for hit in _OPENING.finditer(text, first, at)][-4:]]


WORDS = (
    *(b"token", b"secret", b"pass", b"pwd", b"key", b"auth", b"credential", b"jwt", b"csrf", b"xsrf", b"otp", b"pin"),
    *(b"signature", b"security_answer", b"securityanswer", b"sessid", b"psk", b"_pat", b"recovery", b"backup"),
)
SHARED = {b"sec": (b"secret", b"security_answer", b"securityanswer"), b"srf": (b"csrf", b"xsrf")}
"""Parts that several of the words share: where one is absent, none of its words is searched for."""
LONGEST = 4096
NAME = 64
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$-"
_ESCAPE_ENDS = re.compile(rb"\\(?:[ntrbf]|[ux][0-9A-Fa-f]{2,4})\Z")
SEPARATOR = re.compile(
    rb"""(?P<rest>[\w-]{0,40}(?:[^\w"'`\\\r\n\t,={}<>&-][^"'`\\\r\n\t,={}<>&]{0,40}(?=\\{0,63}["'`])"""
    rb"""|(?:[\[\]]|%5[bBdD])[\w\[\]%.-]{0,40}|(?:[ ]?\([\w ]{1,40})?\)(?==))??)(?P<shut>\\{0,63}["'`]?)"""
    rb"""(?:[ \t]{0,4}:[ \t]{0,4}(?:[sS]tr(?:ing)?|bytes|SecretStr|Optional\[str\]|str \| None)[ \t]{0,4}(?==))?"""
    rb"""(?:(?:[\s,]|\\[nrt]){1,16}\\{0,63}["']?value\\{0,63}["']?[ \t]{0,4}[:=][ \t]{0,4}"""
    rb"""|[ \t]{0,8}(?P<sign>=>|:=|[:=]|,(?=\s{0,8}[bru]?\\{0,63}["']))(?P<space>[ \t]{0,8}))"""
    rb"""(?:(?:\[\s{0,8})?(?P<open>\\{0,63}["'`])|(?:[bBrRuUfF]{1,2}|[$@]{1,2})(?P<prefixed>\\{0,63}["'`]))?"""
)
"""What stands between the word in a name and its value: the rest of the name, a sign, the quotes of both.

The rest goes on behind punctuation up to a closing quote (`"api:key (new)"`), and in brackets (`password[]=`).
"""
_BARE_NAME = re.compile(rb"(?<=[&?])[\w.$:/\[\]%+-]*\Z|(?:[\w.$:\[\]%+-]{1,40} )?[\w.$:\[\]%+-]*\Z")
_PUNCTUATION = re.compile(r"[^\w.$-]+")
_CLOSED = {
    quote: re.compile(rb"[^%b\\]{1,%d}(?:\\.[^%b\\]*)*" % (quote, LONGEST, quote)) for quote in (b'"', b"'", b"`")
}
_BARE = re.compile(rb"""[^\s"'<>()\[\]{}`|;,&\\]{1,4096}""")
_AFTER_COLON = re.compile(rb"""[^\s"'<>(){}`|,\\]{1,4096}""")
_PARAMETER = re.compile(
    rb"(?:\A|[?&#;,\"'](?:[ \t]{0,2}|amp;))([\w.\[\]:%-]{1,40})=([^\s\"'<>()\[\]{}`|;,&\\]{6,4096})"
)
_SCHEME = re.compile(rb"(?i:bearer|basic|token|apikey|negotiate|digest)[ \t]+")
_ANY_SCHEME = re.compile(rb"[A-Za-z][\w-]{1,30}[ \t]{1,4}(?=[^\s\"'<>(){}`|,\\]{12})")
_SIGNED = re.compile(rb"""[^\s"'<>(){}`|\\]{1,4096}""")


def find_named(text: bytes, names: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Yield where values stand that a name gives away, as (start, end, category).

    `names` are a project's, in lower case.
    """
    lower = text.lower()
    seen: set[int] = set()
    columns = Columns(text)
    absent = {word for part, words in SHARED.items() if part not in lower for word in words}
    for word in (word for word in (*WORDS, *(name.encode() for name in names)) if word not in absent):
        at = lower.find(word)
        while at >= 0:
            match_of_name = SEPARATOR.match(text, at)
            if match_of_name is not None and match_of_name.end() not in seen:
                seen.add(match_of_name.end())
                if (span := _find_value(text, at, match_of_name, names)) is not None:
                    yield span
                yield from _find_block_of(text, at, match_of_name, names)
            yield from columns.find_below(at)
            at = lower.find(word, at + len(word))
    if b"=" in text:
        for match in _PARAMETER.finditer(text):
            name = match[1].decode("ascii", "replace")
            name_strength = get_strength(name)
            sure = name_strength == "parameter" and is_believed(name_strength, match[2], quoted=False)
            if sure or (name.lower() in VAGUE and is_generated(match[2])):
                yield *match.span(2), CATEGORY


def _find_block_of(
    text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield the lines of a block behind a name and its sign, where one begins there."""
    opened = hit["open"] or hit["prefixed"]
    if opened is None and (hit["sign"] != b":" or text[hit.end() : hit.end() + 1] not in (b"|", b">", b"!")):
        return
    if opened is not None and not text.startswith(opened, hit.end()):
        return
    _, own_category, name_strength = _read_name(text, at, hit, names)
    if name_strength not in {"", "parameter"}:
        yield from ((*span, own_category or CATEGORY) for span in find_block(text, hit.end(), name_strength, opened))


def _find_value(text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]) -> tuple[int, int, str] | None:
    name, own_category, name_strength = _read_name(text, at, hit, names)
    if name_strength in {"", "parameter"}:
        return None
    opened = hit["open"] or hit["prefixed"]
    span = find_quoted(text, hit.end(), opened) if opened else _find_bare(text, hit, name)
    if span is None:
        return None
    start, end = strip_scheme(text, *span, name)
    value = text[start:end]
    if own_category and (opened or value.isdigit()):
        return start, end, own_category
    if hit["sign"] == b",":  # two items of a list: the one before may be a word among others
        return (start, end, own_category or CATEGORY) if is_generated(value) or is_drawn(value) else None
    if name.lower().endswith("signature"):
        value = value.replace(b",", b"=")
    return (start, end, own_category or CATEGORY) if is_believed(name_strength, value, quoted=bool(opened)) else None


def _read_name(
    text: bytes, at: int, hit: re.Match[bytes], names: Mapping[str, str]
) -> tuple[str, str | None, Strength]:
    """Return the name of which the word at `at` is a part, the category that a project gives it, and what it says."""
    name, whole_name = _read_word_name(text, at, hit.end("rest")), _read_full_name(text, at, hit)
    lower = whole_name.lower()
    own_category = (
        names.get(name.lower()) or names.get(lower) or names.get(_PUNCTUATION.split(lower.rstrip("[]() "))[-1])
    )
    if own_category:
        return name, own_category, "strong"
    if (
        not hit["shut"]
        and "]" in name
        and (whole_name.startswith("[") or whole_name.count("[") != whole_name.count("]"))
    ):
        return name, None, ""  # `[the password]: https://...` is a link in Markdown
    name_strength = get_strength(name)
    if name_strength in {"", "parameter"} and (more := get_strength(whole_name)) not in {"", "parameter"}:
        # Words without quotes around them may be of a sentence: then the value has to be random as well.
        sure = hit["shut"] or hit["open"] or hit["prefixed"] or (hit["sign"] == b"=" and not hit["space"])
        name_strength = more if sure else "weak"
    return name, None, name_strength


def _read_full_name(text: bytes, at: int, hit: re.Match[bytes]) -> str:
    """Return the name with what punctuation parts from it: up to the opening quote, or of two words without quotes."""
    before = text[max(0, at - NAME) : at]
    if hit["shut"]:
        start = before.rfind(hit["shut"][-1:]) + 1
        before = before[start:] if start else b""
    else:
        match = _BARE_NAME.search(before)
        before = match[0] if match else b""
    return (before + text[at : hit.end("rest")]).decode("utf-8", "replace")


def strip_scheme(text: bytes, start: int, end: int, name: str) -> tuple[int, int]:
    """Return the value without a scheme before it: any word, where the name says that there is one."""
    if name.lower().endswith("authorization") and (scheme := _ANY_SCHEME.match(text, start)) is not None:
        rest = _AFTER_COLON.match(text, scheme.end())
        if rest is not None and rest.end() >= end and looks_random(rest[0]) and b"=" not in rest[0].rstrip(b"="):
            return rest.span()
    if (scheme := _SCHEME.match(text, start, end)) is not None and end - scheme.end() >= SHORTEST_VALUE:
        start = scheme.end()
    return start, end


def _read_word_name(text: bytes, at: int, end: int) -> str:
    r"""Return the whole name of which the word at `at` is a part; the n of a `\n` before it is none of it."""
    before = text[max(0, at - NAME) : at]
    first = start = at - len(before) + len(before.rstrip(_LETTERS))
    if text[start - 1 : start] == b"\\":
        while start < at and _ESCAPE_ENDS.search(text, max(0, first - 1), start) is None:
            start += 1
        start = start if start < at else first
    return text[start:end].decode("utf-8", "replace")


def find_quoted(text: bytes, start: int, opened: bytes) -> tuple[int, int] | None:
    """Return the value behind an opening quote, up to the quote that is escaped as often, or the end of the text."""
    slashes = len(opened) - 1
    if not slashes:
        match = _CLOSED[opened].match(text, start)
        return None if match is None else match.span()
    at = text.find(opened, start)
    while at >= 0 and text[at - 1 : at] == b"\\":
        at = text.find(opened, at + len(opened))
    end = at if at >= 0 else len(text)
    return (start, end) if start < end <= start + LONGEST else None


def _find_bare(text: bytes, hit: re.Match[bytes], name: str) -> tuple[int, int] | None:
    """Return the value behind a sign without quotes. `host:port` and a type behind a name are none."""
    quoted_name = hit["shut"].endswith((b'"', b"'"))
    if hit["sign"] == b":" and not hit["space"] and not quoted_name:
        return None
    after = _SIGNED if name.lower().endswith("signature") else _AFTER_COLON
    match = (_BARE if hit["sign"] == b"=" or quoted_name else after).match(text, hit.end())
    return None if match is None else (match.start(), match.start() + len(match[0].rstrip(b".:")))


_END = rb"(?:\r?\n|\\{1,16}r\\{1,16}n|\\{1,16}n)"
_QUOTE = rb"\\{0,16}[\"']"
_SPACE = rb"(?:[ \t\r\n]|\\{1,16}[nrt]){0,16}"

_FORM_FIELD = re.compile(
    rb"form-data;[^\r\n\\\"]{0,80}name=" + _QUOTE + rb"(?P<name>[^\"'\\\r\n]{1,80})" + _QUOTE + rb"[^\r\n\\]{0,200}"
    rb"(?:" + _END + rb"[A-Za-z-]{1,40}:[^\r\n\\]{0,200}){0,4}" + _END + _END + rb"(?P<value>[^\r\n\\]{4,4096})"
)
_SETS = _SPACE + rb":" + _SPACE
_NAME = re.compile(
    rb"[\"'](?i:key|name|header|field|variable|parameter|param|attribute|setting)" + _QUOTE + _SETS + _QUOTE
    + rb"(?P<name>[\w .:/\[\]()%+-]{2,80})" + _QUOTE
)  # fmt: skip
_TEXT = _QUOTE + rb"(?P<value>[^\"'\\]{4,4096})" + _QUOTE + rb"(?!" + _SPACE + rb":)"
_MEMBER = _QUOTE + rb"\w{1,32}" + _QUOTE + _SETS
_VALUE = re.compile(
    rb"[\"'](?i:string_?)?[vV]alue" + _QUOTE + _SETS
    + rb"(?P<opened>(?:[\[{]" + _SPACE + rb"(?:" + _MEMBER + rb")?){0,4})" + _TEXT
)  # fmt: skip
_MORE = re.compile(rb"(?:[ \t\r\n}]|\\{1,16}[nrt]){0,16}," + _SPACE + rb"(?:\{" + _SPACE + _MEMBER + rb")?" + _TEXT)
"""The next value of a list of them."""
_ITEM = rb"(?:\{" + _SPACE + _QUOTE + rb"\$bytes" + _QUOTE + _SETS + rb")?[bru]?" + _QUOTE
_TWO = re.compile(
    rb"[\[(]" + _SPACE + _ITEM + rb"(?P<name>[\w .:/\[\]()%+-]{2,80})" + _QUOTE + rb"\}?" + _SPACE + rb"," + _SPACE
    + _ITEM + rb"(?P<value>[^\"'\\]{4,4096})" + _QUOTE + rb"\}?" + _SPACE + rb",?" + _SPACE + rb"[\])]"
)  # fmt: skip
"""A list or a tuple of a name and its value, and of nothing else."""
_IDENTIFIER = re.compile(rb"[A-Za-z_.]+|[0-9]+(?:_[a-z]+)+")
_BETWEEN = re.compile(rb"(?:[ \t\r\n}\]]|\\{1,16}[nrt]){0,16},[^{}\[\]]{0,400}\Z")
_AHEAD = 400
_BEHIND = 4400
_YAML_VALUE = re.compile(
    rb"\bvalue:[ \t]{1,4}[\"']?(?P<value>[^\s\"'\\]{4,512})[\"']?" + _END + rb"[ \t]{0,40}name:[ \t]{1,4}[\"']?"
    rb"(?P<name>[\w.:\[\]%-]{2,80})"
)  # fmt: skip
_KEY = re.compile(
    _QUOTE + rb"(?:d|p|q|dp|dq|qi|k|priv)" + _QUOTE + _SETS + _QUOTE + rb"(?P<value>[A-Za-z0-9_=+/-]{16,4096})"
)
_KEY_SPAN = 8192


def find_arranged(text: bytes) -> Iterator[Hit]:
    """Yield where such values stand, as (start, end, category)."""
    if b"form-data" in text:
        for field in _FORM_FIELD.finditer(text):
            yield from find_named_value(field["name"], field["value"], field.span("value"))
    if b"alue" in text:
        yield from find_pairs(text)
    for two in _TWO.finditer(text):
        yield from find_two_items(text, two)
    if b"kty" in text:
        yield from find_private_members(text)


def find_two_items(text: bytes, pair: re.Match[bytes]) -> Iterator[Hit]:
    """Yield the value of a pair, unless it looks like a name too: then both are names of fields."""
    name = pair["name"].decode("utf-8", "replace")
    start, end = strip_scheme(text, *pair.span("value"), name)
    name_strength, value = get_strength(name), text[start:end].strip()
    is_name = _IDENTIFIER.fullmatch(value) or get_strength(value.decode("utf-8", "replace"))
    if (
        name_strength not in {"", "parameter"}
        and not is_name
        and (is_believed(name_strength, value, quoted=False) or is_drawn(value))
    ):
        yield start, end, CATEGORY


def find_named_value(name: bytes, value: bytes, span: tuple[int, int]) -> Iterator[Hit]:
    """Yield a value, where its name says that it is a secret."""
    name_strength = get_strength(name.decode("utf-8", "replace"))
    if name_strength not in {"", "parameter"} and is_believed(name_strength, value.strip(), quoted=True):
        yield *span, CATEGORY


def find_pair_values(text: bytes, name: bytes, pair: re.Match[bytes]) -> Iterator[Hit]:
    """Yield the value of a pair, without the scheme before it, where its name says that it is a secret."""
    more: re.Match[bytes] | None = pair
    while more is not None:
        start, end = strip_scheme(text, *more.span("value"), name.decode("utf-8", "replace"))
        yield from find_named_value(name, text[start:end], (start, end))
        more = _MORE.match(text, more.end()) if b"[" in (pair.groupdict().get("opened") or b"") else None


def find_pairs(text: bytes) -> Iterator[Hit]:
    """Yield the values of objects that have a name for one member and the value for another."""
    before = 0
    for hit in _NAME.finditer(text):
        if get_strength(hit["name"].decode("utf-8", "replace")) not in {"", "parameter"}:
            after = _VALUE.search(text, hit.end(), hit.end() + _AHEAD + _BEHIND)
            if after is not None and not set(text[hit.end() : after.start()]) & set(b"{}[]"):
                yield from find_pair_values(text, hit["name"], after)
            values = [*_VALUE.finditer(text, max(before, hit.start() - _BEHIND), hit.start())]
            last = values[-1] if values else None
            if last is not None and _BETWEEN.match(text, last.end(), hit.start()) is not None:
                yield from find_pair_values(text, hit["name"], last)
        before = hit.end()
    for pair in _YAML_VALUE.finditer(text):
        yield from find_pair_values(text, pair["name"], pair)


def find_private_members(text: bytes) -> Iterator[Hit]:
    """Yield the private members of JSON Web Keys (RFC 7518, section 6)."""
    types = [hit.start() for hit in re.finditer(rb"[\"']kty\\{0,16}[\"']", text)]
    nth = 0
    for member in _KEY.finditer(text) if types else ():
        while nth + 1 < len(types) and abs(types[nth + 1] - member.start()) <= abs(types[nth] - member.start()):
            nth += 1
        if abs(types[nth] - member.start()) <= _KEY_SPAN:
            yield *member.span("value"), CATEGORY
