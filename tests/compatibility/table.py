"""The table of docs/reference/works-with.md: makes an environment a row, runs the check in it, writes the page.

    pip install uv && python tests/compatibility/table.py                        # every row that this machine can try
    python tests/compatibility/table.py --only "pytest-xdist" --only "Python 3.14"
    python tests/compatibility/table.py --page                                   # the page alone, from results.json

A row that cannot be tried here (no such Python, no network to another place) keeps what was found before, or says
where it is tried. Exits with 1 when a row that was tried falls short.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rows import PLUGINS, VERSIONS, Row

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "reference" / "works-with.md"
CHECK = Path(__file__).with_name("check.py")
STEPS = ("record", "replay", "divergence")
USUAL = "Python 3.11.7, Linux"
"""Where a row was tested that names no other place; the page says so above its tables."""
BEGINS, ENDS = "<!-- {} begins -->", "<!-- {} ends -->"


class CannotTry(Exception):
    """This machine has not what the row needs."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        windows = self.folder / "Scripts" / "python.exe"
        return windows if windows.exists() else self.folder / "bin" / "python"

    @classmethod
    def made(cls, row: Row, folder: Path) -> Environment:
        """An environment with what the row needs. Raises CannotTry."""
        self = cls(folder)
        ours = ["-e", ROOT] if row.editable else [ROOT]
        asked = ["-r", ROOT / "tests" / "envs" / f"{row.env}.txt"] if row.env else [*ours, "httpx2", *row.needs]
        if not row.env and not any(need.startswith(row.agent) for need in row.needs):
            asked.append(row.agent)
        say("uv", "venv", "--quiet", "--no-python-downloads", "--python", row.python, folder)
        say("uv", "pip", "install", "--quiet", "--python", self.python, *asked)
        return self


def run(*command: object, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The finished process of a command."""
    return subprocess.run([*map(str, command)], cwd=folder, capture_output=True, encoding="utf-8", check=False)


def say(*command: object) -> None:
    """Run a step of the setting up. Raises CannotTry with its last line."""
    done = run(*command)
    if done.returncode:
        raise CannotTry((done.stderr.strip() or "no word").splitlines()[-1].strip())


def tried(row: Row, folder: Path) -> dict[str, object]:
    """What the check finds for a row. Raises CannotTry."""
    python = Environment.made(row, folder / "env").python
    if row.module:
        done = run(python, "-m", "pytest", "-q", "--env", row.env, row.module)
        found = dict.fromkeys(STEPS, not done.returncode) | json.loads(run(python, CHECK, "--facts").stdout)
        found["wrong"] = {"module": done.stdout} if done.returncode else {}
    else:
        offline = [f"--offline={word}" for word in row.offline]
        words = ["--agent", row.agent, "--test", row.test, *offline, "--", *shlex.split(row.words)]
        done = run(python, CHECK, *words, folder=folder)
        if done.returncode:
            raise CannotTry(done.stderr.strip().splitlines()[-1])
        found = json.loads(done.stdout)
    for step, text in found.pop("wrong").items():
        print(f"--- {row.name}: {step}\n{text}", file=sys.stderr)
    versions = found.pop("versions")
    found["with"] = ", ".join(f"{name} {versions[name]}" for name in row.shown if name in versions)
    found["on"] = dt.datetime.now(dt.UTC).date().isoformat()
    return found


def rendered(results: dict[str, dict[str, object]], rows: tuple[Row, ...]) -> str:
    """A table in Markdown; no cell is empty."""
    lines = ["| with | tested versions |", "| --- | --- |"]
    for row in rows:
        found = results.get(row.name)
        if found is None:
            tested = f"not yet: only in {row.elsewhere}"
        else:
            failed = [step for step in STEPS if not found[step]]
            result = f"FAILED ({', '.join(failed)}): " if failed else ""
            place = f"Python {found['python']}, {found['system']}"
            versions = found["with"].removeprefix(f"{row.name} ")
            tested = result + (versions if place == USUAL else f"{versions}, {place}")
        note = f"; {row.note}" if row.note else ""
        lines.append(f"| {row.name} | {tested}{note} |")
    return "\n".join(lines)


def page(results: dict[str, dict[str, object]], text: str) -> str:
    """The page with its tables made anew; its words stay."""
    for name, rows in (("plugins", PLUGINS), ("versions", VERSIONS)):
        before, rest = text.split(BEGINS.format(name))
        _, after = rest.split(ENDS.format(name))
        table = f"{BEGINS.format(name)}\n\n{rendered(results, rows)}\n\n{ENDS.format(name)}"
        text = before + table + after
    return text


def main() -> int:
    """Try the rows that are wanted, keep what is found, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ROW", help="the name of a row; may be given again")
    parser.add_argument("--page", action="store_true", help="write the page from what was found before")
    given = parser.parse_args()
    rows = [row for row in (*PLUGINS, *VERSIONS) if given.only is None or row.name in given.only]
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    short = []
    for row in () if given.page else rows:
        if row.elsewhere and not given.only:
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                found = results[row.name] = tried(row, Path(folder))
            except CannotTry as error:
                print(f"{row.name}: not tried here: {error}")
                continue
        print(f"{row.name}: {', '.join(f'{step} {found[step]}' for step in STEPS)} ({found['with']})")
        short += [row.name] * (not all(found[step] for step in STEPS))
        RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    PAGE.write_text(page(results, PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
