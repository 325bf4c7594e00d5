"""`agentreplay.run`: what a test sees of its run, live and read-only."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NoReturn

from pytest_agentreplay.cases import assertions, turn
from pytest_agentreplay.cases.asserting import Asserting
from pytest_agentreplay.dialects import READER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.cases.tool_expectations import ToolSpec
    from pytest_agentreplay.cases.turn import RetrievalView, ToolCallView, TurnView
    from pytest_agentreplay.core.model import Run
    from pytest_agentreplay.core.reading import Reader


class RunView(Asserting):
    """A run as far as it has come. Each property reads it anew, so a view taken early sees what happens later.

    Two views are equal when the runs behave alike: same prompts, calls and results, whatever ids and times they have.
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
        """The view of a run that lies still: `RunView.of(load("run.snapshot.json").run)`."""
        return cls(lambda: run, READER)

    @property
    def run(self) -> Run:
        """The run itself, as recorded."""
        return self._give()

    @property
    def turns(self) -> tuple[TurnView, ...]:
        """Its turns, lane by lane; turn 0 is there only if something came before any model call."""
        run = self._give()
        if self._read is None or self._read[0].exchanges != run.exchanges:
            self._read = (run, turn.read(run, self._reader))
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
        return tuple(found for it in self.turns for found in it.retrievals)

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

    def assert_tool_calls(
        self, expected: Iterable[ToolSpec], order: Literal["equal", "subsequence", "multiset"] = "equal"
    ) -> None:
        """Assert which tools were called: each item is a name, or a pair of name and arguments.

        Arguments are compared whole; `unittest.mock.ANY` stands for a value that does not matter. `order` "equal" wants
        exactly these calls, "subsequence" wants them in this order among others, "multiset" exactly them in any order.
        Raises AssertionError, naming the turn, the call and the nearest one that was made.
        """
        __tracebackhide__ = True
        assertions.assert_tool_calls(self.tool_calls, expected, order)

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
        equals: object = assertions.UNSAID,
    ) -> None:
        """Assert something of one turn; negative numbers count from the end.

        It is one of `lane` ("main" unless said), or of all that `agent` did where that name is given, too.
        `tool` was asked for or called in it (a name, or name and arguments), `model` was asked, `text` is the reply's
        text and `text_contains` a part of it. `jsonpath` looks into the request's body and must find something, with
        `equals` that value (a list of them when it finds several). Raises AssertionError, TypeError for `equals`
        without `jsonpath`.
        """
        __tracebackhide__ = True
        conditions: Mapping[str, object] = {"tool": tool, "model": model, "text": text, "text_contains": text_contains}
        assertions.assert_turn(
            self.turns, number, lane=lane, agent=agent, conditions=conditions, jsonpath=jsonpath, equals=equals
        )


class UnrecordedRun(RunView):
    """The run of a test in mode off: there is none, and whoever reads it ends the test by `skip`."""

    __slots__ = ()

    def __init__(self, skip: Callable[[], NoReturn]) -> None:
        """`skip` raises what the test runner takes for a skipped test."""
        super().__init__(skip, READER)

    def __repr__(self) -> str:
        return "<no run: mode off records none>"
