"""A shop's agent over real SDKs, broken and fixed, and what it takes to freeze a run of it without pytest."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

import openai

from pytest_agentreplay.cases.case import Case, CaseSource
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, Timing, ToolCall, ToolReply
from pytest_agentreplay.providers import encode
from pytest_agentreplay.runs.cases.in_process_run import attempt
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.runs.session_factory import begin_session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.support.model_script import Ask

QUESTION = "Where is my order A-17?"
MESSAGES = [{"role": "user", "content": QUESTION}]
NOBODY = "http://127.0.0.1:9"
LEDGER: list[str] = []
"""What the tools have really done."""
TEST = "tests/test_shop.py::test_order"


def lookup_order(order_id: str, user_id: str = "") -> list:
    """Orders by number, of everybody; of one customer where that is said."""
    LEDGER.append(f"lookup {order_id} {user_id}")
    return [{"order": order_id, "user_id": "u-3"}, {"order": order_id, "user_id": "u-7"}]


def refund(order_id: str) -> str:
    LEDGER.append(f"refund {order_id}")
    raise OSError("the bank is closed")


TOOLS = {"lookup_order": lookup_order, "refund": refund}


class Shop(NamedTuple):
    """One agent: where its model is, and what of it a fix may change."""

    url: str
    prompt: str = "You help customers."
    about: str = "Where an order is."
    user: str = ""
    swallows: bool = False
    rounds: int = 9
    model: str = "gpt-x"

    @property
    def functions(self):
        properties = {"order_id": {"type": "string"}} | ({"user_id": {"type": "string"}} if self.user else {})
        parameters = {"type": "object", "properties": properties}
        return [{"name": "lookup_order", "description": self.about, "parameters": parameters}]

    def call(self, name, arguments):
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        try:
            return json.dumps(TOOLS[name](**given, **({"user_id": self.user} if self.user else {})))
        except OSError as error:
            return f"error: {error}"
        except BaseException:
            if not self.swallows:
                raise
            return "nothing found"


KEY = "sk-live-0123456789abcdef"


def chat(shop, messages, *, stream=False):
    with openai.OpenAI(base_url=shop.url + "/v1", api_key=KEY, max_retries=0) as client:
        said = [*([{"role": "system", "content": shop.prompt}] if shop.prompt else []), *messages]
        tools = [{"type": "function", "function": function} for function in shop.functions]
        more = {"model": shop.model, "messages": said} | ({"tools": tools} if tools else {})
        for _ in range(shop.rounds):
            if stream:
                with client.chat.completions.stream(**more) as events:
                    reply = events.until_done().get_final_completion().choices[0].message
            else:
                reply = client.chat.completions.create(**more).choices[0].message
            if not reply.tool_calls:
                return reply.content
            said.append(reply.model_dump(mode="json", include={"role", "content", "tool_calls"}))
            for call in reply.tool_calls:
                result = shop.call(call.function.name, call.function.arguments)
                said.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return None


async def responses(shop, messages):
    async with openai.AsyncOpenAI(base_url=shop.url + "/v1", api_key=KEY) as client:
        given, tools = list(messages), [{"type": "function", "strict": False, **one} for one in shop.functions]
        for _ in range(shop.rounds):
            reply = await client.responses.create(model=shop.model, instructions=shop.prompt, input=given, tools=tools)
            given += [item.model_dump(mode="json", exclude_none=True) for item in reply.output]
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return reply.output_text
            for call in calls:
                output = shop.call(call.name, call.arguments)
                given.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        return None


def claude(shop, messages, *, stream=False):
    import anthropic

    with anthropic.Anthropic(base_url=shop.url, api_key=KEY, max_retries=0) as client:
        said = list(messages)
        tools = [{**one, "input_schema": one["parameters"]} for one in shop.functions]
        tools = [{key: one[key] for key in ("name", "description", "input_schema")} for one in tools]
        more = {"model": shop.model, "max_tokens": 99, "messages": said}
        more |= ({"system": shop.prompt} if shop.prompt else {}) | ({"tools": tools} if tools else {})
        for _ in range(shop.rounds):
            if stream:
                with client.messages.stream(**more) as events:
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(**more)
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return "".join(block.text for block in reply.content if block.type == "text")
            said.append({"role": "assistant", "content": [block.model_dump(mode="json") for block in reply.content]})
            results = [(use.id, shop.call(use.name, use.input)) for use in uses]
            content = [{"type": "tool_result", "tool_use_id": use, "content": result} for use, result in results]
            said.append({"role": "user", "content": content})
        return None


CLIENTS = {
    "chat": chat,
    "chat_stream": partial(chat, stream=True),
    "responses": responses,
    "claude": claude,
    "claude_stream": partial(claude, stream=True),
}


def script(body, number):
    """The model: it looks the order up, then tells of the first one."""
    asked = json.dumps(body)
    return f"Your order goes to u-3 (answer {number})." if "u-3" in asked else Ask("lookup_order", {"order_id": "A-17"})


def place(root: Path) -> Location:
    store = Store(root)
    return Location(TEST, store.path_of(root / "tests/test_shop.py", TEST), root, {}, os.environ)


def settings(**more) -> Settings:
    """The tools by their import paths, as an ini names them."""
    names = tuple((f"{__name__}.{name}", "write") for name in TOOLS)
    return Settings(mode="replay", tools=names)._replace(**more)


def recorded(root: Path, agent) -> Run:
    """The run of `agent`, which is called without arguments, as the plugin records it."""
    here, store = place(root), Store(root)
    run_session = begin_session(here, settings(mode="record"), store, lambda: None)
    run_session.open()
    try:
        run_session.enter_body()
        agent()
        run_session.leave_body()
        finding = run_session.end_body(EndedRun()) or run_session.end()
    finally:
        run_session.close()
    assert finding is None, finding
    return store.load(here.snapshot, TEST).run


def by_hand(dialect="openai_chat", *, prompt="You help customers.", stream=False) -> Run:
    """The same run as another tool's trace may tell it: what was said, and nothing of the bytes."""
    function = {"type": "function", **Shop("").functions[0]}
    arguments = {"order_id": "A-17"}
    orders = [{"order": "A-17", "user_id": "u-3"}, {"order": "A-17", "user_id": "u-7"}]
    said = [
        {"role": "system", "parts": [{"type": "text", "content": prompt}]},
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
    ]
    use = {"type": "tool_call", "id": "run-1", "name": "lookup_order", "arguments": arguments}
    asked = {"role": "assistant", "parts": [use], "finish_reason": "tool_calls"}
    told = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "run-1", "response": orders}]}
    end = {"role": "assistant", "parts": [{"type": "text", "content": "Your order goes to u-3."}]}
    first = encode.request(dialect, model="gpt-x", messages=said, tools=[function], stream=stream)
    second = encode.request(dialect, model="gpt-x", messages=[*said, asked, told], tools=[function], stream=stream)
    steps = [
        (first, encode.reply(first, asked)),
        (ToolCall("lookup_order", arguments), ToolReply(orders)),
        (second, encode.reply(second, end)),
    ]
    timed = [
        Exchange(call, outcome, 2 * at + 1, 2 * at + 2, timing=Timing(at * 10**9, None, at * 10**9 + 5))
        for at, (call, outcome) in enumerate(steps)
    ]
    return Run(Header("trace 1", clock=1_790_000_000_000_000_000), tuple(timed))


def case(root: Path, *, fidelity="bytes", **more) -> Case:
    file, folder = "cases/order/case.yaml", root / "cases/order"
    source = CaseSource(format="snapshot", fidelity=fidelity)
    return Case(file=file, folder=folder, id="order", source=source, **{"input": {"messages": MESSAGES}} | more)


def tried(root: Path, run: Run, runner, *, half="observed", allow_live=False, fidelity="bytes", given=None, **more):
    """What `runner` does on the case of `run` under the settings `given`; nothing may really run."""
    before = [*LEDGER]
    evidence = attempt(
        case(root, fidelity=fidelity, **more),
        half,
        run,
        runner=runner,
        settings=settings(**given or {}),
        root=root,
        environ=os.environ,
        allow_live=allow_live,
    )
    assert before == LEDGER, "a tool has really run"
    return evidence


def furnished(root: Path, *answers, tool="lookup_order") -> Path:
    """The project of a case that has a file of fixtures beside it."""
    folder = root / "cases/order/fixtures"
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"  - {answer}\n" for answer in answers)
    (folder / f"{tool}-1.yaml").write_text(f"tool: {tool}\nanswers:\n{lines}", encoding="utf-8")
    return root
