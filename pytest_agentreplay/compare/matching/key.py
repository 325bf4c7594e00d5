"""The key of a call: two calls are the same call where their keys are equal.

Two identities, the cheap one first. A *fingerprint* costs microseconds and takes a body by its digest. A *key* reads
the body, leaves out what the rules name, marks what they declare equal, and renames the ids that the client made and
the placeholders of secrets. Equal fingerprints mean equal keys.

Ids that the client made itself: their value does not matter, their use does. A fresh id is numbered inside the call
that first carries it. From then on it is known by that call, so the next call that carries it is tied to the first, in
whatever order concurrent calls came. Only the fields of the protocol count: the same text in an argument is compared
as it stands. The placeholders of secrets are such ids too, of whatever category: what the environment knew as a key
here is known by its looks alone there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import MatchContent, Url, content, is_this_host, split
from pytest_agentreplay.compare.matching.equal_values import EqualValues
from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.model.exchanges import SELF, Call, FrameCall, Headers, Json, ToolCall, WireCall
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.model.rules import BOUNDARY, MATCHED_HEADERS, Rule, RuleTable
from pytest_agentreplay.redaction.placeholders import OPAQUE, SHAPES, SIGNS
from pytest_agentreplay.redaction.policy import PERSONAL

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable

    from pytest_agentreplay.model.reading import CallReading, Reader

# To bring a URL into its form takes 16 to 21 us, and a lookup 0.1; a run has few URLs, unless they hold ids.
_URLS_KEPT = 4096
_HEADS_KEPT = 256


class CallKeys:
    """The keys of calls under the rules of one project. Safe from any thread.

    Attributes:
        headers: The names, in lower case, of the headers that belong to the key.
        digests: Whether the recording has digests of the headers that it does not store.
        personal: The categories of placeholders that match exactly: personal values, and bodies that cannot be read.
    """

    def __init__(
        self, reader: Reader, rules: Iterable[Rule] = (), *, also: Collection[str] = (), personal: Collection[str] = ()
    ) -> None:
        """Take the rules: the shipped ones (`providers.RULES`) and the project's after them; without any, all matches.

        `also` are headers of the key beside those that always belong to it, `personal` further categories.
        """
        self._reader = reader
        self._rules = tuple(rules)
        self._also = frozenset(also)
        self.headers = MATCHED_HEADERS | self._also
        self.digests = True
        self.personal = PERSONAL | frozenset(personal) | {OPAQUE}
        self._tables: dict[str, RuleTable] = {}
        self._equal_values: dict[RuleTable, EqualValues] = {}
        self._urls: dict[str, str] = {}
        self._heads: dict[Headers, Headers] = {}
        self._latest: tuple[Call | None, Hashable] = None, None

    def ids(self) -> ClientIds:
        """Return what a run is going to teach about its ids."""
        return ClientIds(self.personal)

    def fingerprint(self, call: Call) -> Hashable:
        """Return a cheap identity: method, URL, headers that match, and the body by its digest, unread."""
        # A backend is asked twice about a call, whether it recognises it and what its answer is.
        latest, fingerprint = self._latest
        if latest is not call:
            fingerprint = self._compute_fingerprint(call)
            self._latest = call, fingerprint
        return fingerprint

    def _compute_fingerprint(self, call: Call) -> Hashable:
        if isinstance(call, ToolCall):
            return call.boundary, call.name, canonical(call.facts), canonical(call.arguments)
        url = self._urls.get(call.url)
        if url is None:
            if len(self._urls) >= _URLS_KEPT:
                self._urls.clear()
            url = self._urls[call.url] = self._format_url(split(call.url), self._table("http"))
        if isinstance(call, FrameCall):
            return call.connection, call.binary, url, self._head(call.headers), call.body.digest
        return call.method, url, self._head(call.headers), call.body.digest

    def key(self, call: Call, ids: ClientIds) -> str:
        """Return the identity of a call, as a hex digest. `ids` learns from it: ask once for each call, in order.

        About 10 us per kB of JSON body. Raises what `Body.data` raises.
        """
        return ids.key(self.text(call))

    def key_alone(self, call: Call) -> str:
        """Return the key of a call beside no others: ids are renamed by their places in it alone."""
        return self.ids().key(self.text(call))

    def text(self, call: Call, body_content: MatchContent | None = None) -> str:
        """Return the canonical text of a call, of which `key` is the digest: ids and placeholders as they stand.

        `body_content` is taken for what the body of the call holds, where it is given.
        """
        if isinstance(call, ToolCall):
            facts: Json = {name: fact for name, fact in call.facts.items() if name != SELF}
            function = canonical([call.boundary, call.name, facts])
            return f"{function}\n{canonical(self._remove_ignored(call.tree, self._table('tool'), ''))}"
        reading = self._reader.read_call(call)
        table, url = self._table(reading.dialect), split(call.url)
        body_content = body_content or content(call.headers, call.body)
        # One rule, on the boundary of a multipart, lets its parts be compared; without it the bytes count.
        has_parts = body_content.kind == "multipart" and table.find_rule("header", BOUNDARY, "") is not None
        head: list[Json] = [call.method, self._format_url(url, table)]
        if isinstance(call, FrameCall):
            head += [call.connection, call.binary]
        for name, value in self._head(call.headers):
            if name in self._also or table.find_rule("header", name, url.host) is None:
                marked = self._equal(table).mark("header", name, value, url.host)
                head += [name, _without_boundary(marked) if has_parts and name == "content-type" else marked]
        if body_content.kind == "bytes" or (body_content.kind == "multipart" and not has_parts):
            body = body_content.data.decode("latin-1")
        else:
            tree = self._remove_ignored(body_content.tree, table, url.host)
            body = f"{body_content.kind} {canonical(_mark_client_ids(tree, reading))}"
        return f"{canonical(head)}\n{body}"

    def rule_table(self, call: Call) -> RuleTable:
        """Return the rules for calls of this kind."""
        return self._table("tool" if isinstance(call, ToolCall) else self._reader.read_call(call).dialect)

    def address(self, call: WireCall) -> str:
        """Return scheme, host and path of a request, without a port and with equal parts marked."""
        url, equal = split(call.url), self._equal(self.rule_table(call))
        host = equal.mark("host", "", url.host, url.host)
        path = equal.mark("path", "", url.path, url.host)
        return f"{url.scheme}://{'localhost' if is_this_host(host) else host}{path}"

    def _table(self, scope: str) -> RuleTable:
        table = self._tables.get(scope)
        if table is None:
            table = self._tables[scope] = _make_table(self._rules, scope)
        return table

    def _equal(self, table: RuleTable) -> EqualValues:
        equal = self._equal_values.get(table)
        if equal is None:
            equal = self._equal_values[table] = EqualValues(table.equal)
        return equal

    def _remove_ignored(self, tree: Json, table: RuleTable, host: str) -> Json:
        for path, rule in table.body:
            if rule.applies(host):
                tree = path.remove(tree)
        return self._equal(table).mark_tree(tree, host)

    def _head(self, headers: Headers) -> Headers:
        """Return the headers that match, by name."""
        matched = self._heads.get(headers)
        if matched is None:
            pairs = [(lower, value) for name, value in headers if (lower := name.lower()) in self.headers]
            matched = tuple(sorted(pairs, key=itemgetter(0)))
            if len(self._heads) >= _HEADS_KEPT:
                self._heads.clear()
            self._heads[headers] = matched
        return matched

    def _format_url(self, url: Url, table: RuleTable) -> str:
        equal = self._equal(table)
        host, path = equal.mark("host", "", url.host, url.host), equal.mark("path", "", url.path, url.host)
        port = "" if url.port is None else f":{url.port}"
        # A server of a test listens on a new port in every run; which is which `address.Authorities` learns.
        if url.loopback and "loopback-port" in table.url:
            host, port = "localhost" if is_this_host(host) else host, ""
        userinfo = "" if "userinfo" in table.url or not url.userinfo else f"{url.userinfo}@"
        fragment = "" if "fragment" in table.url or not url.fragment else f"#{url.fragment}"
        query = [
            (name, equal.mark("query", name.lower(), value, url.host))
            for name, value in url.query
            if table.find_rule("query", name.lower(), url.host) is None
        ]
        # By name alone: servers give the order of names no meaning, that of two values of one name they may.
        query.sort(key=itemgetter(0))
        bare = [name for name in url.bare if table.find_rule("query", name.lower(), url.host) is None]
        return f"{url.scheme}://{userinfo}{host}{port}{path}?{query}{sorted(bare) or ''}{fragment}"


@lru_cache(maxsize=64)
def _make_table(rules: tuple[Rule, ...], scope: str) -> RuleTable:
    """Return the rules for one scope. Remembered: the tests of a session have the same rules."""
    scopes = {scope} if scope == "tool" else {scope, "http"}
    return RuleTable(rule for rule in rules if rule.scope in scopes)


def _without_boundary(content_type: str) -> str:
    kept = [part for part in content_type.split(";") if part.strip().partition("=")[0].lower() != "boundary"]
    return ";".join(kept)


SHORTEST = 8
"""Characters from which on an id is one of its kind; shorter ones, and numbers, count within a session only."""

_MADE, _MEANT = "\0made", "\0meant"
"""Members that stand instead of an id: one that the client made, and one that may be such an id."""

_ID = r'\{"\\u0000(?P<made>made|meant)":"(?P<id>(?:[^"\\]|\\.)*)"\}'
_RENAMED = re.compile(rf"{_ID}|(?P<placeholder>{'|'.join(SHAPES)})")
_SIGN = '{"\\u0000m'


def _mark_client_ids(tree: Json, reading: CallReading) -> Json:
    """Return the tree with the client's ids of a session numbered; those that are one of their kind are marked."""
    seen: dict[str, int] = {}

    def mark_made(value: Json) -> Json:
        if isinstance(value, str) and len(value) >= SHORTEST:
            return {_MADE: value}
        return f"\0{seen.setdefault(canonical(value), len(seen))}" if isinstance(value, str | int) else value

    def mark_meant(value: Json) -> Json:
        return {_MEANT: value} if isinstance(value, str) and len(value) >= SHORTEST else value

    for paths, change in ((reading.client_ids, mark_made), (reading.client_refs, mark_meant)):
        for path in paths:
            tree = compile_path(path).replace(tree, change)
    return tree


