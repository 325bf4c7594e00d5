"""The seal, byte class by byte class: what is a change and what is not, what is named, and what revisions tell."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from pytest_agentreplay.errors import SnapshotEdited, SnapshotError, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import parsing, seal_digest
from pytest_agentreplay.snapshots.codec import seal as sealing
from tests.support.stored_runs import post, reply, run_of

SAFETY = Path(__file__).parents[1] / "safety" / "safety_integrity.py"
NAME, NEW = "tests/test_a.py::test_b", "tests/test_a.py::test_new"
NUMBERS = {"float": 1.0, "whole": 1, "minus": -0.0, "zero": 0, "small": 1e-7, "big": 10**25, "tiny": 0.1}
IMAGES = ["QUJD" * 1100, "QUJE" * 1100]


def run() -> Run:
    ask = json.dumps({"messages": [{"role": "user", "content": "Where is my order? " * 9}], "n": 1}).encode()
    return run_of(
        (post(ask, "http://a/v1"), reply(b'{"a":"1"}')),
        (ToolCall("lookup", {"id": "A-1"}), ToolReply(NUMBERS)),
        (ToolCall("lookup", {"id": "A-2"}), ToolReply("grün 😀 \x1b[1m")),
        (post(json.dumps({"images": IMAGES}).encode(), "http://a/v2"), reply()),
        test=NAME,
        recorded="2026-11-20T10:00:00Z",
        clock=1763632800 * 10**9,
        seed=42,
        outcome={"status": "passed"},
    )


TEXT = codec.dumps(run())
DOC = json.loads(TEXT)
DIGEST = DOC["integrity"]["digest"]


def sealed(text: str) -> bool:
    snapshot = codec.loads(text, file="f")
    assert snapshot.sealed is not bool(codec.list_edits(text, file="f"))
    return snapshot.sealed


def swapped(old: str, new: str) -> str:
    assert TEXT.count(old) == 1, old
    return TEXT.replace(old, new)


def tree(**new: object) -> str:
    """The file with other top-level values, reformatted."""
    return json.dumps({**DOC, **new})


def listed(*order: int) -> dict[str, list]:
    return {key: [DOC[key][n] for n in order] for key in ("exchanges", "volatile")}


def copied(*which: int, copy: int, order: list[int]) -> dict[str, list]:
    """The exchanges of these numbers, that at `copy` with a place of its own in the order of calls."""
    values = listed(*which)
    values["volatile"][copy] = values["volatile"][copy] | {"order": order}
    return values


# What is no change.


SPELLED = {
    '"float": 1.0': ['"float": 1.00', '"float": 10e-1'],
    "1e-07": ["0.0000001"],
    '"zero": 0': ['"zero": -0'],
    '"tiny": 0.1': ['"tiny": 0.1000000000000000055'],
    "grün": ["gr\\u00FCn"],
    "😀": ["\\ud83d\\ude00"],
    "http://a/v2": ["http:\\/\\/a\\/v2"],
}
SAME = [
    *(TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip("\n"), TEXT + "\n \n", TEXT.replace("\n ", "\n\t")),
    *(json.dumps(DOC), json.dumps(DOC, ensure_ascii=False), json.dumps(DOC, indent=4)),
    *(swapped(old, new) for old, spellings in SPELLED.items() for new in spellings),
]


def test_another_spelling_of_the_same_content_is_sealed():
    for same in SAME:
        assert sealed(same)
        assert codec.loads(same, file="f").digest == DIGEST
        assert codec.identity(same.encode(), file="f") == (seal_digest.digest_seal(SEAL), 4)


# What is a change, and what is named.

HEADER, REVISED = DOC["header"], [{"from": "a", "to": "b", "reason": "because"}]
KEYS_OF_THE_HEADER = dict(reversed(HEADER.items()))
KEYS_OF_THE_FILE = {key: DOC[key] for key in ("header", "schemaVersion", *list(DOC)[2:])}
SEAL = DOC["integrity"]
(BLOB, OTHER) = DOC["blobs"]


def in_the_seal(**new: object) -> str:
    """The file with other values in its seal; None takes a key away."""
    return tree(integrity={key: value for key, value in {**SEAL, **new}.items() if value is not None})


OTHER_VALUES = {
    '"whole": 1': ['"whole": 2', '"whole": 1.0', '"whole": true', '"whole": "1"'],
    '"float": 1.0': ['"float": 1'],
    '"minus": -0.0': ['"minus": 0.0'],
    '"big": 1': ['"big": 2'],
}
CHANGED = {
    **{new: (swapped(old, new), ["exchange 2"]) for old, values in OTHER_VALUES.items() for new in values},
    "another Unicode form of the same letter": (swapped("grün", "gru\u0308n"), ["exchange 3"]),
    "a space in a text": (swapped("grün", "grün "), ["exchange 3"]),
    "an argument": (swapped('lookup", "arguments": {"id": "A-2', 'lookup", "arguments": {"id": "A-3'), ["exchange 3"]),
    "the order of keys": (tree(header=KEYS_OF_THE_HEADER), ["header"]),
    "the test": (tree(header={**HEADER, "test": "tests/test_a.py::test_c"}), ["header"]),
    "the kit": (tree(header={**HEADER, "kit": {"policy": "sha256:0"}}), ["header"]),
    "two swapped": (tree(**listed(0, 2, 1, 3)), ["the order of exchanges 2, 3"]),
    "one gone": (tree(**listed(0, 1, 3)), ["1 gone after exchange 2"]),
    "one twice": (tree(**listed(0, 1, 1, 2, 3)), None),
    "one more": (tree(**copied(0, 1, 2, 3, 1, copy=4, order=[9, 10])), ["exchange 5 (added)"]),
    "all gone": (tree(**listed()), ["4 gone after exchange 0"]),
    "one in the place of another": (tree(**copied(0, 1, 1, 3, copy=2, order=[5, 6])), ["exchange 3"]),
    "a line of what is set apart": (swapped('"order":[1,2]', '"order":[1,9]'), ["exchange 1"]),
    "the day": (tree(recording={**DOC["recording"], "recorded": "2026-11-21"}), ["recording"]),
    "the order of top-level keys": (json.dumps(KEYS_OF_THE_FILE), ["its version, or the order of its keys"]),
    "the seal in another place": (json.dumps({"integrity": SEAL, **DOC}), ["its version, or the order of its keys"]),
    "a key of one's own": (tree(**{"x-mine": 1}), ["x-mine (added)"]),
    "a key that would be acted on": (tree(**{"x-\x1b[2J\n": 1}), ["'x-\\x1b[2J\\n' (added)"]),
    "one more blob": (tree(blobs={**DOC["blobs"], "x": ["QUJD"]}), ["blobs"]),
    "a blob": (tree(blobs={**DOC["blobs"], BLOB: ["QUJD"]}), None),
    "their order": (tree(blobs={OTHER: DOC["blobs"][OTHER], BLOB: DOC["blobs"][BLOB]}), ["blobs"]),
    "a revision made up": (in_the_seal(revisions=REVISED), ["the revisions"]),
    "the digest of the seal gone": (in_the_seal(self=None), ["the revisions"]),
    "the digest": (in_the_seal(digest="0" * 64), ["the seal itself"]),
    "the digest gone": (in_the_seal(digest=None), ["the seal itself"]),
    "the digest of a part": (in_the_seal(parts={**SEAL["parts"], "header": "0" * 8}), ["header"]),
    "no parts": (in_the_seal(parts={}), ["header (added)", "blobs (added)", "recording (added)"]),
    "parts that are none": (in_the_seal(parts=5), ["the seal itself"]),
    "the digest of an exchange": (in_the_seal(exchanges=["0" * 8, *SEAL["exchanges"][1:]]), ["exchange 1"]),
    "digests that are none": (in_the_seal(exchanges="x"), ["the seal itself"]),
    "the order inside the seal": (tree(integrity=dict(reversed(SEAL.items()))), ["the revisions"]),
    "an empty seal": (tree(integrity={}), None),
    "no seal": (tree(integrity=None), ["the seal is gone"]),
    "gone": (json.dumps({k: v for k, v in DOC.items() if k != "integrity"}), ["the seal is gone"]),
    "another form": (in_the_seal(form="agentreplay-c1"), None),
    "another format": (tree(schemaVersion="0.9"), None),
    "a newer minor": (tree(schemaVersion="1.1"), ["its version, or the order of its keys"]),
}  # fmt: skip


def test_a_change_of_each_class_has_its_verdict():
    for what, (edited, named) in CHANGED.items():
        if named is None:
            with pytest.raises(SnapshotUnreadable):
                codec.loads(edited, file="f")
        else:
            assert not sealed(edited), what
            assert codec.list_edits(edited, file="f") == named, what
            assert codec.identity(edited.encode(), file="f")[0] == ""


def test_a_blob_that_is_gone_leaves_its_exchange_unreadable_and_a_second_seal_counts():
    for blobs in ({BLOB: DOC["blobs"][BLOB]}, {}):
        with pytest.raises(SnapshotUnreadable, match="exchange 4"):
            codec.loads(tree(blobs=blobs), file="f")
    lie = json.dumps(listed(0))
    for below in (f',\n "exchanges": {lie}\n}}\n', f',\n "integrity": {json.dumps(SEAL)},\n "exchanges": {lie}}}'):
        with pytest.raises(SnapshotUnreadable, match="twice"):
            codec.loads(TEXT.removesuffix("\n}\n") + below, file="f")


TWICE = ['"whole": 1', '"seed": 42', '"form":"agentreplay-c3"']
NEVER = [(key, f"{key}, {key}") for key in TWICE] + [
    ("grün", "gr\\ud800n"),
    ('"reason":"seen"', '"reason":"seen\\udc00"'),
]
NEVER += [
    ('"float": 1.0', '"float": 1e999'),
    ('"big": 1', '"big": NaN, "big": 1'),
]


def test_what_json_should_not_hold_is_refused_under_any_seal():
    whole = codec.reseal(TEXT.replace('"tiny": 0.1', '"tiny": 0.2'), "seen", file="f")
    for old, new in NEVER:
        assert whole.count(old) == 1
        text = whole.replace(old, new)
        above, mark, seal = text.rpartition(',\n "integrity": ')
        digest = seal_digest._digest(above.encode())
        for forged in (text, above + mark + seal.replace(json.loads(TEXT)["integrity"]["digest"], digest)):
            with pytest.raises(SnapshotUnreadable) as caught:
                codec.loads(forged, file="f")
            assert caught.value.place


def test_a_rearrangement_of_a_very_long_list_is_told_in_a_line():
    before, now = ["a"] * 40_000, ["b", *["a"] * 20_000, "c", *["a"] * 19_998]
    assert list(sealing._list_moves(before, now, range(1, 40_001))) == ["exchanges from 1 on"]
    assert list(sealing._list_moves(before, before[1:], range(1, 40_001))) == ["1 gone after exchange 39999"]
    assert list(sealing._list_moves(["a", "b"], ["a", "x", "b"], [1, 2, 3])) == ["exchange 2 (added)"]


def figures():
    if "figures" not in sys.modules:
        spec = importlib.util.spec_from_file_location("safety_integrity", SAFETY)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def test_no_random_mutation_is_missed():
    safety = figures()
    subject = safety.subject()
    assert codec.loads(subject, file="f").sealed
    missed = [text for text in safety.mutations(subject, 120, seed=20261122) if not safety.detected(text)]
    assert not missed


def test_what_was_written_is_what_its_content_is_laid_out_as():
    """Else a file that was reformatted, and back, would not be the file it was."""
    for text in (TEXT, figures().subject()):
        doc = json.loads(text)
        assert seal_digest.members(doc) + "\n}\n" == text
        assert seal_digest.digest_content(doc) == doc["integrity"]["digest"]


def test_a_sealed_file_is_not_looked_at_token_by_token(monkeypatch):
    def slow(*_):
        raise AssertionError("the strict pass was made")

    monkeypatch.setattr(parsing, "strict", slow)
    assert codec.loads(TEXT, file="f").sealed
    assert codec.loads(TEXT.replace("\n", "\r\n"), file="f").sealed
    with pytest.raises(AssertionError):
        codec.loads(json.dumps(DOC), file="f")


# Revisions.


def test_revisions_are_a_chain_that_leads_to_what_is_sealed():
    text = TEXT
    for number, (old, new) in enumerate([("grün", "schwarz"), ("schwarz", "violett"), ("violett", "grün")]):
        text = codec.reseal(text.replace(old, new), f"change {number}", file="f", at=f"2026-11-2{number}")
    snapshot = codec.loads(text, file="f")
    first, second, third = snapshot.revisions
    assert snapshot.sealed
    assert not snapshot.broken
    assert (first["from"], first["to"], second["to"], third["to"]) == (DIGEST, second["from"], third["from"], DIGEST)
    assert second == {"from": first["to"], "to": third["from"], "reason": "change 1", "at": "2026-11-21"}


def test_a_broken_chain_is_told_with_its_revision():
    text = codec.reseal(TEXT.replace("grün", "blau"), "one", file="f")
    doc = json.loads(codec.reseal(text.replace("blau", "rot"), "two", file="f"))
    revisions = doc.pop("integrity")["revisions"]
    for number, key, said in (
        (0, "to", "revision 1 does not lead"),
        (1, "from", "revision 1"),
        (1, "to", "revision 2"),
    ):
        told = [{**one, key: "0" * 64} if n == number else one for n, one in enumerate(revisions)]
        forged = codec.loads(seal_digest.write_sealed(doc, told), file="f")
        assert forged.sealed, "whoever can write the file can seal it"
        assert forged.broken.startswith(said)


def test_an_edited_revision_is_an_unsealed_edit_and_a_renamed_test_adds_one():
    text = codec.reseal(TEXT.replace("grün", "blau"), "reviewed by Zoë", file="f")
    edited = text.replace("reviewed by Zoë", "reviewed by Zoe")
    assert codec.list_edits(edited, file="f") == ["the revisions"]
    again = codec.loads(codec.reseal(edited, "her name", file="f"), file="f")
    moved = codec.loads(codec.restate(text, NEW, file="f"), file="f")
    assert [revision["reason"] for revision in again.revisions] == ["reviewed by Zoe", "her name"]
    assert [revision["reason"] for revision in moved.revisions] == ["reviewed by Zoë", f"renamed from {NAME}"]
    assert [(one.sealed, one.broken) for one in (again, moved)] == [(True, "")] * 2
    assert codec.loads(codec.restate(TEXT, NEW, file="f"), file="f").revisions == ()
    with pytest.raises(SnapshotEdited):
        codec.restate(text.replace("blau", "rot"), NEW, file="f")


def test_what_cannot_be_read_is_not_resealed():
    for text in ("", "{", TEXT[:-200], swapped('"schemaVersion": "1.0"', '"schemaVersion": "2.0"')):
        with pytest.raises(SnapshotError):
            codec.reseal(text, "why not", file="f")
