"""Operators that change what the user says: small slips, and instructions to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.runs.fuzz.content_changes import INJECTION

if TYPE_CHECKING:
    from pytest_agentreplay.runs.fuzz.neighbours import Neighbour


def change_words(case_input: Any, neighbour: Neighbour) -> Any:
    """Return the input of a case with the operators of a neighbour that change the user's words."""
    for perturbation in neighbour:
        case_input = change_texts(case_input, perturbation.operator)
    return case_input


def change_texts(case_input: Any, operator: str) -> Any:
    """Return an input whose texts are changed: those of the user's messages, or of the arguments."""
    match case_input:
        case {"messages": [*messages]}:
            changed = [
                {**message, "content": change_text(str(message["content"]), operator)}
                if message.get("role") == "user" and isinstance(message.get("content"), str)
                else message
                for message in messages
            ]
            return {**case_input, "messages": changed}
        case {"arguments": dict() as arguments}:
            texts = {name: change_text(value, operator) for name, value in arguments.items() if isinstance(value, str)}
            return {**case_input, "arguments": {**arguments, **texts}}
        case _:
            return case_input


def change_text(text: str, operator: str) -> str:
    """Return a text changed by an operator; as it is by any other one."""
    match operator:
        case "typo":
            middle = len(text) // 2
            return f"{text[:middle]}{text[middle : middle + 2][::-1]}{text[middle + 2 :]}"
        case "letter-case":
            return text.upper()
        case "spaces":
            return text.replace(" ", "   ") + "  "
        case "injected-words":
            return f"{text}\n{INJECTION}"
        case _:
            return text
