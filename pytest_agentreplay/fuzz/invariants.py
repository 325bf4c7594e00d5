"""What must hold in every neighbour of a run, whatever its model says; each violation is a name and a sentence.

ends                  the agent ends, within a bound of calls
ends as recorded      where the recorded replies stay true, so does the test's end
no crash              no error that the agent's own code did not raise on purpose
repeated effect       a call that changes something is not made more often than recorded
unrecorded effect     a call that changes something has recorded arguments
secret in a new place no secret goes where none went
valid request         a request to a model is JSON, and each result in it answers a tool call of it
bounded retries       no request is repeated without bound
"""

from __future__ import annotations

import dis
import re
import sysconfig
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.core.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.core.matching.address import content
from pytest_agentreplay.core.model import HttpCall, ToolCall
from pytest_agentreplay.core.redaction.placeholders import PLACEHOLDER
from pytest_agentreplay.core.turns import is_model, label
from pytest_agentreplay.dialects import READER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, TracebackType

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call
    from pytest_agentreplay.fuzz.neighbours import Neighbour

MOST_RETRIES = 20
"""Times that an equal request may be made beyond the recorded ones. SDKs repeat two times, retry loops of frameworks
up to ten."""
DEFECTS = (ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError, LookupError, NameError,
           RecursionError, StopIteration, TypeError, UnicodeError, ValueError)  # fmt: skip
