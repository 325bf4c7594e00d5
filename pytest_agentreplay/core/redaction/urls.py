"""URLs: passwords and credentials by parameter name, in place, the rest untouched to the byte."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from pytest_agentreplay.core.redaction.fields import is_generated
from pytest_agentreplay.core.redaction.secret_names import CATEGORY, looks_secret

if TYPE_CHECKING:
    from collections.abc import Callable

USERINFO = re.compile(r"\A([a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@:]*:)([^/?#@]+)(@)")
PARAMETER = re.compile(r"([?&#;]|\A)([^=&#;?]+)=([^&#;]+)")
TICKETS = frozenset(("upload_id", "uploadid", "upload_session", "session_id", "sessionid", "ticket"))
ENCODED = re.compile(rb"%5[bB]%5[bB]redacted(?:%3[aA]|:)([a-z0-9-]+)(?:%3[aA]|:)([0-9]+)%5[dD]%5[dD]")
"""A placeholder in a URL, as clients write it: some leave the colons as they are."""


def redact_url(
    url: str, instead: Callable[[str, str], str], also: Callable[[str, str], bool] = lambda _name, _value: False
) -> str:
    """`url` with the password and the values of secret-looking parameters replaced by `instead(category, value)`.

    `also` says of another parameter, by name and value, that it is to be replaced too.
    """
    head, mark, tail = split_at_parameters(url)
    head = USERINFO.sub(lambda hit: hit[1] + instead(CATEGORY, unquote_plus(hit[2])) + hit[3], head)
    if not mark:
        return head
    return head + PARAMETER.sub(lambda hit: parameter(hit, instead, also), mark + tail)


def is_ticket(name: str, value: str) -> bool:
    """Whether a parameter of a URL that a server hands out is all that somebody needs to act on it: an upload's id."""
    return name.lower().replace("-", "_") in TICKETS or is_generated(value.encode("utf-8", "surrogatepass"))


def split_at_parameters(url: str) -> tuple[str, str, str]:
    """What comes before the query or fragment, its first sign, and the rest."""
    at = min((found for found in (url.find("?"), url.find("#")) if found >= 0), default=-1)
    return (url, "", "") if at < 0 else (url[:at], url[at], url[at + 1 :])


def parameter(hit: re.Match[str], instead: Callable[[str, str], str], also: Callable[[str, str], bool]) -> str:
    """One parameter, with its value replaced when its name looks secret, or `also` says so."""
    name, value = unquote_plus(hit[2]), unquote_plus(hit[3])
    if not looks_secret(name) and not also(name, value):
        return hit[0]
    return f"{hit[1]}{hit[2]}={instead(CATEGORY, value)}"
