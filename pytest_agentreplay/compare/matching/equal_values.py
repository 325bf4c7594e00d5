"""Values that differ by environment and are declared equal: hosts, paths, and parts of any value.

The part that a rule names is replaced by a mark before two calls are compared; everything around it is compared as
usual, so a rule makes no more equal than what it names.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pytest_agentreplay.model.divergence import Difference
from pytest_agentreplay.model.json_paths import Place, show
from pytest_agentreplay.model.path_parsing import compile_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.model.rules import Part, Rule

MARK = "[[equal]]"

MarkedTexts = dict[str, tuple[str, str]]
"""By its path: a text that has an equal part, as it is, and with that part marked."""


class EqualValues:
    """The rules with the action "equal" of one scope."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Sort `rules` by their part."""
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.part, []).append(rule)

    def mark(self, part: Part, name: str, value: str, host: str) -> str:
        """Return `value` with its equal parts marked; `name`, in lower case, is that of a header or parameter."""
        for rule in self._rules.get(part, ()):
            # A host and a path have no name: there the rule's path is the pattern itself.
            if (part in {"host", "path"} or rule.path == name) and rule.applies(host):
                value = mark_equal(rule, value)
        return value

    def mark_tree(self, tree: Json, host: str) -> Json:
        """Return the tree of a body with the equal parts of its texts marked."""
        for rule in self._rules.get("body", ()):
            if rule.applies(host):
                tree = compile_path(rule.path).replace(tree, partial(_mark_text, rule))
        return tree

    def list_marked_texts(self, tree: Json, host: str) -> MarkedTexts:
        """Return the texts of a body that have an equal part, by their paths."""
        texts: dict[Place, str] = {
            place: value
            for rule in self._rules.get("body", ())
            if rule.applies(host)
            for place, value in compile_path(rule.path).find(tree)
            if isinstance(value, str)
        }
        # Several rules may mark one text, so what all of them make of it is read from the tree.
        marked = dict(compile_path("$..*").find(self.mark_tree(tree, host))) if texts else {}
        return {show(place): (value, str(marked.get(place, value))) for place, value in texts.items()}


def equal_differences(recorded: MarkedTexts, now: MarkedTexts) -> Iterator[Difference]:
    """Yield the values that differ only in the parts that are declared equal."""
    for path in recorded.keys() & now.keys():
        (old, old_marked), (new, new_marked) = recorded[path], now[path]
        if old != new and old_marked == new_marked:
            yield Difference(path, old, new, "equal: declared by a rule of the project")


def mark_equal(rule: Rule, value: str) -> str:
    """Return `value` with the parts that are equal by `rule` replaced by a mark."""
    if rule.pattern:
        return re.sub(rule.pattern, MARK, value)
    match = _compile_glob(rule.path, rule.part == "host").match(value)
    return f"{rule.path.replace('*', MARK)}{value[match.end() :]}" if match else value


def _mark_text(rule: Rule, value: Json) -> Json:
    return mark_equal(rule, value) if isinstance(value, str) else value


@lru_cache(maxsize=256)
def _compile_glob(text: str, is_host: bool) -> re.Pattern[str]:
    """Return what matches a whole host, or the beginning of a path up to the end of a segment or a method's colon."""
    any_text = "[^./]+" if is_host else "[^/:]+"
    regex = any_text.join(re.escape(part) for part in (text.lower() if is_host else text).split("*"))
    # Google's APIs end a path with ":method", so a colon ends a segment as a slash does (https://google.aip.dev/136).
    return re.compile(f"{regex}$" if is_host else f"{regex}(?=[/:]|$)")
