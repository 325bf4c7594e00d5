"""Reads the pages and runs what they show. A page is a project: its blocks are laid out and run in order.

A block is known by the language of its fence, and by a title:

    ```python title="shop.py"     a file of the page's project (any language)
    ```python                     holds `def test_`: a test file, else a script that is run at once
    ```diff title="shop.py"       an edit of that file
    ```console                    "$ command" and what it prints; a line "..." stands for any lines
    ```sh                         commands whose flags and verbs are checked, not run
    ```ini, ```toml               settings, resolved strictly
    ```yaml, ```json              parsed; the `run:` steps of a workflow are checked as sh

`<!-- not run: reason -->` right above a fence leaves it out (Python is compiled all the same), `<!-- in a checkout -->` runs it in a copy of this
repository, `<!-- the model drifts -->` has the model ask for no refund while its commands run. `<!-- starts from: page.md -->` lays the files of another page out first, `<!-- brings: file -->` a file that
the repository ships, `<!-- environment: model -->` a page that is run in this environment of tests/envs, not in main, `<!-- plugin: MODULE -->` loads a
plugin of pytest that its reader has. Whatever is none of these fails.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import yaml

from pytest_agentreplay import settings
from pytest_agentreplay.cli import parse_words, verbs
from pytest_agentreplay.settings.table import INI_KEYS
from tests.support import forking
from tests.support.model_script import Ask, default_script
from tests.support.project import ON_CI, Project
from tests.support.tables import words

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n+)?(?:<!-- (?P<checkout>in a checkout) -->\n+)?(?:<!-- the model (?P<drifts>drifts) -->\n+)?(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?(?P<rest>[^\n]*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
STARTS_FROM = re.compile(r"^<!-- starts from: (\S+) -->$", re.MULTILINE)
ENVIRONMENT = re.compile(r"^<!-- environment: (\w+) -->$", re.MULTILINE)
PLUGIN = re.compile(r"^<!-- plugin: (\S+) -->$", re.MULTILINE)
BRINGS = re.compile(r"^<!-- brings: (\S+) -->$", re.MULTILINE)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
CHECKOUT = ("pyproject.toml", "conftest.py", "cases", "docs/examples", "tests/envs")
"""What of the repository is in the copy of it."""
PLUGINS = ("pytest_agentreplay.plugin", "syrupy", "anyio.pytest_plugin")
FOREIGN = words(". cat cd cp env export gh git grep head ip pip python python3 rm sed unshare")
MODULES = {"pytest": "pytest", "agentreplay": "pytest_agentreplay"}
"""Programs that are forked, where nothing in the command needs a shell."""
VERDICT = re.compile(r"^recorded .*\)   \S", re.MULTILINE)
"""What a recording says of its proof. Where `-q` says "all replay", `PlayedPage.plain` leaves it out."""
LIVE = ("--snapshot-record", "--record-from", "--record-mode", "--replay=off", "--replay=live", "AGENTREPLAY=record")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language, title, the reason for not running it, its text."""

    where: str
    language: str
    title: str
    reason: str
    text: str
    checkout: bool = False
    drifts: bool = False

    @property
    def kind(self):
        """What is done with it; "" for what nobody knows to check."""
        if self.reason:
            return "left out"
        if self.title:
            return "edit" if self.language == "diff" else "file"
        if self.language == "python":
            return "test" if "def test_" in self.text else "script"
        return self.language if self.language in {"console", "sh", "ini", "toml", "yaml", "json"} else ""


