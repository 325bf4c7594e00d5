"""`agentreplay init`: what it finds in a project, what it writes, and that it writes all of it or nothing."""

import os
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml
from iniconfig import IniConfig

from pytest_agentreplay import cli
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.project_setup import init_plan
from pytest_agentreplay.store import files
from pytest_agentreplay.store.projects import ini_lines
from tests.support.project import Project, refunds

DONE, NOT_DONE, USAGE = 0, 1, 2
TOOLS = ["agent.lookup_order", "agent.refund"]
SMALL = """
def lookup_order(order_id): ...
def refund(order_id): ...
TOOLS = {"lookup_order": lookup_order, "refund": refund}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with an agent of two tools, in whose root a person types."""
    (tmp_path / "agent.py").write_text(SMALL, encoding="utf-8")
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
    file.write_bytes(text.encode())
    return file


def contents(root):
    return {file: file.read_bytes() for file in root.rglob("*") if file.is_file() and ".git" not in file.parts}


def named(root, **modules):
    """What `init --yes` writes under agentreplay_tools for these modules ("shop__tools" is shop/tools.py)."""
    for name, text in modules.items():
        put(root, f"{name.replace('__', '/')}.py", text)
    assert cli.main(["init", "--yes"]) == DONE
    return ini_lines(root, "agentreplay_tools")[0]


# Which file, and how it is edited


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "pytest.ini",
            "# ours\n[pytest]\naddopts = -q  \n\n# the end\n",
            (
                "# ours\n[pytest]\naddopts = -q  \npythonpath =\n    .\nagentreplay_tools =\n    agent.lookup_order\n"
                "    agent.refund\n\n# the end\n"
            ),
        ),
        (
            "tox.ini",
            "[pytest]\npythonpath = .\nagentreplay_tools = agent.lookup_order = read\n# kept\n[testenv]\ndeps = x\n",
            (
                "[pytest]\npythonpath = .\nagentreplay_tools = agent.lookup_order = read\n    agent.refund\n# kept\n"
                "[testenv]\ndeps = x\n"
            ),
        ),
        (
            "setup.cfg",
            "[metadata]\nname = shop\n[tool:pytest]\npythonpath = .\nagentreplay_tools =\n  agent.refund\n\n[x]\ny = 1\n",
            (
                "[metadata]\nname = shop\n[tool:pytest]\npythonpath = .\nagentreplay_tools =\n  agent.refund\n"
                "  agent.lookup_order\n\n[x]\ny = 1\n"
            ),
        ),
        (
            "pyproject.toml",
            (
                '[tool.pytest.ini_options]\npythonpath = "lib"  # ours\nagentreplay_tools = [\n  "agent.refund" # money\n  # b\n]\n'
                '\n[tool.x]\ny = [\n  ["[tool.pytest]"],\n]\n'
            ),
            (
                '[tool.pytest.ini_options]\npythonpath = ["lib", "."]  # ours\nagentreplay_tools = [\n  "agent.refund", # money\n'
                '  # b\n  "agent.lookup_order",\n]\n\n[tool.x]\ny = [\n  ["[tool.pytest]"],\n]\n'
            ),
        ),
        (
            "pyproject.toml",
            '[project]\nname = "shop"',
            (
                '[project]\nname = "shop"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\nagentreplay_tools = [\n'
                '    "agent.lookup_order",\n    "agent.refund",\n]\n'
            ),
        ),
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = """\n-q\n[tool.y]\n"""\n[tool.x]\n',
            (
                '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = """\n-q\n[tool.y]\n"""\nagentreplay_tools = [\n'
                '    "agent.lookup_order",\n    "agent.refund",\n]\n[tool.x]\n'
            ),
        ),
    ],
)
def test_lines_are_inserted_and_all_else_stays(root, name, before, after):
    file = put(root, name, before)
    assert cli.main(["init", "--yes"]) == DONE
    assert file.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\r\npythonpath = .\r\nagentreplay_tools =\r\n\tagent.refund\r\n"),
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\r\npythonpath = ["."]\r\nagentreplay_tools = [\r\n "agent.refund"]\r\n',
        ),
        ("pyproject.toml", '[tool.pytest.ini_options]\r\npythonpath = ["."]\r\n'),
    ],
)
def test_line_ends_stay_crlf(root, name, text):
    file = put(root, name, text)
    assert cli.main(["init", "--yes"]) == DONE
    data = file.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") > text.count("\n")
    assert sorted(ini_lines(root, "agentreplay_tools")[0]) == TOOLS


