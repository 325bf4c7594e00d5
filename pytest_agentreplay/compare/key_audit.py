"""Key honesty: which changes of a recorded call its key does not show, and the declared rule that says why.

Every value of a call is changed, every member deleted, an unknown one added to every object, and neighbours of every
list are swapped, one change at a time. A change that leaves the key as it was is *hidden*, by a rule or because it is
in an id that the client made itself. Any other hidden change is a fault of the matching.

A body is reduced to what leads to the changed place, so that a change costs the same in a body of any size. Where a
rule names an element of a list by its index, the other elements are null, and else left out. The dialect is that of the
call as recorded: what a change makes of the dialect is not tried.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain, pairwise
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pytest_agentreplay.compare.matching import Matching, with_tree
from pytest_agentreplay.compare.matching.address import MatchContent, content, pairs, split
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import Call, Json, JsonObject, ToolCall, WireCall
from pytest_agentreplay.model.json_paths import Choice, Place, Selector, rewritten, show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.model.rules import BOUNDARY, Part, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pytest_agentreplay.model.reading import Reader

CLIENT_IDS = "ids that the client makes (reason: drawn anew in each run; they are renamed, and compared by their use)"
NEW = "agentreplay-unknown"
"""The name of a member that no API has."""
Change: TypeAlias = "tuple[int, str, Callable[[], str]]"
"""What tells a change from others under other rules too, what it is in words, and what gives the verdict on it."""
HeadChange: TypeAlias = "tuple[Part, str, str, WireCall]"
"""A header or query parameter, its name, what is done to it, and the changed call."""
VERDICTS_KEPT = 1_000_000  # 77 MB of memory
_FAULT = "\0"  # no rule is described so


@dataclass(slots=True)
class Sensitivity:
    """How many changes were tried, how many of them each rule hides, and those that are hidden without a rule."""

    tried: int = 0
    hidden: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def seen(self) -> int:
        """Return how many changes are in the key."""
        return self.tried - self.hidden.total() - self.faults.total()

    def count(self, change: str, verdict: str) -> None:
        """Count one change, "" being the verdict on one that the key shows."""
        self.tried += 1
        if verdict == _FAULT:
            self.faults[change] += 1
        elif verdict:
            self.hidden[verdict] += 1

    def add(self, other: Sensitivity) -> None:
        """Count what was found elsewhere too."""
        self.tried += other.tried
        self.hidden.update(other.hidden)
        self.faults.update(other.faults)


class KeyAudit:
    """Tries changes of calls under the rules of one project, and remembers what came of each."""

    def __init__(self, matching: Matching, reader: Reader) -> None:
        """`reader` is that of `matching`."""
        self._matching, self._reader = matching, reader
        self._verdicts: dict[int, str] = {}

    def audit(self, calls: Iterable[Call]) -> Sensitivity:
        """Return what becomes of every change of these calls; what several of them hold is tried and counted once.

        Raises what `Body.data` raises.
        """
        total, tried = Sensitivity(), set[int]()
        if len(self._verdicts) > VERDICTS_KEPT:
            self._verdicts.clear()
        for call in calls:
            subject = AuditedCall(self._matching, self._reader, call)
            for identity, change, judge in chain(subject.list_head_changes(), subject.list_changes(tried)):
                if identity not in tried:
                    tried.add(identity)
                    verdict = self._verdicts.get(identity)
                    if verdict is None:
                        verdict = self._verdicts[identity] = judge()
                    total.count(change, verdict)
        return total


class AuditedCall:
    """A call whose body or arguments are exchanged for others, and what declares that a place is not compared."""

    def __init__(self, matching: Matching, reader: Reader, call: Call) -> None:
        """Read the call once."""
        self._matching, self._call, self._table = matching, call, matching.rule_table(call)
        reading = reader.read_call(call)
        self._host = "" if isinstance(call, ToolCall) else split(call.url).host
        self._content = None if isinstance(call, ToolCall) else content(call.headers, call.body)
        self.tree: Json = call.tree if isinstance(call, ToolCall) else content(call.headers, call.body).tree
        self._keys: dict[str, str] = {}
        equal = [rule for rule in self._table.equal if rule.part == "body" and rule.applies(self._host)]
        rules = [rule for _, rule in self._table.body if rule.applies(self._host)] + equal
        self._equal = [compile_path(rule.path) for rule in equal]
        self._declared: list[tuple[Selector, str]] = [(compile_path(path), CLIENT_IDS) for path in reading.client_ids]
        self._declared += [(compile_path(rule.path), describe_rule(rule)) for rule in rules]
        paths = (*self._declared, *((compile_path(path), "") for path in reading.client_refs))
        steps = [step for selector, _ in paths for step in selector.steps]
        # A filter asks what stands beside a place: such a path needs the whole tree.
        self._filtered = any(isinstance(step.want, Choice) for step in steps)
        self._indexed = self._filtered or any(step.is_numbered for step in steps)
        kind = self._content.kind if self._content else "tool"
        self.shape = hash((kind, reading.dialect, *((selector.text, label) for selector, label in paths)))

    def list_changes(self, tried: set[int]) -> Iterator[Change]:
        """Yield the changes of the body, without elements of lists that were `tried` before in the same place."""
        if self._content is not None and self._content.kind == "bytes":
            text = self._content.data.decode("latin-1")
            yield self._change((), (), "changed", text, f"{text}~")
            return
        # A stack of its own: a body may be nested as deep as the parser goes.
        stack: list[tuple[Place, Json]] = [((), self.tree)]
        while stack:
            place, node = stack.pop()
            if isinstance(node, dict):
                yield from self._list_member_changes(place, node)
                stack.extend(((*place, name), value) for name, value in node.items())
            elif isinstance(node, list) and node:
                yield from self._list_swaps(place, node)
                for index, value in enumerate(node):
                    at = (*place, index)
                    identity = hash((self.shape, at if self._filtered else (), canonical(self.lead_to(at, value))))
                    if identity not in tried:
                        tried.add(identity)
                        stack.append((at, value))
            else:
                yield self._change(place, place, "changed", node, change_value(node))
                if isinstance(node, str) and self._is_equal_at(place, node):
                    yield self._change(place, place, "other digits", node, change_digits(node))

    def _change(self, above: Place, place: Place, what: str, before: Json, after: Json) -> Change:
        if self._filtered and isinstance(before, dict) and isinstance(after, dict):
            holder: Any = reduce(getitem, above, cast("Any", self.tree))
            others = {name: value for name, value in holder.items() if name not in before | after}
            before, after = others | before, others | after
        trees = self.lead_to(above, before), self.lead_to(above, after)
        identity = hash((self.shape, *map(canonical, trees)))
        return identity, f"{show(place)}: {what}", partial(self._judge, place, trees)

    def _list_member_changes(self, place: Place, node: JsonObject) -> Iterator[Change]:
        yield self._change(place, (*place, NEW), "added", {}, {NEW: NEW})
        for name, value in node.items():
            # What is deleted is empty: its contents are tried where they stand.
            empty: Json = {} if isinstance(value, dict) else [] if isinstance(value, list) else value
            yield self._change(place, (*place, name), "deleted", {name: empty}, {})

    def _list_swaps(self, place: Place, node: list[Json]) -> Iterator[Change]:
        for index, (first, then) in enumerate(pairwise(node)):
            if canonical(first) != canonical(then):
                trees = (self._pad(index, [*pair], len(node)) for pair in ((first, then), (then, first)))
                yield self._change(place, place, "neighbours swapped", *trees)

    def _is_equal_at(self, place: Place, value: Json) -> bool:
        tree = self.lead_to(place, value) if self._equal else None
        return any(hit == self._reduce(place) for selector in self._equal for hit, _ in selector.find(tree))

    def lead_to(self, place: Place, value: Json) -> Json:
        """Return the tree with `value` at `place`, and nothing that does not lead there unless a filter asks for it."""
        if self._filtered:
            return rewritten(self.tree, {place: value})
        holders: list[Any] = [self.tree]
        for step in place:
            holders.append(holders[-1][step])
        for step, holder in zip(reversed(place), reversed(holders[:-1]), strict=True):
            value = {step: value} if isinstance(step, str) else self._pad(step, [value], len(holder))
        return value

    def _pad(self, index: int, elements: list[Json], length: int) -> list[Json]:
        """Return elements of a list of that length, from `index` on, with null for the others where an index counts."""
        if not self._indexed:
            return elements
        return [*[None] * index, *elements, *[None] * (length - index - len(elements))]

    def _reduce(self, place: Place) -> Place:
        """Return where `place` is in the tree that leads there."""
        return place if self._indexed else tuple(0 if isinstance(step, int) else step for step in place)

    def _judge(self, place: Place, trees: tuple[Json, Json]) -> str:
        """Return what hides a change of the body: "" for one that the key shows, _FAULT where nothing is declared."""
        if self._key(trees[0]) != self._key(trees[1]):
            return ""
        place = self._reduce(place)
        for selector, label in self._declared:
            for tree in trees:
                for hit, _ in selector.find(tree):
                    if hit == place[: len(hit)] or place == hit[: len(place)]:
                        return label
        return _FAULT

    def _key(self, tree: Json) -> str:
        # The tree before a change is that of all changes at its place, so each key is asked for several times.
        text = canonical(tree)
        if text not in self._keys:
            self._keys[text] = self._compute_key(tree, text)
        return self._keys[text]

    def _compute_key(self, tree: Json, text: str) -> str:
        if isinstance(self._call, ToolCall):
            return self._matching.key_alone(with_tree(self._call, tree))
        assert self._content is not None
        return self._key_of(self._call, self._content._replace(tree=tree, data=text.encode("utf-8", "surrogatepass")))

    def _key_of(self, call: WireCall, body_content: MatchContent) -> str:
        return self._matching.ids().key(self._matching.text(call, body_content))

    def list_head_changes(self) -> Iterator[Change]:
        """Yield the changes of matched headers and of the query."""
        call = self._call
        if isinstance(call, ToolCall):
            return
        headers = self._matching.headers
        matched = tuple(pair for pair in call.headers if pair[0].lower() in headers)
        equal = {(rule.part, rule.path) for rule in self._table.equal}
        changes = chain(change_headers(call, headers), change_query(call))
        for part, name, what, changed in changes:
            if what != "other digits" or (part, name) in equal:
                identity = hash((self.shape, call.method, call.url, matched, part, name, what))
                yield identity, f"{part} {name}: {what}", partial(self._judge_head, part, name, changed)

    def _judge_head(self, part: Part, name: str, changed: WireCall) -> str:
        assert self._content is not None
        assert not isinstance(self._call, ToolCall)
        body_content = self._content._replace(tree=None, data=b"")
        if self._key_of(self._call, body_content) != self._key_of(changed, body_content):
            return ""
        equal = (rule for rule in self._table.equal if (rule.part, rule.path) == (part, name))
        rule = self._table.find_rule(part, name, self._host) or next(equal, None)
        if rule is None and name == "content-type":
            rule = self._table.find_rule("header", BOUNDARY, "")
        return describe_rule(rule) if rule else _FAULT


def describe_rule(rule: Rule) -> str:
    """Return a rule in a line: "rule http body $.user (reason: ...)"."""
    where = f" at {rule.host}" if rule.host else ""
    pattern = f" ~ {rule.pattern}" if rule.pattern else ""
    return f"rule {rule.scope} {rule.part} {rule.path}{pattern}{where} (reason: {rule.reason})"


def change_value(value: Json) -> Json:
    """Return another value of the same type; a text for null."""
    match value:
        case bool():
            return not value
        case str():
            return f"{value}~"
        case int() | float():
            return value + 1 if value + 1 != value else -value
        case None:
            return NEW
        case _:
            return [None]


def change_digits(text: str) -> str:
    """Return a text of the same shape with other digits."""
    return text.translate(str.maketrans("0123456789", "1234567890"))


def change_headers(call: WireCall, matched: Collection[str]) -> Iterator[HeadChange]:
    """Yield the changes of each header whose name in lower case is `matched`."""
    for at, (name, value) in enumerate(call.headers):
        if name.lower() in matched:
            for what, others in (("changed", [f"{value}~"]), ("other digits", [change_digits(value)]), ("deleted", [])):
                headers = (*call.headers[:at], *((name, other) for other in others), *call.headers[at + 1 :])
                yield "header", name.lower(), what, replace(call, headers=headers)


def change_query(call: WireCall) -> Iterator[HeadChange]:
    """Yield the changes of each parameter in the query, and of an unknown one added."""
    address, mark, fragment = call.url.partition("#")
    base, _, query = address.partition("?")
    pieces = [piece for piece in query.split("&") if piece]

    def change(name: str, what: str, changed: list[str]) -> HeadChange:
        url = f"{base}{'?' if changed else ''}{'&'.join(changed)}{mark}{fragment}"
        return "query", name, what, replace(call, url=url)

    yield change(NEW, "added", [*pieces, f"{NEW}=1"])
    for at, piece in enumerate(pieces):
        name, equals, value = piece.partition("=")
        decoded, before, after = pairs(piece)[0][0].lower(), pieces[:at], pieces[at + 1 :]
        yield change(decoded, "changed", [*before, f"{name}={value}~", *after])
        yield change(decoded, "other digits", [*before, f"{name}{equals}{change_digits(value)}", *after])
        yield change(decoded, "deleted", [*before, *after])
