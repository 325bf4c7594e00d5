"""Wraps a seam of a library for good: once, whoever asks, however often."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.trampoline import lead, parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    Seam = Callable[..., Any]


def wrap(owner: Any, name: str, make: Callable[[Seam], Seam]) -> None:
    """Put `make(original)` in the place of `owner.name`. Where there is no such name nothing happens.

    A second copy of our modules (test tools that restore sys.modules) takes over from the first.
    """
    seam = vars(owner).get(name)
    if seam is None:
        return
    whose, original = getattr(seam, "__agentreplay__", (None, seam))
    if whose is not interceptions.current:
        made: Any = functools.wraps(original)(make(original))
        made.__agentreplay__ = (interceptions.current, original)
        setattr(owner, name, made)


def wrap_code(function: FunctionType, make: Callable[[Seam], Seam]) -> None:
    """Run `make(original)` wherever `function` is called, whatever name it is held by.

    The code object is exchanged, not the name: a mock that puts another function in the name's place is what runs while
    it is active, and whatever it saved or restores is the wrapped function.
    """
    current, code = getattr(function, "__agentreplay__", (None, function.__code__))
    if current is interceptions.current:
        return
    function.__code__ = code
    real = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    real.__kwdefaults__ = function.__kwdefaults__
    names = parameters(code)[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    made = make(real)

    def call(values: tuple[Any, ...], only: tuple[Any, ...], star: tuple[Any, ...], stars: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        return made(*values, *star, **dict(zip(names, only, strict=True)), **stars)

    lead(function, call)
    function.__agentreplay__ = (interceptions.current, code)  # type: ignore[attr-defined]
