"""When two calls are the same call.

Two identities: `fingerprint` costs microseconds and takes a body by its digest; `key` reads the body, leaves out what
the rules name, and renames what the client made up. Equal fingerprints mean equal keys. What was left out is not lost:
`drift` tells it.

Values that differ by environment and are declared equal: hosts, paths, and parts of any value.

The matched part is replaced by a mark before two calls are compared; everything around it is compared as usual.

Calls that may differ in their pictures, sounds or files alone: known by all that stands beside these.

Whether two of them are near enough is for a function of the test's to say; only where it says so is one taken for the
other.

Exchanges that a call may stand for though its pictures, sounds or files are others.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias, cast

from pytest_agentreplay.compare.matching.address import Url, boundary, content, header, is_this_host, split
from pytest_agentreplay.compare.matching.wiring import MADE, MEANT, SHORTEST, ClientIds
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Difference
from pytest_agentreplay.model.exchanges import SELF, Body, FrameCall, ToolCall
from pytest_agentreplay.model.json_paths import rewritten, show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.model.rules import BOUNDARY, MATCHED_HEADERS, RuleTable
from pytest_agentreplay.redaction.headers import secret_header
from pytest_agentreplay.redaction.placeholders import DIGEST, OPAQUE, SIGNS
from pytest_agentreplay.redaction.policy import PERSONAL

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator

    from pytest_agentreplay.compare.matching.address import MatchContent, Url
    from pytest_agentreplay.model.exchanges import Call, Exchange, Headers, Json, JsonObject, WireCall
    from pytest_agentreplay.model.json_paths import Place
    from pytest_agentreplay.model.media import Media
    from pytest_agentreplay.model.reading import CallReading, Reader
    from pytest_agentreplay.model.rules import Part, Rule

MARK = "[[equal]]"


class EqualValues:
    """The rules with the action "equal" of one scope."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Sort `rules` by their part."""
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.part, []).append(rule)

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return bool(self._rules)

    def host(self, url: Url) -> str:
        """Return the host of `url` with its equal parts marked."""
        return self._mark("host", "", url.host, url.host)

    def path(self, url: Url) -> str:
        """Return the path of `url` with its equal parts marked."""
        return self._mark("path", "", url.path, url.host)

    def header(self, name: str, value: str, host: str) -> str:
        """Return the value of a header (`name` in lower case) with its equal parts marked."""
        return self._mark("header", name, value, host)

    def query(self, name: str, value: str, host: str) -> str:
        """Return the value of a query parameter with its equal parts marked."""
        return self._mark("query", name.lower(), value, host)

    def body(self, tree: Json, host: str) -> Json:
        """Return the tree with the equal parts of its texts marked."""
        for rule in self._rules.get("body", ()):
            if rule.applies(host):
                tree = compile_path(rule.path).replace(tree, partial(_mark_text, rule))
        return tree

    def marked_texts(self, tree: Json, host: str) -> dict[Place, tuple[str, str]]:
        """Return each text of the tree that has an equal part, as it is and with that part marked, by its place."""
        places = {
            place: value
            for rule in self._rules.get("body", ())
            if rule.applies(host)
            for place, value in compile_path(rule.path).find(tree)
            if isinstance(value, str)
        }
        marked = {place: value for place, value in compile_path("$..*").find(self.body(tree, host)) if place in places}
        return {place: (value, str(marked.get(place, value))) for place, value in places.items()}

    def _mark(self, part: Part, name: str, value: str, host: str) -> str:
        for rule in self._find_rules(part, name, host):
            value = mark_equal(rule, value)
        return value

    def _find_rules(self, part: Part, name: str, host: str) -> Iterator[Rule]:
        for rule in self._rules.get(part, ()):
            if (part in {"host", "path"} or rule.path == name) and rule.applies(host):
                yield rule


def body_parts(equal: EqualValues, tree: Json, host: str) -> dict[str, tuple[str, str]]:
    """Return the texts of a body that have an equal part, by their paths."""
    return {show(place): texts for place, texts in equal.marked_texts(tree, host).items()}


def equal_differences(recorded: dict[str, tuple[str, str]], now: dict[str, tuple[str, str]]) -> Iterator[Difference]:
    """Yield the values that differ only in the parts that are declared equal."""
    for path in recorded.keys() & now.keys():
        (old, old_marked), (new, new_marked) = recorded[path], now[path]
        if old != new and old_marked == new_marked:
            yield Difference(path, old, new, "equal: declared by a rule of the project")


