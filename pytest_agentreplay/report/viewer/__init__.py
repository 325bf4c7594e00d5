"""Pages that show runs: one HTML file each, with its style, its script and its data inside.

Nothing is loaded from anywhere, and the content security policy of a page allows only the style and the script that it
brings along, by their digests, and pictures that stand in the page itself. Data stand as JSON in an element that no
browser runs; the script makes text nodes of them, and pictures of what a recorded message holds as one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from pytest_agentreplay.report.escape import escape_html

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import JsonObject

GENERATOR = '<meta name="generator" content="pytest_agentreplay'
"""What every page has near its beginning."""
FOLDER = '<meta name="agentreplay-origin" content="folder'
"""What the pages of a folder that is written as a whole have there, too: the next call replaces them."""
STYLES = "viewer.css", "index.css"
SCRIPTS = "dom.js", "texts.js", "turn.js", "lanes.js", "timeline.js", "turns.js", "index.js", "pages.js"
"""One script in several files, each of one subject: the first makes elements, the last draws the page."""
# JSON is ASCII here; these are what could end the element that it stands in, or begin a comment there.
UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}


def render_page(title: str, data: JsonObject, *, origin: str = "command") -> str:
    """Return a page that shows `data`, whose "kind" is "run", "pair", "index" or "failure".

    `origin` is "command", or "folder" and perhaps a digest (`digest_page`).
    """
    page, constant = _read_parts()
    parts = {
        **constant,
        "origin": origin,
        "title": escape_html(title),
        "data": json.dumps(data, separators=(",", ":")).translate(UNSAFE),
    }
    before, *rest = page.split("{")
    return before + "".join(parts[name] + after for name, _, after in (part.partition("}") for part in rest))


@cache
def _read_parts() -> tuple[str, dict[str, str]]:
    """Return the template of a page, and the parts that all pages have in common."""
    page, style, script = (
        "".join(files(__name__).joinpath(name).read_text("utf-8") for name in names)
        for names in (("page.html",), STYLES, SCRIPTS)
    )
    # A folder has a page for each of a thousand runs: indents and comments, a fifth of the script, stay in the package.
    style, script = (
        "\n".join(row for line in text.splitlines() if (row := line.strip()) and not row.startswith("//"))
        for text in (style, script)
    )
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    version_of_package = escape_html(version("frozen-agentreplay"))
    return page, {"policy": policy, "version": version_of_package, "style": style, "script": script}


def digest_page(*contents: bytes) -> str:
    """Return a digest over what a page shows and how: a page that has it need not be written again."""
    page, constant = _read_parts()
    digest = hashlib.sha256("".join((page, *constant.values())).encode())
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:32]


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
