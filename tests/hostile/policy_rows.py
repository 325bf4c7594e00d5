"""What must come of rows about policies and YAML; see `hostile_rows`."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import AgentReplayError, PolicyError
from pytest_agentreplay.redaction import policies
from pytest_agentreplay.redaction.policy import difference
from pytest_agentreplay.snapshots.codec import strict_yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]

PATIENCE = 5.0


def typed(action: Callable[[], object]) -> str:
    """What an action is refused with, in one line and soon; "" when it is not."""
    began = time.process_time()
    try:
        action()
    except AgentReplayError as error:
        assert time.process_time() - began < PATIENCE
        said = str(error)
        assert "\n" not in said
        return said
    return ""


def yaml(row: Row, folder: Path) -> None:
    text = row["payload"]
    if sizes := re.match(r"(\d+) anchors x (\d+) aliases", text):
        anchors, aliases = map(int, sizes.groups())
        rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'lol'] * aliases)}]" for n in range(anchors)]
        text = "\n".join(rows)
    found: list[Any] = []
    said = typed(lambda: found.append(strict_yaml.load(text.encode(), file="some.yaml", error=PolicyError).value))
    assert not said or said.startswith("some.yaml"), said
    if row["expect"] == "reject":
        assert said, "it was read"
    elif not said:
        told = dict(line.split(": ", 1) for line in text.splitlines())
        plain = re.compile(r"true|false|null|-?\d+")
        assert found == [{key: json.loads(word) if plain.fullmatch(word) else word for key, word in told.items()}]
    assert not list(folder.iterdir())


def policy(rows: str) -> Any:
    return policies.parse(f'schemaVersion: "1.0"\n{rows}\n'.encode(), "some.yaml")


def redos(row: Row, folder: Path) -> None:
    found: list[Any] = []
    rule = f"patterns:\n  - category: customer\n    regex: {json.dumps(row['payload'])}\n    reason: tried"
    if said := typed(lambda: found.append(policy(rule))):
        assert said.startswith("some.yaml"), said
        return
    for word in ("a", "ab", "a ", "1", "x", "a."):
        for shape in found[0].shapes:
            began = time.process_time()
            list(shape.find((word * 10_000)[:10_000].encode() + b"!"))
            assert time.process_time() - began < PATIENCE, row["payload"]


def jsonpath(row: Row, folder: Path) -> None:
    said = typed(lambda: policy(f"paths:\n  customer: [{json.dumps(row['payload'])}]"))
    assert said.startswith("some.yaml"), said or "it was taken"
    assert not list(folder.iterdir())


def weaken(row: Row, folder: Path) -> None:
    strong = policy("patterns:\n  - category: customer\n    regex: CUST-[0-9]{6}\n    reason: tried")
    for weak in (policy(""), policy("keep_headers: [X-Shop]")):
        assert any(change.weaker for change in difference(weak, strong))
    assert not any(change.weaker for change in difference(strong, strong))


CHECKS: dict[str, Callable[[Row, Path], None]] = {
    **{f"yaml-{name}": yaml for name in ("tag", "bomb", "merge", "types", "dup", "multi")},
    "redos": redos,
    "policy-jsonpath": jsonpath,
    "policy-weaken": weaken,
}