def test_pytest_s_own_order_of_files_counts(root):
    others = [
        put(root, "pyproject.toml", "[tool.pytest.ini_options]\n"),
        put(root, "setup.cfg", "[tool:pytest]\nx = 1\n"),
    ]
    was = [file.read_bytes() for file in others]
    file = put(root, "pytest.ini", "")
    assert cli.main(["init", "--yes"]) == DONE
    assert [each.read_bytes() for each in others] == was
    assert IniConfig(str(file))["pytest"]["agentreplay_tools"].split() == TOOLS


@pytest.mark.skipif(int(pytest.__version__.partition(".")[0]) < 9, reason="pytest 9 reads native TOML values")
@pytest.mark.parametrize(
    ("name", "text", "table"),
    [
        ("pyproject.toml", '[tool.pytest]\nminversion = "9"\n', ("tool", "pytest")),
        ("pytest.toml", "", ("pytest",)),
    ],
)
def test_native_values_of_pytest_9(root, name, text, table):
    file = put(root, name, text)
    assert cli.main(["init", "--yes"]) == DONE
    value = tomllib.loads(file.read_text(encoding="utf-8"))
    for key in table:
        value = value[key]
    assert (value["agentreplay_tools"], value["pythonpath"]) == (TOOLS, ["."])


def test_no_configuration_at_all(root):
    assert cli.main(["init", "--yes"]) == DONE
    assert contents(root).keys() == {root / "agent.py", root / "pytest.ini"}
    assert (root / "pytest.ini").read_text(encoding="utf-8") == (
        "[pytest]\npythonpath =\n    .\nagentreplay_tools =\n    agent.lookup_order\n    agent.refund\n"
    )


# What is found


def test_a_package_in_src_with_a_second_name_for_a_function(root):
    lines = named(
        root,
        src__shop____init__="from .tools import refund\n",
        src__shop__tools="def refund(order): ...\nclass Bank:\n    def pay(self): ...\n",
        src__shop__agent="from shop import refund as back\nfrom . import tools as t\nbank = t.Bank()\n"
        "tools = {'refund': back, 'again': t.refund, 'pay': bank.pay}\n",
    )
    assert lines == [*TOOLS, "shop.tools.Bank.pay", "shop.tools.refund"]
    assert ini_lines(root, "pythonpath")[0] == [".", "src"]


def test_ways_to_register_a_tool(root):
    lines = named(
        root,
        ways="import other\n\ndef a(): ...\ndef b(): ...\ndef c(): ...\ndef d(): ...\ndef e(): ...\ndef no(): ...\n"
        "AVAILABLE_TOOLS = [a]\nBY_NAME_TOOLS = {f.__name__: f for f in (b,)}\nother.run(tools=[c, no_such])\n"
        "SCHEMA = {'type': 'function', 'function': {'name': 'd', 'parameters': {}}}\n"
        "class Agent:\n    def __init__(self):\n        self.tools = {'e': e, 'f': self.f}\n    def f(self): ...\n"
        "NUMBERS = [no]\n",
    )
    assert lines == [*TOOLS, "ways.Agent.f", *(f"ways.{name}" for name in "abcde")]


