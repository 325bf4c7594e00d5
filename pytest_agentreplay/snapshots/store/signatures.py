"""Detached signatures of locks, made and checked by the `ssh-keygen` of this machine, with keys that people have.

Who may sign is told by the caller, who has it from the command line: nothing in a tree says whom to believe about it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_agentreplay.errors import CannotSign, SnapshotEdited, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.snapshots.store import files, locks
from pytest_agentreplay.snapshots.store.display_path import format_path

NAMESPACE = "agentreplay"
SUFFIX = ".sig"
BEGINS = b"-----BEGIN SSH SIGNATURE-----"
LARGEST = 64 * 1024


def beside(lock: Path) -> Path:
    """Where the signature of a lock stands."""
    return lock.with_name(lock.name + SUFFIX)


def sign(lock: Path, key: Path) -> Path:
    """Sign `lock` with the ssh key in the file `key`; returns the file that was written. Raises CannotSign."""
    made = ssh_keygen(["-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute())], locks.content(lock))
    if made.returncode or not made.stdout.startswith(BEGINS):
        raise CannotSign(f"{format_path(lock)}: not signed with {format_path(key)}: {last_line(made)}")
    files.write_whole(beside(lock), made.stdout)
    return beside(lock)


def signer(lock: Path, signers: Path) -> str:
    """Who of the file `signers` (as ssh-keygen's ALLOWED SIGNERS) has signed `lock`.

    Raises SnapshotMissing where no signature stands, SnapshotEdited where it is nobody's of them or of another content.
    """
    signature = beside(lock)
    if not signers.is_file():
        raise CannotSign(f"{format_path(signers)}: there is no such file of allowed signers")
    if signers.resolve().is_relative_to(lock.parent.resolve()):
        raise CannotSign(
            f"{format_path(signers)}: lies below {format_path(lock.parent)}, which it is to vouch for; "
            "keep it where a pull request cannot change it"
        )
    data = locks.content(lock)
    try:
        given = files.read(signature)
    except SnapshotMissing:
        raise SnapshotMissing(
            "the lock is not signed; sign it: agentreplay verify --lock --sign KEY", file=format_path(signature)
        ) from None
    if not given.startswith(BEGINS) or len(given) > LARGEST:
        raise SnapshotUnreadable("is no ssh signature", file=format_path(signature))
    with TemporaryDirectory() as folder:
        copy = Path(folder, signature.name)
        files.write_whole(copy, given.replace(b"\r\n", b"\n"))  # ssh-keygen takes no other line ends
        words = ["-f", str(signers.absolute()), "-s", str(copy)]
        known = ssh_keygen(["-Y", "find-principals", *words], b"")
        name = known.stdout.decode(errors="replace").partition("\n")[0].strip()
        if known.returncode or not name:
            raise SnapshotEdited(f"is signed by nobody in {format_path(signers)}", file=format_path(signature))
        checked = ssh_keygen(["-Y", "verify", *words, "-I", name, "-n", NAMESPACE], data)
        if checked.returncode:
            raise SnapshotEdited(f"is no signature of this lock: {last_line(checked)}", file=format_path(signature))
    return name


def ssh_keygen(words: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen; it may ask for a passphrase at the terminal. Raises CannotSign where there is none."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise CannotSign("signatures are made and checked by ssh-keygen, which is not installed here: install OpenSSH")
    try:
        return subprocess.run([program, *words], input=given, capture_output=True, check=False)  # noqa: S603  fixed words, whole paths
    except OSError as error:
        raise CannotSign(f"{program}: cannot be started: {error.strerror or error}") from None


def last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """What the program said last."""
    said = (done.stderr + done.stdout).decode(errors="replace").split("\n")
    return next((line.strip()[:200] for line in reversed(said) if line.strip()), f"exit code {done.returncode}")