@dataclass(slots=True)
class ClientIds:
    """What the calls of one run have taught about its client-made ids. Use one for a run, from one thread at a time.

    Placeholders of the categories in `exact` are no ids: they match as they stand.
    """

    exact: Collection[str] = frozenset()
    _names: dict[str, str] = field(default_factory=dict, init=False)
    _twins: dict[str, int] = field(default_factory=dict, init=False)

    def key(self, text: str) -> str:
        """Return the digest of a call's canonical `text`, in which marked ids and placeholders are renamed."""
        # Nearly all calls hold none: in 24 kB of JSON looking for the signs takes 0.05 ms, the pattern 0.9 ms.
        if _SIGN not in text and not any(sign in text for sign in SIGNS):
            return digest(text)
        fresh: dict[str, int] = {}

        def rename(match: re.Match[str]) -> str:
            is_secret = match["placeholder"] is not None
            value = match[0] if is_secret else match["id"]
            name = self._names.get(value)
            if match["category"] in self.exact or (match["made"] == "meant" and not name):
                return value
            # No canonical text holds a raw NUL, so nothing else can read like a renamed id.
            return f"\0{is_secret}={name}" if name else f"\0{is_secret}+{fresh.setdefault(value, len(fresh))}"

        key = digest(_RENAMED.sub(rename, text))
        if fresh:
            # Two calls that are alike but for their fresh ids must not lend them one name.
            twin = self._twins[key] = self._twins.get(key, -1) + 1
            self._names.update({value: f"{key[:16]}.{twin}.{number}" for value, number in fresh.items()})
        return key
