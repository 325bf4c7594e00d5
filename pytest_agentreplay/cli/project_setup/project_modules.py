"""The Python modules of a project, read as text: what they define, import and assign. Nothing is imported or run."""

from __future__ import annotations

import ast
import os
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.errors import SnapshotError
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

NOT_SOURCE = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env", "docs"}
"""Folders that hold no code of the project; those that begin with a dot and virtual environments are left out, too."""
TEST_FOLDERS = {"tests", "test", "testing"}
API_KEY = re.compile(rb"[\"']([A-Z][A-Z0-9_]*_API_KEY)[\"']")
"""A text that names the variable of a key."""
HOPS = 20
"""How many imports and assignments are followed from a name to its definition; two modules may import each other."""


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its import path, the folder that must be on `sys.path` for it, and its names.

    `imports` maps a local name to the import path behind it, `assigned` a variable to its last value at module level.
    `functions` and `classes` are known by their qualified names.
    """

    file: Path
    name: str
    base: Path
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)


@dataclass(slots=True)
class ProjectModules:
    """The modules of a project by import path, its test files, and the files that could not be read (with why).

    `imported` are the import paths that modules and tests name, `keys` the variables of API keys.
    """

    modules: dict[str, Module] = field(default_factory=dict)
    tests: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    imported: frozenset[str] = frozenset()
    keys: set[str] = field(default_factory=set)

    def owner(self, path: str) -> Module | None:
        """Return the module that `path` is, or lies in; None for what is not defined in this project."""
        while path and path not in self.modules:
            path = path.rpartition(".")[0]
        return self.modules.get(path)

    def path_of(self, module: Module, expression: ast.expr) -> str:
        """Return the import path that an expression names ("" for none); a method of an object gives its class's."""
        start, names = split_names(expression)
        if isinstance(start, ast.Call):
            first = self.path_of(module, start.func)
        else:
            first = local_path(module, start.id) if isinstance(start, ast.Name) else ""
        return self._definition(".".join([first, *names])) if first else ""

    def function(self, path: str) -> Function | None:
        """Return the function or method that is defined at `path`."""
        owner = self.owner(path)
        return owner.functions.get(path[len(owner.name) + 1 :]) if owner else None

    def _definition(self, path: str) -> str:
        """Follow imports, objects and base classes from `path` to where the name is defined."""
        for _ in range(HOPS):
            owner = self.owner(path)
            if owner is None or self.function(path):
                return path
            name, *rest = path[len(owner.name) + 1 :].split(".")
            following = self._find_next(owner, name, rest)
            if not following:
                return path
            path = ".".join([following, *rest])
        return path

    def _find_next(self, owner: Module, name: str, rest: list[str]) -> str:
        if name in owner.imports:
            return owner.imports[name]
        value = owner.assigned.get(name)
        if isinstance(value, ast.Call):
            return raw_path(owner, value.func)
        bases = owner.classes[name].bases if name in owner.classes and rest else []
        return raw_path(owner, bases[0]) if bases else ""


def raw_path(module: Module, expression: ast.expr) -> str:
    """Return the import path that an expression names in `module`, before its imports are followed further."""
    start, names = split_names(expression)
    return ".".join([local_path(module, start.id), *names]) if isinstance(start, ast.Name) else ""


def split_names(expression: ast.expr) -> tuple[ast.expr, list[str]]:
    """Return what `a().b.c` begins with, and the names of the attributes that follow."""
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.insert(0, expression.attr)
        expression = expression.value
    return expression, names


def local_path(module: Module, name: str) -> str:
    """Return the import path behind a name of a module."""
    return module.imports.get(name, f"{module.name}.{name}")


