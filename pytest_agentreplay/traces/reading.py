"""The traces in files, whatever wrote them: open, choose, read. The one way in for everybody who imports.

Formats of other packages stand under the entry point `agentreplay.formats`. One that cannot be loaded is named in a
warning and left out: a broken package keeps nobody from reading the files of another.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.traces import logs, platforms, spans
from pytest_agentreplay.traces.formats import Format, choose, drop_repeated, layers
from pytest_agentreplay.traces.opening import open_trace
from pytest_agentreplay.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.traces.formats import Opened

GROUP = "agentreplay.formats"
OURS: tuple[Format, ...] = (*spans.FORMATS, *platforms.FORMATS, *logs.FORMATS)


def traces(files: Sequence[tuple[str, bytes]], format_name: str = "") -> list[Trace]:
    """Every run in `files` (name as shown, bytes), in order; `format_name` names a format, "" takes the one that fits.

    Files whose formats belong together (the logs of some spans) are read as one. Raises TraceError.
    """
    known_formats = formats()
    together: dict[object, list[tuple[Format, Opened]]] = {}
    for number, (file, data) in enumerate(files):
        file_rows = _unwrap(open_trace(data, file=file), known_formats, format_name)
        file_rows = replace(file_rows, rows=tuple(drop_repeated(file_rows.rows)))
        chosen = choose(file_rows, known_formats, format_name)
        together.setdefault(chosen.together or number, []).append((chosen, file_rows))
    return [trace for group in together.values() for trace in _read_group(group)]


def formats() -> tuple[Format, ...]:
    """Ours, and those of other packages whose name is none of ours."""
    taken = {ours.name for ours in OURS}
    return (*OURS, *(theirs for theirs in _others() if theirs.name not in taken))


def _unwrap(opened_file: Opened, known_formats: Sequence[Format], format_name: str) -> Opened:
    """Return the innermost layer of the file that a format fits, and the file as it is where none does."""
    checks = [candidate.fits for candidate in known_formats if format_name in ("", candidate.name)]
    return next((layer for layer in layers(opened_file) if any(fits(layer) for fits in checks)), opened_file)


def _read_group(group: list[tuple[Format, Opened]]) -> Iterable[Trace]:
    (chosen, first), *rest = sorted(group, key=lambda member: member[0].rank)
    try:
        beside = [tuple(other for _, other in rest)] if chosen.together else []
        runs = list(chosen.read(first, *beside))
        for trace in runs:
            yield trace if trace.source.file else replace(trace, source=replace(trace.source, file=first.file))
    except RecursionError:
        raise TraceError("is nested too deeply to be read", file=first.file) from None
    if not runs:
        raise TraceError(f"holds no run ({chosen.title})", file=first.file)


def _is_format(candidate: Format, opened: Opened) -> bool:
    """Return whether a format of another package fits; one that fails does not."""
    try:
        return candidate.fits(opened)
    except Exception as error:
        warnings.warn(f"the trace format {candidate.name} is left out: {error!r}", stacklevel=2)
        return False


def _read_theirs(theirs: Format, package: str, opened: Opened, *beside: tuple[Opened, ...]) -> list[Trace]:
    """Return what a format of another package reads; whatever it raises names that package, and is no traceback."""
    where = f"the format {theirs.name} of the package {package}"
    try:
        runs: list[Any] = list(theirs.read(opened, *beside))
    except (TraceError, RecursionError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise TraceError(f"{where} failed to read it: {reason}", file=opened.file) from error
    if kinds := {type(run).__name__ for run in runs if not isinstance(run, Trace)}:
        raise TraceError(f"{where} yields {', '.join(sorted(kinds))}, no Trace", file=opened.file)
    return runs


@cache
def _others() -> tuple[Format, ...]:
    others = []
    for entry in entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except Exception as error:
            warnings.warn(f"the trace format {entry.name} cannot be loaded: {error!r}", stacklevel=2)
            continue
        if isinstance(loaded, Format):
            package = entry.dist.name if entry.dist is not None else entry.module
            read = partial(_read_theirs, loaded, package)
            others.append(replace(loaded, fits=partial(_is_format, loaded), read=read))
        else:
            warnings.warn(f"the trace format {entry.name} is no Format but {type(loaded).__name__}", stacklevel=2)
    return tuple(others)
