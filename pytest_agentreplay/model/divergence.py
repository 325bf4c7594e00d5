"""The first place where two runs differ, as a value: its kind, where, what differs, and why it likely differs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Call, Exchange, Json


class Kind(Enum):
    """What differs between two runs. The value is (code, layer, title); each code has a section in the reference."""

    PROMPT = ("AR-PROMPT", "prompt", "prompt changed")
    SCHEMA = ("AR-SCHEMA", "prompt", "tool schema changed")
    MODEL = ("AR-MODEL", "model", "model or parameters changed")
    HISTORY = ("AR-HISTORY", "memory", "history rewritten")
    ARGS = ("AR-ARGS", "loop", "tool arguments changed")
    RESULT = ("AR-RESULT", "tool", "tool result changed")
    TOOL = ("AR-TOOL", "loop", "another tool called")
    EXTRA = ("AR-EXTRA", "loop", "one call more than recorded")
    MISSING = ("AR-MISSING", "loop", "a recorded call was not made")
    ORDER = ("AR-ORDER", "loop", "calls came in another order")
    RACE = ("AR-RACE", "loop", "another order of answers changes the run")
    REQUEST = ("AR-REQUEST", "loop", "request changed")
    REPLY = ("AR-REPLY", "model", "model reply changed")
    OUTCOME = ("AR-OUTCOME", "loop", "the test ended otherwise")
    NOISE = ("AR-NOISE", "uncaptured input", "differs only in a clock, id or place")
    SDK = ("AR-SDK", "uncaptured input", "the SDK sends other fields")
    NEW = ("AR-NEW", "snapshot", "no snapshot")
    UNREADABLE = ("AR-UNREADABLE", "snapshot", "snapshot cannot be used")
    UNFROZEN = ("AR-UNFROZEN", "uncaptured input", "a tool ran unseen")
    LATE = ("AR-LATE", "loop", "a call after its test had ended")
    CHANGE = ("AR-SET", "model", "a request cannot be changed")
    DRIFT = ("AR-DRIFT", "model", "a live run drifted")
    FUZZ = ("AR-FUZZ", "loop", "an invariant does not hold in a neighbour of the run")
    KEYS = ("AR-KEYS", "uncaptured input", "a field that is not compared differs")
    LIVE = ("AR-LIVE", "model", "a live run that proves nothing")
    NETWORK = ("AR-NET", "uncaptured input", "closed network")
    CREDENTIALS = ("AR-CREDENTIALS", "uncaptured input", "no credentials")

    @property
    def code(self) -> str:
        """The stable code, "AR-..."."""
        return self.value[0]

    @property
    def layer(self) -> str:
        """Whose change it likely is: prompt, tool, loop, memory, model, uncaptured input, snapshot."""
        return self.value[1]

    @property
    def title(self) -> str:
        """A few words for people."""
        return self.value[2]


class Absent(Enum):
    """Stands for "there is nothing on this side"; JSON's null is a value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent.ABSENT
INSIDE = " -> "


class Difference(NamedTuple):
    """One place of a call that differs.

    Attributes:
        path: A JSON path into the call; behind `INSIDE` the path inside a text that is JSON.
        recorded: The value there in the recorded run; `ABSENT` where there is none.
        now: The value there now; `ABSENT` where there is none.
        note: The difference in a few words, where the values are long: "line 3: refund -> credit", "reordered [2, 1,
            3]".
        places: In how many places the values differ: changed lines of texts, changed words of one line.
    """

    path: str
    recorded: Json | Absent
    now: Json | Absent
    note: str = ""
    places: int = 1

    @property
    def is_inside(self) -> bool:
        """Whether the place is in a text that is JSON."""
        return INSIDE in self.path

    @property
    def rule_path(self) -> str:
        """The path as rules have it, which do not look inside texts."""
        return self.path.partition(INSIDE)[0]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where two runs differ.

    Attributes:
        kind: What differs.
        summary: What differs in a few words, without code and place.
        turn: The turn of `agent` in `lane`; 0 is what came before any model call.
        turns: How many turns there are.
        lane: The line of a concurrent run.
        position: The number of the call in the whole run.
        positions: How many calls there are.
        agent: The name of the agent, where it has one.
        who: Whose turn it is, for people; "" in a run with one agent.
        recorded: The recorded side, where there is one.
        now: The call that was made instead, where there is one.
        differences: Each place that differs.
        went_on: Whether the run was answered after this place, to see what became of a call.
        agreed: How many turns before this one agree, where not all do.
        origin: The line of the agent that made the call: "shop/agent.py:88 in find_orders".
        cause: Why it likely differs.
        hints: Commands or settings to type next.
        detail: Further lines.
    """

    kind: Kind
    summary: str
    turn: int = 0
    turns: int = 0
    lane: str = "main"
    position: int = 0
    positions: int = 0
    agent: str = ""
    who: str = ""
    recorded: Exchange | None = None
    now: Call | None = None
    differences: tuple[Difference, ...] = ()
    went_on: bool = False
    agreed: int | None = None
    origin: str = ""
    cause: str = ""
    hints: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()

    def also(self) -> str:
        """As it is told beside the first one of another lane: nothing fixes an order between the two."""
        return f"also, independently, in {self.who or f'lane {self.lane}'}: {self.kind.code} {self.summary}"
