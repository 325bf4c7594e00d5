"""Sets the redaction of a run up: which policy holds, and what there is to know before anything is recorded.

All policies hold together: the words and files that were named, the project's own file where it is there, and what code
adds. Each adds, none takes away. A policy that cannot be read is an error and never left out.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import PolicyError, SnapshotError, SnapshotMissing
from pytest_agentreplay.intercept.environment.machine import list_secrets
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import PLAIN, Policy, Redactor, join_policies, make_shapes
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.secret_names import CATEGORY, is_stand_in, secret_environment, worth_knowing
from pytest_agentreplay.settings import POLICY, Settings
from pytest_agentreplay.settings.parsers import REDACT, parse_redact
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import files, format_path, projects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.model.exchanges import JsonObject


def load_policy(file: Path) -> Policy:
    """Return the policy in a file. Raises PolicyError."""
    # Most sessions have no policy, and what reads one loads a parser of YAML.
    from pytest_agentreplay.redaction.policies import parse

    return parse(read_rules(file), format_path(file))


def read_rules(file: Path) -> bytes:
    """Return what a file of rules holds. Raises PolicyError."""
    from pytest_agentreplay.snapshots.codec.strict_yaml import LARGEST

    try:
        return files.head(file, LARGEST + 1)
    except SnapshotMissing:
        words = f"there is no such file; write a policy there, or name one of {', '.join(REDACT)}"
        raise PolicyError(words, file=format_path(file)) from None
    except SnapshotError as error:
        raise PolicyError(str(error).removeprefix(f"{format_path(file)}: "), file=format_path(file)) from None


def load_policies(words: Iterable[str]) -> Policy:
    """Return the policy that words and files make. Raises PolicyError."""
    unique_words = list(dict.fromkeys(words))
    if "pii" in unique_words:
        from pytest_agentreplay.redaction.pii import require_checks

        require_checks("--redact or agentreplay_redact")
    shipped = Policy(pii="pii" in unique_words, strict="strict" in unique_words)
    return join_policies(*(load_policy(Path(word)) for word in unique_words if word not in REDACT), shipped)


def load_project_policy(root: Path) -> Policy:
    """Return the project's own policy; none where there is no such file. Raises PolicyError."""
    file = root / POLICY
    return load_policy(file) if os.path.lexists(file) else PLAIN


def find_policy(root: Path) -> Policy:
    """Return what holds for the project at `root` by its own file and its ini. Raises PolicyError."""
    lines, file = projects.ini_lines(root, "agentreplay_redact")
    words = parse_redact(lines, f"{file}: agentreplay_redact")
    return join_policies(load_policies(words), load_project_policy(root))


def add_policy(settings: Settings, root: Path) -> Settings:
    """Return the settings of a session with what they and the project say to take off. Raises PolicyError."""
    return settings._replace(policy=join_policies(load_policies(settings.redact), load_project_policy(root)))


def choose_case_policy(policy: Policy, case: Case) -> Policy:
    """Return what holds for a case: where it was imported people come off too, whoever names them today."""
    return policy if case.source.format == "snapshot" else join_policies(policy, Policy(pii=True))


def redacted_by(policy: Policy) -> JsonObject:
    """Return under which policy a run is stored; nothing where the shipped rules are alone."""
    fields: JsonObject = {"pii": policy.pii, "strict": policy.strict, "policy": policy.digest}
    return {name: value for name, value in fields.items() if value}


def other_policy(kit: JsonObject, policy: Policy) -> bool:
    """Return whether what `kit` tells of was stored under another policy."""
    record = table(kit, "redactions")
    return {name: record[name] for name in ("pii", "strict", "policy") if record.get(name)} != redacted_by(policy)


# pytest tells here which test runs: the one variable that is another in each test.
OF_THE_TEST = "PYTEST_CURRENT_TEST"


def redaction_for(
    environ: Mapping[str, str],
    marks: Mapping[str, str] | None = None,
    *,
    headers: Iterable[str] = (),
    policy: Policy = PLAIN,
    redactors: Mapping[str, Redactor | None] | None = None,
    is_declared: Callable[[str], bool] | None = None,
) -> Redaction:
    """Return a redaction that knows what there is to know before a run begins.

    Args:
        environ: The variables of the environment: the values of secret ones are known, those of others have names.
        marks: The places of this machine and what stands for each.
        headers: Names of request headers that are stored beyond the shipped list.
        policy: What is taken off beyond the shipped rules.
        redactors: Functions of the project by category; None for a category whose shipped rule is turned off.
        is_declared: Whether a rule tells why a request header of this name is not compared.
    """
    if redactors:
        active = {category: redactor for category, redactor in redactors.items() if redactor is not None}
        without = policy.without | redactors.keys() - active.keys()
        policy = replace(policy, shapes=(*policy.shapes, *make_shapes(active)), without=without)
    redaction = Redaction(Places(marks or {}), allow_headers=headers, policy=policy, is_declared=is_declared)
    test = environ.get(OF_THE_TEST, "")
    secrets, variables = read_environment(
        tuple(pair for pair in environ.items() if pair[0] != OF_THE_TEST), tuple(policy.secret_environment)
    )
    if "://" in test:
        secrets = (*secrets, *secret_environment({OF_THE_TEST: test}))
    for category, value in (*secrets, *((CATEGORY, value) for value in list_secrets())):
        redaction.learn(category, value)
    redaction.run.placeholders.name(variables)
    return redaction


# Most tests of a session have the same environment, of some hundred variables.
@lru_cache(maxsize=4)
def read_environment(
    environ: tuple[tuple[str, str], ...], names: tuple[str, ...]
) -> tuple[tuple[tuple[str, str], ...], Mapping[str, str]]:
    """Return the secrets of an environment, as (category, value), and the variable that holds a value.

    The latter for values of one variable alone that are no stand-in for a secret.
    """
    variables = dict(environ)
    holders = Counter(value.strip() for value in variables.values())
    variable_of = {
        value.strip(): name
        for name, value in variables.items()
        if holders[value.strip()] == 1 and worth_knowing(value.strip()) and not is_stand_in(as_bytes(value.strip()))
    }
    return tuple(secret_environment(variables, names)), variable_of


def stored_id(nodeid: str, redaction: Redaction, anew: Callable[[], Redaction], nth: str) -> str:
    """Return the id of a test as it may be stored.

    A secret among its parameters is a placeholder, numbered in this id alone: the id is the same whatever the secret of
    a machine is. `redaction` tells whether there is one, `anew` makes one that has numbered nothing. `nth` says which
    parameters of the function they are, and tells two ids apart that differ in secrets only. Files, classes and
    functions are code, and stay.
    """
    name, bracket, parameters = nodeid.partition("[")
    if redaction.hide(parameters) == parameters:
        return nodeid
    return f"{name}{bracket}{anew().hide(parameters).removesuffix(']')}#{nth}]"
