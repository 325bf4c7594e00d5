"""Faults in our own functions: which of them a block runs, and each of them made to raise where it begins."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType

import pytest_agentreplay

PACKAGE = str(Path(pytest_agentreplay.__file__).parent)
RAISE = 'import tests.support.planting as p; p.HITS.append(None); raise RuntimeError("planted")'
HITS = []
"""One entry for each fault that was raised."""


def fail():
    """Raise the fault."""
    HITS.append(None)
    raise RuntimeError("planted")


class Planted(ast.NodeTransformer):
    """Puts a fault at the beginning of the functions that begin in a line."""

    def __init__(self, code):
        self.code = code

    def visit_FunctionDef(self, node):  # noqa: N802  as ast names it
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if (first, node.name) == (self.code.co_firstlineno, self.code.co_name):
            node.body[:0] = ast.parse(RAISE).body
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  as ast names it

    def visit_Lambda(self, node):  # noqa: N802  as ast names it
        if (node.lineno, "<lambda>") == (self.code.co_firstlineno, self.code.co_name):
            raised = ast.parse('__import__("tests.support.planting").support.planting.fail()', mode="eval").body
            node.body = ast.copy_location(ast.Tuple([raised, node.body], ast.Load()), node)
        return self.generic_visit(node)


def list_run(block):
    """The codes of our functions that `block` runs, in any thread."""
    codes = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name not in {"<module>", "<listcomp>"}:
            codes.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        block()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return codes


@contextmanager
def planted(code):
    """A block in which the function of `code` raises as soon as it is called."""
    file = Path(code.co_filename)
    gc.disable()  # a finalizer in the middle of it is more than the parser of CPython 3.11 takes
    tree = ast.fix_missing_locations(Planted(code).visit(ast.parse(file.read_text(encoding="utf-8"))))
    new = {_key(each): each for each in _walk(compile(tree, str(file), "exec", dont_inherit=True))}
    gc.enable()
    around = code.co_qualname.split(".<locals>.")
    chain = {".<locals>.".join(around[: number + 1]) for number in range(len(around))}
    swapped = []
    for function in gc.get_objects():
        if type(function) is FunctionType:
            old = function.__code__
            if old.co_filename == str(file) and old.co_qualname in chain and _key(old) in new:
                swapped.append((function, old))
                function.__code__ = new[_key(old)]
    try:
        yield
    finally:
        for function, old in swapped:
            function.__code__ = old


def _key(code):
    return code.co_qualname, code.co_firstlineno


def _walk(code):
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _walk(const)
