"""One name per thing: words that the package and its documents do not say."""

from __future__ import annotations

import re

import pytest

from tests.support.package_sources import ROOT

PATTERNS = ("*.md", "docs/**/*.md", ".github/**/*.yml")
PATTERNS += tuple(f"pytest_agentreplay/**/*.{kind}" for kind in ("py", "json", "yaml", "toml", "html"))
FORBIDDEN = {
    "another tool's word for a snapshot": re.compile(r"\b(?:cassettes?|tapes?)\b", re.IGNORECASE),
    "the path of one machine": re.compile(r"(?<![\w.:$}/])/(?:root|work|mnt|private|Users/\w+)/\w"),
    "work left open": re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"),
}
EXCEPT = {
    "docs/glossary.md": "another tool's word for a snapshot",  # it says that we do not use it
    "docs/how-to/from-vcrpy.md": "another tool's word for a snapshot",  # whoever has them calls them so
}
OF_CASSETTES = re.compile(
    r"cassette|http/vcrpy|intercept/registry|runs/recording_session|docs/architecture\.md|plugin/(keys|__init__)\.py|CHANGELOG"
    r"|README|docs/format|reference/(boundaries|settings)"
)
"""Files about suites on vcrpy, which call its files as it does."""
SEEN = {
    "another tool's word for a snapshot": "it plays the Cassette",
    "the path of one machine": 'open("/root/x")',
    "work left open": "# TODO: later",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nobody_says(what):
    assert FORBIDDEN[what].search(SEEN[what])
    found = []
    for file in (file for pattern in PATTERNS for file in sorted(ROOT.glob(pattern))):
        name = file.relative_to(ROOT).as_posix()
        if EXCEPT.get(name) != what and not (what == EXCEPT["docs/glossary.md"] and OF_CASSETTES.search(name)):
            text = file.read_text(encoding="utf-8")
            found += [
                f"{name}: {text.count(chr(10), 0, m.start()) + 1}: {m[0]}" for m in FORBIDDEN[what].finditer(text)
            ]
    assert not found, f"{what}:\n" + "\n".join(found)


def test_the_search_leaves_alone_what_is_another_word():
    for line in ("https://a.example/work/x", "$HOME/work/x", "the root/leaf", "taped"):
        assert not any(pattern.search(line) for pattern in FORBIDDEN.values()), line
