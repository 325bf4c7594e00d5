"""`agentreplay check audit`: which changes the keys of snapshots do not show, and whether replies depend on them.

What each snapshot gives is kept below the private folder, with a digest of the file and of the rules: a second audit
decodes only what has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.order_permutations import ReplySample, Separator, find_separators
from pytest_agentreplay.compare.key_audit import KeyAudit, Sensitivity
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.errors import CannotWrite, SnapshotError
from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.model.exchanges import Exchange, Failure, HttpReply, Json, Run, ToolReply
from pytest_agentreplay.model.paths import relative_path
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.runs.offline_session import RULES_FILE, list_accepted_rules
from pytest_agentreplay.runs.redact.redaction_setup import find_policy
from pytest_agentreplay.settings.parsers import make_rules, parse_ignored, parse_keep
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path, layout, projects, reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.rules import Rule

FORMAT = 1
"""Of the file in which results are kept: another number reads every snapshot again."""
KEPT = {"digest", "tried", "hidden", "faults", "samples", "advice"}
SHOWN = 48
"""Characters of a value that are kept; longer ones end in their digest."""
IGNORE = "agentreplay_ignore"


@dataclass(slots=True)
class ProjectAudit:
    """What an audit of a project's snapshots has come to.

    `faults` are the hidden changes that no rule declares, by file. `advice` says by path how to compare a field again.
    `damaged` are the errors of snapshots that cannot be read. `unchanged` snapshots were audited before.
    """

    snapshots: int = 0
    unchanged: int = 0
    sensitivity: Sensitivity = field(default_factory=Sensitivity)
    faults: dict[str, list[str]] = field(default_factory=dict)
    separators: list[Separator] = field(default_factory=list)
    advice: dict[str, str] = field(default_factory=dict)
    damaged: list[SnapshotError] = field(default_factory=list)


def audit_snapshots(root: Path, snapshots: Iterable[Path]) -> ProjectAudit:
    """Audit these files under the rules of the project at `root`. Raises SettingsError and PolicyError."""
    matching, rules_digest = make_project_matching(root)
    place = layout.private_folder(root) / "audit.json"
    kept = read_kept(place, rules_digest)
    audit, audited, samples = KeyAudit(matching, READER), ProjectAudit(), list[ReplySample]()
    results: dict[str, Any] = {}
    for snapshot in snapshots:
        path = relative_path(snapshot.absolute(), root)
        try:
            data = reading.data(snapshot)
            result = kept.get(path, {})
            identity = hashlib.sha256(data).hexdigest()
            if result.get("digest") != identity:
                run = codec.loads(data, file=format_path(snapshot)).run
                result = {"digest": identity, **audit_run(run, audit, matching)}
        except SnapshotError as error:
            audited.damaged.append(error)
            continue
        results[path] = result
        audited.snapshots += 1
        audited.unchanged += result is kept.get(path)
        audited.sensitivity.add(Sensitivity(result["tried"], Counter(result["hidden"]), Counter(result["faults"])))
        if result["faults"]:
            audited.faults[format_path(snapshot)] = list(result["faults"])
        audited.advice |= result["advice"]
        samples += [ReplySample(*sample) for sample in result["samples"]]
    audited.separators = find_separators(samples)
    if audited.unchanged < audited.snapshots:
        others = {path: result for path, result in kept.items() if files.exists(root / path)}
        with suppress(CannotWrite):  # in a checkout that is read-only each audit reads everything
            files.make_private_folder(layout.private_folder(root))
            files.write_whole(place, json.dumps({"rules": rules_digest, "results": others | results}))
    return audited


def make_project_matching(root: Path) -> tuple[Matching, str]:
    """Return when calls are the same in the project at `root`, without what markers say, and a digest of its rules."""
    rules = list_project_rules(root)
    lines, file = projects.ini_lines(root, "agentreplay_keep")
    kept = parse_keep(lines, f"{format_path(file)}: agentreplay_keep")
    compared, personal = sorted(kept["matched_headers"]), sorted(find_policy(root).personal)
    stated = [FORMAT, version("frozen-agentreplay"), compared, personal, [asdict(rule) for rule in rules]]
    return Matching(READER, rules, also=compared, personal=personal), digest(json.dumps(stated))


def list_project_rules(root: Path) -> tuple[Rule, ...]:
    """Return the shipped rules, those that the project has accepted and those of its ini file. Raises SettingsError."""
    lines, file = projects.ini_lines(root, IGNORE)
    ignored = parse_ignored(lines, f"{format_path(Path(file))}: {IGNORE}")
    return (*RULES, *list_accepted_rules(root), *(rule for line in ignored for rule in make_rules(*line)))


def read_kept(place: Path, rules: str) -> dict[str, Any]:
    """Return what former audits under the rules with this digest have kept, by the path of the snapshot."""
    try:
        kept = json.loads(files.read_if_there(place) or b"{}")
        rows = kept["results"].items() if kept["rules"] == rules else ()
        return {path: row for path, row in rows if row.keys() == KEPT}
    except (SnapshotError, ValueError, KeyError, TypeError, AttributeError):  # damaged: it costs time, no more
        return {}


def audit_run(run: Run, audit: KeyAudit, matching: Matching) -> dict[str, Any]:
    """Return what the audit of one run gives, as plain data. Raises SnapshotUnreadable for a damaged body."""
    samples: list[tuple[str, str, dict[str, str]]] = []
    advice: dict[str, str] = {}
    for exchange in run.exchanges:
        if reply := identify_reply(exchange):
            ignored = matching.ignored_values(exchange.call)
            advice |= {path: advise(path, rule) for path, (_, rule) in ignored.items()}
            values = {path: shorten(value) for path, (value, _) in ignored.items()}
            samples.append((matching.key_alone(exchange.call)[:24], reply[:24], values))
    counts = audit.audit(exchange.call for exchange in run.exchanges)
    changes = {"tried": counts.tried, "hidden": dict(counts.hidden), "faults": dict(counts.faults)}
    return {**changes, "samples": samples, "advice": advice}


def identify_reply(exchange: Exchange) -> str:
    """Return a digest of what was decided or returned, without ids and times; "" for an error or nothing."""
    outcome, reply = exchange.outcome, READER.read_reply(exchange.call, exchange.outcome)
    if exchange.abandoned or isinstance(outcome, Failure) or reply.error:
        return ""
    uses: list[Json] = [[use.name, use.arguments] for use in reply.tool_uses]
    if READER.read_call(exchange.call).kind == "model" and (uses or reply.text):
        return digest(canonical([reply.text, uses]))
    if isinstance(outcome, ToolReply):
        return digest(canonical([outcome.value, [*(outcome.items or ())]]))
    answer: Json = reply.result or reply.text
    if isinstance(outcome, HttpReply):
        body = content(outcome.headers, outcome.body)
        answer = [outcome.status, outcome.body.digest if body.kind == "bytes" else drop_incidental(body.tree)]
    return digest(canonical(answer)) if answer else ""


def drop_incidental(tree: Json) -> Json:
    """Return the content of a reply without ids, dates and counts of tokens."""
    if isinstance(tree, list):
        return [drop_incidental(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        name: drop_incidental(value)
        for name, value in tree.items()
        if name not in {"id", "created", "createTime", "usage"} and not name.endswith(("_id", "_at", "Id"))
    }


def shorten(value: Json) -> str:
    """Return a value as a text of bounded length, which stays different from others."""
    text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 10]}...{digest(text)[:7]}"


def advise(path: str, rule: Rule | None) -> str:
    """Return what makes a field compared that is not."""
    part, _, name = path.partition(".")
    if part == "headers":
        return f"add to agentreplay_keep: header:{name} = match"
    if rule is None:
        return f"narrow the pattern in {IGNORE} that makes a part of it equal"
    if rule.source == IGNORE:
        written = rule.path if rule.part == "body" else f"{rule.part}:{rule.path}"
        return f"take out of {IGNORE}: {written} = {rule.reason}"
    if rule.source == RULES_FILE:
        return f"take out of {RULES_FILE}: {rule.path}"
    return "this rule is shipped and no setting undoes it: please report it"
