"""What no module may do: wait by a clock that tests freeze, open text in the machine's encoding, make code of data."""

from __future__ import annotations

import ast

from tests.support.package_sources import ROOT, nodes_of, trees

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"}
OWN_CLOCKS = {"clocks.py", "intercept/ordering/virtual_time.py"}  # the second puts the time of the run in their place

ROOMS = (
    *("architecture", "model", "values", "redaction", "compare", "backends", "snapshots"),
    "plugin",
    "compatibility",
)
WINDOWS = [*(file for room in ROOMS for file in (ROOT / "tests" / room).rglob("*.py"))]
WINDOWS += [ROOT / "conftest.py", ROOT / "tests" / "conftest.py", ROOT / "tests" / "smoke.py"]
"""Tests that run on Windows too."""

DOORS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "joblib", "xmlrpc"}
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
LOADERS = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}
"""Names of PyYAML's that make objects of tags, unless a loader is given."""
ALLOWED = {("intercept/session/patching.py", "compile")}  # its own text around a function that code has named
IMPORTERS = {
    "__init__.py",  # from its own table of lazy names
    "cli/verbs.py",  # from its own table of verbs
    "intercept/registry.py",  # from its own table of boundaries
    "plugins.py",  # from its own table of lazy names
    "redaction/pii.py",  # from its own table of national ids
    "intercept/tools/tool_paths.py",  # from ini, marker or code
    "providers/__init__.py",  # from its own table of families
    "runs/fuzz/trial_verdict.py",  # from ini alone
    "runs/cases/runners.py",  # from ini alone; a case names a key of it
}
"""Who may import by a name that is not written out."""


def clock_readings(tree):
    """The lines on which a function of `time` that only we need is named."""
    for node in nodes_of(tree, ast.ImportFrom):
        if node.module == "time":
            yield node.lineno
    for node in nodes_of(tree, ast.Attribute):
        if node.attr in CLOCKS and ast.unparse(node.value) == "time":
            yield node.lineno


def without_encoding(tree):
    """The lines of calls that read or write text without saying in which encoding."""
    for node in nodes_of(tree, ast.Call):
        if any(word.arg in {"encoding", None} for word in node.keywords):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in {"read_text", "write_text"}:
            if len(node.args) <= (name == "write_text"):  # the encoding comes next
                yield node.lineno
        elif name == "open" and (isinstance(node.func, ast.Name) or isinstance(node.func.value, ast.Name | ast.BinOp)):
            words = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            mode = words[-1] if words and set(words[-1]) <= set("rwaxbt+") else None
            owner = getattr(getattr(node.func, "value", None), "id", "")
            if mode is not None and "b" not in mode and owner not in {"os", "webbrowser", "scene"}:
                yield node.lineno


def executions(tree):
    """What in a module could make something act."""
    for node in nodes_of(tree, ast.Import, ast.ImportFrom, ast.Call):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases if alias.name.partition(".")[0] in DOORS)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in DOORS:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="yaml"), attr=name)) if name in LOADERS:
                yield f"yaml.{name}"


def imports_by_name(tree):
    """Whether a module imports by a name that it does not write out."""
    return any(
        getattr(call.func, "attr", getattr(call.func, "id", "")) == "import_module"
        and not (call.args and isinstance(call.args[0], ast.Constant))
        for call in nodes_of(tree, ast.Call)
    )


def test_only_clocks_reads_the_machine():
    ours = [path for path in trees() if path not in OWN_CLOCKS and not path.startswith("cli/demo/")]
    assert [f"{path}:{line}" for path in ours for line in clock_readings(trees()[path])] == []
    for text in ("import time\ntime.sleep(1)", "from time import time", "now = time.monotonic"):
        assert [*clock_readings(ast.parse(text))], text


def test_every_text_says_its_encoding():
    every = trees() | {file.as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in WINDOWS}
    assert [f"{path}:{line}" for path, tree in every.items() for line in without_encoding(tree)] == []
    unsaid = ("p.read_text()", "p.write_text('x')", "open(p, 'w')", "(a / b).open('a')")
    said = ("p.read_text(encoding='utf-8')", "open(p, 'rb')", "p.read_bytes()", "p.read_text('utf-8')", "os.open(p, 1)")
    assert [text for text in (*unsaid, *said) if [*without_encoding(ast.parse(text))]] == [*unsaid]


def test_nothing_makes_code_of_data():
    there = {(path, name) for path, tree in trees().items() for name in executions(tree)}
    assert there <= ALLOWED, there - ALLOWED
    source = "import pickle\nfrom marshal import loads\neval('1')\nimport yaml\nyaml.load(x)\nyaml.safe_load(x)\n"
    assert {*executions(ast.parse(source))} == {"pickle", "marshal", "eval", "yaml.load"}


def test_only_known_modules_import_by_name():
    there = {path for path, tree in trees().items() if imports_by_name(tree)}
    assert there <= IMPORTERS, "a name out of a file must never be imported"
    assert imports_by_name(ast.parse("importlib.import_module(name)"))
