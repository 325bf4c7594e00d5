"""Calls that may differ in their pictures, sounds or files alone: known by all that stands beside these.

Whether two of them are near enough is for a function of the test's to say; only where it says so is one taken for the
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.core import media
from pytest_agentreplay.core.divergence import Difference
from pytest_agentreplay.core.matching.content import boundary, content, header
from pytest_agentreplay.core.model import ToolCall
from pytest_agentreplay.core.selector import rewritten, show

if TYPE_CHECKING:
    from pytest_agentreplay.core.matching.content import MatchContent
    from pytest_agentreplay.core.media import Media
    from pytest_agentreplay.core.model import Call, WireCall
    from pytest_agentreplay.core.selector import Place

Near: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Says of a type ("image/png"), the recorded bytes and those of now whether they are near enough."""

Laid = dict["Place", "Media"]

_WHY = "watch: near enough, as agentreplay.media says"
_WHOLE = ("image/", "audio/", "video/", "application/pdf")


def laid_aside(call: WireCall) -> tuple[MatchContent, Laid]:
    """What a call holds with the type of each of its media instead of these, and the media by their places."""
    held = content(call.headers, call.body)
    if held.kind == "bytes":
        one = media.of(held.data, header(call.headers, "content-type"))
        if not one.kind.startswith(_WHOLE):
            return held, {}
        return replace(held, data=f"<{one.kind}>".encode()), {(): one}
    found = dict(media.found(held.tree)) | (_files(call, held) if held.kind == "multipart" else {})
    return replace(held, tree=rewritten(held.tree, {place: f"<{one.kind}>" for place, one in found.items()})), found


def _files(call: WireCall, held: MatchContent) -> Laid:
    """The parts of a multipart that are no text."""
    mark = boundary(header(call.headers, "content-type")).encode()
    pieces = (b"\r\n" + held.data).split(b"\r\n--" + mark)
    found: Laid = {}
    for at, part in enumerate(held.tree if isinstance(held.tree, list) else ()):
        match part:
            case {"headers": str(head), "body": {"sha256": str()}}:
                found[at, "body"] = media.of(pieces[at].partition(b"\r\n\r\n")[2], media.part_type(head))
    return found


def parted(recorded: Call, now: Call, near: Near) -> tuple[Difference, ...] | None:
    """Where the media of two calls differ near enough; None where one of them is another, or stands elsewhere."""
    if isinstance(recorded, ToolCall) or isinstance(now, ToolCall):
        return None
    old, new = laid_aside(recorded)[1], laid_aside(now)[1]
    if [(place, one.kind) for place, one in old.items()] != [(place, one.kind) for place, one in new.items()]:
        return None
    found = []
    for place, one in old.items():
        other = new[place]
        if one.data != other.data:
            if not near(one.kind, one.data, other.data):
                return None
            found.append(Difference(show(place), str(one), str(other), _WHY))
    return tuple(found)
