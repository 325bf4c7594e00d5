"""The file of `--replay-set prompt=@FILE`: its text, or an error that says what to write instead."""

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.live.prompt_file import LARGEST, with_prompt
from pytest_agentreplay.settings import Settings


def settings(written):
    return Settings(model="live", changes=(("temperature", "0", 0), ("prompt", written, written)))


def test_the_text_stands_beside_what_was_typed(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/new.txt").write_text("Be brief.\nÜber alles.\n", encoding="utf-8", newline="\n")
    read = with_prompt(settings("@prompts/new.txt"), tmp_path).changes
    assert read == (("temperature", "0", 0), ("prompt", "@prompts/new.txt", "Be brief.\nÜber alles.\n"))


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("@gone.txt", "there is no such file"),
        ("@../outside.txt", "is outside of the project; put the file below"),
        ("@link.txt", "is outside of the project"),
        ("@.", "is not a plain file"),
        ("@empty.txt", "is empty"),
        ("@bytes.txt", "can't decode"),
        ("@large.txt", "is larger than 4 MB"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, written, why):
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "empty.txt").write_text(" \n")
    (root / "bytes.txt").write_bytes(b"\xff\xfe")
    (root / "large.txt").write_text("x" * (LARGEST + 1))
    with pytest.raises(SettingsError) as caught:
        with_prompt(settings(written), root)
    assert str(caught.value).startswith(f"--replay-set prompt={written}: ")
    assert why in str(caught.value)
