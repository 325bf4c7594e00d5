"""The traces in files, whatever wrote them: open, choose, read. The one way in for everybody who imports.

Formats of other packages stand under the entry point `agentreplay.formats`. One that cannot be loaded is named in a
warning and left out: a broken package keeps nobody from reading the files of another.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.traces import logs, platforms, spans
from pytest_agentreplay.traces.formats import Format, choose, layers, once
from pytest_agentreplay.traces.opening import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

GROUP = "agentreplay.formats"
OURS: tuple[Format, ...] = (*spans.FORMATS, *platforms.FORMATS, *logs.FORMATS)


def traces(files: Sequence[tuple[str, bytes]], wanted: str = "") -> list[Trace]:
    """Every run in `files` (name as shown, bytes), in order; `wanted` names a format, "" takes the one that fits.

    Files whose formats belong together (the logs of some spans) are read as one. Raises TraceError.
    """
    known = formats()
    together: dict[object, list[tuple[Format, Opened]]] = {}
    for number, (file, data) in enumerate(files):
        held = _unwrapped(opened(data, file=file), known, wanted)
        held = replace(held, rows=tuple(once(held.rows)))
        chosen = choose(held, known, wanted)
        together.setdefault(chosen.together or number, []).append((chosen, held))
    return [trace for group in together.values() for trace in _read(group)]


def formats() -> tuple[Format, ...]:
    """Ours, and those of other packages whose name is none of ours."""
    taken = {one.name for one in OURS}
    return (*OURS, *(one for one in _others() if one.name not in taken))


def _unwrapped(held: Opened, known: Sequence[Format], wanted: str) -> Opened:
    """Return the innermost layer of the file that a format fits, and the file as it is where none does."""
    asked = [one.fits for one in known if wanted in ("", one.name)]
    return next((layer for layer in layers(held) if any(fits(layer) for fits in asked)), held)


def _read(group: list[tuple[Format, Opened]]) -> Iterable[Trace]:
    (chosen, first), *rest = sorted(group, key=lambda one: one[0].rank)
    try:
        beside = [tuple(held for _, held in rest)] if chosen.together else []
        found = list(chosen.read(first, *beside))
        for trace in found:
            yield trace if trace.source.file else replace(trace, source=replace(trace.source, file=first.file))
    except RecursionError:
        raise TraceError("is nested too deeply to be read", file=first.file) from None
    except Exception as error:
        if chosen in OURS or isinstance(error, TraceError):
            raise
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise TraceError(f"the format {chosen.name} failed to read it: {reason}", file=first.file) from error
    if not found:
        raise TraceError(f"holds no run ({chosen.title})", file=first.file)


def _fits(one: Format, opened: Opened) -> bool:
    """Return whether a format of another package fits; one that fails does not."""
    try:
        return one.fits(opened)
    except Exception as error:
        warnings.warn(f"the trace format {one.name} is left out: {error!r}", stacklevel=2)
        return False


@cache
def _others() -> tuple[Format, ...]:
    found = []
    for entry in entry_points(group=GROUP):
        try:
            one = entry.load()
        except Exception as error:
            warnings.warn(f"the trace format {entry.name} cannot be loaded: {error!r}", stacklevel=2)
            continue
        if isinstance(one, Format):
            found.append(replace(one, fits=partial(_fits, one)))
        else:
            warnings.warn(f"the trace format {entry.name} is no Format but {type(one).__name__}", stacklevel=2)
    return tuple(found)
