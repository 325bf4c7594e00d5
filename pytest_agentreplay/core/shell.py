"""Words of a command line, as a message offers them to be pasted."""

from __future__ import annotations

import re

from pytest_agentreplay.core.fixture_ids import is_fixture, scope_of

PLAIN = re.compile(r"[A-Za-z0-9_./:=+-]+")
ACTS = re.compile(r"""["\u201c-\u201e$`!\n]|\\(?=[\\"$`]|\Z)""")
"""What one of the shells would act on inside double quotes; PowerShell takes typographic ones for quotes, too."""


def quoted(text: str) -> str:
    """`text` as one word for sh, cmd and PowerShell alike; a plain name stays as it is.

    Double quotes are the one pair that all three know. A text with `$`, a backquote, `!` or a double quote has none
    that suits them all: it comes in single quotes, which cmd does not know.
    """
    if PLAIN.fullmatch(text):
        return text
    if not ACTS.search(text):
        return f'"{text}"'
    return "'" + text.replace("'", "'\"'\"'") + "'"


def selecting(test: str) -> str:
    """What selects a test: its id, as one word; all of a function's where one parameter is a placeholder."""
    return quoted(typed(test))


def typed(test: str) -> str:
    """The id of a test as pytest knows it; without parameters that only a placeholder stands for.

    For a fixture that is wider than a test: what holds the tests that share it.
    """
    if is_fixture(test):
        return scope_of(test)
    return test.partition("[")[0] if "[[redacted:" in test else test
