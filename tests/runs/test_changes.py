"""The file of `--replay-set prompt=@FILE`: its text, or an error that says what to write instead."""

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.snapshot_selection import read_changes


def test_what_was_typed_by_name_with_the_text_of_the_file(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/new.txt").write_text("Be brief.\nÜber alles.\n", encoding="utf-8", newline="\n")
    read = read_changes(["temperature=0", "prompt=@prompts/new.txt"], tmp_path)
    assert read == {"temperature": 0, "prompt": "Be brief.\nÜber alles.\n"}


def test_a_name_stands_once(tmp_path):
    with pytest.raises(SettingsError, match="--replay-set model: it is given twice"):
        read_changes(["model=a", "model=b"], tmp_path)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("@gone.txt", "there is no such file"),
        ("@../outside.txt", "is outside of the project; put it below"),
        ("@link.txt", "is outside of the project"),
        ("@.", "is not a plain file"),
        ("@empty.txt", "is empty"),
        ("@bytes.txt", "can't decode"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, written, why):
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "empty.txt").write_text(" \n")
    (root / "bytes.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError) as caught:
        read_changes([f"prompt={written}"], root)
    assert str(caught.value).startswith(f"--replay-set prompt={written}: ")
    assert why in str(caught.value)
