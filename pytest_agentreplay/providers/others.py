"""Providers of other packages: each entry point `agentreplay.providers` is the dotted name of a `Dialect`.

What others wrote may raise, or return something else than a reading. A dialect that cannot be loaded is left out, and a
call or reply that it fails to read is read as one that nobody knows. Each fault is reported once, by the names of the
dialect and of its package.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.providers.dialect import Dialect, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


GROUP = "agentreplay.providers"

note_fault: Callable[[Exception], None] | None = None
"""What takes a fault in place of a warning: a captured service is not printed to."""
_reported: set[str] = set()


@cache
def load_dialects(list_ours: Callable[[], Iterable[Dialect]]) -> tuple[Dialect, ...]:
    """Return the dialects of other packages that can be loaded, and whose names are none of ours."""
    # Reading what is installed takes some 7 ms, once in a process, and only if a call of an unknown shape comes.
    dialects = []
    for entry in entry_points(group=GROUP):
        package = entry.dist.name if entry.dist else entry.module
        try:
            loaded = entry.load()
            if not isinstance(loaded, Dialect):
                raise TypeError(f"{entry.value} is no Dialect but {type(loaded).__name__}")  # noqa: TRY301
            re.compile(loaded.path)
        except Exception as error:
            _report(f"the provider {entry.name} of the package {package} cannot be loaded: {error!r}", error)
            continue
        if loaded.name in {"", "generic", *(dialect.name for dialect in list_ours())}:
            _report(f"the provider {entry.name} of the package {package} is left out: its dialect has a name of ours")
            continue
        dialects.append(_guard_functions(loaded, package))
    return tuple(dialects)


def _guard_functions(dialect: Dialect, package: str) -> Dialect:
    """Return the dialect with functions that raise Unread, and nothing else, if those of the package fail."""
    guard = partial(_call, f"the provider {dialect.name} of the package {package}")
    return dialect._replace(
        fits=partial(guard, dialect.fits, object()),
        read_call=partial(guard, dialect.read_call, CallReading("", "")),
        read_reply=partial(guard, dialect.read_reply, ReplyReading()),
        join=partial(guard, dialect.join, {}),
    )


def _call(provider: str, function: Callable[..., Any], like: object, *arguments: Any) -> Any:
    """Return what a function of another package returns. Raises Unread if it raises, or returns what `like` is not."""
    try:
        result = function(*arguments)
        if wrong := _find_difference(result, like):
            raise TypeError(wrong)  # noqa: TRY301
    except Exception as error:
        # Its kind and place alone: the message may quote what the agent has sent.
        frame = error.__traceback__ and error.__traceback__.tb_next
        place = f" in {PurePath(frame.tb_frame.f_code.co_filename).name}, line {frame.tb_lineno}" if frame else ""
        reason = f"{type(error).__name__}{place or f': {error}'}"
        _report(f"{provider} failed, and what it failed to read is read as unknown: {reason}", error)
        raise Unread from None
    return result


def _find_difference(result: object, like: object) -> str:
    """Return how a result differs from `like` in its type or in those of its fields, "" if it does not."""
    if not isinstance(result, type(like)):
        return f"it returned {type(result).__name__}, no {type(like).__name__}"
    for field in fields(like) if isinstance(like, CallReading | ReplyReading) else ():
        value, expected = getattr(result, field.name), type(getattr(like, field.name))
        # The result of a tool may be anything: it is None in `like`.
        if expected is not type(None) and not isinstance(value, expected):
            return f"{field.name} is {type(value).__name__}, not {expected.__name__}"
    return ""


def _report(message: str, error: Exception | None = None) -> None:
    """Report a fault, each text once: pytest and the command line show it, a captured service counts it."""
    if message in _reported:
        return
    _reported.add(message)
    if note_fault is not None:
        note_fault(error or ValueError(message))
        return
    # Shown, not raised: `-W error` would throw it into the agent that has made the call.
    warnings.showwarning(UserWarning(message), UserWarning, __file__, 1, line="")
