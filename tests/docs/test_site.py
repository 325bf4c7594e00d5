"""The site builds without a warning, shows of each page what GitHub shows, and finds the right page first."""

import re
from collections import Counter

import pytest
from markdown_it import MarkdownIt

from tests.support.browser import Browser
from tests.support.package_sources import ROOT
from tests.support.pages import list_api_names

pytestmark = [pytest.mark.env("docs"), pytest.mark.process]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//[^>]*>"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preconnect|preload|prefetch|icon))[^>]*\bhref=\"?(?:https?:)?//[^>]*>"
    r"|@import[^;]*//|url\([\"']?(?:https?:)?//[^)]*\)"
)
"""What a browser loads from another place than the site."""
FIRST_PAGES = {
    "langgraph": "how-to/sdks-and-frameworks/",
    "mcp": "how-to/mcp/",
    "vcrpy": "how-to/from-vcrpy/",
    "xdist": "how-to/concurrent-agents/",
    "streaming": "how-to/http-clients/",
    "flaky": "how-to/find-a-race/",
    "cost": "how-to/look-at-runs/",
    "update a snapshot": "how-to/review-and-accept/",
    "secrets": "how-to/secrets/",
    "api keys": "how-to/secrets/",
    "why red": "how-to/my-test-is-red/",
    "AR-PROMPT": "reference/codes/",
}
FIRST_RESULT = """
new Promise((resolve, reject) => {
  const began = Date.now();
  const look = () => {
    const link = document.querySelector(".md-search-result__item > .md-search-result__link");
    if (link) resolve(link.pathname.slice(1));
    else if (Date.now() - began > 20000) reject("no result in 20 seconds");
    else setTimeout(look, 50);
  };
  look();
})
"""
TAGS = {"list_item_open": "li", "tr_open": "tr", "heading_open": "h", "fence": "pre", "code_block": "pre"}


def article(site, page):
    """Return the part of a built page that comes from its Markdown."""
    path = page.relative_to(ROOT / "docs").with_suffix("")
    folder = path.parent if path.name == "index" else path
    html = (site / folder / "index.html").read_text(encoding="utf-8")
    return html[html.index("<article") : html.index("</article>")]


def test_a_page_has_the_lists_tables_headings_and_blocks_that_commonmark_reads(site):
    commonmark = MarkdownIt("commonmark").enable("table")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if "<!-- api: " in text:  # the rest of the page is written by mkdocstrings
            continue
        expected = Counter(TAGS[token.type] for token in commonmark.parse(text) if token.type in TAGS)
        html = article(site, page)
        there = Counter({tag: len(re.findall(rf"<{tag}[1-6]?[ >]", html)) for tag in TAGS.values()})
        assert there == expected, page.name


def test_no_page_loads_anything_from_elsewhere(site):
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        assert not ELSEWHERE.findall(file.read_text(encoding="utf-8")), file.relative_to(site)


def test_links_out_of_the_folder_of_pages_lead_to_pages_of_the_site(site):
    assert (site / "project/SECURITY/index.html").is_file()
    case = site / "project/cases/order-lookup-privacy/fixtures/lookup_orders-1.yaml/index.html"
    assert "lookup_orders" in case.read_text(encoding="utf-8")
    assert 'href="../../project/SECURITY/"' in (site / "how-to/secrets/index.html").read_text(encoding="utf-8")


def test_every_name_of_the_api_has_its_documentation(site):
    names = list_api_names()
    html = article(site, ROOT / "docs/reference/api.md")
    documented = set(re.findall(r'<h3 id="([\w.]+)"', html))
    assert documented >= set(names)
    assert len(re.findall(r'<div class="doc doc-contents', html)) >= len(names)


def test_a_search_finds_the_right_page_first(address):
    browser = Browser()
    try:
        found = {}
        for words in FIRST_PAGES:
            browser.go(f"{address}?q={words.replace(' ', '+')}")
            found[words] = browser.value(FIRST_RESULT)
    finally:
        browser.close()
    assert found == FIRST_PAGES
