"""How large the rooms of the package are, and how many comments say why they are as they are.

Files and lines are ceilings, comments a floor. A new ability may raise a ceiling by its own size; all else lowers it.
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize

import pytest

from tests.support.package_sources import PACKAGE, trees

# By room, and by folder of a room: files, lines of code without comments and docstrings, and comments on each 100 of these lines.
SIZES = {
    "model/": (17, 1_855, 1.5),
    "values/": (12, 1_478, 4.3),
    "snapshots/": (32, 4_588, 3.6),
    "redaction/": (27, 4_122, 4.0),
    "compare/": (28, 4_374, 3.4),
    "backends/": (15, 2_055, 2.1),
    "providers/": (24, 2_550, 3.7),
    "intercept/": (103, 13_733, 3.0),
    "intercept/environment/": (6, 690, 4.9),
    "intercept/ordering/": (12, 2_132, 7.1),
    "intercept/session/": (16, 2_075, 3.9),
    "traces/": (47, 6_934, 0.9),
    "cases/": (21, 3_180, 0.4),
    "report/": (22, 3_404, 3.3),
    "settings/": (3, 645, 9.3),
    "runs/": (85, 11_857, 2.6),
    "runs/capture/": (13, 1_799, 2.0),
    "runs/cassettes/": (6, 662, 5.1),
    "runs/fuzz/": (7, 1_212, 2.8),
    "plugin/": (23, 3_878, 5.5),
    "cli/": (36, 4_005, 1.4),
}
NO_REASON = ("# noqa", "# type:", "# pragma", "#!")
"""Begin comments that say nothing to people."""
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


@functools.cache
def measure_module(path: str, tree: ast.Module) -> tuple[int, int]:
    """Return how many lines of a module hold code, and how many comments it has."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    code: set[int] = set()
    comments = 0
    text = (PACKAGE / path).read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments += not token.string.startswith(NO_REASON)
        elif token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), comments


@pytest.mark.parametrize("package", SIZES)
def test_a_package_grows_only_on_purpose_and_keeps_its_comments(package):
    modules = [measure_module(path, tree) for path, tree in trees().items() if path.startswith(package)]
    lines, comments = (sum(column) for column in zip(*modules, strict=True))
    most_files, most_lines, least_comments = SIZES[package]
    assert len(modules) <= most_files
    assert lines <= most_lines
    assert 100 * comments / lines >= least_comments
