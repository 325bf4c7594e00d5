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


@pytest.mark.parametrize("key", sorted(json.loads(SAMPLE.read_text(encoding="utf-8"))))
@pytest.mark.parametrize("junk", [None, 7, "x", [7], {"x": 7}])
def test_junk_in_its_place_is_refused_or_noted_as_edited(key, junk):
    document = json.loads(SAMPLE.read_text(encoding="utf-8")) | {key: junk}
    refused = None
    try:
        snapshot = codec.loads(json.dumps(document), file="v0.9")
    except SnapshotError as error:
        refused = error
    if refused is not None:
        assert refused.file == "v0.9"
    else:
        assert not snapshot.sealed or document == json.loads(SAMPLE.read_text(encoding="utf-8"))
