"""The rows of the table: what we are tried beside, what to install for it, and the words that pytest gets."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table.

    `needs` are requirements beyond the newest release of ours and of what it needs. `offline` are words for replays
    only. `shown` are the packages whose versions are told. `env` is a list of `tests/envs` to install instead, and
    `module` a test of it that stands for the check. `elsewhere` says where a row is tried that needs more than a
    machine with Pythons and a package index.
    """

    name: str
    needs: tuple[str, ...] = ()
    words: str = ""
    test: str = "sync"
    agent: str = "openai"
    offline: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    python: str = "3.11"
    env: str = ""
    module: str = ""
    editable: bool = True
    note: str = ""
    elsewhere: str = ""

    @property
    def clashes(self) -> bool:
        """Whether it cannot be loaded together with all others."""
        return "clash" in self.note or "owns" in self.note


def plugin(package: str, words: str, **more: object) -> Row:
    """A plugin of pytest, its newest release."""
    return Row(str(more.pop("name", package)), (package,), words, shown=(package,), **more)  # type: ignore[arg-type]


def version(name: str, *needs: str, shown: str = "", **more: object) -> Row:
    """A release of something that we stand on or meet; its first word is the package, unless `shown` says it."""
    return Row(name, needs, shown=tuple(shown.split()) or (re.match(r"[\w-]+", name)[0],), **more)  # type: ignore[arg-type]


LOOP = "-p pytest_asyncio.plugin -o asyncio_default_fixture_loop_scope=function"

PLUGINS = (
    Row("`-W error`", words="-W error", shown=("pytest",)),
    plugin("pytest-xdist", "-p xdist.plugin -n 2"),
    plugin("pytest-rerunfailures", "-p pytest_rerunfailures --reruns 1"),
    plugin("pytest-randomly", "-p pytest_randomly"),
    plugin("pytest-timeout", "-p pytest_timeout --timeout 60"),
    plugin("pytest-cov", "-p pytest_cov.plugin --cov=agent --cov-report="),
    plugin("pytest-asyncio", LOOP, name="pytest-asyncio, strict", test="asyncio"),
    plugin("pytest-asyncio", f"{LOOP} -o asyncio_mode=auto", name="pytest-asyncio, auto", test="auto"),
    Row("anyio on asyncio and on trio", ("anyio", "trio"), "-p anyio.pytest_plugin", "anyio", shown=("anyio", "trio")),
    plugin("pytest-trio", "-p pytest_trio.plugin", test="trio"),
    Row("unittest.TestCase", test="unittest", shown=("pytest",)),
    Row("subtests", test="subtests", shown=("pytest",)),
    plugin("hypothesis", "-p _hypothesis_pytestplugin", note="not under `@given`"),
    plugin("pytest-icdiff", "-p pytest_icdiff"),
    plugin("pytest-clarity", "-p pytest_clarity.plugin"),
    plugin("pytest-recording", "-p pytest_recording.plugin", offline=("--block-network",)),
    plugin("pytest-httpx", "-p pytest_httpx"),
    plugin("pytest-socket", "-p pytest_socket", offline=("--disable-socket",)),
    plugin("inline-snapshot", "-p inline_snapshot.pytest_plugin", test="inline"),
    plugin("syrupy", "-p syrupy", test="transcript"),
    Row("without syrupy and time-machine", words="-p no:syrupy -p no:time_machine", shown=("pytest",)),
    plugin("pytest-snapshot", "-p pytest_snapshot.plugin -p no:syrupy", note="clashes: `-p no:syrupy`"),
    Row("blockbuster", ("blockbuster", "pytest-asyncio", "trio"), LOOP, "blockbuster", shown=("blockbuster",)),
    Row("freezegun", ("freezegun",), test="freezegun", shown=("freezegun",)),
    Row("time-machine, in the test", ("time-machine",), test="time_machine", shown=("time-machine",)),
    Row("pyinstrument", ("pyinstrument",), test="pyinstrument", shown=("pyinstrument",)),
    plugin("pytest-github-actions-annotate-failures", "-p pytest_github_actions_annotate_failures.plugin"),
    plugin("langsmith", "-p langsmith.pytest_plugin"),
    plugin("pytest-replay", "-p pytest_replay", note="owns `--replay`: `--agentreplay-mode=model`"),
    plugin("cassetteai", "-p cassetteai.plugin", note="owns `--replay`: `--agentreplay-mode=model`"),
    plugin(
        "pytest-agentreplay",
        "-p no:agentreplay",
        python="3.12",
        note="owns the fixture `agentreplay`: `-p no:agentreplay -p pytest_agentreplay`",
    ),
)

