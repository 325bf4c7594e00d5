"""Values that a run outside pytest made anew: ids that were drawn, and times that a clock gave.

A captured service has its own clock and ids, so unchanged code may send others in a replay. Two such values are taken
as equal only where both are new in their runs: no whole token of the input, nor of a reply or a tool's result that came
before, nor a value of other runs of the same entry. A time has to lie within the run, and ids stand for one another one
to one over the whole run, those of calls that were served exactly included. All else of a call is compared exactly: its
text is the key, with the form of each value in its place.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.diagnose.progress import list_spoken_texts
from pytest_agentreplay.core.diagnose.sections import compare_calls, is_setting
from pytest_agentreplay.core.kit import table, texts
from pytest_agentreplay.core.matching.address import content
from pytest_agentreplay.core.matching.wiring import read_text
from pytest_agentreplay.core.model import HttpReply, ToolCall

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call, Exchange, Run
    from pytest_agentreplay.core.reading import Reader

_VALUE = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"(?P<uuid>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
    r"|(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?P<zone>Z|[+-]\d\d:?\d\d)?)"
    r"|(?P<date>\d{4}-\d\d-\d\d)"
    r"|(?P<stamp>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)"
    r"|(?P<clock>[0-2]?\d:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?)"
    r"|(?P<epoch>[12]\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?)"
    r"|(?P<id>(?:0x)?(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,64})"
    r")(?![0-9A-Za-z])"
)
# A letter that ends an escape is no part of the word behind it, in JSON inside of JSON neither.
_ESCAPE = re.compile(r"\\+(?:u[0-9a-f]{4}|[bfnrt\"/])|\\\\")
_SECONDS = re.compile(r":\d\d:\d\d")
IDS = frozenset({"uuid", "id"})
AHEAD = 16  # unserved calls of the lane, and of other lanes, that a call may be
SLACK = 1.0  # seconds: wall time, of which the start is read, and monotonic time, of which the rest is, drift apart
DAY = 86_400
OFFSETS = range(-14 * 3600, 14 * 3600 + 1, 900)  # of all zones, from UTC in seconds


class NewValue(NamedTuple):
    """A value in the text of a call: its kind (a group of the pattern), and the value."""

    kind: str
    text: str


class RunPeriod(NamedTuple):
    """When a run began and ended, in seconds since the epoch, and the offset of its zone from UTC."""

    began: float
    ended: float
    zone: int = 0

    def list_offsets(self, value: NewValue) -> frozenset[int]:
        """Return with which offsets from UTC a time lies within the run; none for one of another time."""
        kind, text = value
        precision = DAY if kind == "date" else 60 if kind in {"time", "clock"} and not _SECONDS.search(text) else 1
        offsets: Iterable[int] = (0,)
        try:
            if kind == "epoch":
                at = float(text) / 10 ** (len(text.partition(".")[0]) - 10)
            elif kind == "stamp":
                at = parsedate_to_datetime(text).timestamp()
            elif kind == "clock":
                at = sum(float(part) * 60 ** (2 - place) for place, part in enumerate(text.split(":")))
                at += DAY * round((self.began - at) / DAY)
            else:
                moment = datetime.fromisoformat(text)
                offsets = OFFSETS if kind == "time" and moment.tzinfo is None else offsets
                at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):  # no time of the calendar
            return frozenset()
        if kind in {"clock", "date"}:
            offsets = (0, self.zone)
        inside = (offset for offset in offsets if self._holds(at - offset, precision, daily=kind == "clock"))
        return frozenset(inside)

    def _holds(self, at: float, precision: int, *, daily: bool) -> bool:
        """Whether the run was under way at some time from `at` on for `precision` seconds, on any day if `daily`."""
        times = (at - DAY, at, at + DAY) if daily else (at,)
        return any(self.began - SLACK - precision < time <= self.ended + SLACK for time in times)


class NewValues:
    """The recorded calls by their texts without such values, and which id of now stands for which recorded one.

    Attributes:
        taken: How many values were taken as equal, by path and kind.
    """

    def __init__(
        self, run: Run, matching: Matching, reader: Reader, others: Collection[str] = (), began: float | None = None
    ) -> None:
        """Read all calls of `run`.

        `others` are the ids of other runs of the same entry, as `list_ids` returns them: they are new in none. `began`
        is when the run of now did, in seconds since the epoch, where its clock is real.
        """
        kit, start = run.header.kit, run.header.clock / 1e9
        zone = table(kit, "zone").get("offset")
        ended = max((x.timing.end or x.timing.start for x in run.exchanges), default=0) / 1e9
        self.taken: Counter[tuple[str, str]] = Counter()
        self._period = RunPeriod(start, start + ended, zone if isinstance(zone, int) else 0)
        self._today = None if began is None else RunPeriod(began, began, self._period.zone)
        self._run, self._matching, self._reader, self._others = run, matching, reader, others
        self._input = fold_ids(canonical(kit.get("input")))
        self._spoken: dict[int, str] = {}
        self._masked: dict[int, tuple[str, list[NewValue]]] = {}
        self._top = [x for x in run.exchanges if x.parent is None]
        self._sites = {
            identity: (lane, site)
            for lane, sites in table(kit, "uuids").items()
            for site, ids in (sites.items() if isinstance(sites, dict) else ())
            for identity in texts(ids)
        }
        self._learned: set[int] = set()
        self._names: dict[str, str] = {}
        self._recorded: dict[str, str] = {}
        self._times: set[tuple[NewValue, NewValue]] = set()

    def find(self, call: Call, lanes: Collection[str], served: Mapping[int, Call], at: int) -> Exchange | None:
        """Return the first unserved exchange that `call` is but for new values, of `lanes` before any other lane.

        `at` are the nanoseconds since the run of now began.
        """
        if self._today is not None:
            self._today = self._today._replace(ended=self._today.began + at / 1e9)
        masked = mask_values(self._matching.text(call))
        unserved = [x for x in self._top if x.start not in served and is_alike(x.call, call)]
        here, elsewhere = [x for x in unserved if x.lane in lanes], [x for x in unserved if x.lane not in lanes]
        candidates = (*here[:AHEAD], *elsewhere[:AHEAD])
        matches = [x for x in candidates if self._mask_recorded(x)[0] == masked[0]]
        if matches:
            self._learn(served)
        return next((x for x in matches if self._accept(x, call, masked[1], served)), None)

    def _mask_recorded(self, x: Exchange) -> tuple[str, list[NewValue]]:
        if x.start not in self._masked:
            self._masked[x.start] = mask_values(self._matching.text(x.call))
        return self._masked[x.start]

    def _learn(self, served: Mapping[int, Call]) -> None:
        """Note which ids stood for which in the calls that were served since."""
        for x in self._top:
            if x.start in served and x.start not in self._learned:
                self._learned.add(x.start)
                (form, recorded), (other, now) = (
                    self._mask_recorded(x),
                    mask_values(self._matching.text(served[x.start])),
                )
                for old, new in zip(recorded, now, strict=True) if form == other else ():
                    if old.kind in IDS:
                        self._names.setdefault(old.text, new.text)
                        self._recorded.setdefault(new.text, old.text)

    def _accept(self, x: Exchange, call: Call, values: list[NewValue], served: Collection[int]) -> bool:
        """Return whether `call` is `x` but for new values; these are counted, and stand for one another then."""
        pairs = [*zip(self._mask_recorded(x)[1], values, strict=True)]
        names, recorded = dict(self._names), dict(self._recorded)
        for old, new in sorted(pairs, key=lambda pair: pair[0].text != pair[1].text):
            if old.kind not in IDS:
                if old.text != new.text and not self._is_time(old, new, x, served):
                    return False
                continue
            fresh = old.text not in names and new.text not in recorded
            if names.setdefault(old.text, new.text) != new.text or recorded.setdefault(new.text, old.text) != old.text:
                if old.text != new.text:
                    return False
            elif old.text != new.text and fresh and not self._are_new(old, new, x, served):
                return False
        differences = compare_calls(x.call, call, matched=self._matching.headers)
        if any(is_setting(difference.path) for difference in differences):
            return False
        self._names, self._recorded = names, recorded
        for path, *sides, _ in differences:
            masked = [mask_values(canonical(side))[1] for side in sides]  # type: ignore[arg-type]
            self.taken.update((path, old.kind) for old, new in zip(*masked, strict=False) if old != new)
        return True

    def _is_time(self, old: NewValue, new: NewValue, x: Exchange, served: Collection[int]) -> bool:
        """Return whether both are times of their runs, in one zone. A history that is sent again has them again."""
        if (old, new) in self._times:
            return True
        offsets = self._period.list_offsets(new)
        if self._today is not None:
            offsets |= self._today.list_offsets(new)
        if not offsets & self._period.list_offsets(old) or not self._are_new(old, new, x, served):
            return False
        self._times.add((old, new))
        return True

    def _are_new(self, old: NewValue, new: NewValue, x: Exchange, served: Collection[int]) -> bool:
        """Return whether neither occurs in the input, in what came before `x` or was served, or in another run.

        Another id that the recorded run drew is new only where both were drawn at one call site, which draws more now.
        """
        before = (y for y in self._run.exchanges if y.start in served or (y.finish or x.start) < x.start)
        spoken = [self._input, *map(self._read, before)]
        values = [fold_ids(value.text) for value in (old, new)]
        if old.kind in IDS:
            if values[1] in self._sites and self._sites[values[1]] != self._sites.get(values[0]):
                return False
            return not any(value in self._others or any(value in text for text in spoken) for value in values)
        tokens = [re.compile(rf"(?<![\w:.+]){re.escape(value)}(?![\w:+]|\.\w)") for value in values]
        return not any(token.search(text) for token in tokens for text in spoken)

    def _read(self, x: Exchange) -> str:
        """Return all that an exchange gave back; of a stream what it amounts to, too."""
        if (spoken := self._spoken.get(x.start)) is None:
            outcome = x.outcome
            match outcome:
                case None:
                    whole = ""
                case HttpReply():
                    whole = content(outcome.headers, outcome.body).data.decode("utf-8", "replace")
                case _:
                    whole = read_text(outcome)
            spoken = self._spoken[x.start] = fold_ids("\n".join(chain((whole,), list_spoken_texts(x, self._reader))))
        return spoken


def is_alike(recorded: Call, now: Call) -> bool:
    """Return whether two calls may be the same at all: of one tool, or one kind of request."""
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return isinstance(recorded, ToolCall) and isinstance(now, ToolCall) and recorded.name == now.name
    return recorded.method == now.method


def mask_values(text: str) -> tuple[str, list[NewValue]]:
    """Return `text` with the form of each value in its place, and the values."""
    values: list[NewValue] = []

    def mask(match: re.Match[str]) -> str:
        kind, text, zone = str(match.lastgroup), match[0], match["zone"] or ""
        values.append(NewValue(kind, text))
        if kind in IDS:
            version = text[14:15] if kind == "uuid" else ""
            return f"\1{kind} {len(text)} {version} {text.isupper()}\1"
        return f"\1{kind} {re.sub('[0-9]', '0', text.removesuffix(zone).partition('.')[0])}{zone}\1"

    return _VALUE.sub(mask, _ESCAPE.sub("\\g<0>\0", text)), values


def list_ids(text: str) -> set[str]:
    """Return the ids in the canonical text of a call, as `NewValues.others` has them."""
    return {fold_ids(value.text) for value in mask_values(text)[1] if value.kind in IDS}


def fold_ids(text: str) -> str:
    """Return `text` in lower case, with the digits of each uuid in one piece."""
    return _UUID.sub(r"\1\2\3\4\5", text.casefold())


_UUID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})")
