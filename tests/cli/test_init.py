"""`agentreplay init`: what it finds in a project, what it writes, and that it writes all of it or nothing."""

import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml
from iniconfig import IniConfig

from pytest_agentreplay.cli import initializing
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.model.exchanges import Exchange, Header, Run
from pytest_agentreplay.settings import read_settings
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.projects import ini_lines
from tests.support import kept_files
from tests.support.exchanges import call, reply
from tests.support.finished import ended
from tests.support.project import AGENT, TEST, Project, refunds

DONE, NOT_DONE, USAGE = 0, 1, 2
TOOLS = ["agent.lookup_order", "agent.refund"]
WORKFLOW = ".github/workflows/agentreplay.yml"
SMALL = """
def lookup_order(order_id): ...
def refund(order_id): ...
TOOLS = {"lookup_order": lookup_order, "refund": refund}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with an agent of two tools, in whose root a person types."""
    put(tmp_path, "agent.py", SMALL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_git(root):
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", "."], cwd=root, check=True)
    return lambda *words: subprocess.run([git, *words], cwd=root, capture_output=True, text=True, check=False)


def put(root, name, text):
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def contents(root):
    return {name: data for name, data in kept_files.contents(root).items() if not name.startswith(".git/")}


@pytest.fixture
def named(root, typed):
    """Gives what `init --yes` writes under agentreplay_tools for modules ("shop__tools" is shop/tools.py)."""

    def lines(**modules):
        for name, text in modules.items():
            put(root, f"{name.replace('__', '/')}.py", text)
        lines.told = typed("init", "--yes")
        assert lines.told.code == DONE
        return ini_lines(root, "agentreplay_tools")[0]

    return lines


# Which file, and how it is edited

TOML_LINES = '«agentreplay_tools = [\n    "agent.lookup_order",\n    "agent.refund",\n]\n»'
EDITED = [
    ("pytest.ini", "# ours\n[pytest]\naddopts = -q  \n«pythonpath =\n    .\nagentreplay_tools =\n    agent.lookup_order\n    agent.refund\n»\n# the end\n"),
    ("tox.ini", "[pytest]\npythonpath = .\nagentreplay_tools = agent.lookup_order = read\n«    agent.refund\n»# kept\n[testenv]\ndeps = x\n"),
    ("setup.cfg", "[metadata]\nname = shop\n[tool:pytest]\npythonpath = .\nagentreplay_tools =\n  agent.refund\n«  agent.lookup_order\n»\n[x]\ny = 1\n"),
    ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = «[»"lib"«, "."]»  # ours\nagentreplay_tools = [\n  "agent.refund"«,» # money\n  # b\n«  "agent.lookup_order",\n»]\n\n[tool.x]\ny = [\n  ["[tool.pytest]"],\n]\n'),
    ("pyproject.toml", f'[project]\nname = "shop"«\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n»{TOML_LINES}'),
    ("pyproject.toml", f'[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = """\n-q\n[tool.y]\n"""\n{TOML_LINES}[tool.x]\n'),
    ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["]", "."]\nagentreplay_tools = [\n\t"agent.refund",\n«\t"agent.lookup_order",\n»]\n'),
    ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\nagentreplay_tools = [\n    "agent.refund"«,\n    "agent.lookup_order",\n»]\n'),
]  # fmt: skip
"""What is inserted stands in «»."""


def test_lines_are_inserted_and_all_else_stays_line_ends_too(root, typed):
    for ends in ("\n", "\r\n"):
        for name, marked in EDITED:
            marked = marked.replace("\n", ends)
            file = put(root, name, re.sub("«.*?»", "", marked, flags=re.DOTALL))
            assert typed("init", "--yes").code == DONE
            assert file.read_bytes().decode() == re.sub("[«»]", "", marked)
            file.unlink()


def test_pytest_s_own_order_of_files_counts(root, typed):
    others = {"pyproject.toml": b"[tool.pytest.ini_options]\n", "setup.cfg": b"[tool:pytest]\nx = 1\n"}
    for name, data in others.items():
        put(root, name, data)
    file = put(root, "pytest.ini", "")
    assert typed("init", "--yes").code == DONE
    assert {name: (root / name).read_bytes() for name in others} == others
    assert IniConfig(str(file))["pytest"]["agentreplay_tools"].split() == TOOLS


@pytest.mark.skipif(int(pytest.__version__.partition(".")[0]) < 9, reason="pytest 9 reads native TOML values")
def test_native_values_of_pytest_9(root, typed):
    for name, text, keys in (
        ("pyproject.toml", '[tool.pytest]\nminversion = "9"\n', ("tool", "pytest")),
        ("pytest.toml", "", ("pytest",)),
    ):
        file = put(root, name, text)
        assert typed("init", "--yes").code == DONE
        value = tomllib.loads(file.read_text(encoding="utf-8"))
        for key in keys:
            value = value[key]
        assert (value["agentreplay_tools"], value["pythonpath"]) == (TOOLS, ["."])
        file.unlink()


def test_without_any_configuration_or_repository_a_pytest_ini_is_written_alone(root, typed):
    said = typed("init", "--yes")
    assert (said.code, "not a repository" in said.out) == (DONE, True)
    written = b"[pytest]\npythonpath =\n    .\nagentreplay_tools =\n    agent.lookup_order\n    agent.refund\n"
    assert contents(root) == {"agent.py": SMALL.encode(), "pytest.ini": written}


# What is found


SHOP = """
from shop import refund as back
from . import tools as t
bank = t.Bank()
tools = {'refund': back, 'again': t.refund, 'pay': bank.pay}
"""
BANK = "def refund(order): ...\nclass Bank:\n    def pay(self): ...\n"
PAY = "def pay(): ...\nTOOLS = [pay]\n"
LIKE = "def tool(f): return f\n@tool\ndef x(): ...\nTOOLS = [x]\n"
FOUND = {
    "a second name in a package": (
        {"src__shop____init__": "from .tools import refund\n", "src__shop__tools": BANK, "src__shop__agent": SHOP},
        ["shop.tools.Bank.pay", "shop.tools.refund"],
        [".", "src"],
    ),
    "a script that its neighbour imports": (
        {"desk__bank": PAY, "desk__main": "import bank\n"},
        ["bank.pay"],
        [".", "desk"],
    ),
    "a folder on the path": ({"lib__till": PAY, "tests__test_a": "import till\n"}, ["till.pay"], ["."]),
    "a package called like a framework": ({"agents____init__": "", "agents__desk": LIKE}, ["agents.desk.x"], ["."]),
    "tests and environments": (
        {"venv3__x": SMALL, "tests__helper": SMALL, "test_x": SMALL, "conftest": SMALL, "desk": PAY},
        ["desk.pay"],
        ["."],
    ),
}


@pytest.mark.parametrize("kind", FOUND)
def test_tools_are_found_by_the_names_that_they_are_imported_by(root, named, monkeypatch, kind):
    modules, lines, places = FOUND[kind]
    put(root, "venv3/pyvenv.cfg", "")
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "lib")])
    assert named(**modules) == [*TOOLS, *lines]
    assert ini_lines(root, "pythonpath")[0] == places


