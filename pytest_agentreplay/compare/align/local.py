"""What each exchange of a run added to what its lane had said before, and what came back: the keys of alignment.

Agents resend their history, so one changed tool result changes every later request as a whole. What a request added
against the best of the lane's last requests changes once. Ids that replies minted are told by the message that first
held them, so that two recordings of the same behaviour have the same keys, and a mix-up of ids has not.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.sections import normalize_address
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.canonical_json import NotJson, canonical, digest, parse
from pytest_agentreplay.model.exchanges import Failure, FramesReply, HttpReply, ToolCall
from pytest_agentreplay.model.turns import Turn, is_model

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_agentreplay.model.exchanges import Closed, Exchange, Json, Outcome
    from pytest_agentreplay.model.reading import CallReading, Reader


BASES = 8  # earlier requests of a lane that a request may go on from
SHORTEST = 6  # characters from which on an id is renamed: "1" stands in too many texts

_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{SHORTEST},}}")

_NUMBER = re.compile(r"[:\[,](?:-?\d|true|false)")  # may find more than there is, in texts

Minted = dict[str, tuple[str, int, int]]


@dataclass(slots=True, eq=False)
class Item:
    """One exchange, as alignment sees it.

    `sort` is "model", "tool", "retrieval" or "http"; `ordinal` counts the model calls of the lane up to here. `added`
    is the local key, `full_key` that of everything. `new` are the indexes of the messages that the base did not have,
    `dropped` how many of the base's are gone, `changed` the other sections that are not the base's.
    """

    exchange: Exchange
    sort: str
    name: str
    lane: str
    ordinal: int
    added: str
    full_key: object
    reading: CallReading | None = None
    messages: tuple[str, ...] = ()
    sections: dict[str, str] = field(default_factory=dict)
    new: tuple[int, ...] = ()
    dropped: int = 0
    changed: frozenset[str] = frozenset()

    def overlaps(self, other: Item) -> bool:
        """Return whether neither ended before the other began."""
        mine, theirs = self.exchange, other.exchange
        return _end(mine) > theirs.start and _end(theirs) > mine.start


def find_minted_ids(turns: Iterable[Turn], reader: Reader) -> Minted:
    """Return where each reply-made id of a run comes from: lane, ordinal of the model call, place among its ids."""
    origins: Minted = {}
    for lane, sequence in _strands(turns).items():
        ordinal = 0
        for exchange in sequence:
            if is_model(exchange.call, reader):
                ordinal += 1
                for place, value in enumerate(reader.read_reply(exchange.call, exchange.outcome).ids):
                    if len(value) >= SHORTEST:
                        origins.setdefault(value, (lane, ordinal, place))
    return origins


def read_lanes(turns: Iterable[Turn], reader: Reader, ids: Collection[str]) -> dict[str, Lane]:
    """Each lane of a run, read. `ids` are those that replies minted, here or in the run that this is held against."""
    return {lane: Lane(lane, reader, ids, sequence) for lane, sequence in _strands(turns).items()}


def rename_ids(text: str, names: dict[str, str]) -> str:
    """Return a text with each whole word that `names` knows replaced."""
    text = _TOKEN.sub(lambda match: names.get(match[0], match[0]), text)
    for name, instead in names.items():
        if not _TOKEN.fullmatch(name):
            text = text.replace(name, instead)
    return text


class Lane:
    """One lane, read from its start.

    `items` are its exchanges (which of several overlapping tool calls came first does not change their order), `names`
    the ids that it met, told in a way that is the same in another run.
    """

    def __init__(self, lane: str, reader: Reader, ids: Collection[str], sequence: Iterable[Exchange]) -> None:
        """Read `sequence`, the lane's exchanges in order of start."""
        self.lane = lane
        self.reader = reader
        self.ids = ids
        self.odd = [name for name in ids if not _TOKEN.fullmatch(name)]
        self.names: dict[str, str] = {}
        self.twins: Counter[str] = Counter()
        self.ordinal = 0
        self.recent: deque[Item] = deque(maxlen=BASES)
        self.message_keys: dict[str, str] = {}
        self.loose: set[str] = set()
        self.items = _settle_order([self._item(exchange) for exchange in sequence])

    def _item(self, exchange: Exchange) -> Item:
        call = exchange.call
        reading = self.reader.read_call(call)
        if reading.kind == "model":
            return self._model(exchange, reading)
        sort: str
        if isinstance(call, ToolCall):
            sort, name, text = call.boundary, call.name, f"{_format_function(call)} {canonical(call.arguments)}"
        elif reading.kind == "tool":
            sort, name, text = "tool", reading.name, f"{reading.name} {canonical(reading.parameters)}"
        else:
            body_content = content(call.headers, call.body)
            is_bytes = body_content.kind == "bytes"
            body = body_content.data.decode("latin-1") if is_bytes else canonical(body_content.tree)
            sort, name, text = "http", reading.name, f"{call.method} {normalize_address(call.url)} {body}"
        key = self._key(text)
        return Item(exchange, sort, name, self.lane, self.ordinal, key, key)

    def _model(self, exchange: Exchange, reading: CallReading) -> Item:
        self.ordinal += 1
        messages = self._messages(reading)
        call, sections = exchange.call, dict[str, str]()
        if isinstance(call, ToolCall):
            sections["call"] = _format_function(call)
        else:
            sections["url"] = normalize_address(call.url)
        sections |= {
            "$.model": reading.model,
            reading.tools_at or "$.tools": self._key(canonical(list(reading.tools))),
            **{f"$.{name}": self._key(canonical(value)) for name, value in reading.parameters.items()},
        }
        if reading.system_at:
            sections[reading.system_at] = self._key(canonical(list(reading.system)))
        item = Item(exchange, "model", reading.name, self.lane, self.ordinal, "", (messages, sections), reading)
        item.messages, item.sections = messages, sections
        item.new, item.dropped, item.changed = self._against_best(messages, sections)
        parts = [str(item.dropped), *(messages[i] for i in item.new)]
        parts += [f"{name} {sections.get(name, 'absent')}" for name in sorted(item.changed)]
        item.added = digest("\n".join(parts))
        self.recent.appendleft(item)
        return item

    def _messages(self, reading: CallReading) -> tuple[str, ...]:
        """A key for each message; one that stands where it stood in the request before is not written out again."""
        before = self.recent[0] if self.recent else None
        old = before.reading.messages if before is not None and before.reading is not None else ()
        keys = before.messages if before is not None else ()
        same = 0
        for message, other, key in zip(reading.messages, old, keys, strict=False):
            # Python takes 1 for true; where a message holds such values, only its text can tell.
            if message != other or (key in self.loose and canonical(message) != canonical(other)):
                break
            same += 1
        return (*keys[:same], *(self._message(message) for message in reading.messages[same:]))

    def _message(self, message: Json) -> str:
        """Return the key that a message got when it was first sent: the ids in it are named after it."""
        text = canonical(message)
        if text not in self.message_keys:
            key = self.message_keys[text] = self._key(text)
            if _NUMBER.search(text):
                self.loose.add(key)
        return self.message_keys[text]

    def _key(self, text: str) -> str:
        """Return the digest of a text, with its reply-made ids named after the text that held them first."""
        if not self.ids:
            return digest(text)
        fresh: dict[str, int] = {}

        def token(word: str) -> str:
            if word not in self.ids:
                return word
            return f"\0{self.names.get(word) or fresh.setdefault(word, len(fresh))}"

        text = _TOKEN.sub(lambda match: token(match[0]), text)
        for name in self.odd:
            if name in text:
                text = text.replace(name, token(name))
        key = digest(text)
        if fresh:
            self.twins[key] += 1
            self.names.update({word: f"{key[:16]}.{self.twins[key]}.{place}" for word, place in fresh.items()})
        return key

    def _against_best(
        self, messages: tuple[str, ...], sections: dict[str, str]
    ) -> tuple[tuple[int, ...], int, frozenset[str]]:
        """Return what is new, how much was dropped and what changed, against the base that explains most."""
        best: tuple[tuple[int, ...], int, frozenset[str]] = tuple(range(len(messages))), 0, frozenset(sections)
        cost = len(messages) + len(sections)
        for base in self.recent:
            new, dropped = _against(base.messages, messages)
            changed = frozenset(
                name for name in {*sections, *base.sections} if sections.get(name) != base.sections.get(name)
            )
            if len(new) + dropped + len(changed) < cost:
                best, cost = (new, dropped, changed), len(new) + dropped + len(changed)
            if not dropped and not changed and len(new) <= 2:
                break
        return best


