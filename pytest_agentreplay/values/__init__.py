"""Values to readable JSON and back, equal and of the same types: `freeze`, `load`, `same`.

JSON values stay as they are. What JSON cannot say stands in an object with one key: {"$tuple": [1, 2]}; a key of
the user's that begins with "$" is doubled. Standard-library values need no hint (`tags`); instances of classes need
one that comes from code (`objects`). A value that would not come back is refused, never approximated.

Arguments are only compared, and never thawed: their instances need no hint, and are written by their state
(`arguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.arguments import ArgumentContent, FrozenCall, freeze_arguments, freeze_call
from pytest_agentreplay.values.deserializer import load
from pytest_agentreplay.values.objects import Codec, is_same
from pytest_agentreplay.values.serializer import Serializer, comes_back, unequal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import Json

__all__ = ["ArgumentContent", "Codec", "FrozenCall", "freeze", "freeze_arguments", "freeze_call", "is_same", "load"]


def freeze(value: Any, *, hint: Any = None, codecs: Sequence[Codec] = ()) -> Json:
    """Return `value` as JSON that `load` with the same `hint` and `codecs` makes an equal value of the same types from.

    `hint` is a type as `typing.get_type_hints` gives it. The JSON shares nothing with `value`. Raises CannotFreeze
    with the path, the type, and the line to paste that makes the value freezable.
    """
    try:
        return tags.copy_plain(value)  # type: ignore[no-any-return]
    except (tags.NotPlain, RecursionError):
        pass
    walker = Serializer(value, codecs)
    try:
        data = walker.walk(value, hint, None)
        if walker.trusted or comes_back(value, data, hint, codecs):
            return data
    except RecursionError:
        kind = hints.dotted_name(type(value))
        raise CannotFreeze("the value is nested too deeply to be frozen", path="$", kind=kind) from None
    # Once more, comparing at each instance, so that the innermost one that does not come back is the one blamed.
    Serializer(value, codecs, blame=True).walk(value, hint, None)
    raise unequal(value, value, None)
