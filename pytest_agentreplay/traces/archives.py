"""A zip archive in memory, the same bytes for the same members on every machine and on every day."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The first moment that an archive can tell."""
PLAIN_FILE = 0o100644 << 16
UNIX = 3


def packed(members: Mapping[str, bytes]) -> bytes:
    """The archive that holds `members`, in order of their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:  # what is packed tells which library has packed it
        for name in sorted(members):
            info = zipfile.ZipInfo(name, BEGINNING)
            info.external_attr, info.create_system = PLAIN_FILE, UNIX
            archive.writestr(info, members[name])
    return out.getvalue()
