"""The migration of format 0.9, in memory; the frozen sample itself is a law."""

import json
from pathlib import Path

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.errors import SnapshotError

SAMPLE = Path(__file__).parent / "samples" / "v0.9.snapshot.json"


def test_the_sample_is_read_noted_and_written_as_1_0():
    snapshot = codec.loads(SAMPLE.read_bytes(), file="v0.9")
    assert snapshot.version == "0.9"
    assert any("0.9" in note for note in snapshot.notes)
    again = codec.loads(codec.dumps(snapshot.run), file="now")
    assert again.version == "1.0"
    assert again.run == snapshot.run


@pytest.mark.parametrize("junk", [None, 7, "x", [7], {"x": 7}])
def test_junk_in_the_place_of_any_key_is_refused_or_noted_as_edited(junk):
    whole = json.loads(SAMPLE.read_text(encoding="utf-8"))
    for key in whole:
        document = whole | {key: junk}
        refused = None
        try:
            snapshot = codec.loads(json.dumps(document), file="v0.9")
        except SnapshotError as error:
            refused = error
        assert refused.file == "v0.9" if refused else not snapshot.sealed or document == whole
