"""The pages hang together: links lead somewhere, every block is of a kind that is checked, every page is reached."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def name(page):
    return str(page.relative_to(ROOT))


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


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), f"{name(page)} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to #{anchor}, and {name(target)} has no such heading"


def test_every_page_is_reached_from_the_readme():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached:
            continue
        reached.add(page)
        left += [target for target, _ in links(page) if target.suffix == ".md"]
    assert [name(page) for page in PAGES if page not in reached] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_of_a_kind_that_is_checked(page, read_blocks):
    for block in read_blocks(page):
        assert block.kind, f"{block.where}: a block of language {block.language!r} is neither run nor checked"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_plain(page):
    text = page.read_text(encoding="utf-8")
    assert re.match(r"# \S", text), "a page begins with its title"
    assert len(re.findall(r"^# ", prose(page), re.MULTILINE)) == 1
    assert "FILL" not in text
    assert not re.search(r"/(root|tmp|work)/", text), "a machine's path"


def test_the_decisions_are_numbered_without_a_gap():
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(file.name[:4])}. ")
        for part in ("**Choice.**", "**Alternatives.**", "**Why.**", "**Cost.**"):
            assert part in text, f"{file.name} says no {part}"


def test_the_readme_shows_the_test_command_as_ci_reads_it():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- test command -->\n```sh\n(.+)\n```\n", text)
    assert shown, "the marked test command is gone"
    assert re.fullmatch(r"python3 -m venv \.venv && .* && pip install -r tests/envs/main\.txt && pytest[^&]*", shown[1])
    workflow = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert workflow
    assert len(workflow[1].splitlines()) <= 15
