"""What of a call is not compared, and why: one rule a row.

Everything matches unless a rule says otherwise; a field that nobody has heard of matches too. Headers alone are the
other way round: those of MATCHED_HEADERS match, all others are only told when they differ.

The small path language that rules share: which places of a JSON tree are meant.

    $.a.b            a member of a member             $['x-y']         a name that needs quotes
    $.messages[*].id of every element                 $.messages[-1]   the last element
    $.*              every member or element          $..id            at any depth

Trees are never changed in place: `remove` and `replace` copy what stands on the way and share the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Json

Place: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""(?P<deep>\.\.)?\[(?:(?P<index>-?[0-9]+)|(?P<each>\*)|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]"""
    r"""|(?P<dots>\.\.?)(?P<name>\*|[\w@$-]+)""",
)
_PLAIN = re.compile(r"[A-Za-z_]\w*")


class Step(NamedTuple):
    """One step down: to the member or element `want` (None: to each), `deep` from every node below too."""

    want: str | int | None
    deep: bool


class Selector(NamedTuple):
    """A compiled path. `text` is the path as written."""

    text: str
    steps: tuple[Step, ...]

    def find(self, tree: Json) -> list[tuple[Place, Json]]:
        """Every place that is meant, with what stands there, in the order of the tree."""
        matches: list[tuple[Place, Json]] = [((), tree)]
        for step in self.steps:
            sources = (node for start in matches for node in _nodes(*start)) if step.deep else matches
            matches = [hit for place, node in sources for hit in _step_down(place, node, step.want)]
            if not matches:
                break
        return matches

    def remove(self, tree: Json) -> Json:
        """The tree without these places; `tree` itself when there are none, None when it is the whole."""
        places = [place for place, _ in self.find(tree)]
        if () in places:
            return None
        return _rewrite(tree, places, None)

    def replace(self, tree: Json, change: Callable[[Json], Json]) -> Json:
        """The tree with `change(value)` at each of these places."""
        places = [place for place, _ in self.find(tree)]
        if () in places:
            return change(tree)
        return _rewrite(tree, places, change)


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Selector:
    """The selector that `text` writes. Raises SettingsError, naming the column, for what is no path."""
    steps = []
    at = 1
    if not text.startswith("$"):
        msg = f"{text!r} is no path into a body: it starts with $, as in $.metadata.trace_id"
        raise SettingsError(msg)
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            msg = (
                f"{text!r} is no path into a body: column {at + 1}, at {text[at : at + 12]!r}. "
                "Steps are .name  ..name  [0]  [*]  .*  ['x-y']"
            )
            raise SettingsError(msg)
        steps.append(_step(match))
        at = match.end()
    return Selector(text, tuple(steps))


def show(place: Iterable[str | int]) -> str:
    """A place as a path: "$.messages[3]['x-y']"."""
    parts = ["$"]
    for key in place:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif _PLAIN.fullmatch(key):
            parts.append(f".{key}")
        else:
            parts.append("['" + key.replace("\\", "\\\\").replace("'", "\\'") + "']")
    return "".join(parts)


def _step(match: re.Match[str]) -> Step:
    deep = match["deep"] is not None or match["dots"] == ".."
    if match["index"] is not None:
        return Step(int(match["index"]), deep)
    if match["each"] is not None or match["name"] == "*":
        return Step(None, deep)
    if match["name"] is not None:
        return Step(match["name"], deep)
    quoted = match["single"] if match["single"] is not None else match["double"]
    return Step(re.sub(r"\\(.)", r"\1", quoted), deep)


def _nodes(place: Place, tree: Json) -> Iterator[tuple[Place, Json]]:
    """`tree` and all below it, in order; with a stack of its own, for trees deeper than Python's."""
    stack = [(place, tree)]
    while stack:
        here, node = stack.pop()
        yield here, node
        stack.extend(reversed(list(_step_down(here, node, None))))