"""Exceptions that Python raises about a program; an agent that raises one on purpose may."""
DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?P<time>[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?")
STANDARD = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib")})
LIBRARIES = ("site-packages", "dist-packages", "pytest_agentreplay")
"""Folders whose code is not the project's; ours raises what tools and networks are recorded to have raised."""


class Violation(NamedTuple):
    """An invariant that does not hold, and in a sentence what happened instead."""

    invariant: str
    text: str


def find_violations(
    before: Sequence[Call],
    now: Sequence[Call],
    neighbour: Neighbour,
    matching: Matching,
    has_effects: Callable[[Call], bool],
) -> Iterator[Violation]:
    """Yield what the calls that an agent makes on a neighbour violate, held against those that it made `before`."""
    clock = any(perturbation.operator == "clock" for perturbation in neighbour)
    yield from find_effects(before, now, matching, has_effects, masked=clock)
    yield from find_new_secrets(before, now)
    yield from find_invalid_requests(before, now)
    yield from find_retries(before, now, matching)


def find_effects(
    before: Iterable[Call],
    now: Iterable[Call],
    matching: Matching,
    has_effects: Callable[[Call], bool],
    *,
    masked: bool,
) -> Iterator[Violation]:
    """Yield the calls that change something and were made more often than recorded, or with other arguments."""
    recorded = [(text, call) for text, call in describe_effects(before, matching, masked=masked) if has_effects(call)]
    made = [(text, call) for text, call in describe_effects(now, matching, masked=masked) if has_effects(call)]
    counts = Counter(text for text, _ in recorded)
    names = {label(call, READER) for _, call in recorded}
    for text, count in Counter(text for text, _ in made).items():
        call = next(call for made_text, call in made if made_text == text)
        # What was never called has no arguments to be held against: an agent may report an error by it.
        if text not in counts and label(call, READER) in names:
            yield Violation("unrecorded effect", f"{describe(call)} is not recorded with these arguments")
        elif count > counts[text] > 0:
            yield Violation("repeated effect", f"{describe(call)} was called {count} times, recorded {counts[text]}")


def describe_effects(calls: Iterable[Call], matching: Matching, *, masked: bool) -> Iterator[tuple[str, Call]]:
    """Yield each call with the text by which it is compared.

    Under another clock dates are numbered as they first occur, in all calls that are no model's: a program that takes
    one day for another has another number. An instant is left out, since it is another one each time.
    """
    numbers: dict[str, str] = {}

    def number(date: re.Match[str]) -> str:
        return "<instant>" if date["time"] else numbers.setdefault(date[0], f"<day {len(numbers)}>")

    for call in calls:
        if not is_model(call, READER):
            text = matching.text(call)
            yield DATE.sub(number, text) if masked else text, call


def find_new_secrets(before: Iterable[Call], now: Iterable[Call]) -> Iterator[Violation]:
    """Yield the secrets, known by their placeholders, that go where no recorded call has sent them."""
    seen = {pair for call in before for pair in list_secrets(call)}
    for call in now:
        for secret, place in list_secrets(call):
            if (secret, place) not in seen:
                seen.add((secret, place))
                yield Violation("secret in a new place", f"{secret} is sent to {place}")


def list_secrets(call: Call) -> Iterator[tuple[str, str]]:
    """Yield the placeholders in a call, each with whom it is sent to. Headers are compared as credentials, not here."""
    data = canonical(call.arguments).encode("utf-8", "surrogatepass") if isinstance(call, ToolCall) else call.body.data
    for placeholder in {match[0] for match in PLACEHOLDER.finditer(data)}:
        yield placeholder.decode("utf-8", "replace"), label(call, READER)


def find_invalid_requests(before: Iterable[Call], now: Iterable[Call]) -> Iterator[Violation]:
    """Yield requests to models that no service takes; none where a recorded one is so already."""
    if any(explain_invalid(call) for call in before):
        return
    for call in now:
        if why := explain_invalid(call):
            yield Violation("valid request", f"{label(call, READER)}: {why}")
            return


def explain_invalid(call: Call) -> str:
    """Return why no service takes a request to a model; "" for one that is valid, and for any other call."""
    if not isinstance(call, HttpCall) or call.method != "POST" or not is_model(call, READER):
        return ""
    if content(call.headers, call.body).kind == "json" and isinstance(parse(call.body.data), NotJson):
        return "the body is no JSON"
    reading = READER.read_call(call)
    uses = {use.id for use in READER.tool_uses(reading) if use.id}
    orphans = sorted({name for name in READER.tool_results(reading) if name} - uses)
    return f"the result {orphans[0]} answers no tool call of the request" if uses and orphans else ""


def find_retries(before: Iterable[Call], now: Iterable[Call], matching: Matching) -> Iterator[Violation]:
    """Yield the requests that were made again and again."""
    recorded = Counter(map(matching.key_alone, before))
    for key, count in Counter(keys := [matching.key_alone(call) for call in now]).items():
        if count > recorded[key] + MOST_RETRIES:
            call = [*now][keys.index(key)]
            yield Violation("bounded retries", f"{label(call, READER)} was asked the same {count} times")


def describe(call: Call) -> str:
    """Return a call with its arguments, or the members of its body, in a line."""
    arguments = call.arguments if isinstance(call, ToolCall) else parse(call.body.data)
    name = call.name if isinstance(call, ToolCall) else label(call, READER)
    if not isinstance(arguments, dict):
        return name
    text = ", ".join(f"{key}={canonical(value)}" for key, value in arguments.items())
    return f"{name}({text if len(text) <= 120 else text[:117] + '...'})"


def find_crash(failure: BaseException | None, root: Path, own: CodeType | None) -> Violation | None:
    """Return the violation of an error that Python raised about the project's code; None for any other end.

    An exception is not one where a `raise` or `assert` of the project raised it, or where a library did: a client
    reports a broken answer by it. Neither is one of the test function itself, whose code is `own`.
    """
    for error in list_errors(failure):
        frame = find_frame(error.__traceback__, root) if isinstance(error, DEFECTS) else None
        if frame is None or frame.tb_frame.f_code is own or is_raised(frame):
            continue
        file = Path(frame.tb_frame.f_code.co_filename)
        where = f"{file.relative_to(root) if file.is_relative_to(root) else file}:{frame.tb_lineno}"
        text = str(error).partition("\n")[0]
        return Violation("no crash", f"{type(error).__name__} in {frame.tb_frame.f_code.co_qualname} ({where}): {text}")
    return None


def list_errors(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, or those of a group of them."""
    if isinstance(failure, BaseExceptionGroup):
        for error in failure.exceptions:
            yield from list_errors(error)
    elif failure is not None:
        yield failure


def find_frame(trace: TracebackType | None, root: Path) -> TracebackType | None:
    """Return the innermost frame of the project, where only the standard library stands inside it; else None."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    for frame in reversed(frames):
        file = frame.tb_frame.f_code.co_filename
        if any(folder in Path(file).parts for folder in LIBRARIES):
            return None
        if not file.startswith(STANDARD) and not file.startswith("<") and Path(file).is_relative_to(root):
            return frame
    return None


def is_raised(frame: TracebackType) -> bool:
    """Return whether a frame ended by a `raise` or `assert` of its own, and not by what it called or computed."""
    code = frame.tb_frame.f_code
    return frame.tb_next is None and dis.opname[code.co_code[frame.tb_lasti]] == "RAISE_VARARGS"
