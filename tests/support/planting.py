"""Faults in our own functions: which of them a block runs, and each of them made to raise where it begins."""

from __future__ import annotations
import __future__

import ast
import copy
import gc
import sys
import threading
import weakref
from contextlib import contextmanager
from functools import cache
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

    def visit_FunctionDef(self, node):
        if (first_line(node), node.name) == (self.code.co_firstlineno, self.code.co_name):
            node.body[:0] = ast.parse(RAISE).body
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
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


def compile_with_fault(code):
    """Compile the statement of the module that holds the function of `code`, with the fault in it."""
    tree = parse_file(code.co_filename)
    statement = next(each for each in reversed(tree.body) if first_line(each) <= code.co_firstlineno)
    alone = ast.Module([Planted(code).visit(copy.deepcopy(statement))], [])
    future = __future__.annotations.compiler_flag if _postpones(tree) else 0
    return compile(ast.fix_missing_locations(alone), code.co_filename, "exec", future, dont_inherit=True)


@cache
def parse_file(file):
    """Return the syntax tree of a file of ours, which nobody changes."""
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def first_line(node):
    """Return the line of a statement where its code begins: that of its first decorator."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _postpones(tree):
    return any(isinstance(each, ast.ImportFrom) and each.module == "__future__" for each in tree.body)


def list_functions():
    """Yield our functions that there are: those of the first call are remembered, and later calls look at what is new."""
    yield from (function for reference in freeze_functions() if (function := reference()) is not None)
    yield from (each for each in gc.get_objects() if is_ours(each))


@cache
def freeze_functions():
    """Return references to our functions, and leave what there is now out of `gc.get_objects`: that takes 40 ms."""
    references = [weakref.ref(each) for each in gc.get_objects() if is_ours(each)]
    gc.freeze()
    return references


def is_ours(thing):
    """Whether it is a function of the package."""
    return type(thing) is FunctionType and thing.__code__.co_filename.startswith(PACKAGE)


@contextmanager
def planted(code):
    """A block in which the function of `code` raises as soon as it is called."""
    gc.disable()  # a finalizer in the middle of it is more than the parser of CPython 3.11 takes
    new = {_key(each): each for each in _walk(compile_with_fault(code))}
    gc.enable()
    around = code.co_qualname.split(".<locals>.")
    chain = {".<locals>.".join(around[: number + 1]) for number in range(len(around))}
    swapped = []
    for function in list_functions():
        if function.__code__.co_filename == code.co_filename:
            old = function.__code__
            if old.co_qualname in chain and _key(old) in new:
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
