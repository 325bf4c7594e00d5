"""Traces of other tools out of files, redacted before anybody reads them; and the bytes that a case keeps of each.

Everything else is made of what cleaning gives, so that no datum has a way around it. What is left is still a trace file
of the same tool: headers lose their credentials, texts their secrets; ids and times, which resemble long numbers, stay.
A file that holds several runs is kept as far as it tells of the one: rows of others are left out where that changes
nothing of what is read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import SOURCE_TRACE
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.redaction.encodings import DEEPEST
from pytest_agentreplay.redaction.headers import set_cookies
from pytest_agentreplay.redaction.policy import Policy, join_policies
from pytest_agentreplay.runs.redact.redaction_setup import redaction_for
from pytest_agentreplay.runs.redact.rule_review import RuleHit, in_text
from pytest_agentreplay.runs.redact.trace_headers import find_credentials, without_credentials
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.traces import reading
from pytest_agentreplay.traces.opening import LARGEST, pack_archive, rows_of, text_of, unpack_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.redaction.redaction import Redaction
    from pytest_agentreplay.traces.trace import Trace

_QUOTE = r"""(?<!\\)\\*["']"""  # from the first backslash of many, or each of them would be a beginning
SCHEME = re.compile("(?:Bearer|Basic|Token|ApiKey) ", re.IGNORECASE)
PLACEHOLDER = re.compile(r"\[\[redacted:[a-z-]+:\d+\]\]")
NUMBER = re.compile(
    rf"""(?P<before>{_QUOTE}(?:\w*(?:time|nano|nanos|timestamp|_at|_ns|created|ended)|(?:parent_?)?(?:span|trace|run)_?id)"""
    rf"""{_QUOTE}\s*:\s*(?:{_QUOTE})?)(?P<digits>\d{{8,20}})(?=[^\d])""",
    re.IGNORECASE,
)
"""A time or an id that is all digits: a card or a telephone for all that a rule can see."""
NUMBER_BYTES = re.compile(NUMBER.pattern.encode(), re.IGNORECASE)
OPAQUE = "[[redacted:opaque:"
"""Stands for what redaction cannot see into."""
BARE = re.compile(r"(?m)^(?P<before>[ \t]*(?:- +)*(?:[^\s\"'#:]+: +)?)(?P<text>\[\[redacted:[^\n]*)$")


def clean_file(data: bytes, file: str, redaction: Redaction) -> tuple[bytes, bool]:
    """Return the bytes of a trace file without what the rules find, and whether these bytes may be kept.

    Nothing can be taken out of what is no text: it is read as it is, and not kept if anything is found in it. Raises
    TraceError for what cannot be opened.
    """
    data, packed_files = unpack_file(data, file=file)
    if packed_files is None:
        return _member(data, redaction, file)
    members = {name: _member(member, redaction, f"{file}: {name}") for name, member in packed_files.items()}
    return pack_archive({name: data for name, (data, _) in members.items()}), all(fine for _, fine in members.values())


def _member(data: bytes, redaction: Redaction, file: str) -> tuple[bytes, bool]:
    text = text_of(data)
    if text is None:
        return data, not redaction.text.findings(data)
    kept = clean(text, redaction)
    if OPAQUE in kept and text[:1] in "{[" and is_torn(text, kept):
        msg = f"holds JSON in strings of JSON, more than {DEEPEST} times; redaction sees no deeper: unpack it first"
        raise TraceError(msg, file=file)
    return kept.encode(), True


def is_torn(before: str, after: str) -> bool:
    """Return whether a text is JSON no more, or holds fewer rows of it."""
    (rows, _), (left, _) = rows_of(before), rows_of(after)
    return len(left or ()) != len(rows or ())


def clean(text: str, redaction: Redaction) -> str:
    """Return a text of JSON or YAML without what the rules find, and still JSON or YAML."""
    text = without_credentials(text, _Headers(redaction).make_placeholder)
    digits_held: list[str] = []
    mark = "zq"
    while mark in text:
        mark += "q"

    def hold(match: re.Match[str]) -> str:
        digits_held.append(match["digits"])
        return f"{match['before']}{mark}"

    parts = redaction.redact_text(NUMBER.sub(hold, text)).split(mark)
    text = "".join(part + digits for part, digits in zip(parts, [*digits_held, ""], strict=True))
    return text if text[:1] in "{[" else BARE.sub(lambda match: f"{match['before']}'{match['text']}'", text)


def find_hits(name: str, data: bytes, redaction: Redaction) -> list[RuleHit]:
    """Return what the rules find in a text file, by line and column; in the headers of a kept trace by path too."""
    if not name.startswith(SOURCE_TRACE):
        return in_text(data, redaction)
    text = text_of(data)
    places = find_credentials(text, _Headers(redaction).make_placeholder) if text is not None else []
    data = NUMBER_BYTES.sub(lambda match: match["before"] + b"x" * len(match["digits"]), data)
    return [*(RuleHit(place, "header") for place in places), *in_text(data, redaction)]


class _Headers:
    """What is stored of the credentials in headers, however short they are; each value has a number."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._numbers: dict[str, int] = {}

    def make_placeholder(self, name: str, value: str) -> str:
        """Return what is stored of the value of the header `name`: its scheme, and a placeholder for the rest."""
        scheme = SCHEME.match(value)
        prefix = scheme[0] if scheme else ""
        rest = value[len(prefix) :]
        if not rest.strip() or PLACEHOLDER.fullmatch(rest):
            return value
        if name == "set-cookie":
            for session in set_cookies(((name, value),)):
                self._redaction.learn("cookie", session)
        else:
            self._redaction.headers.redact_request(((name, value),))
        number = self._numbers.setdefault(rest, len(self._numbers) + 1)
        return f"{prefix}[[redacted:header:{number}]]"


PERSONAL = Policy(pii=True)
"""What holds for everything that comes from elsewhere."""


@dataclass(frozen=True, slots=True)
class Import:
    """The runs in some files: `sources` are (name as format_path, redacted bytes), `redaction` is what took things off.

    `unkept` are the names of sources that are no text and hold what must not be stored. `refusal` says why there are
    no runs: what they need was not captured.
    """

    traces: tuple[Trace, ...]
    sources: tuple[tuple[str, bytes], ...]
    redaction: Redaction
    policy: Policy
    environ: Mapping[str, str]
    run_id: str = ""
    unkept: frozenset[str] = frozenset()
    refusal: TraceIncomplete | None = None

    def list_kept(self, trace: Trace | None) -> dict[str, bytes]:
        """Return what a case keeps of the sources of one of the traces, by file name; all of them for none."""
        keeps_all = trace is None or len(self.traces) == 1
        mine = [
            data if keeps_all or trace is None else _own_rows(trace, file, data, self.run_id)
            for file, data in self.sources
        ]
        numbered = len(mine) > 1
        return {
            f"source-trace{f'-{number}' if numbered else ''}.{ending(data)}": data
            for number, data in enumerate(mine, 1)
        }


def import_traces(paths: Sequence[Path], policy: Policy, environ: Mapping[str, str], run_id: str = "") -> Import:
    """The runs in `paths`, which are read together. Raises TraceError, or SnapshotError for what is no plain file."""
    policy = join_policies(policy, PERSONAL)
    redaction = redaction_for(environ, policy=policy)
    cleaned_files = [
        (format_path(path), *clean_file(files.read_file(path, LARGEST), format_path(path), redaction)) for path in paths
    ]
    sources = tuple((file, data) for file, data, _ in cleaned_files)
    unkept = frozenset(file for file, _, fine in cleaned_files if not fine)
    try:
        return Import(tuple(reading.traces(sources, run_id)), sources, redaction, policy, environ, run_id, unkept)
    except TraceIncomplete as refusal:
        return Import((), sources, redaction, policy, environ, run_id, unkept, refusal)


def ending(data: bytes) -> str:
    """Return what a file of these bytes is called at its end."""
    if data.startswith(b"PK\x03\x04"):
        return "zip"
    if data[:1] not in (b"{", b"["):
        return "yaml"
    try:
        json.loads(data)
    except ValueError:
        return "jsonl"
    return "json"


def _own_rows(trace: Trace, file: str, data: bytes, run_id: str) -> bytes:
    """Return the lines that name the run, where these alone are the same run; else all of them."""
    name = [names.encode("utf-8", "replace") for names in (trace.id, trace.source.id) if names]
    lines = data.splitlines(keepends=True)
    own = b"".join(line for line in lines if any(name in line for name in name))
    if own in (b"", data):
        return data
    try:
        runs = reading.traces([(file, own)], run_id)
    except TraceError:
        return data
    return own if len(runs) == 1 and replace(runs[0], source=trace.source) == trace else data
