"""What is put in the place of functions, and how all of it is taken back.

In a test the patches stay for good. A capture outside pytest takes them back when it stops, and while it runs each has
a guard around it: what our own code raises never reaches the service.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FunctionType

    Make = Callable[[Callable[..., Any]], Callable[..., Any]]

_PACKAGE = str(Path(__file__).parents[2])
_ABSENT: Any = object()
_undo: list[Callable[[], object]] = []

guard: Callable[[Make, Callable[..., Any], bool], Callable[..., Any]] | None = None
"""`runs.capture.real_calls.choose`: returns what is called in the place of a function. None where a test may fail."""

note_fault: Callable[[BaseException], None] | None = None
"""`runs.capture.fail_open.note_fault`, for what no guard is around; None where a fault may be raised."""


def shield(make: Make, real: Callable[..., Any], *, always: bool = False) -> Callable[..., Any]:
    """Return `make(real)`, while a capture runs with a guard around it.

    `always` says that it has something to do also where no run is under way.
    """
    plain, choose = make(real), guard
    if choose is None:
        return plain
    if inspect.iscoroutinefunction(plain):

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return await choose(make, real, always)(*args, **kwargs)

        return wait

    def call(*args: Any, **kwargs: Any) -> Any:
        return choose(make, real, always)(*args, **kwargs)

    return call


def shielded(wrapped: str, name: str) -> Callable[[Callable[..., Any]], Any]:
    """Shield a method of ours that stands in the place of `name`, a method of the object in the attribute `wrapped`.

    It gets that one as its first argument.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            real = getattr(getattr(self, wrapped), name)
            if guard is None:
                return method(self, real, *args, **kwargs)
            return guard(functools.partial(functools.partial, method, self), real, True)(*args, **kwargs)

        return functools.wraps(method)(call)

    return decorate


def noting(real: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, which is called in the place of `real`, so that the guard knows of it."""
    note = getattr(real, "note", None)
    return function if guard is None or note is None else functools.partial(note, function)


def pass_on(real: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Have the guard call `real`, if it has to, with other arguments: those that were given were read."""
    if guard is not None and hasattr(real, "arguments"):
        real.arguments = args, kwargs


def blame(real: Callable[..., Any], error: BaseException, reads: Callable[..., Any] | None = None) -> None:
    """Say that `error` is no fault of ours where it was raised by what the caller of `real` has given to it.

    `reads` is a function of somebody else's patch that has read it, whose own faults are as ours.
    """
    if guard is not None and hasattr(real, "error"):
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        raised_in = frames[-1].f_code.co_filename
        patch = getattr(reads, "__code__", None)
        if not raised_in.startswith(_PACKAGE) and (patch is None or raised_in != patch.co_filename):
            real.error = error


def replace_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a class or module, until `take_back`."""
    _undo.append(functools.partial(_restore, owner, name, vars(owner).get(name, _ABSENT), value))
    setattr(owner, name, value)


def _restore(owner: Any, name: str, before: Any, value: Any) -> None:
    if vars(owner).get(name) is not value:
        return  # somebody else has wrapped ours, and still calls it
    if before is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def mark_exchanged(function: Any, code: CodeType, owner: object) -> None:
    """Note that `function` runs other code than its own, which was `code`, until `take_back`."""
    function.__agentreplay__ = (owner, code)
    _undo.append(functools.partial(_give_back, function, code))


def _give_back(function: FunctionType, code: CodeType) -> None:
    function.__code__ = code
    vars(function).pop("__agentreplay__", None)


def take_back() -> None:
    """Take everything back, in reverse order."""
    while _undo:
        _undo.pop()()
