"""The tolerances of a project: its file `agentreplay-tolerances.yaml`, its ini file, and the judges that they name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.compare.tolerance import Level, Tolerance, TolerancePolicy, parse
from pytest_agentreplay.errors import PolicyError, SettingsError
from pytest_agentreplay.runs.cases.runners import import_function
from pytest_agentreplay.runs.redact.redaction_setup import read_rules
from pytest_agentreplay.settings import TOLERANCES, Settings
from pytest_agentreplay.settings.parsers import parse_tolerances
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.store import format_path
from pytest_agentreplay.snapshots.store.projects import ini_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def with_tolerances(settings: Settings, root: Path) -> Settings:
    """Return the settings with the tolerances of the project's file. Raises PolicyError."""
    return settings._replace(tolerances=(*settings.tolerances, *read_tolerances(root)))


def project_tolerances(root: Path) -> tuple[Tolerance, ...]:
    """Return what the ini file and the file of the project say, outside of pytest. Raises SettingsError."""
    lines, name = ini_lines(root, "agentreplay_tolerances")
    return (*parse_tolerances(lines, f"{name}: agentreplay_tolerances"), *read_tolerances(root))


def read_tolerances(root: Path) -> Iterator[Tolerance]:
    """Yield the tolerances of the project's file; none where there is no such file. Raises PolicyError."""
    file = root / TOLERANCES
    if not os.path.lexists(file):
        return
    document = strict_yaml.load(read_rules(file), file=format_path(file), error=PolicyError)
    if not isinstance(document.value, dict):
        raise PolicyError(
            'a file of tolerances has a line for each place: "$.final": text(0.5)', file=format_path(file)
        )
    for place, how in document.value.items():
        at = document.places[place,]
        try:
            yield parse(place, str(how), level=Level.FILE, source=f"{format_path(file)}:{at}")
        except SettingsError as error:
            raise PolicyError(str(error), file=format_path(file), place=at) from None


def judges_of(settings: Settings, policy: TolerancePolicy) -> dict[str, Callable[..., Any]]:
    """Return the functions that tolerances ask, by key, before anything is run.

    Raises SettingsError for one that nobody declares, RunnerError for one that is not there.
    """
    declared = dict(settings.judges)
    asking = {rule.hook: rule for rule in policy.rules if rule.hook}
    for key, rule in asking.items():
        if key not in declared:
            line = f"{rule.written}: no judge {key} is declared: agentreplay_judges = {key} = shop.checks:judge"
            raise SettingsError(settings.format_message(line))
    return {key: import_function(key, declared[key], "judge") for key in asking}
