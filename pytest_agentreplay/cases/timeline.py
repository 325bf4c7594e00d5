"""What happened in a run, in words: the notes that lie beside a case, for people to read and to go on writing."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_agentreplay.cases import turn
from pytest_agentreplay.cases.evidence import frozen, wrong
from pytest_agentreplay.errors import visible
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.cases.turn import ToolCallView, TurnView
    from pytest_agentreplay.model.exchanges import Exchange, Json, Run
    from pytest_agentreplay.model.reading import ToolUse

LONGEST = 400
"""Characters of a value in the notes; the snapshot holds all of it."""
CODE = re.compile(r"((?<!`)(?P<fence>`+)(?!`).*?(?<!`)(?P=fence)(?!`))")
"""What Markdown takes for code, whoever has written its fences."""
ACTIVE = re.compile(r"""^[#>+*~=|-]|\\(?=[^\w\s]|$)|[`<]|\](?=[(\[:])|(?<![\w.])@(?=\w)""")
"""What begins a heading, a link, a picture, an element or a mention in a line of Markdown."""


def notes(case: Case, run: Run, told: Iterable[str]) -> str:
    """The notes of a case in Markdown; `told` is what was inferred of the run."""
    sections = [
        ("What happened", timeline(run)),
        ("What looks wrong", told),
        ("What the source does not tell", case.source.losses),
        ("What is missing for a replay", case.missing),
    ]
    lines = [f"# {written(case.title)}", "", origin(case, run), ""]
    for title, found in sections:
        if items := [f"- {one}" for one in map(written, found)]:
            lines += [f"## {title}", "", *items, ""]
    return "\n".join(lines)


def origin(case: Case, run: Run) -> str:
    """Where the run comes from, in a sentence."""
    source = case.source
    kind = "a recording of" if source.format == "snapshot" else f"{source.format}, run"
    when = f", of {run.header.recorded}" if run.header.recorded else ""
    return written(f"From {kind} {code(source.id)}{when}. Fidelity: {source.fidelity}.")


def timeline(run: Run) -> Iterator[str]:
    """A sentence for each thing that happened, in order, with its time where that is known."""
    evidence = frozen(run)
    yield f"The agent was given {value(evidence.input)}." if evidence.input is not None else "Its input is not known."
    turns = turn.read(run, READER)
    for one in sorted(turns, key=lambda one: one.exchange.start if one.exchange is not None else -1):
        yield from of_turn(run, one, several=len({each.lane for each in turns}) > 1)
    ended = {"ok": "It ended without an error", "error": "It ended with an error"}[evidence.status]
    last = f": {': '.join(filter(None, evidence.errors[-1]))}" if evidence.status == "error" and evidence.errors else ""
    yield f"{ended}{last}."
    yield f"Its final answer: {value(evidence.output)}" if evidence.output else "It gave no final answer."
    kept, _, why = str(table(run.header.kit, "capture").get("reason", "")).partition(": ")
    if kept == "kept" and why:
        yield f"What the service heard of it later: {code(why)}."


def of_turn(run: Run, one: TurnView, *, several: bool) -> Iterator[str]:
    """What one turn asked and said, and the tools that ran in it."""
    if one.exchange is not None:
        where = f"turn {one.number}{f' ({one.agent})' if one.agent else ''}{f' of lane {one.lane}' if several else ''}"
        said = [*([f"said {value(one.text)}"] if one.text else []), *map(asked, one.tool_uses)]
        said += [f"failed with {': '.join(filter(None, error))}" for error in wrong(one.exchange)]
        yield f"{clock(run, one.exchange)}{where}: {one.model or 'a model'} {', and '.join(said) or 'did not answer'}."
    for call in one.tool_calls:
        yield ran(call)


def asked(use: ToolUse) -> str:
    """What a model asked a tool for."""
    return f"asked for {use.name} with {value(use.arguments)}"


def ran(call: ToolCallView) -> str:
    """What a tool gave."""
    what = f"{call.name} with {value(call.arguments)}"  # type: ignore[arg-type]
    return f"{what} {'failed:' if call.failed else 'gave'} {value(call.result)}."  # type: ignore[arg-type]


def clock(run: Run, x: Exchange) -> str:
    """When an exchange began, "" where nobody knows."""
    if not run.header.clock:
        return ""
    moment = datetime.fromtimestamp((run.header.clock + x.timing.start) / 1e9, UTC)
    return f"{moment:%H:%M:%S}, "


def value(found: Json) -> str:
    """A value as code, cut to what people read."""
    text = found if isinstance(found, str) else spelled(found)
    return code(text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)")


def spelled(found: Json) -> str:
    """A value as JSON; a tool may have given what is none."""
    try:
        return canonical(found)
    except (TypeError, ValueError):
        return repr(found)


def code(text: str) -> str:
    """A text on one line as Markdown's code, whatever it holds."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else "nothing"


def written(text: str) -> str:
    """A sentence as a line of Markdown: what stands in no code is text, and nothing that a page would act on."""
    parts = CODE.split(plain(text))
    parts[::3] = [ACTIVE.sub(r"\\\g<0>", part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)


def plain(text: str) -> str:
    """A sentence on one line, without what a terminal would act on."""
    return visible(" ".join(text.split()))
