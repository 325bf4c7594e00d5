"""A test as several pytest items, so that xdist and shards share them: in other orders of answers, or live."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from _pytest import python

from pytest_agentreplay.plugin.stash import TEST

if TYPE_CHECKING:
    import pytest


def repeat_item(item: pytest.Function, test: str, word: str) -> pytest.Function:
    """Return the item of `test` again, named by `word` like a parameter: test_refund[live-3]."""
    spec = getattr(item, "callspec", None) or (getattr(python, "CallSpec", None) or vars(python)["CallSpec2"])()
    spec = dataclasses.replace(spec, _idlist=(*spec._idlist, word))
    other: pytest.Function = type(item).from_parent(
        item.parent,
        name=f"{item.originalname}[{spec.id}]",
        callspec=spec,
        fixtureinfo=item._fixtureinfo,
        keywords={spec.id: True, word: True},
        originalname=item.originalname,
    )
    other.own_markers = [*item.own_markers]
    other.stash[TEST] = test
    return other
