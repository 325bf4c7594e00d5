"""A neighbour that breaks an invariant, kept as a case: its base, the perturbations, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE
from pytest_agentreplay.cases.schema.model import VERSION
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.runs.case_files.case_writer import lay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.runs.fuzz.shrinking import FuzzFailure

LONGEST = 60  # characters of a folder's name, without its digest


def write(cases: Path, root: Path, test: str, failure: FuzzFailure) -> Path:
    """Write the case of a failure into a folder of its own below `cases`; return its file.

    `test` is the node id of a test, or the path of a case file from `root`. The same failure has the same folder: what
    stands there already is left as it is. Raises CannotWrite.
    """
    perturb = [each.plain() for each in failure.neighbour]
    name = make_name(test, ["race"] if failure.race else [each.operator for each in failure.neighbour], perturb)
    file = cases / name / FILE
    base = test if "::" in test else Path(os.path.relpath((root / test).parent, file.absolute().parent)).as_posix()
    title = f"{failure.name}: {failure.violation.text}"[:480]
    lines = [
        f'schemaVersion: "{VERSION}"',
        f"id: {name}",
        f"title: {json.dumps(title)}",
        f"base: {json.dumps(base)}",
        "perturb:",
        *(f"  - {json.dumps(each)}" for each in perturb),
        "# reproduces: the invariant does not hold yet; fixed: it holds, and has to from now on",
        "expect: reproduces",
    ]
    lay(file.parent, {FILE: "".join(f"{line}\n" for line in lines).encode()})
    return file


def make_name(test: str, kinds: Sequence[str], perturb: list[JsonObject]) -> str:
    """Return the name of the folder: of the test or case, what was changed, and a digest of that with its arguments."""
    subject = test.rpartition("::")[2] if "::" in test else Path(test).parent.name
    words = "-".join([subject, *kinds])
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-.")[:LONGEST]
    return f"{slug}-{hashlib.sha256(canonical([test, *perturb]).encode()).hexdigest()[:6]}"
