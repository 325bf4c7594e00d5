"""How large the packages are that a call passes through, and how many comments say why they are as they are.

Files and lines are ceilings, comments a floor. A new ability may raise a ceiling by its own size; all else lowers it.
"""

from __future__ import annotations

import ast
import io
import tokenize

import pytest

from tests.support.package_sources import PACKAGE, trees

# By package: files, lines of code without comments and docstrings, and comments on each 100 of these lines.
SIZES = {
    "capture/": (18, 1_890, 1.8),
    "captured_runs/": (5, 404, 1.4),
    "cassettes/": (8, 625, 4.5),
    "core/backends/": (6, 887, 2.7),
    "core/case_backend/": (2, 367, 3.2),
    "core/diagnose/": (8, 1_442, 3.3),
    "fuzz/": (14, 1_338, 2.0),
    "intercept/environment/": (6, 724, 4.8),
    "intercept/ordering/": (12, 2_157, 6.7),
    "intercept/session/": (16, 2_098, 3.6),
    "plugin/": (20, 3_438, 5.9),
    "report/": (21, 2_938, 2.9),
    "runs/": (29, 4_286, 3.0),
}
NO_REASON = ("# noqa", "# type:", "# pragma", "#!")
"""Begin comments that say nothing to people."""
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


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
