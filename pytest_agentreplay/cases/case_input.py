"""What a case says that its agent is given: messages or arguments, as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.cases.symptoms import UNWRITABLE
from pytest_agentreplay.core.turns import top_level
from pytest_agentreplay.dialects import READER, genai

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject, Run


def given(told: Json, run: Run) -> Json:
    """The input of a case, in one of its two forms; of what nobody has told the first question."""
    if told in (None, "", [], {}):
        return _asked_first(run)
    match told:
        case str():
            return {"messages": [{"role": "user", "content": told}]}
        case list() if all(isinstance(one, dict) for one in told):
            return {"messages": [_message(one) for one in told]}
        case {"messages": list() as messages, **others} if not others:
            return {"messages": [_message(one) if isinstance(one, dict) else one for one in messages]}
        case dict():
            return {"arguments": told}
        case _:
            return {"arguments": {"input": told}}


def _asked_first(run: Run) -> Json:
    """What the user said before the first call of a model."""
    for x in top_level(run):
        reading = READER.read_call(x.call)
        if reading.kind == "model":
            said = [one for one in genai.conversation(reading) if one.get("role") == "user"]
            return {"messages": [_message(one) for one in said]} if said else None
    return None


def _message(one: Any) -> Json:
    """A message of any dialect as people write it: role and content."""
    told = genai.message(one)
    parts = cast("list[JsonObject]", told["parts"])
    if parts and all(part.get("type") == "text" for part in parts):
        return {"role": told["role"], "content": "\n".join(str(part.get("content", "")) for part in parts)}
    return cast("Json", one)


def writable(value: Any) -> Any:
    """A value without what no text file can hold: U+FFFD stands for it."""
    match value:
        case str():
            return UNWRITABLE.sub("\ufffd", value)
        case list():
            return [writable(item) for item in value]
        case dict():
            return {writable(name): writable(item) for name, item in value.items()}
        case _:
            return value
