"""A case as one file to share, and out of such a file again.

What is packed is what a case consists of and nothing beside it, looked through once more for secrets and people. What
is opened comes from a stranger: plain files of known names, of bounded size, each of the digest that the bundle lists.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases import fixtures
from pytest_agentreplay.cases.case import FILE, NOTES, RUN, SOURCE_TRACE
from pytest_agentreplay.cases.linting import lint
from pytest_agentreplay.cases.schema import parse as form
from pytest_agentreplay.errors import CaseError, SnapshotEdited, SnapshotError
from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.redaction.policy import join_policies
from pytest_agentreplay.runs.case_files.trace_import import BARE, PERSONAL, clean_file, find_hits
from pytest_agentreplay.runs.redact.redaction_setup import redaction_for
from pytest_agentreplay.runs.redact.rule_review import Review
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.strict_yaml import find_scalars
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.snapshots.store.layout import RESERVED
from pytest_agentreplay.traces.opening import RATIO, SMALL, pack_archive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.redaction import Redaction

LISTING = "bundle.json"
VERSION = "1.0"
LARGEST = 64 << 20
"""Bytes of a bundle, and of all that is in it."""
MEMBERS = 1000
TEXTS = re.compile(r"source-trace(?:-[1-9][0-9]{0,2})?\.(?:json|jsonl|yaml|zip)|fixtures/[A-Za-z0-9_.-]{1,80}\.yaml")
"""What a case holds beside its three own files."""
PLAIN = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


@dataclass(frozen=True, slots=True)
class PackedBundle:
    """A bundle: bytes, digest, the files in it, those left out, and where something stands that must stay.

    `redacted` says where something was replaced in the copies, with the same words as `findings`.
    """

    data: bytes
    digest: str
    names: tuple[str, ...]
    left: tuple[str, ...]
    findings: tuple[str, ...]
    redacted: tuple[str, ...] = ()


def packed_case(folder: Path, policy: Policy, environ: Mapping[str, str], *, redact: bool = False) -> PackedBundle:
    """Return the bundle of the case in `folder`. `redact` has its copies of the files redacted under the policy.

    Raises CaseError for what is no case, SnapshotError for a broken run, TraceError for a trace that cannot be opened.
    """
    folder = folder.parent if folder.name == FILE else folder
    there = [path.relative_to(folder).as_posix() for path in files.list_below(folder, "", strict=True)]
    names = [name for name in there if is_case_file(name)]
    if FILE not in names:
        raise CaseError(f"there is no {FILE} in it", file=format_path(folder))
    contents = {name: files.read_file(folder / name, LARGEST) for name in names}
    sound(contents, format_path(folder))
    policy = join_policies(policy, PERSONAL)
    lines = all_places(folder, contents, policy, environ)
    redacted: list[str] = []
    if lines and redact:
        before, contents = contents, redacted_copies(contents, policy, environ)
        sound(contents, format_path(folder))
        if not untrue(before) and (broken := untrue(contents)):
            raise CaseError(f"redacted, {broken}: change that check, then share the case", file=format_path(folder))
        redacted, lines = lines, all_places(folder, contents, policy, environ)
    listing = {"schemaVersion": VERSION, "files": {name: digest_of(data) for name, data in sorted(contents.items())}}
    data = pack_archive({**contents, LISTING: (json.dumps(listing, indent=2) + "\n").encode()})
    left = tuple(name for name in there if name not in names)
    return PackedBundle(data, digest_of(data), tuple(names), left, tuple(lines), tuple(redacted))


def all_places(folder: Path, contents: Mapping[str, bytes], policy: Policy, environ: Mapping[str, str]) -> list[str]:
    """Return where in the files of a case something must not be shared: file, place and category, never what."""
    lines = []
    for name, data in contents.items():
        file = f"{format_path(folder)}/{name}"
        if name == RUN:
            hits = Review(codec.loads(data, file=file).run, data, policy, environ).hits
        elif name.endswith(".zip"):
            continue  # its members were redacted one by one when it was made, and no rule reads through a packing
        else:
            hits = find_hits(name.rpartition("/")[2], data, redaction_for(environ, policy=policy))
        lines += [f"{file}:{hit.place}: {hit.category}" for hit in hits]
    return lines


def is_bundle(file: Path) -> bool:
    """Return whether a file is meant as a bundle, be it damaged."""
    try:
        data = files.read_file(file, LARGEST) if files.head(file, 2) == b"PK" else b""
    except SnapshotError:
        return False
    return LISTING.encode() in data or FILE.encode() in data


def open_bundle(file: Path) -> dict[str, bytes]:
    """The files of the case in a bundle, by name. Raises CaseError for one that is damaged, changed or hostile."""
    name = format_path(file)
    contents = _members(files.read_file(file, LARGEST), name)
    listing = parse(contents.pop(LISTING, b""))
    digests = listing.get("files") if not isinstance(listing, NotJson) and isinstance(listing, dict) else None
    if not isinstance(digests, dict):
        raise CaseError(f"is no bundle of a case: it has no {LISTING} that lists its files", file=name)
    for member in {*digests, *contents}:
        if member not in contents or digests.get(member) != digest_of(contents[member]):
            raise CaseError(f"{member!r:.80} is not what the bundle was made with; ask for it again", file=name)
    sound(contents, name)
    return contents


def sound(contents: Mapping[str, bytes], file: str) -> None:
    """Raise CaseError where the case and its run cannot be read."""
    if FILE not in contents:
        raise CaseError(f"holds no {FILE}", file=file)
    form.read_case(contents[FILE], file=f"{file}/{FILE}", folder=Path(), words=None)
    if RUN in contents:
        try:
            codec.loads(contents[RUN], file=f"{file}/{RUN}")
        except SnapshotError as error:
            raise CaseError(str(error), file=file) from None


def untrue(contents: Mapping[str, bytes]) -> str:
    """Return which check of the case its own run does not show; "" for none."""
    if RUN not in contents:
        return ""
    case = form.read_case(contents[FILE], file=FILE, folder=Path(), words=None)
    problems = lint(case, codec.loads(contents[RUN], file=RUN).run, fixtures.read_fixtures({}))
    return next((problem.message for problem in problems if problem.rule == "untrue"), "")


def _members(data: bytes, file: str) -> dict[str, bytes]:
    """Return the files in an archive, if each of them is one that a case may have."""
    contents: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            most = min(LARGEST, max(SMALL, RATIO * len(data)))
            if len(listed) > MEMBERS or sum(info.file_size for info in listed) > most:
                raise CaseError(f"holds more than {MEMBERS:,} files or {most:,} bytes", file=file)
            for info in listed:
                if why := explain_refusal(info, {name.lower() for name in contents}):
                    raise CaseError(f"{info.filename!r:.80} {why}; nothing was written", file=file)
                with archive.open(info) as member:
                    contents[info.filename] = member.read(info.file_size)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, zlib.error, OSError, EOFError) as error:
        raise CaseError(f"is no bundle that can be opened: {error}", file=file) from None
    return contents


def explain_refusal(info: zipfile.ZipInfo, there: set[str]) -> str:
    """Return why a member of an archive is not taken out; "" for one that is."""
    mode = info.external_attr >> 16
    if info.is_dir() or (mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)):
        return "is no plain file"
    if info.filename.lower() in there:
        return "is there twice"
    if info.flag_bits & 1 or info.compress_type not in PLAIN:
        return "is packed in a way that is not read"
    return "" if info.filename == LISTING or is_case_file(info.filename) else "is no file of a case"


def is_case_file(name: str) -> bool:
    """Return whether a case may have a file of that name, which every system takes."""
    if any(RESERVED.match(part) or part.startswith(".") or part.endswith(".") for part in name.split("/")):
        return False
    return name in {FILE, RUN, NOTES} or TEXTS.fullmatch(name) is not None


def digest_of(data: bytes) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(data).hexdigest()


REASON = "redacted for a bundle"


def redacted_copies(contents: Mapping[str, bytes], policy: Policy, environ: Mapping[str, str]) -> dict[str, bytes]:
    """Return `contents` without what `policy` finds. A value has the same placeholder in each file.

    The run comes first, so that its placeholders keep their numbers. It is sealed again.

    Raises:
        SnapshotError: The run cannot be read, or was edited.
        TraceError: A trace file cannot be opened.
    """
    snapshot = codec.loads(contents[RUN], file=RUN) if RUN in contents else None
    run = snapshot.run if snapshot is not None else Run(Header(""), ())
    review = Review(run, contents.get(RUN, b""), policy, environ)
    copies = dict(contents)
    if snapshot is not None and review.hits:
        if not snapshot.sealed:
            raise SnapshotEdited("was edited after it was recorded; agentreplay verify says where", file=RUN)
        copies[RUN] = codec.revise(review.run, snapshot, REASON).encode()
    for name, data in contents.items():
        if name.startswith(SOURCE_TRACE):
            copies[name], _ = clean_file(data, name, review.redaction)
        elif name != RUN:
            copies[name] = text_copy(name, data.decode(errors="replace"), review.redaction).encode()
    return copies


def text_copy(name: str, text: str, redaction: Redaction) -> str:
    """Return a text file without what the rules find; of YAML value by value, so that it stays YAML."""
    if name.endswith(".yaml"):
        for start, end, value in reversed(find_scalars(text)):
            if (stored := redaction.redact_text(value)) != value:
                newline = "\n" if text[start:end].endswith("\n") else ""  # a block scalar ends behind its last line
                text = f"{text[:start]}{json.dumps(stored, ensure_ascii=False)}{newline}{text[end:]}"
    if not redaction.text.findings(text.encode()):
        return text
    return BARE.sub(lambda match: f"{match['before']}'{match['text']}'", redaction.redact_text(text))  # in comments
