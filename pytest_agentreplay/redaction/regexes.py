"""Regular expressions out of files (policies, cases, tolerances): searched in bounded time, or refused.

RE2, where google-re2 is installed, takes a time that grows with the text, whatever the pattern is. `re` tries one way
through a pattern after the other. Without RE2 each repeat therefore needs an end, but for one of a single character at
the end of a pattern, and it is counted what one place of a text costs at most, as if `re` tried every way there is: a
pattern that may cost too much is refused.

Look-around, back references, conditions, possessive and atomic groups are refused whichever engine is there. So what a
file says means the same everywhere, but that an endless repeat needs RE2.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.redaction.policy import SecretShape, list_byte_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST = 1000
# What RE2 takes: https://github.com/google/re2/blob/main/re2/parse.cc (maximum_repeat_count).
MOST_REPEATS = 1000
DEEPEST = 50
# A step of `re` takes 2 to 6 ns (CPython 3.11), so that ten thousand characters cost half a second at the most; an
# e-mail address whose repeats have ends, `[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]{2,10}`, takes 9,648 steps.
MOST_STEPS = 10_000
# In a repeat of one character `re` runs over eight in the time of one step elsewhere.
CHARACTERS_PER_STEP = 8
HUGE = 1e9
GROUP = "value"
TOO_DEEP = "is nested too deep: write several patterns"
FLAGS = "flags are i, m and s: write (?i)"
ENDLESS = (
    "holds a repeat without an end, which can take long where google-re2 is not installed: "
    "pip install 'frozen-agentreplay[re2]', or give it an end ({1,64} for +)"
)
SLOW = (
    "can cost too many steps at one place of a text where google-re2 is not installed: "
    "pip install 'frozen-agentreplay[re2]', or give its repeats smaller ends"
)
# By the names of CPython's parser: https://github.com/python/cpython/blob/3.14/Lib/re/_constants.py (OPCODES).
CHARACTERS = frozenset(("LITERAL", "NOT_LITERAL", "ANY", "IN"))
LOOK_AROUND = r"look-ahead and look-behind are not taken: name what is meant (?P<value>...), or use \b"
REFUSED_PARTS = {
    "GROUPREF": "a back reference cannot be matched in linear time: write out what it repeats",
    "GROUPREF_EXISTS": "a condition cannot be matched in linear time: write two patterns",
    "ASSERT": LOOK_AROUND,
    "ASSERT_NOT": LOOK_AROUND,
    "ATOMIC_GROUP": "an atomic group is not taken: write (?:...)",
    "POSSESSIVE_REPEAT": "a possessive repeat is not taken: write it without the last +",
}


class RefusedPattern(ValueError):
    """A pattern that a file cannot have: what is wrong, and what to write instead."""


@dataclass(frozen=True, slots=True)
class LinearPattern:
    """A pattern that takes a time that grows with what it searches: bytes, which are text in UTF-8."""

    regex: str
    find_spans: Callable[[bytes], Iterator[tuple[int, int]]] = field(compare=False)

    def search(self, text: str) -> bool:
        """Return whether the pattern is found in a text."""
        return next(self.find_spans(text.encode("utf-8", "surrogatepass")), None) is not None


@functools.lru_cache(maxsize=256)
def compile_linear(regex: str, engine: str = "") -> LinearPattern:
    """Return a pattern of a file. What it finds is its group `value`, or the whole match where there is none.

    `engine` is "re" or "re2"; "" takes RE2 where it is installed. Raises RefusedPattern, which says what to write.
    """
    steps = count_steps(regex)
    find_spans = search_with_re2(regex) if engine in {"", "re2"} else None
    if find_spans is None and steps > MOST_STEPS:
        raise RefusedPattern(ENDLESS if steps == math.inf else SLOW)
    return LinearPattern(regex, find_spans or search_with_re(regex))


def compile_shape(category: str, regex: str, *, engine: str = "") -> SecretShape:
    """Return the shape of one rule of a policy; what is found empty is nothing. Raises RefusedPattern."""
    find_spans = compile_linear(regex, engine).find_spans
    return SecretShape(category, lambda data: (span for span in find_spans(data) if span[0] < span[1]), regex)


def count_steps(regex: str) -> float:
    """Return what a pattern costs at one place of a text at most; infinite where a repeat is.

    Raises RefusedPattern for what is no pattern, or is one of one engine only.
    """
    if len(regex) > LONGEST:
        raise RefusedPattern(f"is longer than {LONGEST} characters: write several patterns")
    if re.search(r"(?<!\\)\{,\d+\}", regex):
        raise RefusedPattern("a repeat needs its least number: write {0,9} for {,9}")
    # The tree has no public name: https://github.com/python/cpython/blob/3.14/Lib/re/_parser.py (parse).
    from re import _parser as parser  # type: ignore[attr-defined]

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
    refuse_flags(parsed.state.flags)
    work = measure_row(parsed)
    least, _ = parsed.getwidth()
    if not least:
        raise RefusedPattern("matches the empty text: let it take at least one character")
    return work.steps


class Work(NamedTuple):
    """What a part of a pattern costs from one place: in how many `ways` it matches, what `steps` trying these takes."""

    ways: float
    steps: float


def measure_row(parsed: Any, times: int = 1, depth: int = 0, *, is_last: bool = True) -> Work:
    """Return the work of a sequence, inside repeats of `times` in all; `is_last` says that nothing stands behind it.

    Raises RefusedPattern.
    """
    if depth == DEEPEST:
        raise RefusedPattern(TOO_DEEP)
    ways, steps = 1.0, 0.0
    for at, (name, value) in enumerate(parsed, 1):
        part = measure_part(str(name), value, times, depth + 1, is_last=is_last and at == len(parsed))
        # What follows may fail, and is tried again behind each way to match what stands before it.
        steps += ways * part.steps
        ways = min(ways * part.ways, HUGE)
    return Work(ways, steps)


def measure_part(name: str, value: Any, times: int, depth: int, *, is_last: bool) -> Work:
    """Return the work of one part of a sequence, `name` and `value` being those of CPython's parser."""
    match name:
        case _ if name in CHARACTERS:
            return Work(1, 1)
        case "AT":
            if str(value) == "AT_END_STRING":
                raise RefusedPattern(r"\Z has another name in RE2: write $")
            return Work(1, 1)
        case "BRANCH":
            branches = [measure_row(branch, times, depth, is_last=is_last) for branch in value[1]]
            return Work(sum(branch.ways for branch in branches), sum(1 + branch.steps for branch in branches))
        case "SUBPATTERN":
            _, flags, _, inner = value
            refuse_flags(flags)
            return measure_row(inner, times, depth, is_last=is_last)
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = value
            endless = "MAXREPEAT" in repr(most) or int(most) >= 2**31
            times *= max(1, least if endless else most)
            if times > MOST_REPEATS:
                raise RefusedPattern(f"repeats more than {MOST_REPEATS} times: give its repeats smaller ends")
            body = measure_row(inner, times, depth, is_last=False)
            is_character = len(inner) == 1 and str(inner[0][0]) in CHARACTERS
            if endless:
                # At the end of a pattern nothing fails behind it, and what it has run over is not searched again.
                return Work(1, 1 + least if is_last and is_character else math.inf)
            return measure_repeat(body, least, most, is_character)
        case _:
            raise RefusedPattern(REFUSED_PARTS.get(name, f"{name.lower().replace('_', ' ')} is not taken"))