def test_what_only_looks_like_a_tool_gets_no_line(root):
    lines = named(
        root,
        more="from functools import partial\nimport other\ndef schema(name): ...\ndef a(): ...\ndef b(): ...\n"
        "TOOLS = [schema('x'), partial(a, 1), other.traced(b)]\nother.run(tools=schema)\n"
        "class Agent:\n    def run(self):\n        tools = self.tools_of\n        other.run(tools=self.tools_of)\n"
        "        return [other.as_tool(t) for t in self.tools_of]\n    @property\n    def tools_of(self): ...\n",
    )
    assert lines == [*TOOLS, "more.a", "more.b"]


def test_tools_put_in_one_by_one(root):
    text = "def a(): ...\ndef b(): ...\nTOOLS = {}\nTOOLS['a'] = a\nclass B:\n    def __init__(self):\n        self.tools['b'] = b\n"
    assert named(root, more=text) == [*TOOLS, "more.a", "more.b"]


def test_a_script_has_the_name_that_its_neighbours_import_it_by(root):
    lines = named(root, desk__bank="def pay(): ...\nTOOLS = [pay]\n", desk__main="import bank\n")
    assert lines == [*TOOLS, "bank.pay"]
    assert ini_lines(root, "pythonpath")[0] == [".", "desk"]