def _against(base: tuple[str, ...], mine: tuple[str, ...]) -> tuple[tuple[int, ...], int]:
    """Return the indexes in `mine` that `base` does not have in this order, and how many of the base are gone."""
    if mine[: len(base)] == base:
        return tuple(range(len(base), len(mine))), 0
    at = 0
    while at < min(len(base), len(mine)) and base[at] == mine[at]:
        at += 1
    places: dict[str, deque[int]] = {}
    for i in range(at, len(base)):
        places.setdefault(base[i], deque()).append(i)
    new, last, kept = [], at - 1, at
    for i in range(at, len(mine)):
        queue = places.get(mine[i], deque())
        while queue and queue[0] <= last:
            queue.popleft()
        if queue:
            last = queue.popleft()
            kept += 1
        else:
            new.append(i)
    return tuple(new), len(base) - kept


def _strands(turns: Iterable[Turn]) -> dict[str, list[Exchange]]:
    sequences: dict[str, list[Exchange]] = {}
    for turn in turns:
        sequences.setdefault(turn.lane, []).extend(turn.exchanges)
    return sequences


def _settle_order(items: list[Item]) -> list[Item]:
    """Return the items, overlapping calls that ask no model in an order of their own: any of them may come first."""
    groups: list[list[Item]] = []
    for item in items:
        group = groups[-1] if groups and "model" not in {item.sort, groups[-1][0].sort} else []
        if any(item.overlaps(member) for member in group):
            group.append(item)
        else:
            groups.append([item])
    return [item for group in groups for item in sorted(group, key=lambda item: (item.sort, item.name, item.added))]


