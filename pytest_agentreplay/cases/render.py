"""The files of a case as people read and edit them: the case, its fixtures, and notes on what happened in its run.

`schema.parse.read_case` of the case that is written here returns the same case.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases import turn
from pytest_agentreplay.cases.case import DEFAULT_SERVING, FIXTURES, LIST_NAMES, Case
from pytest_agentreplay.cases.evidence import find_errors, frozen
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.errors import CaseError, visible
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.codec.yaml_text import dump
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.cases.case import Case, ListName, ServingPolicy
    from pytest_agentreplay.cases.fixtures import Fixture, FixtureAnswer
    from pytest_agentreplay.cases.turn import TurnView
    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Run

ABOUT = {
    "expect": "reproduces: the failure is there; fixed: it is gone, and all below `desired` holds; cold: no replay",
    "observed": "what went wrong: true of the frozen run",
    "desired": "what a fixed agent must show",
    "semantic": "what a person has to say, or a judge",
}
LONGEST_NAME = 60
RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)


def case_text(case: Case, *, schema: str = "") -> str:
    """`case.yaml`. `schema` is where editors find its JSON Schema; it is named in the first line.

    Raises CaseError for what no text can hold.
    """
    lines = [f"# yaml-language-server: $schema={schema}\n"] if schema else []
    for key, value in fields(case):
        try:
            text = dump({key: value})
        except ValueError as error:
            raise CaseError(f"{key} cannot be written: {error}", file=case.file) from None
        lines.append(f"# {ABOUT[key]}\n{text}" if key in ABOUT else text)
    return "".join(lines)


def fields(case: Case) -> Iterator[tuple[str, Json]]:
    """Yield the keys of a case file in order, without those that say nothing."""
    yield "schemaVersion", model.VERSION
    yield "id", case.id
    yield from _list_filled("title", make_plain(case.title)[:500])
    yield "source", _source(case)
    yield from _list_filled("input", case.input)
    yield from _list_filled("runner", _runner(case))
    yield "expect", case.expect
    for list_name in LIST_NAMES:
        yield from _list_filled(list_name, [{check.word: check.wanted} for check in case.checks(list_name)])
    yield from _list_filled("semantic", [*case.semantic])
    yield from _list_filled("serve", _serve(case))
    order: JsonObject = {"order": case.order} if case.order != "auto" else {}
    yield from _list_filled("matching", {**dict(_list_filled("ignore", [*case.ignore])), **order})
    yield from _list_filled("tolerance", {**case.tolerance})
    yield from _list_filled("labels", [*case.labels])
    yield from _list_filled("links", [*case.links])
    if case.expect == "cold":
        yield "cold", {"reason": case.reason, **dict(_list_filled("missing", [*case.missing]))}
    yield from case.extras.items()


def _list_filled(key: str, value: Json) -> Iterator[tuple[str, Json]]:
    if value not in (None, "", [], {}):
        yield key, value


def _source(case: Case) -> Json:
    fields: JsonObject = asdict(case.source) | {"losses": [*case.source.losses]}
    return {key: value for key, value in fields.items() if value}


def _runner(case: Case) -> Json:
    keys = [case.runners.get(name) for name in LIST_NAMES]
    return keys[0] if keys[0] == keys[1] else {name: key for name, key in zip(LIST_NAMES, keys, strict=True) if key}


def _serve(case: Case) -> Json:
    return {
        list_name: _plain_serving(case.serving[list_name], list_name)
        for list_name in LIST_NAMES
        if case.serving.get(list_name, DEFAULT_SERVING[list_name]) != DEFAULT_SERVING[list_name]
    }


def _plain_serving(serving: ServingPolicy, list_name: ListName) -> Json:
    services = asdict(serving)
    if len({*services.values()}) == 1:
        return serving.model
    return {kind: word for kind, word in services.items() if word != getattr(DEFAULT_SERVING[list_name], kind)}


def fixture_name(tool: str, number: int) -> str:
    """Return the name of a tool's `number`th fixture file, which any system can have."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", tool.lower()).strip("-")[:LONGEST_NAME]
    if not plain or RESERVED.fullmatch(plain):
        plain = f"tool-{plain}".rstrip("-")
    return f"{FIXTURES}/{plain}-{number}.yaml"


def fixture_files(fixtures: Iterable[Fixture]) -> dict[str, str]:
    """Return the files of fixtures: name in the case's folder -> text. Raises CaseError for what no text can hold."""
    files: dict[str, str] = {}
    for fixture in fixtures:
        number = 1
        while (name := fixture_name(fixture.tool, number)) in files:
            number += 1
        files[name] = fixture_text(fixture, file=name)
    return files


def fixture_text(fixture: Fixture, *, file: str = "") -> str:
    """One fixture file. Raises CaseError."""
    fields: dict[str, Any] = {"tool": fixture.tool}
    if fixture.match:
        fields["match"] = [*fixture.match]
    try:
        fields["answers"] = [_answer(answer) for answer in fixture.answers]
        return dump(fields)
    except ValueError as error:
        raise CaseError(f"the answers of {fixture.tool} cannot be written: {error}", file=file) from None


def _answer(answer: FixtureAnswer) -> JsonObject:
    first, *others = answer.outcomes
    fields: JsonObject = {"arguments": answer.arguments, **_outcome(first)}
    if others:
        fields["then"] = [_outcome(outcome) for outcome in others]
    fields["written" if answer.written else "recorded"] = True
    return {**fields, **({"why": answer.why} if answer.why else {})}


