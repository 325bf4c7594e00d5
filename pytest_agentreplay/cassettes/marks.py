"""The marks of vcrpy in the source of a test file, and what stands there once its tests have snapshots.

Pure: text in, changes out. What a change does not touch stays byte for byte.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Owner: TypeAlias = "ast.ClassDef | FunctionNode | None"
OPENS = re.compile(r"(?i)\b\w*(?:vcr|cassette)\w*(?:\.use_cassette)?(?:\(|$)")
"""A context manager or decorator that opens a cassette, by its name."""


@dataclass(frozen=True, slots=True)
class Change:
    """A place of a source: `start` and `end` in its text, its `line` from 1, and `new`, which comes there.

    `old` is what goes. What opens a cassette in code is named and left (`new` is None): it does nothing any more.
    """

    start: int
    end: int
    line: int
    old: str
    new: str | None


def apply(text: str, changes: Collection[Change]) -> str:
    """Return the text with all changes made."""
    for change in sorted(changes, key=lambda change: change.start, reverse=True):
        if change.new is not None:
            text = text[: change.start] + change.new + text[change.end :]
    return text


def plan_changes(
    text: str, converted: Collection[str], left: Collection[str] = (), opted_in: Collection[str] = ()
) -> tuple[list[Change], list[str]]:
    """Return the changes of a test file by which its `converted` tests play no cassette, and tests to mark elsewhere.

    Tests are named below the module: "test_a", "TestShop::test_b". A mark goes only where it marks none but converted
    ones; `left` are the others that ran or were deselected. A test that has not `opted_in` otherwise gets our mark.
    """
    return _Source(text, converted, left, opted_in).plan()


class _Source:
    def __init__(self, text: str, converted: Collection[str], left: Collection[str], opted_in: Collection[str]) -> None:
        self.text, self.tree = text, ast.parse(text)
        self.lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)  # as Python counts them
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.converted, self.opted_in = {*converted} - {*left}, {*opted_in}
        self.owners = [*_list_owners(self.tree)]
        functions = {path for path, node in self.owners if isinstance(node, FunctionNode)}
        self.tests = {*converted, *left} | {path for path in functions if path.split("::")[-1].startswith("test")}
        names = [
            (module.module if isinstance(module, ast.ImportFrom) else "", alias)
            for module in ast.walk(self.tree)
            if isinstance(module, ast.Import | ast.ImportFrom)
            for alias in module.names
        ]
        self.prefixes = [f"{a.asname or a.name}.mark" for module, a in names if not module and a.name == "pytest"]
        self.prefixes += [a.asname or a.name for module, a in names if module == "pytest" and a.name == "mark"]

    def plan(self) -> tuple[list[Change], list[str]]:
        changes: list[Change] = []
        marked = {*self.opted_in}
        for path, node in self.owners:
            under = {test for test in self.tests if not path or test == path or test.startswith(f"{path}::")}
            if not under or not under <= self.converted:
                continue
            decorators = [] if node is None else node.decorator_list
            is_marked = under <= marked or any(self._is_mark(each, "agentreplay") for each in decorators)
            for mark in filter(self._is_mark, [*decorators, *self._list_module_marks(path)]):
                if is_deleted := is_marked and mark in decorators:
                    changes.append(self._change(mark, "", whole_lines=is_deleted))
                else:
                    name = mark.func if isinstance(mark, ast.Call) else mark
                    changes.append(self._change(mark, f"{ast.unparse(name).rpartition('.')[0]}.agentreplay"))
                is_marked = True
            marked |= under if is_marked else set()
        for path, node in self.owners:
            if path in self.converted and isinstance(node, FunctionNode):
                if path not in marked:
                    changes.append(self._add_mark(node))
                changes += [self._change(each, None) for each in _list_openings(node)]
        if not self.prefixes and any(change.new and not change.old for change in changes):
            changes.append(self._import_pytest())
        elsewhere = sorted(self.converted - marked - {path for path, _ in self.owners})
        return sorted(changes, key=lambda change: change.start), elsewhere

    def _is_mark(self, node: ast.expr, name: str = "vcr") -> bool:
        node = node.func if isinstance(node, ast.Call) else node
        return isinstance(node, ast.Attribute) and node.attr == name and ast.unparse(node.value) in self.prefixes

    def _list_module_marks(self, path: str) -> Iterator[ast.expr]:
        """Yield the marks in `pytestmark` of the module or of a class."""
        body = next((node.body for owner, node in self.owners if owner == path and node is not None), self.tree.body)
        for node in body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
                yield from node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]

    def _offset(self, line: int, column: int) -> int:
        """Return where a position of `ast` is in the text; its columns count bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _change(self, node: ast.expr, new: str | None, *, whole_lines: bool = False) -> Change:
        start, end = (self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset))  # type: ignore[arg-type]
        if whole_lines:
            start, end = self.starts[node.lineno - 1], self.starts[node.end_lineno]  # type: ignore[index]
        return Change(start, end, node.lineno, self.lines[node.lineno - 1].strip(), new)

    def _add_mark(self, node: FunctionNode) -> Change:
        line = min(each.lineno for each in (node, *node.decorator_list))
        below = self.lines[line - 1]
        indent, ending = re.match(r"[ \t]*", below)[0], below[len(below.rstrip("\r\n")) :] or "\n"  # type: ignore[index]
        mark = f"{indent}@{(self.prefixes or ['pytest.mark'])[0]}.agentreplay{ending}"
        return Change(self.starts[line - 1], self.starts[line - 1], line, "", mark)

    def _import_pytest(self) -> Change:
        body = self.tree.body
        for node in body:
            is_docstring = node is body[0] and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                break
        line = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
        ending = self.lines[line - 1][len(self.lines[line - 1].rstrip("\r\n")) :]
        return Change(self.starts[line - 1], self.starts[line - 1], line, "", f"import pytest{ending}")


def _list_owners(node: ast.AST, path: str = "") -> Iterator[tuple[str, Owner]]:
    """Yield module, classes and functions outermost first, by their names below the module."""
    if isinstance(node, ast.Module):
        yield "", None
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | FunctionNode):
            name = f"{path}::{child.name}".removeprefix("::")
            yield name, child
            if isinstance(child, ast.ClassDef):
                yield from _list_owners(child, name)
        elif isinstance(child, ast.stmt):
            yield from _list_owners(child, path)


def _list_openings(function: FunctionNode) -> Iterator[ast.expr]:
    """Yield the decorators and context managers of a test that open a cassette."""
    inside = (node for node in ast.walk(function) if isinstance(node, ast.With | ast.AsyncWith))
    for expression in (*function.decorator_list, *(item.context_expr for node in inside for item in node.items)):
        if OPENS.search(ast.unparse(expression).partition("(")[0] + "(") and ".mark." not in ast.unparse(expression):
            yield expression