def test_a_folder_that_is_on_the_path_gets_no_line(root, monkeypatch):
    put(root, "lib/till.py", "def pay(): ...\nTOOLS = [pay]\n")
    put(root, "tests/test_a.py", "import till\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "lib")])
    assert named(root) == [*TOOLS, "till.pay"]
    assert ini_lines(root, "pythonpath")[0] == ["."]


def test_tools_of_frameworks_need_no_line(root, capsys):
    lines = named(
        root,
        chains="from langchain_core.tools import tool as make, StructuredTool\n@make\ndef search(q): ...\n"
        "def plain(q): ...\nT = StructuredTool.from_function(plain)\n",
        helper="from pydantic_ai import Agent\nfrom agents import function_tool\nagent = Agent('m')\n"
        "@agent.tool_plain\ndef add(): ...\n@function_tool(strict_mode=False)\ndef mail(): ...\n",
        more="from helper import agent\nimport strands\n@agent.tool\ndef sub(ctx): ...\n@strands.tool\ndef spin(): ...\n",
    )
    assert lines == TOOLS
    out = capsys.readouterr().out
    for path, framework in {
        "chains.search": "LangChain",
        "chains.plain": "LangChain",
        "helper.add": "pydantic-ai",
        "helper.mail": "OpenAI Agents SDK",
        "more.sub": "pydantic-ai",
    }.items():
        assert f"{path} (frozen by {framework}, needs no line)" in out
    assert "more.spin (strands.tool is not intercepted" in out


def test_a_package_of_the_project_may_be_called_like_a_framework(root):
    lines = named(root, agents____init__="", agents__desk="def tool(f): return f\n@tool\ndef x(): ...\nTOOLS = [x]\n")
    assert lines == [*TOOLS, "agents.desk.x"]


def test_reads_are_suggested_and_not_assumed(root, capsys):
    assert named(root) == TOOLS
    out = capsys.readouterr().out
    assert "write agent.lookup_order = read" in out
    assert "agent.refund = read" not in out


def test_a_schema_without_one_function_is_reported(root, capsys):
    text = "S = [{'name': 'ship', 'input_schema': {}}, {'name': 'lost', 'input_schema': {}}]\n"
    assert named(root, wire=text, one="def ship(): ...\n", two="def ship(): ...\n") == TOOLS
    out = capsys.readouterr().out
    assert "ship (a schema in wire.py)" in out
    assert "lost (a schema in wire.py)" in out


def test_tests_and_environments_are_not_searched(root):
    put(root, "venv3/pyvenv.cfg", "")
    assert named(root, venv3__x=SMALL, tests__helper=SMALL, test_x=SMALL, conftest=SMALL, _build=SMALL) == [
        "_build.lookup_order",
        "_build.refund",
        *TOOLS,
    ]


def test_lines_that_are_there_are_kept(root, capsys):
    file = put(root, "pytest.ini", "[pytest]\nagentreplay_tools =\n    agent.*\nagentreplay_models = llm.ask = qwen\n")
    put(root, "llm.py", "def ask(): ...\nTOOLS = [ask]\n")
    was = file.read_bytes()
    assert cli.main(["init"]) == DONE
    assert file.read_bytes() == was
    assert "nothing to do" in capsys.readouterr().out


def test_python_files_that_cannot_be_read_are_skipped_and_named(root, capsys):
    put(root, "broken.py", "x = 1\ndef f(:\n")
    (root / "latin.py").write_bytes(b"x = '\xe9'\n")
    put(root, "zero.py", "x = 1\0")
    if sys.platform != "win32":
        (root / "linked.py").symlink_to(root / "agent.py")
        (root / "again").symlink_to(root)
    assert named(root) == TOOLS
    out = capsys.readouterr().out
    assert "skipped   broken.py: line 2: " in out
    assert "skipped   latin.py: " in out
    assert "skipped   zero.py: " in out
    assert "linked.py: is not a plain file" in out or sys.platform == "win32"


# What is shown, and when it is written


@pytest.mark.parametrize(("words", "code"), [([], NOT_DONE), (["--dry-run"], DONE), (["--dry-run", "--yes"], DONE)])
def test_without_a_yes_everything_is_shown_and_nothing_written(root, in_git, capsys, words, code):
    was = contents(root)
    assert cli.main(["init", *words]) == code
    assert contents(root) == was
    out = capsys.readouterr().out
    for name in ("pytest.ini", ".gitignore", ".gitattributes", ".github/workflows/agentreplay.yml"):
        assert f"--- /dev/null\n+++ {name}\n" in out
    assert "+    agent.refund\n" in out


def test_a_second_run_has_nothing_to_do(root, in_git, capsys):
    assert cli.main(["init", "--yes"]) == DONE
    was = contents(root)
    capsys.readouterr()
    for words in ([], ["--yes"], ["--dry-run"]):
        assert cli.main(["init", *words]) == DONE
        assert "nothing to do" in capsys.readouterr().out
    assert contents(root) == was


@pytest.mark.parametrize(("test", "line"), [
    ("def test_a(agentreplay): ...\n", "next      pytest --snapshot-record tests/test_a.py\n"),
    ("import pytest\n@pytest.mark.agentreplay\ndef test_a(): ...\n", "next      pytest --snapshot-record tests/test_a.py\n"),
    ("def test_a(): ...  # agentreplay\n", "next      give a test the fixture agentreplay, then: pytest --snapshot-record\n"),
])  # fmt: skip
def test_the_next_command(root, capsys, test, line):
    put(root, "tests/test_a.py", test)
    assert cli.main(["init", "--yes"]) == DONE
    assert capsys.readouterr().out.endswith(line)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", DONE), (b"\n", NOT_DONE), (b"\x04", NOT_DONE)])
def test_a_terminal_is_asked(root, answer, code):
    ours, theirs = os.openpty()
    try:
        os.write(ours, answer)
        command = [sys.executable, "-m", "pytest_agentreplay", "init"]
        done = subprocess.run(command, cwd=root, stdin=theirs, stdout=theirs, stderr=theirs, timeout=120)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, shown
    assert "write 1 file? [y/N]" in shown
    assert (root / "pytest.ini").exists() == (code == DONE)


# Git


def test_git_files_are_extended_and_work(root, in_git):
    put(root, ".gitignore", "*.pyc\r\nnotes")
    put(root, ".gitattributes", "*.snapshot.json text eol=lf\n*.png binary\n")
    assert cli.main(["init", "--yes"]) == DONE
    assert (root / ".gitignore").read_bytes() == b"*.pyc\r\nnotes\r\n.pytest_agentreplay/\r\n"
    assert (root / ".gitattributes").read_text(encoding="utf-8").splitlines()[2:] == [
        "*.snapshot.json diff=agentreplay"
    ]
    assert in_git("check-ignore", ".pytest_agentreplay/pending/x").returncode == 0
    attribute = in_git("check-attr", "diff", "eol", "--", "tests/__agent_snapshots__/a.snapshot.json").stdout
    assert "diff: agentreplay" in attribute
    assert "eol: lf" in attribute


def test_a_rule_that_leaves_snapshots_out_is_reported(root, in_git, capsys):
    put(root, ".gitignore", "*.json\n")
    assert cli.main(["init", "--dry-run"]) == DONE
    assert ".gitignore:1:*.json leaves snapshots out of commits" in capsys.readouterr().out


def test_outside_a_repository_git_files_are_left_out(root, capsys):
    assert cli.main(["init", "--yes"]) == DONE
    assert contents(root).keys() == {root / "agent.py", root / "pytest.ini"}
    assert "not a repository" in capsys.readouterr().out


def test_the_workflow_of_a_project_below_the_top_of_its_repository(root, in_git, monkeypatch):
    below = root / "it's mine"
    put(below, "pyproject.toml", '[project]\nname = "x"\noptional-dependencies.tests = ["pytest>=8"]\n')
    put(below, "test-requirements.txt", "frozen-agentreplay==0.1\n")
    monkeypatch.chdir(below)
    assert cli.main(["init", "--yes"]) == DONE
    written = yaml.safe_load((root / ".github/workflows/agentreplay.yml").read_text(encoding="utf-8"))
    job = written["jobs"]["replay"]
    assert job["defaults"]["run"]["working-directory"] == "it's mine"
    assert [step["run"] for step in job["steps"] if "run" in step] == [
        'pip install -e ".[tests]"',
        "pip install -r test-requirements.txt",
        "pytest --replay=model",
    ]
    assert not (below / ".github").exists()


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        (".github/workflows/ci.yaml", "jobs: {t: {steps: [{run: pytest -q}]}}\n", False),
        (".github/workflows/ci.yaml", "# pytest\njobs: {t: {steps: [{run: make}]}}\n", True),
        (".gitlab-ci.yml", "", False),
        ("README", "", True),
    ],
)
@pytest.mark.usefixtures("in_git")
def test_a_workflow_only_where_nothing_runs_the_tests(root, name, text, written):
    put(root, name, text)
    assert cli.main(["init", "--yes", "--no-workflow"]) == DONE
    assert not (root / ".github/workflows/agentreplay.yml").exists()
    assert cli.main(["init", "--yes"]) == DONE
    assert (root / ".github/workflows/agentreplay.yml").exists() == written