def read_project(root: Path, bases: Sequence[Path]) -> ProjectModules:
    """Read every Python file below `root`. `bases` are the folders that are on `sys.path` in a test."""
    project = ProjectModules()
    trees: dict[Path, ast.Module] = {}
    for file in python_files(root, project.skipped):
        try:
            source = files.read_file(file)
            trees[file] = parse_source(source)
            project.keys.update(map(bytes.decode, API_KEY.findall(source)))
        except SnapshotError as error:
            project.skipped.append((file, str(error).removeprefix(f"{format_path(file)}: ")))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            place = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            project.skipped.append((file, f"{place}{reason or type(error).__name__}"))
    imported = project.imported = frozenset(name for tree in trees.values() for name in imported_modules(tree))
    for file, tree in trees.items():
        if is_test(file, root):
            project.tests.append(file)
        elif name_and_base := import_path(file, bases, imported):
            project.modules.setdefault(name_and_base[0], module_of(file, *name_and_base, tree))
    return project


def imported_modules(tree: ast.Module) -> Iterator[str]:
    """Return the import paths that the absolute imports of a file name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parse_source(source: bytes) -> ast.Module:
    """Parse a file of any declared encoding. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the user's files are not reported by this command
        return ast.parse(source)


def python_files(root: Path, skipped: list[tuple[Path, str]]) -> Iterator[Path]:
    """Return the Python files below `root` in order; links to folders are not followed."""

    def unreadable(error: OSError) -> None:
        skipped.append((Path(error.filename), error.strerror or str(error)))

    for folder, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if is_source(Path(folder) / name))
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(".py"))


def is_source(folder: Path) -> bool:
    """Return whether a folder may hold code of the project."""
    return not (folder.name in NOT_SOURCE or folder.name.startswith((".", "__")) or files.exists(folder / "pyvenv.cfg"))


def is_test(file: Path, root: Path) -> bool:
    """Return whether a file belongs to the tests: what it defines has no settled import path."""
    folders = {part.lower() for part in file.relative_to(root).parts[:-1]}
    return (
        bool(folders & TEST_FOLDERS) or file.name == "conftest.py" or file.match("test_*.py") or file.match("*_test.py")
    )


def import_path(file: Path, bases: Sequence[Path], imported: Collection[str] = ()) -> tuple[str, Path] | None:
    """Return a file's import path and the folder that it is imported from; None where no import statement names it.

    Under another path the same file is another module with other functions, so the path that the project's own imports
    use is preferred.
    """
    top = file.parent
    while files.exists(top / "__init__.py"):
        top = top.parent
    above = [base for base in bases if top.is_relative_to(base)]
    default = max(above, key=lambda folder: len(folder.parts), default=top)
    between = [folder for folder in (top, *top.parents) if folder.is_relative_to(default)]
    base = next((folder for folder in between if format_import_path(file, folder) in imported), default)
    name = format_import_path(file, base)
    return (name, base) if name and all(part.isidentifier() for part in name.split(".")) else None


def format_import_path(file: Path, base: Path) -> str:
    """Return the import path of a file from a folder above it."""
    parts = file.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_of(file: Path, name: str, base: Path, tree: ast.Module) -> Module:
    """Return a module with the names that it imports, assigns and defines."""
    module = Module(file, name, base, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                module.imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            source = imported_from(module, node)
            module.imports.update({alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names})
    define(module, tree.body, "")
    return module


def imported_from(module: Module, node: ast.ImportFrom) -> str:
    """Return the module of a `from` import, a relative one made absolute."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    cut = node.level - (module.file.name == "__init__.py")
    return ".".join([*package[: len(package) - cut], *([node.module] if node.module else [])])


def define(module: Module, body: Sequence[ast.stmt], inside: str) -> None:
    """Note what statements at module or class level define, in their `if`, `try` and `with` blocks too."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            module.functions[inside + node.name] = node
        elif isinstance(node, ast.ClassDef):
            module.classes[inside + node.name] = node
            define(module, node.body, f"{inside}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and not inside:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            module.assigned.update({target.id: node.value for target in targets if isinstance(target, ast.Name)})
        else:
            for block in ("body", "orelse", "finalbody"):
                define(module, getattr(node, block, []), inside)


def list_parameter_names(function: Function) -> list[str]:
    """Return the names of the parameters of a function, `*args` and `**kwargs` left out."""
    parameters = function.args
    return [each.arg for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)]


def functions_below(tree: ast.AST) -> Iterator[Function]:
    """Return every function of a file, however deep it is nested."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
