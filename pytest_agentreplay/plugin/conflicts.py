"""Names that others have too: the flag --replay and the fixture `agentreplay`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.plugin import keys
from pytest_agentreplay.settings.parsers import MODES
from pytest_agentreplay.settings.table import list_options

if TYPE_CHECKING:
    import pytest

# Flags that other plugins have as well.
SHARED_FLAGS = {"--replay", "--apply", "--json"}

# The name of our entry point, as `-p` takes it.
ENTRY_POINT = "pytest_agentreplay"

# The module that owns the fixtures of our names.
OUR_MODULE = "pytest_agentreplay.plugin"

FLAG = "another plugin has --replay here; say --agentreplay-mode=model"


def add_flags(parser: pytest.Parser, *, shared: bool) -> None:
    """Add our own flags, or those that other plugins are known to have too; one that is taken is left to them."""
    taken = list_flags(parser)
    group = parser.getgroup("agentreplay", "frozen agent runs")
    for flag, options in list_options():
        if (flag in SHARED_FLAGS) is shared and flag not in taken:
            group.addoption(flag, **options)


def list_flags(parser: pytest.Parser) -> dict[str, Any]:
    """Return the options that are known by now, by their flags."""
    # Nothing public lists them. In older releases the anonymous group is not among the others:
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/config/argparsing.py
    groups = [*getattr(parser, "_groups", ()), getattr(parser, "_anonymous", None)]
    return {
        name: option for group in groups if group is not None for option in group.options for name in option.names()
    }


def is_meant_for_us(config: pytest.Config) -> bool:
    """Return whether another plugin's --replay was given one of our words, and no file of that name."""
    # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/config/__init__.py
    option = list_flags(config._parser).get("--replay")
    if option is None or option.dest == "agentreplay_replay":
        return False
    value = getattr(config.option, option.dest, None)
    words = map(str, value if isinstance(value, list) else [value])
    return any(word in MODES and not Path(word).exists() for word in words)


def find_wrong_switch(config: pytest.Config) -> str:
    """Return the word of `-p no:` that means us by the name of our distribution, which pytest does not know; or ""."""
    words = getattr(config.option, "plugins", None) or ()
    return next((word for word in words if word.lower().replace("_", "-") == "no:frozen-agentreplay"), "")


def is_asking_for_ours(item: pytest.Item) -> bool:
    """Return whether the fixture `agentreplay` of the test is ours or builds on ours; True where it asks for none."""
    # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/python.py
    info = getattr(item, "_fixtureinfo", None)
    definitions = () if info is None else info.name2fixturedefs.get("agentreplay", ())
    for definition in reversed(definitions):
        if inspect.unwrap(definition.func).__module__ == OUR_MODULE:
            return True
        if "agentreplay" not in definition.argnames:
            return False
    return True


def explain_foreign_fixture(item: pytest.Item) -> str:
    """Return what to say of a test whose fixture `agentreplay` is another's, and not built on ours; else ""."""
    if keys.RUN_SESSION in item.stash or "agentreplay" not in getattr(item, "fixturenames", ()):
        return ""
    from pytest_agentreplay.snapshots.store import format_path

    # Private, pytest 8.4 to 9.2: which of several definitions the test got.
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/fixtures.py
    function = item._request._fixture_defs["agentreplay"].func  # type: ignore[attr-defined]
    code = inspect.unwrap(function).__code__
    plugins = item.config.pluginmanager.list_name_plugin()
    plugin = next(
        (name for name, candidate in plugins if getattr(candidate, "__name__", "") == function.__module__), ""
    )
    if not plugin or plugin.endswith("conftest.py"):
        place = f"{format_path(Path(code.co_filename))}:{code.co_firstlineno}"
        return (
            f"the fixture agentreplay of this test is that of {place}, which does not ask for ours\n"
            "  nothing was recorded or replayed\n"
            "  give it another name, or build it on ours: def agentreplay(agentreplay)"
        )
    return (
        f"another plugin owns the fixture agentreplay of this test: {function.__module__}\n"
        "  nothing was recorded or replayed\n"
        f"  to have ours:        pytest {switch_off(plugin)}\n"
        f"  to have that one:    pytest -p no:{ENTRY_POINT}"
    )


def switch_off(plugin: str) -> str:
    """Return the words that switch `plugin` off and leave us on: `-p no:NAME` takes "pytest_NAME" along."""
    return f"-p no:{plugin}" + (f" -p {ENTRY_POINT}" if f"pytest_{plugin}" == ENTRY_POINT else "")
