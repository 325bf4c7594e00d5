"""One name per thing: words that the package and its documents do not say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [file for pattern in ("*.md", "docs/**/*.md", ".github/**/*.yml") for file in sorted(ROOT.glob(pattern))]
CODE = sorted((ROOT / "pytest_agentreplay").rglob("*.py"))
DATA = [
    file
    for kind in ("json", "yaml", "toml", "html")
    for file in sorted((ROOT / "pytest_agentreplay").rglob(f"*.{kind}"))
]

FORBIDDEN = {
    "another tool's word for a snapshot": re.compile(r"\b(?:cassettes?|tapes?)\b", re.IGNORECASE),
    "the path of one machine": re.compile(r"(?<![\w.:$}/])/(?:root|work|mnt|private|Users/\w+)/\w"),
    "work left open": re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"),
}
EXCEPT = {
    "docs/glossary.md": "another tool's word for a snapshot",  # it says that we do not use it
    "docs/how-to/from-vcrpy.md": "another tool's word for a snapshot",  # whoever has them calls them so
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nobody_says(what):
    found = []
    for file in (*PAGES, *CODE, *DATA):
        name = str(file.relative_to(ROOT))
        if EXCEPT.get(name) == what:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{name}:{number}: {match[0]!r}" for match in FORBIDDEN[what].finditer(line)]
    assert not found, f"{what}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("another tool's word for a snapshot", "it plays the Cassette"),
        ("the path of one machine", 'open("/root/x")'),
        ("work left open", "# TODO: later"),
    ],
)
def test_the_search_sees(what, line):
    assert FORBIDDEN[what].search(line)


@pytest.mark.parametrize("line", ["https://a.example/work/x", "$HOME/work/x", "the root/leaf", "taped"])
def test_the_search_leaves_alone(line):
    assert not any(pattern.search(line) for pattern in FORBIDDEN.values())
