"""Whether a prompt was edited: a file of the project holds its words of now, and none holds the recorded ones."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.classify import STATE_CAUSE
from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.snapshots.store import files, snapshots

if TYPE_CHECKING:
    from pytest_agentreplay.model.divergence import Divergence

AROUND, SHORTEST = 10, 8  # characters on both sides of a change that are looked up with it, and of all that is
FILES, LARGEST = 2000, 1 << 20  # files that are read, and bytes of one
WRITTEN = {".j2", ".jinja2", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}

_BETWEEN = re.compile(r"""(?:\\n|[\s"'\\])+""")  # what stands between the parts of a text in source code


def explain_edit(divergence: Divergence, root: Path) -> Divergence:
    """Return the divergence, which says of a prompt that may show a tool's state in which file it was edited."""
    if divergence.cause.startswith(STATE_CAUSE):
        recorded, now = map(str, divergence.differences[0][1:3])
        if edited := find_edited_file(root, recorded, now):
            return replace(divergence, cause=f"the prompt was edited: {edited} holds the words of now")
    return divergence


def find_edited_file(root: Path, recorded: str, now: str) -> str:
    """Return the file, from `root`, that holds what `now` has in place of `recorded`; "" for none, or if one has both.

    A text that the state of a program is put into stands in no file as it is sent, or both sides of it do.
    """
    start, old, new = texts.hunk(recorded, now)
    before = recorded[:start].rpartition("\n")[2][-AROUND:]
    after = recorded[start + len(old) :].partition("\n")[0][:AROUND]
    was, words = (_BETWEEN.sub(" ", f"{before}{text}{after}").strip() for text in (old, new))
    if len(words) < SHORTEST or not (new.strip() or (before.strip() and after.strip())):
        return ""
    edited = ""
    folders = ((here, names) for here, names in snapshots.walk(root) if not here.name.startswith("__"))
    sources = (here / name for here, names in folders for name in names if Path(name).suffix in WRITTEN)
    for file in islice(sources, FILES):
        with suppress(AgentReplayError):
            text = _BETWEEN.sub(" ", files.read_file(file, LARGEST).decode("utf-8", "replace"))
            if old.strip() and was in text:
                return ""
            edited = edited or (file.relative_to(root).as_posix() if words in text else "")
    return edited
