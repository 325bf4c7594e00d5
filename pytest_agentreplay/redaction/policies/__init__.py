"""Policy files: what a project wants off its snapshots, read from `agentreplay-policy.yaml` into a `Policy`.

A policy is data. Nothing of it is run, opened or looked up in the environment when it is read, and there is no key that
takes a shipped rule away. What is invalid is refused with file, line and column, and with what to write instead.

The form, which keys there are and of what type, is a model of pydantic, of which the schema is made. pydantic is loaded
when a policy is read, and at no other time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pytest_agentreplay.errors import PolicyError, SettingsError
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.redaction.headers import NEVER, secret_header
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.redaction.regexes import RefusedPattern, compile_shape
from pytest_agentreplay.redaction.secret_names import looks_secret
from pytest_agentreplay.snapshots.codec import strict_yaml
from pytest_agentreplay.snapshots.codec.strict_yaml import find_version_fault, format_path, suggest_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from pytest_agentreplay.model.json_paths import Selector
    from pytest_agentreplay.redaction.policy import SecretShape
    from pytest_agentreplay.snapshots.codec.strict_yaml import Document

VERSION = "1.0"
MOST_RULES = 200
SCHEMA = "agentreplay-policy.schema.json"
CATEGORY_NAME = r"^[a-z][a-z0-9-]{0,39}$"
SECRETS = frozenset(("basic", "cookie", "header", "jwt", "key", "opaque", "password", "private-key", "secret", "token"))
"""Categories of shipped rules: what a policy finds as one of these is one."""
# A token of HTTP: RFC 9110, section 5.6.2.
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A beginning needs three letters: a shorter one is that of half of an environment.
VARIABLES = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}\*?|[A-Za-z_][A-Za-z0-9_]*")
# What stands in JSON, a URL or a template as it is: neither quotes nor what begins an escape.
INSTEAD = re.compile(r"[!#$%()*+,./0-9:;=?@A-Z\[\]^_`a-z{|}~ -]+")


def parse(data: bytes, file: str) -> Policy:
    """Return the policy that a file holds. Raises PolicyError."""
    document = strict_yaml.load(data, file=file, error=PolicyError)
    return PolicyParser(document, file).policy()


class PolicyParser:
    """One pass over a policy file."""

    def __init__(self, document: Document, file: str) -> None:
        """`file` as errors show it."""
        self._document = document
        self._file = file

    def policy(self) -> Policy:
        """Return the policy. Raises PolicyError."""
        self._check_version()
        values: Any = self._validate()
        if values.pii:
            from pytest_agentreplay.redaction.pii import require_checks

            require_checks(self._file, self._document.places[("pii",)])
        shapes = tuple(self._shapes(values.patterns))
        self._check_words(values)
        # The digest is of what is said, not of the file: comments and the order of keys change nothing.
        text = json.dumps(values.model_dump(mode="json", exclude_defaults=True), sort_keys=True, ensure_ascii=False)
        return Policy(
            pii=values.pii,
            strict=values.strict,
            shapes=shapes,
            paths=tuple(self._paths(values.paths)),
            names=MappingProxyType(dict(self._names(values.names))),
            headers=frozenset(name.lower() for name in values.headers),
            keep_headers=frozenset(name.lower() for name in values.keep_headers),
            keep_claims=frozenset(values.keep_claims),
            environment=tuple(values.environment),
            secret_environment=tuple(values.secret_environment),
            placeholders=MappingProxyType(dict(self._placeholders(values.placeholders, shapes))),
            personal=frozenset(self._personal(values)),
            digest=hashlib.sha256(text.encode()).hexdigest(),
        )

    def _check_version(self) -> None:
        value = self._document.value
        if not isinstance(value, dict):
            raise self._make_error('a policy is keys and values, the first of them schemaVersion: "1.0"', ())
        if (fault := find_version_fault(value, "a policy of version", VERSION)) is not None:
            raise self._make_error(fault[1], fault[0])

    def _validate(self) -> Any:
        from pydantic import ValidationError

        try:
            return model().model_validate(self._document.value)
        except ValidationError as wrong:
            errors = wrong.errors(include_url=False)
            # A key that does not exist explains the others: most often it is misspelt, and what it says is missed.
            first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
            path = tuple(part for part in first["loc"] if part != "[key]")
            if first["type"] == "extra_forbidden":
                keys = model().model_fields if len(path) == 1 else ("category", "regex", "reason")
                raise self._make_error(
                    f"{path[-1]!r:.60} is no key of a policy{suggest_word(path[-1], keys)}", path
                ) from None
            if first["type"] == "missing":
                raise self._make_error(f"{format_path(path[:-1])} needs {path[-1]}", path[:-1]) from None
            if first["loc"][-1] == "[key]":
                message = f"{path[-1]!r:.60} is no category: write lower-case letters, digits and -, at most 40"
                raise self._make_error(message, path) from None
            raise self._make_error(f"{format_path(path)}: {explain_error(first)}", path) from None

    def _shapes(self, rules: list[Any]) -> Iterator[SecretShape]:
        for at, rule in enumerate(rules):
            try:
                yield compile_shape(rule.category, rule.regex)
            except RefusedPattern as wrong:
                message = f"the pattern of {rule.category!r} ({rule.regex:.60}): {wrong}"
                raise self._make_error(message, ("patterns", at, "regex")) from None

    def _paths(self, rules: dict[str, list[str]]) -> Iterator[tuple[str, Selector]]:
        if sum(map(len, rules.values())) > MOST_RULES:
            raise self._make_error(f"paths: holds more than {MOST_RULES}", ("paths",))
        for category, texts in rules.items():
            for at, text in enumerate(texts):
                try:
                    yield category, compile_path(text)
                except SettingsError as wrong:
                    raise self._make_error(str(wrong), ("paths", category, at)) from None

    def _names(self, rules: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
        seen: dict[str, str] = {}
        for category, names in rules.items():
            for at, name in enumerate(names):
                if seen.setdefault(name.lower(), category) != category:
                    message = f"{name!r} is of {seen[name.lower()]!r} already: name it in one category"
                    raise self._make_error(message, ("names", category, at))
                yield name.lower(), category

    def _check_words(self, values: Any) -> None:
        for key in ("headers", "keep_headers", "keep_claims", "environment", "secret_environment"):
            for at, name in enumerate(getattr(values, key)):
                if fault := find_fault(key, name):
                    raise self._make_error(f"{name!r} {fault}", (key, at))
        left_out = {name.lower() for name in values.headers}
        for at, name in enumerate(values.keep_headers):
            if name.lower() in left_out:
                message = f"{name!r} stands in headers too: leave it out, or keep it"
                raise self._make_error(message, ("keep_headers", at))

    def _personal(self, values: Any) -> set[str]:
        """Return the categories of the policy's own rules, but for those that it, or we, call secrets."""
        own = {rule.category for rule in values.patterns} | {*values.paths, *values.names}
        for at, category in enumerate(values.secrets):
            if category not in own:
                raise self._make_error(f"no rule of this policy finds {category!r}", ("secrets", at))
        return own - {*values.secrets} - SECRETS

    def _placeholders(self, texts: dict[str, str], shapes: tuple[SecretShape, ...]) -> Iterator[tuple[str, str]]:
        seen: dict[str, str] = {}
        for category, text in texts.items():
            place = ("placeholders", category)
            if (why := explain_mistakable(text)) is not None:
                raise self._make_error(f"{text!r} could be mistaken: {why}", place)
            if (other := seen.setdefault(text.lower(), category)) != category:
                raise self._make_error(f"{text!r} is that of {other!r} already: let them differ", place)
            # Redaction is done again at the end of a run, and would replace its own placeholder.
            example = text.replace("{n}", "1").encode()
            for shape in shapes:
                if next(shape.find(example), None):
                    why = f"is what the pattern of {shape.category!r} matches, so that it would be replaced again"
                    raise self._make_error(f"{text!r} {why}", place)
            yield category, text

    def _make_error(self, message: str, path: tuple[str | int, ...]) -> PolicyError:
        return PolicyError(message, file=self._file, place=self._document.find_place(path))


