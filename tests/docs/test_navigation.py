"""The navigation of the documentation site names every page once."""

import re

from tests.support.pages import ROOT


def test_every_page_is_in_the_navigation_once():
    pages = sorted(page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md"))
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"\S+\.md$", navigation, re.MULTILINE)
    assert sorted(path for path in named if not path.startswith("project/")) == pages
