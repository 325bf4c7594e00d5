"""The table of docs/explanation/comparison.md: records and replays one agent with each recorder, and edits the agent.

    pip install uv && python tests/compatibility/compare_peers.py           # every recorder, in an environment of its own
    python tests/compatibility/compare_peers.py --only vcrpy                # those whose name begins so
    python tests/compatibility/compare_peers.py --service                   # in a service alone; other cells stay
    python tests/compatibility/compare_peers.py --page                      # the page alone, from peers/results.json

The agent, its tests and what binds each recorder to them are in `peers/`. The model is a server on loopback whose answers
are never the same twice; it stays up while a test is replayed, so that a call that goes live is counted.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = Path(__file__).with_name("peers")
RESULTS = PEERS / "results.json"
PAGE = ROOT / "docs" / "explanation" / "comparison.md"
BEGINS, ENDS = "<!-- {} begins -->", "<!-- {} ends -->"
KEY = "sk-" + "desk0123456789abcdefghijklmnop"
SECRETS = {
    "the key": KEY,
    "the cookie": "cookie7731aa0291fe",
    "a key in the prompt": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
}
WORDS = " ".join(f"reply{number}" for number in range(30))


@dataclass(frozen=True)
class Peer:
    """A recorder in one of its settings: how it is installed, and what is typed to record and to replay."""

    name: str
    settings: str
    needs: tuple[str, ...]
    conftest: str
    record: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    names: tuple[str, str] = ("", "")
    """A pattern of what a report names, and how that is shown: the number of a turn, or of each request that is listed."""


BODY = "method scheme host port path query body"
OURS = "pytest_agentreplay"
PLAIN = Peer("no recorder", "", ("httpx2",), "none")
CANDIDATES = (r"(?m)^E +(\d)\. POST", "requests {}, with a diff each")
EVENT = (r"#(\d) +llm .*content differs", "event {}")
STEP = (r"step (\d)", "step {}")
ONCE, NONE = ("--record-mode=once",), ("--record-mode=none",)
VCRPY = ("vcrpy", "pytest-recording")
TABLE = [
    Peer(OURS, "as it comes", (str(ROOT),), "ours", ("--snapshot-record",), names=(r"turn (\d)/", "turn {}")),
    Peer("vcrpy", "as it comes", VCRPY, "vcr", ONCE, NONE, names=CANDIDATES),
    Peer("vcrpy", "and `body` matched", VCRPY, "vcr", ONCE, NONE, {"MATCH_ON": BODY}, CANDIDATES),
    Peer("cassetter", "as it comes", ("cassetter",), "vcr", ONCE, NONE),
    Peer(
        "cassetter", "and `json_body` matched", ("cassetter",), "vcr", ONCE, NONE, {"MATCH_ON": "method uri json_body"}
    ),
    Peer("cassetteai", "as it comes", ("cassetteai",), "cassetteai"),
    Peer("reeltime", "as it comes", ("reeltime",), "reeltime", environ={"STRICTNESS": "default"}, names=EVENT),
    Peer("reeltime", "strict", ("reeltime",), "reeltime", environ={"STRICTNESS": "strict"}, names=EVENT),
    Peer(
        "agentsnap", "replay, tools too", ("agentsnap",), "agentsnap", names=(r"\[ARGS\] llm_call\[(\d)\]", "calls {}")
    ),
    Peer("agent-rewind", "as it comes", ("agent-rewind",), "rewind", environ={"MATCH": "strict"}, names=STEP),
    Peer("agent-rewind", "and `parallel`", ("agent-rewind",), "rewind", environ={"MATCH": "parallel"}, names=STEP),
    Peer("replex", "as it comes", ("replex",), "replex", names=(r"request #(\d)", "request {}")),
]
TABLES = (
    {
        "prompt": "prompt edited",
        "report": "third turn edited: named",
        "fewer": "one call fewer",
        "extra": "one call more",
        "order": "parallel calls in the other order",
        "tools": "tools run again",
    },
    {
        "stream": "stream",
        "secrets": "secrets in the files",
        "size": "200 turns, kB",
        "cost": "replay of a turn, ms CPU",
        "whole": "the whole replay, s CPU",
    },
    {
        "apart": "20 requests at once, each by itself",
        "kept": "failures alone kept",
        "before": "secrets on the disk, after a kill too",
    },
)
COLUMNS = TABLES[0] | TABLES[1] | TABLES[2]


class Model(BaseHTTPRequestHandler):
    """The model server: its replies have a number, so that none comes twice."""

    protocol_version = "HTTP/1.1"
    numbers = itertools.count(1)
    hits = 0

    def do_POST(self) -> None:
        """Answer one chat completion."""
        Model.hits += 1
        number = next(Model.numbers)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body["messages"]
        done = sum(message["role"] == "tool" for message in messages)
        message = {"role": "assistant", "content": f"{messages[-1]['content']} {WORDS} (reply {number})"}
        if "tools" in body and done < 2:
            call = {"name": ("lookup", "refund")[done], "arguments": '{"order_id": "A-17"}'}
            message |= {"content": None, "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}]}
        facts = {"id": f"chatcmpl-{number}", "created": 1_760_000_000 + number, "model": "gpt-5"}
        if body.get("stream"):
            deltas = [{"content": f"piece{number}.{piece} "} for piece in range(8)]
            events = [
                {**facts, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
                for delta in deltas
            ]
            data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
            kind = "text/event-stream"
        else:
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
            data = json.dumps({**facts, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
            kind = "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("set-cookie", f"session={SECRETS['the cookie']}")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class ModelServer(ThreadingHTTPServer):
    """Takes as many requests at once as a service makes, and prints nothing about clients that are killed."""

    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Print nothing."""