WAYS = """
import other
def a(): ...
def b(): ...
def c(): ...
def d(): ...
def e(): ...
def no(): ...
def g(): ...
def h(): ...
AVAILABLE_TOOLS = [a]
BY_NAME_TOOLS = {f.__name__: f for f in (b,)}
other.run(tools=[c, no_such])
SCHEMA = {'type': 'function', 'function': {'name': 'd', 'parameters': {}}}
class Agent:
    def __init__(self):
        self.tools = {'e': e, 'f': self.f}
        self.tools['g'] = g
    def f(self): ...
NUMBERS = [no]
TOOLS = {}
TOOLS['h'] = h
"""
NOT_TOOLS = """
from functools import partial
import other
def schema(name): ...
def a(): ...
def b(): ...
TOOLS = [schema('x'), partial(a, 1), other.traced(b)]
other.run(tools=schema)
class Agent:
    def run(self):
        tools = self.tools_of
        other.run(tools=self.tools_of)
        return [other.as_tool(t) for t in self.tools_of]
    @property
    def tools_of(self): ...
"""


def test_ways_to_register_a_tool_and_what_only_looks_like_one(named):
    found = [*("ways.Agent.f", *(f"ways.{name}" for name in "abcdegh"))]
    assert named(ways=WAYS) == [*TOOLS, *found]
    assert named(more=NOT_TOOLS) == [*TOOLS, *found, "more.a", "more.b"]


