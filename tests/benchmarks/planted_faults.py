"""Plant faults of one line in a copy of the package, and list which of them a suite notices.

    python tests/benchmarks/planted_faults.py choose FAULTS.json             80 faults, spread over the packages by size
    python tests/benchmarks/planted_faults.py plant FAULTS.json TREE         write them into TREE, each behind a switch
    python tests/benchmarks/planted_faults.py reach TREE OUT [-- PYTEST...]  run the suite once: which test reaches which fault
    python tests/benchmarks/planted_faults.py try FAULTS.json TREE OUT       switch on one at a time, run what reaches it
    python tests/benchmarks/planted_faults.py compare OUT OUT                the table of two suites

TREE is a checkout that may be spoilt, with an environment of its own in `TREE/.venv` (README's test command makes it).
A fault is an expression `S` that becomes `(M if __planted__(7) else S)`, so one tree holds all of them and the lines
keep their numbers. A fault is noticed when a test fails that passes without it, or when its tests do not end.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pytest_agentreplay"
SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip

# Runs in every interpreter of the environment by a .pth file, and in the suite's pytest as a plugin.
RUNTIME = '''"""The switch of planted faults. PYTEST_DONT_REWRITE"""
import builtins, os
active = int(os.environ.get("PLANTED_FAULT", "-1"))
log = os.environ.get("PLANTED_LOG")
test = os.environ.get("PLANTED_TEST", "")
outer = not test
seen = set()

def planted(number):
    if log and number not in seen:
        seen.add(number)
        try:
            line = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(line, f"{number}\\t{test}\\n".encode())
            os.close(line)
        except BaseException:
            pass
    return number == active

builtins.__planted__ = planted

def pytest_runtest_logstart(nodeid, location):
    global test
    if outer and log:
        test = nodeid
        os.environ["PLANTED_TEST"] = nodeid
        seen.clear()
'''


def faults_of(file: Path) -> list[dict[str, object]]:
    """Every place of a module where a fault can be planted, as the expression, its fault and where it stands."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    places: list[dict[str, object]] = []
    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for node in ast.walk(tree):
        function = function_of(node, parents)
        if function is None or getattr(node, "lineno", 0) != getattr(node, "end_lineno", 1):
            continue
        for kind, old, new in mutations(node, parents):
            source = ast.get_source_segment(text, old)
            key = (function, kind, str(source))
            counts[key] += 1
            places.append(
                {
                    "file": file.relative_to(PACKAGE.parent).as_posix() if file.is_relative_to(PACKAGE) else "",
                    "function": function,
                    "kind": kind,
                    "line": old.lineno,
                    "source": source,
                    "fault": new,
                    "nth": counts[key],
                    "span": [old.lineno, old.col_offset, old.end_col_offset],
                }
            )
    return places


def function_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str | None:
    """The dotted name of the function in whose body `node` stands; None in annotations, decorators, patterns and texts."""
    names: list[str] = []
    while (parent := parents.get(node)) is not None:
        if isinstance(parent, ast.JoinedStr | ast.arguments | ast.arg | ast.match_case | ast.pattern | ast.AnnAssign):
            in_body = isinstance(parent, ast.match_case) and node in parent.body
            if not in_body and not (isinstance(parent, ast.AnnAssign) and node is parent.value):
                return None
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            if node not in parent.body:
                return None
            names.append(parent.name)
        if isinstance(parent, ast.ClassDef) and names:
            names.append(parent.name)
        node = parent
    return ".".join(reversed(names)) or None


