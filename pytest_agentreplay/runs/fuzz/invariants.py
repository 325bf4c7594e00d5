"""What must hold in every neighbour of a run, whatever its model says; each violation is a name and a sentence.

ends                  the agent ends, within a bound of calls
ends as recorded      where the recorded replies stay true, so does the test's end
no crash              no error that the agent's own code did not raise on purpose
repeated effect       a call that changes something is not made more often than recorded
unrecorded effect     a call that changes something has recorded arguments; where a result holds instructions, it is
                      recorded at all, and made no earlier
forbidden arguments   a call that changes something has no value of the model that the tool's schema forbids
ignored unit          a call that changes something takes no amount whose currency or unit is another one
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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.exchanges import Call, Exchange, HttpCall, Json, Run, ToolCall
from pytest_agentreplay.model.reading import ToolUse, arguments_of, ran_for
from pytest_agentreplay.model.turns import function_of, is_model, label
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.messages import normalize_tools
from pytest_agentreplay.redaction.placeholders import PLACEHOLDER
from pytest_agentreplay.runs.fuzz.content_changes import INJECTION, UNIT, list_amounts, read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, TracebackType

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.runs.fuzz.neighbours import Neighbour

MOST_RETRIES = 20
"""Times that an equal request may be made beyond the recorded ones. SDKs repeat two times, retry loops of frameworks
up to ten."""
DEFECTS = (ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError, LookupError, NameError,
           RecursionError, StopIteration, TypeError, UnicodeError, ValueError)  # fmt: skip
"""Exceptions that Python raises about a program; an agent that raises one on purpose may."""
LOGS = re.compile(r"(?i)telemetr|metrics|audit|(?<![a-z])log(?:s|ger|ging)?(?![a-z])")
# An agent may report an error in any words, also where it has recorded others.
REPORTS = re.compile(r"(?i)report|escalat|alert|incident|error|warn")
# What is repeated does nothing twice: by the rules of HTTP, or by a key that the service knows.
IDEMPOTENT = re.compile(r"(?i)^(?:put|delete) |idempot")
# Beside another fault a call may be the report of that.
INJECTIONS = ({"injection"}, {"injected-words"})
INJECTED = (INJECTION[:10].lower(), INJECTION[-15:-1].lower())
TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\d-])")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?P<time>[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?")
STANDARD = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib")})
LIBRARIES = ("site-packages", "dist-packages", "pytest_agentreplay")
"""Folders whose code is not the project's; ours raises what tools and networks are recorded to have raised."""


HasEffects: TypeAlias = "Callable[[Call], bool]"
Calls: TypeAlias = "Sequence[Call]"
Runs: TypeAlias = "tuple[Run, Run]"


class Violation(NamedTuple):
    """An invariant that does not hold, and in a sentence what happened instead."""

    invariant: str
    text: str


def find_violations(
    before: Calls, now: Calls, neighbour: Neighbour, matching: Matching, has_effects: HasEffects, *, runs: Runs
) -> Iterator[Violation]:
    """Yield what the calls that an agent makes on a neighbour violate, held against those that it made `before`.

    `runs` are the calls that were answered, with their answers, before and now.
    """
    operators = {perturbation.operator for perturbation in neighbour}
    recorded, made = (
        [row for row in describe_effects(calls, matching, masked="clock" in operators) if has_effects(row[1])]
        for calls in (before, now)
    )
    refused = Counter(matching.text(x.call) for x in runs[1].exchanges if getattr(x.outcome, "status", 0) in {429, 503})
    yield from find_effects(recorded, made, operators, refused)
    early, now_early = ([*list_early(run, runs[0], has_effects)] if operators in INJECTIONS else [] for run in runs)
    for call in () if early else now_early:
        yield Violation("unrecorded effect", f"{describe(call)} is recorded after the reply that asks for it")
    yield from find_forbidden_arguments(*runs, [call for call in now if has_effects(call) and call not in before])
    yield from find_ignored_units(neighbour, *runs, has_effects)
    yield from find_new_secrets(before, now)
    yield from find_invalid_requests(before, now)
    yield from find_retries(before, now, matching)


def find_effects(
    recorded: Sequence[tuple[str, Call]], made: Sequence[tuple[str, Call]], operators: set[str], refused: Counter[str]
) -> Iterator[Violation]:
    """Yield the calls that change something and were made more often than recorded, or with other arguments.

    `refused` counts those of them that a service has not processed.
    """
    masked, injected = "clock" in operators, operators in INJECTIONS
    counts = Counter(text for text, _ in recorded)
    names = {label(call, READER) for _, call in recorded}
    for text, count in Counter(text for text, _ in made).items():
        call = next(call for made_text, call in made if made_text == text)
        name, values = label(call, READER), read_values(call)
        handed_on = name in names and any(part in values.lower() for part in INJECTED)
        if LOGS.search(name) or (text not in counts and REPORTS.search(name) and not (masked and name in names)):
            continue
        # What was never called has no arguments to be held against, unless the code obeys a result.
        if text not in counts and (injected or name in names) and not handed_on:
            where = " with these arguments" * (name in names)
            yield Violation("unrecorded effect", f"{describe(call)} is not recorded{where}")
        elif count - refused[text] > counts[text] > 0 and not IDEMPOTENT.search(f"{name} {values}"):
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


