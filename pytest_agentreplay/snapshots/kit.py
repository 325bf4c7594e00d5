"""The replay kit of a run: every field that a full replay needs, whether it is there, and what that amounts to.

Computed from what was recorded, never declared. A field is captured, absent, or not applicable to this run.

The drift of a kit is what around a run is not as it was recorded: kept variables, declared files, flags, locale,
versions. It is reported beside a divergence, never compared: it says where to look. Both sides are kits as headers hold
them, redacted.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import HttpReply, ToolCall
from pytest_agentreplay.model.turns import top_level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Run
    from pytest_agentreplay.model.reading import CallReading, Reader

OF_VERSIONS = frozenset({Kind.SDK, Kind.SCHEMA, Kind.REQUEST})
"""Divergences that another version of a library may well have made."""


RESELLERS = frozenset({"aws.bedrock", "azure.ai.inference", "azure.ai.openai"})
"""Platforms that retire the models of others by days of their own."""


def drift(recorded: JsonObject, today: JsonObject, kind: Kind | None = None) -> tuple[str, ...]:
    """Return a line for each thing that changed since the recording; versions only where they may explain `kind`."""
    lines = [*environment(recorded, today), *files(recorded, today), *flags(recorded, today)]
    lines += [f"locale {name} is not on this machine" for name in texts(today.get("missing_locale"))]
    lines += hash_order(table(recorded, "hash"), table(today, "hash"))
    if kind in OF_VERSIONS:
        lines += versions(recorded, today)
    return tuple(lines)


def environment(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Yield variables that are kept, as far as both or one of the sides has them."""
    old, new = table(recorded, "environment"), table(today, "environment")
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"environment {name}: {side(old, name)} -> {side(new, name)}"


