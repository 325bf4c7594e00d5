"""Whether a prompt was edited, or shows the state of a tool that did not run: what the project's files hold of it."""

import pytest

from pytest_agentreplay.runs.outside_causes import find_edited_file

BRIEF = 'PROMPT = "You comment on an essay in one line."'
IN_PARTS = 'PROMPT = (\n    "You comment on an essay "\n    f"in {count} lines, {name}.\\nBe kind."\n)'
STATES = 'PROMPTS = ["The order is open for now.", "The order is closed for now."]'
EDITS = {
    "a word": (BRIEF, "You comment on an essay in two lines.", "You comment on an essay in one line.", True),
    "all of it": (BRIEF, "Write a haiku.", "You comment on an essay in one line.", True),
    "a sentence more": (BRIEF, "You comment on an essay.", "You comment on an essay in one line.", True),
    "a sentence less": ('P = "Be kind to them."', "Be kind and brief to them.", "Be kind to them.", True),
    "in parts": (IN_PARTS, "You remark on an essay in 3 lines, Ann.", "You comment on an essay in 3 lines, Ann.", True),
    "another line": (IN_PARTS, "in 3 lines, Ann.\nBe nice.", "in 3 lines, Ann.\nBe kind.", True),
    "a number": (IN_PARTS, "an essay in 3 lines", "an essay in 0 lines", False),
    "one of two texts": (STATES, "The order is closed for now.", "The order is open for now.", False),
    "a line that state adds": (BRIEF, "You comment on an essay in one line.\nAnn likes tea.",
        "You comment on an essay in one line.", False),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("file", ["shop/agent.py", "prompts/comment.md"])
def test_a_file_that_holds_the_words_of_now_alone_was_edited(tmp_path, name, file):
    source, recorded, now, is_edited = EDITS[name]
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(source, encoding="utf-8")
    (tmp_path / "__agent_snapshots__").mkdir()
    (tmp_path / "__agent_snapshots__/shop.md").write_text(recorded, encoding="utf-8")
    assert find_edited_file(tmp_path, recorded, now) == (file if is_edited else "")