def mutations(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> list[tuple[str, ast.expr, str]]:
    """The faults that `node` can get: kind, the expression that is replaced, the text that replaces it."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            swapped = ast.Compare(node.left, [SWAPPED[type(operator)]()], node.comparators)
            return [("condition", node, ast.unparse(swapped))]
        case ast.BoolOp():
            other = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            return [("condition", node, ast.unparse(other))]
        case ast.UnaryOp(op=ast.Not()):
            return [("condition", node, ast.unparse(node.operand))]
        case ast.Expr(value=ast.Call() | ast.Await() as call):
            return [("dropped call", call, "None")]
        case ast.Constant(value=bool() as value):
            return [("constant", node, repr(not value))]
        case ast.Constant(value=int() as value):
            return [("off by one", node, repr(value + 1))]
        case ast.Constant(value=str() as value) if 2 <= len(value) <= 30 and " " not in value:
            return [] if isinstance(parents[node], ast.Expr) else [("constant", node, repr(value + "x"))]
    return []


def choose(count: int, seed: int) -> list[dict[str, object]]:
    """Choose faults, each package by its lines, each kind as often as any other, no two in a line."""
    chance = random.Random(seed)
    by_package: dict[str, list[Path]] = collections.defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        by_package[file.relative_to(PACKAGE).parts[0]].append(file)
    lines = {name: sum(len(file.read_text().splitlines()) for file in files) for name, files in by_package.items()}
    shares = {name: count * size / sum(lines.values()) for name, size in lines.items()}
    numbers = {name: int(share) for name, share in shares.items()}
    for name in sorted(shares, key=lambda name: numbers[name] - shares[name])[: count - sum(numbers.values())]:
        numbers[name] += 1
    chosen: list[dict[str, object]] = []
    for name, number in numbers.items():
        places: dict[str, list[dict[str, object]]] = collections.defaultdict(list)
        for file in by_package[name]:
            for place in faults_of(file):
                places[str(place["kind"])].append(place)
        taken: set[tuple[object, object]] = set()
        while len(taken) < number:
            place = chance.choice(places[chance.choice(sorted(places))])
            if (where := (place["file"], place["line"])) not in taken:
                taken.add(where)
                chosen.append(place)
    return chosen


def plant(faults: list[dict[str, object]], tree: Path) -> list[int]:
    """Write each fault behind its switch; returns the numbers of those whose expression `tree` does not hold."""
    edits: dict[Path, list[tuple[list[int], str]]] = collections.defaultdict(list)
    absent = []
    for number, fault in enumerate(faults):
        file = tree / str(fault["file"])
        same = ("function", "kind", "source", "nth")
        package = tree.joinpath(*Path(str(fault["file"])).parts[:2])
        moved = sorted(package.rglob("*.py")) if package.is_dir() else []
        place = None
        for candidate in [file] * file.exists() + moved:  # its own file first: a tree of another time has other files
            places = [place for place in faults_of(candidate) if all(place[key] == fault[key] for key in same)]
            if places:
                file, place = candidate, places[0]
                break
        if place is None:
            absent.append(number)
        else:
            edits[file].append((place["span"], f"({fault['fault']} if __planted__({number}) else {fault['source']})"))  # type: ignore[arg-type]
    for file, changes in edits.items():
        lines = file.read_bytes().split(b"\n")
        for (line, begin, end), text in sorted(changes, reverse=True):
            lines[line - 1] = lines[line - 1][:begin] + text.encode() + lines[line - 1][end:]
        file.write_bytes(b"\n".join(lines))
        compile(file.read_text(encoding="utf-8"), str(file), "exec")
    packages = next((tree / ".venv").glob("lib/python*/site-packages"))
    (packages / "planted_faults_runtime.py").write_text(RUNTIME, encoding="utf-8")
    (packages / "planted_faults_runtime.pth").write_text("import planted_faults_runtime\n", encoding="utf-8")
    return absent


def pytest_in(tree: Path, *words: str, seconds: float, **environ: str) -> tuple[int | None, str]:
    """Run the suite's pytest in `tree`: its exit code, None if it did not end, and what it printed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "AGENTREPLAY", "PLANTED"))}
    command = [str(tree / ".venv/bin/python"), "-m", "pytest", "-p", "planted_faults_runtime", *words]
    kept |= {"PATH": f"{tree / '.venv/bin'}:{kept['PATH']}", "VIRTUAL_ENV": str(tree / ".venv")} | environ
    process = subprocess.Popen(
        command, cwd=tree, env=kept, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        return process.returncode if (
            output := process.communicate(timeout=seconds)[0]
        ) is None else process.wait(), output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def reach(tree: Path, out: Path, words: list[str]) -> None:
    """Run the suite once with all faults switched off, and keep which test came by which."""
    out.mkdir(parents=True, exist_ok=True)
    log = (out / "reached.tsv").resolve()
    log.unlink(missing_ok=True)
    begin = time.monotonic()
    code, output = pytest_in(
        tree, *words, f"--junitxml={(out / 'junit.xml').resolve()}", seconds=3 * 3600, PLANTED_LOG=str(log)
    )
    (out / "output.txt").write_text(output, encoding="utf-8")
    print(f"exit code {code} after {time.monotonic() - begin:.0f} s")
    print(output[-3000:])


def try_faults(faults: list[dict[str, object]], tree: Path, out: Path, *, seconds: float, at_once: int) -> None:
    """Switch on one fault at a time and run the tests that reach it, in random order, until one fails."""
    reached: dict[int, list[str]] = collections.defaultdict(list)
    for line in (out / "reached.tsv").read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition("\t")
        if test and test not in reached[int(number)]:
            reached[int(number)].append(test)
    file = out / "noticed.json"
    results: dict[str, object] = json.loads(file.read_text()) if file.exists() else {}

    def attempt(number: int) -> None:
        tests = reached[number]
        random.Random(number).shuffle(tests)
        begin, ran = time.monotonic(), 0
        result = "not noticed" if tests else "not reached"
        while tests[ran:]:
            batch = tests[ran : ran + (12 if not ran else 60)]
            if time.monotonic() - begin > seconds:
                result = f"not noticed by {ran} of {len(tests)} tests"
                break
            ran += len(batch)
            code, output = pytest_in(
                tree, "-x", "-q", "-p", "no:cacheprovider", *batch, seconds=420, PLANTED_FAULT=str(number)
            )
            if code != 0:
                failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
                if failed and ".py" in failed[0]:
                    test = failed[0].partition(" ")[2].partition(" - ")[0]
                    bare, _ = pytest_in(tree, "-q", "-p", "no:cacheprovider", test, seconds=300)
                    if bare != 0:  # fails without the fault too
                        continue
                result = failed[0][:200] if failed else f"exit code {code}"
                break
        results[str(number)] = {
            "result": result,
            "ran": ran,
            "tests": len(tests),
            "seconds": round(time.monotonic() - begin),
        }
        file.write_text(json.dumps(results, indent=1), encoding="utf-8")
        print(number, results[str(number)], flush=True)

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(attempt, [number for number in range(len(faults)) if str(number) not in results]))


def compare(faults: list[dict[str, object]], outs: list[Path]) -> None:
    """Print a row per fault, with what each suite said, and the sums."""
    suites = [json.loads((out / "noticed.json").read_text()) for out in outs]
    sums = [0] * len(suites)
    for number, fault in enumerate(faults):
        words = []
        for index, suite in enumerate(suites):
            result = suite.get(str(number), {}).get("result", "absent")
            noticed = not result.startswith(("not ", "absent"))
            sums[index] += noticed
            words.append("noticed" if noticed else result)
        print(f"| {number} | {fault['file']}:{fault['line']} | {fault['kind']} | {' | '.join(words)} |")
    print("noticed:", *sums)


def main() -> None:
    """Read the command line."""
    words, _, more = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["choose", "plant", "reach", "try", "compare"])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--seconds", type=float, default=240, help="for one fault")
    parser.add_argument("--at-once", type=int, default=2)
    chosen = parser.parse_args(words.split())
    faults = json.loads(chosen.paths[0].read_text()) if chosen.do not in ("choose", "reach") else []
    match chosen.do:
        case "choose":
            chosen.paths[0].write_text(json.dumps(choose(chosen.count, chosen.seed), indent=1), encoding="utf-8")
        case "plant":
            print("absent:", plant(faults, chosen.paths[1].resolve()))
        case "reach":
            reach(chosen.paths[0].resolve(), chosen.paths[1], more.split())
        case "try":
            try_faults(
                faults, chosen.paths[1].resolve(), chosen.paths[2], seconds=chosen.seconds, at_once=chosen.at_once
            )
        case "compare":
            compare(faults, chosen.paths[1:])


if __name__ == "__main__":
    main()