def _step_down(place: Place, node: Json, want: str | int | None) -> Iterator[tuple[Place, Json]]:
    match node, want:
        case dict(), None:
            yield from (((*place, name), value) for name, value in node.items())
        case dict(), str() if want in node:
            yield (*place, want), node[want]
        case list(), None:
            yield from (((*place, index), value) for index, value in enumerate(node))
        case list(), int() if -len(node) <= want < len(node):
            index = want % len(node)
            yield (*place, index), node[index]
        case _:
            pass


def rewritten(tree: Json, values: Mapping[Place, Json]) -> Json:
    """The tree with other values at these places of it."""
    if () in values:
        return values[()]
    copies: dict[Place, dict[str, Json] | list[Json]] = {(): _copy(tree)} if values else {}
    for place, value in values.items():
        _holder(copies, place)[place[-1]] = value
    return copies[()] if values else tree


def _holder(copies: dict[Place, dict[str, Json] | list[Json]], place: Place) -> dict[str | int, Json]:
    """The copy of what holds `place`; each container on the way is copied once."""
    for depth in range(1, len(place)):
        if place[:depth] not in copies:
            above: dict[str | int, Json] = copies[place[: depth - 1]]  # type: ignore[assignment]
            copies[place[:depth]] = above[place[depth - 1]] = _copy(above[place[depth - 1]])
    return copies[place[:-1]]  # type: ignore[return-value]


def _rewrite(tree: Json, places: list[Place], change: Callable[[Json], Json] | None) -> Json:
    """Copy each container on the way once; from the last place to the first, so that indexes stay true."""
    if not places:
        return tree
    copies: dict[Place, dict[str, Json] | list[Json]] = {(): _copy(tree)}
    for place in reversed(places):
        holder = _holder(copies, place)
        if change is None:
            del holder[place[-1]]
        else:
            holder[place[-1]] = change(holder[place[-1]])
    return copies[()]


def _copy(node: Json) -> dict[str, Json] | list[Json]:
    assert isinstance(node, dict | list)
    return node.copy()


PROJECT_SOURCES = frozenset({"agentreplay_ignore", "agentreplay-rules.json"})
"""Where a project declares what may differ: its ini file, and what it has accepted for all of its snapshots."""

Part = Literal["header", "query", "url", "body", "host", "path"]
Action = Literal["watch", "drop", "equal"]

URL_PARTS = frozenset({"userinfo", "fragment", "loopback-port"})
"""What a rule of the part "url" can name."""

BOUNDARY = "content-type;boundary"
"""The path of the one rule, of the part "header", that takes the boundary out of a multipart."""

