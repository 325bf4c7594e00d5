"""Makes the redaction of one run, of what the environment tells, what was named, what code and policy add."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.environment.machine import list_secrets
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import PLAIN, Policy, make_shapes
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.secret_names import CATEGORY, is_stand_in, secret_environment, worth_knowing
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.redaction.policy import Redactor

OF_THE_TEST = "PYTEST_CURRENT_TEST"
"""pytest tells here which test runs: the one variable that is another in each test."""


def redaction_for(
    environ: Mapping[str, str],
    marks: Mapping[str, str] | None = None,
    *,
    headers: Iterable[str] = (),
    policy: Policy = PLAIN,
    redactors: Mapping[str, Redactor | None] | None = None,
    is_declared: Callable[[str], bool] | None = None,
) -> Redaction:
    """Return a redaction that knows what there is to know before a run begins."""
    if redactors:
        active = {category: redactor for category, redactor in redactors.items() if redactor is not None}
        without = policy.without | redactors.keys() - active.keys()
        policy = replace(policy, shapes=(*policy.shapes, *make_shapes(active)), without=without)
    made = Redaction(Places(marks or {}), allow_headers=headers, policy=policy, is_declared=is_declared)
    names = tuple(policy.secret_environment)
    secrets, variables = looked_through(tuple(pair for pair in environ.items() if pair[0] != OF_THE_TEST), names)
    if "://" in environ.get(OF_THE_TEST, ""):
        secrets = (*secrets, *secret_environment({OF_THE_TEST: environ[OF_THE_TEST]}))
    for category, value in (*secrets, *((CATEGORY, value) for value in list_secrets())):
        made.learn(category, value)
    made.run.placeholders.name(variables)
    return made


@lru_cache(maxsize=4)
def looked_through(
    environ: tuple[tuple[str, str], ...], names: tuple[str, ...]
) -> tuple[tuple[tuple[str, str], ...], Mapping[str, str]]:
    """Return the secrets of an environment, and who holds which value. Remembered: most tests have the same."""
    variables = dict(environ)
    return tuple(secret_environment(variables, names)), variables_by_value(variables)


def variables_by_value(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that holds a value, for values of one variable alone that are no stand-in for a secret."""
    holders: dict[str, list[str]] = {}
    for name, value in environ.items():
        holders.setdefault(value.strip(), []).append(name)
    return {
        value: names[0]
        for value, names in holders.items()
        if len(names) == 1 and worth_knowing(value) and not is_stand_in(as_bytes(value))
    }


def stored_id(nodeid: str, redaction: Redaction, anew: Callable[[], Redaction], nth: str) -> str:
    """The id of a test as it may be stored: a secret among its parameters is a placeholder, numbered in this id alone.

    So the id is the same whatever the secret of a machine is. `redaction` tells whether there is one, `anew` makes one
    that has numbered nothing. `nth` says which parameters of the function they are, and tells two ids apart that differ
    in secrets only. Files, classes and functions are code, and stay.
    """
    name, bracket, parameters = nodeid.partition("[")
    if redaction.hide(parameters) == parameters:
        return nodeid
    return f"{name}{bracket}{anew().hide(parameters).removesuffix(']')}#{nth}]"


def redacted_by(policy: Policy) -> JsonObject:
    """Under which policy a run is stored; nothing where the shipped rules are alone."""
    fields: JsonObject = {"pii": policy.pii, "strict": policy.strict, "policy": policy.digest}
    return {name: value for name, value in fields.items() if value}


def other_policy(kit: JsonObject, policy: Policy) -> bool:
    """Return whether what `kit` tells of was stored under another policy."""
    record = table(kit, "redactions")
    return {name: record[name] for name in ("pii", "strict", "policy") if record.get(name)} != redacted_by(policy)
