"""The form of `case.yaml`, and of each check in it, as validated models. The schema is made of them.

What a key means is for `parse` to say; pydantic is loaded by who reads a case whole, and by nobody else.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pytest_agentreplay.cases.case import MOST_ITEMS

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue

TAGS = ("(text)", "(keys)", "(number)", "(list)")
"""Which of several types a value has, as complaints carry it in their places."""


# What the reader says of several keys together, or of a text, for editors: `wanting` has the words.
PATH: dict[str, JsonValue] = {"pattern": r"^\$"}
SOME: dict[str, JsonValue] = {"minProperties": 1}
ONE: dict[str, JsonValue] = {"minProperties": 1, "maxProperties": 1}

TIMES: dict[str, JsonValue] = {
    "if": {"required": ["times"]},
    "then": {"properties": {"at_least": False, "at_most": False}},
}


def more_than(names: int, path: str = "path") -> dict[str, JsonValue]:
    """So many keys have to be there, and one more beside `path`."""
    return {"if": {"required": [path]}, "then": {"minProperties": names + 1}, "else": {"minProperties": names}}


def tag(value: Any) -> str:
    """Return the tag of a value."""
    if isinstance(value, dict):
        return "(keys)"
    if isinstance(value, list):
        return "(list)"
    return "(number)" if isinstance(value, int | float) and not isinstance(value, bool) else "(text)"


@functools.cache
def check_model() -> type[BaseModel]:
    """Return the model of one check. It is long because each word is told here, and nowhere else, with its form."""
    from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

    # Types, by whose names pydantic finds them in the annotations below.
    words = Annotated[str, Field(min_length=1, max_length=10_000)]
    title = Annotated[str, Field(min_length=1, max_length=500)]
    by_path = Annotated[str, Field(min_length=1, max_length=500, json_schema_extra=PATH)]
    number = Annotated[int, Field(json_schema_extra={"not": {"const": 0}})]
    titles = Annotated[list[title], Field(min_length=1, max_length=MOST_ITEMS)]
    count = Annotated[int, Field(ge=0)]
    amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
    checked = ConfigDict(extra="forbid", strict=True, frozen=True)

    def maybe(about: str = "", **more: Any) -> Any:
        return Field(default=None, description=about or None, **more)

    class Compared(BaseModel):
        """A value and what is wanted of it; all that is said must hold."""

        model_config = checked | ConfigDict(json_schema_extra=more_than(1))
        path: by_path = maybe("where in it, as a JSON path")
        exists: bool = maybe("whether there is anything")
        equals: Any = maybe("it is this, whole")
        contains: words = maybe("this text stands in it")
        not_contains: words = maybe("this text does not stand in it")
        matches: words = maybe("this regular expression is found in it, one that is quick")

    class Crossed(Compared):
        """A value of a turn, or of the calls of a tool."""

        model_config = checked | ConfigDict(json_schema_extra=more_than(3))
        at: Annotated[
            Annotated[number, Tag("(number)")] | Annotated[title, Tag("(text)")],
            Discriminator(tag),
        ] = Field(description="the number of a turn (-1 is the last), or the name of a tool")
        side: Literal["request", "reply"] = Field(description="what was asked, or what came")

    class Call(BaseModel):
        """A tool call."""

        model_config = checked
        name: title
        arguments: dict[title, Any] = maybe("by name or JSON path; others do not matter")

    class Counted(Call):
        """A tool call, so often."""

        model_config = checked | ConfigDict(json_schema_extra=TIMES)
        times: count = maybe()
        at_least: count = maybe("1 unless said")
        at_most: count = maybe()

    class Repeated(BaseModel):
        """The same call again and again."""

        model_config = checked
        name: title = maybe("of this tool; any unless said")
        at_least: count = maybe("2 unless said")
        at_most: count = maybe()

    class Bounds(BaseModel):
        """Limits of an amount."""

        model_config = checked | ConfigDict(json_schema_extra=SOME)
        at_least: amount = maybe()
        at_most: amount = maybe()

    class Price(BaseModel):
        """Prices of a million tokens."""

        model_config = checked
        input: amount
        output: amount

    class Cost(Bounds):
        """Limits of what the run costs."""

        model_config = checked | ConfigDict(json_schema_extra=more_than(1, "prices"))
        prices: dict[title, Price] = maybe("by model; else what the run itself says")

    class Wrong(BaseModel):
        """An error."""

        model_config = checked | ConfigDict(json_schema_extra=SOME)
        kind: title = maybe("the class, with or without its module", alias="class")
        text: words = maybe("a part of its message")

    identity_value = Annotated[Annotated[str, Tag("(text)")] | Annotated[int, Tag("(number)")], Discriminator(tag)]
    own = Annotated[
        Annotated[str, Tag("(text)")]
        | Annotated[int, Tag("(number)")]
        | Annotated[list[identity_value], Tag("(list)")],
        Discriminator(tag),
    ]

    class Identity(BaseModel):
        """Whose records may be told."""

        model_config = checked
        path: by_path
        is_: own = maybe("the own value, or several", alias="is")

    call = Annotated[Annotated[title, Tag("(text)")] | Annotated[Call, Tag("(keys)")], Discriminator(tag)]
    counted = Annotated[Annotated[title, Tag("(text)")] | Annotated[Counted, Tag("(keys)")], Discriminator(tag)]
    repeated = Annotated[Annotated[title, Tag("(text)")] | Annotated[Repeated, Tag("(keys)")], Discriminator(tag)]
    wrong = Annotated[Annotated[title, Tag("(text)")] | Annotated[Wrong, Tag("(keys)")], Discriminator(tag)]
    identity = Annotated[Annotated[by_path, Tag("(text)")] | Annotated[Identity, Tag("(keys)")], Discriminator(tag)]
    calls = Annotated[list[call], Field(max_length=MOST_ITEMS)]

    class Order(BaseModel):
        """Which tools were called, one of the three."""

        model_config = checked | ConfigDict(json_schema_extra=ONE)
        equal: calls = maybe("exactly these, in this order")
        subsequence: calls = maybe("these in this order, among others")
        multiset: calls = maybe("exactly these, in any order")

    class Check(BaseModel):
        """One assertion: exactly one word, and what it wants. Other packages may add words."""

        model_config = ConfigDict(extra="allow", strict=True, frozen=True, json_schema_extra=ONE)
        status: Literal["ok", "error"] = maybe("how the run ended")
        output: Compared = maybe("the final output")
        tool_called: counted = maybe("a tool was called: so often, with such arguments")
        tool_not_called: call = maybe("a tool was not called, or not with such arguments")
        tool_failed: title = maybe("a call of this tool failed")
        forbidden_tools: titles = maybe("none of these tools was called")
        tool_order: Order = maybe("the tools were called in this order")
        repeated_call: repeated = maybe("one tool, the same arguments, again and again")
        turns: Bounds = maybe("so many model calls")
        tokens: Bounds = maybe("so many tokens, in and out")
        cost: Cost = maybe("so much money")
        duration: Bounds = maybe("so many seconds")
        error: wrong = maybe("something went wrong: its class, and text in its message")
        exchange: Crossed = maybe("a value of what was asked, or of what came")
        no_secret_in_output: Annotated[bool, Field(json_schema_extra={"const": True})] = maybe(
            "no key, token or password is told"
        )
        no_identity_but: identity = maybe(
            "no record of somebody else is told; the path names the field that says whose"
        )

    return Check


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
    """Return the model of a case file. It is long because each key is told here with its form."""
    from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

    # Types, by whose names pydantic finds them in the annotations below.
    line = Annotated[str, Field(max_length=500, pattern=LINE)]
    word = Annotated[str, Field(min_length=1, max_length=200, pattern=LINE)]
    sentence = Annotated[str, Field(min_length=1, max_length=2000)]
    link = Annotated[str, Field(max_length=2000, pattern=LINK)]
    most = Field(max_length=MOST_ITEMS)
    by_json_path = Annotated[str, Field(min_length=1, max_length=200, pattern=LINE, json_schema_extra=PATH)]
    check = check_model()
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

    runners = Annotated[Annotated[word, Tag("(text)")] | Annotated[Runners, Tag("(keys)")], Discriminator(tag)]
    serving = Annotated[
        Annotated[Literal["strict", "position"], Tag("(text)")] | Annotated[Served, Tag("(keys)")],
        Discriminator(tag),
    ]

    near = Annotated[Annotated[str, Tag("(text)")] | Annotated[float, Tag("(number)")], Discriminator(tag)]

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
        operator: word = Field(description="what is done, as agentreplay check fuzz names it")
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


@functools.cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of a case file, as it is shipped."""
    made = without_nulls(model().model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "patternProperties": {f"^{EXTRA}": {}},
    }


def without_nulls(value: Any) -> Any:
    """Return the schema without defaults that say "nothing"."""
    match value:
        case dict():
            return {key: without_nulls(it) for key, it in value.items() if not (key == "default" and it is None)}
        case list():
            return [without_nulls(it) for it in value]
        case _:
            return value
