"""Former names of verbs. Each works until 0.2, and prints on stderr what to type instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import SAME, complain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OLD_NAMES: tuple[tuple[str, str, Mapping[str, str]], ...] = (  # old, with its flag; new; flags that changed
    ("bisect", "diff --first", {}),
    ("step", "show --step", {}),
    ("kit", "show --kit", {}),
    ("orders", "fuzz --orders", {"--limit": "--budget"}),
    ("freeze", "scaffold", {}),
    ("cold", "stats --cold", {}),
    ("bundle --open", "scaffold", {"--open": ""}),
    ("bundle", "export --to bundle", {}),
    ("lock --check", "verify --locked", {"--check": ""}),
    ("lock", "verify --lock", {}),
    ("reseal", "accept --edited", {}),
    ("recover", "accept --recover", {}),
    ("rules", "audit --rules", {}),
    ("policy check", "lint", {"check": ""}),
)


def rewrite_old_name(words: Sequence[str]) -> list[str]:
    """Return the command line with today's verb, and print a line where it began with an old name."""
    typed = {word.partition("=")[0] for word in words[1:]}
    for old, new, changed in OLD_NAMES:
        name, _, flag = old.partition(" ")
        if words[0] == name and (not flag or flag in typed):
            complain(f"{old!r} is now {new!r}; the old name is removed in 0.2", SAME)
            return [*new.split(), *rename_flags(words[1:], changed)]
    return [*words]


def rename_flags(words: Sequence[str], changed: Mapping[str, str]) -> list[str]:
    """Return the words under their new names, up to a `--`; of a flag that went, its value alone."""
    renamed: list[str] = []
    for at, word in enumerate(words):
        if word == "--":
            return [*renamed, *words[at:]]
        flag, equals, value = word.partition("=")
        new = changed.get(flag, flag)
        renamed += [f"{new}{equals}{value}"] if new else [value] if value else []
    return renamed
