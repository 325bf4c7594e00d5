"""What is said where another plugin owns a name of ours, or records the same test."""

from __future__ import annotations

OURS = "pytest_agentreplay"
"""The name of our entry point, as `-p` takes it."""

FLAG = "another plugin has --replay here; say --agentreplay-mode=model"

TWO_RECORDERS = (
    "this test has two recorders: the mark vcr of pytest-recording, and agentreplay\n"
    "  neither was started, since one would keep what the other serves\n"
    "  to have the snapshot:    take the mark off the test, or run with --disable-recording\n"
    "  to have the mark:        take agentreplay off the test"
)


def without(plugin: str) -> str:
    """The words that switch `plugin` off and leave us on: `-p no:NAME` takes "pytest_NAME" along."""
    return f"-p no:{plugin}" + (f" -p {OURS}" if f"pytest_{plugin}" == OURS else "")


def foreign_fixture(module: str, plugin: str, place: str) -> str:
    """What a test is told whose fixture `agentreplay` is that of `module`: of a `plugin`, or of the project itself."""
    if not plugin:
        return (
            f"the fixture agentreplay of this test is that of {place}, which does not ask for ours\n"
            "  nothing was recorded or replayed\n"
            "  give it another name, or build it on ours: def agentreplay(agentreplay)"
        )
    return (
        f"another plugin owns the fixture agentreplay of this test: {module}\n"
        "  nothing was recorded or replayed\n"
        f"  to have ours:        pytest {without(plugin)}\n"
        f"  to have that one:    pytest -p no:{OURS}"
    )


def two_fixtures(module: str, plugin: str) -> str:
    """The line of the header where `plugin` has a fixture of our name as well."""
    return f"another plugin has the fixture agentreplay too ({module}); say {without(plugin)}"
