"""Which patterns `re` matches in a time that grows with the text and not with its square.

`re` tries one way after the other. That is quick where there is one way: where each repeat and each choice is decided
by the next character. The pattern is read as a tree, and what it can make `re` do from one place of a text is counted.
An endless repeat may stand at the end of a pattern, or behind a character that it cannot run over; else each place of
a text could be a new beginning of the same long way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

BUDGET = 250
"""Steps that one place of a text may cost. Ten thousand places at some twenty nanoseconds a step are 50 ms."""
RUN = 8
"""So many repeats of a single character cost `re` what one step costs else."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One character of a set: a bit for each of ASCII, and one for all others."""

    chars: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A condition without width: a boundary, an end."""


@dataclass(frozen=True, slots=True)
class RegexRow:
    """One after the other; no item is a Row."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """One of several."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeat, `most` times (inf: without an end)."""

    body: Node
    least: int
    most: float


Node: TypeAlias = Sign | Mark | RegexRow | Fork | Loop


@dataclass(frozen=True, slots=True)
class Work:
    """What a node can cost from one place: in how many `ways` it matches, in how many `steps` these are tried.

    `endless` says that it may run as long as the text, and that something behind may fail then.
    """

    ways: float
    steps: float
    endless: bool = False


class Slow(ValueError):
    """A pattern that can take too long, and what to write instead."""


def check(node: Node) -> None:
    """Raises Slow for a pattern that is not known to be quick."""
    for branch in node.branches if isinstance(node, Fork) else (node,):
        check_row(branch.items if isinstance(branch, RegexRow) else (branch,))


def check_row(items: tuple[Node, ...]) -> None:
    """`check`, for the items of one branch."""
    ways, steps = 1.0, 0.0
    for at, item in enumerate(items):
        work = measure(item, *describe_rest(items, at, 0, fails=False))
        anchor = anchor_of(items, at)
        if work.endless and anchor is None:
            raise Slow(
                "an endless repeat stands where each place of a text can begin it anew, and what follows it may fail: "
                "give it an end ({1,64} for +), or put a character before it that it does not repeat"
            )
        if anchor is not None and work.ways == 1:
            steps += ways * (anchor if work.endless else min(anchor, work.steps))
        else:
            steps += ways * work.steps
        ways *= work.ways
    if steps > BUDGET or ways > BUDGET:
        raise Slow(
            "one place of a text can cost too many steps: give its repeats smaller ends, or let each be followed by "
            "a character that it does not repeat"
        )


def anchor_of(items: tuple[Node, ...], at: int) -> int | None:
    """Return how long the way is up to a character in front of `at` that nothing since, `at` included, can run over."""
    over = chars(items[at])
    for before in range(at - 1, -1, -1):
        item = items[before]
        if isinstance(item, Loop) and item.least and isinstance(item.body, Sign):
            item = item.body
        if isinstance(item, Sign) and not item.chars & over:
            width = sum(map(longest, items[: before + 1]))
            return int(width) if width < math.inf else None
        over |= chars(items[before])
    return None


def describe_rest(items: tuple[Node, ...], at: int, follow: int, *, fails: bool) -> tuple[int, bool]:
    """Return what the text may go on with behind item `at`, and whether anything there may fail."""
    for item in reversed(items[at + 1 :]):
        follow = first(item) | (follow if nullable(item) else 0)
        fails = fails or may_fail(item)
    return follow, fails


def measure(node: Node, follow: int, fails: bool) -> Work:
    """Return the work of a node behind which the text goes on with `follow`, or with anything where nothing `fails`."""
    match node:
        case RegexRow(items):
            ways, steps, endless = 1.0, 0.0, False
            for at, item in enumerate(items):
                work = measure(item, *describe_rest(items, at, follow, fails=fails))
                steps += ways * work.steps
                ways *= work.ways
                endless = endless or work.endless
            return Work(ways if fails else 1, steps, endless)
        case Fork(branches):
            works = [measure(branch, follow, fails) for branch in branches]
            starts = [first(branch) | (follow if nullable(branch) else 0) for branch in branches]
            decided = sum(map(int.bit_count, starts)) == union(starts).bit_count()
            ways = max(work.ways for work in works) if decided else sum(work.ways for work in works)
            steps = sum(work.steps for work in works)
            return Work(ways if fails else 1, steps, any(work.endless for work in works))
        case Loop():
            return measure_loop(node, follow, fails)
        case _:
            return Work(1, 1)


def measure_loop(loop: Loop, follow: int, fails: bool) -> Work:
    """Return the work of a repeat."""
    again = first(loop.body)
    inner = measure(loop.body, again | follow, fails or loop.least > 1)
    if loop.most > 1 and nullable(loop.body):
        raise Slow("it repeats what can be empty: let each part of a repeat take a character")
    undecided = fails and bool(again & follow)
    if loop.most == math.inf:
        if inner.ways > 1 or undecided:
            raise Slow(
                "an endless repeat can be read in several ways, because what it repeats and what comes next can begin "
                "alike: give it an end ({1,64} for +), or exclude the next character from it ([^;]*; for .*;)"
            )
        return Work(1, loop.least * inner.steps, fails or inner.endless)
    each = inner.steps / RUN if isinstance(loop.body, Sign) else inner.steps
    if inner.ways > 1:
        ways = min(1e9, sum(min(1e9, inner.ways**n) for n in range(loop.least, int(loop.most) + 1)))
        return Work(ways if fails else 1, ways * inner.steps, inner.endless)
    exits = loop.most - loop.least
    steps = loop.most * each + (exits if fails else 0)
    return Work(1 + exits if undecided else 1, steps, inner.endless)


def first(node: Node) -> int:
    """Return the characters that a match may begin with."""
    match node:
        case Sign(characters):
            return characters
        case RegexRow(items):
            characters = 0
            for item in items:
                characters |= first(item)
                if not nullable(item):
                    break
            return characters
        case Fork(branches):
            return union([first(branch) for branch in branches])
        case Loop(body):
            return first(body)
        case _:
            return 0


def chars(node: Node) -> int:
    """Return every character that a match may hold."""
    match node:
        case Sign(characters):
            return characters
        case RegexRow(parts) | Fork(parts):
            return union([chars(part) for part in parts])
        case Loop(body):
            return chars(body)
        case _:
            return 0


def nullable(node: Node) -> bool:
    """Return whether a match may be empty."""
    match node:
        case Sign():
            return False
        case RegexRow(items):
            return all(map(nullable, items))
        case Fork(branches):
            return any(map(nullable, branches))
        case Loop(body, least):
            return not least or nullable(body)
        case _:
            return True


def may_fail(node: Node) -> bool:
    """Return whether there is text before which this does not match, not even as nothing."""
    match node:
        case RegexRow(items):
            return any(map(may_fail, items))
        case Fork(branches):
            return all(map(may_fail, branches))
        case Loop(body, least):
            return least > 0 and may_fail(body)
        case _:
            return True


def longest(node: Node) -> float:
    """Return how many characters a match holds at most."""
    match node:
        case Sign():
            return 1
        case RegexRow(items):
            return sum(map(longest, items))
        case Fork(branches):
            return max(map(longest, branches))
        case Loop(body, _, most):
            return longest(body) * most if longest(body) else 0
        case _:
            return 0


def union(sets: list[int]) -> int:
    """Return the characters of all of them."""
    characters = 0
    for other in sets:
        characters |= other
    return characters