def _format_function(call: ToolCall) -> str:
    """Return the name of the function that is called, with what was said of it."""
    return f"{call.name} {canonical(call.facts)}" if call.facts else call.name


def _end(exchange: Exchange) -> int:
    return exchange.finish if exchange.finish is not None else exchange.start + 1


def describe_answer(exchange: Exchange, reader: Reader) -> Json:
    """Return what came back, without ids and counts: the part of an outcome that two runs are compared on."""
    call, outcome = exchange.call, exchange.outcome
    if not isinstance(call, ToolCall) and isinstance(outcome, HttpReply | FramesReply) and is_model(call, reader):
        reply = reader.read_reply(call, outcome)
        uses: list[Json] = [{"name": use.name, "arguments": _value(use.arguments)} for use in reply.tool_uses]
        parts: dict[str, Json] = {"text": reply.text, "tool_calls": uses}
        if isinstance(outcome, HttpReply):
            parts["status"] = outcome.status
        parts["finish_reasons"] = list(reply.finish_reasons)
        if reply.error:
            parts["error"] = reply.error
        return parts
    return _describe_outcome(outcome)


def _value(arguments: Json) -> Json:
    value = parse(arguments, exact=True) if isinstance(arguments, str) else arguments
    return arguments if isinstance(value, NotJson) else value


def _describe_outcome(outcome: Outcome | None) -> Json:
    """Return any outcome as one value."""
    match outcome:
        case None:
            return {"unfinished": True}
        case Failure(kind, message):
            return {"raised": f"{kind}: {message}".rstrip(": ")}
        case HttpReply(status):
            body_content = content(outcome.headers, outcome.body)
            body = body_content.tree if body_content.kind != "bytes" else body_content.data.decode("utf-8", "replace")
            return {"status": status, "body": body, **_describe_failure(outcome.failure)}
        case FramesReply():
            frames: list[Json] = [_value(frame.data.decode("utf-8", "replace")) for frame in outcome.frames()]
            return {"frames": frames, **_describe_close(outcome.closed), **_describe_failure(outcome.failure)}
        case _:
            items: dict[str, Json] = {} if outcome.items is None else {"items": list(outcome.items)}
            items |= {"sent": list(outcome.sent)} if outcome.sent else {}
            return {"value": outcome.value, **items, **_describe_failure(outcome.failure)}


def _describe_close(closed: Closed | None) -> dict[str, Json]:
    return {} if closed is None else {"closed": closed.code, "reason": closed.reason}


def _describe_failure(failure: Failure | None) -> dict[str, Json]:
    return {} if failure is None else {"raised": f"{failure.type}: {failure.message}".rstrip(": ")}
