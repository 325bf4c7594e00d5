"""A case as a pytest file: what went wrong and what is desired as `run.assert_*`, for people to go on with.

The file reads the frozen run. What is desired does not hold there yet, so that test is expected to fail; whoever gives
it a run of today's agent takes the mark off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.traces.exporting.subject import Exported, unsaid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.exporting.subject import Subject, Wanted

TARGET = "the pytest file"
MARK = '@pytest.mark.xfail(strict=True, raises=AssertionError, reason="the frozen run is the one that failed")'
BOUNDED = frozenset({"turns", "tokens", "cost", "duration"})
HEAD = '''"""{title}

Made of {folder} by `agentreplay case export --to pytest`; yours to change.
"""

import pytest

from pytest_agentreplay import RunView, load


@pytest.fixture
def run(pytestconfig):
    """The frozen run. To try the agent of today, run it here with the fixture `agentreplay` and give its `.run`."""
    return RunView.of(load(pytestconfig.rootpath / {snapshot!r}).run)

'''


def write(subject: Subject) -> Exported:
    """The file with one test for each half, and one for the calls as they were made."""
    losses: list[str] = []
    body = half_of(f"test_{subject.name}_calls_its_tools", tool_calls(subject.calls), "")
    body += half_of(f"test_{subject.name}_fails_as_observed", lines("observed", subject.observed, losses), "")
    desired = lines("desired", subject.desired, losses)
    body += half_of(f"test_{subject.name}_is_as_desired", desired, MARK, *subject.semantic)
    losses += [f"check that only a person can judge: {words}" for words in subject.semantic]
    head = HEAD.format(
        title=docstring(subject.title or subject.id),
        folder=docstring(subject.folder),
        snapshot=f"{subject.folder}/run.snapshot.json",
    )
    return Exported(((f"test_{subject.name}.py", head + "\n".join(body) + "\n"),), tuple(losses))


def half_of(name: str, rows: Sequence[str], mark: str, *semantic: str) -> list[str]:
    """One test with the lines of a half; none for a half of which the file can say nothing."""
    if all(row.startswith("#") for row in rows):
        return []
    people = [f"# for a person: {docstring(words)}" for words in semantic]
    return ["", *([mark] if mark else []), f"def {name}(run):", *[f"    {row}" for row in [*rows, *people]], ""]


def docstring(text: str) -> str:
    """A text on one line that ends no docstring, and no comment."""
    words = "".join(char if char.isprintable() else " " for char in text).split()
    return " ".join(words).replace("\\", "/").replace('"', "'")


def tool_calls(called: Sequence[tuple[str, JsonObject | None]]) -> list[str]:
    """All tool calls of the run, in order."""
    if not called:
        return ["assert not run.tool_calls"]
    rows = [repr(name) if arguments is None else repr((name, arguments)) for name, arguments in called]
    return ["run.assert_tool_order(", "    [", *[f"        {row}," for row in rows], "    ]", ")"]


def lines(half: str, checks: Iterable[Wanted], losses: list[str]) -> list[str]:
    """The lines of the checks of a half; a comment, and a loss, for what the file cannot say."""
    rows: list[str] = []
    for check in checks:
        if (arguments := write_arguments(*check)) is None:
            losses.append(unsaid(TARGET, half, check))
            rows.append(f"# not checked here: {check[0]} {docstring(repr(check[1]))}")
        else:
            rows.append(f"run.assert_{check[0]}({', '.join(arguments)})")
    return rows


def write_arguments(word: str, expected: Json) -> list[str] | None:
    """Return the arguments of the word's `run.assert_*`; None for a word of somebody else's."""
    match word, expected:
        case (("status" | "tool_called" | "tool_not_called" | "tool_failed" | "repeated_call"), str()):
            return [repr(expected)]
        case (("tool_called" | "tool_not_called"), {"name": name, **more}):
            return [repr(name), *write_keywords(more)]
        case (("output" | "repeated_call"), dict()):
            return [*write_keywords(expected)]
        case _, dict() if word in BOUNDED:
            return [*write_keywords(expected)]
        case "forbidden_tools", list():
            return [repr(name) for name in expected]
        case "tool_order", dict() if len(expected) == 1:
            ((order, items),) = expected.items()
            return [f"[{', '.join(write_order(items))}]", f"order={order!r}"]
        case "error", dict():
            return [
                f"{name}={expected[key]!r}" for key, name in (("class", "kind"), ("text", "text")) if key in expected
            ]
        case "exchange", {"at": at, "side": side, **more}:
            return [repr(at), repr(side), *write_keywords(more)]
        case "no_secret_in_output", True:
            return []
        case "no_identity_but", str():
            return [repr(expected)]
        case "no_identity_but", {"path": path, **more}:
            own = more.get("is", [])
            return [repr(path), *map(repr, own if isinstance(own, list) else [own])]
    return None


def write_keywords(expected: Mapping[Any, Any]) -> Iterator[str]:
    """Return keys and values as keyword arguments."""
    return (f"{name}={value!r}" for name, value in expected.items())


def write_order(items: Json) -> Iterator[str]:
    """Yield the tools of an order: names, or names with the arguments that matter."""
    for item in items if isinstance(items, list) else ():
        yield repr((item.get("name"), item.get("arguments", {}))) if isinstance(item, dict) else repr(item)
