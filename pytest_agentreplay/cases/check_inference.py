"""What looks wrong in a frozen run, as checks that are true of it, and what a fixed agent might show instead.

A proposal, for a person to read: what is `observed` holds on the run that it was inferred from; what is `desired` does
not, so that it says something. Where only words can say what is wanted, they are `semantic`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import Check
from pytest_agentreplay.cases.checks.calls import has_failed
from pytest_agentreplay.cases.checks.identity import WordingWeight, forms, make_plain, stands, weight
from pytest_agentreplay.cases.checks.records import fold_identity, records
from pytest_agentreplay.cases.checks.values import texts
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.exchanges import HttpReply
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.turn import ToolCallView
    from pytest_agentreplay.model.exchanges import Json, JsonObject

LOOP = 3
"""So many identical calls are a loop; of failing ones, one less."""
ERROR = re.compile(
    r"\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b|\s*(?:(?:an )?error|exception|traceback)\b", re.IGNORECASE
)
"""How a result begins that is an error in a text, where nothing else marks it."""


@dataclass(frozen=True, slots=True)
class Inference:
    """What was inferred of a run. `sentences` are sentences for people, the first of them fit for a title."""

    observed: tuple[Check, ...]
    desired: tuple[Check, ...]
    semantic: tuple[str, ...]
    sentences: tuple[str, ...]


def infer_checks(evidence: CaseEvidence) -> Inference:
    """Return what looks wrong in the run that `evidence` is of."""
    shown_symptoms = list(find_symptoms(evidence))
    if not any(symptom.observed for symptom in shown_symptoms):
        shown_symptoms.append(describe_unremarkable(evidence, alone=not shown_symptoms))
    return Inference(
        _list_unique(symptom.observed for symptom in shown_symptoms),
        _list_unique(symptom.desired for symptom in shown_symptoms),
        tuple(dict.fromkeys(symptom.semantic for symptom in shown_symptoms if symptom.semantic)),
        tuple(dict.fromkeys(symptom.sentence for symptom in shown_symptoms)),
    )


def find_symptoms(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Everything that looks wrong, what weighs most first."""
    first = (find_claims, find_disclosures, find_limits, find_repeated_calls, find_failed_tools)
    for look in (*first, find_broken_replies, find_error_end, find_missing_answer, find_assertion, find_grades):
        yield from look(evidence)


