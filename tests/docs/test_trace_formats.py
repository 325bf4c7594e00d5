"""The page of trace formats has one row for each that is read, and no other."""

from pytest_agentreplay.interchange.reading import OURS
from tests.docs.test_reference import code, section, table


def test_every_format_has_its_row():
    shown = [code(row[0]) for row in table(section("trace-formats.md", "The formats"))]
    assert sorted(shown) == sorted(one.name for one in OURS)