OTHER_NAMES = """
import functools
def _find(order_id): ...
def _cancel(order_id): ...
def send(order_id): ...
def get_a(): ...
def b(): ...
def c(): ...
TOOLS = {"lookup_order": _find, "cancel": (functools.partial(_cancel, 1), {"parameters": {}}), "mail": send, "b": b}
GROUPED_TOOLS = {"reading": [get_a], "writing": {"c": c}}
class Desk:
    def __init__(self):
        self.tools = {}
        self.tools["ship_it"] = self._ship
    def _ship(self): ...
"""


def test_a_tool_under_another_name_than_its_function_s_gets_the_line_that_says_so(named):
    lines = named(desk=OTHER_NAMES)
    assert lines == [
        *TOOLS,
        "desk.Desk._ship = write as ship_it",
        "desk._cancel = write as cancel",
        "desk._find = write as lookup_order",
        *("desk.b", "desk.c", "desk.get_a"),
        "desk.send = write as mail",
    ]
    assert "desk._find: if it changes nothing, write desk._find = read as lookup_order" in named.told.out
    assert "desk.get_a: if it changes nothing, write desk.get_a = read" in named.told.out
    made = read_settings({}, {"agentreplay_tools": lines}, {})
    assert ("desk._find", "write as lookup_order") in made.tools


CHAINS = """
from langchain_core.tools import tool as make, StructuredTool
@make
def search(q): ...
def plain(q): ...
T = StructuredTool.from_function(plain)
"""
HELPER = """
from pydantic_ai import Agent
from agents import function_tool
agent = Agent('m')
@agent.tool_plain
def add(): ...
@function_tool(strict_mode=False)
def mail(): ...
"""
MORE = """
from helper import agent
import strands
from autogen_core.tools import FunctionTool
@agent.tool
def sub(ctx): ...
@strands.tool(name="turn")
def spin(): ...
def _pay(): ...
def post(): ...
pay = FunctionTool(_pay, "Pays an amount.", name="pay")
FunctionTool(post, description="Posts.")
"""


def test_tools_of_frameworks_need_no_line(named):
    assert named(chains=CHAINS, helper=HELPER, more=MORE) == [
        *TOOLS,
        "more._pay = write as pay",
        "more.post",
        "more.spin = write as turn",
    ]
    frameworks = {
        "LangChain": ["chains.search", "chains.plain"],
        "pydantic-ai": ["helper.add", "more.sub"],
        "OpenAI Agents SDK": ["helper.mail"],
    }
    for framework, paths in frameworks.items():
        for path in paths:
            assert f"{path} (frozen by {framework}, needs no line)" in named.told.out
    assert "more.spin (new)" in named.told.out, "strands.tool is not intercepted"


def test_reads_are_suggested_and_a_schema_without_one_function_is_reported(named):
    text = "S = [{'name': 'ship', 'input_schema': {}}, {'name': 'lost', 'input_schema': {}}]\n"
    assert named(wire=text, one="def ship(): ...\n", two="def ship(): ...\n") == TOOLS
    for said in ("write agent.lookup_order = read", "ship (a schema in wire.py)", "lost (a schema in wire.py)"):
        assert said in named.told.out
    assert "agent.refund = read" not in named.told.out
    named()
    assert "nothing to write: 2 of the tools above wait for a line" in named.told.out


