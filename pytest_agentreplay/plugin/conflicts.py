"""Names that others have too: the flag --replay, the fixture `agentreplay`, the recording of a test's requests."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import settings as knobs
from pytest_agentreplay.plugin.stash import RUN_SESSION, is_opted_in

if TYPE_CHECKING:
    import pytest

SHARED = {"--replay"}
"""Flags that other plugins have as well."""

ME = "pytest_agentreplay.plugin"
"""The module that owns the fixtures of our names."""


def add_flags(parser: pytest.Parser, *, shared: bool) -> None:
    """Add our own flags, or those that other plugins are known to have too; one that is taken is left to them."""
    taken = flags(parser)
    group = parser.getgroup("agentreplay", "frozen agent runs")
    for flag, options in knobs.OPTIONS:
        if (flag in SHARED) is shared and flag not in taken:
            group.addoption(flag, **options)


def flags(parser: pytest.Parser) -> dict[str, Any]:
    """The options that are known by now, by their flags."""
    groups = [*getattr(parser, "_groups", ()), getattr(parser, "_anonymous", None)]
    return {
        name: option for group in groups if group is not None for option in group.options for name in option.names()
    }


def meant_for_us(config: pytest.Config) -> bool:
    """Whether another plugin's --replay was given one of our words, and no file of that name."""
    option = flags(config._parser).get("--replay")
    if option is None or option.dest == "agentreplay_replay":
        return False
    value = getattr(config.option, option.dest, None)
    words = map(str, value if isinstance(value, list) else [value])
    return any(word in knobs.MODES and not Path(word).exists() for word in words)


def switched_off_by(config: pytest.Config) -> str:
    """Return the word of `-p no:` that means us by the name of our distribution, which pytest does not know; or ""."""
    words = getattr(config.option, "plugins", None) or ()
    return next((word for word in words if word.lower().replace("_", "-") == "no:frozen-agentreplay"), "")


def asks_for_ours(item: pytest.Item) -> bool:
    """Whether the fixture `agentreplay` of the test is ours or builds on ours; True where it asks for none."""
    info = getattr(item, "_fixtureinfo", None)
    definitions = () if info is None else info.name2fixturedefs.get("agentreplay", ())
    for definition in reversed(definitions):
        if inspect.unwrap(definition.func).__module__ == ME:
            return True
        if "agentreplay" not in definition.argnames:
            return False
    return True


def foreign_fixture(item: pytest.Item) -> str:
    """What to say of a test that asked for `agentreplay` and got another's, which does not build on ours; else ""."""
    if RUN_SESSION in item.stash or "agentreplay" not in getattr(item, "fixturenames", ()):
        return ""
    from pytest_agentreplay.report.plugin_conflicts import foreign_fixture as describe_foreign_fixture
    from pytest_agentreplay.store.display_path import format_path

    function = item._request._fixture_defs["agentreplay"].func  # type: ignore[attr-defined]
    code = inspect.unwrap(function).__code__
    plugins = item.config.pluginmanager.list_name_plugin()
    plugin = next(
        (name for name, candidate in plugins if getattr(candidate, "__name__", "") == function.__module__), ""
    )
    place = f"{format_path(Path(code.co_filename))}:{code.co_firstlineno}"
    return describe_foreign_fixture(function.__module__, "" if plugin.endswith("conftest.py") else plugin, place)


def two_recorders(item: pytest.Item) -> bool:
    """Whether pytest-recording would record or serve the test's requests as well."""
    theirs = item.config.getoption("--disable-recording", default=None)
    return theirs is False and item.get_closest_marker("vcr") is not None and is_opted_in(item)