# What cannot be written


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\nx = [\n", "pyproject.toml: "),
        ("pytest.ini", "[pytest]\nx = 1\nx = 2\n", "pytest.ini: line 3: "),
        ("tox.ini", "[pytest]\nno value\n", "tox.ini: line 2: "),
        (
            "pyproject.toml",
            "[tool]\npytest.ini_options.addopts = '-q'\n",
            "pyproject.toml: [tool.pytest.ini_options]: ",
        ),
        (
            "pyproject.toml",
            "[tool.pytest]\nini_options = {addopts = '-q'}\n",
            "pyproject.toml: [tool.pytest.ini_options]: ",
        ),
        (".gitignore", "\udcff", ".gitignore: offset 0: is not UTF-8"),
    ],
)
@pytest.mark.usefixtures("in_git")
def test_a_file_that_cannot_be_edited_is_named_and_nothing_written(root, capsys, name, text, place):
    (root / name).write_bytes(text.encode(errors="surrogateescape"))
    was = contents(root)
    assert cli.main(["init", "--yes"]) == USAGE
    assert f"agentreplay: {place}" in capsys.readouterr().err
    assert contents(root) == was


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
@pytest.mark.parametrize("name", ["pytest.ini", ".gitattributes", ".github"])
def test_a_link_is_not_followed(root, in_git, capsys, tmp_path_factory, name):
    outside = tmp_path_factory.mktemp("outside") / "target"
    outside.mkdir() if name == ".github" else outside.write_text("", encoding="utf-8")
    (root / name).symlink_to(outside)
    was = contents(root)
    assert cli.main(["init", "--yes"]) == USAGE
    assert f"agentreplay: {name}: " in capsys.readouterr().err
    assert contents(root) == was
    assert not (any(outside.iterdir()) if outside.is_dir() else outside.read_bytes())


