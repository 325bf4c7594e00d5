"""Bundles from strangers: opened whole, or refused in one line."""

import random
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from fuzzing import torn

from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.redaction.policy import PLAIN
from pytest_agentreplay.runs.case_files.bundling import open_bundle, packed_case

CASE = Path(__file__).parents[2] / "cases" / "order-lookup-privacy"


def refused(file):
    """The one line that a bundle is refused with, "" for one that is opened."""
    said = ""
    try:
        open_bundle(file)
    except CaseError as error:
        said = str(error)
    assert "\n" not in said
    return said


def test_a_torn_bundle_is_opened_or_refused(tmp_path):
    whole, file = packed_case(CASE, PLAIN, {}).data, tmp_path / "case.zip"
    said = []
    for seed in range(300):
        file.write_bytes(torn(random.Random(seed), whole))
        said.append(refused(file))

    assert any("negative seek" in one for one in said), "a piece is missing in the middle"


@pytest.mark.parametrize("name", ["notes.md", "case.yaml", "run.snapshot.json"])
def test_a_bundle_that_unpacks_to_a_thousand_times_its_size_is_not_unpacked(name, tmp_path):
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b" " * 40_000_000)
    file = tmp_path / "case.zip"
    file.write_bytes(held.getvalue())

    assert "more than" in refused(file)
