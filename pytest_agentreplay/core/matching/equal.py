"""Values that differ by environment and are declared equal: hosts, paths, and parts of any value.

The matched part is replaced by a mark before two calls are compared; everything around it is compared as usual.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Difference
from pytest_agentreplay.core.selector import compile_path, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.core.matching.address import Url
    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.core.rules import Part, Rule
    from pytest_agentreplay.core.selector import Place

MARK = "[[equal]]"


class EqualValues:
    """The rules with the action "equal" of one scope."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Sort `rules` by their part."""
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.part, []).append(rule)

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return bool(self._rules)

    def host(self, url: Url) -> str:
        """Return the host of `url` with its equal parts marked."""
        return self._marked("host", "", url.host, url.host)

    def path(self, url: Url) -> str:
        """Return the path of `url` with its equal parts marked."""
        return self._marked("path", "", url.path, url.host)

    def header(self, name: str, value: str, host: str) -> str:
        """Return the value of a header (`name` in lower case) with its equal parts marked."""
        return self._marked("header", name, value, host)

    def query(self, name: str, value: str, host: str) -> str:
        """Return the value of a query parameter with its equal parts marked."""
        return self._marked("query", name.lower(), value, host)

    def body(self, tree: Json, host: str) -> Json:
        """Return the tree with the equal parts of its texts marked."""
        for rule in self._rules.get("body", ()):
            if rule.applies(host):
                tree = compile_path(rule.path).replace(tree, partial(_replaced_text, rule))
        return tree

    def marked_texts(self, tree: Json, host: str) -> dict[Place, tuple[str, str]]:
        """Return each text of the tree that has an equal part, as it is and with that part marked, by its place."""
        places = {
            place: value
            for rule in self._rules.get("body", ())
            if rule.applies(host)
            for place, value in compile_path(rule.path).find(tree)
            if isinstance(value, str)
        }
        marked = {place: value for place, value in compile_path("$..*").find(self.body(tree, host)) if place in places}
        return {place: (value, str(marked.get(place, value))) for place, value in places.items()}

    def _marked(self, part: Part, name: str, value: str, host: str) -> str:
        for rule in self._meant(part, name, host):
            value = replaced(rule, value)
        return value

    def _meant(self, part: Part, name: str, host: str) -> Iterator[Rule]:
        for rule in self._rules.get(part, ()):
            if (part in {"host", "path"} or rule.path == name) and rule.applies(host):
                yield rule


def body_parts(equal: EqualValues, tree: Json, host: str) -> dict[str, tuple[str, str]]:
    """Return the texts of a body that have an equal part, by their paths."""
    return {show(place): texts for place, texts in equal.marked_texts(tree, host).items()}


def equal_differences(recorded: dict[str, tuple[str, str]], now: dict[str, tuple[str, str]]) -> Iterator[Difference]:
    """Yield the values that differ only in the parts that are declared equal."""
    for path in recorded.keys() & now.keys():
        (old, old_marked), (new, new_marked) = recorded[path], now[path]
        if old != new and old_marked == new_marked:
            yield Difference(path, old, new, "equal: declared by a rule of the project")


def replaced(rule: Rule, value: str) -> str:
    """Return `value` with the parts that are equal by `rule` replaced by a mark."""
    if rule.pattern:
        return re.sub(rule.pattern, MARK, value)
    match = _glob(rule.path, rule.part == "host").match(value)
    return f"{rule.path.replace('*', MARK)}{value[match.end() :]}" if match else value


def _replaced_text(rule: Rule, value: Json) -> Json:
    return replaced(rule, value) if isinstance(value, str) else value


@lru_cache(maxsize=256)
def _glob(text: str, is_host: bool) -> re.Pattern[str]:
    """Return what matches a whole host, or the beginning of a path up to the end of a segment or a method's colon."""
    any_text = "[^./]+" if is_host else "[^/:]+"
    regex = any_text.join(re.escape(part) for part in (text.lower() if is_host else text).split("*"))
    return re.compile(f"{regex}$" if is_host else f"{regex}(?=[/:]|$)")
