"""A page that a person's own report would make of shown text, each place of HTML once, and what a parser reads there."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from typing import Any

from pytest_agentreplay.report import escape

TAGS = {"html": [], "head": [], "body": [], "p": ["title"], "script": ["type", "id"]}


def page(text: str) -> str:
    """The page."""
    shown = html.escape(escape.escape_text(text))
    data = re.sub("[<>&]", lambda mark: f"\\u{ord(mark[0]):04x}", json.dumps({"said": text}))
    return (
        f'<!doctype html><html><head></head><body><p title="{shown}">{shown}</p>'
        f'<script type="application/json" id="data">{data}</script></body></html>'
    )


class Reading(HTMLParser):
    """What stands in a page; a tag or attribute that is not the page's own is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.title = self.inside = ""
        self.texts = {"p": "", "script": ""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert [name for name, _ in attrs] == TAGS[tag], (tag, attrs)
        self.title = str(attrs[0][1]) if tag == "p" else self.title
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        assert self.inside in self.texts, data
        self.texts[self.inside] += data


def attributes_and_texts(text: str) -> tuple[list[str], Any]:
    """The attribute and the text of the paragraph, and what a script would read."""
    reading = Reading()
    reading.feed(text)
    reading.close()
    return [reading.title, reading.texts["p"]], json.loads(reading.texts["script"])["said"]
