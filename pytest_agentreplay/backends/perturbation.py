"""Perturbations: changes of a recorded run whose effect on an agent is tried, as data.

A perturbation names an operator, the recorded call that it changes (counted from 1, as reports count; 0 is the run as a
whole), and the operator's argument. Several of them make a neighbour of the run.

What a frozen model can say about a neighbour depends on the operator:

    transparent   the recorded replies stay true, so the agent must end as recorded
    robust        the model, or the network, misbehaves: what the agent answers is open, what it does is not
    opaque        the model sees something else: its recorded replies are only there to keep the agent going
    request       the model is asked something else: the run ends at that request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_agentreplay.model.canonical_json import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject

Label: TypeAlias = Literal["transparent", "robust", "opaque", "request"]

SERVED: Mapping[Label, str] = {
    "transparent": "strict",
    "robust": "in recorded order",
    "opaque": "in recorded order, judged up to the next request",
    "request": "nothing after the first request",
}
"""How the recorded calls are served under a label."""


class Operator(NamedTuple):
    """What a perturbation does: its label, a few words, and the invariants that it cannot be held to."""

    label: Label
    about: str
    exempt: frozenset[str] = frozenset()


VALUE = frozenset({"unrecorded effect"})
"""An agent hands on what a tool has returned: another value is another effect, and no fault of the agent."""
SHAPE = VALUE | {"no crash"}
"""A function of the project has a type, on which its caller may rely."""

OPERATORS: Mapping[str, Operator] = {
    "server-error": Operator("robust", "the service answers 429, 500 or 503 once, then as recorded"),
    "partial-error": Operator("robust", "the service answers 429 with half a JSON body once"),
    "html-error": Operator("robust", "a proxy answers 502 with an HTML page once"),
    "empty-error": Operator("robust", "the service answers 500 without a body once"),
    "connection-reset": Operator("robust", "the connection is reset once before an answer comes"),
    "timeout": Operator("robust", "the call times out once"),
    "outage": Operator("robust", "the service answers 503 from here on"),
    "broken-body": Operator("robust", "the connection breaks in the middle of the answer, once"),
    "split-stream": Operator("transparent", "the answer comes in pieces of that many bytes"),
    "stream-comments": Operator("transparent", "comments stand between the events of the stream"),
    "stream-crlf": Operator("transparent", "the lines of the stream end in CR LF"),
    "unknown-event": Operator("transparent", "the stream holds an event of a type that nobody knows"),
    "unknown-field": Operator("transparent", "the answer has a field that nobody knows"),
    "member-order": Operator("transparent", "the members of the answer come in another order"),
    "cut-stream": Operator("robust", "the stream ends after that many bytes"),
    "double-event": Operator("robust", "an event of the stream comes twice", VALUE),
    "malformed-arguments": Operator("robust", "the model's arguments of a tool are cut off"),
    "wrong-types": Operator("robust", "the model's arguments of a tool have other types", VALUE),
    "negative-arguments": Operator("robust", "the model's arguments of a tool have negative numbers", VALUE),
    "unknown-tool": Operator("robust", "the model asks for a tool that there is not"),
    "repeated-use": Operator("robust", "the model asks for the same tool call twice", frozenset({"repeated effect"})),
    "empty-answer": Operator("robust", "the model says nothing"),
    "refusal": Operator("robust", "the model refuses"),
    "length": Operator("robust", "the model's answer ends at the limit of tokens"),
    "endless-loop": Operator("robust", "the model asks for the same tool for ever", frozenset({"repeated effect"})),
    "completion-order": Operator("transparent", "overlapping answers come in another order"),
    "tool-error": Operator("opaque", "the tool raises an error"),
    "tool-reset": Operator("opaque", "the connection of the tool is lost after its effect, once"),
    "null-result": Operator("opaque", "the tool returns nothing", SHAPE),
    "empty-result": Operator("opaque", "a text or list of the tool's result is empty", VALUE),
    "dropped-field": Operator("opaque", "a field of the tool's result is missing", SHAPE),
    "wrong-type-result": Operator("opaque", "a field of the tool's result has another type", SHAPE),
    "huge-result": Operator("opaque", "a text of the tool's result is very long", VALUE),
    "right-to-left": Operator("opaque", "a text of the tool's result holds right-to-left characters", VALUE),
    "other-unit": Operator("opaque", "an amount in the tool's result has another currency or unit", SHAPE),
    "injection": Operator("opaque", "the tool's result holds instructions to the model", frozenset({"no crash"})),
    "stale-result": Operator("opaque", "the tool returns what it returned before", VALUE),
    "shuffled-items": Operator("opaque", "the items that were retrieved come in another order", VALUE),
    "dropped-item": Operator("opaque", "an item that was retrieved is missing", VALUE),
    "doubled-item": Operator("opaque", "an item that was retrieved comes twice", VALUE),
    "clock": Operator("robust", "the clock passes that instant at this call"),
    "typo": Operator("request", "the user's words have a typing error"),
    "letter-case": Operator("request", "the user's words are in capitals"),
    "spaces": Operator("request", "the user's words have more spaces"),
    "injected-words": Operator("request", "the user's words hold instructions to the model"),
    "other-arguments": Operator("robust", "the model asks for the tool with other arguments"),
    "other-tool": Operator("robust", "the model asks for another tool"),
    "other-answer": Operator("robust", "the model answers something else"),
}
"""The operators by name."""

OTHER_REPLIES = ("other-answer", "other-arguments", "other-tool", "refusal", "empty-answer")
"""Those that replace a reply of a model by another valid one: what `check assertions` tries."""
LASTING = frozenset({"outage", "endless-loop"})
"""Those after which no model says anything else: a change of a later call has no place beside them."""
ALONE = frozenset({"completion-order"})
"""Those that need every recorded call: beside a reply that changes what is called, some never come."""
NOT_DRAWN = frozenset({"other-arguments", "other-tool", "other-answer"})
"""Those that change what the run is about; no neighbour has them."""


class Perturbation(NamedTuple):
    """One change of a run. `at` counts the calls of the run from 1; 0 means the run as a whole."""

    operator: str
    at: int = 0
    argument: Json = None

    @property
    def label(self) -> Label:
        """What a frozen model can say about it."""
        return OPERATORS[self.operator].label

    def plain(self) -> JsonObject:
        """Return it as a case file has it."""
        argument: JsonObject = {} if self.argument is None else {"argument": self.argument}
        return {"operator": self.operator, **({"at": self.at} if self.at else {}), **argument}

    def describe(self) -> str:
        """Return it in a line: "server-error at call 3 (503): the service answers ..."."""
        where = f" at call {self.at}" if self.at else ""
        text = self.argument if isinstance(self.argument, str) else canonical(self.argument)
        argument = "" if self.argument is None else f" ({text})"
        return f"{self.operator}{where}{argument}: {OPERATORS[self.operator].about}"


def read_perturbation(plain: JsonObject) -> Perturbation:
    """Return the perturbation that `plain` returned. Its operator is one of `OPERATORS`."""
    at = plain.get("at", 0)
    return Perturbation(str(plain["operator"]), at if isinstance(at, int) else 0, plain.get("argument"))


def weakest_label(perturbations: tuple[Perturbation, ...]) -> Label:
    """Return the label of several perturbations: what can be said of all of them together."""
    labels = {perturbation.label for perturbation in perturbations}
    return next((label for label in ("request", "opaque", "robust") if label in labels), "transparent")
