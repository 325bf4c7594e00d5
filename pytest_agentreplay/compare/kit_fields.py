"""What a snapshot holds of all that a full replay needs, field by field, and what that amounts to.

Computed from what was recorded, never declared. A field is captured, absent, or not applicable to this run.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import HttpReply, ToolCall
from pytest_agentreplay.model.sizes import format_size
from pytest_agentreplay.model.turns import top_level
from pytest_agentreplay.snapshots.kit import (
    entries,
    find_region,
    list_draws,
    list_unfrozen,
    plural,
    table,
    text_of,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject, Run
    from pytest_agentreplay.model.reading import CallReading, Reader


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


def list_call_fields(run: Run, readings: list[tuple[Exchange, CallReading]]) -> Iterator[KitField]:
    """Yield what crossed the boundaries."""
    field, optional = _make_fields("calls")
    kit = run.header.kit
    kinds = [reading.kind for _, reading in readings]
    size = sum(len(x.call.body) for x, _ in readings if not isinstance(x.call, ToolCall))
    ended = sum(x.outcome is not None for x, _ in readings)
    streams = sum(isinstance(x.outcome, HttpReply) and len(x.outcome.cuts) > 1 for x, _ in readings)
    schemas = {canonical(tool) for _, reading in readings for tool in reading.tools}
    lanes = {x.lane for x in top_level(run)}
    retries = sum(x.attempt > 1 for x, _ in readings)
    unfrozen = list_unfrozen(kit)
    by_class = [f"{text_of(entry, 'tool')} {text_of(entry, 'path')}" for entry in entries(kit, "uncompared")]
    yield field("requests", plural(len(readings), "call") + (f", {format_size(size)}" if size else ""), readings)
    yield field("replies", f"{ended} of {len(readings)}", ended)
    yield optional("chunk cuts", plural(streams, "reply", "replies"), streams)
    yield optional("tool schemas", plural(len(schemas), "schema"), schemas)
    if unfrozen:
        yield KitField("calls", "tool calls", Status.ABSENT, f"ran unseen: {', '.join(unfrozen)}")
    else:
        tools = kinds.count("tool")
        yield optional("tool calls", f"{plural(tools, 'call')} with arguments and result", tools)
    if by_class:
        yield KitField("calls", "arguments", Status.ABSENT, f"compared by class alone: {', '.join(by_class)}")
    retrievals = sum(kind in {"retrieval", "embeddings", "rerank"} for kind in kinds)
    yield optional("retrievals", plural(retrievals, "call"), retrievals)
    yield field("order", f"starts and finishes, {plural(len(lanes), 'lane')}", lanes)
    yield optional("retries", plural(retries, "attempt"), retries)
    gaps = "; ".join(texts(entries(kit, "gaps")))
    yield KitField("calls", "other I/O", Status.ABSENT if gaps else Status.NOT_APPLICABLE, gaps)


def list_model_fields(
    readings: list[tuple[Exchange, CallReading]], kit: JsonObject, reader: Reader
) -> Iterator[KitField]:
    """Yield which models were asked, and with what."""
    calls = [(x, reading) for x, reading in readings if reading.kind == "model"]
    if not calls:
        yield KitField("model", "model", Status.NOT_APPLICABLE)
        return
    field, optional = _make_fields("model")
    replies = [reader.read_reply(x.call, x.outcome) for x, _ in calls]
    models = entries(kit, "models")
    hosts = [x.call.url for x, _ in calls if not isinstance(x.call, ToolCall)]
    knobs = [(key, canonical(value)) for _, reading in calls for key, value in reading.knobs.items()]
    versions = join_distinct(sorted(text_of(model, "version") for model in models))
    prompts = {canonical(list(reading.system)) for _, reading in calls if reading.system}
    users = (text for _, reading in calls for text in list_user_texts(reading.messages))

    def joined(name: str, values: Iterable[str]) -> KitField:
        text = join_distinct(values)
        return field(name, text, text)

    yield joined("model asked", (reading.model or reading.name for _, reading in calls))
    yield optional("version", versions, versions)
    yield joined("model served", (reply.model for reply in replies))
    yield joined("provider", (reading.provider for _, reading in calls))
    yield joined("region", (*(text_of(model, "region") for model in models), *map(find_region, hosts)))
    yield joined("fingerprint", (reply.fingerprint for reply in replies))
    yield joined("parameters", sorted(f"{key} {value}" for key, value in knobs))
    yield joined("sampling seed", sorted(value for key, value in knobs if key.rpartition(".")[2] == "seed"))
    yield optional("system prompt", plural(len(prompts), "text"), prompts)
    yield joined("the run's input", [next(users, "")])


def list_world_fields(run: Run) -> Iterator[KitField]:
    """Yield the world that agent code sees without a call."""
    field, optional = _make_fields("scene")
    kit = run.header.kit
    clock, zone, locale = table(kit, "clock"), table(kit, "zone"), table(kit, "locale")
    ran = ", ran on" if clock.get("ran_on") else ""
    yield field("clock", f"{clock.get('mode')}{ran}, from {run.header.recorded}", clock.get("mode"))
    offset = zone.get("offset")
    yield field("time zone", f"{zone.get('name', '')} {format_offset(offset)}".strip(), offset is not None)
    yield field("locale", join_distinct(sorted(map(str, table(locale, "now").values()))) or "C", locale)
    generators = join_distinct(("random", *texts(entries(kit, "generators")), "uuid"))
    yield field("random numbers, ids", f"seed {run.header.seed}: {generators}", run.header.clock)
    order = table(kit, "hash")
    if "seed" in order:
        yield field("order of sets", f"PYTHONHASHSEED={order.get('seed')}", order)
    else:
        yield KitField("scene", "order of sets", Status.ABSENT, "random in each process: sort what is sent")
    yield optional("environment", format_pairs(table(kit, "environment")), kit.get("environment"))
    files = table(kit, "fixtures")
    yield optional("kept files", format_digests(files), files)
    places = table(table(kit, "redactions"), "places")
    yield optional("places", f"as marks: {', '.join(places)}", places)


def list_code_fields(kit: JsonObject) -> Iterator[KitField]:
    """Yield the agent's code and what it ran on."""
    field, _ = _make_fields("code")
    git = table(kit, "git")
    dirty = ", and changes that are not in it" if git.get("dirty") else ""
    yield field("commit", f"{str(git.get('commit'))[:12]}{dirty}", git.get("commit"))
    machine = " on ".join(str(kit[key]) for key in ("python", "platform") if kit.get(key))
    yield field("python", machine, kit.get("python"))
    packages = table(kit, "packages")
    yield field("packages", ", ".join(f"{name} {version}" for name, version in packages.items()), packages)
    locks = table(kit, "locks")
    yield field("pinned by", format_digests(locks), locks)


