"""`agentreplay verify` and `verify --lock`: what they print, their exit codes, and signatures of the real ssh-keygen."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import seal_digest

SAME, USAGE, DAMAGED, NOTHING = 0, 2, 4, 5
HERE = "tests/__agent_snapshots__/test_a"
ONE = f"{HERE}/test_one.snapshot.json"
LOCKED = (SAME, "agentreplay.lock: 2 snapshots locked\n", "")


def snapshot(test, *results):
    calls = (Exchange(ToolCall("lookup"), ToolReply(r), 2 * n + 1, 2 * n + 2) for n, r in enumerate(results))
    return codec.dumps(Run(Header(test), tuple(calls)))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with two snapshots, which is where we stand."""
    place = tmp_path / "project"
    (place / HERE).mkdir(parents=True)
    (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, results in (("test_one", ["1", "2"]), ("test_two", [])):
        text = snapshot(f"tests/test_a.py::{name}", *results)
        (place / HERE / f"{name}.snapshot.json").write_text(text, encoding="utf-8", newline="")
    monkeypatch.chdir(place)
    return place


def edit(file, old='"value": "1"', new='"value": "3"'):
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8", newline="")


def test_verify_compares_with_the_lock_that_lock_writes(root, typed):
    assert typed("verify", "--lock") == typed("verify", "--lock") == LOCKED
    fits = "agentreplay.lock: the snapshots are those that were locked\n"
    verified = typed("verify")
    assert verified == typed("verify", ".")
    assert (verified.code, verified.out.endswith(fits)) == (SAME, True)
    (root / HERE / "test_two.snapshot.json").unlink()
    verified = typed("verify", ".")
    assert verified.code == DAMAGED
    assert f"agentreplay: agentreplay.lock: {HERE}/test_two.snapshot.json: is gone\n" in verified.err
    assert verified.err.endswith("agentreplay: if that is meant: agentreplay verify . --lock\n")
    assert typed("verify")[::2] == (DAMAGED, verified.err)
    assert typed("verify", "--lock").code == typed("verify").code == SAME


def test_a_folder_whose_lock_is_gone_fails_where_locks_are_asked_for(root, typed):
    assert typed("verify").code == SAME
    done = typed("verify", "--locked")
    assert done.code == DAMAGED
    assert "has no agentreplay.lock; to write it: agentreplay verify . --lock" in done.err
    typed("verify", "--lock")
    assert typed("verify", "--locked").code == SAME


def test_a_folder_of_its_own_and_from_another_place(root, typed, monkeypatch):
    monkeypatch.chdir(root / "tests")
    assert typed("verify", "--lock").out == f"{root.as_posix()}/agentreplay.lock: 2 snapshots locked\n"
    told = typed("verify", "__agent_snapshots__", "--lock")
    assert told.out == "__agent_snapshots__/agentreplay.lock: 2 snapshots locked\n"
    (root / HERE / "test_two.snapshot.json").unlink()
    assert typed("verify", root).err.count("is gone") == 2, "the lock in the folder and the one above it"


def test_an_edited_or_broken_snapshot_is_not_locked_and_where_there_is_nothing_to_lock_it_is_said(root, typed):
    edit(root / ONE)
    told = typed("verify", "--lock")
    assert (told.code, told.out, (root / "agentreplay.lock").exists()) == (DAMAGED, "", False)
    assert f"{ONE}: was edited after it was recorded" in told.err
    assert "agentreplay verify FILE --accept-edit --reason WHY" in told.err
    (root / ONE).write_text("{", encoding="utf-8")
    assert typed("verify", "--lock").code == DAMAGED
    shutil.rmtree(root / "tests")
    assert typed("verify", "--lock").code == NOTHING
    for words in (["nowhere", "--lock"], ["--sign", "key"], [".", ".", "--lock"], ["--lock", "--signers", "file"]):
        assert typed("verify", *words).code == USAGE
    (root / "agentreplay.lock").write_text(f"{'a' * 64}  x.snapshot.json  1\n", encoding="utf-8")
    told = typed("verify", ".")
    assert (told.code, "x.snapshot.json: is gone" in told.err) == (DAMAGED, True)
    assert typed("verify", "--lock") == (SAME, "agentreplay.lock: 0 snapshots locked\n", "")


def test_verify_shows_who_has_resealed_and_why(root, typed):
    edit(root / ONE)
    told = typed("verify", "--accept-edit", ONE, "--reason", "the carrier\x1b[31m")
    assert told.code == USAGE, "a reason is one line of plain text"
    assert typed("verify", "--accept-edit", ONE, "--reason", "  the carrier changed its words ").code == SAME
    edit(root / ONE, '"value": "3"', '"value": "4"')
    assert typed("verify", "--accept-edit", ONE, "--reason", "and again").code == SAME
    told = typed("verify", ONE)
    day = r" \(\d{4}-\d\d-\d\d\)"
    whole = f"{re.escape(ONE)}: whole; edited by hand, accepted:"
    wanted = rf"{whole} the carrier changed its words{day}; and again{day}\n"
    assert told.code == SAME
    assert re.fullmatch(wanted, told.out)
    edit(root / ONE, "and again", "and again by Bob")
    edited = (
        f"agentreplay: {ONE}: edited after it was recorded: the revisions; if the edit is meant: agentreplay verify"
    )
    assert typed("verify", ONE) == (DAMAGED, "", f"{edited} {ONE} --accept-edit --reason WHY\n")
    doc = json.loads((root / ONE).read_text("utf-8"))
    sealed = seal_digest.write_sealed(doc, doc.pop("integrity")["revisions"][::-1])
    (root / ONE).write_text(sealed, encoding="utf-8", newline="")
    told = typed("verify", ONE)
    assert (told.code, "revision 1 does not lead to the next one; if it was committed" in told.err) == (DAMAGED, True)


def test_no_reason_or_name_of_a_file_writes_lines_of_its_own(root, typed):
    file = root / ONE
    text = codec.reseal(file.read_text("utf-8").replace('"1"', '"3"'), "x\n::stop-commands::y\x1b[2J", file="f")
    file.write_text(text, encoding="utf-8", newline="")
    (told,) = [line for line in typed("verify", HERE).out.splitlines() if "stop-commands" in line]
    assert told.startswith(f"{ONE}: whole; sealed again: x\\n")
    assert told.endswith("y\\x1b[2J")
    assert typed("verify", "--lock").code == SAME
    if os.name == "nt":
        return
    shutil.copy(file, file.with_name("a\n::error::b.snapshot.json"))
    for words in (["verify"], ["verify", "--lock"]):
        said = typed(*words)
        assert said.code != SAME
        assert not any(line.startswith("::") for line in (*said.err.splitlines(), *said.out.splitlines())), words


def test_a_snapshot_that_changes_meanwhile_is_not_resealed_over(root, typed, monkeypatch):
    reseal = codec.reseal
    edit(root / ONE)

    def slow(*words, **more):
        edit(root / ONE, '"value": "2"', '"value": "5"')  # another process
        return reseal(*words, **more)

    monkeypatch.setattr(codec, "reseal", slow)
    told = typed("verify", "--accept-edit", ONE, "--reason", "why not")
    assert (told.code, "nothing was written" in told.err) == (USAGE, True)
    assert '"value": "5"' in (root / ONE).read_text("utf-8")


# Signatures.

needs_ssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and "CI" not in os.environ, reason="no ssh-keygen; CI must have one"
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A key of ours and a stranger's, outside of the project, and the file that names us."""
    folder = tmp_path_factory.mktemp("keys")
    made = {name: folder / name for name in ("ours", "theirs", "signers")}
    for name in ("ours", "theirs"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(made[name])]
        subprocess.run(words, check=True)
    public = (folder / "ours.pub").read_text("utf-8")
    made["signers"].write_text(f'ci@example.com namespaces="agentreplay" {public}', encoding="utf-8")
    return made


@needs_ssh
def test_a_lock_is_signed_and_the_signature_is_held_against_the_signers(root, typed, keys):
    signed = "agentreplay.lock: 2 snapshots locked\nagentreplay.lock.sig: signed\n"
    assert typed("verify", "--lock", "--sign", keys["ours"]) == (SAME, signed, "")
    told = typed("verify", ".", "--signers", keys["signers"])
    assert (told.code, told.err) == (SAME, "")
    assert told.out.endswith("agentreplay.lock: signed by ci@example.com\n")
    assert {file.name for file in root.iterdir()} == {"agentreplay.lock", "agentreplay.lock.sig", "pytest.ini", "tests"}
    for name in ("agentreplay.lock", "agentreplay.lock.sig"):
        (root / name).write_bytes((root / name).read_bytes().replace(b"\n", b"\r\n"))
    assert typed("verify", ".", "--signers", keys["signers"]).code == SAME, "as another system checks it out"


def other_namespace(lock, key):
    words = ["ssh-keygen", "-Y", "sign", "-n", "file", "-f", str(key)]
    return subprocess.run(words, input=lock.read_bytes(), capture_output=True, check=True).stdout


GARBAGE = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"
UNSIGNED = {
    "a stranger's": "is signed by nobody in",
    "of a namespace": "is no signature of this lock",
    "of other content": "is no signature of this lock",
    "none": "sign it: agentreplay verify --lock --sign KEY",
    "garbage": "is signed by nobody in",
    "empty": "is no ssh signature",
    "huge": "is no ssh signature",
    "of no lock": "there is no such file",
}


@needs_ssh
def test_what_is_not_signed_by_a_signer_is_damaged(root, typed, keys):
    assert typed("verify", "--lock", "--sign", keys["theirs"]).code == SAME
    lock, signature = root / "agentreplay.lock", root / "agentreplay.lock.sig"
    theirs = signature.read_bytes()
    assert typed("verify", "--lock", "--sign", keys["ours"]).code == SAME
    ours = signature.read_bytes()
    data = {"a stranger's": theirs, "of a namespace": other_namespace(lock, keys["ours"]), "garbage": GARBAGE}
    data |= {"empty": b"", "huge": ours + b"\n" * 100_000}
    for what, said in UNSIGNED.items():
        signature.write_bytes(data.get(what, ours))
        match what:
            case "of other content":  # an edit, resealed and locked again, under the old signature
                edit(root / ONE)
                for words in (["verify", ONE, "--accept-edit", "--reason", "why not"], ["verify", "--lock"]):
                    assert typed(*words).code == SAME
            case "none":
                signature.unlink()
            case "of no lock":
                lock.unlink()
        told = typed("verify", ".", "--signers", keys["signers"])
        (line,) = [line for line in told.err.splitlines() if "agentreplay.lock" in line]
        assert (told.code, said in line) == (DAMAGED, True), (what, line)


@needs_ssh
def test_signers_come_from_outside_of_what_they_vouch_for_and_a_key_that_does_not_sign_is_said(root, typed, keys):
    assert typed("verify", "--lock", "--sign", keys["ours"]).code == SAME
    shutil.copy(keys["signers"], root / "tests" / "signers")
    told = typed("verify", ".", "--signers", "tests/signers")
    assert (told.code, "a pull request cannot change" in told.err) == (USAGE, True)
    assert "no such file" in typed("verify", ".", "--signers", "gone").err
    assert typed("verify", ONE, "--signers", keys["signers"]).code == USAGE
    (root / "agentreplay.lock.sig").unlink()
    for key in ("gone", "pytest.ini"):
        told = typed("verify", "--lock", "--sign", key)
        assert told.code == USAGE
        assert re.fullmatch(rf"agentreplay: agentreplay\.lock: not signed with {key}: .+\n", told.err)
    assert not (root / "agentreplay.lock.sig").exists()


def test_without_ssh_keygen_it_is_said_in_words(root, typed, monkeypatch, tmp_path):
    assert typed("verify", "--lock").code == SAME
    (tmp_path / "signers").touch()
    (root / "agentreplay.lock.sig").write_text("-----BEGIN SSH SIGNATURE-----\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    for words in (["verify", "--lock", "--sign", "key"], ["verify", ".", "--signers", tmp_path / "signers"]):
        told = typed(*words)
        assert (told.code, "ssh-keygen, which is not installed here: install OpenSSH" in told.err) == (USAGE, True)
