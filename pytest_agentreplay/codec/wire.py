"""What a message may say on a wire, and no more: a file that says otherwise would have a client read another message.

Recorder and reader are held to the same: what could not be read again is not written.
"""

from __future__ import annotations

import re
from functools import lru_cache

STATUSES = range(100, 600)

_BREAKS = re.compile(r"[\r\n\0]")


def wrong_status(status: int) -> str:
    """What is wrong with the status of a reply, "" for nothing."""
    return "" if status in STATUSES else f"status {status} is none of {STATUSES.start} to {STATUSES.stop - 1}"


@lru_cache(maxsize=1024)
def wrong_header(name: str, value: str) -> str:
    """What is wrong with a header, "" for nothing; looked at once for the many messages that have the same."""
    if _BREAKS.search(name) or _BREAKS.search(value):
        return f"the header {name:.40} holds a line break"
    if name.lower() == "content-length" and value.lstrip().startswith("-"):
        return f"content-length {value:.20} is no size"
    return ""
