"""The lock of a folder: a line for each snapshot below it, so that one gone, added, renamed or swapped is seen.

    <sha256>  <path from the folder>  <exchanges>

Sorted by path, ended by LF, so that branches merge line by line. The sha256 is that of the snapshot's seal. Paths are
compared with those that are found; none is opened because it stands here. Only `agentreplay verify --lock` writes
the file: what records and renames snapshots would race for it, and say so instead.

A lock may have a detached signature, made and checked by the `ssh-keygen` of this machine, with keys that people have.
Who may sign is named by the caller, who has it from the command line: nothing in a tree says whom to believe about it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.errors import (
    CannotSign,
    CannotWrite,
    SnapshotEdited,
    SnapshotError,
    SnapshotMissing,
    SnapshotUnreadable,
)
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path, layout, reading
from pytest_agentreplay.snapshots.store.projects import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator


# No control characters: a line break in the name of a file would be a line of the lock. What has another meaning on
# Windows is no part of a path either.
_PATH = rf"[^\x00-\x1f\x7f\\:]{{1,4000}}{re.escape(layout.SUFFIX)}"
_LINE = re.compile(rf"([0-9a-f]{{64}})  ({_PATH})  ([0-9]{{1,9}})", re.ASCII)
# https://git-scm.com/docs/git-merge#_how_conflicts_are_presented
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
# Installed packages may bring snapshots of their own, and what is pending is no snapshot yet.
_FOREIGN = frozenset({layout.PRIVATE, ".git", "node_modules"})


@dataclass(frozen=True, slots=True)
class LockEntry:
    """What a lock keeps of one snapshot."""

    digest: str
    exchanges: int


Contents: TypeAlias = dict[str, LockEntry | str]
"""The snapshots below a folder by their paths from there; for one that cannot be locked, the reason."""


def read_folder(folder: Path) -> Contents:
    """Read every snapshot below `folder`."""
    contents: Contents = {}
    for file in snapshots(folder):
        path = file.relative_to(folder).as_posix()
        try:
            entry = LockEntry(*codec.identity(reading.data(file), file=format_path(file)))
            contents[path] = entry if entry.digest else f"{path}: was edited after it was recorded"
        except SnapshotError as error:
            contents[path] = str(error)
    return contents


def snapshots(folder: Path, ending: str | tuple[str, ...] = layout.SUFFIX) -> Iterator[Path]:
    """Yield the files named as snapshots below `folder`, folder by folder. Links to folders are not followed."""
    for here, names in files.walk(folder, is_foreign):
        yield from (here / name for name in names if name.endswith(ending))


def is_foreign(folder: Path) -> bool:
    """Return whether `folder` holds no snapshots of the project."""
    return folder.name in _FOREIGN or files.exists(folder / "pyvenv.cfg")


def content(lock: Path) -> bytes:
    """Return the bytes of a lock, its lines ended by LF whatever the checkout made of them. Raises SnapshotError."""
    return files.read_file(lock).replace(b"\r\n", b"\n")


def parse_lock(data: bytes, file: str) -> dict[str, LockEntry]:
    """Return the entries that `data` holds. Raises SnapshotUnreadable with the line."""
    try:
        lines = data.decode().removesuffix("\n").split("\n") if data else []
    except UnicodeDecodeError as error:
        raise SnapshotUnreadable("this byte is not UTF-8", file=file, place=f"offset {error.start}") from None
    entries: dict[str, LockEntry] = {}
    for number, line in enumerate(lines, 1):
        parsed = parse_line(line)
        if line.startswith(_CONFLICT):
            fault = "unresolved merge conflict; settle the snapshots, then type: agentreplay verify --lock"
        elif parsed is None:
            fault = "no line of a lock: sha256, path below this folder, exchanges"
        elif parsed[0] in entries:
            fault = "the path of an earlier line; type: agentreplay verify --lock"
        else:
            entries |= [parsed]
            continue
        raise SnapshotUnreadable(fault, file=file, place=f"line {number}")
    return entries


def parse_line(line: str) -> tuple[str, LockEntry] | None:
    """Return path and entry of a line; None for a path that is not the same on every system, from the folder down.

    A lock may be a stranger's. Its paths are only compared, but people read them, and other tools may open them.
    """
    if (match := _LINE.fullmatch(line)) is None:
        return None
    path = PurePosixPath(match[2])
    is_below = str(path) == match[2] and not path.is_absolute() and ".." not in path.parts
    return (match[2], LockEntry(match[1], int(match[3]))) if is_below else None


def text(entries: dict[str, LockEntry]) -> str:
    """Return the text of a lock. Raises CannotWrite for a path that not every system can hold."""
    lines = []
    for path, entry in sorted(entries.items()):
        lines.append(f"{entry.digest}  {path}  {entry.exchanges}")
        if parse_line(lines[-1]) != (path, entry):
            raise CannotWrite(f"{ascii(path)[:200]}: no path that a lock can hold; rename its folder")
    return "".join(f"{line}\n" for line in lines)


def write(folder: Path) -> list[str] | int:
    """Lock what lies below `folder`: the number of snapshots, or why not. Raises CannotWrite and SnapshotError."""
    lock, contents = folder / LOCK, read_folder(folder)
    if refusals := [entry for entry in contents.values() if isinstance(entry, str)]:
        return refusals
    entries = {path: entry for path, entry in contents.items() if isinstance(entry, LockEntry)}
    new = text(entries).encode()
    if files.read_if_there(lock) != new:
        files.write_whole(lock, new)
    return len(entries)


def differences(locked: dict[str, LockEntry], contents: Contents) -> list[str]:
    """Return what is not as it was locked, a line for each snapshot."""
    homes = {entry.digest: path for path, entry in locked.items()}
    missing = locked.keys() - contents.keys()
    lines, renamed = [], {}
    for path, entry in contents.items():
        home = homes.get(entry.digest) if isinstance(entry, LockEntry) else None
        if isinstance(entry, str):
            lines.append(entry)
        # A file that was renamed by hand has the digest that it had; `mv` writes another test into it: it is new.
        elif path not in locked and home in missing:
            renamed[home] = path
        elif path not in locked:
            lines.append(f"{path}: is new")
        elif locked[path] != entry:
            is_other = home is None or home == path
            lines.append(f"{path}: is another one" if is_other else f"{path}: holds what was locked as {home}")
    lines += [f"{path}: was renamed to {renamed[path]}" if path in renamed else f"{path}: is gone" for path in missing]
    return sorted(lines)


def check(lock: Path) -> list[str]:
    """Return what below the folder of `lock` is not as it was locked.

    Raises SnapshotError for a lock that cannot be read.
    """
    return differences(parse_lock(content(lock), format_path(lock)), read_folder(lock.parent))


def find_locks(folder: Path) -> list[Path]:
    """Return the locks in `folder` and below it, also those whose snapshots are all gone."""
    return [file for file in snapshots(folder, LOCK) if file.name == LOCK]


def list_faults(lock: Path) -> list[str]:
    """Return what does not fit a lock; nothing where it is gone, its error where it cannot be read."""
    try:
        return check(lock)
    except SnapshotMissing:
        return []
    except SnapshotError as error:
        return [str(error)]


# A signature for another purpose, as of a commit, does not fit: https://man.openbsd.org/ssh-keygen
NAMESPACE = "agentreplay"
SIGNATURE_SUFFIX = ".sig"
BEGINS = b"-----BEGIN SSH SIGNATURE-----"
LARGEST_SIGNATURE = 64 * 1024


def get_signature_path(lock: Path) -> Path:
    """Return where the signature of a lock stands."""
    return lock.with_name(lock.name + SIGNATURE_SUFFIX)


def sign_lock(lock: Path, key: Path) -> Path:
    """Sign `lock` with the ssh key in the file `key`; returns the file that was written. Raises CannotSign."""
    made = run_ssh_keygen(["-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute())], content(lock))
    if made.returncode or not made.stdout.startswith(BEGINS):
        raise CannotSign(f"{format_path(lock)}: not signed with {format_path(key)}: {get_last_line(made)}")
    files.write_whole(get_signature_path(lock), made.stdout)
    return get_signature_path(lock)


def find_signer(lock: Path, signers: Path) -> str:
    """Who of the file `signers` (as ssh-keygen's ALLOWED SIGNERS) has signed `lock`.

    Raises SnapshotMissing where no signature stands, SnapshotEdited where it is nobody's of them or of another content.
    """
    signature = get_signature_path(lock)
    if not signers.is_file():
        raise CannotSign(f"{format_path(signers)}: there is no such file of allowed signers")
    # Who can change the lock could change the list of those who may sign it.
    if signers.resolve().is_relative_to(lock.parent.resolve()):
        raise CannotSign(
            f"{format_path(signers)}: lies below {format_path(lock.parent)}, which it is to vouch for; "
            "keep it where a pull request cannot change it"
        )
    data = content(lock)
    try:
        signed = files.read_file(signature)
    except SnapshotMissing:
        raise SnapshotMissing(
            "the lock is not signed; sign it: agentreplay verify --lock --sign KEY", file=format_path(signature)
        ) from None
    if not signed.startswith(BEGINS) or len(signed) > LARGEST_SIGNATURE:
        raise SnapshotUnreadable("is no ssh signature", file=format_path(signature))
    with TemporaryDirectory() as folder:
        copy = Path(folder, signature.name)
        files.write_whole(copy, signed.replace(b"\r\n", b"\n"))  # ssh-keygen takes no other line ends
        words = ["-f", str(signers.absolute()), "-s", str(copy)]
        # `-Y verify` wants a name, and says of that one alone whether the key is theirs.
        principals = run_ssh_keygen(["-Y", "find-principals", *words], b"")
        name = principals.stdout.decode(errors="replace").partition("\n")[0].strip()
        if principals.returncode or not name:
            raise SnapshotEdited(f"is signed by nobody in {format_path(signers)}", file=format_path(signature))
        checked = run_ssh_keygen(["-Y", "verify", *words, "-I", name, "-n", NAMESPACE], data)
        if checked.returncode:
            raise SnapshotEdited(f"is no signature of this lock: {get_last_line(checked)}", file=format_path(signature))
    return name


def run_ssh_keygen(words: list[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen; it may ask for a passphrase at the terminal. Raises CannotSign where there is none."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise CannotSign("signatures are made and checked by ssh-keygen, which is not installed here: install OpenSSH")
    try:
        return subprocess.run([program, *words], input=data, capture_output=True, check=False)  # noqa: S603  fixed words, whole paths
    except OSError as error:
        raise CannotSign(f"{program}: cannot be started: {error.strerror or error}") from None


def get_last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what the program said last."""
    lines = (done.stderr + done.stdout).decode(errors="replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), f"exit code {done.returncode}")
