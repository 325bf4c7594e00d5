"""JSON values as YAML that people read and `strict_yaml` reads back, equal: PyYAML's safe dumper, set up for that.

Containers that fit on a line stand on one, texts of several lines as they are, under `|`.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import yaml

from pytest_agentreplay.snapshots.codec.strict_yaml import FORBIDDEN, NO_TEXT, NUMBER, WORDS

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json

WIDTH = 100
SENTENCE = 40
"""A text in a list that is longer has a line of its own."""
_BREAKS = re.compile("[\n\r\x85\u2028\u2029]")
_NO_BLOCK = re.compile(f"{FORBIDDEN.pattern}|[\t\r\x85\u2028\u2029]")
"""What a reader refuses, folds or takes for a line break where it is not escaped."""
_ESCAPED = re.compile(r'["\\\U00010000-\U0010ffff]')


def dump(value: Json) -> str:
    """Return the text of a value, ending in a newline. Raises ValueError for what YAML cannot say: nan, U+0000."""
    # PyYAML would fold long lines, and continue a folded one in double quotes behind a backslash.
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 40))


class _Dumper(yaml.SafeDumper):
    """Writes what `strict_yaml` reads."""

    def ignore_aliases(self, *_: object) -> bool:
        return True  # the reader takes none

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow)  # PyYAML would not indent a list below its key

    def serialize(self, node: Any) -> None:
        node.flow_style = False  # of a whole text, however short
        super().serialize(node)

    def represent_data(self, data: Any) -> Any:
        node: Any = super().represent_data(data)
        if isinstance(data, str):
            node.style = _choose_style(data)
        elif isinstance(data, float) and not math.isfinite(data):
            raise ValueError("nan and infinity are no JSON")
        elif isinstance(data, dict | list):
            node.flow_style = _fits_on_line(data)
        for item in node.value if isinstance(data, list) else ():
            if item.id == "mapping" and len(item.value) == 1:
                item.flow_style = False  # `- word: value`, as people write the checks of a case
        return node

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        # PyYAML puts a text with spaces before a line's end, which Markdown has, in quotes. `|` keeps them, too.
        analysis.allow_block = _is_block(scalar)
        return analysis

    def choose_scalar_style(self) -> str:
        event: Any = self.event
        style: str = super().choose_scalar_style()
        # Between '' nothing is escaped: JSON, paths of Windows and, as PyYAML writes it, an emoji stay as they are.
        return '"' if style == "'" and not _ESCAPED.search(event.value) else style


def _choose_style(text: str) -> str | None:
    """Return the style of a text that PyYAML would write in a way that is not read back. Raises ValueError."""
    if NO_TEXT.search(text):
        raise ValueError("U+0000 and lone surrogates are no characters of a text")
    if _is_block(text):
        return "|"
    # What else some reader takes for no text, as `yes` or `12:30`, PyYAML quotes by itself.
    is_taken = text in WORDS or NUMBER.fullmatch(text) or text in {"y", "n", "Y", "N"}
    return '"' if is_taken or _BREAKS.search(text) else None


def _is_block(text: str) -> bool:
    """Return whether `|` says a text of several lines exactly, without digits that say how far it is indented."""
    lines = text.removesuffix("\n").split("\n")
    edges = len(lines) > 1 and lines[-1] and lines[0] and not lines[0][0].isspace()
    return bool(edges) and not any(map(str.isspace, lines)) and not _NO_BLOCK.search(text)


def _fits_on_line(value: dict[str, Any] | list[Any]) -> bool:
    """Return whether a container stands on one line, about as long as JSON without its quotes."""
    for item in value if isinstance(value, list) else ():
        if (isinstance(item, str) and len(item) > SENTENCE) or (isinstance(item, dict) and len(item) == 1):
            return False
    text = json.dumps(value, ensure_ascii=False)
    return len(text.replace('"', "")) <= WIDTH and "\\n" not in text