def list_run_fields(run: Run, digest: str, *, sealed: bool) -> Iterator[KitField]:
    """Yield whose run it was, how it ended, and what was redacted."""
    field, optional = _make_fields("run")
    header, kit = run.header, run.header.kit
    yield field("test", header.test, header.test)
    if capture := table(kit, "capture"):
        facts = (f"{name}={capture[name]}" for name in ("reason", "service", "version", "cold") if capture.get(name))
        yield field("captured", ", ".join(facts), capture)
    ended = [str(header.outcome[key]) for key in ("status", "type", "message") if header.outcome.get(key)]
    yield field("outcome", f"{ended[0]} {': '.join(ended[1:])}".strip() if ended else "", ended)
    yield optional("ids and flags", format_pairs(table(kit, "annotations")), kit.get("annotations"))
    trace = table(kit, "trace")
    yield optional("trace", f"{trace.get('trace_id')}, span {trace.get('span_id')}", trace)
    placeholders = table(table(kit, "redactions"), "placeholders")
    yield optional("redacted", ", ".join(f"{what} {count}" for what, count in placeholders.items()), placeholders)
    seal = f"sha256 {digest[:12]}" if sealed else "edited after it was recorded"
    yield KitField("run", "digest", Status.CAPTURED if sealed and digest else Status.ABSENT, seal if digest else "")


MakeField: TypeAlias = "Callable[[str, str, object], KitField]"


def _make_fields(group: str) -> tuple[MakeField, MakeField]:
    """Return what makes a field of a group from its name, its value and whether it is there.

    The first is for fields that every run has, the second for those that only some runs have.
    """

    def make(missing: Status, name: str, value: str, is_captured: object) -> KitField:
        return KitField(group, name, Status.CAPTURED, value) if is_captured else KitField(group, name, missing)

    return partial(make, Status.ABSENT), partial(make, Status.NOT_APPLICABLE)


def join_distinct(values: Iterable[str]) -> str:
    """Return values that are not empty, each once."""
    return ", ".join(dict.fromkeys(value for value in values if value))


def format_digests(files: JsonObject) -> str:
    """Return files with the first digits of their digests."""
    return ", ".join(f"{file} {str(digest)[:8]}" for file, digest in files.items())


def list_user_texts(messages: tuple[Json, ...]) -> Iterator[str]:
    """Yield the texts of messages that a user wrote."""
    for message in messages:
        if not isinstance(message, dict) or message.get("role", "user") != "user":
            continue
        parts = message.get("content", message.get("parts", ""))
        for part in parts if isinstance(parts, list) else [parts]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str) and text.strip():
                yield " ".join(text.split())


def format_pairs(values: JsonObject) -> str:
    """Return names with their values."""
    return ", ".join(f"{key}={value if isinstance(value, str) else canonical(value)}" for key, value in values.items())


def format_offset(offset: Json) -> str:
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
        *list_call_fields(run, readings),
        *list_model_fields(readings, run.header.kit, reader),
        *list_world_fields(run),
        *list_code_fields(run.header.kit),
        *list_run_fields(run, digest, sealed=sealed),
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