def files(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Yield declared files whose content is another, that went, or that came; a file of no recording is no drift."""
    old, new = table(recorded, "fixtures"), table(today, "fixtures")
    for name in sorted({*old, *new} if old else ()):
        if old.get(name) == new.get(name):
            continue
        if name not in new:
            yield f"kept file {name} is no longer named"
        elif new[name] == "missing":
            yield f"kept file {name} is gone"
        else:
            yield f"kept file {name} {'is new' if old.get(name, 'missing') == 'missing' else 'has another content'}"


def flags(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Yield facts that the test has told already, and that it told otherwise."""
    old, new = table(recorded, "annotations"), table(today, "annotations")
    for name in sorted(new):
        if old.get(name) != new[name]:
            yield f"annotation {name}: {side(old, name)} -> {side(new, name)}"


def hash_order(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Yield whether sets came in an order that is not today's, and could come in it again."""
    if old != new and isinstance(old.get("seed"), int):
        now = f"PYTHONHASHSEED={new['seed']}" if "seed" in new else "random"
        yield f"order of sets: PYTHONHASHSEED={old['seed']} -> {now}"


def versions(recorded: JsonObject, today: JsonObject) -> Iterator[str]:
    """Yield what differs in interpreter and libraries; one that is not loaded on one side says nothing."""
    if recorded.get("python") not in (None, today.get("python")):
        yield f"python {recorded['python']} -> {today.get('python')}"
    old, new = table(recorded, "packages"), table(today, "packages")
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"{name} {old[name]} -> {new[name]}"
    locked, locks = table(recorded, "locks"), table(today, "locks")
    yield from (f"{name} has another content" for name in sorted(locked.keys() & locks) if locked[name] != locks[name])


def list_models(kit: JsonObject) -> tuple[str, ...]:
    """Return the ids of the models that were asked at their providers; Google's API has them as "models/ID"."""
    entries_of_models = (entry for entry in entries(kit, "models") if isinstance(entry, dict))
    names = (str(entry.get("model", "")) for entry in entries_of_models if entry.get("provider") not in RESELLERS)
    return tuple(dict.fromkeys(name.removeprefix("models/") for name in names if name))


def list_unfrozen(kit: JsonObject) -> tuple[str, ...]:
    """Return the tools that ran unseen while recording: they run for real in each replay."""
    return tuple(text_of(entry, "tool") for entry in entries(kit, "unfrozen"))


def table(kit: JsonObject, name: str) -> JsonObject:
    """Return one entry of a kit that is an object; a file may hold anything there."""
    entry = kit.get(name)
    return entry if isinstance(entry, dict) else {}


def texts(value: Json) -> list[str]:
    """Return the texts of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def side(values: JsonObject, name: str) -> str:
    """Return one side as it is shown."""
    return canonical(values[name]) if name in values else "(not set)"


class Status(Enum):
    """Whether a field is there. What is not applicable is missing from nothing."""

    CAPTURED = "captured"
    ABSENT = "absent"
    NOT_APPLICABLE = "n/a"


class KitField(NamedTuple):
    """One thing that was around the run or crossed its boundaries; `value` is it in short."""

    group: str
    name: str
    status: Status
    value: str = ""


def calls(run: Run, readings: list[tuple[Exchange, CallReading]]) -> Iterator[KitField]:
    """Yield what crossed the boundaries."""
    from pytest_agentreplay.model.sizes import format_size

    kit = run.header.kit
    kinds = [reading.kind for _, reading in readings]
    size = sum(len(x.call.body) for x, _ in readings if not isinstance(x.call, ToolCall))
    ended = sum(x.outcome is not None for x, _ in readings)
    streams = sum(isinstance(x.outcome, HttpReply) and len(x.outcome.cuts) > 1 for x, _ in readings)
    schemas = {canonical(tool) for _, reading in readings for tool in reading.tools}
    lanes = {x.lane for x in top_level(run)}
    retries = sum(x.attempt > 1 for x, _ in readings)
    unfrozen = list_unfrozen(kit)
    gaps = [gap for gap in entries(kit, "gaps") if isinstance(gap, str)]
    by_class = [f"{text_of(entry, 'tool')} {text_of(entry, 'path')}" for entry in entries(kit, "uncompared")]
    group = "calls"
    yield make_field(
        group, "requests", plural(len(readings), "call") + (f", {format_size(size)}" if size else ""), readings
    )
    yield make_field(group, "replies", f"{ended} of {len(readings)}", ended)
    yield make_optional_field(group, "chunk cuts", plural(streams, "reply", "replies"), streams)
    yield make_optional_field(group, "tool schemas", plural(len(schemas), "schema"), schemas)
    if unfrozen:
        yield KitField(group, "tool calls", Status.ABSENT, f"ran unseen: {', '.join(unfrozen)}")
    else:
        tools = kinds.count("tool")
        yield make_optional_field(group, "tool calls", f"{plural(tools, 'call')} with arguments and result", tools)
    if by_class:
        yield KitField(group, "arguments", Status.ABSENT, f"compared by class alone: {', '.join(by_class)}")
    looked = sum(kind in {"retrieval", "embeddings", "rerank"} for kind in kinds)
    yield make_optional_field(group, "retrievals", plural(looked, "call"), looked)
    yield make_field(group, "order", f"starts and finishes, {plural(len(lanes), 'lane')}", lanes)
    yield make_optional_field(group, "retries", plural(retries, "attempt"), retries)
    yield KitField(group, "other I/O", Status.ABSENT if gaps else Status.NOT_APPLICABLE, "; ".join(gaps))


def models(run: Run, readings: list[tuple[Exchange, CallReading]], reader: Reader) -> Iterator[KitField]:
    """Yield which models were asked, and with what."""
    model_calls = [(x, reading) for x, reading in readings if reading.kind == "model"]
    group = "model"
    if not model_calls:
        yield KitField(group, "model", Status.NOT_APPLICABLE)
        return
    replies = [reader.read_reply(x.call, x.outcome) for x, _ in model_calls]
    entries_of_models = [entry for entry in entries(run.header.kit, "models") if isinstance(entry, dict)]
    hosts = [x.call.url for x, _ in model_calls if not isinstance(x.call, ToolCall)]
    parameters = {f"{key} {canonical(value)}" for _, reading in model_calls for key, value in reading.knobs.items()}
    knobs = [(key.rpartition(".")[2], value) for _, reading in model_calls for key, value in reading.knobs.items()]
    seeds = {canonical(value) for key, value in knobs if key == "seed"}
    versions = sorted({str(entry["version"]) for entry in entries_of_models if entry.get("version")})
    users = (text for _, reading in model_calls for text in words(reading.messages))
    yield join_values(group, "model asked", (reading.model or reading.name for _, reading in model_calls))
    yield make_optional_field(group, "version", ", ".join(versions), versions)
    yield join_values(group, "model served", (reply.model for reply in replies))
    yield join_values(group, "provider", (reading.provider for _, reading in model_calls))
    yield join_values(
        group, "region", (*(text_of(entry, "region") for entry in entries_of_models), *map(find_region, hosts))
    )
    yield join_values(group, "fingerprint", (reply.fingerprint for reply in replies))
    yield join_values(group, "parameters", sorted(parameters))
    yield join_values(group, "sampling seed", sorted(seeds))
    prompts = {canonical(list(reading.system)) for _, reading in model_calls if reading.system}
    yield make_optional_field(group, "system prompt", plural(len(prompts), "text"), prompts)
    yield join_values(group, "the run's input", [next(users, "")])


def run_session(run: Run) -> Iterator[KitField]:
    """Yield the world that agent code sees without a call."""
    kit, group = run.header.kit, "scene"
    clock, zone, locale = table(kit, "clock"), table(kit, "zone"), table(table(kit, "locale"), "now")
    ran = ", ran on" if clock.get("ran_on") else ""
    yield make_field(group, "clock", f"{clock.get('mode')}{ran}, from {run.header.recorded}", clock.get("mode"))
    offset = zone.get("offset")
    yield make_field(group, "time zone", f"{zone.get('name', '')} {hours(offset)}".strip(), offset is not None)
    locales = sorted({str(value) for value in locale.values()})
    yield make_field(group, "locale", ", ".join(locales), locales)
    generators = [str(generator) for generator in entries(kit, "generators")] or ["random"]
    yield make_field(
        group, "random numbers, ids", f"seed {run.header.seed}: {', '.join(generators)}, uuid", run.header.clock
    )
    order = table(kit, "hash")
    if "seed" in order:
        yield KitField(group, "order of sets", Status.CAPTURED, f"PYTHONHASHSEED={order['seed']}")
    else:
        yield KitField(
            group, "order of sets", Status.ABSENT, "random in each process: sort what is sent" if order else ""
        )
    yield make_optional_field(group, "environment", pairs(table(kit, "environment")), kit.get("environment"))
    files = table(kit, "fixtures")
    digests = ", ".join(f"{file} {str(digest)[:8]}" for file, digest in files.items())
    yield make_optional_field(group, "kept files", digests, files)
    places = table(table(kit, "redactions"), "places")
    yield make_optional_field(group, "places", f"as marks: {', '.join(places)}", places)


def code(run: Run) -> Iterator[KitField]:
    """Yield the agent's code and what it ran on."""
    kit, group = run.header.kit, "code"
    git = table(kit, "git")
    dirty = ", and changes that are not in it" if git.get("dirty") else ""
    yield make_field(group, "commit", f"{str(git.get('commit'))[:12]}{dirty}", git.get("commit"))
    yield make_field(
        group, "python", " on ".join(str(kit[key]) for key in ("python", "platform") if kit.get(key)), kit.get("python")
    )
    packages = table(kit, "packages")
    yield make_field(group, "packages", ", ".join(f"{name} {version}" for name, version in packages.items()), packages)
    locks = table(kit, "locks")
    yield make_field(
        group, "pinned by", ", ".join(f"{file} {str(digest)[:8]}" for file, digest in locks.items()), locks
    )


def about(run: Run, digest: str, *, sealed: bool) -> Iterator[KitField]:
    """Yield whose run it was, how it ended, and what was redacted."""
    header, group = run.header, "run"
    kit = header.kit
    yield make_field(group, "test", header.test, header.test)
    if capture := table(kit, "capture"):
        facts = (f"{name}={capture[name]}" for name in ("reason", "service", "version", "cold") if capture.get(name))
        yield KitField(group, "captured", Status.CAPTURED, ", ".join(facts))
    ended = [str(header.outcome[key]) for key in ("status", "type", "message") if header.outcome.get(key)]
    yield make_field(group, "outcome", f"{ended[0]} {': '.join(ended[1:])}".strip() if ended else "", ended)
    yield make_optional_field(group, "ids and flags", pairs(table(kit, "annotations")), kit.get("annotations"))
    trace = table(kit, "trace")
    yield make_optional_field(group, "trace", f"{trace.get('trace_id')}, span {trace.get('span_id')}", trace)
    taken = table(table(kit, "redactions"), "placeholders")
    yield make_optional_field(group, "redacted", ", ".join(f"{what} {count}" for what, count in taken.items()), taken)
    seal = f"sha256 {digest[:12]}" if sealed else "edited after it was recorded"
    yield KitField(group, "digest", Status.CAPTURED if sealed and digest else Status.ABSENT, seal if digest else "")


def make_field(group: str, name: str, value: str, is_captured: object) -> KitField:
    """Return a field that every run has."""
    return KitField(group, name, Status.CAPTURED, value) if is_captured else KitField(group, name, Status.ABSENT)


def make_optional_field(group: str, name: str, value: str, is_captured: object) -> KitField:
    """Return a field that only some runs have."""
    return (
        KitField(group, name, Status.CAPTURED, value) if is_captured else KitField(group, name, Status.NOT_APPLICABLE)
    )


def join_values(group: str, name: str, values: Iterable[str]) -> KitField:
    """Return a field of a model, which may not say it; each value once."""
    distinct = [value for value in dict.fromkeys(values) if value]
    return make_field(group, name, ", ".join(distinct), distinct)


def words(messages: tuple[Json, ...]) -> Iterator[str]:
    """Yield the texts of messages that a user wrote."""
    for message in messages:
        if not isinstance(message, dict) or message.get("role", "user") != "user":
            continue
        parts = message.get("content", message.get("parts", ""))
        for part in parts if isinstance(parts, list) else [parts]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str) and text.strip():
                yield " ".join(text.split())


_REGION = re.compile(
    r"(?<![a-z0-9])((?:af|ap|ca|cn|eu|il|me|mx|northamerica|asia|australia|europe|africa|sa|southamerica|us)"
    r"(?:-gov|-iso[a-z]?)?-(?:north|south|east|west|central)[a-z]*-?[1-9][0-9]?)(?![a-z0-9])"
)


def find_region(url: str) -> str:
    """Return the region that a host's name holds, "" when it holds none."""
    match = _REGION.search(url.partition("://")[2].partition("/")[0])
    return match[1] if match else ""


def entries(kit: JsonObject, name: str) -> list[Json]:
    """Return one entry of a kit that is a list; a file may hold anything there."""
    entry = kit.get(name)
    return entry if isinstance(entry, list) else []


def text_of(entry: Json, key: str) -> str:
    """Return one text of an entry."""
    return str(entry.get(key) or "") if isinstance(entry, dict) else ""


def pairs(values: JsonObject) -> str:
    """Return names with their values."""
    return ", ".join(f"{key}={value if isinstance(value, str) else canonical(value)}" for key, value in values.items())


def plural(count: int, noun: str, more: str = "") -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {more or noun + 's'}"


def hours(offset: Json) -> str:
    """Return seconds from UTC as people write them: "+02:00"."""
    if not isinstance(offset, int):
        return ""
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"


class Grade(Enum):
    """What a snapshot is good for."""

    A = "replays as it was recorded"
    B = "replays, with gaps that are known"
    C = "can be looked at; whether it replays is unknown"
    COLD = "cannot be replayed: there is nothing to serve"

    @property
    def replays(self) -> bool:
        """Whether a replay of it says anything."""
        return self in (Grade.A, Grade.B)


class Kit(NamedTuple):
    """All fields of one run, its grade, and the reasons for one that is not A."""

    fields: tuple[KitField, ...]
    grade: Grade
    reasons: tuple[str, ...] = ()


def make_kit(run: Run, reader: Reader, *, digest: str = "", sealed: bool = True) -> Kit:
    """Return the kit of a run that lies in a file of that digest."""
    readings = [(x, reader.read_call(x.call)) for x in run.exchanges]
    fields = (
        *calls(run, readings),
        *models(run, readings, reader),
        *run_session(run),
        *code(run),
        *about(run, digest, sealed=sealed),
    )
    grade, reasons = grade_run(run, sealed=sealed)
    return Kit(fields, grade, tuple(reasons))


def grade_run(run: Run, *, sealed: bool) -> tuple[Grade, list[str]]:
    """Return what the run is good for, and why no more than that."""
    kit, clock = run.header.kit, table(run.header.kit, "clock")
    if all(x.outcome is None for x in run.exchanges):
        return Grade.COLD, ["no call came back" if run.exchanges else "no call was recorded"]
    if "status" not in run.header.outcome:
        return Grade.C, ["it does not say how the test ended: the recording was cut short, or comes from elsewhere"]
    reasons = [] if sealed else ["it was edited after it was recorded"]
    reasons += [f"tool {tool} ran unseen, and runs again: freeze it" for tool in list_unfrozen(kit)]
    reasons += [
        f"{text_of(entry, 'path')} of tool {text_of(entry, 'tool')} ({text_of(entry, 'kind')}) {text_of(entry, 'why')}"
        for entry in entries(kit, "uncompared")
    ]
    reasons += [f"no boundary took {gap}" for gap in entries(kit, "gaps") if isinstance(gap, str)]
    if "capture" in kit:
        reasons += explain_capture(run)
    elif clock.get("mode") != "stepped":
        reasons.append("the clock was real: a time in a prompt differs" if clock else "it says nothing of the clock")
    elif clock.get("ran_on"):
        reasons.append("the clock ran on: the agent waited on wall time, which is as long as it takes")
    if racy := table(kit, "order").get("racy"):
        reasons.append(f"two threads had their answers within a millisecond ({racy} x): which came first was chance")
    return (Grade.B if reasons else Grade.A), reasons


def explain_capture(run: Run) -> Iterator[str]:
    """Yield why a run that was captured outside a test is pinned less than a recorded one."""
    served = sum(len(ids) for *_, ids in list_draws(run.header.kit))
    dropped = table(run.header.kit, "uuids").get("dropped")
    ids = plural(served, "id") + (f" ({dropped} more not kept)" if dropped else "")
    yield "the clock was real: a replay shows when the next call began"
    yield f"random numbers and ids were real: {ids} of uuid served by call site"
    yield "times and ids that differ are taken as equal if they are new in the run"
    if len({x.lane for x in top_level(run)}) > 1:
        yield "the order of answers was observed, not held"


def list_draws(kit: JsonObject) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the ids that a captured run drew from `uuid`, as hex digits, with the lane and the call site."""
    for lane, sites in table(kit, "uuids").items():
        for site, ids in sites.items() if isinstance(sites, dict) else ():
            yield lane, site, [identity for identity in texts(ids) if _HEX.fullmatch(identity)]


_HEX = re.compile("[0-9a-f]{32}")
