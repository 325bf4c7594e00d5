"""A page that holds a hostile text in each place where an HTML report has one, and what a parser makes of it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from pytest_agentreplay.report import escape


def page(text: str) -> str:
    """The page."""
    return (
        "<!doctype html><html><head><meta charset=utf-8>"
        f'<meta http-equiv="Content-Security-Policy" content="{escape.POLICY}">'
        f'</head><body><p title="{escape.markup(text)}">{escape.markup(text)}</p>'
        f'<script type="application/json" id="data">{escape.island({"said": text})}</script></body></html>'
    )


class Reading(HTMLParser):
    """What stands in a page; a tag or attribute that is not the page's own is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.data = ""
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"html", "head", "meta", "body", "p", "script"}, tag
        wanted = {"p": ["title"], "script": ["type", "id"]}
        if tag in wanted:
            assert [name for name, _ in attrs] == wanted[tag], attrs
        if tag == "p":
            self.texts.append(str(attrs[0][1]))
            self.texts.append("")
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "p":
            self.texts[-1] += data
        elif self.inside == "script":
            self.data += data
        else:
            assert not data.strip(), data


def attributes_and_texts(text: str) -> tuple[list[str], Any]:
    """The attribute and the text of the paragraph, and what a script would read."""
    reading = Reading()
    reading.feed(text)
    reading.close()
    return reading.texts, json.loads(reading.data)["said"]
