"""Reading the regular expressions of policies and cases: the language that RE2 and `re` share, as a tree for `linear`.

Look-around, back references, conditions, possessive and atomic groups are refused, whichever engine is there. So what
a file says means the same everywhere, and no stranger's pattern can make a test run hang.

A pattern of a policy searches bytes: by RE2 where it is installed, else by `re` if `linear` lets it. What stands to be
replaced is the group `value`, or the whole match where there is none.
"""

from __future__ import annotations

import math
import re
import warnings
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.redaction.linear import Fork, Loop, Mark, Node, RegexRow, Sign, check, longest, nullable
from pytest_agentreplay.redaction.policy import SecretShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST = 1000
GROUP = "value"
MOST_REPEATS = 1000
OTHERS = 1 << 128
ALL = (OTHERS << 1) - 1
CATEGORIES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_SPACE": " \t\n\r\f\v",
    "CATEGORY_WORD": "".join(filter(lambda char: char.isalnum() or char == "_", map(chr, range(128)))),
}
FLAGS = "flags are i, m and s: write (?i)"
DEEPEST = 50
TOO_DEEP = "is nested too deep: write several patterns"
ELSEWHERE = {
    "GROUPREF": "a back reference cannot be matched in linear time: write out what it repeats",
    "GROUPREF_EXISTS": "a condition cannot be matched in linear time: write two patterns",
    "ASSERT": r"look-ahead and look-behind are not taken: name what is meant (?P<value>...), or use \b",
    "ASSERT_NOT": r"look-ahead and look-behind are not taken: name what is meant (?P<value>...), or use \b",
    "ATOMIC_GROUP": "an atomic group is not taken: write (?:...)",
    "POSSESSIVE_REPEAT": "a possessive repeat is not taken: write it without the last +",
}


class RefusedPattern(ValueError):
    """A pattern that a file cannot have: what is wrong, and what to write instead."""


def tree(regex: str) -> Node:
    """Return the pattern as a tree. Raises Refused."""
    if len(regex) > LONGEST:
        raise RefusedPattern(f"is longer than {LONGEST} characters: write several patterns")
    if re.search(r"(?<!\\)\{,\d+\}", regex):
        raise RefusedPattern("a repeat needs its least number: write {0,9} for {,9}")
    from re import _parser as parser  # type: ignore[attr-defined]  # it has no public name, and `re` has no other tree

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parsed = parser.parse(regex, re.ASCII)
            re.compile(regex, re.ASCII)
    except re.error as wrong:
        place = f" at character {wrong.pos + 1}" if wrong.pos is not None else ""
        raise RefusedPattern(f"is no regular expression: {wrong.msg}{place}") from None
    except (FutureWarning, DeprecationWarning) as wrong:
        raise RefusedPattern(f"is not sure to mean the same everywhere: {wrong}") from None
    except (RecursionError, OverflowError):
        raise RefusedPattern(TOO_DEEP) from None
    except ValueError:  # flags that exclude one another
        raise RefusedPattern(FLAGS) from None
    flags = parsed.state.flags
    refuse_flags(flags)
    node = RegexParser().row(parsed, flags, 1)
    if nullable(node) or not longest(node):
        raise RefusedPattern("matches the empty text: let it take at least one character")
    return node


def refuse_flags(flags: int) -> None:
    """Raise Refused for a flag that RE2 does not have."""
    if flags & (re.VERBOSE | re.LOCALE | re.UNICODE):
        raise RefusedPattern(FLAGS)


class RegexParser:
    """One pass over what `re` has parsed."""

    def __init__(self) -> None:
        self._depth = 0

    def row(self, parsed: Any, flags: int, times: int) -> Node:
        """Return a sequence, inside repeats of `times` in all."""
        if self._depth == DEEPEST:
            raise RefusedPattern(TOO_DEEP)
        self._depth += 1
        items: list[Node] = []
        for name, value in parsed:
            node = self.node(str(name), value, flags, times)
            items.extend(node.items if isinstance(node, RegexRow) else [node])
        self._depth -= 1
        return items[0] if len(items) == 1 else RegexRow(tuple(items))

    def node(self, name: str, value: Any, flags: int, times: int) -> Node:
        """Return one part of a sequence."""
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "RANGE":
                return Sign(members(name, value, flags))
            case "AT":
                if str(value) == "AT_END_STRING":
                    raise RefusedPattern(r"\Z has another name in RE2: write $")
                return Mark()
            case "BRANCH":
                return Fork(tuple(self.row(branch, flags, times) for branch in value[1]))
            case "SUBPATTERN":
                _, on, off, inner = value
                refuse_flags(on)
                return self.row(inner, (flags | on) & ~off, times)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = value
                endless = "MAXREPEAT" in repr(most) or int(most) >= 2**31
                times *= max(1, least if endless else most)
                if times > MOST_REPEATS:
                    raise RefusedPattern(f"repeats more than {MOST_REPEATS} times: give its repeats smaller ends")
                return Loop(self.row(inner, flags, times), least, math.inf if endless else most)
            case _:
                raise RefusedPattern(ELSEWHERE.get(name, f"{name.lower().replace('_', ' ')} is not taken"))


