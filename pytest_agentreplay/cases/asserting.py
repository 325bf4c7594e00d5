"""`run.assert_*`: the vocabulary of cases for tests that say what they expect in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.cases.assertions import UNSAID
from pytest_agentreplay.cases.checks import hold, invalid
from pytest_agentreplay.cases.evidence import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.core.model import Run


def claim(run: Run, word: str, wanted: Any) -> None:
    """Assert one word of a run. Raises AssertionError, ValueError for what no run can show."""
    __tracebackhide__ = True
    for place, what in invalid.wrong(word, wanted):
        where = "".join(f"[{part!r}]" for part in place)
        raise ValueError(f"{word}{where}: {what}")
    held, lines = hold(word, wanted, frozen(run))
    if not held:
        raise AssertionError("\n".join(lines))


def said(*, equals: object = UNSAID, **words: Any) -> dict[str, Any]:
    """What was said, without what was left out; None is something that a value may equal."""
    told = {name: value for name, value in words.items() if value is not None}
    return told if equals is UNSAID else told | {"equals": equals}


class Asserting:
    """What can be asserted of a run. Every failure says what was expected, what was there, and the nearest.

    What the run does not show makes an assertion fail with "cannot say", never pass.
    """

    __slots__ = ()

    @property
    def run(self) -> Run:
        """The run."""
        raise NotImplementedError

    def assert_status(self, status: Literal["ok", "error"] = "ok") -> None:
        """Assert how the run ended."""
        __tracebackhide__ = True
        claim(self.run, "status", status)

    def assert_output(
        self,
        *,
        exists: bool | None = None,
        equals: object = UNSAID,
        contains: str | None = None,
        not_contains: str | None = None,
        matches: str | None = None,
        path: str | None = None,
    ) -> None:
        """Assert something of the final output; with `path` of what stands there in an output that is JSON."""
        __tracebackhide__ = True
        compared = said(exists=exists, equals=equals, contains=contains, not_contains=not_contains, matches=matches)
        claim(self.run, "output", compared | said(path=path))

    def assert_tool_called(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        times: int | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
    ) -> None:
        """Assert that a tool was called; `arguments` by name or JSON path, those that are not named do not matter."""
        __tracebackhide__ = True
        bounds = said(times=times, at_least=at_least, at_most=at_most)
        claim(self.run, "tool_called", {"name": name} | said(arguments=arguments) | bounds)

    def assert_tool_not_called(self, name: str, arguments: Mapping[str, object] | None = None) -> None:
        """Assert that a tool was not called, or not with these arguments."""
        __tracebackhide__ = True
        claim(self.run, "tool_not_called", {"name": name} | said(arguments=arguments))

    def assert_tool_failed(self, name: str) -> None:
        """Assert that a call of this tool failed."""
        __tracebackhide__ = True
        claim(self.run, "tool_failed", name)

    def assert_tool_order(
        self,
        tools: Iterable[str | tuple[str, Mapping[str, object]]],
        order: Literal["equal", "subsequence", "multiset"] = "equal",
    ) -> None:
        """Assert which tools were called: a name each, or a name with the arguments that matter."""
        __tracebackhide__ = True
        items = [tool if isinstance(tool, str) else {"name": tool[0], "arguments": tool[1]} for tool in tools]
        claim(self.run, "tool_order", {order: items})

    def assert_forbidden_tools(self, *names: str) -> None:
        """Assert that none of these tools was called."""
        __tracebackhide__ = True
        claim(self.run, "forbidden_tools", [*names])

    def assert_repeated_call(
        self, name: str | None = None, *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Assert how often one tool (any, unless named) was called the same way; twice or more unless said."""
        __tracebackhide__ = True
        claim(self.run, "repeated_call", said(name=name, at_least=at_least, at_most=at_most))

    def assert_turns(self, *, at_most: int | None = None, at_least: int | None = None) -> None:
        """Assert how many model calls there were."""
        __tracebackhide__ = True
        claim(self.run, "turns", said(at_most=at_most, at_least=at_least))

    def assert_tokens(self, *, at_most: int | None = None, at_least: int | None = None) -> None:
        """Assert how many tokens were used, in and out."""
        __tracebackhide__ = True
        claim(self.run, "tokens", said(at_most=at_most, at_least=at_least))

    def assert_cost(
        self,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """Assert what the run cost; `prices` are for a million tokens: {"gpt-5": {"input": 1.25, "output": 10}}."""
        __tracebackhide__ = True
        claim(self.run, "cost", said(at_most=at_most, at_least=at_least, prices=prices))

    def assert_duration(self, *, at_most: float | None = None, at_least: float | None = None) -> None:
        """Assert how many seconds the run took, from its first call to its last answer, as recorded."""
        __tracebackhide__ = True
        claim(self.run, "duration", said(at_most=at_most, at_least=at_least))

    def assert_error(self, kind: str | None = None, text: str | None = None) -> None:
        """Assert that something went wrong: an exception of this class, with this text in its message."""
        __tracebackhide__ = True
        claim(self.run, "error", {"class": kind or "", "text": text or ""})

    def assert_exchange(
        self,
        at: int | str,
        side: Literal["request", "reply"],
        *,
        path: str = "$",
        exists: bool | None = None,
        equals: object = UNSAID,
        contains: str | None = None,
        not_contains: str | None = None,
        matches: str | None = None,
    ) -> None:
        """Assert something of what was asked, or came, at a turn (its number) or at the calls of a tool (its name)."""
        __tracebackhide__ = True
        compared = said(exists=exists, equals=equals, contains=contains, not_contains=not_contains, matches=matches)
        claim(self.run, "exchange", {"at": at, "side": side, "path": path, **compared})

    def assert_no_secret_in_output(self) -> None:
        """Assert that no key, token, password or the like stands in the final output."""
        __tracebackhide__ = True
        claim(self.run, "no_secret_in_output", True)

    def assert_no_identity_but(self, path: str, *own: str | int) -> None:
        """Assert that no record of somebody else is told; `path` names the field that says whose a record is.

        `own` are the values of those whose records may be told; else they are looked for in what was annotated.
        """
        __tracebackhide__ = True
        claim(self.run, "no_identity_but", {"path": path} | ({"is": [*own]} if own else {}))
