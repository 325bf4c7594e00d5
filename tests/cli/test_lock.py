"""`agentreplay lock` and `verify`: what they print, their exit codes, and signatures of the real ssh-keygen."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from pytest_agentreplay import cli, codec
from pytest_agentreplay.core.model import Exchange, Header, Run, ToolCall, ToolReply

SAME, USAGE, DAMAGED, NOTHING = 0, 2, 4, 5
HERE = "tests/__agent_snapshots__/test_a"


def snapshot(test, *results):
    calls = (Exchange(ToolCall("lookup"), ToolReply(r), 2 * n + 1, 2 * n + 2) for n, r in enumerate(results))
    return codec.dumps(Run(Header(test), tuple(calls)))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with two snapshots, which is where we stand."""
    place = tmp_path / "project"
    folder = place / HERE
    folder.mkdir(parents=True)
    (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, results in (("test_one", ["1", "2"]), ("test_two", [])):
        text = snapshot(f"tests/test_a.py::{name}", *results)
        (folder / f"{name}.snapshot.json").write_text(text, encoding="utf-8", newline="")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def run(capsys):
    def typed(*words):
        capsys.readouterr()
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as left:
            code = left.code
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return typed


def edit(file, old='"value": "1"', new='"value": "3"'):
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8", newline="")


def test_lock_writes_check_compares_and_verify_does_both(root, run):
    assert run("lock", "--check") == (DAMAGED, "", "agentreplay: agentreplay.lock: there is no such file\n")
    assert run("lock") == (SAME, "agentreplay.lock: 2 snapshots locked\n", "")
    assert run("lock") == (SAME, "agentreplay.lock: 2 snapshots locked\n", "")
    fits = "agentreplay.lock: the snapshots are those that were locked\n"
    assert run("lock", "--check") == (SAME, fits, "")
    code, out, _ = run("verify", ".")
    assert code == SAME
    assert out.endswith(fits)
    (root / HERE / "test_two.snapshot.json").unlink()
    code, out, err = run("verify", ".")
    assert code == DAMAGED
    assert f"agentreplay: agentreplay.lock: {HERE}/test_two.snapshot.json: is gone\n" in err
    assert err.endswith("agentreplay: if that is meant: agentreplay lock .\n")
    assert run("lock", "--check")[::2] == (code, err)
    assert run("lock")[0] == SAME
    assert run("lock", "--check")[0] == SAME


def test_a_folder_of_its_own_and_from_another_place(root, run, monkeypatch):
    monkeypatch.chdir(root / "tests")
    assert run("lock")[1] == f"{root.as_posix()}/agentreplay.lock: 2 snapshots locked\n"
    assert run("lock", "__agent_snapshots__")[1] == "__agent_snapshots__/agentreplay.lock: 2 snapshots locked\n"
    (root / HERE / "test_two.snapshot.json").unlink()
    _, _, err = run("verify", root)
    assert err.count("is gone") == 2, "the lock in the folder and the one above it"


def test_an_edited_or_broken_snapshot_is_not_locked(root, run):
    file = root / HERE / "test_one.snapshot.json"
    edit(file)
    code, out, err = run("lock")
    assert (code, out) == (DAMAGED, "")
    assert f"{HERE}/test_one.snapshot.json: was edited after it was sealed" in err
    assert "agentreplay reseal FILE --reason WHY" in err
    assert not (root / "agentreplay.lock").exists()
    file.write_text("{", encoding="utf-8")
    assert run("lock")[0] == DAMAGED


def test_where_there_is_nothing_to_lock(root, run):
    shutil.rmtree(root / "tests")
    assert run("lock")[0] == NOTHING
    assert run("lock", "nowhere")[0] == USAGE
    assert run("lock", "--check", "--sign", "key")[0] == USAGE
    (root / "agentreplay.lock").write_text(f"{'a' * 64}  x.snapshot.json  1\n", encoding="utf-8")
    code, _, err = run("verify", ".")
    assert code == DAMAGED
    assert "x.snapshot.json: is gone" in err
    assert run("lock") == (SAME, "agentreplay.lock: 0 snapshots locked\n", "")


def test_verify_shows_who_has_resealed_and_why(root, run):
    file = f"{HERE}/test_one.snapshot.json"
    edit(root / file)
    code, out, _ = run("reseal", file, "--reason", "the carrier changed\x1b[31m its words")
    assert code == USAGE, "a reason is one line of plain text"
    assert run("reseal", file, "--reason", "  the carrier changed its words ")[0] == SAME
    edit(root / file, '"value": "3"', '"value": "4"')
    assert run("reseal", file, "--reason", "and again")[0] == SAME
    code, out, _ = run("verify", file)
    assert code == SAME
    day = r"\d{4}-\d\d-\d\d"
    wanted = rf"{re.escape(file)}: whole and sealed\n    resealed {day}: the carrier changed its words\n    resealed {day}: and again\n"
    assert re.fullmatch(wanted, out)
    doc = json.loads((root / file).read_text("utf-8"))
    revisions = doc.pop("integrity")["revisions"]
    from pytest_agentreplay.codec import seal_digest

    (root / file).write_text(seal_digest.sealed(doc, [revisions[1], revisions[0]]), encoding="utf-8", newline="")
    code, _, err = run("verify", file)
    assert code == DAMAGED
    assert "revision 1 does not lead to the next one" in err


def test_no_reason_or_name_of_a_file_writes_lines_of_its_own(root, run):
    file = root / HERE / "test_one.snapshot.json"
    text = codec.reseal(file.read_text("utf-8").replace('"1"', '"3"'), "x\n::stop-commands::y\x1b[2J", file="f")
    file.write_text(text, encoding="utf-8", newline="")
    _, out, _ = run("verify", HERE)
    (told,) = [line for line in out.splitlines() if "stop-commands" in line]
    assert told.startswith("    resealed: x\\n")
    assert told.endswith("y\\x1b[2J")
    assert run("lock")[0] == SAME
    if os.name == "nt":
        return
    odd = file.with_name("a\n::error::b.snapshot.json")
    shutil.copy(file, odd)
    for words in (["verify", "."], ["lock"], ["lock", "--check"]):
        code, out, err = run(*words)
        assert code != SAME or words[0] == "verify"
        assert not any(line.startswith("::") for line in (*err.splitlines(), *out.splitlines())), words


def test_an_edit_of_a_reason_is_an_edit(root, run):
    file = f"{HERE}/test_one.snapshot.json"
    edit(root / file)
    assert run("reseal", file, "--reason", "looked at by Ann")[0] == SAME
    edit(root / file, "looked at by Ann", "looked at by Bob")
    code, _, err = run("verify", file)
    assert (code, err) == (DAMAGED, f"agentreplay: {file}: edited after it was sealed: the revisions\n")


def test_a_snapshot_that_changes_meanwhile_is_not_resealed_over(root, run, monkeypatch):
    file = root / HERE / "test_one.snapshot.json"
    edit(file)
    reseal = codec.reseal

    def slow(*words, **more):
        edit(file, '"value": "2"', '"value": "5"')  # another process
        return reseal(*words, **more)

    monkeypatch.setattr(codec, "reseal", slow)
    code, _, err = run("reseal", file, "--reason", "why not")
    assert code == USAGE
    assert "nothing was written" in err
    assert '"value": "5"' in file.read_text("utf-8")


# Signatures.

needs_ssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and "CI" not in os.environ, reason="no ssh-keygen; CI must have one"
)


