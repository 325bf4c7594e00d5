"""The id of a fixture that is wider than a test: the node that shares it, its name and its parameters.

It must not depend on the test that needs the fixture first, nor on which other tests were selected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.core.paths import MARK
from pytest_agentreplay.plugin.stash import new_redaction, nodeid_of, redaction_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

XUNIT = re.compile(r"_(?:xunit|unittest)_(setup_module|setup_class|setUpClass)_fixture_")
"""The fixtures that pytest 8.4 to 9.2 makes of set-up functions; their names are private, and the last part varies."""

PLAIN = ("_pytest.", "pytest_asyncio.", "anyio.")
"""Modules whose fixtures run no code of the project's, but for those above: directories, event loops, parameters."""


def runs_code(fixturedef: pytest.FixtureDef[Any]) -> bool:
    """Whether the fixture is the project's, or of a plugin that may run its agent."""
    return XUNIT.match(fixturedef.argname) is not None or not fixturedef.func.__module__.startswith(PLAIN)


def definitions(item: pytest.Item) -> Mapping[str, Any]:
    """The fixtures that the test needs, by name, each with those that it overrides."""
    info = getattr(item, "_fixtureinfo", None)
    return {} if info is None else info.name2fixturedefs


def wide(item: pytest.Item) -> Iterator[pytest.FixtureDef[Any]]:
    """The fixtures wider than a test that the test needs, overridden ones included."""
    for several in definitions(item).values():
        yield from (each for each in several if each.scope != "function" and runs_code(each))


def id_of(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> str:
    """The id of the fixture, as `item` needs it."""
    node = node_of(fixturedef, item)
    xunit = XUNIT.match(fixturedef.argname)
    name = xunit[1] if xunit is not None else fixturedef.argname
    fixture = f"{node}{MARK}{name}{overridden(fixturedef, item, node)}"
    parameters = "-".join(labels(fixturedef, item))
    if not parameters:
        return fixture
    from pytest_agentreplay.redact.redaction_factory import stored_id

    config = item.config
    nth = "-".join(map(str, item.callspec.indices.values()))  # type: ignore[attr-defined]
    return stored_id(f"{fixture}[{parameters}]", redaction_of(config), lambda: new_redaction(config), nth)


def id_of_package(node: pytest.Package) -> str:
    """The id of the set-up of a package."""
    return f"{node.nodeid}/__init__.py{MARK}setup_module".removeprefix("./")


def node_of(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> str:
    """The node whose tests share the fixture: its scope, or its definition where that is narrower."""
    base = fixturedef.baseid
    if fixturedef.scope in {"session", "package"}:
        return base if ".py" in base else f"{base}/conftest.py".removeprefix("./").lstrip("/")
    kind = pytest.Class if fixturedef.scope == "class" else pytest.Module
    parent = item.getparent(kind)
    node = parent.nodeid if parent is not None else nodeid_of(item)  # class scope, and the test stands in none
    return base if base.startswith(f"{node}::") else node


def overridden(fixturedef: pytest.FixtureDef[Any], item: pytest.Item, node: str) -> str:
    """What tells a fixture from one of the same node that overrides it and asks for it; "" for the outermost."""
    same = [
        each
        for each in definitions(item).get(fixturedef.argname, ())
        if each.scope == fixturedef.scope and node_of(each, item) == node
    ]
    above = len(same) - 1 - same.index(fixturedef) if fixturedef in same else 0
    return f"^{above}" if above else ""


def labels(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> Iterator[str]:
    """The parameters of the fixture and of the fixtures that it asks for, each as a word."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return
    seen: dict[str, None] = {}
    names = [fixturedef.argname]
    while names:
        name = names.pop(0)
        if name in seen:
            continue
        seen[name] = None
        definitions_of_name = [fixturedef] if name == fixturedef.argname else definitions(item).get(name, ())[-1:]
        names += [argument for each in definitions_of_name for argument in each.argnames]
    for name in seen:
        if name in callspec.params:
            several = definitions(item).get(name, ())
            yield label(callspec.params[name], callspec.indices[name], several[-1] if several else fixturedef)


def label(value: object, index: int, fixturedef: pytest.FixtureDef[Any]) -> str:
    """One parameter: its id where the fixture gives one, else the value as pytest shows it, else its number."""
    ids: Any = fixturedef.ids
    is_param = fixturedef.params is not None and index < len(fixturedef.params)
    listed = ids[index] if ids and is_param and not callable(ids) else None
    name_of_value = ids(value) if callable(ids) else listed
    if name_of_value is not None:
        return str(name_of_value)
    if value is None or isinstance(value, str | int | float | bool):
        return str(value).encode("unicode_escape").decode("ascii")
    value_name = getattr(value, "__name__", "")
    return value_name if isinstance(value_name, str) and value_name else f"{fixturedef.argname}{index}"
