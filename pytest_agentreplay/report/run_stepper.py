"""A frozen run walked turn by turn: where one stands, and what each command shows. No terminal is touched here.

Each step shows what its turn added: the messages that are new since the last request, the answer, the tools that ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.report.transcript import format_blocks

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Run

HELP = """n, Enter, right   the next turn        g 7      go to turn 7
p, left           the turn before      /text    the next turn with that text
q                 leave                ?        this help"""
NEXT, BACK = frozenset({"", "n", " "}), frozenset({"p"})


class Stepper:
    """Walks a run. `obey` returns what a command shows, None for the command that ends."""

    def __init__(self, run: Run, *, width: int = 80) -> None:
        """Stand at the first turn."""
        self._facts, blocks = format_blocks(run, width)
        self._numbers = [number for number, _ in blocks]
        self._texts = [text for _, text in blocks]
        self._at = 0
        self._sought = ""

    @property
    def count(self) -> int:
        """How many turns there are."""
        return len(self._numbers)

    def show(self) -> str:
        """Return the turn where one stands, with the facts of the run above the first one."""
        above = f"{self._facts}\n\n" if self._at == 0 else ""
        return f"{above}[{self._at + 1}/{self.count}] {self._texts[self._at]}"

    def obey(self, command: str) -> str | None:
        """Return what a command shows: a turn, or why there is none."""
        word, _, rest = command.strip().partition(" ")
        if word == "q":
            return None
        if word == "?":
            return HELP
        if command.startswith("/"):
            return self._seek(command[1:].strip())
        if word == "g":
            return self._go(rest.strip())
        if word not in NEXT | BACK:
            return f"there is no command {word}; ? lists them"
        target = self._at + (1 if word in NEXT else -1)
        if not 0 <= target < self.count:
            return "this is the first turn" if target < 0 else "this is the last turn"
        self._at = target
        return self.show()

    def _go(self, number: str) -> str:
        if not number.isdecimal() or int(number) not in self._numbers:
            there = f"{self._numbers[0]} to {max(self._numbers)}"
            return f"there is no turn {number or '(g needs a number)'}; this run has {there}"
        self._at = self._numbers.index(int(number))
        return self.show()

    def _seek(self, text: str) -> str:
        self._sought = text or self._sought
        order = [(self._at + step) % self.count for step in range(1, self.count + 1)]
        place = next((each for each in order if self._sought.lower() in self._texts[each].lower()), None)
        if place is None or not self._sought:
            return f"no turn holds {self._sought!r}"
        self._at = place
        return self.show()