@pytest.fixture
def keys(tmp_path):
    """A key of ours and a stranger's, outside of the project, and the file that names us."""
    made = {}
    for name in ("ours", "theirs"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(tmp_path / name)], check=True
        )
        made[name] = tmp_path / name
    made["signers"] = tmp_path / "signers"
    public = (tmp_path / "ours.pub").read_text("utf-8")
    made["signers"].write_text(f'ci@example.com namespaces="agentreplay" {public}', encoding="utf-8")
    return made


@needs_ssh
def test_a_lock_is_signed_and_the_signature_is_held_against_the_signers(root, run, keys):
    code, out, err = run("lock", "--sign", keys["ours"])
    assert (code, err) == (SAME, "")
    assert out == "agentreplay.lock: 2 snapshots locked\nagentreplay.lock.sig: signed\n"
    code, out, _ = run("verify", ".", "--signers", keys["signers"])
    assert code == SAME
    assert out.endswith("agentreplay.lock: signed by ci@example.com\n")
    assert sorted(file.name for file in root.iterdir()) == [
        "agentreplay.lock",
        "agentreplay.lock.sig",
        "pytest.ini",
        "tests",
    ]
    for name in ("agentreplay.lock", "agentreplay.lock.sig"):
        file = root / name
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert run("verify", ".", "--signers", keys["signers"])[0] == SAME, "as another system checks it out"