def read_values(call: Call) -> str:
    """Return what a call hands over, its arguments or its body, as text."""
    return canonical(call.arguments) if isinstance(call, ToolCall) else call.body.data.decode("utf-8", "replace")


def list_early(run: Run, base: Run, has_effects: HasEffects) -> Iterator[Call]:
    """Yield the calls that change something and were made before a reply asked for them, though one of `base` does."""

    def is_asked(call: ToolCall, exchanges: Sequence[Exchange]) -> bool:
        return any(use.name == call.name and ran_for(use, call) for x in exchanges for use in read_uses(x))

    for place, x in enumerate(run.exchanges):
        tool = function_of(x.call, READER) if has_effects(x.call) else None
        if tool and is_asked(tool, base.exchanges) and not is_asked(tool, run.exchanges[:place]):
            yield x.call


def read_uses(x: Exchange) -> Sequence[ToolUse]:
    """Return the tool calls that a reply of a model asks for."""
    return READER.read_reply(x.call, x.outcome).tool_uses if is_model(x.call, READER) else ()


def find_forbidden_arguments(before: Run, now: Run, effects: Sequence[Call]) -> Iterator[Violation]:
    """Yield the effects that are passed a value which a changed reply gave and the schema of its request forbids."""
    recorded = [x.outcome for x in before.exchanges]
    for x in [x for x in now.exchanges if effects and x.outcome not in recorded]:
        schemas = {tool["name"]: tool["parameters"] for tool in normalize_tools(READER.read_call(x.call).tools)}
        for use in read_uses(x):
            for why, value in explain_forbidden(arguments_of(use), schemas.get(use.name), "the value"):
                passed_on = re.compile(rf"(?<![\w.-]){re.escape(canonical(value))}(?![\w.])")
                for call in effects:
                    tool = function_of(call, READER)
                    if (tool is None or tool.name == use.name) and passed_on.search(read_values(call)):
                        yield Violation("forbidden arguments", f"{describe(call)} has what its schema forbids: {why}")


def explain_forbidden(value: Json, schema: Any, name: str) -> Iterator[tuple[str, Json]]:
    """Yield what the types, enums and minimums of a JSON schema forbid, with the value; nothing else of it is read."""
    if not isinstance(schema, dict) or value is None:
        return
    kind, least = TYPES[type(value).__name__], schema.get("minimum", schema.get("exclusiveMinimum"))
    kinds, members = str(schema.get("type") or kind).lower(), schema.get("properties") or {}
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        yield f"{name} is of type {kind}, {kinds} expected", value
    elif value not in (schema.get("enum") or [value]):
        yield f"{name} is {canonical(value)}, which is not in its enum", value
    elif isinstance(least, int | float) and isinstance(value, int | float) and value < least:
        yield f"{name} is {value}, at least {least} expected", value
    for member, inner in value.items() if isinstance(value, dict) else ():
        yield from explain_forbidden(inner, members.get(member), member)


def find_ignored_units(neighbour: Neighbour, before: Run, now: Run, has_effects: HasEffects) -> Iterator[Violation]:
    """Yield the effects that take an amount although the result has it in another unit, or in none.

    They have the recorded arguments, or a unit that nobody has named. Judged up to the next request of a model. An
    amount that a model has named is the model's.
    """
    path = next((str(each.argument) for each in neighbour if each.operator in {"other-unit", "dropped-field"}), "")
    recorded, amounts, requested = [x.outcome for x in before.exchanges], set[float](), ""
    texts = {read_values(x.call) for x in before.exchanges}
    seen_texts = str(texts)
    for x in now.exchanges if path else ():
        if is_model(x.call, READER):
            if amounts:
                return
            requested += str(read_uses(x))
            continue
        seen_texts += canonical(read_result(x)[1])
        if x.outcome not in recorded:
            unchanged = next((each for each in before.exchanges if each.call == x.call), x)
            amounts = list_amounts(path, read_result(unchanged)[1]) - read_numbers(f"{requested} {read_values(x.call)}")
            continue
        values = read_values(x.call)
        is_ignored = values in texts or read_units(values) - read_units(f"{seen_texts} {requested}")
        if is_ignored and has_effects(x.call) and amounts & read_numbers(values):
            yield Violation("ignored unit", f"{describe(x.call)} takes an amount that now has another unit, or none")


def read_units(text: str) -> set[str]:
    """Return the currencies and units in a text."""
    return {unit.upper() for unit in UNIT.findall(text)}


def read_numbers(text: str) -> set[float]:
    """Return the numbers in a text, each also with a hundred times more or less: euros may be cents."""
    return {round(float(number) * factor, 4) for number in NUMBER.findall(text) for factor in (0.01, 1, 100)}


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
    data = read_values(call).encode("utf-8", "surrogatepass")
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