def members(name: str, value: Any, flags: int) -> int:
    """Return the characters that a part of one character may be, as bits."""
    match name:
        case "LITERAL":
            return add_other_case(make_bits(value, value), flags)
        case "NOT_LITERAL":
            return ALL & ~add_other_case(make_bits(value, value) & ~OTHERS, flags)
        case "ANY":
            return ALL if flags & re.DOTALL else ALL & ~make_bits(10, 10)
        case _:
            characters = 0
            negated = False
            for kind, what in value:
                negated = negated or str(kind) == "NEGATE"
                characters |= list_set_members(str(kind), what)
            characters = add_other_case(characters, flags)
            return ALL & ~(characters & ~OTHERS) if negated else characters


def list_set_members(kind: str, what: Any) -> int:
    """Return the characters of one part of a set, as bits."""
    match kind:
        case "LITERAL":
            return make_bits(what, what)
        case "RANGE":
            return make_bits(*what)
        case "CATEGORY":
            inside = 0
            for char in CATEGORIES[str(what).replace("_NOT_", "_")]:
                inside |= 1 << ord(char)
            return ALL & ~inside if "_NOT_" in str(what) else inside
        case _:
            return 0


def make_bits(low: int, high: int) -> int:
    """Return the characters from `low` to `high`."""
    inside = ((1 << min(high, 127) + 1) - 1) & ~((1 << low) - 1) if low < 128 else 0
    return inside | (OTHERS if high > 127 else 0)


def add_other_case(characters: int, flags: int) -> int:
    """Return the characters in lower and upper case, where case does not count."""
    if flags & re.IGNORECASE:
        for code in range(128):
            if characters >> code & 1 and chr(code).isalpha():
                characters |= 1 << ord(chr(code).swapcase())
    return characters


def compile_linear(regex: str) -> re.Pattern[str]:
    """Return the pattern, ready to search a text in a time that grows with it. Raises Refused, Slow."""
    check(tree(regex))
    return re.compile(regex, re.ASCII)


def compile_shape(category: str, regex: str, *, engine: str = "") -> SecretShape:
    """Return the shape of one rule. Raises Refused or Slow, which say what to write instead.

    `engine` is "re" or "re2"; "" takes the better of those that are there.
    """
    node = tree(regex)
    compiled = search_with_re2(regex) if engine in {"", "re2"} else None
    if compiled is None:
        check(node)
        compiled = search_with_re(regex)
    return SecretShape(category, lambda data: (span for span in compiled(data) if span[0] < span[1]), regex)


def search_with_re2(regex: str) -> Callable[[bytes], Iterator[tuple[int, int]]] | None:
    """Return the search by RE2; None where it is not installed. Raises Refused."""
    try:
        import re2  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex.encode(), options)
    except re2.error as wrong:
        message = wrong.args[0] if wrong.args else ""
        reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise RefusedPattern(f"is not taken by RE2: {reason}") from None
    names = {str(name, "ascii") if isinstance(name, bytes) else name: at for name, at in pattern.groupindex.items()}
    group = int(names.get(GROUP, 0))
    return lambda data: (get_span(hit, group) for hit in pattern.finditer(data))


def search_with_re(regex: str) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """Yield the search by `re`. Text beyond ASCII is searched as text, so that no character is cut in two."""
    quick = re.compile(regex.encode()) if regex.isascii() else None
    pattern = re.compile(regex, re.ASCII)
    group = pattern.groupindex.get(GROUP, 0)

    def spans(data: bytes) -> Iterator[tuple[int, int]]:
        if quick is not None and data.isascii():
            yield from (get_span(hit, group) for hit in quick.finditer(data))
            return
        text = data.decode(errors="surrogateescape")
        offset = at = 0
        for hit in pattern.finditer(text):
            start, end = get_span(hit, group)
            offset += width(text[at:start])
            size = width(text[start:end])
            yield offset, offset + size
            offset, at = offset + size, end

    return spans


def get_span(hit: Any, group: int) -> tuple[int, int]:
    """Return where the group stands; the whole match where the group took no part."""
    start, end = hit.span(group)
    return (start, end) if start >= 0 else hit.span(0)


def width(text: str) -> int:
    """Return how many bytes a part of a decoded text was."""
    return len(text.encode(errors="surrogateescape"))