def blocks_of(page):
    """The blocks of a page in order. A fence that is not read as one is an error."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        where = f"{page.relative_to(ROOT)}:{line}"
        assert not match["rest"].strip(), f"{where}: {match['rest']!r} behind the language is not understood"
        indent = len(match["indent"])
        body = "".join(row[indent:] if row.strip() else row for row in match["text"].splitlines(keepends=True))
        title, reason = match["title"] or "", match["reason"] or ""
        marks = bool(match["checkout"]), bool(match["drifts"])
        found.append(Block(where, match["language"], title, reason, body, *marks))
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    assert fences == 2 * len(found), f"{page.name}: {fences} fences, and {len(found)} blocks were read"
    return found


def list_api_names():
    """Return the full names on the page of the Python API."""
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    paragraphs = re.findall(r"^<!-- api: (\S+) -->\n((?:.+\n)+)", text, re.MULTILINE)
    return [f"{module}.{name}" for module, paragraph in paragraphs for name in re.findall(r"`(\w+)`", paragraph)]


def pages_of(environment):
    """The pages that are run in an environment: those that name it, and in main all that name none."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {page: ENVIRONMENT.search(page.read_text(encoding="utf-8")) for page in pages}
    return [page for page, name in named.items() if (name[1] if name else "main") == environment]


def model(body, number):
    """The model of the pages: it looks order A-17 up, pays back if asked to, and says so. A nano model looks up another."""
    body = body if isinstance(body, dict) else {}
    said = body.get("messages") or []
    offered = {tool.get("function", tool)["name"] for tool in body.get("tools", ())}
    question = next((m["content"] for m in reversed(said) if m["role"] == "user"), "")
    order = "A-71" if str(body.get("model")).endswith("-nano") else "A-17"
    plan = [Ask("lookup_order", {"order_id": order})] if "lookup_order" in offered else []
    if "refund" in offered and "money back" in question:
        plan.append(Ask("refund", {"order_id": "A-17", "amount": 18.5}))
    done = sum(message["role"] == "tool" or "tool_result" in str(message.get("content")) for message in said)
    if done < len(plan):
        return plan[done]
    if not plan:
        return default_script(body, number)
    return "Order A-17 is late, so I have refunded 18.50." if len(plan) > 1 else "Order A-17 is late."


def drifting(body, number):
    """The same model, once it has drifted: it pays nothing back."""
    reply = model(body, number)
    return "I have asked a colleague to look at it." if isinstance(reply, Ask) and reply.name == "refund" else reply


