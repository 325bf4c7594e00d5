"""Examples of the page on SDKs and frameworks: recorded, replayed without a server or a tool, red for another prompt."""

import re

import pytest

from tests.support.browser import find_browser
from tests.support.model_script import Ask
from tests.support.pages import ROOT, blocks_of
from tests.support.project import NOBODY
from tests.support.small_projects import edited, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("examples")
PAGE = ROOT / "docs" / "how-to" / "sdks-and-frameworks.md"
EXAMPLES = {  # section -> the file that has its prompt, whether a tool runs
    "openai": ("clerk.py", True),
    "instructor": ("test_instructor.py", False),
    "agno": ("clerk.py", True),
    "Haystack": ("clerk.py", True),
    "Semantic Kernel": ("clerk.py", True),
    "DSPy": ("clerk.py", True),
    "Mirascope": ("clerk.py", True),
    "Celery": ("clerk.py", True),
    "Temporal": ("clerk.py", True),
    "Playwright": ("clerk.py", True),
}
PROMPTS = ("You help", "You serve"), ("You read", "You scan"), ('"question -> answer"', '"question -> answer, apology"')
DSPY = "[[ ## next_thought ## ]]\nthought\n\n[[ ## next_tool_name ## ]]\n{}\n\n[[ ## next_tool_args ## ]]\n{}\n\n"
THEIRS = ("-W", "ignore")
"""What these libraries stand on warns of itself."""


def model(body, number):
    """Ask for the tool that is offered, in text where the prompt asks for that, then answer differently each time."""
    said = str(body.get("messages") or body.get("input"))
    names = [tool.get("function", tool)["name"] for tool in body.get("tools", ())]
    if "next_tool_name" in said:
        step = ("finish", {}) if "observation_0" in said else ("lookup_order", '{"order_id": "A-17"}')
        return DSPY.format(*step)
    if "Order" in names:
        return Ask("Order", {"order_id": "A-17", "status": f"late {number}"})
    if names and "'role': 'tool'" not in said and "function_call_output" not in said:
        return Ask(names[0], {"url": "file:///order.html"} if names == ["read_page"] else {"order_id": "A-17"})
    answer = f"Order A-17 is late (answer {number})."
    return f"[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\n{answer}\n" if "[[ ##" in said else answer


def blocks_below(section):
    """Return the blocks of a section of the page."""
    text = PAGE.read_text(encoding="utf-8")
    first = text[: text.index(f"\n## {section}\n")].count("\n") + 2
    last = first + text[text.index(f"\n## {section}\n") + 1 :].partition("\n## ")[0].count("\n")
    return [block for block in blocks_of(PAGE) if first < int(block.where.rpartition(":")[2]) <= last]


def files_of(section):
    """Return the files of an example and the lines that it adds to the settings; its tools note each of their runs.

    `shop.py` and `test_clerk.py` stand once on the page, and the agent of openai is also that of the workers.
    """
    blocks = blocks_below(section)
    note = r'\g<0>\n\1with open("ledger.txt", "a") as ledger:\n\1    ledger.write("ran\\n")'
    shared = [*blocks_below("The example"), *blocks_below("openai")]
    texts = {block.title: block.text for block in [*shared, *blocks] if block.title.endswith(".py")}
    if any(block.title.startswith("test_") for block in blocks):
        del texts["test_clerk.py"]
    if section == "Playwright":
        agent = (
            texts["clerk.py"].replace("import shop", "import browser").replace("shop.lookup_order", "browser.read_page")
        )
        texts["clerk.py"] = agent.replace("lookup_order", "read_page").replace("order_id", "url")
        texts["test_clerk.py"] = texts["test_clerk.py"].replace("lookup_order", "read_page")
    texts = {name: re.sub(r'(?m)^( +)"""(?:Find|Read) .*"""$', note, text) for name, text in texts.items()}
    settings = [block.text.partition("agentreplay_tools =\n")[2] for block in blocks if block.language == "ini"]
    return texts, "".join(settings)


@pytest.mark.parametrize("section", EXAMPLES)
def test_the_example_is_recorded_replayed_and_red_for_another_prompt(shared_project, section):
    file, runs_tool = EXAMPLES[section]
    texts, settings = files_of(section)
    project = shared_project(model, environ={"OPENAI_API_KEY": "sk-live-0123456789abcdef"})
    if section == "Playwright":
        (project.root / "order.html").write_text("<body>Order A-17 is late.</body>", encoding="utf-8")
        started = f'launch(executable_path="{find_browser()}", args=["--no-sandbox"])'
        texts["browser.py"] = texts["browser.py"].replace("launch()", started)
        texts["browser.py"] = texts["browser.py"].replace(
            "goto(url)", f'goto("{(project.root / "order.html").as_uri()}")'
        )
    if any("import shop" in text for text in texts.values()):
        settings += "    shop.lookup_order = read\n"
    modules = {name.removesuffix(".py"): text for name, text in texts.items()}
    furnished(project, f"agentreplay_tools =\n{settings}", **modules)
    project.proves = True
    recording = recorded(project, *THEIRS, OPENAI_BASE_URL=f"{project.server.url}/v1").recording.stdout
    assert "test passed)   replays" in recording, recording
    assert "AR-" not in recording, recording
    assert project.ledger == ["ran"] * runs_tool
    offline = {"OPENAI_BASE_URL": f"{NOBODY}/v1"}
    passed(project.offline(*THEIRS, **offline))
    old, new = next(pair for pair in PROMPTS if pair[0] in texts[file])
    with edited(project, file, old, new):
        (report,) = summary(project.offline(*THEIRS, **offline, COLUMNS="200")).values()
    assert report.startswith("[AR-PROMPT] turn 1/"), report
