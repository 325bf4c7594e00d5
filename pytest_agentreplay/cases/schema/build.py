"""The case of a file that holds no mistake: what is not said has its default."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.case import DEFAULT_SERVING, HALVES, Case, CaseSource, ServingPolicy
from pytest_agentreplay.cases.schema import model

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.cases.case import Half


def made(value: dict[str, Any], file: str, folder: Path) -> Case:
    """The case of a file that holds no mistake, without its checks."""
    source, matching, cold = (keys(value.get(key)) for key in ("source", "matching", "cold"))
    fields = {
        name: source[name] for name in ("format", "version", "file", "id", "fidelity", "imported") if name in source
    }
    runner = value.get("runner")
    return Case(
        file=file,
        folder=folder,
        id=value["id"],
        title=value.get("title", ""),
        source=CaseSource(**fields, losses=tuple(source.get("losses", ()))),
        input=value.get("input"),
        runners={half: it for half in HALVES if isinstance(it := keys(runner).get(half, runner), str)},
        semantic=tuple(value.get("semantic", ())),
        expect=value.get("expect", "reproduces"),
        serving={half: serving(half, keys(value.get("serve")).get(half)) for half in HALVES},
        ignore=tuple(matching.get("ignore", ())),
        order=matching.get("order", "auto"),
        tolerance={place: str(how) for place, how in keys(value.get("tolerance")).items()},
        labels=tuple(value.get("labels", ())),
        links=tuple(value.get("links", ())),
        missing=tuple(cold.get("missing", ())),
        reason=cold.get("reason", ""),
        extras={key: it for key, it in value.items() if key.startswith(model.EXTRA)},
    )


def serving(half: Half, said: Any) -> ServingPolicy:
    """How a half is served: as it says, a word for all of it or for each kind, else as that half is."""
    if isinstance(said, str):
        return ServingPolicy(said, said, said)  # type: ignore[arg-type]  # the model knows the words
    return replace(DEFAULT_SERVING[half], **keys(said))


def keys(value: Any) -> dict[str, Any]:
    """The keys and values of what should be a mapping; none of what is not."""
    return value if isinstance(value, dict) else {}
