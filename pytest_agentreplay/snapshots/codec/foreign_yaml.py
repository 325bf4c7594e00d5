"""YAML as other tools write it: `strict_yaml`, and what their writers need beside it.

An alias stands for what it names, `!!binary` for its bytes, `!!str` for a text. All else that is refused there is
refused here. The bounds are wider, and hold for what the aliases amount to, so that a few lines cannot name a billion
values.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.strict_yaml import NUMBER, YamlParser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.model.rules import Place
    from pytest_agentreplay.snapshots.codec.strict_yaml import Refusal

LARGEST = 64 << 20
"""Characters of a file; a recording of a day of calls has a tenth of it."""
MOST = 500_000
DEEPEST = 64
UNSIGNED = re.compile("[eE][0-9]+")
"""Every writer signs the exponent of a number; PyYAML (6.0, `resolver.py`) writes the text "1e5" without quotes."""

_TAG = "tag:yaml.org,2002:"
_TEXTS = frozenset({f"{_TAG}str", f"{_TAG}python/unicode", f"{_TAG}python/str"})
_PLAIN = frozenset({f"{_TAG}map", f"{_TAG}seq", "!", f"{_TAG}python/tuple", f"{_TAG}python/object/new:_io.BytesIO"})
"""vcrpy writes the body of a request that was an open file as a BytesIO, with its bytes in a tuple, `state`."""


def load(text: str, *, file: str, error: Refusal) -> Json:
    """The one document in `text`. Raises `error`.

    Bytes are texts whose surrogates stand for what is no UTF-8: `text.encode("utf-8", "surrogateescape")` has them
    back. No other text has any.
    """
    if len(text) > LARGEST:
        raise error(f"is larger than {LARGEST:,} characters", file=file)
    return _Foreign(file, error).document(text).value


class _Foreign(YamlParser):
    """One pass over the events of a file that another tool wrote."""

    def __init__(self, file: str, error: Refusal) -> None:
        super().__init__(file, error)
        self._count = 0
        self._named: dict[str, tuple[Json, int]] = {}

    def _value(self, event: Any, events: Iterator[Any], path: Place) -> Json:
        if type(event).__name__ == "AliasEvent":
            return self._alias(event)
        before = self._count
        value = super()._value(event, events, path)
        if event.anchor is not None:
            self._named[event.anchor] = value, self._count - before
        return value

    def _alias(self, event: Any) -> Json:
        if event.anchor not in self._named:
            raise self._refused(f"*{event.anchor:.60} names nothing before it", event)
        value, size = self._named[event.anchor]
        self._counted(size, event)
        return value

    def _check(self, event: Any, path: Place) -> None:
        if event.anchor is not None and type(event).__name__ == "AliasEvent":
            raise self._refused("an alias is no key", event)
        if event.tag is not None and event.tag not in _TEXTS | _PLAIN | {f"{_TAG}binary"}:
            raise self._refused(f"holds the tag {event.tag!r:.60}, and only !!binary and !!str are taken", event)
        if len(path) >= DEEPEST:
            raise self._refused(f"is nested deeper than {DEEPEST}", event)
        self._counted(1, event)

    def _counted(self, size: int, event: Any) -> None:
        self._count += size
        if self._count > MOST:
            raise self._refused(f"holds more than {MOST:,} values, its aliases spelled out", event)

    def _note(self, path: Place, event: Any) -> None:
        """Nothing: nobody is told the place of a value in a file that another tool wrote."""

    def _scalar(self, event: Any) -> Json:
        if event.tag == f"{_TAG}binary":
            try:
                return base64.b64decode("".join(self._text(event).split()), validate=True).decode(
                    "utf-8", "surrogateescape"
                )
            except (binascii.Error, ValueError):
                raise self._refused("this !!binary is no base64", event) from None
        if event.tag in _TEXTS:
            return self._text(event)
        if not event.style and event.value == "~":
            return None
        if (
            not event.style
            and (number := NUMBER.fullmatch(event.value))
            and UNSIGNED.fullmatch(number["exponent"] or "")
        ):
            return self._text(event)
        return super()._scalar(event)