def test_lines_that_are_there_are_kept(root, typed):
    file = put(root, "pytest.ini", "[pytest]\nagentreplay_tools =\n    agent.*\n    llm.ask = model qwen\n")
    put(root, "llm.py", "def ask(): ...\nTOOLS = [ask]\n")
    was = file.read_bytes()
    said = typed("init")
    assert (said.code, "nothing to do" in said.out, file.read_bytes() == was) == (DONE, True, True)


def test_python_files_that_cannot_be_read_are_skipped_and_named(root, named):
    for name, data in (("broken.py", b"x = 1\ndef f(:\n"), ("latin.py", b"x = '\xe9'\n"), ("zero.py", b"x = 1\0")):
        put(root, name, data)
    if sys.platform != "win32":
        (root / "linked.py").symlink_to(root / "agent.py")
        (root / "again").symlink_to(root)
    assert named() == TOOLS
    for said in ("skipped   broken.py: line 2: ", "skipped   latin.py: ", "skipped   zero.py: "):
        assert said in named.told.out
    assert "linked.py: is not a plain file" in named.told.out or sys.platform == "win32"


# What is shown, and when it is written


@pytest.mark.usefixtures("in_git")
def test_without_a_yes_everything_is_shown_and_nothing_written_and_a_second_run_has_nothing_to_do(root, typed):
    was = contents(root)
    for words, code in ((), NOT_DONE), (("--dry-run",), DONE), (("--dry-run", "--yes"), DONE):
        shown = typed("init", *words)
        assert (shown.code, contents(root) == was) == (code, True)
        for name in ("pytest.ini", ".gitignore", ".gitattributes", WORKFLOW):
            assert f"--- /dev/null\n+++ {name}\n" in shown.out
        assert "+    agent.refund\n" in shown.out
    assert typed("init", "--yes").code == DONE
    was = contents(root)
    for words in ((), ("--yes",), ("--dry-run",)):
        again = typed("init", *words)
        assert (again.code, "nothing to do" in again.out, contents(root) == was) == (DONE, True, True)


def test_the_next_command(root, typed):
    record = "next      pytest --snapshot-record tests/test_a.py\n"
    for text, line in (
        ("def test_a(agentreplay): ...\n", record),
        ("import pytest\n@pytest.mark.agentreplay\ndef test_a(): ...\n", record),
        (
            "def test_a(): ...  # agentreplay\n",
            "next      give a test the fixture agentreplay, then: pytest --snapshot-record\n",
        ),
    ):
        put(root, "tests/test_a.py", text)
        assert typed("init", "--yes").out.endswith(line)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
@pytest.mark.parametrize(("answer", "code"), [("y", DONE), ("", NOT_DONE), (EOFError, NOT_DONE)])
def test_a_terminal_is_asked(root, typed, monkeypatch, answer, code):
    def asked(question=""):
        print(question, end="")
        if answer is EOFError:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", asked)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    shown = typed("init")
    assert shown.code == code
    assert "write 1 file? [y/N]" in shown.out
    assert (root / "pytest.ini").exists() == (code == DONE)


# Git


