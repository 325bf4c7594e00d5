"""Near calls: the recorded call that one of now may be although their keys differ.

Two kinds, each tried after an equal key was looked for in vain:

- A recorded call whose pictures, sounds or files are others. All that stands beside these must be equal, and a function
  of the test's has to say of each that it is near enough.
- A recorded call that held a secret where the one of today has a stand-in, a dummy key or nothing. A stand-in is no
  secret, so it comes without a placeholder; nor has a placeholder what became known as a secret after it was sent,
  which a recording mends at its end. The two are the same call when nothing else differs, and what stands for one
  placeholder is the same wherever that stands. Any other text is a change: an agent that sent a key where it sends a
  word now does something else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.compare.matching.address import MatchContent, boundary, content, header
from pytest_agentreplay.model import media
from pytest_agentreplay.model.divergence import Difference
from pytest_agentreplay.model.exchanges import Call, Exchange, ToolCall, WireCall
from pytest_agentreplay.model.json_paths import Place, rewritten, show
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.placeholders import SHAPES, SIGNS
from pytest_agentreplay.redaction.secret_names import is_stand_in, looks_random

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_agentreplay.compare.matching.key import CallKeys
    from pytest_agentreplay.model.media import Media


Near: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Says of a type ("image/png"), the recorded bytes and those of now whether they are near enough."""

MediaByPlace: TypeAlias = "dict[Place, Media]"

_WHY = "watch: near enough, as agentreplay.media says"
# A body of these types is one medium as a whole; any other body of bytes may be text in an encoding of its own.
_WHOLE = ("image/", "audio/", "video/", "application/pdf")

# Characters of the longest value that is tried in the place of a placeholder. Without a limit the text behind a
# placeholder would be looked for through all of a call, for each placeholder of each recorded one.
LONGEST = 512


class NearMatches:
    """Exchanges that carry media, by all that stands beside these."""

    def __init__(self, matching: CallKeys, near: Near, exchanges: Iterable[Exchange]) -> None:
        """Read them once."""
        self._matching, self._near = matching, near
        self._by_key: dict[str, list[Exchange]] = defaultdict(list)
        for x in exchanges:
            if key := key_without_media(matching, x.call):
                self._by_key[key].append(x)

    def find(self, call: Call, lane: str, served: Collection[int]) -> Exchange | None:
        """Return the first unserved one whose media are near enough to those of `call`, of its lane before others."""
        alike = self._by_key.get(key_without_media(self._matching, call), ())
        return _find_unserved(alike, lane, served, lambda x: compare_media(x.call, call, self._near) is not None)


class PlaceholderMatches:
    """Exchanges whose calls hold placeholders of secrets, by what the others of them are."""

    def __init__(self, matching: CallKeys, exchanges: Iterable[Exchange]) -> None:
        """Read them once. Nothing stands in for what is personal."""
        self._matching = matching
        self._secret = _compile_secret(matching.personal)
        texts = ((x, matching.text(x.call)) for x in exchanges)
        holders = [(x, text) for x, text in texts if any(sign in text for sign in SIGNS)]
        self._exchanges = [x for x, _ in holders]
        self._parts = {x.start: self._secret.split(text) for x, text in holders}

    def find(self, call: Call, lane: str, served: Collection[int]) -> Exchange | None:
        """Return the first unserved one for whose placeholders `call` has stand-ins, of its lane before any other."""
        if not self._exchanges:
            return None
        text = self._matching.text(call)
        return _find_unserved(
            self._exchanges, lane, served, lambda x: stands_for(self._parts[x.start], text, self._secret)
        )


def _find_unserved(
    exchanges: Iterable[Exchange], lane: str, served: Collection[int], fits: Callable[[Exchange], bool]
) -> Exchange | None:
    """Return the first exchange that was not served and `fits`, of `lane` before any other lane."""
    unserved = [x for x in exchanges if x.start not in served]
    return next((x for x in sorted(unserved, key=lambda x: x.lane != lane) if fits(x)), None)


def key_without_media(matching: CallKeys, call: Call) -> str:
    """Return the key of a call without its pictures, sounds and files, of which the types stay; "" without any."""
    if isinstance(call, ToolCall):
        return ""
    body_content, by_place = split_media(call)
    return matching.ids().key(matching.text(call, body_content)) if by_place else ""


def split_media(call: WireCall) -> tuple[MatchContent, MediaByPlace]:
    """Return what a call holds, with the type of each of its media in its place, and the media by their places."""
    body_content = content(call.headers, call.body)
    if body_content.kind == "bytes":
        medium = media.make_media(body_content.data, header(call.headers, "content-type"))
        if not medium.kind.startswith(_WHOLE):
            return body_content, {}
        return body_content._replace(data=f"<{medium.kind}>".encode()), {(): medium}
    by_place = dict(media.find_media(body_content.tree))
    if body_content.kind == "multipart":
        by_place |= _find_files(call, body_content)
    types = {place: f"<{medium.kind}>" for place, medium in by_place.items()}
    return body_content._replace(tree=rewritten(body_content.tree, types)), by_place


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
    """Return where the media of two calls differ near enough; None where one is another, or stands elsewhere."""
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return None
    old, new = split_media(recorded)[1], split_media(now)[1]
    # In order too: it is that of the body, in which two pictures that changed places say something else.
    if [(place, medium.kind) for place, medium in old.items()] != [
        (place, medium.kind) for place, medium in new.items()
    ]:
        return None
    changed = [(place, medium, new[place]) for place, medium in old.items() if medium.data != new[place].data]
    if not all(near(medium.kind, medium.data, other.data) for _, medium, other in changed):
        return None
    return tuple(Difference(show(place), str(medium), str(other), _WHY) for place, medium, other in changed)


def _compile_secret(personal: Collection[str]) -> re.Pattern[str]:
    """Return a placeholder of a secret, in a group: of any category that is not `personal`."""
    others = f"(?:(?!(?:{'|'.join(map(re.escape, sorted(personal)))}):)" if personal else "(?:"
    return re.compile(f"({'|'.join(shape.replace('(?P<category>', others) for shape in SHAPES)})")


def stands_for(parts: list[str], text: str, secret: re.Pattern[str]) -> bool:
    """Return whether `text` is the even `parts` with a stand-in for each placeholder, the odd ones, between them."""
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return False
    at, last = len(parts[0]), len(text) - len(parts[-1])
    values: dict[str, str] = {}
    for placeholder, after in zip(parts[1::2], parts[2::2], strict=True):
        final = after is parts[-1]
        end = last if final else text.find(after, at, at + LONGEST + len(after)) if after else -1
        if not at <= end <= at + LONGEST:
            return False
        value = text[at:end]
        if values.setdefault(placeholder, value) != value or not may_stand_in(value, placeholder, secret):
            return False
        at = end + len(after)
    return True


def may_stand_in(value: str, placeholder: str, secret: re.Pattern[str]) -> bool:
    """Return whether a value of today may be what a placeholder stands for: itself, nothing, a dummy, a secret."""
    if not value or value == placeholder or secret.fullmatch(value) is not None:
        return True
    return is_stand_in(as_bytes(value)) or looks_random(as_bytes(value))
