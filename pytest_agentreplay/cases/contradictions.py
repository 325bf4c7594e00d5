"""Checks that say nothing because every run satisfies them, or because none can."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.checks.calls import Asked, asked, bounds
from pytest_agentreplay.cases.checks.values import same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.cases.case import Case, Check

AMOUNTS = frozenset({"turns", "tokens", "cost", "duration"})
CALLED = frozenset({"tool_called", "tool_failed"})


def vacuous(case: Case) -> Iterator[tuple[str, Check, str]]:
    """Checks that hold for every run that there is."""
    for check in (*case.observed, *case.desired):
        wanted = check.wanted if isinstance(check.wanted, dict) else {}
        if check.word in AMOUNTS and "at_most" not in wanted and not wanted.get("at_least"):
            yield "vacuous", check, f"every run has {check.word} of at least 0"
        elif check.word == "tool_called" and bounds(wanted) == (0, None):
            yield "vacuous", check, "every tool is called at least 0 times"
        elif check.word == "repeated_call" and "at_most" not in wanted and wanted.get("at_least") == 0:
            yield "vacuous", check, "every run with a call has one that was made once"
        elif check.word == "tool_order" and not next(iter(wanted.values()), None) and "subsequence" in wanted:
            yield "vacuous", check, "no call at all comes in this order in every run"


def contradictions(case: Case) -> Iterator[tuple[str, Check, str]]:
    """Pairs of checks that no run satisfies; checks that both halves have, word for word."""
    for half in ("observed", "desired"):
        for a, b in combinations(case.checks(half), 2):
            if why := opposed(a, b) or opposed(b, a):
                yield "contradictory", b, f"no run can show this and {a.word} at {a.place}: {why}"
    for b in case.desired:
        for a in case.observed:
            if a.word == b.word and same(a.wanted, b.wanted):
                yield "contradictory", b, f"the failure at {a.place} and its fix are the same check"


def opposed(a: Check, b: Check) -> str:
    """Why no run satisfies both; "" where one may."""
    if a.word == b.word:
        return _of_one_word(a.word, a.wanted, b.wanted)
    if a.word in CALLED and b.word in {"tool_not_called", "forbidden_tools"}:
        return _called_and_not(a, b)
    if a.word == "tool_order" and b.word in {"tool_not_called", "forbidden_tools"}:
        for item in (item for items in a.wanted.values() for item in items):  # type: ignore[union-attr]
            if asked(item).name in _refused(b):
                return f"{asked(item).name} is called and is not"
    return ""


def _called_and_not(a: Check, b: Check) -> str:
    want = asked(a.wanted)
    if a.word == "tool_called" and bounds(a.wanted if isinstance(a.wanted, dict) else {})[0] == 0:
        return ""
    narrower = b.word == "forbidden_tools" or asked(b.wanted).arguments is None
    alike = not narrower and _text(asked(b.wanted)) == _text(want) and a.word == "tool_called"
    return f"{want.name} is called and is not" if want.name in _refused(b) and (narrower or alike) else ""


def _refused(check: Check) -> list[Any]:
    return check.wanted if check.word == "forbidden_tools" else [asked(check.wanted).name]  # type: ignore[return-value]


def _of_one_word(word: str, a: Any, b: Any) -> str:
    if word == "status" and a != b:
        return "a run ends once"
    if word in AMOUNTS:
        return _apart(a.get("at_least", 0), a.get("at_most"), b.get("at_least", 0), b.get("at_most"))
    if word == "tool_called" and _text(asked(a)) == _text(asked(b)):
        return _apart(*bounds(a if isinstance(a, dict) else {}), *bounds(b if isinstance(b, dict) else {}))
    if word == "output" and a.get("path") == b.get("path"):
        return _of_outputs(a, b) or _of_outputs(b, a)
    if word == "tool_order" and "equal" in a and "equal" in b and not same(a["equal"], b["equal"]):
        return "the calls come in one order"
    return ""


def _of_outputs(a: Any, b: Any) -> str:
    if "path" not in a and "equals" in a and "equals" in b and not same(a["equals"], b["equals"]):
        return "it is one of the two"
    says = a.get("contains") or (a.get("equals") if isinstance(a.get("equals"), str) else None)
    if says and b.get("not_contains") and b["not_contains"] in says:
        return f"{b['not_contains']!r:.60} is in it and is not"
    if a.get("exists") is False and any(name in b for name in ("equals", "contains", "matches")):
        return "there is none, and it is something"
    if a.get("exists") is False and b.get("exists") is True:
        return "there is none, and there is one"
    return ""


def _apart(low: float, high: float | None, other_low: float, other_high: float | None) -> str:
    if high is not None and other_low > high:
        return f"at most {high:g} and at least {other_low:g}"
    if other_high is not None and low > other_high:
        return f"at most {other_high:g} and at least {low:g}"
    return ""


def _text(want: Asked) -> str:
    return json.dumps([want.name, want.arguments], sort_keys=True, default=repr)