def _outcome(outcome: ToolReply | Failure) -> JsonObject:
    if isinstance(outcome, Failure):
        return {"error": _error(outcome)}
    if outcome.items is not None:
        failed: JsonObject = {"error": _error(outcome.failure)} if outcome.failure is not None else {}
        return {"items": [*outcome.items], **failed}
    try:
        dump(outcome.value)
    except (ValueError, RecursionError):
        return {"json": json.dumps(outcome.value)}
    return {"result": outcome.value}


def _error(failure: Failure) -> Json:
    fields: JsonObject = {"type": failure.type, "message": failure.message}
    if failure.args != ((failure.message,) if failure.message else ()):
        fields["args"] = [*failure.args]
    return {**fields, **({"bases": [*failure.bases]} if failure.bases else {})}


LONGEST = 400
"""Characters of a value in the notes; the snapshot holds all of it."""
CODE = re.compile(r"((?<!`)(?P<fence>`+)(?!`).*?(?<!`)(?P=fence)(?!`))")
"""What Markdown takes for code, whoever has written its fences."""
ACTIVE = re.compile(r"""^[#>+*~=|-]|\\(?=[^\w\s]|$)|[`<]|\](?=[(\[:])|(?<![\w.])@(?=\w)""")
"""What begins a heading, a link, a picture, an element or a mention in a line of Markdown."""


def notes(case: Case, run: Run, sentences: Iterable[str]) -> str:
    """Return the notes of a case in Markdown; `sentences` are what was inferred of the run."""
    sections = [
        ("What happened", timeline(run)),
        ("What looks wrong", sentences),
        ("What the source does not tell", case.source.losses),
        ("What is missing for a replay", case.missing),
    ]
    lines = [f"# {escape_sentence(case.title)}", "", origin(case, run), ""]
    for title, lines_of_section in sections:
        if items := [f"- {line}" for line in map(escape_sentence, lines_of_section)]:
            lines += [f"## {title}", "", *items, ""]
    return "\n".join(lines)


def origin(case: Case, run: Run) -> str:
    """Return where the run comes from, in a sentence."""
    source = case.source
    kind = "a recording of" if source.format == "snapshot" else f"{source.format}, run"
    when = f", of {run.header.recorded}" if run.header.recorded else ""
    return escape_sentence(f"From {kind} {code(source.id)}{when}. Fidelity: {source.fidelity}.")


def timeline(run: Run) -> Iterator[str]:
    """Yield a sentence for each thing that happened, in order, with its time where that is known."""
    evidence = frozen(run)
    yield (
        f"The agent was given {format_value(evidence.input)}."
        if evidence.input is not None
        else "Its input is not known."
    )
    turns = turn.read_turns(run, READER)
    for turn_view in sorted(turns, key=lambda view: view.exchange.start if view.exchange is not None else -1):
        yield from describe_turn(run, turn_view, several=len({each.lane for each in turns}) > 1)
    ended = {"ok": "It ended without an error", "error": "It ended with an error"}[evidence.status]
    last = f": {': '.join(filter(None, evidence.errors[-1]))}" if evidence.status == "error" and evidence.errors else ""
    yield f"{ended}{last}."
    yield f"Its final answer: {format_value(evidence.output)}" if evidence.output else "It gave no final answer."
    kept, _, why = str(table(run.header.kit, "capture").get("reason", "")).partition(": ")
    if kept == "kept" and why:
        yield f"What the service heard of it later: {code(why)}."


def describe_turn(run: Run, view: TurnView, *, several: bool) -> Iterator[str]:
    """Yield what one turn asked and said, and the tools that ran in it."""
    if view.exchange is not None:
        where = (
            f"turn {view.number}{f' ({view.agent})' if view.agent else ''}{f' of lane {view.lane}' if several else ''}"
        )
        uses = (f"asked for {use.name} with {format_value(use.arguments)}" for use in view.tool_uses)
        parts = [*([f"said {format_value(view.text)}"] if view.text else []), *uses]
        parts += [f"failed with {': '.join(filter(None, error))}" for error in find_errors(view.exchange)]
        did = ", and ".join(parts) or "did not answer"
        yield f"{clock(run, view.exchange)}{where}: {view.model or 'a model'} {did}."
    for call in view.tool_calls:
        what = f"{call.name} with {format_value(call.arguments)}"  # type: ignore[arg-type]
        yield f"{what} {'failed:' if call.failed else 'gave'} {format_value(call.result)}."  # type: ignore[arg-type]


def clock(run: Run, x: Exchange) -> str:
    """When an exchange began, "" where nobody knows."""
    if not run.header.clock:
        return ""
    moment = datetime.fromtimestamp((run.header.clock + x.timing.start) / 1e9, UTC)
    return f"{moment:%H:%M:%S}, "


def format_value(content: Json) -> str:
    """Return a value as code, cut to what people read."""
    text = content if isinstance(content, str) else spell_json(content)
    return code(text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)")


def spell_json(content: Json) -> str:
    """Return a value as JSON; a tool may have given what is none."""
    try:
        return canonical(content)
    except (TypeError, ValueError):
        return repr(content)


def code(text: str) -> str:
    """Return a text on one line as Markdown's code, whatever it holds."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else "nothing"


def escape_sentence(text: str) -> str:
    """Return a sentence as a line of Markdown: what stands in no code is text, and nothing that a page would act on."""
    parts = CODE.split(make_plain(text))
    parts[::3] = [ACTIVE.sub(r"\\\g<0>", part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)


def make_plain(text: str) -> str:
    """Return a sentence on one line, without what a terminal would act on."""
    return visible(" ".join(text.split()))