def find_fault(key: str, name: str) -> str:
    """Return why a policy cannot have a name of a header, claim or variable under a key; "" if it can."""
    if key == "keep_claims":
        return "looks like a secret: a policy cannot keep it" if looks_secret(name) else ""
    if "headers" in key:
        if not HEADER.fullmatch(name):
            return "is no name of a header"
        hidden = secret_header(name.lower()) or name.lower() in NEVER
        refused = key == "keep_headers" and hidden
        return "carries credentials and is never stored: a policy cannot keep it" if refused else ""
    stored = key == "environment"
    if not (VARIABLES if stored else VARIABLE).fullmatch(name):
        advice = "three letters or more before the last *" if stored and name.endswith("*") else "a whole name"
        return f"is no name of a variable: write {advice}"
    secret = stored and looks_secret(name.removesuffix("*"))
    return "looks like a secret, and no such variable is stored: a policy cannot allow it" if secret else ""


def explain_mistakable(text: str) -> str | None:
    """Return why a text could be taken for something else than a placeholder, with what to write; None if it cannot."""
    if text.count("{n}") != 1:
        return "write {n} once, for the number"
    rest = text.replace("{n}", "")
    if "redacted" not in rest.lower():
        return "let it hold the word redacted, like user{n}@redacted.invalid"
    if re.search(r"[0-9]\{n\}|\{n\}[0-9]", text):
        return "put no digit beside {n}"
    if "{{" in text or "}}" in text or not INSTEAD.fullmatch(text):
        return "leave out quotes, backslashes, &, <, >, {{ and }}, and what is not ASCII"
    if "[[redacted:" in text:
        return "those of the shipped rules begin so"
    return None


def explain_error(wrong: Any) -> str:
    """Return what pydantic has found, in our words where they are plainer."""
    words = {
        "bool_type": "is true or false",
        "string_type": "is text; put it in quotes",
        "list_type": "is a list: one line with - for each",
        "dict_type": "is keys and values",
        "model_type": "is keys and values",
        "too_long": f"holds more than {MOST_RULES}",
        "string_pattern_mismatch": "is written with lower-case letters, digits and -, at most 40",
        "string_too_long": "is too long",
        "string_too_short": "is empty",
    }
    return words.get(wrong["type"], str(wrong["msg"]))


@functools.cache
def model() -> type[BaseModel]:
    """Return the model of a policy file."""
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
    """Return the JSON Schema of a policy file, as it is shipped."""
    made = model().model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
