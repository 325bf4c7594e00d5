"""What the plugin costs one replayed test: CPU seconds of the whole pytest process over the same test without it.

    python tests/benchmarks/cost_of_one.py [--rounds 5] [--tree CHECKOUT]

The checkout is installed twice, as a wheel and editable, each in an environment of its own beside openai and httpx2.
A test makes three calls, by httpx2 or by the openai SDK: without the plugin they go to a server in this process, with it
they are replayed. "no byte code" is PYTHONDONTWRITEBYTECODE=1, as many container images set it: pip has compiled the
wheel all the same, an editable install has no byte code at all. The runs of a row take turns; medians are printed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.model_server import ModelServer

ROOT = Path(__file__).parents[2]
TESTS = {
    "httpx2": """
import os, httpx2

def test_three_calls():
    for number in range(3):
        body = {"model": "m", "messages": [{"role": "user", "content": f"say {number}"}]}
        httpx2.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body).raise_for_status()
""",
    "openai": """
import openai

def test_three_calls():
    client = openai.OpenAI()
    for number in range(3):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"say {number}"}])
""",
}
COUNT = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_unconfigure():
    import sys
    print("modules", sum(name.partition(".")[0] == "pytest_agentreplay" for name in sys.modules))
"""


def processor_seconds(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[float, str]:
    """Run a command; return the CPU seconds that it and its children took, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def install(tree: Path, scratch: Path) -> dict[str, Path]:
    """Install a copy of the tree as a wheel and editable; return the interpreters."""
    copy = scratch / "checkout"
    files = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, files.split("\0")):
        if (
            name.startswith(("pytest_agentreplay/", "pyproject.toml", "README.md", "LICENSE"))
            and (tree / name).exists()
        ):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / name, copy / name)
    pythons = {}
    for way, words in {"wheel": [f"{copy}[demo]"], "editable": ["-e", f"{copy}[demo]"]}.items():
        subprocess.run([sys.executable, "-m", "venv", scratch / way], check=True)
        pythons[way] = scratch / way / "bin/python"
        subprocess.run([pythons[way], "-m", "pip", "install", "-qq", *words], check=True)
    return pythons


def main() -> None:
    """Install, record each test once, measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tree", type=Path, default=ROOT)
    words = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, ModelServer(lambda _, number: f"hello {number}") as server:
        scratch = Path(name)
        pythons = install(words.tree, scratch)
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON", "CI"))}
        environ |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "not-real"}
        for library, test in TESTS.items():
            folder = scratch / library
            folder.mkdir()
            (folder / "test_calls.py").write_text(test)
            (folder / "counting.py").write_text(COUNT)
            for way, python in pythons.items():
                pytest = [str(python), "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "counting"]
                bare = [*pytest, "-p", "no:pytest_agentreplay"]
                ours = [*pytest, "-o", "agentreplay_paths=.", "--replay=model"]
                here = environ | {"PYTHONPATH": str(folder)}
                processor_seconds([*pytest, "-o", "agentreplay_paths=.", "--snapshot-record"], folder, here)
                for label, more in {"byte code": {}, "no byte code": {"PYTHONDONTWRITEBYTECODE": "1"}}.items():
                    if more:  # what pytest has compiled goes, and of the editable install everything
                        for cache in scratch.rglob("*-pytest-*.pyc" if way == "wheel" else "checkout/**/*.pyc"):
                            cache.unlink()
                    taken: tuple[list[float], list[float]] = ([], [])
                    for at in range(words.rounds + 1):
                        for command, times in zip((bare, ours), taken, strict=True):
                            seconds, printed = processor_seconds(command, folder, here | more)
                            if at:  # the first run writes byte code
                                times.append(seconds)
                    without, replayed = map(statistics.median, taken)
                    modules = printed.partition("modules ")[2].split()[0]
                    added = f"{replayed - without:+.2f} s"
                    rows.append((library, way, label, f"{without:.2f} s", f"{replayed:.2f} s", added, modules))
    print(f"{'client':8} {'install':9} {'byte code':13} {'without':>8} {'replayed':>9} {'added':>8} modules of ours")
    for client, way, label, *figures in rows:
        print(f"{client:8} {way:9} {label:13} {figures[0]:>8} {figures[1]:>9} {figures[2]:>8} {figures[3]}")


if __name__ == "__main__":
    main()
