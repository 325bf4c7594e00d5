"""A case as a pytest file: what went wrong and what is desired, as plain assertions for people to go on with.

The file reads the frozen run. What is desired does not hold there yet, so that test is expected to fail; whoever gives
it a run of today's agent takes the mark off.
"""

from __future__ import annotations

import re
from keyword import iskeyword
from typing import TYPE_CHECKING

from pytest_agentreplay.interchange.exporting.subject import Exported, unsaid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.exporting.subject import Subject, Wanted

TARGET = "the pytest file"
MARK = '@pytest.mark.xfail(strict=True, reason="the frozen run is the one that failed")'
NAMED = re.compile(r"(?:\$\.)?(\w+)")
IMPORTS = {"import re\n": "re.search(", "from collections import Counter\n": "Counter("}
"""What is imported where the tests hold the text behind it."""
HEAD = '''"""{title}

Made of {folder} by `agentreplay export --to pytest`; yours to change.
"""

{imports}from pytest_agentreplay import RunView, load


@pytest.fixture
def run():
    """The frozen run. To try the agent of today, run it here with the fixture `agentreplay` and give its `.run`."""
    return RunView.of(load({snapshot!r}).run)


def calls(run, name, /, **arguments):
    """The calls of a tool that have these arguments, among others."""
    return [
        call
        for call in run.tool_calls
        if call.name == name and all(call.arguments.get(key) == value for key, value in arguments.items())
    ]
'''


def write(subject: Subject) -> Exported:
    """The file with one test for each half, and one for the calls as they were made."""
    losses: list[str] = []
    body = [f"def test_{subject.name}_calls_its_tools(run):", *[f"    {said}" for said in tool_calls(subject.calls)]]
    body += half_of(f"test_{subject.name}_fails_as_observed", lines("observed", subject.observed, losses), "")
    wanted = lines("desired", subject.desired, losses)
    body += half_of(f"test_{subject.name}_is_as_desired", wanted, MARK, *subject.semantic)
    losses += [f"semantic check: {words}" for words in subject.semantic]
    ours = "".join(said for said, mark in IMPORTS.items() if any(mark in row for row in body))
    head = HEAD.format(
        title=docstring(subject.title or subject.id),
        folder=docstring(subject.folder),
        snapshot=f"{subject.folder}/run.snapshot.json",
        imports=f"{ours}\nimport pytest\n\n" if ours else "import pytest\n\n",
    )
    return Exported(((f"test_{subject.name}.py", "\n".join([head, "", *body]) + "\n"),), tuple(losses))


def half_of(name: str, said: list[str], mark: str, *semantic: str) -> list[str]:
    """One test with the lines of a half; none for a half of which the file can say nothing."""
    if all(row.startswith("#") for row in said):
        return []
    people = [f"# for a person: {docstring(words)}" for words in semantic]
    return ["", "", *([mark] if mark else []), f"def {name}(run):", *[f"    {row}" for row in [*said, *people]]]


def docstring(text: str) -> str:
    """A text on one line that ends no docstring, and no comment."""
    words = "".join(char if char.isprintable() else " " for char in text).split()
    return " ".join(words).replace("\\", "/").replace('"', "'")


def tool_calls(called: Sequence[tuple[str, JsonObject | None]]) -> Iterator[str]:
    """All tool calls of the run, in order."""
    if not called:
        yield "assert not run.tool_calls"
        return
    yield "run.assert_tool_calls("
    yield "    ["
    for name, arguments in called:
        yield f"        {(name, arguments)!r}," if arguments is not None else f"        {name!r},"
    yield "    ]"
    yield ")"


def lines(half: str, checks: Iterable[Wanted], losses: list[str]) -> list[str]:
    """The lines of the checks of a half; a comment, and a loss, for what the file cannot say."""
    told: list[str] = []
    for wanted in checks:
        found = list(assertions(*wanted))
        if not found:
            losses.append(unsaid(TARGET, half, wanted))
            found = [f"# not checked here: {wanted[0]} {docstring(repr(wanted[1]))}"]
        told += found
    return told


def assertions(word: str, wanted: Json) -> Iterator[str]:
    """One check as assertions; nothing for what plain Python says too badly."""
    match word, wanted:
        case "output", dict() if "path" not in wanted:
            for how, text in wanted.items():
                yield from output(how, text)
        case "tool_called", str():
            yield f"assert calls(run, {wanted!r})"
        case "tool_called", dict():
            yield from called(wanted)
        case "tool_failed", str():
            yield f"assert any(call.failed for call in calls(run, {wanted!r}))"
        case (("tool_not_called" | "forbidden_tools"), str() | list()):
            for name in wanted if isinstance(wanted, list) else [wanted]:
                if isinstance(name, str):
                    yield f"assert not calls(run, {name!r})"
        case "tool_order", dict():
            for order, names in wanted.items():
                if isinstance(names, list) and all(isinstance(name, str) for name in names):
                    yield f"run.assert_tool_calls({names!r}, order={order!r})"
        case "repeated_call", str():
            yield from assertions(word, {"name": wanted})
        case "repeated_call", {"name": str() as tool, **more}:
            yield f"same = Counter(repr(call.arguments) for call in calls(run, {tool!r}))"
            yield f"assert max(same.values(), default=0) >= {more.get('at_least', 2)!r}"
        case "turns", dict():
            yield from (f"assert len(run.model_calls) {sign} {bound!r}" for sign, bound in bounds(wanted))


def output(name: str, text: Json) -> Iterator[str]:
    """What is wanted of the final output."""
    match name:
        case "contains":
            yield f"assert {text!r} in run.final_text"
        case "not_contains":
            yield f"assert {text!r} not in run.final_text"
        case "equals":
            yield f"assert run.final_text == {text!r}"
        case "matches":
            yield f"assert re.search({text!r}, run.final_text)"
        case "exists":
            yield "assert run.final_text" if text else "assert not run.final_text"


def called(wanted: JsonObject) -> Iterator[str]:
    """How often a tool was called with some arguments."""
    paths = wanted.get("arguments")
    named: JsonObject = {}
    for path, value in paths.items() if isinstance(paths, dict) else ():
        match = NAMED.fullmatch(path)
        if match is None or not match[1].isidentifier() or iskeyword(match[1]):
            return
        named[match[1]] = value
    arguments = "".join(f", {name}={value!r}" for name, value in named.items())
    made = f"calls(run, {wanted.get('name')!r}{arguments})"
    limits = list(bounds(wanted))
    yield from (f"assert len({made}) {sign} {bound!r}" for sign, bound in limits)
    if not limits:
        yield f"assert {made}"


def bounds(wanted: JsonObject) -> Iterator[tuple[str, Json]]:
    """The limits of a check as comparisons."""
    for name, sign in (("times", "=="), ("at_least", ">="), ("at_most", "<=")):
        if name in wanted:
            yield sign, wanted[name]
