"""The replay kit of a run: every field that a full replay needs, whether it is there, and what that amounts to.

Computed from what was recorded, never declared. A field is captured, absent, or not applicable to this run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pytest_agentreplay.core.drift import table
from pytest_agentreplay.core.kit.fields import (
    KitField,
    Status,
    about,
    calls,
    code,
    entries,
    models,
    run_session,
    text_of,
)

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Run
    from pytest_agentreplay.core.reading import Reader

__all__ = ["Grade", "Kit", "KitField", "Status", "kit_of"]


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


@dataclass(frozen=True, slots=True)
class Kit:
    """All fields of one run, its grade, and the reasons for one that is not A."""

    fields: tuple[KitField, ...]
    grade: Grade
    reasons: tuple[str, ...] = ()


def kit_of(run: Run, reader: Reader, *, digest: str = "", sealed: bool = True) -> Kit:
    """The kit of a run that lies in a file of that digest."""
    told = [(x, reader.read_call(x.call)) for x in run.exchanges]
    fields = (
        *calls(run, told),
        *models(run, told, reader),
        *run_session(run),
        *code(run),
        *about(run, digest, sealed=sealed),
    )
    grade, reasons = graded(run, sealed=sealed)
    return Kit(fields, grade, tuple(reasons))


def graded(run: Run, *, sealed: bool) -> tuple[Grade, list[str]]:
    """What the run is good for, and why no more than that."""
    kit, clock = run.header.kit, table(run.header.kit, "clock")
    if all(x.outcome is None for x in run.exchanges):
        return Grade.COLD, ["no call came back" if run.exchanges else "no call was recorded"]
    if "status" not in run.header.outcome:
        return Grade.C, ["it does not say how the test ended: the recording was cut short, or comes from elsewhere"]
    reasons = [] if sealed else ["it was edited after it was sealed"]
    reasons += [
        f"tool {text_of(one, 'tool')} ran unseen, and runs again: freeze it" for one in entries(kit, "unfrozen")
    ]
    reasons += [
        f"{text_of(one, 'path')} of tool {text_of(one, 'tool')} ({text_of(one, 'kind')}) {text_of(one, 'why')}"
        for one in entries(kit, "uncompared")
    ]
    reasons += [f"no boundary took {gap}" for gap in entries(kit, "gaps") if isinstance(gap, str)]
    if clock.get("mode") != "stepped":
        reasons.append("the clock was real: a time in a prompt differs" if clock else "it says nothing of the clock")
    elif clock.get("ran_on"):
        reasons.append("the clock ran on: the agent waited on wall time, which is as long as it takes")
    if racy := table(kit, "order").get("racy"):
        reasons.append(f"two threads had their answers within a millisecond ({racy} x): which came first was chance")
    return (Grade.B if reasons else Grade.A), reasons
