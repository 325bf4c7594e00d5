"""What git holds of a project: which snapshots and cases differ between two revisions, and the bytes of a file in one.

Files are read out of git's objects. Nothing is checked out, and no filter or program that an attribute names is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from pytest_agentreplay.errors import AgentReplayError, SnapshotUnreadable
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.snapshots.store import files, layout

CASE = "case.yaml"
RANGE = ("...", "..")
DEFAULTS = ("origin/main", "origin/master", "main", "master")
"""Names of default branches, where nobody says which one it is."""
UNSHALLOW = 'git fetch --unshallow origin "+refs/heads/*:refs/remotes/origin/*"'
"""What a clone with a depth lacks: older commits, and all branches but one."""


class UnknownRevision(AgentReplayError):
    """Git knows no revision of this name here."""


class Repository:
    """The git repository around a folder; paths are relative to its top, with slashes."""

    def __init__(self, folder: Path) -> None:
        """Raises AgentReplayError where there is no repository, or no git."""
        self.top = folder
        up = os.fsdecode(self._git("rev-parse", "--show-cdup").rstrip(b"\r\n"))
        self.top = Path(os.path.normpath(folder / up))  # --show-toplevel would follow links, which people did not type

    def read_range(self, words: str) -> tuple[str, str]:
        """Return the two commits of "BASE..HEAD"; of "BASE...HEAD" where they forked and HEAD; "" for the files here.

        Raises AgentReplayError for a word that is no revision.
        """
        mark = next((mark for mark in RANGE if mark in words), "")
        base, _, head = words.partition(mark) if mark else (words, "", "")
        first = self.resolve(base or "HEAD")
        last = self.resolve(head or "HEAD") if mark else ""
        if mark == "...":
            first = self._find_fork(words, first, last)
        return first, last

    def find_base(self, target: str = "") -> tuple[str, str]:
        """Return the name of the branch that HEAD was begun from, and the commit at which it was.

        `target` is the branch that a pull request is for; without it the default branch is meant. Raises
        AgentReplayError where neither is known here.
        """
        names = [f"origin/{target}", target] if target else ["origin/HEAD", *DEFAULTS]
        for name in names:
            try:
                return name, self._find_fork(f"{name}...HEAD", self.resolve(name), self.resolve("HEAD"))
            except UnknownRevision:
                continue
        typed = "name what to compare with: agentreplay summarize BASE..HEAD"
        raise AgentReplayError(
            f"there is no {names[0]} here, nor {', '.join(names[1:])}; {typed}{self._advise_fetching()}"
        )

    def _advise_fetching(self) -> str:
        """Return the end of a message about what a clone with a depth may lack; "" for any other clone."""
        is_shallow = self._git("rev-parse", "--is-shallow-repository").strip() == b"true"
        return f"; a shallow clone lacks older commits and other branches: {UNSHALLOW}" if is_shallow else ""

    def _find_fork(self, words: str, first: str, last: str) -> str:
        """Return the last commit that two commits have in common. Raises AgentReplayError where there is none here."""
        try:
            return self._git("merge-base", first, last).decode().strip()
        except AgentReplayError:
            typed = f"agentreplay summarize {quote_word(words.replace('...', '..'))}"
            advice = self._advise_fetching() or f"; compare the two as they are: {typed}"
            raise AgentReplayError(f"{words}: git knows no commit here that both began from{advice}") from None

    def resolve(self, revision: str) -> str:
        """Return the id of a commit. Raises UnknownRevision."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        try:
            return self._git(*words).decode().strip()
        except AgentReplayError:
            raise UnknownRevision(f"{revision}: git knows no such revision here{self._advise_fetching()}") from None

    def list_changed(self, base: str, head: str = "") -> list[str]:
        """Return the snapshots and cases that differ between two commits; without `head` from the files of today."""
        specs = [f":(top,glob)**/{name}" for name in (f"*{layout.SUFFIX}", CASE)]
        commits = [base, head] if head else [base]
        names = self._git("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", *commits, "--", *specs)
        if not head:
            names += self._git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", *specs)
        paths = {os.fsdecode(name) for name in names.split(b"\0") if name}
        return sorted(path for path in paths if layout.PRIVATE not in PurePosixPath(path).parts)

    def find_renamed(self, base: str, head: str = "") -> dict[str, str]:
        """Return the former path of each snapshot that git takes for a renamed one of `base`."""
        spec = f":(top,glob)**/*{layout.SUFFIX}"
        commits = [base, head] if head else [base]
        diff = ("diff", "-M", "--diff-filter=R", "--name-status", "--no-ext-diff", "-z", *commits, "--", spec)
        with TemporaryDirectory() as folder:
            index = "" if head else str(Path(folder, "index"))
            # In an index of its own, so that files that git does not know count too and the user's stays as it is.
            if index:
                self._git("read-tree", base, index=index)
            if index and self._git("ls-files", "--others", "--exclude-standard", "--", spec, index=index):
                self._git("add", "--intent-to-add", "--", spec, index=index)
            words = [os.fsdecode(name) for name in self._git(*diff, index=index).split(b"\0")]
        return dict(zip(words[2::3], words[1::3], strict=False))

    def read_file(self, commit: str, path: str) -> bytes | None:
        """Return a file as a commit has it, or with "" as it lies on the disk; None where there is none.

        Raises SnapshotUnreadable for one that is too large, and on the disk for what is no plain file.
        """
        if not commit:
            return files.read_if_there(self.top / path)
        try:
            size = int(self._git("cat-file", "-s", f"{commit}:{path}"))
        except AgentReplayError:
            return None
        if size > files.LARGEST:
            raise SnapshotUnreadable(f"is larger than {files.LARGEST:,} bytes in {commit[:12]}", file=path)
        return self._git("cat-file", "blob", f"{commit}:{path}")

    def _git(self, *words: str, index: str = "") -> bytes:
        """Return what git prints. Raises AgentReplayError with the last line of its complaint."""
        program = shutil.which("git")
        if program is None:
            raise AgentReplayError("git is not installed, or not on the PATH")
        env = {**os.environ, "GIT_INDEX_FILE": index} if index else None
        done = subprocess.run([program, *words], cwd=self.top, env=env, capture_output=True, check=False)  # noqa: S603
        if done.returncode:
            complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise AgentReplayError(f"git {words[0]}: {complaint[-1] if complaint else 'failed'}")
        return done.stdout


def explain_no_head(folder: Path) -> str:
    """Return why there is no commit to compare the files of `folder` with; "" where there is one."""
    try:
        Repository(folder).resolve("HEAD")
    except UnknownRevision:
        return "this repository has no commit yet"
    except AgentReplayError as error:
        return "there is no git repository here" if "not a git repository" in str(error) else str(error)
    return ""
