"""Inputs and outputs of runs as JSON, copied at once: whoever has the originals changes them."""

from __future__ import annotations

import dataclasses
from datetime import date, time, timedelta
from decimal import Decimal
from inspect import Parameter, Signature
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pytest_agentreplay.values.arguments import freeze_arguments
from pytest_agentreplay.values.deserializer import to_plain
from pytest_agentreplay.values.hints import dotted_name
from pytest_agentreplay.values.tags import NotPlain, copy_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject

LARGEST = 262_144
"""Bytes of JSON of a value that are kept: 0.3 ms to copy, and a history of 200 turns is smaller."""

REBUILT = (list, dict, tuple, set, frozenset, date, time, timedelta, Decimal, UUID, PurePath, bytes)
"""What an annotation of the runner makes of its JSON again, as it does of dataclasses and pydantic's models."""


def freeze_value(name: str, value: object) -> tuple[Json, str]:
    """Return a copy of `value` as JSON, and why a replay cannot have it as it was ("" where it can).

    pydantic writes what is not JSON, and is handed the plain content alone: of a model or an iterator itself it would
    run code of the host, or consume it.
    """
    from pydantic_core import from_json, to_json

    try:
        frozen, reason = copy_plain(value), ""
    except (NotPlain, RecursionError):
        content = to_plain(freeze_arguments({name: value})[name])
        frozen = from_json(to_json(content, fallback=str, inf_nan_mode="strings"))
        reason = f"{name} ({dotted_name(type(value))}) is not JSON"
    if (size := len(to_json(frozen))) > LARGEST:
        return None, f"{name} has {size:,} bytes as JSON, and {LARGEST:,} are kept"
    return frozen, reason


def freeze_call(signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[JsonObject, str]:
    """Return the arguments of a call by name, and why a replay cannot call with them. Raises TypeError if none can."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values, reasons = dict(bound.arguments), []
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        if position == 0 and name in {"self", "cls"}:
            del values[name]
        elif parameter.kind is Parameter.VAR_KEYWORD:
            values |= values.pop(name)
        elif parameter.kind is Parameter.VAR_POSITIONAL and not values[name]:
            del values[name]
        elif parameter.kind in {Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL}:
            reasons.append(f"{name} is positional, and a replay calls by name")
    typed: JsonObject = {}
    arguments: JsonObject = {}
    for name, value in values.items():
        arguments[name], reason = freeze_value(name, value)
        if reason and arguments[name] is not None and is_rebuilt(value):
            typed[name] = dotted_name(type(value))
        elif reason:
            reasons.append(reason)
    call_input: JsonObject = {"arguments": arguments}
    if typed:
        call_input["typed"] = typed
    return call_input, f"the argument {reasons[0]}" if reasons else ""


def is_rebuilt(value: object) -> bool:
    """Return whether a runner whose parameter is annotated gets `value` again from its JSON."""
    return isinstance(value, REBUILT) or dataclasses.is_dataclass(value) or hasattr(type(value), "__pydantic_fields__")
