"""What a page of a long run costs: `python -m tests.benchmarks.pages [TURNS]`, with nothing else beside it.

Prints the processor seconds that writing takes in a fresh process, the size of the page, and the seconds until Chromium
has drawn it: the median of five.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests.support.browser import Browser
from tests.support.shown_runs import long_run, write_run

ROUNDS = 5


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_page(run, page):
    """Return the processor seconds of `agentreplay html`."""
    before = children_seconds()
    command = [sys.executable, "-m", "pytest_agentreplay", "html", run, "--out", page]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return children_seconds() - before


def main(turns):
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder, "run.snapshot.json"), long_run(turns))
        page = Path(folder, "run.html")
        written = median(write_page(run, page) for _ in range(ROUNDS))
        browser = Browser()
        opened = median(browser.open(page) for _ in range(ROUNDS))
        shown = browser.value("document.querySelectorAll('.turns button').length")
        browser.close()
        print(f"{shown:,} turns, snapshot {run.stat().st_size / 1e6:.2f} MB: written in {written:.2f} s of processor")
        print(f"time, page {page.stat().st_size / 1e6:.2f} MB, drawn {opened:.2f} s after it was asked for")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1000)
