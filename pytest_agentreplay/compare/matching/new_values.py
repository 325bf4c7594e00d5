"""Values that a run outside pytest made anew: ids that were drawn, and times that a clock gave.

A captured service has its own clock and ids, so unchanged code may send others in a replay. Two such values are taken
as equal only where both are new in their runs: no whole token of the input, nor of a reply or a tool's result that came
before, nor an id of other runs of the same entry. A time has to lie within the run, and ids stand for one another one
to one over the whole run, those of calls that were served exactly included. All else of a call is compared exactly: by
its text, with the form of each value in its place.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.compare.diagnose.progress import list_spoken_texts
from pytest_agentreplay.compare.diagnose.sections import compare_calls, is_setting
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.compare.matching.credentials import read_text
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT
from pytest_agentreplay.model.exchanges import Call, Exchange, HttpReply, Run
from pytest_agentreplay.snapshots.kit import list_draws, table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.reading import Reader

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
AHEAD = 32  # unserved calls that a call may be, those of its lane first
SLACK = 1.0  # seconds: wall time, of which the start is read, and monotonic time, of which the rest is, drift apart
MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
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

    def list_offsets(self, value: NewValue) -> set[int]:
        """Return with which offsets from UTC a time lies within the run; none for one of another time."""
        kind, text = value
        precision = 86_400 if kind == "date" else 1 if kind in {"epoch", "stamp"} or _SECONDS.search(text) else 60
        offsets: Iterable[int] = (0,)
        try:
            if kind == "epoch":
                at = float(text) / 10 ** (len(text.partition(".")[0]) - 10)
            else:
                if kind == "stamp":
                    text = f"{text[12:16]}-{MONTHS.index(text[8:11]) // 3 + 1:02}-{text[5:7]} {text[17:25]}Z"
                elif kind == "clock":
                    text = f"{datetime.fromtimestamp(self.began + self.zone, UTC).date()} {text:0>5}"
                moment = datetime.fromisoformat(text)
                if moment.tzinfo is None:
                    offsets = OFFSETS if kind == "time" else (0, self.zone)
                at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):  # no time of the calendar
            return set()
        latest = self.ended + SLACK
        return {offset for offset in offsets if self.began - SLACK - precision < at - offset <= latest}


class NewValues:
    """Which recorded calls differ from one of now in new values alone, and which id stands for which recorded one.

    Attributes:
        taken: How many values were taken as equal, by path and kind.
        others: The ids of other runs of the same entry, as `list_ids` returns them: they are new in none.
        began: When the run of now began, in seconds since the epoch, where its clock is real; else None.
    """

    def __init__(
        self, run: Run, matching: Matching, reader: Reader, others: Collection[str] = (), began: float | None = None
    ) -> None:
        """No call of `run` is read before it matters."""
        kit, start = run.header.kit, run.header.clock / 1e9
        zone = table(kit, "zone").get("offset")
        ended = max((x.timing.end or x.timing.start for x in run.exchanges), default=0) / 1e9
        self.taken: Counter[tuple[str, str]] = Counter()
        self.others, self.began = others, began
        self._period = RunPeriod(start, start + ended, zone if isinstance(zone, int) else 0)
        self._exchanges, self._matching, self._reader = run.exchanges, matching, reader
        self._spoken = {0: fold_ids(canonical(kit.get("input")))}
        self._masked: dict[int, tuple[str, list[NewValue]]] = {}
        self._sites = {drawn: (lane, site) for lane, site, ids in list_draws(kit) for drawn in ids}
        self._learned: set[int] = set()
        self._pairs: set[tuple[str, str]] = set()

    def find(self, call: Call, lanes: Collection[str], served: Mapping[int, Call], at: int) -> Exchange | None:
        """Return the first unserved exchange that `call` is but for new values, of `lanes` before any other lane.

        `at` are the nanoseconds since the run of now began.
        """
        form, values = mask_values(self._matching.text(call))
        top = (x for x in self._exchanges if x.parent is None and x.call.boundary == call.boundary)
        unserved = sorted((x for x in top if x.start not in served), key=lambda x: x.lane not in lanes)
        for x in unserved[:AHEAD]:
            recorded, old_values = self._mask(x)
            if recorded == form:
                self._learn(served)
                if self._accept(x, call, [*zip(old_values, values, strict=True)], served, at):
                    return x
        return None

    def _mask(self, x: Exchange) -> tuple[str, list[NewValue]]:
        if x.start not in self._masked:
            self._masked[x.start] = mask_values(self._matching.text(x.call))
        return self._masked[x.start]

    def _learn(self, served: Mapping[int, Call]) -> None:
        """Note which ids stood for which in the calls that were served since."""
        for x in self._exchanges:
            if x.start in served and x.start not in self._learned:
                self._learned.add(x.start)
                recorded, now = self._mask(x), mask_values(self._matching.text(served[x.start]))
                if recorded[0] == now[0]:
                    self._pairs = self._join(zip(recorded[1], now[1], strict=True)) or self._pairs

    def _join(self, pairs: Iterable[tuple[NewValue, NewValue]]) -> set[tuple[str, str]] | None:
        """Return the pairs of ids so far and `pairs`; None where they are not one to one.

        A recorded id that comes back as it was recorded may have come from a reply, which has it from the first run.
        """
        renamed = {old for old, _ in self._pairs}
        ids = {(old.text, new.text) for old, new in pairs if old.kind in IDS}
        ids = self._pairs | {(old, new) for old, new in ids if old != new or old not in renamed}
        return ids if len({old for old, _ in ids}) == len({new for _, new in ids}) == len(ids) else None

    def _accept(
        self, x: Exchange, call: Call, pairs: list[tuple[NewValue, NewValue]], served: Collection[int], at: int
    ) -> bool:
        """Return whether `call` is `x` but for new values; these are counted, and stand for one another then."""
        if (joined := self._join(pairs)) is None:
            return False
        for old, new in {(old, new) for old, new in pairs if old != new and (old.text, new.text) not in self._pairs}:
            if not (old.kind in IDS or self._is_time(old, new, at)) or not self._are_new(old, new, x, served):
                return False
        taken: list[tuple[str, str]] = []
        for path, *sides, _, _ in compare_calls(x.call, call, matched=self._matching.headers):
            recorded, now = ("" if side is ABSENT else canonical(side) for side in sides)
            for old, new in zip(mask_values(recorded)[1], mask_values(now)[1], strict=False):
                if old != new:
                    start = recorded.index(old.text)
                    if is_setting(path, recorded, start, start + len(old.text)):
                        return False
                    taken.append((path, old.kind))
        self._pairs = joined
        self._learned.add(x.start)
        self.taken.update(taken)
        return True

    def _is_time(self, old: NewValue, new: NewValue, at: int) -> bool:
        """Return whether both are times of their runs, in one zone."""
        offsets = self._period.list_offsets(new)
        if self.began is not None:
            offsets |= RunPeriod(self.began, self.began + at / 1e9, self._period.zone).list_offsets(new)
        return not offsets.isdisjoint(self._period.list_offsets(old))

    def _are_new(self, old: NewValue, new: NewValue, x: Exchange, served: Collection[int]) -> bool:
        """Return whether neither occurs in the input, in what came before `x` or was served, or in another run.

        Another id that the recorded run drew is new only where both were drawn at one call site, which draws more now.
        """
        before = [y for y in self._exchanges if y.start in served or (y.finish or x.start) < x.start]
        spoken = [self._spoken[0], *map(self._read_text, before)]
        values = [fold_ids(value.text) for value in (old, new)]
        if old.kind in IDS:
            if values[1] in self._sites and self._sites[values[1]] != self._sites.get(values[0]):
                return False
            return not any(value in self.others or any(value in text for text in spoken) for value in values)
        tokens = [re.compile(rf"(?<![\w:.+]){re.escape(value)}(?![\w:+]|\.\w)") for value in values]
        return not any(token.search(text) for token in tokens for text in spoken)

    def _read_text(self, x: Exchange) -> str:
        """Return all that an exchange gave back; of a stream what it amounts to, too."""
        if x.start not in self._spoken:
            text = "" if x.outcome is None else read_text(x.outcome)
            if isinstance(x.outcome, HttpReply):
                text = content(x.outcome.headers, x.outcome.body).data.decode("utf-8", "replace")
            self._spoken[x.start] = fold_ids("\n".join([text, *list_spoken_texts(x, self._reader)]))
        return self._spoken[x.start]


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
