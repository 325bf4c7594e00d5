"""Who was who: which snapshot may be a test's own under its former name, and what to type then."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pytest_agentreplay.core.paths import is_fixture, quoted
from pytest_agentreplay.store import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

ALIKE = 0.6
"""How alike the names of two tests of different files must be to be taken for one test."""

T = TypeVar("T")


def mv(old: str, new: str) -> str:
    """The command that gives the snapshot of `old` to `new`."""
    return f"agentreplay mv {quoted(old)} {quoted(new)}"


def likeness(first: str, second: str) -> float:
    """How alike two node ids are, from 0 to 2: their files and what stands in them count the same."""
    if is_fixture(first) is not is_fixture(second):
        return 0
    (file, _, rest), (file_too, _, rest_too) = first.partition("::"), second.partition("::")
    names = SequenceMatcher(None, rest, rest_too, autojunk=False)
    if file == file_too:
        return 1 + names.ratio()
    if names.real_quick_ratio() < ALIKE or names.quick_ratio() < ALIKE or (alike := names.ratio()) < ALIKE:
        return 0
    return alike + SequenceMatcher(None, file, file_too, autojunk=False).ratio()


def nearest(test: str, others: Iterable[tuple[T, str]]) -> tuple[T, str] | None:
    """The pair whose test is most like `test`; None where none is like it at all."""
    candidates = [(likeness(test, other), other, what) for what, other in others]
    best = max(candidates, key=lambda candidate: candidate[0], default=None)
    return (best[2], best[1]) if best is not None and best[0] else None


@dataclass(frozen=True)
class Suite:
    """What a session knows of the tests of the project at `root`: the `ids` collected, whether selected or not.

    `words` are the paths and ids that pytest was given, `modules` the loaded modules by test file.
    """

    root: Path
    ids: frozenset[str]
    words: Sequence[str] = ()
    modules: Mapping[str, object] = field(default_factory=dict)
    _there: dict[str, bool] = field(default_factory=dict)

    def former(self, test: str, snapshots: Iterable[tuple[T, str]]) -> tuple[T, str] | None:
        """The snapshot that is most likely the one of `test` under its former name; none of a test that is there."""
        return nearest(test, (pair for pair in snapshots if not self.has(pair[1])))

    def has(self, test: str) -> bool:
        """Whether the test is there. What a session over a part of the tests cannot tell is taken for there."""
        if test not in self._there:
            self._there[test] = test in self.ids or self._stands(test)
        return self._there[test]

    def _stands(self, test: str) -> bool:
        file, _, rest = test.partition("::")
        if not layout.names_test(test):
            return True
        if not (self.root / file).is_file():
            return False
        if is_fixture(test):
            module = self.modules.get(file)
            return module is None or found_in(module, rest.partition("[")[0].replace("@", ""))
        if file not in self._files:
            return True
        typed = [word.partition("::")[2] for word in self.words if "::" in word]
        if not typed:
            return False
        name = rest.partition("[")[0]
        module = self.modules.get(file)
        if module is not None and not found_in(module, name):
            return False
        seen = f"{file}::{name}" in {test_id.partition("[")[0] for test_id in self.ids}
        return not seen or any("[" in word for word in typed)

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(test_id.partition("::")[0] for test_id in self.ids)


def found_in(thing: object, name: str) -> bool:
    """Whether a module holds `name`, "Class::test"; inherited tests count."""
    for part in name.split("::"):
        thing = getattr(thing, part, None)
    return thing is not None
