"""Development stand-in: replaced by the merge of the store."""

from __future__ import annotations
import json, re
from dataclasses import dataclass, field
from pathlib import Path
from pytest_agentreplay.errors import SnapshotUnreadable


@dataclass(frozen=True, slots=True)
class RunEntry:
    where: str
    name: str = ""
    day: str = ""
    id: str = ""
    size: int = 0
    head: dict = field(default_factory=dict)
    problem: str = ""
    changed: str = ""


class RunStore:
    def __init__(self, where):
        self.where = str(where)

    def list_runs(self, since=""):
        root = Path(self.where)
        if not root.is_dir():
            raise SnapshotUnreadable("cannot be read: No such file or directory", file=self.where)
        scan = json.JSONDecoder().raw_decode
        for file in sorted(root.glob("*/*/*.run.json")):
            with file.open("rb") as f:
                text = f.read(2048).decode()
            at = text.find('\n   "capture": ')
            head = scan(text, at + 15)[0] if at >= 0 else {}
            at = text.find('\n  "outcome": ')
            head["outcome"] = scan(text, at + 14)[0]
            at = text.find('\n  "recorded": ')
            head["recorded"] = scan(text, at + 15)[0]
            yield RunEntry(
                str(file),
                file.parent.parent.name,
                file.parent.name,
                file.name.removesuffix(".run.json"),
                file.stat().st_size,
                head,
                changed=str(file.stat().st_mtime_ns),
            )

    def read(self, entry):
        return Path(entry.where).read_bytes()

    def delete(self, entry):
        Path(entry.where).unlink()
