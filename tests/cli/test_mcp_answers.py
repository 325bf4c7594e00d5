"""Answers to coding agents: never longer than a page, and recorded text is never outside of its block."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cli.mcp_answers import BEGINS, ENDS, LIMIT, ROW, ToolAnswer, format_answer, format_call

texts = st.one_of(st.text(max_size=200), st.sampled_from([ENDS, f"a\n{ENDS}\nb\r\x85\u2028c", "\x1b[2J", "w" * 5000]))
answers = st.builds(
    ToolAnswer,
    texts.map("a test of {}".format),
    st.lists(texts, max_size=60),
    st.lists(st.builds(lambda word: format_call("show_run", run=word), texts), max_size=5),
)


@given(answers, st.integers(-3, 100))
def test_no_recorded_text_ends_its_block_or_makes_an_answer_long(answer, start):
    text = format_answer(answer, "show_run", {"run": "a", "start": start})
    lines = text.splitlines()
    assert len(text) <= LIMIT
    assert lines.count(BEGINS) == lines.count(ENDS) <= 1
    block = lines[lines.index(BEGINS) + 1 : lines.index(ENDS)] if BEGINS in lines else []
    assert all(line.startswith("|") for line in block)
    assert "\x1b" not in text
    assert all(line.startswith("  show_run(") for line in text.partition("\nnext:\n")[2].splitlines())


@given(st.lists(texts, max_size=60))
def test_the_calls_lead_through_all_of_a_long_answer(recorded):
    rows, start = [], 0
    while start is not None:
        text = format_answer(ToolAnswer("head", recorded), "show_run", {"run": "a", "start": start})
        lines = text.splitlines()
        rows += lines[lines.index(BEGINS) + 1 : lines.index(ENDS)] if BEGINS in lines else []
        more = text.partition("start=")[2].partition(")")[0]
        assert not more or int(more) == len(rows)
        start = int(more) if more else None
    assert max(map(len, rows), default=0) <= ROW + 2
    assert "".join(rows).count("w") >= "".join(recorded).count("w" * 5000) * 5000
