"""Somebody at a prompt: pdb in the agent, in a test, in a tool, after a divergence, while recording and in a replay."""

import re

import pytest

from tests.support.exhaustive import rare
from tests.support.small_projects import passed

PROMPT = "(Pdb) "
BREAK = "    breakpoint()\n"


def said(done):
    """What was printed at each prompt, the lines of Pdb's frames joined."""
    return [part.strip() for part in done.stdout.split(PROMPT)[1:]]


def stop_in(project, function, file="agent.py"):
    """Put a breakpoint at the top of a function."""
    text = (project.root / file).read_text(encoding="utf-8")
    head = re.search(rf"^def {function}\(.*\n", text, re.MULTILINE)[0]
    project.edit(file, head, head + BREAK)


def line_of(project, text):
    """The number of the line of the agent that begins with `text`."""
    rows = (project.root / "agent.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, row in enumerate(rows, 1) if row.strip().startswith(text))


@pytest.fixture(scope="module")
def made(shared_project):
    project = shared_project()
    project.furnish()
    passed(project.record())
    project.kept = project.files[0].read_bytes()
    return project


@pytest.fixture
def recorded(made):
    """The refund agent, recorded."""
    made.furnish()
    yield made
    assert made.files[0].read_bytes() == made.kept


def journals(project):
    return [*(project.root / ".pytest_agentreplay").rglob("*.jsonl")]


def test_a_breakpoint_in_the_agent_shows_it_in_a_replay_and_the_run_goes_on(recorded):
    stop_in(recorded, "answer")
    done = passed(recorded.run(given="p question\nb ask\nc\np len(messages)\ncl 1\nc\n"))
    assert [said(done)[0], said(done)[3]] == ["'Where is A-17?'", "2"]
    assert "3 turns, 5 calls served, 0 live" in done.stdout


def test_stepping_into_a_recorded_tool_and_out_of_it_shows_the_users_lines_alone(project):
    project.edit(
        "agent.py",
        "            result = TOOLS",
        "            arguments = json.loads(call['function']['arguments'])\n            result = TOOLS",
    )
    project.edit("agent.py", '(**json.loads(call["function"]["arguments"]))', "(**arguments)")
    stop_in(project, "answer")
    call = line_of(project, "result = TOOLS")
    done = passed(project.record(given=f"b {call}\nc\ns\ns\nl\nu\nd\nn\nn\nn\nn\ncl 1\nc\n"))
    places = [(name, int(line)) for line, name in re.findall(r"> \S+?\((\d+)\)(\w+)\(\)", done.stdout, re.MULTILINE)]
    body = line_of(project, "note(f")
    assert places[1:4] == [("answer", call), ("lookup_order", body - 1), ("lookup_order", body)], done.stdout
    assert '->\t    note(f"lookup {order_id}")' in done.stdout
    assert places[4][0] == "call", "`up` goes through the frame that records"
    assert places[5:9] == [
        ("lookup_order", body),
        ("lookup_order", body + 1),
        ("lookup_order", body + 1),
        ("answer", call + 1),
    ]
    assert "created" in done.stdout


def test_a_breakpoint_on_a_tool_stops_in_its_body_while_recording_and_at_its_def_in_a_replay(project):
    stop_in(project, "answer")
    typed = "b lookup_order\nb refund\nc\np order_id\nc\np amount\nw\nc\n"
    recorded = passed(project.record(given=typed))
    assert [said(recorded)[3], said(recorded)[5]] == ["'A-17'", "18.5"]
    assert '-> note(f"lookup {order_id}")' in recorded.stdout
    replayed = passed(project.offline(given=typed))
    assert [said(replayed)[3], said(replayed)[5]] == ["'A-17'", "18.5"]
    assert "-> def lookup_order(order_id: str) -> dict:" in replayed.stdout


@pytest.mark.parametrize(("where", "given"), [("refund", "q\n"), *rare(("answer", "b refund\nc\nq\n"), ("refund", ""))])
def test_leaving_the_debugger_while_recording_keeps_a_journal_and_no_snapshot(project, where, given):
    stop_in(project, where)
    done = project.record(given=given)
    assert done.returncode in {1, 2}, done.stdout + done.stderr
    assert not project.files
    assert "it was cut short" in done.stdout
    (journal,) = journals(project)
    assert "agentreplay verify --recover" in done.stdout
    passed(project.command("verify", "--recover", journal))


def test_leaving_the_debugger_in_a_replay_leaves_everything_closed(recorded):
    stop_in(recorded, "answer")
    done = recorded.replay(given="q\n")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Quitting debugger" in done.stdout
    assert "AR-" not in done.stdout
    assert not journals(recorded)


def stopped_at(done):
    return done.stdout.split("PDB post_mortem")[1].split(PROMPT)[0]


def test_after_a_divergence_the_debugger_stands_on_the_agents_line(recorded):
    recorded.edit("agent.py", "Be kind", "Be rude")
    done = recorded.replay("--pdb", given="p messages[0]['content']\nu\np question\nc\n")
    assert "-> reply = httpx2.post(" in stopped_at(done)
    assert "Be rude" in said(done)[0]
    assert said(done)[2] == "'Where is A-17?'"
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert done.stdout.count("likely cause") == 1
    recorded.edit("agent.py", "Be rude", "Be kind")
    other = "call['function']['arguments'] = '{\"order_id\": \"B-2\"}'\n            result = TOOLS["
    recorded.edit("agent.py", "result = TOOLS[", other)
    done = recorded.replay("--pdb", given="p call['id']\nq\n")
    assert "AR-ARGS" in done.stdout
    assert "-> result = TOOLS[" in stopped_at(done), "the line that calls a tool"
    assert done.returncode == 2, done.stdout + done.stderr


def test_a_refusal_that_the_agent_caught_says_why_there_is_no_frame_to_look_at(recorded):
    swallowed = "    try:\n        httpx2.get('http://model.example')\n    except BaseException:\n        pass\n"
    recorded.edit("agent.py", "    reply = httpx2.post(", f"{swallowed}    reply = httpx2.post(")
    recorded.edit(
        "test_shop.py", "    assert", "    try: agent.answer('x')\n    except BaseException: return\n    assert"
    )
    done = recorded.replay("--pdb", given="q\n")
    assert "the agent caught the refusal, its frames are gone" in done.stdout
    assert "called from   agent.py:" in done.stdout


@pytest.mark.proves(forked=True)
def test_trace_steps_through_the_test_once_even_while_recording(project):
    done = passed(project.record("--trace", given="n\nc\n"))
    assert done.stdout.count("PDB runcall") == 1
    assert '-> assert "refund" in agent.answer' in done.stdout
    assert "(created, 5 calls, test passed)   replays" in done.stdout, "the proof stops nowhere"


@pytest.mark.proves(forked=True)
def test_a_recording_that_does_not_replay_asks_nobody(project):
    changing = "    import os\n    agent.PROMPT += str(os.getpid() * len(agentreplay.mode))\n    assert"
    project.edit("test_shop.py", "    assert", changing)
    done = project.record("--pdb", given="")
    assert "does not replay" in done.stdout
    assert "entering PDB" not in done.stdout


@pytest.mark.proves(forked=True)
def test_a_custom_breakpoint_hook_is_called_and_its_output_passes_with_s(project):
    project.write(mine="def stop():\n    print('my debugger was here')\n")
    stop_in(project, "ask")
    recorded = project.record("-s", PYTHONBREAKPOINT="mine.stop")
    assert recorded.stdout.count("my debugger was here") == 3, "three turns; the proof asks nobody"
    replayed = passed(project.replay("-s", PYTHONBREAKPOINT="mine.stop"))
    assert replayed.stdout.count("my debugger was here") == 3


def test_what_the_agent_prints_passes_and_a_line_that_it_reads_comes_in(recorded):
    recorded.edit("agent.py", "    messages = [", "    print('the agent speaks to', input('name? '))\n    messages = [")
    done = passed(recorded.replay("--capture=no", given="Ann\n"))
    assert "name? the agent speaks to Ann" in done.stdout
    recorded.edit("agent.py", "input('name? ')", "'Ann'")
    assert "the agent speaks to Ann" in recorded.replay("--capture=tee-sys").stdout
