r"""Paths as Windows takes them: a long one only in its extended form, `\\?\C:\...`, which people are never shown."""

from __future__ import annotations

import ntpath

LONGEST = 247
"""UTF-16 units of a folder's path, its end included in Windows' 260 with room for a name; a file may have 12 more."""
EXTENDED, DEVICE, SHARE = "\\\\?\\", "\\\\.\\", "\\\\"


def extended(path: str) -> str:
    r"""An absolute path of Windows as it may be of any length: `\\?\C:\...`, `\\?\UNC\server\share\...`.

    A path that needs no such form stays as it is.
    """
    if path.startswith((EXTENDED, DEVICE)):
        return path
    whole = ntpath.normpath(path)  # in the extended form Windows takes slashes and dots literally
    if len(whole.encode("utf-16-le", "surrogatepass")) <= 2 * LONGEST:
        return path
    return f"{EXTENDED}UNC\\{whole[2:]}" if whole.startswith(SHARE) else EXTENDED + whole


def shortened(path: str) -> str:
    """A path as people know it, whatever form it came in."""
    if path.startswith(f"{EXTENDED}UNC\\"):
        return SHARE + path.removeprefix(f"{EXTENDED}UNC\\")
    return path.removeprefix(EXTENDED)
