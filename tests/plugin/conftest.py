"""Reports as people read them, kept as files: `AGENTREPLAY_WRITE_GOLDEN=1 pytest ...` writes them anew."""

import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def golden():
    """Asserts that a report, from its headline to the line of the snapshot, is the one that is kept by this name."""

    def check(name, done):
        _, code, text = done.stdout.partition("[AR-")
        text = code + text.partition("  snapshot ")[0]
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()

    return check