@needs_ssh
@pytest.mark.parametrize(
    "what", ["stranger", "namespace", "content", "unsigned", "no lock", "garbage", "empty", "huge"]
)
def test_what_is_not_signed_by_a_signer_is_damaged(root, run, keys, what):
    assert run("lock", "--sign", keys["theirs" if what == "stranger" else "ours"])[0] == SAME
    lock, signature = root / "agentreplay.lock", root / "agentreplay.lock.sig"
    match what:
        case "namespace":
            signed = subprocess.run(
                ["ssh-keygen", "-Y", "sign", "-n", "file", "-f", str(keys["ours"])],
                input=lock.read_bytes(), capture_output=True, check=True,
            )  # fmt: skip
            signature.write_bytes(signed.stdout)
        case "content":  # an edit, resealed and locked again, under the old signature
            edit(root / HERE / "test_one.snapshot.json")
            assert run("reseal", f"{HERE}/test_one.snapshot.json", "--reason", "why not")[0] == SAME
            assert run("lock")[0] == SAME
        case "unsigned":
            signature.unlink()
        case "no lock":
            lock.unlink()
        case "garbage":
            signature.write_text("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n", encoding="utf-8")
        case "empty":
            signature.write_bytes(b"")
        case "huge":
            signature.write_bytes(signature.read_bytes() + b"\n" * 100_000)
    code, _, err = run("verify", ".", "--signers", keys["signers"])
    assert code == DAMAGED
    (line,) = [line for line in err.splitlines() if "agentreplay.lock" in line]
    said = {
        "stranger": "is signed by nobody in",
        "namespace": "is no signature of this lock",
        "content": "is no signature of this lock",
        "unsigned": "sign it: agentreplay lock --sign KEY",
        "no lock": "there is no such file",
        "garbage": "is signed by nobody in",
        "empty": "is no ssh signature",
        "huge": "is no ssh signature",
    }
    assert said[what] in line


@needs_ssh
def test_signers_come_from_outside_of_what_they_vouch_for(root, run, keys):
    assert run("lock", "--sign", keys["ours"])[0] == SAME
    shutil.copy(keys["signers"], root / "tests" / "signers")
    code, _, err = run("verify", ".", "--signers", "tests/signers")
    assert code == USAGE
    assert "a pull request cannot change" in err
    assert "no such file" in run("verify", ".", "--signers", "gone")[2]
    code, _, err = run("verify", f"{HERE}/test_one.snapshot.json", "--signers", keys["signers"])
    assert code == USAGE


@needs_ssh
def test_a_key_that_does_not_sign_is_said_with_its_reason(root, run, keys):
    for key in ("gone", "pytest.ini"):
        code, _, err = run("lock", "--sign", key)
        assert code == USAGE
        assert re.fullmatch(rf"agentreplay: agentreplay\.lock: not signed with {key}: .+\n", err)
    assert not (root / "agentreplay.lock.sig").exists()


def test_without_ssh_keygen_it_is_said_in_words(root, run, monkeypatch, tmp_path):
    assert run("lock")[0] == SAME
    (tmp_path / "signers").touch()
    (root / "agentreplay.lock.sig").write_text("-----BEGIN SSH SIGNATURE-----\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    for words in (["lock", "--sign", "key"], ["verify", ".", "--signers", tmp_path / "signers"]):
        code, _, err = run(*words)
        assert code == USAGE
        assert "ssh-keygen, which is not installed here: install OpenSSH" in err


@needs_ssh
def test_as_a_person_types_it(root, keys):
    def typed(*words):
        return subprocess.run(
            [sys.executable, "-m", "pytest_agentreplay", *map(str, words)], capture_output=True, text=True
        )

    assert typed("lock", "--sign", keys["ours"]).returncode == SAME
    done = typed("verify", ".", "--signers", keys["signers"])
    assert (done.returncode, done.stderr) == (SAME, "")
    assert "signed by ci@example.com" in done.stdout