class PlayedPage:
    """One page that is run in a folder of its own, beside the model server; `flags` are what pytest takes here."""

    def __init__(self, root, page, server, flags):
        self.root = root
        self.page = page
        self.server = server
        self.flags = flags
        self.pending = []
        ours = ("PYTEST", "AGENTREPLAY", "COV", "SSL_CERT_FILE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k not in ON_CI}
        self.environ = kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SSL_CERT_DIR": os.devnull,  # as in Project: all servers are on loopback
            "PYTEST_PLUGINS": ",".join([*PLUGINS, *PLUGIN.findall(page.read_text(encoding="utf-8"))]),
            "PYTEST_ADDOPTS": "-p no:cacheprovider -W error -W ignore::ResourceWarning --strict-config --strict-markers",
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "sk-desk-0123456789abcdef",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-ant-desk-0123456789abcdef",
            "MODEL_URL": server.url,
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{
                f"GIT_{who}_{what}": "you@example.invalid"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
        }

    def play(self):
        """Lay out and run every block of the page; at its end run the tests that no command of the page has run."""
        text = self.page.read_text(encoding="utf-8")
        for other in STARTS_FROM.findall(text):
            for block in blocks_of((self.page.parent / other).resolve()):
                if block.kind == "file":
                    self.lay(block)
        for file in BRINGS.findall(text):
            shutil.copy(self.page.parent / file, self.root)
        self.pending.clear()
        for number, block in enumerate(blocks_of(self.page)):
            self.one(block, number)
        self.rest()

    def one(self, block, number):
        match block.kind:
            case "left out":
                assert len(block.reason) > 10, f"{block.where}: say why it is not run"
                if block.language == "python":
                    compile(block.text, block.where, "exec")
            case "file":
                self.lay(block)
            case "edit":
                self.edit(block)
            case "test":
                self.lay(Block(block.where, "python", f"test_page_{number}.py", "", block.text))
            case "script":
                code, told = self.run(f"{shlex.quote(sys.executable)} -W error -", given=block.text)
                assert code == 0, f"{block.where}:\n{told}"
            case "console":
                self.console(block)
            case "sh":
                self.check_commands(block.text, block.where)
            case "ini" | "toml":
                check_settings(block)
            case "yaml":
                for step in steps_of(yaml.safe_load(block.text)):
                    self.check_commands(step, block.where)
            case "json":
                json.loads(block.text)
            case _:
                pytest.fail(f"{block.where}: nobody checks a block of language {block.language!r}")

    def lay(self, block):
        file = self.root / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        if block.language in {"ini", "toml"}:
            check_settings(block)
        if block.language == "python":
            compile(block.text, block.where, "exec")
            if file.name.startswith("test_"):
                self.pending.append(block.title)
        Project.put(file, block.text)

    def edit(self, block):
        file = self.root / block.title
        old = "".join(row[1:] for row in block.text.splitlines(keepends=True) if row[0] in "- ")
        new = "".join(row[1:] for row in block.text.splitlines(keepends=True) if row[0] in "+ ")
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{block.where}: the lines before the edit are not once in {block.title}:\n{text}"
        Project.put(file, text.replace(old, new))

    @cached_property
    def copy(self):
        """A copy of this repository, as far as its cases go, and the environment of somebody who stands in it."""
        folder = self.root / "checkout"
        for name in CHECKOUT:
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        ours = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_PLUGINS", "PYTEST_ADDOPTS")
        return folder, {name: value for name, value in self.environ.items() if name not in ours}

    def run(self, command, given=None, *, checkout=False, proves=True):
        """The exit code of a command and what it printed."""
        folder, environ = self.copy if checkout else (self.root, self.environ)
        if " cluster " in command:  # starts pytest without addopts, which choose the plugins of the copy
            environ = self.environ
        if not proves:
            environ = environ | {"PYTEST_ADDOPTS": f"{environ['PYTEST_ADDOPTS']} --agentreplay-checks=unproved=ignore"}
        program, *arguments = [""] if re.search(r"[|<>;&$*]", command) else shlex.split(command)
        if program in MODULES and not checkout:
            done = forking.run(MODULES[program], *arguments, cwd=folder, env=environ)
            return done.returncode, done.stdout + done.stderr
        streams = {"input": given, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environ, timeout=120, **streams)
        return done.returncode, done.stdout

    def console(self, block):
        for command, expected in commands_of(block):
            hits = self.server.hits
            self.server._replies = drifting if block.drifts else model
            proves = block.checkout or bool(VERDICT.search(expected))
            code, told = self.run(command, checkout=block.checkout, proves=proves)
            if "pytest" in command:
                # A command runs the test files that it names, or all.
                self.pending = [file for file in self.pending if ".py" in command and file not in command]
                live = any(word in command for word in LIVE)
                assert live or self.server.hits == hits, f"{block.where}: {command} asked the model"
            if expected:
                agrees = agree(self.plain(expected), self.plain(told))
                assert agrees, f"{block.where}: $ {command}\n--- shown\n{expected}--- real\n{told}"
            else:
                assert code == 0, f"{block.where}: $ {command}\n{told}"

    def rest(self):
        """Record and replay what no command of the page has run."""
        if self.pending:
            files = " ".join(map(shlex.quote, self.pending))
            for words in ("--snapshot-record", "--replay=model"):
                code, told = self.run(f"pytest -q {words} {files}", proves=False)
                assert code == 0, f"{self.page.name}:\n{told}"
                assert "AR-" not in told, told
            self.pending.clear()

    def check_commands(self, text, where):
        """Every flag and verb is there; other programs are on a short list."""
        for command in re.split(r"\n|&&|\|", re.sub(r"  #.*", "", text.replace("\\\n", " "))):
            said = [word for word in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
            if re.match(r"python3? -m pytest(_agentreplay)?(?!\S)", " ".join(said)):
                said = [said[2].replace("pytest_agentreplay", "agentreplay"), *said[3:]]
            match said:
                case ["pytest", *given]:
                    for flag in (word.partition("=")[0] for word in given if word.startswith("-")):
                        assert flag in self.flags, f"{where}: pytest has no {flag}"
                case ["agentreplay", *given]:
                    assert is_command(given), f"{where}: agentreplay does not take {given}"
                case ["pip", *given]:
                    extras = set(re.findall(r"\.\[(.*?)\]", " ".join(given)))
                    assert extras <= EXTRAS.keys(), f"{where}: there is no extra {extras}"
                case [program, *_]:
                    assert program in FOREIGN, f"{where}: {program} is not known here"

    def plain(self, text):
        """The lines of an output without what differs from run to run."""
        text = text.replace(str(self.root), "/home/you/shop")
        for pattern, instead in (
            (r"127\.0\.0\.1:\d+", "127.0.0.1:8000"),
            (r"\d{4}-\d\d-\d\d(T[\d:]+\+00:00)?", "DATE"),
            (r"\b[0-9a-f]{32}\b", "ID"),
            (r"\d+\.\d+s\b", "0.00s"),
            (r"\b\d+ ms\b", "0 ms"),
            (r"\b\d+\.\d (kB|s)\b", r"0.0 \1"),
            (r"(?m)^packages: .*(?:\n  .*)*$", "packages: what is installed"),
            (r", all (replay|end as recorded)\)", ")"),  # what is proved, the other form of this line shows
            (r"={3,}", "==="),
            (r"-{3,}", "---"),
            (r"_{3,}", "___"),
        ):
            text = re.sub(pattern, instead, text)
        return [row.rstrip() for row in text.strip("\n").splitlines()]


def commands_of(block):
    """(command, output shown) of a console block."""
    found = []
    for row in block.text.splitlines(keepends=True):
        if row.startswith("$ "):
            found.append([row[2:].strip(), ""])
        else:
            assert found, f"{block.where}: a console block begins with $"
            found[-1][1] += row
    return found


def agree(wanted, there):
    """Whether the lines that are shown are those that are there; "..." stands for any lines."""
    if not wanted:
        return not there
    if wanted[0].strip() == "...":
        return any(agree(wanted[1:], there[at:]) for at in range(len(there) + 1))
    return bool(there) and wanted[0] == there[0] and agree(wanted[1:], there[1:])


def is_command(words):
    """Whether the command line of ours parses."""
    try:
        return verbs.split_verb(words)[0] in verbs.MODULES and bool(parse_words(words))
    except SystemExit as left:
        return left.code == 0


def check_settings(block):
    """Resolve the settings of an ini or toml block as a session would."""
    if block.language == "toml":
        table = tomllib.loads(block.text).get("tool", {}).get("pytest", {})
        table = table.get("ini_options", table)
    else:
        text = block.text if block.text.lstrip().startswith("[") else f"[pytest]\n{block.text}"
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(text)
        table = dict(parser["pytest"])
    ours = {key: value for key, value in table.items() if key.startswith("agentreplay_")}
    ini = {}
    for key, value in ours.items():
        if key not in INI_KEYS:
            pass  # refused as one that is written
        elif INI_KEYS[key]["type"] == "linelist" and isinstance(value, str):
            value = [row.strip() for row in value.splitlines() if row.strip()]
        elif INI_KEYS[key]["type"] == "bool" and isinstance(value, str):
            value = value.strip().lower() in {"1", "true", "yes", "on"}
        ini[key] = value
    resolved = settings.read_settings({}, ini, {}, file=block.where)
    assert resolved.rules is not None


def steps_of(document):
    """The `run:` steps of a workflow."""
    jobs = document.get("jobs", {}) if isinstance(document, dict) else {}
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
