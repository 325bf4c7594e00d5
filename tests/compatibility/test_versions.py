"""Snapshots, captured runs, cases and policies keep one promise about versions: docs/reference/works-with.md says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agentreplay.cases.schema.parse import read_case
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.redaction import policies
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.seal_digest import write_sealed
from tests.support.package_sources import ROOT
from tests.support.stored_runs import post, reply, run_of

CASE = (ROOT / "cases" / "refund" / "case.yaml").read_text(encoding="utf-8")
POLICY = 'schemaVersion: "1.0"\npii: true\n'


def read_snapshot(version, more, **header):
    document = json.loads(codec.dumps(run_of((post(b"{}"), reply(b"{}")), **header)))
    del document["integrity"]
    return codec.loads(
        write_sealed(document | {"schemaVersion": version, **({"extra": 1} if more else {})}), file="f"
    ).notes


def read_captured(version, more):
    return read_snapshot(version, more, kit={"capture": {"id": "9f0c", "name": "refund"}})


def read_one_case(version, more):
    text = CASE.replace('schemaVersion: "1.0"', f'schemaVersion: "{version}"') + ("extra: 1\n" if more else "")
    return read_case(text.encode(), file="case.yaml", folder=Path("refund")).notes


def read_policy(version, more):
    text = POLICY.replace("1.0", version) + ("extra: 1\n" if more else "")
    return () if policies.parse(text.encode(), "policy.yaml").pii else ("",)


READERS = [read_snapshot, read_captured, read_one_case, read_policy]


@pytest.mark.parametrize("read", READERS)
def test_each_file_keeps_the_promise_about_versions(read):
    assert read("1.0", more=False) == ()
    with pytest.raises(AgentReplayError, match="extra"):
        read("1.0", more=True)
    with pytest.raises(AgentReplayError, match="pip install --upgrade frozen-agentreplay"):
        read("2.0", more=False)
    if read is read_policy:
        assert read("1.9", more=False) == ()
        with pytest.raises(AgentReplayError, match="extra"):
            read("1.9", more=True)
    else:
        assert "extra" in "".join(read("1.9", more=True))
