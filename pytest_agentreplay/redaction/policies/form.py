"""The form of a policy file, as a validated model: which keys there are, and of what type. The schema is made of it.

What a key means is for `__init__` to say; pydantic is loaded by who reads a policy, and by nobody else.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

VERSION = "1.0"
MOST_RULES = 200
SCHEMA = "agentreplay-policy.schema.json"
CATEGORY_NAME = r"^[a-z][a-z0-9-]{0,39}$"


@functools.cache
def model() -> type[BaseModel]:
    """The model of a policy file."""
    from pydantic import BaseModel, ConfigDict, Field

    # Types, by whose names pydantic finds them in the annotations below.
    kind = Annotated[str, Field(pattern=CATEGORY_NAME)]
    line = Annotated[str, Field(min_length=1, max_length=200)]
    lines = Annotated[list[line], Field(max_length=MOST_RULES)]
    checked = ConfigDict(extra="forbid", strict=True, frozen=True)

    class Pattern(BaseModel):
        """A kind of value by its looks."""

        model_config = checked
        category: kind = Field(description="what the placeholder is named after")
        regex: Annotated[str, Field(min_length=1, max_length=1000)] = Field(
            description="matched in texts; the group (?P<value>...), where there is one, is what is replaced"
        )
        reason: str = Field("", max_length=200, description="why it is here, for people")

    class PolicyFile(BaseModel):
        """What a project wants off its snapshots beyond the shipped rules. It adds and tunes, and removes nothing."""

        model_config = checked | ConfigDict(title="agentreplay-policy.yaml")
        schemaVersion: str = Field(pattern=r"^1\.[0-9]{1,6}$", description="the version of this form")  # noqa: N815
        pii: bool = Field(False, description="take e-mails, phone numbers, cards, IBANs and national ids off too")
        strict: bool = Field(False, description="take public addresses off too")
        patterns: Annotated[list[Pattern], Field(max_length=MOST_RULES)] = Field(
            [], description="values by their looks; matched in linear time, or refused"
        )
        paths: dict[kind, lines] = Field(
            {}, max_length=MOST_RULES, description="category: JSON paths whose values are taken off"
        )
        names: dict[kind, lines] = Field(
            {}, max_length=MOST_RULES, description="category: names of JSON fields whose values are"
        )
        headers: lines = Field([], description="headers that are not stored, beyond those that never are")
        keep_headers: lines = Field([], description="headers that are stored, beyond the shipped list")
        keep_claims: lines = Field(
            [], description="claims of JSON web tokens that are stored, redacted as other values"
        )
        environment: lines = Field([], description="variables that may be stored; a last * stands for any ending")
        secret_environment: lines = Field([], description="variables whose values are secrets")
        secrets: Annotated[list[kind], Field(max_length=MOST_RULES)] = Field(
            [], description="categories of credentials: in a replay another value, or none, is the same"
        )
        placeholders: dict[kind, line] = Field(
            {},
            max_length=MOST_RULES,
            description="category: what stands instead, with {n} for the number and the word redacted",
        )

    return PolicyFile


def schema() -> dict[str, Any]:
    """The JSON Schema of a policy file, as it is shipped."""
    made = model().model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
