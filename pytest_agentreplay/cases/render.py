"""A case and its fixtures as files that people read and edit: keys in a fixed order, comments where they help.

`schema.parse.read` of what is written here gives the case back.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.case import DEFAULT_SERVING, FIXTURES, LIST_NAMES, Case
from pytest_agentreplay.cases.schema import model
from pytest_agentreplay.errors import CaseError, visible
from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.snapshots.codec.yaml_text import dumped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.cases.case import Check, ListName, ServingPolicy
    from pytest_agentreplay.cases.fixtures import Fixture, FixtureAnswer
    from pytest_agentreplay.model.exchanges import Json, JsonObject

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
            text = dumped({key: value})
        except ValueError as error:
            raise CaseError(f"{key} cannot be written: {error}", file=case.file) from None
        lines.append(f"# {ABOUT[key]}\n{text}" if key in ABOUT else text)
    return "".join(lines)


def fields(case: Case) -> Iterator[tuple[str, Json]]:
    """The keys of a case file in order, without those that say nothing."""
    yield "schemaVersion", model.VERSION
    yield "id", case.id
    yield from _said("title", one_line(case.title))
    yield "source", _source(case)
    yield from _said("input", case.input)
    yield from _said("runner", _runner(case))
    yield "expect", case.expect
    for list_name in LIST_NAMES:
        yield from _said(list_name, _checks(case.checks(list_name)))
    yield from _said("semantic", [*case.semantic])
    yield from _said("serve", _serve(case))
    order: JsonObject = {"order": case.order} if case.order != "auto" else {}
    yield from _said("matching", {**dict(_said("ignore", [*case.ignore])), **order})
    yield from _said("tolerance", {**case.tolerance})
    yield from _said("labels", [*case.labels])
    yield from _said("links", [*case.links])
    if case.expect == "cold":
        yield "cold", {"reason": case.reason, **dict(_said("missing", [*case.missing]))}
    yield from case.extras.items()


def _said(key: str, value: Json) -> Iterator[tuple[str, Json]]:
    if value not in (None, "", [], {}):
        yield key, value


def one_line(text: str) -> str:
    """A text of whoever wrote it as a line: no control character, no break, not too long."""
    return visible(" ".join(text.split()))[:500]


def _source(case: Case) -> Json:
    told: JsonObject = asdict(case.source) | {"losses": [*case.source.losses]}
    return {key: value for key, value in told.items() if value}


def _runner(case: Case) -> Json:
    keys = [case.runners.get(name) for name in LIST_NAMES]
    return keys[0] if keys[0] == keys[1] else {name: key for name, key in zip(LIST_NAMES, keys, strict=True) if key}


def _checks(checks: Iterable[Check]) -> Json:
    return [{check.word: check.wanted} for check in checks]


def _serve(case: Case) -> Json:
    return {
        list_name: _served(case.serving[list_name], list_name)
        for list_name in LIST_NAMES
        if case.serving.get(list_name, DEFAULT_SERVING[list_name]) != DEFAULT_SERVING[list_name]
    }


def _served(serving: ServingPolicy, list_name: ListName) -> Json:
    told = asdict(serving)
    if len({*told.values()}) == 1:
        return serving.model
    return {kind: word for kind, word in told.items() if word != getattr(DEFAULT_SERVING[list_name], kind)}


def fixture_name(tool: str, number: int) -> str:
    """The name of a tool's `number`th fixture file, which any system can have."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", tool.lower()).strip("-")[:LONGEST_NAME]
    if not plain or RESERVED.fullmatch(plain):
        plain = f"tool-{plain}".rstrip("-")
    return f"{FIXTURES}/{plain}-{number}.yaml"


def fixture_files(fixtures: Iterable[Fixture]) -> dict[str, str]:
    """The files of fixtures: name in the case's folder -> text. Raises CaseError for what no text can hold."""
    files: dict[str, str] = {}
    for fixture in fixtures:
        number = 1
        while (name := fixture_name(fixture.tool, number)) in files:
            number += 1
        files[name] = fixture_text(fixture, file=name)
    return files


def fixture_text(fixture: Fixture, *, file: str = "") -> str:
    """One fixture file. Raises CaseError."""
    told: dict[str, Any] = {"tool": fixture.tool}
    if fixture.match:
        told["match"] = [*fixture.match]
    try:
        told["answers"] = [_answer(answer) for answer in fixture.answers]
        return dumped(told)
    except ValueError as error:
        raise CaseError(f"the answers of {fixture.tool} cannot be written: {error}", file=file) from None


def _answer(answer: FixtureAnswer) -> JsonObject:
    first, *others = answer.outcomes
    told: JsonObject = {"arguments": answer.arguments, **_outcome(first)}
    if others:
        told["then"] = [_outcome(one) for one in others]
    told["written" if answer.written else "recorded"] = True
    return {**told, **({"why": answer.why} if answer.why else {})}


def _outcome(outcome: ToolReply | Failure) -> JsonObject:
    if isinstance(outcome, Failure):
        return {"error": _error(outcome)}
    if outcome.items is not None:
        failed: JsonObject = {"error": _error(outcome.failure)} if outcome.failure is not None else {}
        return {"items": [*outcome.items], **failed}
    try:
        dumped(outcome.value)
    except (ValueError, RecursionError):
        return {"json": json.dumps(outcome.value)}
    return {"result": outcome.value}


def _error(failure: Failure) -> Json:
    told: JsonObject = {"type": failure.type, "message": failure.message}
    if failure.args != ((failure.message,) if failure.message else ()):
        told["args"] = [*failure.args]
    return {**told, **({"bases": [*failure.bases]} if failure.bases else {})}