def test_git_files_are_extended_and_work(root, in_git, typed):
    put(root, ".gitignore", "*.pyc\r\nnotes")
    put(root, ".gitattributes", "*.snapshot.json text eol=lf\n*.png binary\n")
    assert typed("init", "--yes").code == DONE
    assert (root / ".gitignore").read_bytes() == b"*.pyc\r\nnotes\r\n.pytest_agentreplay/\r\n"
    lines = (root / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert lines[2:] == ["*.snapshot.json diff=agentreplay -merge"]
    assert in_git("check-ignore", ".pytest_agentreplay/pending/x").returncode == 0
    attribute = in_git("check-attr", "diff", "eol", "--", "tests/__agent_snapshots__/a.snapshot.json").stdout
    assert "diff: agentreplay" in attribute
    assert "eol: lf" in attribute
    put(root, ".gitignore", "*.json\n")
    assert ".gitignore:1:*.json leaves snapshots out of commits" in typed("init", "--dry-run").out


@pytest.mark.usefixtures("in_git")
def test_the_workflow_of_a_project_below_the_top_of_its_repository(root, typed, monkeypatch):
    below = root / "it's mine"
    put(below, "pyproject.toml", '[project]\nname = "x"\noptional-dependencies.tests = ["pytest>=8"]\n')
    put(below, "test-requirements.txt", "frozen-agentreplay==0.1\n")
    monkeypatch.chdir(below)
    assert typed("init", "--yes").code == DONE
    job = yaml.safe_load((root / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["replay"]
    assert job["defaults"]["run"]["working-directory"] == "it's mine"
    steps = ['pip install -e ".[tests]"', "pip install -r test-requirements.txt", "pytest --replay=model"]
    assert [step["run"] for step in job["steps"] if "run" in step] == steps
    assert not (below / ".github").exists()


PROJECT = '[project]\nname = "x"\n'
REPLAY = "pytest --replay=model"
BOTH = "pip install pytest frozen-agentreplay"
DECLARED = {  # files of a project -> the commands that install it and replay its tests
    "requirements": (
        {
            "requirements.txt": "openai",
            "requirements_agents.txt": "agno",
            "requirements-dev.txt": "pytest\nfrozen-agentreplay",
            "requirements-docs.txt": "mkdocs",
            "product_requirements.txt": "It answers customers.",
        },
        [f"pip install -r requirements{name}.txt" for name in ("-dev", "", "_agents")] + [REPLAY],
    ),
    "a folder of requirements": (
        {"requirements/base.txt": "openai", "requirements/test.txt": "pytest", "requirements/docs.txt": "sphinx"},
        [
            "pip install -r requirements/base.txt",
            "pip install -r requirements/test.txt",
            "pip install frozen-agentreplay",
            REPLAY,
        ],
    ),
    "extras": (
        {"pyproject.toml": f'{PROJECT}optional-dependencies = {{dev = ["ruff"], test = ["pytest"], docs = ["x"]}}'},
        ['pip install -e ".[dev,test]"', "pip install frozen-agentreplay", REPLAY],
    ),
    "an extra by its content": (
        {"pyproject.toml": f'{PROJECT}optional-dependencies = {{qa = ["pytest>=8"], docs = ["pytest-cov"]}}'},
        ['pip install -e ".[qa]"', "pip install frozen-agentreplay", REPLAY],
    ),
    "what is declared and not installed": (
        {
            "pyproject.toml": f'{PROJECT}optional-dependencies = {{docs = ["frozen-agentreplay"]}}\n[tool.x]\npytest = "8"'
        },
        ["pip install -e .", BOTH, REPLAY],
    ),
    "setup.cfg": (
        {"pyproject.toml": "[build-system]\nrequires = ['setuptools']", "setup.cfg": "[metadata]\nname = x\n"},
        ["pip install -e .", BOTH, REPLAY],
    ),
    "setup.py": (
        {"setup.py": "from setuptools import setup\nsetup(name='x', install_requires=['openai'])\n"},
        ["pip install -e .", BOTH, REPLAY],
    ),
    "groups": (
        {"pyproject.toml": f'{PROJECT}[dependency-groups]\ndev = ["pytest", "frozen-agentreplay"]'},
        ["pip install -e .", "pip install --group dev", REPLAY],
    ),
    "uv": (
        {"pyproject.toml": PROJECT, "uv.lock": '[[package]]\nname = "pytest"\n'},
        [
            "pip install uv",
            "uv sync --locked --all-extras --all-groups",
            "uv pip install frozen-agentreplay",
            f"uv run --no-sync {REPLAY}",
        ],
    ),
    "poetry": (
        {
            "pyproject.toml": '[tool.poetry]\nname = "x"\n',
            "poetry.lock": 'name = "frozen-agentreplay"\nname = "pytest"\n',
        },
        ["pip install poetry", "poetry install --all-extras --all-groups", f"poetry run {REPLAY}"],
    ),
    "poetry without a lock": (
        {"pyproject.toml": '[tool.poetry]\nname = "x"\n[tool.poetry.group.dev.dependencies]\npytest = "^8"\n'},
        [
            "pip install poetry",
            "poetry install --all-extras --all-groups",
            "poetry run pip install frozen-agentreplay",
            f"poetry run {REPLAY}",
        ],
    ),
    "pipenv": (
        {"Pipfile": '[packages]\nopenai = "*"\n[dev-packages]\npytest = "*"\n', "Pipfile.lock": "{}"},
        [
            "pip install pipenv",
            "pipenv install --dev",
            "pipenv run pip install frozen-agentreplay",
            f"pipenv run {REPLAY}",
        ],
    ),
    "locks of what is not there": (
        {"uv.lock": "", "poetry.lock": "", "Pipfile.lock": "{}", "requirements.txt": "pytest"},
        ["pip install -r requirements.txt", "pip install frozen-agentreplay", REPLAY],
    ),
    "nothing": ({"pyproject.toml": "[tool.ruff]\n"}, [BOTH, REPLAY]),
}


@pytest.mark.usefixtures("in_git")
@pytest.mark.parametrize("name", DECLARED)
def test_the_workflow_installs_what_the_project_declares_from_where_it_has_it(root, typed, monkeypatch, name):
    declared, commands = DECLARED[name]
    below = root / "backend"
    below.mkdir()
    for folder, settings in ((root, "pytest.ini"), (below, "backend/pytest.ini")):
        put(root, settings, "[pytest]\n")
        for file, text in declared.items():
            put(root, file, text)
        monkeypatch.chdir(folder)
        assert typed("init", "--yes").code == DONE
        job = yaml.safe_load((root / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["replay"]
        assert [step["run"] for step in job["steps"] if "run" in step] == commands
        if len(commands) > 2 or folder == root:
            assert job["steps"][-1].get("working-directory") == ("backend" if folder == below else None)
            assert "defaults" not in job
        (root / WORKFLOW).unlink()


@pytest.mark.usefixtures("in_git")
def test_the_workflow_installs_what_is_imported_where_nothing_is_declared(root, typed):
    put(root, "server.py", "import os, agent, not_installed\nfrom some.models.httpx import Chat\n")
    put(root, "tests/test_a.py", "import pytest, yaml\n")
    assert typed("init", "--yes").code == DONE
    assert "      - run: pip install PyYAML httpx pytest frozen-agentreplay\n" in (root / WORKFLOW).read_text(
        encoding="utf-8"
    )


@pytest.mark.usefixtures("in_git")
def test_the_workflow_of_a_member_of_a_workspace_installs_from_the_lock_above_it(root, typed, monkeypatch):
    put(root, "uv.lock", 'name = "pytest"\n')
    put(root, "member/pyproject.toml", PROJECT)
    put(root, "other/requirements.txt", "pytest\nfrozen-agentreplay\n")
    for folder, first in (("member", "pip install uv"), ("other", "pip install -r requirements.txt")):
        monkeypatch.chdir(root / folder)
        put(root, f"{folder}/pytest.ini", "[pytest]\n")
        assert typed("init", "--yes").code == DONE
        job = yaml.safe_load((root / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["replay"]
        assert next(step["run"] for step in job["steps"] if "run" in step) == first
        (root / WORKFLOW).unlink()


@pytest.mark.usefixtures("in_git")
def test_the_workflow_sets_a_placeholder_for_each_key_that_a_client_needs_when_it_is_made(root, typed):
    put(root, "model.py", "from google import genai\nfrom openai import OpenAI\nimport agents\nclient = OpenAI()\n")
    put(root, "agents/__init__.py", "import os\nother = os.environ['DEEPSEEK_API_KEY']\n")
    put(root, "tests/test_model.py", "import langchain_anthropic\n")
    assert typed("init", "--yes").code == DONE
    job = yaml.safe_load((root / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["replay"]
    needed = ("ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY")
    assert job["env"] == dict.fromkeys(needed, "replayed-and-never-sent")


BASE_URL = "    env:\n      OPENAI_BASE_URL: https://llm.example/v1\n"
RECORDED = {  # what a project was recorded with -> the variables of its workflow
    ("https://llm.example/v1/chat/completions", "https://llm.example/v1/embeddings"): {
        "OPENAI_BASE_URL": "https://llm.example/v1"
    },
    ("http://127.0.0.1:8000/v1/responses",): {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"},
    ("https://llm.example/anthropic/v1/messages?beta=true",): {"ANTHROPIC_BASE_URL": "https://llm.example/anthropic"},
    ("https://llm.example/v1beta/models/gemini-2.5-flash:generateContent",): {
        "GOOGLE_GEMINI_BASE_URL": "https://llm.example"
    },
    ("https://us.openai.azure.com/openai/deployments/gpt-5/chat/completions?api-version=1",): {
        "AZURE_OPENAI_ENDPOINT": "https://us.openai.azure.com"
    },
    ("https://api.openai.com/v1/chat/completions", "https://api.anthropic.com/v1/messages"): None,
    ("https://shop.example/orders/17", "https://api.mistral.ai/v1/chat/completions"): None,
    ("https://llm.example/${{ secrets.TOKEN }}/v1/chat/completions", "https://x.example/a\nb: c/v1/messages"): None,
}


def put_snapshot(root, *urls):
    """Write the snapshot of a test that asked these URLs."""
    exchanges = tuple(Exchange(call({}, url), reply({}), 2 * n, 2 * n + 1) for n, url in enumerate(urls))
    text = codec.dumps(Run(Header("tests/test_a.py::test_a"), exchanges))
    put(root, "tests/__agent_snapshots__/test_a/test_a.snapshot.json", text)


@pytest.mark.usefixtures("in_git")
@pytest.mark.parametrize("urls", RECORDED)
def test_the_workflow_sets_the_base_urls_that_were_recorded(root, typed, urls):
    put_snapshot(root, *urls)
    assert typed("init", "--yes").code == DONE
    job = yaml.safe_load((root / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["replay"]
    assert job.get("env") == RECORDED[urls]


@pytest.mark.usefixtures("in_git")
def test_the_workflow_gets_what_was_recorded_later_unless_it_was_edited(root, typed):
    assert typed("init", "--yes").code == DONE
    workflow = root / WORKFLOW
    first = workflow.read_text(encoding="utf-8")
    edited = f"{first}# ours\n"
    put_snapshot(root, "https://llm.example/v1/chat/completions")
    for text, expected in ((edited, edited), (first, first.replace("    steps:", f"{BASE_URL}    steps:"))):
        put(root, WORKFLOW, text)
        assert typed("init", "--yes").code == DONE
        assert workflow.read_text(encoding="utf-8") == expected


@pytest.mark.usefixtures("in_git")
def test_a_workflow_only_where_nothing_runs_the_tests(root, typed):
    for name, text, written in (
        (".github/workflows/ci.yaml", "jobs: {t: {steps: [{run: pytest -q}]}}\n", False),
        (".github/workflows/ci.yaml", "# pytest\njobs: {t: {steps: [{run: make}]}}\n", True),
        (".gitlab-ci.yml", "", False),
        ("README", "", True),
    ):
        file = put(root, name, text)
        assert typed("init", "--yes", "--no-workflow").code == DONE
        assert not (root / WORKFLOW).exists()
        assert typed("init", "--yes").code == DONE
        assert (root / WORKFLOW).exists() == written, text
        file.unlink()
        (root / WORKFLOW).unlink(missing_ok=True)


# What cannot be written


@pytest.mark.usefixtures("in_git")
def test_a_file_that_cannot_be_edited_is_named_and_nothing_written(root, typed):
    inline = "pyproject.toml: [tool.pytest.ini_options]: "
    for name, text, place in (
        ("pyproject.toml", b"[tool.pytest.ini_options]\nx = [\n", "pyproject.toml: "),
        ("pytest.ini", b"[pytest]\nx = 1\nx = 2\n", "pytest.ini: line 3: "),
        ("tox.ini", b"[pytest]\nno value\n", "tox.ini: line 2: "),
        ("pyproject.toml", b"[tool]\npytest.ini_options.addopts = '-q'\n", inline),
        ("pyproject.toml", b"[tool.pytest]\nini_options = {addopts = '-q'}\n", inline),
        (".gitignore", b"\xff", ".gitignore: offset 0: is not UTF-8"),
    ):
        file = put(root, name, text)
        was = contents(root)
        refused = typed("init", "--yes")
        assert (refused.code, contents(root) == was) == (USAGE, True)
        assert f"agentreplay: {place}" in refused.err
        file.unlink()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
@pytest.mark.usefixtures("in_git")
def test_a_link_is_not_followed_and_a_read_only_file_stops_everything(root, typed, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    for name in ("pytest.ini", ".gitattributes", ".github"):
        target = outside / name
        target.mkdir() if name == ".github" else target.touch()
        (root / name).symlink_to(target)
        was = contents(root)
        refused = typed("init", "--yes")
        assert (refused.code, contents(root) == was) == (USAGE, True)
        assert f"agentreplay: {name}: " in refused.err
        assert not (any(target.iterdir()) if target.is_dir() else target.read_bytes())
        (root / name).unlink()
    file = put(root, ".gitattributes", "*.png binary\n")
    file.chmod(0o444)
    was = contents(root)
    refused = typed("init", "--yes")
    file.chmod(0o644)
    assert (refused.code, contents(root) == was) == (USAGE, True)
    assert ".gitattributes: is read-only; nothing was written" in refused.err


@pytest.mark.usefixtures("in_git")
def test_a_disk_that_takes_only_some_files_gets_none(root, typed, monkeypatch):
    put(root, "pytest.ini", "[pytest]\n")
    was, put_one = contents(root), files.write_unsynced

    def full(path, text):
        if path.name == ".gitattributes":
            raise CannotWrite(f"{path}: no space left")
        put_one(path, text)

    monkeypatch.setattr(files, "write_unsynced", full)
    assert typed("init", "--yes").code == USAGE
    assert contents(root) == was


def test_a_file_that_was_edited_meanwhile_is_not_overwritten(root):
    planned = initializing.plan(root)
    file = put(root, "pytest.ini", "[pytest]\naddopts = -q\n")
    with pytest.raises(CannotWrite, match="was edited meanwhile"):
        initializing.write(planned.changes)
    assert file.read_text(encoding="utf-8") == "[pytest]\naddopts = -q\n"


# All of it


def test_a_project_that_was_set_up_records_and_replays_with_frozen_tools(tmp_path, server):
    project = Project(tmp_path, server, proves=True)
    server._replies = refunds
    project.write(agent=AGENT, tests__test_shop=TEST)
    project.put(tmp_path / "pyproject.toml", '[project]\nname = "shop"\nversion = "1"\n')
    done = ended(project.command("init", "--yes"))
    assert done.stdout.endswith("next      pytest --snapshot-record tests/test_shop.py\n")
    recorded = ended(project.record("tests/test_shop.py"))
    assert "replays" in recorded.stdout
    assert "AR-UNFROZEN" not in recorded.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"]
    ended(project.offline())
