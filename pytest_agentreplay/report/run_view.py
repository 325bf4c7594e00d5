"""A run as people look at it: wrapped and folded for a terminal, a fact a line for screen readers, or its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import FrameCall, FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.transcript import list_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from pytest_agentreplay.model.exchanges import Call, Outcome, Run
    from pytest_agentreplay.model.turns import Turn

SHOWN = 6
"""Lines of one text that a folded transcript shows."""
STYLES = (
    (re.compile(r"(?:\S.* )?turn \d.*"), "bold"),
    (re.compile(r" +(?:raised \w+|did not end|status [45]\d\d).*"), "red"),
    (re.compile(r" +\.\.\. \d+ more lines; .*"), "dim"),
    (re.compile(r" *(?:ran|asks for|retrieved|tried|[\w.-][\w .-]{0,40}:)(?= |$)"), "cyan"),
)
# Number, duration, chunks and lane stand behind three spaces, which no name of a model or tool ends with.
NOTE = re.compile(r"   #\d+  .*$")
LABEL = re.compile(r"(?:(?:ran|asks for|retrieved) [^( ]+|[^:,({]+)")


def select_turns(run: Run, number: int | None) -> tuple[Turn, ...]:
    """Return the turns of a number, one for each lane that has it; -1 is the one that began last; None: all.

    Raises LookupError, whose text says which there are.
    """
    every = turns(run, READER)
    if number is None:
        return every
    if number < 0:
        # Lanes stand one below the other, so the turn that is printed last need not be the last one.
        began = sorted(every, key=lambda turn: turn.exchanges[0].start)
        chosen = began[number:][:1] if -number <= len(began) else []
    else:
        chosen = [turn for turn in every if turn.number == number]
    if not chosen:
        numbers = sorted({turn.number for turn in every})
        there = f"it has {numbers[0]} to {numbers[-1]}" if numbers else "it has none"
        raise LookupError(f"there is no turn {number}; {there}")
    return tuple(chosen)


def format_run(run: Run, console: Console, number: int | None = None) -> list[Text]:
    """Return a run, or the turns of a number, in lines for a console; texts are folded where no turn was chosen.

    Raises LookupError where there is no such turn.
    """
    from rich.text import Text

    chosen = select_turns(run, number)
    facts, blocks = list_blocks(run)
    lines = [line for row in facts if number is None for line in wrap_row(row, console)]
    for turn, rows in blocks:
        if turn in chosen:
            lines += [Text("")] if lines else []
            for item in split_items(rows):
                # What is folded is counted in lines of this terminal: those that `--turn` would add.
                wrapped = [line for row in item for line in wrap_row(row, console)]
                if number is None and (hidden := len(wrapped) - SHOWN) > 1:
                    wrapped[SHOWN:] = wrap_row(f"    ... {hidden} more lines; --turn {turn.number} shows all", console)
                lines += wrapped
    return lines


def split_items(rows: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of a turn in groups: its head, then each text or call with what stands further in below it."""
    item: list[str] = []
    for row in rows:
        if item and not row.startswith("   "):
            yield item
            item = []
        item.append(row)
    yield item


def wrap_row(row: str, console: Console) -> Iterator[Text]:
    """Yield a line in as many as the width takes; they go on two columns further in."""
    from rich.text import Text

    text = Text(row)
    # The first pattern that fits says what the line is; its notes stay dim, whatever that is.
    for pattern, style in STYLES:
        if label := pattern.match(row):
            text.stylize(style, *label.span())
            break
    if note := NOTE.search(row):
        text.stylize("not bold dim", *note.span())
    # Most lines fit, and wrapping is what takes the time in a run of a thousand turns.
    if text.cell_len <= console.width and "\t" not in row:
        yield text
        return
    indent = min(len(row) - len(row.lstrip(" ")), console.width // 3)
    inner = text[len(row) - len(row.lstrip(" ")) :]
    for at, line in enumerate(inner.wrap(console, max(10, console.width - indent - 2))):
        yield Text(" " * (indent + 2 * bool(at))).append_text(line)


def spell_run(run: Run, number: int | None = None) -> Iterator[str]:
    """Yield a run, or the turns of a number, as lines that are complete on their own. Raises LookupError."""
    chosen = select_turns(run, number)
    facts, blocks = list_blocks(run, spelled=True)
    yield from spell_rows(facts, "", "") if number is None else ()
    for turn, (head, *rows) in blocks:
        if turn in chosen:
            place = turn.title
            yield f"{place}: {head.partition('  ')[2]}"
            yield from spell_rows(rows, "  ", f"{place}, ")


def spell_rows(rows: Iterable[str], indent: str, before: str) -> Iterator[str]:
    """Yield each line behind what it belongs to: the name of its text, or the call whose result it is."""
    label = ""
    for row in rows:
        if row.startswith(f"{indent}  "):
            yield f"{before}{label}: {row.strip()}"
            continue
        label = match[0].strip() if (match := LABEL.match(row.strip())) else row.strip()
        yield f"{before}{row.strip()}"


def list_raw(run: Run, number: int) -> Iterator[bytes]:
    """Yield requests and replies of the turns of a number as they were recorded. Raises LookupError."""
    chosen = {x.start for turn in select_turns(run, number) for x in turn.exchanges}
    for x in run.exchanges:
        # What ran inside a call starts after it, so that its parent has been seen.
        if x.parent in chosen:
            chosen.add(x.start)
        if x.start in chosen:
            yield from (dump_call(x.call), b"\n", dump_outcome(x.outcome), b"\n")


def dump_call(call: Call) -> bytes:
    """Return a call as it went out: line, headers, empty line, body; of a function its name and arguments."""
    if isinstance(call, ToolCall):
        return f"{call.boundary} {call.name}\n\n{canonical(call.arguments)}\n".encode("utf-8", "surrogatepass")
    headers = "".join(f"{name}: {value}\n" for name, value in call.headers)
    sign = f"{call.boundary} " if isinstance(call, FrameCall) else ""
    return f"{sign}{call.method} {call.url}\n{headers}\n".encode("utf-8", "surrogatepass") + call.body.data + b"\n"


def dump_outcome(outcome: Outcome | None) -> bytes:
    """Return what came back, in the same form."""
    match outcome:
        case HttpReply(status=status, reason=reason, version=version, headers=headers, body=body):
            rows = "".join(f"{name}: {value}\n" for name, value in headers)
            return f"{version} {status} {reason}\n{rows}\n".encode("utf-8", "surrogatepass") + body.data + b"\n"
        case FramesReply(body=body):
            return body.data
        case ToolReply(value=value, items=items):
            return f"{canonical(value if items is None else list(items))}\n".encode("utf-8", "surrogatepass")
        case None:
            return b"did not end\n"
        case failure:
            return f"raised {failure.type}: {failure.message}\n".encode("utf-8", "surrogatepass")