PLUGINS += (
    Row(
        "all of them at once",
        tuple(dict.fromkeys(need for row in PLUGINS if not row.clashes for need in row.needs)),
        f"AUTOLOAD -n 2 {LOOP.partition('plugin ')[2]}",
        shown=("pytest",),
        note="except plugins that clash",
    ),
)

CLIENTS = (
    *("google-genai", "mistralai", "cohere", "groq", "ollama", "huggingface_hub"),
    *("boto3", "requests", "urllib3", "aiohttp"),
)
FRAMEWORKS = "tests/plugin/tools/test_framework_tools.py"
AGENTS = ("langgraph", "openai-agents", "pydantic-ai-slim", "smolagents")
EXAMPLES = (
    *("agno", "haystack-ai", "semantic-kernel", "dspy", "mirascope", "instructor"),
    *("celery", "temporalio", "playwright", "openai"),
)

VERSIONS = (
    version("Python 3.11", shown="pytest"),
    version("Python 3.12", shown="pytest", python="3.12"),
    version("Python 3.13", shown="pytest", python="3.13"),
    version("Python 3.14", shown="pytest", python="3.14"),
    version("pytest 8.4", "pytest==8.4.*"),
    version("pytest 9, newest", "pytest>=9"),
    version("pytest main", "pytest @ git+https://github.com/pytest-dev/pytest", elsewhere="CI's matrix"),
    version("pydantic 2.7", "pydantic==2.7.*", "openai<3"),
    version("pydantic, newest", "pydantic"),
    version("syrupy 5", "syrupy==5.0.*", test="transcript", words="-p syrupy"),
    version("syrupy, newest", "syrupy", test="transcript", words="-p syrupy"),
    version("jsonpath-ng 1.6", "jsonpath-ng==1.6.0"),
    version("jsonpath-ng, newest", "jsonpath-ng"),
    version("time-machine 3.0", "time-machine==3.0.*"),
    version("time-machine, newest", "time-machine"),
    version("openai 2", "openai<3"),
    version("openai 3", "openai>=3"),
    version("anthropic 0.x", "anthropic<1", agent="anthropic"),
    version("anthropic, newest", "anthropic", agent="anthropic"),
    Row("litellm", env="litellm", module="tests/plugin/clients/test_litellm.py", shown=("litellm", "openai")),
    Row("crewai", env="crewai", module="tests/plugin/clients/test_crewai.py", shown=("crewai", "openai")),
    Row("clients of model APIs, newest", env="clients", module="tests/plugin/clients/test_clients.py", shown=CLIENTS),
    Row(
        "clients of model APIs, a year old",
        env="lastyear",
        module="tests/plugin/clients/test_clients.py",
        shown=CLIENTS,
    ),
    Row("agent frameworks, newest", env="frameworks", module=FRAMEWORKS, shown=AGENTS),
    Row("agent frameworks, a year old", env="lastyear", module=FRAMEWORKS, shown=(*AGENTS, "llama-index-core")),
    Row(
        "agent frameworks whose tools are named",
        env="toolkits",
        module="tests/plugin/tools/test_named_framework_tools.py",
        shown=("strands-agents", "autogen-agentchat", "google-adk"),
    ),
    Row(
        "libraries, workers and browsers without a patch",
        env="examples",
        module="tests/docs/test_sdk_examples.py",
        shown=EXAMPLES,
    ),
    Row("MCP SDK 1", env="lastyear", module="tests/plugin/mcp/test_mcp.py", shown=("mcp",)),
    Row("MCP SDK 2", env="frameworks", module="tests/plugin/mcp/test_mcp.py", shown=("mcp",)),
    Row(
        "Claude Agent SDK",
        env="frameworks",
        module="tests/plugin/clients/test_claude_agent.py",
        shown=("claude-agent-sdk",),
    ),
    version("the lowest of everything", shown="pytest pydantic openai", env="lowest"),
    version("installed from the wheel", shown="frozen-agentreplay", editable=False),
    version("installed as editable", shown="frozen-agentreplay"),
    version("Linux", shown="pytest"),
    version("macOS", elsewhere="CI's matrix"),
    version("Windows", elsewhere="CI's matrix"),
)
