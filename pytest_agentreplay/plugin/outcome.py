"""What pytest makes of a guarded test: refusals as outcomes that it knows, and its reports without secrets.

pytest, and runners like anyio's, clean up after `Exception` and their own outcomes. After any other BaseException a
fixture that was refused in its set-up breaks the next test that uses it, finalizers are skipped, anyio's runner ends.

What pytest itself shows of the test is shown without its secrets: tracebacks, captured output, warnings. pytest
keeps a failure as objects that it draws later, for the terminal, for JUnit and for other plugins. Their texts are
changed in place, and only where a secret stands in them, so that whoever draws them finds what it knows.
"""

from __future__ import annotations

import bdb
import functools
import inspect
from contextlib import contextmanager
from functools import reduce
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from _pytest.outcomes import OutcomeException

from pytest_agentreplay import errors
from pytest_agentreplay.plugin.stash import HIDING, redaction_of

if TYPE_CHECKING:
    import warnings
    from collections.abc import Callable, Iterator

    import pytest
    from _pytest.outcomes import Exit

    Hide = Callable[[str], str]
    from collections.abc import AsyncGenerator, Callable, Generator

OURS = "pytest_agentreplay."
SHOWN = "pytest_agentreplay.demo."
"""An agent, and nobody's machinery."""


def hide_of(item: pytest.Item) -> Hide:
    """What takes the secrets off a text about `item`: those of its run, and where it has none, of the environment."""
    redactions = item.stash.get(HIDING, None) or [redaction_of(item.config)]
    return lambda text: reduce(lambda text_so_far, redaction: redaction.hide(text_so_far), redactions, text)


def hide_report(report: pytest.TestReport, hide: Hide) -> None:
    """Take the secrets off all that `report` shows."""
    report.sections = [(title, hide(text)) for title, text in report.sections]
    report.user_properties = [
        (name, hide(value) if isinstance(value, str) else value) for name, value in report.user_properties
    ]
    if hasattr(report, "wasxfail"):
        report.wasxfail = hide(report.wasxfail)
    if report.longrepr is None:
        return
    report.longrepr = hidden(report.longrepr, hide, set())
    text = report.longreprtext
    if (without := hide(text)) != text:  # it is drawn by somebody whom we do not know
        report.longrepr = without


def hidden(value: Any, hide: Hide, seen: set[int]) -> Any:
    """A text, or what is made of texts, without secrets. The objects of pytest stay the ones that they are."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list | tuple):
        items = [hidden(item, hide, seen) for item in value]
        changed = any(now is not was for now, was in zip(items, value, strict=True))
        return type(value)(items) if changed and type(value) in {list, tuple} else value
    if type(value).__module__ == "_pytest._code.code" and id(value) not in seen:
        seen.add(id(value))
        for name, was in list(vars(value).items()):
            if (now := hidden(was, hide, seen)) is not was:
                object.__setattr__(value, name, now)
    return value


def leave_out_our_frames(error: BaseException | None) -> None:
    """Have pytest leave the frames of this package out of the traceback: their locals are what the agent had sent."""
    if not getattr(error, "pytrace", True):
        return  # it has no traceback to be shown, and pytest would say that all of it is hidden
    for exception in chain(error, set()):
        traceback = exception.__traceback__
        while traceback is not None:
            names = traceback.tb_frame.f_globals
            module = str(names.get("__name__", ""))
            if module.startswith(OURS) and not module.startswith(SHOWN):
                names.setdefault("__tracebackhide__", True)
            traceback = traceback.tb_next


def chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An exception and all that pytest shows with it: causes, contexts, members of a group."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException):
            yield from chain(other, seen)


def hide_reason(error: Exit, hide: Hide) -> None:
    """Redact the reason given to `pytest.exit`: pytest prints it when the session ends, beside any report."""
    error.msg = hide(str(error.msg))
    error.args = tuple(hide(value) if isinstance(value, str) else value for value in error.args)


def notice_redacted(report: pytest.TestReport, failure: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Say that a test fails because of a placeholder in a recorded reply, if it shows one; gives whether it does."""
    from pytest_agentreplay.report.other_findings import describe_redacted

    line = describe_redacted(f"{failure.value if failure is not None else ''}\n{report.longreprtext}")
    if line:
        add_section(report, line)
    return bool(line)


def add_section(report: pytest.TestReport, text: str) -> None:
    """Add our section to a failure: to its traceback where it has one, for `--show-capture=no` and for JUnit."""
    add = getattr(report.longrepr, "addsection", None)
    if add is not None:
        add("agentreplay", text)
    else:
        report.sections.append(("agentreplay", text))


def hide_warning(message: warnings.WarningMessage, hide: Hide) -> None:
    """Take the secrets off a warning that a test has caused."""
    text = str(message.message)
    if (without := hide(text)) == text:
        return
    try:
        message.message = message.category(without)
    except Exception:  # its class wants something else than a text
        message.message = UserWarning(without)


PASSES = (Exception, OutcomeException, KeyboardInterrupt, GeneratorExit, bdb.BdbQuit)
"""What pytest handles, and what ends more than a test."""


class ReplayDiverged(errors.ReplayDiverged, OutcomeException):
    """A refusal while pytest runs. Still no `Exception`: agents do not catch it by mistake."""


def install() -> None:
    """Have refusals be outcomes from now on."""
    errors.ReplayDiverged.outcome = ReplayDiverged


@contextmanager
def unwrap_groups() -> Generator[None]:
    """Raise a refusal as itself where a group (task groups, nurseries) or `SystemExit` stands around it."""
    try:
        yield
    except PASSES:
        raise
    except BaseException as raised:
        refusal = next((error for error in chain(raised, set()) if isinstance(error, ReplayDiverged)), None)
        if refusal is None:
            raise
        raise refusal from None


@contextmanager
def refusals_unwrapped(fixturedef: pytest.FixtureDef[Any]) -> Generator[None]:
    """Have the fixture raise a refusal as itself, in its set-up and in its teardown; the set-up is this block."""
    install()
    function = fixturedef.func
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        yield
        return
    around = wrap(plain)
    fixturedef.func = MethodType(around, function.__self__) if isinstance(function, MethodType) else around  # type: ignore[misc]
    try:
        yield
    finally:
        fixturedef.func = function  # type: ignore[misc]


def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, of whatever kind, with `unwrapped` around its body. Async runners look at the kind."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def of_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            values = function(*args, **kwargs)
            with unwrap_groups():
                try:
                    async for value in values:
                        yield value
                finally:
                    await values.aclose()

        return of_async_generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def of_coroutine(*args: Any, **kwargs: Any) -> Any:
            with unwrap_groups():
                return await function(*args, **kwargs)

        return of_coroutine
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def of_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with unwrap_groups():
                yield from function(*args, **kwargs)

        return of_generator

    @functools.wraps(function)
    def of_function(*args: Any, **kwargs: Any) -> Any:
        with unwrap_groups():
            return function(*args, **kwargs)

    return of_function
