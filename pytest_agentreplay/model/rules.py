"""What of a call is not compared, and why: one rule a row.

Everything matches unless a rule says otherwise; a field that nobody has heard of matches too. Headers alone are the
other way round: those of MATCHED_HEADERS match, all others are only told when they differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.path_parsing import compile_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.json_paths import Selector

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
        for problem, remedy in self._find_faults():
            raise SettingsError(f"rule for {self.scope} {self.part} {self.path}: {problem}; give {remedy}")
        if self.part == "body":
            compile_path(self.path)

    def _find_faults(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, and what to write instead; what comes later may make no sense where something came."""
        if self.part not in get_args(Part):
            yield f"part {self.part!r}", f"one of {', '.join(get_args(Part))}"
        if self.action not in get_args(Action):
            yield f"action {self.action!r}", f"one of {', '.join(get_args(Action))}"
        if not self.reason.strip():
            yield "no reason", "a few words: why may this differ unseen?"
        if self.action == "equal" or self.pattern or self.part in {"host", "path"}:
            yield from self._find_unequal()
        if self.part == "url" and self.path not in URL_PARTS:
            yield f"url part {self.path!r}", f"one of {', '.join(sorted(URL_PARTS))}"
        if self.part in {"header", "query"} and self.path != self.path.lower():
            yield f"the name {self.path!r}", f"it in lower case: {self.path.lower()!r}"

    def _find_unequal(self) -> Iterator[tuple[str, str]]:
        """Yield why no value can be equal by this rule."""
        if self.action != "equal" or self.part == "url":
            yield f"action {self.action!r}", "equal, for a host, a path or a pattern"
        if self.pattern:
            try:
                if re.search(self.pattern, "") is not None:
                    yield f"{self.pattern!r} matches the empty text", "one that takes a character"
            except re.error as error:
                yield f"the pattern {self.pattern!r} ({error})", "a regular expression"
        elif self.part not in {"host", "path"}:
            yield "no pattern", "a regular expression: which part of the value is equal?"
        elif "*" not in self.path:
            yield "no *", "a pattern: * stands for the part that differs"
        elif self.part == "path" and not self.path.startswith("/"):
            yield "no / at the beginning", "the path from its first character on"
        elif self.part == "host" and not self.path.strip("*."):
            yield "every host is equal", "the part of the name that does not differ too"

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
