"""`agentreplay.run`: what a test sees of its run, live and read-only, and `run.assert_*`: the vocabulary of cases."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pytest_agentreplay.cases import assertions, turn
from pytest_agentreplay.cases.assertions import UNSAID
from pytest_agentreplay.cases.checks.calls import all_calls, mismatch_of, read_tools
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import check_word, find_faults
from pytest_agentreplay.providers import READER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.cases.checks.calls import ToolSpec
    from pytest_agentreplay.cases.turn import RetrievalView, ToolCallView, TurnView
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.model.reading import Reader


__tracebackhide__ = True  # no frame of this module says more than the line of the test


def claim(run: Run, word: str, expectation: Any) -> None:
    """Assert one word of a run. Raises AssertionError, ValueError for what no run can show."""
    for place, what in find_faults(word, expectation):
        where = "".join(f"[{part!r}]" for part in place)
        raise ValueError(f"{word}{where}: {what}")
    holds, lines = check_word(word, expectation, frozen(run))
    if not holds:
        raise AssertionError("\n".join(lines))


def collect_fields(*, equals: object = UNSAID, **words: Any) -> dict[str, Any]:
    """What was said, without what was left out; None is something that a value may equal."""
    fields = {name: value for name, value in words.items() if value is not None}
    return fields if equals is UNSAID else fields | {"equals": equals}


class RunView:
    """A run as far as it has come: what `agentreplay.run` is.

    Each property reads the run anew, so a view that is taken early shows what happens later. Two views are equal when
    the runs behave alike: same prompts, calls and results, whatever ids and times they have.

    An assertion that fails says what was expected, what was there, and the nearest. What the run does not show makes it
    fail with "cannot say"; it never passes.
    """

    __slots__ = ("_give", "_read", "_reader")
    __hash__ = None  # type: ignore[assignment]  # it changes while the test runs

    def __init__(self, give: Callable[[], Run], reader: Reader) -> None:
        """`give` gives the run of now, `reader` reads its bodies."""
        self._give = give
        self._reader = reader
        self._read: tuple[Run, tuple[TurnView, ...]] | None = None

    @classmethod
    def of(cls, run: Run) -> RunView:
        """Return the view of a finished run: `RunView.of(load("run.snapshot.json").run)`."""
        return cls(lambda: run, READER)

    @property
    def run(self) -> Run:
        """The run itself, as recorded."""
        return self._give()

    @property
    def turns(self) -> tuple[TurnView, ...]:
        """The turns, lane by lane. Turn 0 is there only if something came before any model call."""
        run = self._give()
        if self._read is None or self._read[0].exchanges != run.exchanges:
            self._read = (run, turn.read_turns(run, self._reader))
        return self._read[1]

    @property
    def model_calls(self) -> tuple[TurnView, ...]:
        """The turns that have a model call: all but turn 0."""
        return tuple(it for it in self.turns if it.exchange is not None)

    @property
    def tool_calls(self) -> tuple[ToolCallView, ...]:
        """The tool calls that were made, outermost ones only, in the order of their turns."""
        return tuple(call for it in self.turns for call in it.tool_calls)

    @property
    def retrievals(self) -> tuple[RetrievalView, ...]:
        """What was looked up in vector stores, retrievers and memories, in the order of their turns."""
        return tuple(retrieval for it in self.turns for retrieval in it.retrievals)

    @property
    def final_text(self) -> str:
        """The text of the last reply in lane "main" that had any, "" when none had."""
        return next((it.text for it in reversed(self.turns) if it.text and it.lane == "main"), "")

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all turns together, under the providers' own names for them."""
        total: Counter[str] = Counter()
        for it in self.turns:
            total.update(it.usage)
        return dict(total)

    def __len__(self) -> int:
        return len(self.turns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunView):
            return NotImplemented
        return assertions.first_divergence(self, other) is None

    def __repr__(self) -> str:
        models, tools = len(self.model_calls), self.tool_calls
        names = f": {turn.clip(', '.join(call.name for call in tools))}" if tools else ""
        return (
            f"<run of {models} model call{'s' * (models != 1)}, {len(tools)} tool call{'s' * (len(tools) != 1)}{names}>"
        )

    def assert_status(self, status: Literal["ok", "error"] = "ok") -> None:
        """Assert how the run ended."""
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
        """Assert something of the final output. With `path`, of what is there in an output that is JSON."""
        compared = collect_fields(
            exists=exists, equals=equals, contains=contains, not_contains=not_contains, matches=matches
        )
        claim(self.run, "output", compared | collect_fields(path=path))

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
        bounds = collect_fields(times=times, at_least=at_least, at_most=at_most)
        claim(self.run, "tool_called", {"name": name} | collect_fields(arguments=arguments) | bounds)

    def assert_tool_not_called(self, name: str, arguments: Mapping[str, object] | None = None) -> None:
        """Assert that a tool was not called, or not with these arguments."""
        claim(self.run, "tool_not_called", {"name": name} | collect_fields(arguments=arguments))

    def assert_tool_failed(self, name: str) -> None:
        """Assert that a call of this tool failed."""
        claim(self.run, "tool_failed", name)

    def assert_tool_order(
        self,
        tools: Iterable[str | tuple[str, Mapping[str, object]]],
        order: Literal["equal", "subsequence", "multiset"] = "equal",
    ) -> None:
        """Assert which tools were called: a name each, or a name with the arguments that matter."""
        items = [tool if isinstance(tool, str) else {"name": tool[0], "arguments": tool[1]} for tool in tools]
        claim(self.run, "tool_order", {order: items})

    def assert_forbidden_tools(self, *names: str) -> None:
        """Assert that none of these tools was called."""
        claim(self.run, "forbidden_tools", [*names])

    def assert_repeated_call(
        self, name: str | None = None, *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Assert how often one tool (any, unless named) was called the same way; twice or more unless said."""
        claim(self.run, "repeated_call", collect_fields(name=name, at_least=at_least, at_most=at_most))

    def assert_turns(self, *, at_most: int | None = None, at_least: int | None = None) -> None:
        """Assert how many model calls there were."""
        claim(self.run, "turns", collect_fields(at_most=at_most, at_least=at_least))

    def assert_tokens(self, *, at_most: int | None = None, at_least: int | None = None) -> None:
        """Assert how many tokens were used, in and out."""
        claim(self.run, "tokens", collect_fields(at_most=at_most, at_least=at_least))

    def assert_cost(
        self,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """Assert what the run cost; `prices` are for a million tokens: {"gpt-5": {"input": 1.25, "output": 10}}."""
        claim(self.run, "cost", collect_fields(at_most=at_most, at_least=at_least, prices=prices))

    def assert_duration(self, *, at_most: float | None = None, at_least: float | None = None) -> None:
        """Assert how many seconds the run took, from its first call to its last answer, as recorded."""
        claim(self.run, "duration", collect_fields(at_most=at_most, at_least=at_least))

    def assert_error(self, kind: str | None = None, text: str | None = None) -> None:
        """Assert that something went wrong: an exception of this class, with this text in its message."""
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
        compared = collect_fields(
            exists=exists, equals=equals, contains=contains, not_contains=not_contains, matches=matches
        )
        claim(self.run, "exchange", {"at": at, "side": side, "path": path, **compared})

    def assert_no_secret_in_output(self) -> None:
        """Assert that no key, token, password or the like stands in the final output."""
        claim(self.run, "no_secret_in_output", True)

    def assert_no_identity_but(self, path: str, *own: str | int) -> None:
        """Assert that the output tells no record of somebody else.

        Args:
            path: A path to the field that says whose a record is.
            *own: The values of those whose records may be told; without them, what the run was annotated with counts.
        """
        claim(self.run, "no_identity_but", {"path": path} | ({"is": [*own]} if own else {}))

    def assert_tool_calls(
        self, expected: Iterable[ToolSpec], order: Literal["equal", "subsequence", "multiset"] = "equal"
    ) -> None:
        """Assert which tools were called.

        Args:
            expected: A name each, or a pair of name and arguments. Arguments are compared whole; `unittest.mock.ANY`
                stands for a value that does not matter.
            order: "equal" expects exactly these calls, "subsequence" expects them in this order among others,
                "multiset" exactly them in any order.

        Raises:
            AssertionError: Other calls were made. The message names the turn, the call and the nearest one that was
                made.
        """
        calls, wishes = self.tool_calls, read_tools(expected)
        if lines := mismatch_of(order)(calls, wishes):
            raise AssertionError("\n".join([*lines, all_calls(calls)]))

    def assert_turn(
        self,
        number: int,
        *,
        lane: str = "",
        agent: str = "",
        tool: ToolSpec | None = None,
        model: str | None = None,
        text: str | None = None,
        text_contains: str | None = None,
        jsonpath: str | None = None,
        equals: object = UNSAID,
    ) -> None:
        """Assert something of one turn.

        Args:
            number: The number of the turn; negative numbers count from the end.
            lane: The lane whose turns are counted, "main" by default.
            agent: Count the turns of this agent instead, in whichever lanes they are.
            tool: A tool that was asked for or called in the turn: a name, or a pair of name and arguments.
            model: The model that was asked.
            text: The text of the reply.
            text_contains: A part of that text.
            jsonpath: A path into the body of the request, at which there must be something.
            equals: The value at `jsonpath`; a list of them when it finds several.

        Raises:
            AssertionError: The turn is another, or there is none.
            TypeError: `equals` is used without `jsonpath`.
        """
        if jsonpath is None and equals is not UNSAID:
            raise TypeError("equals= says what jsonpath= finds; use them together")
        chosen = assertions.pick(self.turns, number, lane, agent)
        conditions = collect_fields(tool=tool, model=model, text=text, text_contains=text_contains)
        lines = [
            line
            for name, expectation in conditions.items()
            for line in assertions.find_mismatch(chosen, name, expectation)
        ]
        if not lines and jsonpath is not None:
            lines = assertions.find_jsonpath_mismatch(chosen, jsonpath, equals)
        if lines:
            raise AssertionError("\n".join(lines))


class UnrecordedRun(RunView):
    """The run of a test in mode off: there is none, and whoever reads it ends the test by `skip`."""

    __slots__ = ()

    def __init__(self, skip: Callable[[], NoReturn]) -> None:
        """`skip` raises what the test runner takes for a skipped test."""
        super().__init__(skip, READER)

    def __repr__(self) -> str:
        return "<no run: mode off records none>"
