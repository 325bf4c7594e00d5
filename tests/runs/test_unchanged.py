"""When a new recording says what its snapshot says, so that the old file is kept to the byte."""

from __future__ import annotations

import json
from dataclasses import replace

from pytest_agentreplay.runs.accept import is_unchanged
from pytest_agentreplay.snapshots import codec
from tests.snapshots.test_volatile import recording


def at_the_places_of(new, old):
    """The run `new` with the order of `old`."""
    names = ("start", "finish", "suspended")
    pairs = zip(new.exchanges, old.exchanges, strict=True)
    exchanges = (replace(x, **{name: getattr(y, name) for name in names}) for x, y in pairs)
    return replace(new, exchanges=tuple(exchanges))


def test_other_ids_and_times_change_nothing_and_another_word_or_order_does():
    old = recording(1, "main")
    text = codec.dumps(old)
    previous = codec.loads(text, file="f")
    same = at_the_places_of(recording(2, "main"), old)
    assert is_unchanged(previous, text.encode(), same)
    assert is_unchanged(previous, text.replace("\n", "\r\n").encode(), same), "as a checkout on Windows has it"
    assert is_unchanged(previous, json.dumps(json.loads(text), indent=4).encode(), same), "as a formatter leaves it"

    first, *others = same.exchanges
    overlapping = replace(same, exchanges=(replace(first, finish=others[0].start + 1), *others))
    assert not is_unchanged(previous, text.encode(), overlapping)
    assert not is_unchanged(previous, text.encode(), replace(same, header=replace(same.header, seed=8)))
    waited = replace(same.header, kit={**same.header.kit, "after": {"4": [2]}})
    assert not is_unchanged(previous, text.encode(), replace(same, header=waited))
    another = replace(others[0], call=replace(others[0].call, name="look_up"))
    assert not is_unchanged(previous, text.encode(), replace(same, exchanges=(first, another, *others[1:])))
