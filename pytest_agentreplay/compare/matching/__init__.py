"""When two calls are the same call, and what may differ between two that are.

`matching.key` makes the key of a call, `matching.equal_values` marks what a project declares equal, and
`matching.near_calls` takes calls for one that are near enough. What a key leaves out is not lost: `Matching.drift` says
how two calls of equal key differ there, and by which rule they may.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

from pytest_agentreplay.compare.matching.address import content, split
from pytest_agentreplay.compare.matching.equal_values import MarkedTexts, equal_differences
from pytest_agentreplay.compare.matching.key import CallKeys, ClientIds
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Difference
from pytest_agentreplay.model.exchanges import SELF, Body, Call, Headers, Json, JsonObject, ToolCall, WireCall
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.redaction.headers import secret_header
from pytest_agentreplay.redaction.placeholders import DIGEST, SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.compare.matching.near_calls import Near
    from pytest_agentreplay.model.rules import Rule, RuleTable

__all__ = ["ClientIds", "Matching"]

Unkeyed: TypeAlias = "dict[str, tuple[Json, Rule | None]]"
"""By its path: a value that is not in the key, and the rule that leaves it out; None for an unmatched header."""


class Matching(CallKeys):
    """The rules of one project, ready to compare calls. Safe from any thread.

    Attributes:
        near: Says which pictures, sounds and files are near enough; without it only equal ones are.
    """

    near: Near | None = None

    def drift(self, recorded: Call, now: Call) -> tuple[Difference, ...]:
        """Return what differs between two calls of equal key, place by place.

        The note says "watch: why", "drop: why" (a shipped rule), "ignored: why" (a rule of the project) or
        "equal: why". Paths are "$..." in the body or the arguments, "headers.NAME", "query.NAME" and "url.PART".
        """
        differences: list[Difference] = []
        if self.near is not None:
            from pytest_agentreplay.compare.matching.near_calls import compare_media

            differences += compare_media(recorded, now, self.near) or ()
        before, after = self._list_unkeyed(recorded), self._list_unkeyed(now)
        for path in before | after:
            old, rule = before.get(path, (ABSENT, None))
            new, other = after.get(path, (ABSENT, None))
            if old is ABSENT or new is ABSENT or canonical(old) != canonical(new):
                differences.append(Difference(path, old, new, _describe_rule(rule or other)))
        if self.rule_table(recorded).equal:
            differences += equal_differences(self._list_marked(recorded), self._list_marked(now))
        return tuple(differences)

    def list_reported(self, recorded: Call, now: Call) -> tuple[Difference, ...]:
        """Return what differs between two calls of equal key and is to be reported; what a shipped rule drops is not.

        Trace ids and the like differ in every run; what a project leaves out is reported, because it may be a mistake.
        Calls of equal bytes cost a comparison of their headers.
        """
        if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
            if not self._table("tool").body:
                return ()
        elif recorded.body == now.body and _without_credentials(recorded.headers) == _without_credentials(now.headers):
            return ()
        reported = ("watch: ", "ignored: ")
        return tuple(difference for difference in self.drift(recorded, now) if difference.note.startswith(reported))

    def ignored_values(self, call: Call) -> Unkeyed:
        """Return what of a call is not compared at all: path -> value and the rule that leaves it out.

        Values that have a part that is declared equal are among them, and unmatched headers; these have no rule.
        Credentials and local ports are not: which of them is which is compared.
        """
        marked = self._list_marked(call) if self.rule_table(call).equal else {}
        values: Unkeyed = {path: (value, None) for path, (value, with_mark) in marked.items() if value != with_mark}
        if not isinstance(call, ToolCall) and "url" in values and (url := split(call.url)).loopback:
            values["url"] = call.url.replace(f":{url.port}", "", 1), None
        for path, (value, rule) in self._list_unkeyed(call).items():
            is_wired = path == "url.loopback-port" or (isinstance(value, str) and any(sign in value for sign in SIGNS))
            if path.startswith("$") or not is_wired:
                values[path] = value, rule
        return values

    def strip_ignored(self, call: Call) -> Call:
        """Return the call with nothing of its body or arguments but what counts."""
        tree, host = _read_tree(call)
        left = self._remove_ignored(tree, self.rule_table(call), host)
        if isinstance(call, ToolCall):
            return with_tree(call, left)
        # A body that loses nothing keeps its bytes: to write it anew would change its digest.
        if left is tree or content(call.headers, call.body).kind != "json":
            return call
        headers = tuple(pair for pair in call.headers if pair[0].lower() != "content-encoding")
        return replace(call, headers=headers, body=Body(canonical(left).encode("utf-8", "surrogatepass")))

    def _list_marked(self, call: Call) -> MarkedTexts:
        """Return what has a part that is declared equal, in the URL, the headers and the body or arguments."""
        table, (tree, host) = self.rule_table(call), _read_tree(call)
        equal, marked = self._equal(table), {}
        if not isinstance(call, ToolCall):
            marked["url"] = call.url, self._format_url(split(call.url), table)
            for name, value in self._head(call.headers):
                marked[f"headers.{name}"] = value, equal.mark("header", name, value, host)
        return marked | equal.list_marked_texts(tree, host)

    def _list_unkeyed(self, call: Call) -> Unkeyed:
        """Return all of a call that is not in its key."""
        table, (tree, host) = self.rule_table(call), _read_tree(call)
        values = {} if isinstance(call, ToolCall) else dict(self._list_unkeyed_outside(call, table))
        for path, rule in table.body:
            if rule.applies(host):
                values.update((show(place), (value, rule)) for place, value in path.find(tree))
        return values

    def _list_unkeyed_outside(self, call: WireCall, table: RuleTable) -> Iterator[tuple[str, tuple[Json, Rule | None]]]:
        """Yield what of the URL and the headers of a call is not in its key."""
        url = split(call.url)
        parts: dict[str, Json] = {"userinfo": url.userinfo, "fragment": url.fragment}
        parts["loopback-port"] = url.port if url.loopback else None
        for part, value in parts.items():
            if value and part in table.url:
                yield f"url.{part}", (value, table.url[part])
        for name, value in url.query:
            if rule := table.find_rule("query", name.lower(), url.host):
                yield f"query.{name}", (value, rule)
        for name, value in call.headers:
            rule = table.find_rule("header", name.lower(), url.host)
            # Which credential a header sends is compared by `credentials.Tokens`, so it is not left out.
            is_unmatched = name.lower() not in self.headers and not secret_header(name.lower())
            if (rule is not None or is_unmatched) and (self.digests or not value.startswith(DIGEST)):
                yield f"headers.{name.lower()}", (value, rule)


def _read_tree(call: Call) -> tuple[Json, str]:
    """Return the tree that rules give paths into, and the host that the call goes to; a tool has none."""
    if isinstance(call, ToolCall):
        return call.tree, ""
    return content(call.headers, call.body).tree, split(call.url).host


def with_tree(call: ToolCall, tree: Json) -> ToolCall:
    """Return the call of a tool with another `tree` of arguments; the inverse of `ToolCall.tree`."""
    arguments = {**cast("JsonObject", tree)}
    facts: JsonObject = {name: fact for name, fact in call.facts.items() if name != SELF}
    # A parameter may have the name "self" too; what a method was called on stands in the tree only if it is a fact.
    if SELF in call.facts and SELF in arguments:
        facts[SELF] = arguments.pop(SELF)
    return replace(call, arguments=arguments, facts=facts)


@lru_cache(maxsize=256)
def _without_credentials(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if not secret_header(pair[0].lower()))


def _describe_rule(rule: Rule | None) -> str:
    if rule is None:
        return "watch: not among the headers that match"
    return f"{'ignored' if rule.is_of_project and rule.action == 'drop' else rule.action}: {rule.reason}"
