from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.report.findings import FREEZE, REDACTED

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "codes.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (AR-\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def test_there_is_one_section_for_each_code_and_for_no_other():
    assert re.findall(r"^## (AR-\w+)$", PAGE, re.MULTILINE) == [*(kind.code for kind in Kind), FREEZE, REDACTED]


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.code)
def test_a_section_says_what_it_means_why_and_what_to_do(kind):
    section = SECTIONS[kind.code]
    assert section.startswith(f"\n*{kind.title}*, layer {kind.layer}. ")
    assert "Likely causes" in section
    assert "What to do:" in section or "cures" in section