def find_claims(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Tools whose last call failed, and an answer that says nothing of it."""
    answer = join_texts(evidence.output)
    for call in {call.name: call for call in evidence.tool_calls}.values() if answer else ():
        if not went_wrong(call):
            continue
        tells = f"The answer tells that {call.name} failed, and claims nothing that was not done"
        if claim := find_claim(answer, call.name):
            sentence = f"The answer says {claim!r} after {call.name} failed"
            yield Symptom(
                sentence, Check("output", {"contains": claim}), Check("output", {"not_contains": claim}), tells
            )
        else:
            yield Symptom(f"{call.name} failed, and whether the answer says so is for a person to read", semantic=tells)


def find_disclosures(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of an answer that holds something of somebody else's record."""
    own = read_annotation(evidence, "user")
    disclosure = find_disclosure(join_texts(evidence.output), evidence.tool_calls, own) if own else None
    if disclosure is None:
        return
    call, field, text = disclosure
    sentence = f"The answer tells something of a record whose {field} is not {own}"
    yield Symptom(
        sentence, Check("output", {"contains": text}), Check("no_identity_but", {"path": show((field,)), "is": own})
    )
    if field not in call.arguments:
        call_check: Json = {"name": call.name, "arguments": {show((field,)): own}, "at_least": 1}
        yield Symptom(f"{call.name} was not asked for the records of {own}", desired=Check("tool_called", call_check))


def find_repeated_calls(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of the same call again and again."""
    calls: dict[str, list[ToolCallView]] = {}
    for call in evidence.tool_calls:
        calls.setdefault(f"{call.name} {canonical(_make_plain(call.arguments))}", []).append(call)
    most: dict[str, list[ToolCallView]] = {}
    for same in calls.values():
        if len(same) >= LOOP - all(map(went_wrong, same)) and len(same) > len(most.get(same[0].name, ())):
            most[same[0].name] = same
    for name, same in most.items():
        sentence = f"{name} was called {len(same)} times with the same arguments"
        seen: Json = {"name": name, "at_least": len(same)}
        fewer: Json = {"name": name, "at_most": min(len(same), LOOP) - 1}
        yield Symptom(sentence, Check("repeated_call", seen), Check("repeated_call", fewer))


def find_failed_tools(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of each tool that failed, and the arguments that its error speaks of.

    Where the answer hides the failure it is the answer that has to change: whether the tool is asked again is open.
    """
    for name, count in Counter(call.name for call in evidence.tool_calls if went_wrong(call)).items():
        call = next(call for call in evidence.tool_calls if went_wrong(call) and call.name == name)
        error = text_of(call.result)  # type: ignore[arg-type]
        sentence = f"{name} failed{f' {count} times' if count > 1 else ''}: {first_line(error)}"
        seen = Check("tool_failed", name)
        if not has_failed(call):
            part: Json = {"at": name, "side": "reply", "path": "$", "contains": first_line(error)}
            seen = Check("exchange", part)
        blamed = name_arguments(call, error) if not find_claim(join_texts(evidence.output), name) else {}
        wrong: Json = {"name": name, **blamed}
        yield Symptom(sentence, seen, Check("tool_not_called", wrong) if blamed else None)


def went_wrong(call: ToolCallView) -> bool:
    """Return whether a call failed, or gave a text that begins as errors do."""
    return has_failed(call) or (isinstance(call.result, str) and ERROR.match(call.result) is not None)


def name_arguments(call: ToolCallView, error: str = "") -> JsonObject:
    """Return the plain arguments of a call by their paths; of one that failed, those whose value its error names."""
    items = _make_plain(call.arguments).items()
    plain: JsonObject = {name: value for name, value in items if isinstance(value, str | int | float)}
    if error:
        plain = {name: value for name, value in plain.items() if len(str(value)) > 1 and str(value) in error}
        numbers: JsonObject = {name: value for name, value in plain.items() if not isinstance(value, str)}
        plain = numbers or plain  # an error names the order that it is about, too; a number is what was wrong with it
    return {"arguments": {show((name,)): value for name, value in plain.items()}} if plain else {}


def _list_unique(checks: Iterator[Check | None]) -> tuple[Check, ...]:
    return tuple({canonical([check.word, check.wanted]): check for check in checks if check is not None}.values())


def _make_plain(arguments: dict[str, object]) -> JsonObject:
    return {name: value if _is_json(value) else repr(value) for name, value in arguments.items()}  # type: ignore[misc]


def _is_json(value: object) -> bool:
    try:
        canonical(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


ASSERTED = re.compile(r"assert (?:'(?P<text>[^'\\]+)'|\"(?P<other>[^\"\\]+)\") (?P<without>not )?in ")
"""What pytest says of an assertion on a text."""
FIRST_LINE = 120
"""Characters of an error's text that a check holds."""
BAD = frozenset({"I", "F", "FAIL", "FAILED", "INCORRECT"})
"""Grades that say in words that a run was wrong; of a number nobody knows which end is good."""
ERROR_STATUS = 400
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What no text file can hold."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that looks wrong: what it is in words, the check that shows it, what should be instead."""

    sentence: str
    observed: Check | None = None
    desired: Check | None = None
    semantic: str = ""


def find_limits(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of a run that some limit has ended."""
    limit = read_annotation(evidence, "limits")
    count = sum(turn.model is not None for turn in turns(evidence.run, READER)) if evidence.run is not None else 0
    if not limit:
        return
    seen, fewer = Check("turns", {"at_least": count}), Check("turns", {"at_most": count - 1})
    yield Symptom(f"It was stopped by {limit}", *((seen, fewer) if count > 1 else ()))


def find_broken_replies(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Replies over HTTP that are errors, or whose JSON is cut."""
    for turn in turns(evidence.run, READER) if evidence.run is not None else ():
        for x in turn.exchanges:
            if not isinstance(x.outcome, HttpReply):
                continue
            data = x.outcome.body.data
            torn = data[:1] in (b"{", b"[") and isinstance(parse(data.decode(errors="replace")), NotJson)
            if x.outcome.status < ERROR_STATUS and not torn:
                continue
            what = "half a JSON body" if torn else "an error"
            sentence = f"Turn {turn.number} was answered {x.outcome.status} with {what}"
            seen = Check("error", {"class": f"HTTP {x.outcome.status}"}) if x.outcome.status >= ERROR_STATUS else None
            wants = (
                f"What turn {turn.number} got ({x.outcome.status}, {what}) is not taken for a result" if torn else ""
            )
            yield Symptom(sentence, seen, semantic=wants)


def find_error_end(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of a run that ended with an error."""
    if evidence.status != "error":
        return
    kind, text = evidence.errors[-1] if evidence.errors else ("", "")
    error: JsonObject = {key: value for key, value in (("class", kind), ("text", first_line(text))) if value}
    sentence = ": ".join(["It ended with an error", *map(str, error.values())])
    yield Symptom(sentence, Check("status", "error"), Check("status", "ok"))
    yield Symptom(sentence, Check("error", error) if error else None)


def find_missing_answer(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of a run without a final answer."""
    came = evidence.run is not None and any(x.outcome is not None for x in evidence.run.exchanges)
    if evidence.output in (None, "") and came:
        yield Symptom("There is no final answer", Check("output", {"exists": False}), Check("output", {"exists": True}))


def find_assertion(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of what the test wanted whose recording this is."""
    end = evidence.run.header.outcome if evidence.run is not None else {}
    message = first_line(str(end.get("message", "")))
    if end.get("status") != "failed" or evidence.status == "error" or not message:
        return
    captured = evidence.run is not None and "capture" in evidence.run.header.kit
    who, wants = ("run", "The answer gives no reason for") if captured else ("test", "What the test wanted holds")
    sentence, wants = f"The {who} failed: {message}", f"{wants}: {message}"
    answer = join_texts(evidence.output)
    match = ASSERTED.match(message)
    text = (match["text"] or match["other"]) if match else ""
    if match and bool(match["without"]) == (text in answer):
        kind, seen = ("not_contains", "contains") if match["without"] else ("contains", "not_contains")
        yield Symptom(sentence, Check("output", {seen: text}), Check("output", {kind: text}), wants)
    else:
        yield Symptom(sentence, semantic=wants)


def find_grades(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Yield the symptoms of what the source thought of the run."""
    for name, grade in table(case_of(evidence), "grades").items():
        if str(grade).upper() in BAD:
            yield Symptom(f"It was graded {name}: {grade}", semantic=f"The answer deserves better than {name}: {grade}")


def describe_unremarkable(evidence: CaseEvidence, *, alone: bool) -> Symptom:
    """Return what is said of a run that shows nothing wrong by itself: only a person knows why it was kept."""
    answer = first_line(join_texts(evidence.output))
    return Symptom(
        "Nothing in it looks wrong by itself",
        Check("output", {"contains": answer} if answer else {"exists": bool(text_of(evidence.output).strip())}),
        semantic="Say what is wrong with this run, and what a fixed agent shows instead" if alone else "",
    )


def read_annotation(evidence: CaseEvidence, name: str) -> str:
    """One word that the source tells of the run."""
    value = case_of(evidence).get(name)
    if not value and evidence.run is not None:
        value = table(evidence.run.header.kit, "annotations").get(name)
    return value if isinstance(value, str) else ""


def case_of(evidence: CaseEvidence) -> JsonObject:
    """Return what the frozen run tells of itself beside its exchanges."""
    return table(evidence.run.header.kit, "case") if evidence.run is not None else {}


def text_of(output: Json) -> str:
    """Return an output as text."""
    return output if isinstance(output, str) else "" if output is None else canonical(output)


def join_texts(output: Json) -> str:
    """Return what an output says, a line for each text in it: a check looks for a passage in one of them."""
    return "\n".join(texts(output)) if output is not None else ""


def first_line(text: str) -> str:
    """Return the beginning of a text, as much as a check holds and a case file can write."""
    line: str = next((line for line in text.splitlines() if line.strip()), "")
    match = UNWRITABLE.search(line[:FIRST_LINE])
    return line[: match.start() if match else FIRST_LINE]


ADMITS = re.compile(
    r"\b(?:fail\w*|unable|un?successful\w*|could not|cannot|can not|not able|did not|was not|were not|has not|have not"
    r"|errors?|problems?|sorry|unfortunately|however|declined|rejected|refused)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"[^.!?;\n]+(?:[.](?=\S)[^.!?;\n]*)*")
WORD = re.compile(r"[^\W\d_]+", re.UNICODE)
DONE = re.compile(r"\b(?:done|successfully|completed|all set|confirmed|processed)\b|\u2705", re.IGNORECASE)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
SHORTEST = 4
LONGEST = 5
"""Words of a passage."""


def find_claim(answer: str, tool: str) -> str:
    """Return the passage of `answer` that claims what `tool` does was done; "" for none."""
    if ADMITS.search(answer):
        return ""
    stems = [word.lower()[: max(SHORTEST, len(word) - 1)] for word in PARTS.findall(tool) if len(word) >= SHORTEST]
    for sentence in SENTENCE.finditer(answer):
        words = list(WORD.finditer(sentence[0]))
        for at, word in enumerate(words):
            verb = word[0].lower()
            if at and verb.endswith("ed") and verb.startswith(tuple(stems)):
                first = words[max(0, at + 1 - LONGEST)]
                return sentence[0][first.start() : word.end()]
    match = DONE.search(answer)
    return match[0] if match else ""


OWNERS = ("user_id", "userId", "customer_id", "customerId", "account_id", "accountId", "tenant_id", "tenantId", "owner")
"""Fields that say whose a record is."""


def find_disclosure(answer: str, calls: Sequence[ToolCallView], own: str) -> tuple[ToolCallView, str, str] | None:
    """The call whose result held a stranger's record, the field of its owner, and what of it stands in the answer."""
    plain_answer = make_plain(answer)
    for call in calls:
        for field in OWNERS:
            found_records = records(call.result, (field,), lists=True).records
            mine = {
                form
                for record in found_records
                if fold_identity(own) in record.whose
                for _, it in record.fields
                for form in forms(it)
            }
            theirs = (
                row for record in found_records if fold_identity(own) not in record.whose for row in record.fields
            )
            for name, value in theirs:
                text = str(value)
                tells = weight(name, value) is WordingWeight.TELLS and mine.isdisjoint(forms(value))
                if tells and text in answer and stands(make_plain(text), plain_answer):
                    return call, field, text
    return None