def test_a_read_only_file_stops_everything(root, in_git, capsys):
    file = put(root, ".gitattributes", "*.png binary\n")
    file.chmod(0o444)
    was = contents(root)
    try:
        assert cli.main(["init", "--yes"]) == USAGE
        assert ".gitattributes: is read-only; nothing was written" in capsys.readouterr().err
        assert contents(root) == was
    finally:
        file.chmod(0o644)


def test_a_disk_that_takes_only_some_files_gets_none(root, in_git, monkeypatch):
    put(root, "pytest.ini", "[pytest]\n")
    was, put_one = contents(root), files.put

    def full(path, text):
        if path.name == ".gitattributes":
            raise CannotWrite(f"{path}: no space left")
        put_one(path, text)

    monkeypatch.setattr(files, "put", full)
    assert cli.main(["init", "--yes"]) == USAGE
    assert contents(root) == was


def test_a_file_that_was_edited_meanwhile_is_not_overwritten(root):
    planned = init_plan.plan(root)
    file = put(root, "pytest.ini", "[pytest]\naddopts = -q\n")
    with pytest.raises(CannotWrite, match="was edited meanwhile"):
        init_plan.write(planned.changes)
    assert file.read_text(encoding="utf-8") == "[pytest]\naddopts = -q\n"


# All of it


SHOP_TOOLS = """
from pathlib import Path

def note(line):
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

def lookup_order(order_id: str) -> dict:
    note(f"lookup {order_id}")
    return {"order": order_id, "status": "late"}

def refund(order_id: str, amount: float) -> str:
    note(f"refund {order_id} {amount}")
    return f"refunded {amount}"
"""
SHOP_AGENT = """
import json, os
from openai import OpenAI
from . import tools

TOOLS = {"lookup_order": tools.lookup_order, "refund": tools.refund}
SCHEMAS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in TOOLS
]

def answer(question):
    client = OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef")
    messages = [{"role": "user", "content": question}]
    while True:
        reply = client.chat.completions.create(model="m-1", messages=messages, tools=SCHEMAS).choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply)
        for call in reply.tool_calls:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
"""
SHOP_TEST = """
from shop.agent import answer

def test_refund(agentreplay):
    assert "refund" in answer("Where is A-17?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""


def test_a_project_that_was_set_up_records_and_replays_with_frozen_tools(tmp_path, server):
    project = Project(tmp_path, server, proves=True)
    server._replies = refunds
    project.write(src__shop____init__="", src__shop__tools=SHOP_TOOLS, src__shop__agent=SHOP_AGENT)
    project.write(tests__test_shop=SHOP_TEST)
    put(tmp_path, "pyproject.toml", '[project]\nname = "shop"\nversion = "1"\n')
    done = project.command("init", "--yes")
    assert done.returncode == DONE, done.stdout + done.stderr
    assert done.stdout.endswith("next      pytest --snapshot-record tests/test_shop.py\n")
    recorded = project.record("tests/test_shop.py")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert "replays" in recorded.stdout
    assert "AR-UNFROZEN" not in recorded.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"]
    replayed = project.offline()
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