def mark_equal(rule: Rule, value: str) -> str:
    """Return `value` with the parts that are equal by `rule` replaced by a mark."""
    if rule.pattern:
        return re.sub(rule.pattern, MARK, value)
    match = _glob(rule.path, rule.part == "host").match(value)
    return f"{rule.path.replace('*', MARK)}{value[match.end() :]}" if match else value


def _mark_text(rule: Rule, value: Json) -> Json:
    return mark_equal(rule, value) if isinstance(value, str) else value


@lru_cache(maxsize=256)
def _glob(text: str, is_host: bool) -> re.Pattern[str]:
    """Return what matches a whole host, or the beginning of a path up to the end of a segment or a method's colon."""
    any_text = "[^./]+" if is_host else "[^/:]+"
    regex = any_text.join(re.escape(part) for part in (text.lower() if is_host else text).split("*"))
    return re.compile(f"{regex}$" if is_host else f"{regex}(?=[/:]|$)")


Near: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Says of a type ("image/png"), the recorded bytes and those of now whether they are near enough."""

MediaByPlace = dict["Place", "Media"]

_WHY = "watch: near enough, as agentreplay.media says"
_WHOLE = ("image/", "audio/", "video/", "application/pdf")


def split_media(call: WireCall) -> tuple[MatchContent, MediaByPlace]:
    """Return what a call holds, with the type of each of its media in its place, and the media by their places."""
    body_content = content(call.headers, call.body)
    if body_content.kind == "bytes":
        medium = media.make_media(body_content.data, header(call.headers, "content-type"))
        if not medium.kind.startswith(_WHOLE):
            return body_content, {}
        return body_content._replace(data=f"<{medium.kind}>".encode()), {(): medium}
    by_place = dict(media.find_media(body_content.tree)) | (
        _find_files(call, body_content) if body_content.kind == "multipart" else {}
    )
    return body_content._replace(
        tree=rewritten(body_content.tree, {place: f"<{medium.kind}>" for place, medium in by_place.items()})
    ), by_place


def _find_files(call: WireCall, body_content: MatchContent) -> MediaByPlace:
    """Return the parts of a multipart that are no text."""
    mark = boundary(header(call.headers, "content-type")).encode()
    pieces = (b"\r\n" + body_content.data).split(b"\r\n--" + mark)
    by_place: MediaByPlace = {}
    for at, part in enumerate(body_content.tree if isinstance(body_content.tree, list) else ()):
        match part:
            case {"headers": str(head), "body": {"sha256": str()}}:
                by_place[at, "body"] = media.make_media(pieces[at].partition(b"\r\n\r\n")[2], media.part_type(head))
    return by_place


def compare_media(recorded: Call, now: Call, near: Near) -> tuple[Difference, ...] | None:
    """Where the media of two calls differ near enough; None where one of them is another, or stands elsewhere."""
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return None
    old, new = split_media(recorded)[1], split_media(now)[1]
    if [(place, medium.kind) for place, medium in old.items()] != [
        (place, medium.kind) for place, medium in new.items()
    ]:
        return None
    differences = []
    for place, medium in old.items():
        other = new[place]
        if medium.data != other.data:
            if not near(medium.kind, medium.data, other.data):
                return None
            differences.append(Difference(show(place), str(medium), str(other), _WHY))
    return tuple(differences)


__all__ = ["ClientIds", "Matching"]

_URLS_KEPT = 4096
_HEADS_KEPT = 256


class Matching:
    """The rules of one project, ready to compare calls. Safe from any thread.

    `rules` are the shipped ones (`dialects.RULES`) and the project's after them; without any, everything matches.
    """

    def __init__(
        self, reader: Reader, rules: Iterable[Rule] = (), *, also: Collection[str] = (), personal: Collection[str] = ()
    ) -> None:
        """`also` are the names, in lower case, of headers that belong to the key beside those that always do.

        Placeholders of personal values, of the categories `personal` and of bodies that cannot be read match exactly.
        """
        self._reader = reader
        self._rules = tuple(rules)
        self.headers = MATCHED_HEADERS | frozenset(also)
        self._also = frozenset(also)
        self.digests = True
        """Whether the recording tells by digests the headers that it does not store."""
        self.personal = PERSONAL | frozenset(personal) | {OPAQUE}
        self._tables: dict[str, RuleTable] = {}
        self._equal_values: dict[RuleTable, EqualValues] = {}
        self._urls: dict[str, str] = {}
        self._heads: dict[Headers, Headers] = {}
        self._latest: tuple[Call | None, Hashable] = None, None
        self.near: Near | None = None
        """Says which pictures, sounds and files are near enough; without it only equal ones are."""

    def ids(self) -> ClientIds:
        """Return what a run is going to teach about its ids."""
        return ClientIds(self.personal)

    def fingerprint(self, call: Call) -> Hashable:
        """Return a cheap identity: method, URL, headers that match, and the body by its digest, unread."""
        # A backend is asked twice about a call, whether it recognises it and what its answer is.
        latest, fingerprint = self._latest
        if latest is not call:
            fingerprint = self._fingerprint(call)
            self._latest = call, fingerprint
        return fingerprint

    def _fingerprint(self, call: Call) -> Hashable:
        if isinstance(call, ToolCall):
            return call.boundary, call.name, canonical(call.facts), canonical(call.arguments)
        url = self._urls.get(call.url)
        if url is None:
            if len(self._urls) >= _URLS_KEPT:
                self._urls.clear()
            url = self._urls[call.url] = self._url(split(call.url), self._table("http"))
        if isinstance(call, FrameCall):
            return call.connection, call.binary, url, self._head(call.headers), call.body.sha256
        return call.method, url, self._head(call.headers), call.body.sha256

    def key(self, call: Call, ids: ClientIds) -> str:
        """The canonical identity of a call, as a hex digest. `ids` learns from it: ask once for each call, in order.

        About 10 us per kB of JSON body. Raises what `Body.data` raises.
        """
        return ids.key(self._text(call))

    def text(self, call: Call, body_content: MatchContent | None = None) -> str:
        """Return the canonical text of a call, of which `key` is the digest: ids and placeholders as they stand.

        `body_content` is taken for what the body of the call holds, where it is given.
        """
        return self._text(call, body_content)

    def rule_table(self, call: Call) -> RuleTable:
        """Return the rules for calls of this kind."""
        return self._table("tool" if isinstance(call, ToolCall) else self._reader.read_call(call).dialect)

    def ignored_values(self, call: Call) -> dict[str, tuple[Json, Rule | None]]:
        """Return what of a call is not compared at all: path -> value and the rule that leaves it out.

        Values that have a part that is declared equal are among them, and unmatched headers; these have no rule.
        Credentials and local ports are not: which of them is which is compared.
        """
        equal = self._equal_parts(call) if self.rule_table(call).equal else {}
        values: dict[str, tuple[Json, Rule | None]] = {
            path: (value, None) for path, (value, marked) in equal.items() if value != marked
        }
        if not isinstance(call, ToolCall) and "url" in values and (url := split(call.url)).loopback:
            values["url"] = call.url.replace(f":{url.port}", "", 1), None
        for path, (value, rule) in self._list_unkeyed(call).items():
            wired = path == "url.loopback-port" or (isinstance(value, str) and any(sign in value for sign in SIGNS))
            if path.startswith("$") or not wired:
                values[path] = value, rule
        return values

    def strip_ignored(self, call: Call) -> Call:
        """Return the call with nothing of its body or arguments but what counts."""
        if isinstance(call, ToolCall):
            return self._strip_ignored_tool(call)
        body_content, table = content(call.headers, call.body), self._table(self._reader.read_call(call).dialect)
        left = self._remove_ignored(body_content.tree, table, split(call.url).host)
        if body_content.kind != "json" or left is body_content.tree:
            return call
        headers = tuple(pair for pair in call.headers if pair[0].lower() != "content-encoding")
        return replace(call, headers=headers, body=Body(canonical(left).encode("utf-8", "surrogatepass")))

    def _strip_ignored_tool(self, call: ToolCall) -> ToolCall:
        arguments = {**cast("JsonObject", self._remove_ignored(call.tree, self._table("tool"), ""))}
        facts: JsonObject = {name: fact for name, fact in call.facts.items() if name != SELF}
        if SELF in call.facts and SELF in arguments:
            facts[SELF] = arguments.pop(SELF)
        return replace(call, arguments=arguments, facts=facts)

    def key_without_media(self, call: Call) -> str:
        """The key of a call without its pictures, sounds and files, of each of which its type stays; "" without any."""
        if isinstance(call, ToolCall):
            return ""
        body_content, by_place = split_media(call)
        return self.ids().key(self._text(call, body_content=body_content)) if by_place else ""

    def key_alone(self, call: Call) -> str:
        """Return the key of a call beside no others: ids are renamed by their places in it alone."""
        return self.ids().key(self._text(call))

    def near_enough(self, recorded: Call, now: Call) -> bool:
        """Whether the pictures, sounds and files of two calls that are alike beside them may stand for each other."""
        return self.near is not None and compare_media(recorded, now, self.near) is not None

    def drift(self, recorded: Call, now: Call) -> tuple[Difference, ...]:
        """Return what differs between two calls of equal key, place by place.

        The note says "watch: why", "drop: why" (a shipped rule), "ignored: why" (a rule of the project) or
        "equal: why".

        Paths are "$..." in the body or the arguments, "headers.NAME", "query.NAME" and "url.PART".
        """
        before, after = self._list_unkeyed(recorded), self._list_unkeyed(now)
        differences = [*(compare_media(recorded, now, self.near) or ())] if self.near is not None else []
        for path in before | after:
            old, rule = before.get(path, (ABSENT, None))
            new, other = after.get(path, (ABSENT, None))
            if old is ABSENT or new is ABSENT or canonical(old) != canonical(new):
                differences.append(Difference(path, old, new, _note(rule or other)))
        return (*differences, *self._equal_differences(recorded, now))

    def _equal_differences(self, recorded: Call, now: Call) -> Iterator[Difference]:
        """Yield what differs between two calls and is declared equal."""
        scope = "tool" if isinstance(recorded, ToolCall) else self._reader.read_call(recorded).dialect
        if self._table(scope).equal:
            yield from equal_differences(self._equal_parts(recorded), self._equal_parts(now))

    def _equal_parts(self, call: Call) -> dict[str, tuple[str, str]]:
        """Return what has a part that is declared equal: path -> the value, and the value with that part marked."""
        if isinstance(call, ToolCall):
            return body_parts(self._equal(self._table("tool")), call.tree, "")
        table, url = self._table(self._reader.read_call(call).dialect), split(call.url)
        parts = {"url": (call.url, self._url(url, table))}
        for name, value in self._head(call.headers):
            parts[f"headers.{name}"] = value, self._equal(table).header(name, value, url.host)
        return parts | body_parts(self._equal(table), content(call.headers, call.body).tree, url.host)

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

    def _table(self, scope: str) -> RuleTable:
        table = self._tables.get(scope)
        if table is None:
            table = self._tables[scope] = _table_of(self._rules, scope)
        return table

    def _equal(self, table: RuleTable) -> EqualValues:
        equal = self._equal_values.get(table)
        if equal is None:
            equal = self._equal_values[table] = EqualValues(table.equal)
        return equal

    def _text(self, call: Call, body_content: MatchContent | None = None) -> str:
        """Return the canonical text of a call, in which the ids that the client made itself are marked."""
        if isinstance(call, ToolCall):
            facts: Json = {name: fact for name, fact in call.facts.items() if name != SELF}
            put_to = canonical([call.boundary, call.name, facts])
            return f"{put_to}\n{canonical(self._remove_ignored(call.tree, self._table('tool'), ''))}"
        reading = self._reader.read_call(call)
        table = self._table(reading.dialect)
        url = split(call.url)
        body_content = body_content or content(call.headers, call.body)
        body = self._body(body_content, reading, table, url.host)
        head: list[Json] = [call.method, self._url(url, table)]
        if isinstance(call, FrameCall):
            head += [call.connection, call.binary]
        for name, value in self._head(call.headers):
            if name in self._also or table.find_rule("header", name, url.host) is None:
                plain = (
                    body_content.kind == "multipart"
                    and name == "content-type"
                    and table.find_rule("header", BOUNDARY, "")
                )
                marked = self._equal(table).header(name, value, url.host)
                head += [name, _without_boundary(marked) if plain else marked]
        return f"{canonical(head)}\n{body}"

    def _body(self, body_content: MatchContent, reading: CallReading, table: RuleTable, host: str) -> str:
        if body_content.kind == "bytes" or (
            body_content.kind == "multipart" and table.find_rule("header", BOUNDARY, "") is None
        ):
            return body_content.data.decode("latin-1")
        tree = self._remove_ignored(body_content.tree, table, host)
        return f"{body_content.kind} {canonical(_mark_client_ids(tree, reading))}"

    def _remove_ignored(self, tree: Json, table: RuleTable, host: str) -> Json:
        for path, rule in table.body:
            if rule.applies(host):
                tree = path.remove(tree)
        return self._equal(table).body(tree, host)

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

    def address(self, call: WireCall) -> str:
        """Return scheme, host and path of a request, without a port and with equal parts marked."""
        url, equal = split(call.url), self._equal(self._table(self._reader.read_call(call).dialect))
        host = equal.host(url)
        return f"{url.scheme}://{'localhost' if is_this_host(host) else host}{equal.path(url)}"

    def _url(self, url: Url, table: RuleTable) -> str:
        equal = self._equal(table)
        host, path = equal.host(url), equal.path(url)
        port = "" if url.port is None else f":{url.port}"
        if url.loopback and "loopback-port" in table.url:
            host, port = "localhost" if is_this_host(host) else host, ""
        userinfo = "" if "userinfo" in table.url or not url.userinfo else f"{url.userinfo}@"
        fragment = "" if "fragment" in table.url or not url.fragment else f"#{url.fragment}"
        query = [
            (name, equal.query(name, value, url.host))
            for name, value in url.query
            if table.find_rule("query", name.lower(), url.host) is None
        ]
        query.sort(key=itemgetter(0))
        bare = [name for name in url.bare if table.find_rule("query", name.lower(), url.host) is None]
        return f"{url.scheme}://{userinfo}{host}{port}{path}?{query}{sorted(bare) or ''}{fragment}"

    def _list_unkeyed(self, call: Call) -> dict[str, tuple[Json, Rule | None]]:
        """Return all of a call that is not in its key: path -> value and the rule that left it out."""
        values: dict[str, tuple[Json, Rule | None]] = {}
        if not isinstance(call, ToolCall):
            url, table = split(call.url), self._table(self._reader.read_call(call).dialect)
            host, tree = url.host, content(call.headers, call.body).tree
            values.update(self._list_unkeyed_outside(call, url, table))
        else:
            host, tree, table = "", call.tree, self._table("tool")
        for path, rule in table.body:
            if rule.applies(host):
                values.update((show(place), (value, rule)) for place, value in path.find(tree))
        return values

    def _list_unkeyed_outside(
        self, call: WireCall, url: Url, table: RuleTable
    ) -> Iterator[tuple[str, tuple[Json, Rule | None]]]:
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
            unread = name.lower() not in self.headers and not secret_header(name.lower())  # which one it is, is wiring
            if (rule is not None or unread) and (self.digests or not value.startswith(DIGEST)):
                yield f"headers.{name.lower()}", (value, rule)


@lru_cache(maxsize=64)
def _table_of(rules: tuple[Rule, ...], scope: str) -> RuleTable:
    """Return the rules for one scope. Remembered: the tests of a session have the same rules."""
    scopes = {scope} if scope == "tool" else {scope, "http"}
    return RuleTable(rule for rule in rules if rule.scope in scopes)


@lru_cache(maxsize=256)
def _without_credentials(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if not secret_header(pair[0].lower()))


def _note(rule: Rule | None) -> str:
    if rule is None:
        return "watch: not among the headers that match"
    return f"{'ignored' if rule.is_of_project and rule.action == 'drop' else rule.action}: {rule.reason}"


def _mark_client_ids(tree: Json, reading: CallReading) -> Json:
    """The tree with the client's session-wide ids numbered; those that are one of their kind are marked instead."""
    seen: dict[str, int] = {}

    def mark_made(value: Json) -> Json:
        if isinstance(value, str) and len(value) >= SHORTEST:
            return {MADE: value}
        return f"\0{seen.setdefault(canonical(value), len(seen))}" if isinstance(value, str | int) else value

    def mark_meant(value: Json) -> Json:
        return {MEANT: value} if isinstance(value, str) and len(value) >= SHORTEST else value

    for paths, change in ((reading.client_ids, mark_made), (reading.client_refs, mark_meant)):
        for path in paths:
            tree = compile_path(path).replace(tree, change)
    return tree


def _without_boundary(content_type: str) -> str:
    kept = [part for part in content_type.split(";") if part.strip().partition("=")[0].lower() != "boundary"]
    return ";".join(kept)


class NearMatches:
    """Exchanges that carry media, by all that stands beside these."""

    def __init__(self, matching: Matching, exchanges: Iterable[Exchange]) -> None:
        """Read them once."""
        self._matching = matching
        self._queues: dict[str, deque[Exchange]] = defaultdict(deque)
        for x in exchanges:
            if key := matching.key_without_media(x.call):
                self._queues[key].append(x)

    def find(self, call: Call, lane: str, served: Collection[int]) -> Exchange | None:
        """The first unserved one whose media are near enough to those of `call`, of its lane before any other."""
        queue = self._queues.get(self._matching.key_without_media(call), deque())
        while queue and queue[0].start in served:
            queue.popleft()
        for mine in (True, False):
            for x in queue:
                due = x.start not in served and (x.lane == lane) is mine
                if due and self._matching.near_enough(x.call, call):
                    return x
        return None