MATCHED_HEADERS = frozenset(
    {
        # what the body is, and what may come back
        "content-type",
        "content-encoding",
        "accept",
        "accept-language",
        "prefer",
        "range",
        # which version of the interface is spoken
        "anthropic-version",
        "anthropic-beta",
        "openai-beta",
        "mcp-protocol-version",
        "sec-websocket-protocol",
        "notion-version",
        "stripe-version",
        "x-github-api-version",
        # what is asked for stands here and not in the URL or body
        "soapaction",
        "x-amz-target",
        "x-http-method-override",
        "host",  # where it is not the URL's: redaction leaves others out
        # minted by an earlier reply
        "if-match",
        "if-none-match",
        "if-modified-since",
        "last-event-id",
        "mcp-session-id",
    }
)
"""The headers that belong to the key, in lower case. Redaction must let them through."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One place of a call that is not part of its key.

    `scope` is "http", the name of a dialect, or "tool". `path` is a path into the body ("$.metadata.trace_id"; for a
    tool into its arguments), the name of a header or query parameter in lower case (a last "*" stands for any ending),
    or one of URL_PARTS. "watch" is told as drift when it differs; "drop" is counted only. `host` limits the rule to a
    host and the hosts below it. `reason` and `source` say why, to people.

    "equal" is for values that differ by environment. With a `pattern`, a regular expression, only what it matches of
    the value at `path` is equal. Without one, `path` is a host or the beginning of a path of a URL in which "*" stands
    for any text without a dot or a slash.
    """

    scope: str
    part: Part
    path: str
    action: Action
    reason: str
    source: str = ""
    host: str = ""
    pattern: str = ""

    def __post_init__(self) -> None:
        """Refuse what is invalid, with SettingsError."""
        if self.part not in get_args(Part):
            raise SettingsError(self._wrong(f"part {self.part!r}", f"one of {', '.join(get_args(Part))}"))
        if self.action not in get_args(Action):
            raise SettingsError(self._wrong(f"action {self.action!r}", f"one of {', '.join(get_args(Action))}"))
        if not self.reason.strip():
            raise SettingsError(self._wrong("no reason", "a few words: why may this differ unseen?"))
        if self.action == "equal" or self.pattern or self.part in {"host", "path"}:
            self._refuse_unequal()
        if self.part == "body":
            compile_path(self.path)
        elif self.part == "url" and self.path not in URL_PARTS:
            raise SettingsError(self._wrong(f"url part {self.path!r}", f"one of {', '.join(sorted(URL_PARTS))}"))
        elif self.part in {"header", "query"} and self.path != self.path.lower():
            raise SettingsError(self._wrong(f"the name {self.path!r}", f"it in lower case: {self.path.lower()!r}"))

    def _refuse_unequal(self) -> None:
        """Raise SettingsError where no value can be equal by this rule."""
        if self.action != "equal" or self.part == "url":
            raise SettingsError(self._wrong(f"action {self.action!r}", "equal, for a host, a path or a pattern"))
        if self.pattern:
            self._refuse_pattern()
        elif self.part not in {"host", "path"}:
            raise SettingsError(self._wrong("no pattern", "a regular expression: which part of the value is equal?"))
        elif "*" not in self.path:
            raise SettingsError(self._wrong("no *", "a pattern: * stands for the part that differs"))
        elif self.part == "path" and not self.path.startswith("/"):
            raise SettingsError(self._wrong("no / at the beginning", "the path from its first character on"))
        elif self.part == "host" and not self.path.strip("*."):
            raise SettingsError(self._wrong("every host is equal", "the part of the name that does not differ too"))

    def _refuse_pattern(self) -> None:
        try:
            matches_nothing = re.search(self.pattern, "") is not None
        except re.error as error:
            raise SettingsError(
                self._wrong(f"the pattern {self.pattern!r} ({error})", "a regular expression")
            ) from None
        if matches_nothing:
            raise SettingsError(self._wrong(f"{self.pattern!r} matches the empty text", "one that takes a character"))

    def _wrong(self, problem: str, remedy: str) -> str:
        return f"rule for {self.scope} {self.part} {self.path}: {problem}; give {remedy}"

    @property
    def is_of_project(self) -> bool:
        """Whether the project has declared it, and not this package."""
        return self.source in PROJECT_SOURCES

    def applies(self, host: str) -> bool:
        """Whether the rule is meant for `host`."""
        return not self.host or host == self.host or host.endswith(f".{self.host}")


class RuleTable:
    """The rules that apply to one scope, ready to be asked. A later rule for the same name wins."""

    __slots__ = ("_names", "_prefixes", "body", "equal", "url")

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Sort `rules` by the part that they are for."""
        self.body: list[tuple[Selector, Rule]] = []
        self.url: dict[str, Rule] = {}
        self.equal: list[Rule] = []
        self._names: dict[tuple[str, str], list[Rule]] = {}
        self._prefixes: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.action == "equal":
                self.equal.append(rule)
            elif rule.part == "body":
                self.body.append((compile_path(rule.path), rule))
            elif rule.part == "url":
                self.url[rule.path] = rule
            elif rule.path.endswith("*"):
                self._prefixes.setdefault(rule.part, []).insert(0, rule)
            else:
                self._names.setdefault((rule.part, rule.path), []).insert(0, rule)

    def find_rule(self, part: Part, name: str, host: str) -> Rule | None:
        """Return the rule for a header or query parameter (`name` in lower case) at `host`."""
        for rule in self._names.get((part, name), ()):
            if rule.applies(host):
                return rule
        for rule in self._prefixes.get(part, ()):
            if name.startswith(rule.path[:-1]) and rule.applies(host):
                return rule
        return None