class Project:
    """The agent and its tests in a folder, bound to one recorder."""

    def __init__(self, peer: Peer, binaries: Path, url: str, folder: Path) -> None:
        self.peer = peer
        self.binaries = binaries
        self.folder = folder
        folder.mkdir()
        shutil.copy(PEERS / "agent.py", folder)
        shutil.copy(PEERS / "scenarios.py", folder / "test_scenarios.py")
        shutil.copy(PEERS / f"conftest_{peer.conftest}.py", folder / "conftest.py")
        ini = "[pytest]\n"
        if peer.name == OURS:
            ini += "agentreplay_tools =\n    agent.lookup = read\n    agent.refund\n"
        (folder / "pytest.ini").write_text(ini, encoding="utf-8")
        self.shipped = {file.name for file in folder.iterdir()} | {"ledger.txt", "out.json"}
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "AGENTREPLAY", "CI"))
        }
        self.environ = kept | peer.environ | {
            "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "KEY_IN_PROMPT": SECRETS["a key in the prompt"],
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "COLUMNS": "200",
        }  # fmt: skip

    def run(self, test: str, mode: str, change: str = "") -> tuple[int, str, int]:
        """Run one test; return its exit code, what it printed, and how many requests the model had."""
        words = self.peer.record if mode == "record" else self.peer.replay
        command = [
            str(self.binaries / "python"),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_scenarios.py",
            "-k",
            test,
        ]
        before = Model.hits
        environ = self.environ | {"PEER_MODE": mode, "CHANGE": change}
        done = subprocess.run(
            [*command, *words], cwd=self.folder, env=environ, capture_output=True, encoding="utf-8", timeout=900
        )
        if done.returncode > 1:
            raise RuntimeError(f"{self.peer.name} cannot be tried:\n{done.stdout}{done.stderr}")
        return done.returncode, done.stdout + done.stderr, Model.hits - before

    def files(self) -> list[Path]:
        """Return the files that the recorder has written."""
        made = (file for file in self.folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        return [file for file in made if file.relative_to(self.folder).parts[0] not in self.shipped]

    def read(self, name: str) -> str:
        """Return the text of a file that the tests write, and remove it."""
        file = self.folder / name
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        file.unlink(missing_ok=True)
        return text


class Trial:
    """All scenarios with one recorder."""

    def __init__(self, peer: Peer, binaries: Path, url: str, folder: Path) -> None:
        self.peer, self.binaries, self.url, self.folder = peer, binaries, url, folder
        self.cells: dict[str, str] = {}
        self.evidence: dict[str, str] = {}

    def start(self, test: str) -> Project | None:
        """Record a test in a project of its own, and return it; None where that fails."""
        project = Project(self.peer, self.binaries, self.url, self.folder / f"{test}-{len([*self.folder.iterdir()])}")
        code, text, hits = project.run(test, "record")
        if code or not hits:
            self.evidence[f"record {test}"] = last_lines(text)
            return None
        return project

    def try_change(self, test: str, change: str) -> tuple[str, str]:
        """Record a test, edit the agent, replay; return what happens in a word, and the text of it."""
        project = self.start(test)
        if project is None:
            return "cannot record", ""
        code, text, hits = project.run(test, "replay", change)
        self.evidence[f"{test}, {change or 'no change'}"] = last_lines(text)
        if hits:
            return f"asks the model ({'passes' if code == 0 else 'fails'})", text
        return ("answers exchanged" if "ANSWERS EXCHANGED" in text else "passes" if code == 0 else "fails"), text

    def run(self) -> None:
        """Fill all cells."""
        self.cells["prompt"] = self.try_change("talk", "prompt")[0]
        verdict, text = self.try_change("talk", "last turn")
        pattern, form = self.peer.names
        numbers = ", ".join(dict.fromkeys(re.findall(pattern, text))) if pattern else ""
        self.cells["report"] = verdict if verdict != "fails" else form.format(numbers) if numbers else "none"
        self.cells["fewer"] = self.try_change("talk", "fewer")[0]
        self.cells["extra"] = self.try_change("talk", "extra")[0]
        unchanged, changed = self.try_change("parallel", "")[0], self.try_change("parallel", "order")[0]
        self.cells["order"] = changed if unchanged == "passes" else f"{unchanged}, without the edit too"
        self.run_tools()
        self.run_stream()
        self.run_service()
        self.run_chat()

    def run_tools(self) -> None:
        """See which tools run in a replay without a change, and which secrets are in the files."""
        if (project := self.start("talk")) is None:
            self.cells |= {"tools": "cannot record", "secrets": "cannot record"}
            return
        project.read("ledger.txt")
        data = b"".join(file.read_bytes() for file in project.files())
        self.cells["secrets"] = (
            ", ".join(name for name, value in SECRETS.items() if value.encode() in data) or "none of them"
        )
        code, text, _ = project.run("talk", "replay")
        self.evidence["talk, no change"] = last_lines(text)
        lines = len(project.read("ledger.txt").splitlines())
        self.cells["tools"] = (
            ("yes" if lines else "no")
            if code == 0
            else f"the replay fails ({'tools run' if lines else 'no tool runs'})"
        )

    def run_stream(self) -> None:
        """Compare the pieces of a stream."""
        if (project := self.start("stream")) is None:
            self.cells["stream"] = "cannot record"
            return
        recorded = project.read("out.json")
        code, text, _ = project.run("stream", "replay")
        replayed = project.read("out.json")
        self.evidence["stream, no change"] = last_lines(text)
        kept = (
            f"{len(json.loads(recorded))} pieces, as recorded" if recorded == replayed and recorded != "[]" else "lost"
        )
        self.cells["stream"] = kept if code == 0 else "fails"
        if recorded == "[]":
            self.cells["stream"] = "empty, in the recording too"

    def run_service(self) -> None:
        """Record a service with 20 requests at once, and look at which files it leaves."""
        every, refused, secrets = self.serve("all")
        alone = [held for held in every if len(held) == 2 and len({number for _, number in held}) == 1]
        mixed = any(len({number for _, number in held}) > 1 for held in every)
        rest = ["the rest mixed"] * mixed + ["the rest refused"] * refused
        self.cells["apart"] = ", ".join([str(len({*alone})), *rest])
        kept = {number for held in self.serve("failed")[0] for _, number in held}
        failed = {b"%02d" % number for number in range(0, 20, 5)}
        no = "no: all 20" if len(kept) == 20 else f"no: {len(kept)}" if kept & failed else f"no: the {len(kept)} others"
        self.cells["kept"] = "yes" if kept == failed else no
        secrets |= self.serve("all", "killed")[2]
        self.cells["before"] = ", ".join(name for name in SECRETS if name in secrets) or "none of them"

    def serve(self, keep: str, *words: str) -> tuple[list[frozenset[tuple[bytes, bytes]]], bool, set[str]]:
        """Run the service; return the questions that each file holds, whether a request was refused, and the secrets."""
        folder = self.folder / f"service-{len([*self.folder.iterdir()])}"
        project = Project(self.peer, self.binaries, self.url, folder)
        command = [str(self.binaries / "python"), str(PEERS / "service.py"), self.peer.name, *words]
        environ = project.environ | {"KEEP": keep}
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, encoding="utf-8", timeout=300)
        if done.returncode:
            raise RuntimeError(f"{self.peer.name} cannot serve:\n{done.stdout}{done.stderr}")
        self.evidence[" ".join(["service", keep, *words])] = last_lines(done.stdout)
        data = [file.read_bytes() for file in project.files()]
        held = [frozenset(re.findall(rb"(first|second) question of request-(\d\d)", part)) for part in data]
        found = {name for name, value in SECRETS.items() if any(value.encode() in part for part in data)}
        return [questions for questions in held if questions], "Error" in done.stdout or "Active" in done.stdout, found

    def run_chat(self) -> None:
        """Measure the size of a long run, and what its replay costs."""
        import resource  # Windows has none

        if (project := self.start("chat")) is None:
            self.cells |= dict.fromkeys(("size", "cost", "whole"), "cannot record")
            return
        project.read("out.json")
        self.cells["size"] = f"{sum(file.stat().st_size for file in project.files()) / 1000:,.0f}"
        times, wholes = [], []
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            code, text, _ = project.run("chat", "replay")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            wholes.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            if code:
                self.evidence["chat, no change"] = last_lines(text)
                self.cells |= {"cost": "fails", "whole": "fails"}
                return
            times.append(float(project.read("out.json")))
        self.cells |= {"cost": f"{min(times) / 200 * 1000:.1f}", "whole": f"{min(wholes):.1f}"}


