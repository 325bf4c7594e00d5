"""The form of `case.yaml` as a validated model: which keys there are, and of what type. The schema is made of it.

What a key means is for `parse` to say; pydantic is loaded by who reads a case whole, and by nobody else.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pytest_agentreplay.cases.case import MOST_ITEMS
from pytest_agentreplay.cases.schema import check_fields as form_checks

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue

VERSION = "1.0"
SCHEMA = "case.schema.json"
EXTRA = "x-"
LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
FILE_NAME = r"^[^/\\:\x00-\x1f\x7f]*$"
COLD: dict[str, JsonValue] = {  # what the reader says of two keys together, for editors
    "if": {"properties": {"expect": {"const": "cold"}}, "required": ["expect"]},
    "then": {"required": ["cold"]},
    "else": {"properties": {"cold": False}},
}
LINK = r"^https?://[^\s\x00-\x1f\x7f]+$"


@functools.cache
def model() -> type[BaseModel]:
    """The model of a case file. It is long because each key is told here with its form."""
    from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

    # Types, by whose names pydantic finds them in the annotations below.
    line = Annotated[str, Field(max_length=500, pattern=LINE)]
    word = Annotated[str, Field(min_length=1, max_length=200, pattern=LINE)]
    sentence = Annotated[str, Field(min_length=1, max_length=2000)]
    link = Annotated[str, Field(max_length=2000, pattern=LINK)]
    most = Field(max_length=MOST_ITEMS)
    by_json_path = Annotated[str, Field(min_length=1, max_length=200, pattern=LINE, json_schema_extra=form_checks.PATH)]
    check = form_checks.model()
    checks = Annotated[list[check], most]  # type: ignore[valid-type]  # it is made when it is needed
    checked = ConfigDict(extra="forbid", strict=True, frozen=True)

    def maybe(about: str = "") -> Any:
        return Field(default=None, description=about or None)

    class Source(BaseModel):
        """Where the case comes from."""

        model_config = checked
        format: word = Field("snapshot", description="the format of the trace; snapshot for our own recordings")
        version: line = Field("", description="of that format")
        file: Annotated[str, Field(max_length=200, pattern=FILE_NAME)] = Field(
            "", description="the redacted original, beside this file"
        )
        id: line = Field("", description="of the run, there")
        fidelity: Literal["bytes", "body-json", "semantic"] = Field("bytes", description="how near to what was sent")
        imported: line = Field("", description="the day")
        losses: Annotated[list[sentence], most] = Field([], description="what the original does not hold")

    class Input(BaseModel):
        """What the agent is given."""

        model_config = checked
        messages: Annotated[list[dict[str, Any]], most] = maybe("a conversation")
        arguments: dict[str, Any] = maybe("of the runner, by name")

    class Runners(BaseModel):
        """A runner for each list of checks."""

        model_config = checked
        observed: word = maybe()
        desired: word = maybe()

    class Served(BaseModel):
        """How the boundaries are served."""

        model_config = checked
        model: Literal["strict", "position", "live"] = maybe()
        tools: Literal["strict", "position", "arguments"] = maybe("never live")
        other: Literal["strict", "position", "live"] = maybe()

    runners = Annotated[
        Annotated[word, Tag("(text)")] | Annotated[Runners, Tag("(keys)")], Discriminator(form_checks.tag)
    ]
    serving = Annotated[
        Annotated[Literal["strict", "position"], Tag("(text)")] | Annotated[Served, Tag("(keys)")],
        Discriminator(form_checks.tag),
    ]

    near = Annotated[Annotated[str, Tag("(text)")] | Annotated[float, Tag("(number)")], Discriminator(form_checks.tag)]

    class Serve(BaseModel):
        """How the agent is served for each list of checks."""

        model_config = checked
        observed: serving = maybe("strict unless said")
        desired: serving = maybe("model position, tools arguments unless said")

    class CaseMatching(BaseModel):
        """What of a call is compared, and in which order calls may come."""

        model_config = checked
        ignore: Annotated[list[by_json_path], most] = Field([], description="JSON paths of the body that do not count")
        order: Literal["auto", "recorded", "free", "loose"] = Field("auto", description="as agentreplay_order")

    class Perturbed(BaseModel):
        """One change of the run of the base."""

        model_config = checked
        operator: word = Field(description="what is done, as agentreplay fuzz names it")
        at: Annotated[int, Field(ge=1, le=1_000_000)] = maybe("the call that is changed, counted from 1")
        argument: Annotated[str, Field(max_length=500)] | int = maybe("of the operator")

    class Cold(BaseModel):
        """Why a case cannot be replayed."""

        model_config = checked
        reason: sentence = Field(description="in a sentence")
        missing: Annotated[list[sentence], most] = Field([], description="what a replay would need")

    class CaseFile(BaseModel):
        """A failure kept as a test."""

        model_config = checked | ConfigDict(title="case.yaml", json_schema_extra=COLD)
        schemaVersion: str = Field(pattern=r"^1\.[0-9]{1,6}$", description="the version of this form")  # noqa: N815
        id: Annotated[str, Field(pattern=ID)] = Field(description="the name of the folder")
        title: line = Field("", description="in a line, for people")
        source: Source = maybe("where it comes from")
        input: Input = maybe("what the agent is given")
        runner: runners = maybe("key of the runner, or one for each list of checks")
        expect: Literal["reproduces", "fixed", "cold"] = Field(
            "reproduces", description="what is so today: the failure, its fix, or a trace that cannot be replayed"
        )
        observed: checks = Field([], description="what went wrong: true of the frozen run")
        desired: checks = Field([], description="what a fixed agent must show")
        semantic: Annotated[list[sentence], most] = Field([], description="what a person, or a judge, has to say")
        serve: Serve = maybe("what a boundary answers, for each list of checks")
        matching: CaseMatching = maybe("when two calls are the same")
        tolerance: dict[word, near] = Field(
            {},
            max_length=MOST_ITEMS,
            description="tool and JSON path: what a live model may say otherwise in its arguments",
        )
        base: word = maybe("of a neighbour: the folder of a case, from this one, or the id of a test")
        perturb: Annotated[list[Perturbed], Field(max_length=10)] = Field([], description="what is changed of its run")
        labels: Annotated[list[word], most] = Field([], description="for -k and for you")
        links: Annotated[list[link], most] = Field([], description="to where it was talked about")
        cold: Cold = maybe("only with expect: cold")

    return CaseFile


def schema() -> dict[str, Any]:
    """The JSON Schema of a case file, as it is shipped."""
    made = without_nulls(model().model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "patternProperties": {f"^{EXTRA}": {}},
    }


def without_nulls(value: Any) -> Any:
    """The schema without defaults that say "nothing"."""
    match value:
        case dict():
            return {key: without_nulls(it) for key, it in value.items() if not (key == "default" and it is None)}
        case list():
            return [without_nulls(it) for it in value]
        case _:
            return value