def measure_repeat(body: Work, least: int, most: int, is_character: bool) -> Work:
    """Return the work of a repeat that has an end: it may end behind each of its rounds, in each way of each."""
    ways, steps, ways_here = 0.0, 0.0, 1.0
    for count in range(most + 1):
        ways += ways_here if count >= least else 0
        steps += ways_here * body.steps if count < most else 0
        ways_here = min(ways_here * body.ways, HUGE)
    return Work(ways, steps / CHARACTERS_PER_STEP if is_character else steps)


def refuse_flags(flags: int) -> None:
    """Raise RefusedPattern for a flag that RE2 does not have."""
    if flags & (re.VERBOSE | re.LOCALE | re.UNICODE):
        raise RefusedPattern(FLAGS)


def search_with_re2(regex: str) -> Callable[[bytes], Iterator[tuple[int, int]]] | None:
    """Return the search by RE2; None where it is not installed. Raises RefusedPattern."""
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
    groups = {name.decode() if isinstance(name, bytes) else name: at for name, at in pattern.groupindex.items()}
    group = int(groups.get(GROUP, 0))
    return lambda data: (get_span(hit, group) for hit in pattern.finditer(data))


def search_with_re(regex: str) -> Callable[[bytes], Iterator[tuple[int, int]]]:
    """Return the search by `re`. Bytes are searched as text, so that no character is cut in two."""
    pattern = re.compile(regex, re.ASCII)
    group = pattern.groupindex.get(GROUP, 0)

    def find_spans(data: bytes) -> Iterator[tuple[int, int]]:
        text = data.decode(errors="surrogateescape")
        return list_byte_spans(text, (get_span(hit, group) for hit in pattern.finditer(text)))

    return find_spans


def get_span(hit: Any, group: int) -> tuple[int, int]:
    """Return where the group stands; the whole match where the group took no part."""
    start, end = hit.span(group)
    return (start, end) if start >= 0 else hit.span(0)