def last_lines(text: str) -> str:
    """Return the end of an output: what it says first of a failure, and its last lines."""
    text = re.sub(
        r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", re.sub(r"/\S*/(?=test_scenarios|agent\.py|conftest)", "", text)
    )
    for value in SECRETS.values():
        text = text.replace(value, "SECRET")
    lines = [
        line[:200] for line in text.splitlines() if line.strip() and not re.search(r"/(tmp|root|work|home|usr)/", line)
    ]
    return "\n".join(lines[-14:])


def make_environment(peer: Peer, folder: Path) -> Path:
    """Make the environment of a recorder, and return the folder of its programs."""
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    needs = ["openai>=3", "pytest", *peer.needs]
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(binaries / "python"), *needs], check=True)
    return binaries


def versions_of(peer: Peer, binaries: Path) -> dict[str, str]:
    """Return the versions of a recorder and of what it is tried with."""
    names = [*(need for need in peer.needs if not need.startswith("/")), "openai", "pytest"]
    names = ["frozen-agentreplay", *names] if peer.name == OURS else names
    code = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    done = subprocess.run([str(binaries / "python"), "-c", code, *names], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def compare(prefix: str, *, service: bool) -> None:
    """Try the recorders whose names begin with `prefix`, and write the results."""
    server = ModelServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    environments: dict[tuple[str, ...], Path] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for nth, peer in enumerate([*TABLE, PLAIN]):
            if not peer.name.startswith(prefix) or (service and peer is PLAIN):
                continue
            if peer.needs not in environments:
                environments[peer.needs] = make_environment(peer, Path(scratch, f"env{nth}"))
            binaries = environments[peer.needs]
            Path(scratch, f"peer{nth}").mkdir()
            trial = Trial(peer, binaries, url, Path(scratch, f"peer{nth}"))
            trial.run_chat() if peer is PLAIN else trial.run_service() if service else trial.run()
            row = {"name": peer.name, "settings": peer.settings, "date": dt.datetime.now(dt.UTC).date().isoformat()}
            row |= {"versions": versions_of(peer, binaries), "cells": trial.cells, "evidence": trial.evidence}
            keep_row(row)
            print(peer.name, peer.settings, trial.cells, flush=True)


def keep_row(row: dict) -> None:
    """Put a row into the results, in the place of the one that it replaces."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"rows": []}
    known = {(row["name"], row["settings"]): row for row in results["rows"]}
    if (old := known.get((row["name"], row["settings"]))) and old["versions"] == row["versions"]:
        row |= {part: old[part] | row[part] for part in ("cells", "evidence")}
    known[row["name"], row["settings"]] = row
    results["rows"] = [
        known[peer.name, peer.settings] for peer in [*TABLE, PLAIN] if (peer.name, peer.settings) in known
    ]
    results["on"] = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table_of(results: dict) -> str:
    """Return the tables of the page."""
    rows = [row for row in results["rows"] if row["name"] != PLAIN.name]
    versions = {}
    for row in rows:
        versions |= {name: version for name, version in row["versions"].items() if name not in {"openai", "pytest"}}
    lines = []
    for columns in TABLES:
        lines += [f"| | {' | '.join(columns.values())} |", "| --- |" + " --- |" * len(columns)]
        for row in rows:
            cells = " | ".join(row["cells"][column] for column in columns)
            lines.append(f"| **{row['name']}** {row['settings']} | {cells} |")
        lines.append("")
    floor = next(row for row in results["rows"] if row["name"] == PLAIN.name)
    dates = sorted({row["date"] for row in results["rows"]})
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    sdk, pytest = (floor["versions"][name] for name in ("openai", "pytest"))
    lines.append(f"Tried from {dates[0]} to {dates[-1]} with {named}, openai {sdk}, pytest {pytest};")
    cost, whole = floor["cells"]["cost"], floor["cells"]["whole"]
    lines.append(f"{results['on']}. Without a recorder a turn costs {cost} ms of CPU, and the whole run {whole} s.")
    return "\n".join(lines)


def write_page() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = BEGINS.format("comparison"), ENDS.format("comparison")
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    table = table_of(json.loads(RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(f"{head}{begin}\n\n{table}\n\n{end}{tail}", encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument(
        "--service", action="store_true", help="try them in a service alone, and keep the other results"
    )
    parser.add_argument("--page", action="store_true", help="write the page from the results, and try nothing")
    arguments = parser.parse_args()
    if not arguments.page:
        compare(arguments.only, service=arguments.service)
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    if sum(row["cells"].keys() >= COLUMNS.keys() for row in rows) == len(TABLE) < len(rows):
        write_page()


if __name__ == "__main__":
    main()
