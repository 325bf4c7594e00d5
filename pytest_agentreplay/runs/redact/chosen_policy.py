"""Which policy holds: the words and files that were named, and the project's own file where it is there.

All of them together: each adds, none takes away. A policy that cannot be read is an error and never left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import PolicyError, SnapshotError, SnapshotMissing
from pytest_agentreplay.redaction.policies import parse
from pytest_agentreplay.redaction.policy import PLAIN, Policy, join_policies
from pytest_agentreplay.settings import POLICY
from pytest_agentreplay.settings.parsers import REDACT, redact_of
from pytest_agentreplay.snapshots.codec.strict_yaml import LARGEST
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import ini_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.settings import Settings


def load(file: Path) -> Policy:
    """Return the policy in a file. Raises PolicyError."""
    return parse(read_rules(file), format_path(file))


def read_rules(file: Path) -> bytes:
    """Return what a file of rules holds. Raises PolicyError."""
    try:
        return files.head(file, LARGEST + 1)
    except SnapshotMissing:
        words = f"there is no such file; write a policy there, or name one of {', '.join(REDACT)}"
        raise PolicyError(words, file=format_path(file)) from None
    except SnapshotError as error:
        raise PolicyError(str(error).removeprefix(f"{format_path(file)}: "), file=format_path(file)) from None


def of_words(words: Iterable[str]) -> Policy:
    """Return the policy that words and files make. Raises PolicyError."""
    unique_words = list(dict.fromkeys(words))
    plain = Policy(pii="pii" in unique_words, strict="strict" in unique_words)
    return join_policies(*(load(Path(word)) for word in unique_words if word not in REDACT), plain)


def of_project(root: Path) -> Policy:
    """Return the project's own policy; none where there is no such file. Raises PolicyError."""
    file = root / POLICY
    return load(file) if os.path.lexists(file) else PLAIN


def in_force(root: Path) -> Policy:
    """What holds for the project at `root` by its own file and its ini, outside of pytest. Raises PolicyError."""
    return join_policies(of_words(redact_of((), *ini_lines(root, "agentreplay_redact"))), of_project(root))


def with_policy(settings: Settings, root: Path) -> Settings:
    """Return the settings of a session with what they and the project say to take off. Raises PolicyError."""
    return settings._replace(policy=join_policies(of_words(settings.redact), of_project(root)))


def for_case(policy: Policy, case: Case) -> Policy:
    """Return what holds for a case: where it was imported people come off too, whoever names them today."""
    return policy if case.source.format == "snapshot" else join_policies(policy, Policy(pii=True))
