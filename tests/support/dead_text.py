"""The texts of the hostile corpus that a reader of Markdown or a log is shown, and what of a page of Markdown is alive."""

import json
import os
import re
from pathlib import Path

from markdown_it import MarkdownIt

CORPUS = Path(os.environ.get("AGENTREPLAY_CORPUS") or Path(__file__).parents[1] / "corpus") / "hostile_corpus.jsonl"
ROWS = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
TEXTS = [row for row in ROWS if row["class"] in {"markdown", "ci-command", "html", "terminal"}]
SAFE = {"paragraph", "text", "code_inline", "fence", "strong", "bullet_list", "list_item", "softbreak", "inline"}
SAFE |= {"table", "thead", "tbody", "tr", "th", "td"}
FOLD = re.compile(r"<details><summary>[0-9,]+ lines?</summary>\n|</details>\n?")
"""What we fold a long block with."""


def list_alive(markdown, *, html=True):
    """What of a page is more than text, code, our own lists and folds; a mention, a reference, or a URL outside of code."""
    tokens = MarkdownIt("commonmark", {"html": html}).enable("table").parse(markdown)
    inner = [child for token in tokens for child in (token, *(token.children or ()))]
    inner = [token for token in inner if not (token.type == "html_block" and FOLD.fullmatch(token.content))]
    kinds = {re.sub("_(open|close)$", "", token.type) for token in inner} - SAFE
    words = [token.content for token in inner if token.type == "text"]
    return sorted(kinds) + [word for word in words if re.search(r"@\w|#\d|://|<", word)]
