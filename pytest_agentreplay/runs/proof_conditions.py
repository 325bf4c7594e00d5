"""Why a recording does not replay in its proof: it is replayed again with one condition of the proof taken back.

The proof replays as CI will some day: on another day, with the tests in another order, without credentials in files.
Where a test replays once a condition is taken back, that condition is the cause. Only where tests have failed does this
take further fresh processes.
The order comes first: all tests are replayed for it, so what they leave behind is not mistaken for something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.report.notices import TIMED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.runs.command import ProofResults, Row

    Replay = Callable[[Sequence[Row], Row], ProofResults]


def explain_failures(tests: Sequence[Row], results: ProofResults, replay: Replay) -> None:
    """Name in `results` the condition by which a test of `tests` does not replay; what no condition explains stays."""
    failing = [row for row in tests if not is_replayed(row, results)]
    for condition, explain in CONDITIONS.items():
        in_order = condition == "order"
        if failing and (not in_order or len(tests) > 1):
            # A test may need any of those that came before it.
            again = replay(tests if in_order else failing, {"without": condition})
            solved = [row for row in failing if is_replayed(row, again)]
            failing = [row for row in failing if row not in solved]
            own = [row for row in solved if is_declared(row, results, in_order=in_order)]
            results.by_test |= {row["test"]: again.by_test[row["test"]] for row in own}
            reasons = explain([row for row in solved if row not in own], results, replay)
            for test, why in reasons.items():
                proof = {"replays": False, "why": why}
                results.by_test[test] = results.by_test.get(test, {"parted": ""}) | {"proof": proof}


def is_replayed(row: Row, results: ProofResults) -> bool:
    """Return whether a test was replayed; a race is left as it is, since another try says nothing."""
    proof = results.by_test.get(row["test"], {}).get("proof", {"skipped": "missing"})
    return (proof.get("replays", True) and "skipped" not in proof) or TIMED in proof.get("why", "")


def is_declared(row: Row, results: ProofResults, *, in_order: bool) -> bool:
    """Return whether a failure has nothing to do with the recording.

    The test was skipped, or declares that it needs those before it, or fails by itself in another order; certificates
    are checked by the machine's own clock.
    """
    first = results.by_test.get(row["test"], {})
    if in_order:
        return bool(first.get("ordered") or not first.get("parted"))
    return "skipped" in first.get("proof", {}) or "certificate" in get_reason(row, results).lower()


def get_reason(row: Row, results: ProofResults) -> str:
    """Return why a test does not replay, in the words of its replay."""
    proof = results.by_test.get(row["test"], {}).get("proof", {})
    return str(proof.get("why") or results.missing.get(row["test"], ""))


def explain_date(tests: Sequence[Row], results: ProofResults, replay: Replay) -> dict[str, str]:
    """Return by test which line read the date: it fails as well where the clock is shifted for this line alone."""
    lines = list(results.reads)
    guilty = {row["test"]: {*lines} for row in tests}
    # Each two lines are parted by a bit of their numbers, so that few processes are enough for many lines.
    for bit in range((len(lines) - 1).bit_length() if lines else 0):
        left = tests
        for half in (0, 1):
            chosen = [line for number, line in enumerate(lines) if number >> bit & 1 == half]
            shifted = replay(left, {"lines": chosen}) if left else results
            for row in left:
                guilty[row["test"]] -= {*chosen} if is_replayed(row, shifted) else set()
            left = [row for row in left if not is_replayed(row, shifted)]
    return {row["test"]: describe_date(row, results, sorted(guilty[row["test"]] or lines)) for row in tests}


def describe_date(row: Row, results: ProofResults, lines: Sequence[str]) -> str:
    """Return why a test does not replay on another day, when one of these `lines` has read the date."""
    if len(lines) != 1:
        where = f" (the date is read in {', '.join(lines[:4])})" if lines else ""
        return f"on another day: {get_reason(row, results)}{where}"
    if row["test"] in results.missing:
        return f"the id of the test holds the date of {lines[0]}: read the date in the test"
    return results.reads[lines[0]]


def explain_order(tests: Sequence[Row], results: ProofResults, _replay: Replay) -> dict[str, str]:
    """Return by test what it does without the tests before it."""
    advice = "clear what outlives a test (a cache, a list of a module) in the test or a fixture"
    return {row["test"]: f"alone, or in another order: {get_reason(row, results)}; {advice}" for row in tests}


def explain_credentials(tests: Sequence[Row], results: ProofResults, _replay: Replay) -> dict[str, str]:
    """Return by test what it does without the files of SDKs; the reason may name the credentials already."""
    reasons = {row["test"]: get_reason(row, results) for row in tests}
    advice = "it needs a file of an SDK (credentials, a profile, a region) that CI does not have"
    return {test: why if "credentials came from" in why else f"{advice}: {why}" for test, why in reasons.items()}


# What the proof does otherwise than the session that recorded, in the order in which it is taken back, with what names
# the cause for tests that replay then. `proofs` reads the name ("without").
CONDITIONS = {"order": explain_order, "clock": explain_date, "credentials": explain_credentials}
