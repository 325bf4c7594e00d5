"""The tests of the agent. `recorder` is what the project's conftest.py makes of the recorder that is compared."""

import asyncio
import json
import pathlib
import time

import agent

OUT = pathlib.Path(__file__).with_name("out.json")


def test_talk(recorder):
    tools = {"lookup": recorder.tool(agent.lookup), "refund": recorder.tool(agent.refund)}
    recorder.output = agent.talk(recorder.base_url, tools)


def test_parallel(recorder):
    pairs = asyncio.run(agent.ask_both(recorder.base_url))
    recorder.output = str(sorted(pairs))
    for question, answer in pairs:
        assert question in answer, f"ANSWERS EXCHANGED: {question} {answer}"


def test_stream(recorder):
    pieces = agent.stream(recorder.base_url)
    recorder.output = "".join(pieces)
    OUT.write_text(json.dumps(pieces), encoding="utf-8")


def test_chat(recorder):
    begin = time.process_time()
    recorder.output = agent.chat(recorder.base_url, 200)
    OUT.write_text(json.dumps(time.process_time() - begin), encoding="utf-8")
