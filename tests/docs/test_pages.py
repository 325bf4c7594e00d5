"""The pages hang together: links lead somewhere, every block is of a kind that is checked, every page is reached."""

import functools
import re

from tests.support.pages import ROOT, blocks_of

PAGES = [ROOT / "README.md", *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def name(page):
    return str(page.relative_to(ROOT))


@functools.cache
def prose(page):
    """The text of a page without its blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page):
    """(target page, anchor) of each link of a page that stays in the house."""
    for target in LINK.findall(prose(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page):
    """The anchors of a page's headings, as they are made on the web."""
    heads = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def test_every_link_leads_somewhere():
    for page in PAGES:
        for target, anchor in links(page):
            assert target.exists(), f"{name(page)} links to {target}, which is not there"
            assert not anchor or anchor in anchors(target), f"{name(page)} links to {name(target)}#{anchor}"


def test_every_page_is_reached_from_the_readme():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in reached:
            reached.add(page)
            left += [target for target, _ in links(page) if target.suffix == ".md"]
    assert [name(page) for page in PAGES if page not in reached] == []


def test_every_block_is_of_a_kind_that_is_checked():
    assert [block.where for page in PAGES for block in blocks_of(page) if not block.kind] == []


def test_a_page_is_plain():
    for page, text in TEXTS.items():
        assert re.match(r"# \S", text), f"{name(page)} begins with its title"
        assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1, name(page)
        assert "FILL" not in text, name(page)
        assert not re.search(r"/(root|tmp|work)/", text), f"{name(page)} has a machine's path"


def test_the_decisions_are_numbered_without_a_gap():
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for number, file in enumerate(files, 1):
        assert (int(file.name[:4]), TEXTS[file].startswith(f"# {number}. ")) == (number, True)
        for part in ("**Choice.**", "**Alternatives.**", "**Why.**", "**Cost.**"):
            assert part in TEXTS[file], f"{file.name} says no {part}"


def test_the_readme_shows_the_test_command_as_ci_reads_it():
    text = TEXTS[ROOT / "README.md"]
    shown = re.search(r"<!-- test command -->\n```sh\n(.+)\n```\n", text)
    assert shown, "the marked test command is gone"
    assert re.fullmatch(r"python3 -m venv \.venv && .* && pip install -r tests/envs/main\.txt && pytest[^&]*", shown[1])
    workflow = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(workflow[1].splitlines()) <= 15
