"""Which tests `agentreplay accept --requests` is about: it starts pytest with a file that lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from pytest_agentreplay.settings import Settings


class AdoptionPlan(NamedTuple):
    """The ids that the snapshots state, the codes of the changes that are taken, and whether nothing is written."""

    tests: frozenset[str]
    codes: tuple[str, ...]
    dry: bool


PLAN: pytest.StashKey[AdoptionPlan | None] = pytest.StashKey()


def plan_of(config: pytest.Config) -> AdoptionPlan | None:
    """Return the plan of the session, read once in each process; None where nobody made one."""
    if PLAN not in config.stash:
        file = config.option.agentreplay_adopt_plan
        data = json.loads(Path(file).read_bytes()) if file is not None else None
        config.stash[PLAN] = (
            None if data is None else AdoptionPlan(frozenset(data["tests"]), tuple(data["codes"]), data["dry_run"])
        )
    return config.stash[PLAN]


def planned(settings: Settings, test: str, config: pytest.Config) -> Settings:
    """Return the settings of a test or fixture: only what the plan names is adopted, the others are replayed."""
    if not settings.adopt or (plan := plan_of(config)) is None:
        return settings
    if test not in plan.tests:
        return settings._replace(adopt="")
    return settings._replace(adopt_codes=plan.codes, adopt_dry=plan.dry)
